//! `cargo xtask miri`: the core crates interpreted: undefined behaviour, provenance, alignment, data
//! races, and values that weak memory may show, under several schedules.

use std::process::Command;

use crate::nightly::{components, nightly};
use crate::outcome::{Length, Outcome};
use crate::shell::run;

/// Without isolation, for `WOODLOT_OPS` and the clock.
const FLAGS: &str =
    "-Zmiri-strict-provenance -Zmiri-symbolic-alignment-check -Zmiri-disable-isolation";

/// How much is run.
struct Bounds {
    /// Calls of each test and thread.
    ops: &'static str,
    /// Seeds of the random histories.
    histories: u32,
    /// Schedules of the threads.
    schedules: u32,
}

const SHORT: Bounds = Bounds { ops: "30", histories: 1, schedules: 4 };
const FULL: Bounds = Bounds { ops: "60", histories: 4, schedules: 32 };

/// Runs frame's unit tests and the engine's short tests.
pub fn miri(length: Length) -> Result<Outcome, String> {
    if let Err(why) = components(&["miri", "rust-src"]) {
        return Outcome::missing(length, why);
    }
    let bounds = if length.short { SHORT } else { FULL };
    run(&mut test(&bounds, FLAGS, 1, &["-p", "woodlot-frame", "--features", "std", "--lib"]))?;
    for seed in 1..=bounds.histories {
        let filter = ["--", "--skip", "owners"];
        run(test(&bounds, FLAGS, seed, &ENGINE).args(filter))?;
    }
    let many = format!("{FLAGS} -Zmiri-many-seeds=0..{}", bounds.schedules);
    run(test(&bounds, &many, 1, &ENGINE).args(["--", "owners"]))?;
    Ok(Outcome::Ran(format!(
        "0 findings; {} histories and {} schedules of {} calls on each of two geometries",
        bounds.histories, bounds.schedules, bounds.ops
    )))
}

const ENGINE: [&str; 4] = ["-p", "woodlot-llfree", "--test", "short"];

fn test(bounds: &Bounds, flags: &str, seed: u32, what: &[&str]) -> Command {
    let mut command = nightly("cargo");
    command.args(["miri", "test", "--quiet"]).args(what);
    command.env("CARGO_TARGET_DIR", "target/miri").env("MIRIFLAGS", flags);
    command.env("WOODLOT_OPS", bounds.ops).env("WOODLOT_SEED", seed.to_string());
    command
}
