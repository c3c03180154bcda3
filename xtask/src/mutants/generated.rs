//! `cargo xtask mutants --generated`: cargo-mutants replaces what functions return and turns operators, one
//! at a time, in the core crates; their fast tests must notice.
//!
//! ```text
//!   all of them ── first tests: 2 s each ── what is left ── all tests: 10 s each ── what is left: survivors
//! ```
//!
//! What makes its tests hang counts as killed, and the last line says how many there are. What survives is either
//! given a reason in `survivors.toml`, or an error; and so is a reason for what is killed. A run goes on where the one before was stopped, as long as the
//! sources of what is tested are the same (`target/cargo-mutants`). Defects that need interleavings or weak memory
//! to show are not what these tests can see: they are what the table of seeded defects is for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;
use std::thread::available_parallelism;

use serde::Deserialize;

use crate::sanitize::THREADED;
use crate::shell::{capture, root, this_cargo};
use crate::tools;

/// A part of what there is.
#[derive(Clone, Copy)]
pub struct Shard {
    number: u32,
    of: u32,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = |(number, of): (&str, &str)| Some((number.parse().ok()?, of.parse().ok()?));
        match text.split_once('/').and_then(parse) {
            Some((number, of)) if number < of => Ok(Shard { number, of }),
            _ => Err(format!("{text} is not a part K of N, K/N with K from 0 and below N")),
        }
    }
}

/// A crate that is changed.
struct Changed {
    package: &'static str,
    /// Whose tests are run.
    tested: &'static [&'static str],
    /// Those that come first: a second for building and running all of them.
    first: &'static [&'static str],
}

const CHANGED: [Changed; 4] = [
    Changed {
        package: "woodlot-llfree",
        tested: &["woodlot-llfree"],
        first: &["short", "choice", "found", "trees", "recovery"],
    },
    Changed { package: "woodlot-onewrite", tested: &["woodlot-onewrite"], first: &["short"] },
    Changed {
        package: "woodlot-nbbs",
        tested: &["woodlot-nbbs"],
        first: &["short", "deferred", "published"],
    },
    Changed {
        package: "woodlot-frame",
        // NBBS takes the trait's own batches.
        tested: &["woodlot-frame", "woodlot-llfree", "woodlot-nbbs"],
        // cargo-mutants tries first whether the tests pass unchanged, with this crate's alone.
        first: &[],
    },
];

/// Of the contract suite all geometries but one are left out, and the checks with threads, which take the
/// longest and see least. Threads and a single row are in the short tests, too.
const ONE_GEOMETRY: &str = "--cfg woodlot_one_geometry";

/// Seconds for the first tests of a mutant, and for all of them: what takes longer hangs.
const LIMITS: [&str; 2] = ["15", "120"];

/// What is compiled for the checkers of interleavings only.
const MODELS: &str = "**/models/**";

/// Calls of each of the short tests.
const OPS: &str = "6000";

/// Where the explanations are.
const SURVIVORS: &str = "xtask/src/mutants/survivors.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Survivors {
    /// By their names: what cargo-mutants says, without the place in the file.
    mutants: Vec<String>,
    /// Why they are no defects, or are left to another checker.
    #[serde(rename = "why")]
    _why: String,
    /// Tests with threads may kill them, by chance.
    #[serde(default)]
    by_chance: bool,
}

/// Runs cargo-mutants, and compares what survives with what is explained.
pub fn generated(shard: Option<Shard>, file: Option<&str>) -> Result<String, String> {
    let explanations = explanations()?;
    let explained = |chance: bool| -> BTreeSet<String> {
        let ours = explanations.iter().filter(|of| chance || !of.by_chance);
        ours.flat_map(|of| of.mutants.iter().cloned()).collect()
    };
    let path = tools::with("mutants")?;
    let mut found = Found::default();
    for changed in &CHANGED {
        found.add(mutate(changed, shard, file, &path)?);
    }
    let unexplained: Vec<_> = found.survived.difference(&explained(true)).cloned().collect();
    if !unexplained.is_empty() {
        let count = unexplained.len();
        return Err(format!(
            "{}\n{count} survived, and {SURVIVORS} says not why",
            unexplained.join("\n")
        ));
    }
    let stale: Vec<_> = explained(false).difference(&found.survived).cloned().collect();
    if shard.is_none() && file.is_none() && !stale.is_empty() {
        return Err(format!("{}\nexplained in {SURVIVORS}, but killed", stale.join("\n")));
    }
    Ok(format!(
        "{} of the generated ones killed and {} stopped as they hung, {} survived and are explained",
        found.killed.len(),
        found.hung.len(),
        found.survived.len()
    ))
}

