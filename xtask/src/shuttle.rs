//! `cargo xtask shuttle`: random histories of whole allocators under shuttle's schedulers. What they
//! do and what is judged: `histories/`.

use clap::Args;

use crate::outcome::{Length, Outcome};
use crate::shell::{capture, this_cargo};

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

/// Runs the histories, after the seeded defects.
pub fn shuttle(shuttle: &Shuttle) -> Result<Outcome, String> {
    let short = shuttle.length.short;
    let llfree = shuttle.schedules.unwrap_or(if short { 170_000 } else { 10_000_000 });
    let mut command = this_cargo();
    command.args(["run", "--quiet", "--release", "-p", "woodlot-histories", "--"]);
    command.args(["--llfree", &llfree.to_string(), "--nbbs", &llfree.div_ceil(10).to_string()]);
    command.args(["--seed", &shuttle.seed.to_string()]);
    command.args(shuttle.replay.iter().flat_map(|batch| ["--replay", batch]));
    // The flag changes every crate, so it has a target folder of its own.
    command.env("RUSTFLAGS", "--cfg shuttle").env("CARGO_TARGET_DIR", "target/shuttle");
    let said = capture(&mut command)?;
    let (lines, figure) = said.trim_end().rsplit_once('\n').unwrap_or(("", said.trim_end()));
    println!("{lines}");
    Ok(Outcome::Ran(figure.to_owned()))
}
