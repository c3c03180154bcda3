//! `cargo xtask shuttle`: random histories of whole allocators under shuttle's schedulers. What they
//! do and what is judged: `checking/histories/`.

use std::process::Command;

use clap::Args;

use crate::outcome::{Length, Outcome};
use crate::shell::{CHECKING, capture, passed, this_cargo};

/// How many schedules, or which are run again.
#[derive(Args)]
pub struct Shuttle {
    #[command(flatten)]
    length: Length,
    /// Schedules of LLFree, and a tenth of it of each form of NBBS [default: 10⁷; short 1.7 · 10⁵]
    #[arg(long)]
    schedules: Option<usize>,
    /// Another seed gives other histories and schedules
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Only the schedules of this batch, as a failure printed it
    #[arg(long, value_name = "ENGINE:SEED")]
    replay: Option<String>,
}

const SEED: u64 = 1;

impl From<Length> for Shuttle {
    fn from(length: Length) -> Self {
        Self { length, schedules: None, seed: SEED, replay: None }
    }
}

/// Runs the histories, after their own tests and the seeded defects.
pub fn shuttle(shuttle: &Shuttle) -> Result<Outcome, String> {
    let short = shuttle.length.short;
    let llfree = shuttle.schedules.unwrap_or(if short { 170_000 } else { 10_000_000 });
    passed(histories("test").args(["--quiet", "--lib"]))?;
    let mut command = histories("run");
    command.args(["--quiet", "--"]);
    command.args(["--llfree", &llfree.to_string(), "--nbbs", &llfree.div_ceil(10).to_string()]);
    command.args(["--seed", &shuttle.seed.to_string()]);
    command.args(shuttle.replay.iter().flat_map(|batch| ["--replay", batch]));
    let said = capture(&mut command)?;
    let (lines, figure) = said.trim_end().rsplit_once('\n').unwrap_or(("", said.trim_end()));
    println!("{lines}");
    Ok(Outcome::Ran(figure.to_owned()))
}

/// Cargo on the histories. The flag changes every crate, so there is a target folder for it.
fn histories(verb: &str) -> Command {
    let mut command = this_cargo();
    command.arg(verb).args(CHECKING).args(["--release", "-p", "woodlot-histories"]);
    command.env("RUSTFLAGS", "--cfg woodlot_shuttle").env("CARGO_TARGET_DIR", "target/shuttle");
    command
}