fn explanations() -> Result<Vec<Survivors>, String> {
    #[derive(Deserialize)]
    struct Table {
        survivors: Vec<Survivors>,
    }
    let text =
        fs::read_to_string(root().join(SURVIVORS)).map_err(|e| format!("{SURVIVORS}: {e}"))?;
    let table: Table = toml::from_str(&text).map_err(|e| format!("{SURVIVORS}: {e}"))?;
    Ok(table.survivors)
}

/// What runs of cargo-mutants came to, in its words; `survived` by their names.
#[derive(Default)]
struct Found {
    killed: BTreeSet<String>,
    hung: BTreeSet<String>,
    survived: BTreeSet<String>,
}

impl Found {
    fn add(&mut self, other: Found) {
        self.killed.extend(other.killed);
        self.hung.extend(other.hung);
        self.survived.extend(other.survived);
    }
}

fn mutate(
    changed: &Changed,
    shard: Option<Shard>,
    file: Option<&str>,
    path: &str,
) -> Result<Found, String> {
    let Changed { package, tested, first } = changed;
    let out = root().join("target/cargo-mutants").join(package);
    begin(&out, tested)?;
    let first = ["--lib"].into_iter().chain(first.iter().flat_map(|test| ["--test", test]));
    for (tests, limit) in [first.collect(), vec!["--tests"]].into_iter().zip(LIMITS) {
        keep(&out)?;
        let mut command = this_cargo();
        command.args(["mutants", "--no-times", "--profile", "generated", "--iterate"]);
        command.args(["--timeout", limit, "--jobs"]);
        command.arg(available_parallelism().map_or(1, usize::from).to_string());
        command.args(["--package", package, "--exclude", MODELS]).arg("--output").arg(&out);
        command.args(tested.iter().flat_map(|package| ["--test-package", package]));
        command.args(file.iter().flat_map(|file| ["--file", file]));
        if let Some(Shard { number, of }) = shard {
            command.args(["--shard", &format!("{number}/{of}")]);
        }
        // Of cargo itself, so that no others are compiled.
        command.args(tests.iter().flat_map(|argument| ["--cargo-arg", argument]));
        command.args(["--", "--"]);
        command.args(THREADED.iter().flat_map(|name| ["--skip", name]));
        command.env("PATH", path).env("RUSTFLAGS", ONE_GEOMETRY);
        command.env("WOODLOT_OPS", OPS).current_dir(root());
        let status = command.status().map_err(|error| format!("cargo mutants: {error}"))?;
        match status.code() {
            // None, some missed, some stopped at their time limit; anything else is no run.
            Some(0 | 2 | 3) => {}
            _ => return Err(format!("cargo mutants on {package}: {status}")),
        }
    }
    keep(&out)?;
    let mut command = this_cargo();
    command.args(["mutants", "--list", "--package", package, "--exclude", MODELS]);
    let all = capture(command.env("PATH", path).current_dir(root()))?;
    let mut missed = listed(&out, "missed");
    let survived = named(&all).filter(|(line, _)| missed.remove(*line)).map(|(_, name)| name);
    let survived = survived.collect();
    if let Some(line) = missed.first() {
        return Err(format!("cargo mutants missed what it does not list: {line}"));
    }
    Ok(Found { killed: kept(&out, "caught"), hung: kept(&out, "timeout"), survived })
}

