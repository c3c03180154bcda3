//! `cargo xtask crash`: processes that share a zone, killed at any moment. What is done and judged: `woodlot crash`.
//! The mistakes that its processes can be told to make must be found first.

use std::process::Command;

use crate::outcome::{Length, Outcome};
use crate::shell::{capture, capture_both, this_cargo};

/// Kills of a run.
const KILLS: u32 = 10_000;
const KILLS_SHORT: u32 = 200;
/// With a table of the owners, one in so many of these.
const OWNED: u32 = 5;

/// The mistakes, as `woodlot crash --defect` names them, and what is said of each.
const DEFECTS: [(&str, &str); 3] = [
    ("free-twice", "process"),
    ("claim", "process"),
    ("forget", "frames are lost, and the calls of the killed processes concerned"),
];

/// Sees that the mistakes are found, and kills.
pub fn crash(length: Length) -> Result<Outcome, String> {
    for (defect, words) in DEFECTS {
        let mut command = woodlot(&["--kills", "400", "--processes", "2-3", "--defect", defect]);
        match capture_both(&mut command) {
            Err(said) if said.contains(words) && said.contains("the same again") => {}
            Err(said) => return Err(format!("--defect {defect}: {said}")),
            Ok(_) => return Err(format!("--defect {defect} was not found")),
        }
    }
    let kills = if length.short { KILLS_SHORT } else { KILLS };
    let said = capture(&mut woodlot(&["--kills", &kills.to_string()]))?;
    print!("{said}");
    let owned = capture(&mut woodlot(&["--owners", "--kills", &(kills / OWNED).to_string()]))?;
    print!("{owned}");
    let with_owners = owned.lines().rev().nth(1).unwrap_or_default();
    // The last two lines are of the whole run.
    let mut lines = said.lines().rev();
    let [second, first] = [lines.next(), lines.next()].map(Option::unwrap_or_default);
    let all = DEFECTS.len();
    Ok(Outcome::Ran(format!(
        "{first}; {second}; with owners {with_owners}; {all} of {all} seeded defects found"
    )))
}

fn woodlot(args: &[&str]) -> Command {
    let mut command = this_cargo();
    command.args(["run", "--quiet", "--release", "-p", "woodlot-cli", "--", "crash"]).args(args);
    command
}
