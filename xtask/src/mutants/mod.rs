//! `cargo xtask mutants`: the checkers must bite. Each defect of the table is seeded into a copy of the
//! core crates' sources, and the test that is named for it must fail there.
//!
//! ```text
//!   frame.toml, llfree.toml, … ── table: what is changed, and which test dies of it
//!        scratch ── the copy: apply ─► judge: build, run the one test ─► killed or survived
//!        survivors.toml ◄─ generated: what cargo-mutants thinks of, and nothing kills
//! ```
//!
//! A defect counts as killed only if its test was built, ran, failed, and said what the table says of it;
//! and each of the tests must pass where nothing is changed. A defect that does not compile or whose
//! text is not found is an error, and one that hangs has survived.

mod generated;
mod judge;
mod scratch;
mod table;

use std::fs;
use std::time::Instant;

use clap::Args;

pub use generated::generated;

use generated::Shard;
use judge::Verdict;
use scratch::Scratch;
use table::{Mutant, Test};

use crate::outcome::{Length, Outcome};
use crate::shell::root;
use crate::trust::PAGE;

/// Which defects are seeded.
#[derive(Args)]
pub struct Mutants {
    #[command(flatten)]
    length: Length,
    /// Only the defect of this name; may be given again
    #[arg(long, value_name = "NAME", conflicts_with = "short")]
    only: Vec<String>,
    /// Print the table as it stands in docs/trust.md, and run nothing
    #[arg(long, conflicts_with_all = ["short", "only"])]
    list: bool,
    /// Write the table into docs/trust.md, and run nothing
    #[arg(long, conflicts_with_all = ["short", "only", "list"])]
    write: bool,
    /// What cargo-mutants thinks of, instead: hours
    #[arg(long, conflicts_with_all = ["short", "only", "list", "write"])]
    generated: bool,
    /// Of what cargo-mutants thinks of, part K of N, from 0
    #[arg(long, value_name = "K/N", requires = "generated")]
    shard: Option<Shard>,
    /// Of what cargo-mutants thinks of, only in files of this name
    #[arg(long, value_name = "GLOB", requires = "generated")]
    file: Option<String>,
}

impl From<Length> for Mutants {
    /// All of the table, or what CI seeds of it.
    fn from(length: Length) -> Self {
        Mutants {
            length,
            only: Vec::new(),
            list: false,
            write: false,
            generated: false,
            shard: None,
            file: None,
        }
    }
}

/// Where the table stands in `docs/trust.md`.
const MARKS: [&str; 2] = ["<!-- mutants: begin -->\n", "<!-- mutants: end -->\n"];

/// Seeds defects, or says which there are.
pub fn mutants(options: &Mutants) -> Result<Outcome, String> {
    if options.generated {
        return generated(options.shard, options.file.as_deref()).map(Outcome::Ran);
    }
    let all = table::read()?;
    if options.list {
        print!("{}", markdown(&all));
        return Ok(Outcome::done());
    }
    if options.write {
        let path = root().join(PAGE);
        let error = |error| format!("{}: {error}", path.display());
        let text = fs::read_to_string(&path).map_err(error)?;
        fs::write(&path, with_table(&text, &markdown(&all))?).map_err(error)?;
        return Ok(Outcome::done());
    }
    let chosen: Vec<&Mutant> = all.iter().filter(|mutant| options.takes(mutant)).collect();
    if let Some(none) = options.only.iter().find(|name| all.iter().all(|m| m.name != **name)) {
        return Err(format!("there is no mutant {none}"));
    }
    seed(&chosen)
}

impl Mutants {
    fn takes(&self, mutant: &Mutant) -> bool {
        (mutant.short || !self.length.short)
            && (self.only.is_empty() || self.only.contains(&mutant.name))
    }
}

/// Runs the tests as they are, and then each on its defect.
fn seed(mutants: &[&Mutant]) -> Result<Outcome, String> {
    let scratch = Scratch::sync()?;
    let mut tests: Vec<&Test> = mutants.iter().map(|mutant| &mutant.test).collect();
    tests.sort();
    tests.dedup();
    for alike in tests.chunk_by(|one, other| one.place == other.place) {
        let start = Instant::now();
        judge::all_pass(&scratch, alike)?;
        let seconds = start.elapsed().as_secs_f64();
        println!("unchanged: {} tests of {} pass, {seconds:.1} s", alike.len(), alike[0].place);
    }
    let width = |of: fn(&Mutant) -> usize| mutants.iter().map(|m| of(m)).max().unwrap_or(0);
    let (names, tests) = (width(|m| m.name.len()), width(|m| m.test.to_string().len()));
    let (mut killed, mut wrong) = (0, Vec::new());
    for mutant in mutants {
        let start = Instant::now();
        let said = match judge::judge(&scratch, mutant) {
            Ok(verdict) => {
                killed += usize::from(verdict == Verdict::Killed);
                verdict.to_string()
            }
            Err(why) => {
                wrong.push(why);
                "could not be seeded".into()
            }
        };
        let seconds = start.elapsed().as_secs_f64();
        let test = mutant.test.to_string();
        println!("{:names$}  {test:tests$}  {said}, {seconds:.1} s", mutant.name);
    }
    let survived = mutants.len() - killed - wrong.len();
    let line = format!("{killed} killed, {survived} survived");
    match &wrong[..] {
        [] if survived == 0 => Ok(Outcome::Ran(line)),
        [] => Err(line),
        wrong => Err(format!("{}\n{line}, {} could not be seeded", wrong.join("\n"), wrong.len())),
    }
}

/// The table, for people.
fn markdown(mutants: &[Mutant]) -> String {
    let row = |mutant: &Mutant| {
        let Mutant { name, file, what, test, .. } = mutant;
        let file = file.replace("/src/", "/");
        format!("| `{name}` | `{file}` | {what} | `{test}` |\n")
    };
    let head = "| mutant | in | what is wrong | killed by |\n|---|---|---|---|\n";
    mutants.iter().map(row).fold(head.into(), |all, row| all + &row)
}

/// A document with this table between its marks.
fn with_table(document: &str, table: &str) -> Result<String, String> {
    let [begin, end] = MARKS;
    let parts = document.split_once(begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(end)?;
        Some(format!("{before}{begin}{table}{end}{after}"))
    });
    parts.ok_or_else(|| format!("{PAGE} has not the lines {begin}{end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_this_table() {
        let text = fs::read_to_string(root().join(PAGE)).expect("it is there");
        let table = markdown(&table::read().expect("the tables can be read"));
        let right = with_table(&text, &table).expect("the marks are there");
        assert!(right == text, "cargo xtask mutants --write");
    }

    #[test]
    fn a_table_replaces_the_one_before() {
        let [begin, end] = MARKS;
        let before = format!("a\n{begin}old\n{end}b\n");
        assert_eq!(with_table(&before, "new\n"), Ok(format!("a\n{begin}new\n{end}b\n")));
        assert!(with_table("no marks", "new\n").is_err());
    }
}