/// A folder for what is found: that of an earlier run, if the sources of what is tested are the same. What
/// was found killed stays so: tests are only added.
fn begin(out: &Path, tested: &[&str]) -> Result<(), String> {
    let folder = |package: &&str| package.replacen("woodlot-", "", 1) + "/src";
    let sources = ["frame/src".into()].into_iter().chain(tested.iter().map(folder));
    let mut files = Command::new("sh");
    files.args([
        "-c",
        r#"git ls-files -co --deduplicate --exclude-standard ':!*/models/*' "$@" | git hash-object --stdin-paths"#,
    ]);
    let sources = capture(files.arg("sh").args(sources).current_dir(root()))?;
    let stamp = out.join("sources");
    if fs::read_to_string(&stamp).is_ok_and(|earlier| earlier == sources) {
        return Ok(());
    }
    let _ = fs::remove_dir_all(out);
    let write = || fs::create_dir_all(out).and_then(|()| fs::write(&stamp, sources));
    write().map_err(|error| format!("{}: {error}", out.display()))
}

/// Adds what cargo-mutants has listed to what was found before, and tells it that what hangs need not again:
/// each run of it begins new lists, and goes by those of the run before.
fn keep(out: &Path) -> Result<(), String> {
    let write = |name: &str, lines: &BTreeSet<String>| {
        let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
        fs::write(out.join(name), text).map_err(|error| format!("{name}: {error}"))
    };
    for name in ["caught", "timeout"] {
        let mut lines = kept(out, name);
        lines.extend(listed(out, name));
        write(name, &lines)?;
    }
    if out.join("mutants.out").exists() {
        let mut done = kept(out, "caught");
        done.extend([kept(out, "timeout"), listed(out, "previously_caught")].into_iter().flatten());
        write("mutants.out/previously_caught.txt", &done)?;
    }
    Ok(())
}

/// The lines that were kept under this name.
fn kept(out: &Path, name: &str) -> BTreeSet<String> {
    lines_of(&out.join(name))
}

/// The lines of a list of the last run of cargo-mutants. Where no file fits there are no lists.
fn listed(out: &Path, name: &str) -> BTreeSet<String> {
    lines_of(&out.join("mutants.out").join(format!("{name}.txt")))
}

fn lines_of(path: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(String::from).collect()
}

/// All that cargo-mutants thinks of, with names that stay when the file changes elsewhere:
/// `llfree/src/rows.rs:70:24: replace < with == in row_mask` without the place, and, if it has said that
/// before, with how often: `(2)`.
fn named(all: &str) -> impl Iterator<Item = (&str, String)> {
    let mut times = BTreeMap::new();
    all.lines().map(move |line| {
        let name = match line.splitn(4, ':').collect::<Vec<_>>()[..] {
            [file, _, _, what] => format!("{file}:{what}"),
            _ => line.into(),
        };
        let times = times.entry(name.clone()).and_modify(|times| *times += 1).or_insert(1);
        (line, if *times == 1 { name } else { format!("{name} ({times})") })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_survivor_has_a_reason() {
        assert!(explanations().is_ok());
    }

    #[test]
    fn names_have_no_places_and_are_different() {
        let lines = "llfree/src/rows.rs:70:24: replace < with == in row_mask\n\
                     llfree/src/rows.rs:71:24: replace < with == in row_mask\n\
                     a.rs:1:2: replace Some(a) -> b::C with c: d";
        let names: Vec<String> = named(lines).map(|(_, name)| name).collect();
        let expected = [
            "llfree/src/rows.rs: replace < with == in row_mask",
            "llfree/src/rows.rs: replace < with == in row_mask (2)",
            "a.rs: replace Some(a) -> b::C with c: d",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_shard_is_a_part_of_the_whole() {
        assert!("0/4".parse::<Shard>().is_ok() && "3/4".parse::<Shard>().is_ok());
        assert!(["4/4", "1", "a/b", ""].iter().all(|text| text.parse::<Shard>().is_err()));
    }
}
