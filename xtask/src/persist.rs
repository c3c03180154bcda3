//! `cargo xtask persist`: what a crash could leave of a zone in persistent memory. What is simulated and judged:
//! `checking/persist/`.

use std::process::Command;

use clap::Args;

use crate::outcome::{Length, Outcome};
use crate::shell::{CHECKING, capture, passed, this_cargo};

/// How many images, or which history is run again.
#[derive(Args)]
pub struct Persist {
    #[command(flatten)]
    length: Length,
    /// At least so many images [default: 1.2 · 10⁶; short 10⁴]
    #[arg(long)]
    images: Option<u64>,
    /// Another seed gives other histories and samples
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Only this history, as a failure printed it
    #[arg(long, value_name = "SEED")]
    replay: Option<u64>,
}

const SEED: u64 = 1;

impl From<Length> for Persist {
    fn from(length: Length) -> Self {
        Self { length, images: None, seed: SEED, replay: None }
    }
}

/// Runs the simulator, after its own tests and the seeded defects.
pub fn persist(persist: &Persist) -> Result<Outcome, String> {
    let images = persist.images.unwrap_or(if persist.length.short { 10_000 } else { 1_200_000 });
    let every = !persist.length.short;
    passed(simulator("test", every).args(["--quiet", "--lib"]))?;
    let mut command = simulator("run", every);
    command.args(["--quiet", "--", "--images", &images.to_string()]);
    command.args(["--seed", &persist.seed.to_string()]);
    let replay = persist.replay.map(|seed| seed.to_string());
    command.args(replay.iter().flat_map(|seed| ["--replay", seed]));
    let said = capture(&mut command)?;
    let (lines, figure) = said.trim_end().rsplit_once('\n').unwrap_or(("", said.trim_end()));
    println!("{lines}");
    Ok(Outcome::Ran(figure.to_owned()))
}

/// Cargo on the simulator, of every geometry or of three, which compile in a third of the time. The flag changes every crate, so
/// there is a target folder for it.
fn simulator(verb: &str, every: bool) -> Command {
    let mut command = this_cargo();
    command.arg(verb).args(CHECKING).args(["--release", "-p", "woodlot-persist"]);
    command.args(every.then_some("--features=every-geometry"));
    command.env("RUSTFLAGS", "--cfg woodlot_observe").env("CARGO_TARGET_DIR", "target/persist");
    command
}
