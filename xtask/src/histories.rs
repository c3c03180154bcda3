//! `cargo xtask histories`: the contract suite's random calls against the naive model, at length, on
//! every engine and geometry. The same seed gives the same calls.

use clap::Args;

use crate::models::ENGINES;
use crate::outcome::{Length, Outcome};
use crate::shell::{capture, this_cargo};

/// How many calls, and from which seed.
#[derive(Args)]
pub struct Histories {
    #[command(flatten)]
    length: Length,
    /// The seed of the first zone; each further one has the next
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Zones for each engine and geometry [default: 12000, short 100]
    #[arg(long)]
    zones: Option<u64>,
}

impl From<Length> for Histories {
    fn from(length: Length) -> Self {
        Self { length, seed: 1, zones: None }
    }
}

/// Calls of each zone: enough that most of the time goes into them, not into comparing it as a whole
/// at the end.
const CALLS: u32 = 10_000;

/// The check of the suite, of which there is one for each engine and geometry.
const CHECK: &str = "random::random_calls_agree_with_the_model";

/// Runs the random calls of every engine.
pub fn histories(histories: &Histories) -> Result<Outcome, String> {
    let zones = histories.zones.unwrap_or(if histories.length.short { 100 } else { 12_000 });
    let mut command = this_cargo();
    command.args(["test", "--quiet", "--profile", "checked", "--test", "contract"]);
    command.args(ENGINES.iter().flat_map(|krate| ["-p", krate]));
    command.args(["--", "--nocapture", "--test-threads", "2", CHECK]);
    command.env("WOODLOT_SEED", histories.seed.to_string());
    command.env("WOODLOT_OPS", CALLS.to_string()).env("WOODLOT_ZONES", zones.to_string());
    let said = capture(&mut command)?;
    let (runs, calls) = counted(&said);
    if runs == 0 {
        return Err(format!("no test said how many calls it made: {said}"));
    }
    Ok(Outcome::Ran(format!(
        "{calls} calls agree with the model, on {zones} zones of each of {runs} engines and \
         geometries from seed {}",
        histories.seed
    )))
}

/// How many tests said how many calls they made, and how many these are.
fn counted(said: &str) -> (usize, u64) {
    let of_line = |line: &str| {
        let (before, _) = line.split_once(" calls on ")?;
        before.rsplit(' ').next()?.parse().ok()
    };
    let calls: Vec<u64> = said.lines().filter_map(of_line).collect();
    (calls.len(), calls.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_added_up() {
        let said = "running 2 tests\n.LLFree: 12 calls on 3 zones agree with the model\n\
                    nbbs: 30 calls on 3 zones agree with the model\n.\n";
        assert_eq!(counted(said), (2, 42));
        assert_eq!(counted("test result: ok"), (0, 0));
    }
}
