//! `cargo xtask crash`: processes that share a zone, killed at any moment. What is done and judged: `woodlot crash`. The mistakes that
//! processes can be told to make must be found first.

use std::process::Command;

use crate::outcome::{Length, Outcome};
use crate::shell::{capture, capture_both, this_cargo};

/// Kills of a run.
const KILLS: u32 = 10_000;
const KILLS_SHORT: u32 = 200;
/// With a table of the owners, with intents, and with both, one in so many of these.
const PART: u32 = 5;

/// A zone of the one-write engine, and one of LLFree with intents.
const ONE_WRITE: [&str; 2] = ["--engine", "onewrite"];
const INTENTS: [&str; 1] = ["--intents"];

/// The mistakes, as `woodlot crash --defect` names them, in which zone, and what is said of each.
const DEFECTS: [(&str, &[&str], &[&str]); 9] = [
    ("free-twice", &[], &TWO_OWNERS),
    ("claim", &[], &TWO_OWNERS),
    ("forget", &[], &LOST),
    ("free-twice", &ONE_WRITE, &TWO_OWNERS),
    ("claim", &ONE_WRITE, &TWO_OWNERS),
    ("forget", &ONE_WRITE, &LOST),
    ("share-slots", &INTENTS, &UNNAMED),
    ("reuse-slots", &INTENTS, &UNNAMED),
    ("unresolved", &INTENTS, &UNNAMED),
];
/// What a process has found, or who judges.
const TWO_OWNERS: [&str; 2] = ["woodlot: process ", "frames were free that processes owned"];
const LOST: [&str; 1] = ["frames are lost, and the calls of the killed processes concerned"];
const UNNAMED: [&str; 1] = ["frames are lost, and no record of a slot names them"];

/// Sees that the mistakes are found, and kills.
pub fn crash(length: Length) -> Result<Outcome, String> {
    for (defect, zone, words) in DEFECTS {
        let mut command = woodlot(&["--kills", "400", "--processes", "2-3", "--defect", defect]);
        command.args(zone);
        match capture_both(&mut command) {
            Err(said)
                if words.iter().any(|words| said.contains(words))
                    && said.contains("the same again") => {}
            Err(said) => return Err(format!("--defect {defect}: {said}")),
            Ok(_) => return Err(format!("--defect {defect} was not found")),
        }
    }
    let kills = if length.short { KILLS_SHORT } else { KILLS };
    // Its last lines are of the whole run: who was killed, and what was lost; with intents, what was in doubt.
    let run = |kills: u32, zone: &[&str], lines: usize| -> Result<String, String> {
        let said = capture(woodlot(&["--kills", &kills.to_string()]).args(zone))?;
        print!("{said}");
        let last: Vec<_> = said.lines().rev().take(lines).collect();
        Ok(last.into_iter().rev().collect::<Vec<_>>().join("; "))
    };
    let (llfree, one_write) = (run(kills, &[], 2)?, run(kills, &ONE_WRITE, 2)?);
    let owners = run(kills / PART, &["--owners"], 2)?;
    let intents = run(kills / PART, &INTENTS, 3)?;
    let both = run(kills / PART, &["--owners", "--intents"], 3)?;
    let all = DEFECTS.len();
    Ok(Outcome::Ran(format!(
        "{llfree}; with owners {owners}; with intents {intents}; with both {both}; one-write {one_write}; {all} of {all} seeded defects found"
    )))
}

fn woodlot(args: &[&str]) -> Command {
    let mut command = this_cargo();
    command.args(["run", "--quiet", "--release", "-p", "woodlot-cli", "--", "crash"]).args(args);
    command
}
