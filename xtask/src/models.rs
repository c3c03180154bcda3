//! `cargo xtask loom` and `model`: the models of the core crates under a checker of interleavings.

use clap::Args;

use crate::outcome::{Length, Outcome};
use crate::shell::{tee, this_cargo};

/// The crates that keep the contract and have models.
pub const ENGINES: [&str; 2] = ["woodlot-llfree", "woodlot-nbbs"];

/// Executions after which a short run cuts off a scenario under loom, for each thread that comes first: the
/// same ones on every machine.
const LOOM_SHORT: &str = "1000";

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
    command.args(["test", "--release", "--lib"]);
    command.args(ENGINES.iter().flat_map(|krate| ["-p", krate]));
    command.args(["--", "--nocapture", "--test-threads", "2"]);
    command.arg(what.name.as_deref().unwrap_or("models"));
    command.env("RUSTFLAGS", format!("--cfg {cfg}"));
    command.env("CARGO_TARGET_DIR", format!("target/{cfg}"));
    command.env("WOODLOT_FULL", if what.length.short { "0" } else { "1" });
    if what.length.short {
        command.env("LOOM_MAX_PERMUTATIONS", LOOM_SHORT);
    }
    totals(&tee(&mut command)?).map(Outcome::Ran)
}

/// The sum of what the drivers say for each scenario; an error if there was none.
fn totals(said: &str) -> Result<String, String> {
    let of_scenario = |line: &&str| line.starts_with("model ") || line.starts_with("loom ");
    let explored: Vec<&str> = said.lines().filter(of_scenario).collect();
    let total = |unit: &str| -> u64 { explored.iter().filter_map(|line| count(line, unit)).sum() };
    // The explorer takes states for all the executions that pass through them.
    let figures = match total("states") {
        0 => format!("{} executions", total("executions")),
        states => format!("{states} states, {} transitions", total("transitions")),
    };
    let ended = |how: &str| explored.iter().filter(|line| line.ends_with(how)).count();
    let (complete, not) = (ended(", complete"), ended(", cut off") + ended(", in part"));
    if explored.is_empty() {
        return Err("no scenario has such a name".into());
    }
    Ok(format!("{figures}; {complete} of {} scenarios complete", complete + not))
}

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
                    test ok\n\
                    model 1-level: 48 scripts by chance, 40 complete, 30 states\n\
                    model long: 9 states, 12 transitions, 4 executions, in part";
        let line = "51 states, 32 transitions; 1 of 2 scenarios complete";
        assert_eq!(totals(said), Ok(line.into()));
        let said = "loom claim: 7 executions, 3 preemptions, complete\n\
                    loom zone: 9 executions, 3 preemptions, cut off";
        let line = "16 executions; 1 of 2 scenarios complete";
        assert_eq!(totals(said), Ok(line.into()));
        assert!(totals("test result: ok. 0 passed").is_err());
    }
}
