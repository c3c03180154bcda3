//! `cargo xtask crash`: processes that share a zone, killed at any moment. What is done and judged: `woodlot crash`, and for the
//! one-write engine its test `killed`, of which `cargo test` is the short form. The mistakes that processes can be told to make
//! must be found first.

use std::process::Command;

use crate::outcome::{Length, Outcome};
use crate::shell::{capture, capture_both, this_cargo};

/// Kills of a run.
const KILLS: u32 = 10_000;
const KILLS_SHORT: u32 = 200;
/// With a table of the owners, with intents, and with both, one in so many of these.
const PART: u32 = 5;

/// The mistakes, as `woodlot crash --defect` names them, whether with intents, and what is said of each.
const DEFECTS: [(&str, bool, &str); 6] = [
    ("free-twice", false, "process"),
    ("claim", false, "process"),
    ("forget", false, "frames are lost, and the calls of the killed processes concerned"),
    ("share-slots", true, "frames are lost, and no record of a slot names them"),
    ("reuse-slots", true, "frames are lost, and no record of a slot names them"),
    ("unresolved", true, "frames are lost, and no record of a slot names them"),
];

/// Sees that the mistakes are found, and kills.
pub fn crash(length: Length) -> Result<Outcome, String> {
    for (defect, intents, words) in DEFECTS {
        let mut command = woodlot(&["--kills", "400", "--processes", "2-3", "--defect", defect]);
        command.args(intents.then_some("--intents"));
        match capture_both(&mut command) {
            Err(said) if said.contains(words) && said.contains("the same again") => {}
            Err(said) => return Err(format!("--defect {defect}: {said}")),
            Ok(_) => return Err(format!("--defect {defect} was not found")),
        }
    }
    let kills = if length.short { KILLS_SHORT } else { KILLS };
    let said = capture(&mut woodlot(&["--kills", &kills.to_string()]))?;
    print!("{said}");
    let part = (kills / PART).to_string();
    let owned = capture(&mut woodlot(&["--owners", "--kills", &part]))?;
    print!("{owned}");
    let with_owners = owned.lines().rev().nth(1).unwrap_or_default();
    let intended = capture(&mut woodlot(&["--intents", "--kills", &part]))?;
    print!("{intended}");
    let both = capture(&mut woodlot(&["--owners", "--intents", "--kills", &part]))?;
    print!("{both}");
    let of_intents = [intended, both].map(|said| {
        // As above, and below them what was in doubt.
        let mut lines = said.lines().rev();
        let [in_doubt, lost, killed] = [0; 3].map(|_| lines.next().unwrap_or_default());
        format!("{killed}; {lost}; {in_doubt}")
    });
    let [with_intents, with_both] = of_intents;
    let one_write = if length.short { String::new() } else { one_write(kills)? };
    // The last two lines are of the whole run.
    let mut lines = said.lines().rev();
    let [second, first] = [lines.next(), lines.next()].map(Option::unwrap_or_default);
    let all = DEFECTS.len();
    Ok(Outcome::Ran(format!(
        "{first}; {second}; with owners {with_owners}; with intents {with_intents}; with both {with_both}; {all} of {all} seeded defects found{one_write}"
    )))
}

/// The same of processes that share a zone of the one-write engine.
fn one_write(kills: u32) -> Result<String, String> {
    let mut command = this_cargo();
    command.args(["test", "--quiet", "--release", "-p", "woodlot-onewrite", "--test", "killed"]);
    let said =
        capture(command.args(["--", "--nocapture"]).env("WOODLOT_KILLS", kills.to_string()))?;
    let figure = said.lines().find(|line| line.starts_with("one-write: "));
    figure.map(|line| format!("; {line}")).ok_or_else(|| format!("no figure in {said}"))
}

fn woodlot(args: &[&str]) -> Command {
    let mut command = this_cargo();
    command.args(["run", "--quiet", "--release", "-p", "woodlot-cli", "--", "crash"]).args(args);
    command
}
