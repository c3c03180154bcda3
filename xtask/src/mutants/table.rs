//! The table of defects.
//!
//! ```text
//!   [[mutant]]
//!   name = 'lost_row_says_done'
//!   what = 'a claim that loses its second row says that it has both'
//!   file = 'llfree/src/rows.rs'
//!   edits = [['return Err(self.turn_all_back(rows, done, turn));', 'return Ok(());']]
//!   test = 'model several_rows::undo_by_one'
//!   says = 'shares'
//!   short = true
//! ```
//!
//! Each edit is a text that stands exactly once in the file, and what takes its place; `also` has those in
//! a second file. The test is the checker (see [`Checker`]) and the name of the test; it is one of the crate
//! that is changed, unless `tests` names another (`llfree`). `says` is a part of what it must say when it
//! fails.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::iter;
use std::path::Path;

use serde::Deserialize;

use crate::shell::root;

/// The tables, by the crate that is changed.
const TABLES: [&str; 15] = [
    "xtask/src/mutants/frame.toml",
    "xtask/src/mutants/llfree.toml",
    "xtask/src/mutants/llfree_isolation.toml",
    "xtask/src/mutants/nbbs.toml",
    "xtask/src/mutants/onewrite.toml",
    "xtask/src/mutants/zone.toml",
    "xtask/src/mutants/pool.toml",
    "xtask/src/mutants/domains.toml",
    "xtask/src/mutants/stacks.toml",
    "xtask/src/mutants/compact.toml",
    "xtask/src/mutants/kmem.toml",
    "xtask/src/mutants/kmem_vmblk.toml",
    "xtask/src/mutants/kmem_models.toml",
    "xtask/src/mutants/malloc.toml",
    "xtask/src/mutants/kernel.toml",
];

/// One defect.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    pub name: String,
    /// What is wrong.
    pub what: String,
    /// The source file that is changed, from the root of the repository.
    pub file: String,
    edits: Edits,
    /// Another file, which is changed as well.
    also: Option<Change>,
    #[serde(rename = "test")]
    said: String,
    /// The crate whose test it is, if that is another one.
    tests: Option<String>,
    #[serde(skip)]
    pub test: Test,
    /// What the test says when it fails.
    pub says: String,
    /// Does a short run seed it?
    #[serde(default)]
    pub short: bool,
}

/// Texts, each of which stands once, and what takes their place.
type Edits = Vec<(String, String)>;

/// What is changed in one more file.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Change {
    file: String,
    edits: Edits,
}

/// A test by its full name, and where it is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Test {
    pub place: Place,
    pub name: String,
}

/// What is built at once.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Place {
    pub checker: Checker,
    /// The package of the test.
    pub package: String,
}

/// What runs a test.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Checker {
    /// `unit`: the tests within the crate.
    #[default]
    Unit,
    /// `model`: the explorer of interleavings.
    Model,
    /// `loom`.
    Loom,
    /// `miri`: the short tests under Miri.
    Miri,
    /// `tsan`: the short tests under the thread sanitizer.
    Tsan,
    /// `asan`: the same under the address sanitizer.
    Asan,
    /// Any other word: that file of the crate's `tests`.
    File(String),
}

impl Checker {
    fn named(name: &str) -> Self {
        match name {
            "unit" => Checker::Unit,
            "model" => Checker::Model,
            "loom" => Checker::Loom,
            "miri" => Checker::Miri,
            "tsan" => Checker::Tsan,
            "asan" => Checker::Asan,
            file => Checker::File(file.into()),
        }
    }

    /// What the names of its tests begin with, which the table leaves out.
    pub fn prefix(&self) -> &'static str {
        match self {
            Checker::Model | Checker::Loom => "models::scenarios::",
            _ => "",
        }
    }
}

impl Display for Checker {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Checker::Unit => "unit",
            Checker::Model => "model",
            Checker::Loom => "loom",
            Checker::Miri => "miri",
            Checker::Tsan => "tsan",
            Checker::Asan => "asan",
            Checker::File(file) => file,
        })
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.package, self.checker)
    }
}

