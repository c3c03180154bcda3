//! `cargo xtask loom` and `model`: the models of the core crates under a checker of interleavings.

use clap::Args;

use crate::outcome::{Length, Outcome};
use crate::shell::{CHECKING, passed_in, tee, this_cargo};

/// The crates that keep the contract and have models.
pub const ENGINES: [&str; 3] = ["woodlot-llfree", "woodlot-onewrite", "woodlot-nbbs"];

/// What has models beside them: the tags of a zone's owners, and the kernel memory allocator.
const MODELS: [&str; 2] = ["woodlot-owners", "woodlot-kmem"];

/// Of these, one file each has models, which are for the explorer: loom does not know `membarrier`.
pub const EXPLORED: [&str; 3] = ["woodlot-pool", "woodlot-pool-place", "woodlot-malloc"];

/// Executions after which a short run cuts off a scenario under loom, for each thread that comes first: the
/// same ones on every machine.
const LOOM_SHORT: &str = "500";
/// States after which a short run cuts off a scenario under the explorer.
const STATES_SHORT: &str = "100000";

/// What a checker looks at, and how far it goes.
#[derive(Args)]
pub struct Models {
    #[command(flatten)]
    length: Length,
    /// Only scenarios whose name contains this
    name: Option<String>,
}

impl From<Length> for Models {
    fn from(length: Length) -> Self {
        Self { length, name: None }
    }
}

/// The models of the engines under one checker, in a target folder of its own: the flag
/// changes every crate.
pub fn models(cfg: &str, what: &Models) -> Result<Outcome, String> {
    let mut command = this_cargo();
    command.arg("test").args(CHECKING).args(["--release", "--lib"]);
    command.args(ENGINES.iter().chain(&MODELS).flat_map(|krate| ["-p", krate]));
    if cfg == "woodlot_explore" {
        command.args(EXPLORED.iter().flat_map(|krate| ["-p", krate]));
    }
    command.args(["--", "--nocapture", "--test-threads", "2"]);
    command.arg(what.name.as_deref().unwrap_or("models"));
    command.env("RUSTFLAGS", format!("--cfg {cfg}"));
    command.env("CARGO_TARGET_DIR", format!("target/{cfg}"));
    command.env("WOODLOT_FULL", if what.length.short { "0" } else { "1" });
    if what.length.short {
        command.env("LOOM_MAX_PERMUTATIONS", LOOM_SHORT).env("WOODLOT_STATES", STATES_SHORT);
    }
    let in_part = what.length.short || what.name.is_some();
    totals(&tee(&mut command)?, if in_part { 0 } else { LEAST }).map(Outcome::Ran)
}

/// The least executions or states of a full run: loom is cut off by the clock, which may be too early.
const LEAST: u64 = 1_000_000;

/// The sum of what the drivers say for each scenario; an error if there was none, or one is not told, or there
/// are fewer executions or states than `least`.
fn totals(said: &str, least: u64) -> Result<String, String> {
    let (chance, explored): (Vec<&str>, Vec<&str>) =
        said.lines().filter_map(of_driver).partition(|line| line.contains(CHANCE));
    let total = |lines: &[&str], unit: &str| -> u64 {
        lines.iter().filter_map(|line| count(line, unit)).sum()
    };
    // The explorer takes states for all the executions that pass through them.
    let (size, figures) = match total(&explored, "states") {
        0 => {
            let executions = total(&explored, "executions");
            (executions, format!("{executions} executions"))
        }
        states => {
            let transitions = total(&explored, "transitions");
            (states, format!("{states} states, {transitions} transitions"))
        }
    };
    let ended = |how: &str| explored.iter().filter(|line| line.ends_with(how)).count();
    let (complete, not) = (ended(", complete"), ended(", cut off") + ended(", in part"));
    let (tests, told) = (passed_in(said), (complete + not + chance.len()) as u64);
    if tests == 0 {
        return Err("no scenario has such a name".into());
    }
    if told != tests {
        return Err(format!("{tests} tests passed, of which {told} said how"));
    }
    if size < least {
        return Err(format!("{figures}: fewer than {least}"));
    }
    let mut line = format!("{figures}; {complete} of {} scenarios complete", complete + not);
    if !chance.is_empty() {
        let [states, scripts, complete] =
            ["states", "scripts", "complete"].map(|unit| total(&chance, unit));
        line += &format!(
            "; {states} more states of {scripts} scripts by chance, {complete} of them complete"
        );
    }
    Ok(line)
}

/// What a driver says in a line. Before it may stand what the tests' runner is just writing, piece by piece, of
/// a test that ended on the other thread.
fn of_driver(line: &str) -> Option<&str> {
    let begins = ["model ", "loom "].into_iter().find_map(|driver| line.find(driver));
    begins.map(|at| &line[at..])
}

/// In the lines of NBBS's scripts by chance, which are not part of the figures.
const CHANCE: &str = " scripts by chance, ";

/// The number before a word of the line.
fn count(line: &str, unit: &str) -> Option<u64> {
    let words: Vec<&str> = line.split([' ', ',']).collect();
    let mut pairs = words.windows(2).filter(|pair| pair[1] == unit);
    pairs.find_map(|pair| pair[0].parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_scenarios_add_up() {
        let said = "model claim: 12 states, 20 transitions, 3 executions, complete\n\
                    test result: ok. 1 passed; 0 failed\n\
                    test models::claim ... okmodel 1-level: 48 scripts by chance, 40 complete, 30 states\n\
                    model long: 9 states, 12 transitions, 4 executions, in part\n\
                    test result: ok. 2 passed; 0 failed";
        let line = "21 states, 32 transitions; 1 of 2 scenarios complete; 30 more states of 48 \
                    scripts by chance, 40 of them complete";
        assert_eq!(totals(said, 0), Ok(line.into()));
        let said = "loom claim: 7 executions, 3 preemptions, complete\n\
                    loom zone: 9 executions, 3 preemptions, cut off\n\
                    test result: ok. 2 passed; 0 failed";
        let line = "16 executions; 1 of 2 scenarios complete";
        assert_eq!(totals(said, 16), Ok(line.into()));
        assert!(totals(said, 17).is_err(), "too few");
        assert!(totals(&said.replace("loom zone", "zone"), 0).is_err(), "one is not told");
        assert!(totals("test result: ok. 0 passed; 0 failed", 0).is_err());
    }
}
