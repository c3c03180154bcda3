//! `cargo xtask storm`: a million aborted sequences in the heap of a program. What is done and judged: the test `storm` of
//! `woodlot-malloc`, whose short form is among the tests.

use crate::outcome::Outcome;
use crate::shell::{tee, this_cargo};

/// Aborted sequences of the longest storm, in which each abort is followed by a move to another CPU.
const ABORTS: u64 = 1_000_000;

/// Runs the storms.
pub fn storm() -> Result<Outcome, String> {
    let mut command = this_cargo();
    command.args(["test", "--quiet", "--profile", "checked", "-p", "woodlot-malloc"]);
    command.args(["--test", "storm", "--", "--nocapture"]);
    command.env("WOODLOT_ABORTS", ABORTS.to_string());
    let said = tee(&mut command)?;
    let storms = storms(&said);
    let aborts: u64 = storms.iter().map(|storm| storm.1).sum();
    if aborts < ABORTS {
        return Err(format!("no more than {aborts} sequences were aborted"));
    }
    let named: Vec<_> = storms.iter().map(|(name, aborts, _)| format!("{name} {aborts}")).collect();
    let children: u64 = storms.iter().map(|storm| storm.2).sum();
    Ok(Outcome::Ran(format!(
        "{aborts} sequences were aborted ({}), {children} children, 0 corruptions",
        named.join(", ")
    )))
}

/// The storms that were: their names, aborted sequences and children. Without restartable sequences there are none.
fn storms(said: &str) -> Vec<(&str, u64, u64)> {
    said.lines().filter_map(storm_of).filter(|storm| storm.1 > 0).collect()
}

fn storm_of(line: &str) -> Option<(&str, u64, u64)> {
    let (name, figures) = line.split_once(": ")?;
    let (aborts, rest) = figures.split_once(" sequences were aborted in ")?;
    let children = rest.split_once(" steps, ")?.1.strip_suffix(" children")?;
    Some((name, aborts.parse().ok()?, children.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storms_are_found() {
        let said = "running 1 test\nmoved: 3001 sequences were aborted in 14480 steps, 8 children\n\
                    stolen from: 75 sequences were aborted in 2 steps, 1 children\n\
                    moved: 0 sequences were aborted in 14480 steps, 8 children\n";
        assert_eq!(storms(said), [("moved", 3001, 8), ("stolen from", 75, 1)]);
    }
}