impl Display for Test {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.place.checker, self.name)
    }
}

/// Reads the tables.
pub fn read() -> Result<Vec<Mutant>, String> {
    #[derive(Deserialize)]
    struct Table {
        mutant: Vec<Mutant>,
    }
    let mut all = Vec::new();
    for path in TABLES {
        let text = fs::read_to_string(root().join(path)).map_err(|e| format!("{path}: {e}"))?;
        let table: Table = toml::from_str(&text).map_err(|e| format!("{path}: {e}"))?;
        for mut mutant in table.mutant {
            mutant.test = test(&mutant).ok_or_else(|| format!("{path}: {}: test", mutant.name))?;
            all.push(mutant);
        }
    }
    let mut names = BTreeSet::new();
    match all.iter().find(|mutant| !names.insert(mutant.name.clone())) {
        Some(twice) => Err(format!("two mutants are called {}", twice.name)),
        None => Ok(all),
    }
}

fn test(mutant: &Mutant) -> Option<Test> {
    let (checker, name) = mutant.said.split_once(' ')?;
    let (changed, _) = mutant.file.split_once('/')?;
    let folder = mutant.tests.as_deref().unwrap_or(changed);
    let place = Place { checker: Checker::named(checker), package: format!("woodlot-{folder}") };
    Some(Test { place, name: name.into() })
}

impl Mutant {
    /// The files of a copy of the repository that are changed: their names, and what is in them with the
    /// defect.
    ///
    /// # Errors
    /// A text is not there exactly once.
    pub fn changed(&self, copy: &Path) -> Result<Vec<(&str, String)>, String> {
        let also = self.also.iter().map(|change| (&change.file, &change.edits));
        let changes = iter::once((&self.file, &self.edits)).chain(also);
        changes.map(|(file, edits)| Ok((file.as_str(), self.apply(copy, file, edits)?))).collect()
    }

    fn apply(&self, copy: &Path, file: &str, edits: &Edits) -> Result<String, String> {
        let mut source =
            source(copy, file).map_err(|why| format!("mutant {}: {why}", self.name))?;
        for (text, instead) in edits {
            let times = source.matches(text.as_str()).count();
            if times != 1 || text == instead {
                return Err(format!(
                    "mutant {}: {file} has this text {times} times, not once to be changed: {text}",
                    self.name
                ));
            }
            source = source.replacen(text.as_str(), instead, 1);
        }
        Ok(source)
    }
}

/// A source file.
pub fn source(copy: &Path, file: &str) -> Result<String, String> {
    fs::read_to_string(copy.join(file)).map_err(|error| format!("{file}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edit_fits_its_file() {
        let all = read().expect("the tables can be read");
        for mutant in &all {
            let changed = mutant.changed(root()).expect("each text is there once");
            assert!(
                changed.iter().all(|(file, text)| source(root(), file).is_ok_and(|is| is != *text))
            );
        }
        let of = |folder: &str| all.iter().filter(|m| m.file.starts_with(folder)).count();
        assert!(of("llfree/src/") >= 25 && of("nbbs/src/") >= 8, "as many as are asked for");
        assert!(of("frame/src/") >= 12, "as many as are asked for");
        assert!(of("zone/src/") >= 10, "as many as are asked for");
        assert!(of("kmem/src/") >= 25, "as many as are asked for");
        assert!(all.iter().filter(|mutant| mutant.short).count() >= 8);
    }

    #[test]
    fn a_text_must_be_there_once() {
        let mut mutants = read().expect("the tables can be read");
        let mutant = &mut mutants[0];
        for text in ["no text of any file", "{"] {
            mutant.edits = vec![(text.into(), "else".into())];
            let why = mutant.changed(root()).expect_err("it is not there once");
            assert!(why.contains(&mutant.name) && why.contains(&mutant.file) && why.contains(text));
        }
    }
}
