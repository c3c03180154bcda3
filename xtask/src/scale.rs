//! `cargo xtask scale`: `woodlot bench scale` on atomics that tell of each access, a thousand times as fast as on closed pages.

use std::env;
use std::ffi::OsString;
use std::process::Command;

use clap::Args;

use crate::outcome::Outcome;
use crate::shell::{passed, root, run, this_cargo};

/// What is simulated.
#[derive(Args)]
pub struct Scale {
    /// As for `woodlot bench scale`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Simulates; files are written where the caller is.
pub fn scale(scale: &Scale) -> Result<(), String> {
    let here = env::current_dir().map_err(|error| format!("no current folder: {error}"))?;
    let mut command = observed("run");
    command.args(["--quiet", "--profile", "observed", "-p", "woodlot-cli", "--", "bench", "scale"]);
    run(command.args(&scale.args).current_dir(here))
}

/// The tests of it, on such atomics; one of them has pages see the same accesses.
pub fn tests() -> Result<Outcome, String> {
    let passed = passed(observed("test").args(["-p", "woodlot-bench", "--lib", "scale::"]))?;
    Ok(Outcome::Ran(format!("{passed} tests passed on atomics that tell of accesses")))
}

/// Cargo on such atomics. The flag changes every crate, so there is a target folder for it.
fn observed(verb: &str) -> Command {
    let mut command = this_cargo();
    command.arg(verb).arg("--manifest-path").arg(root().join("Cargo.toml"));
    command.env("RUSTFLAGS", "--cfg woodlot_observe");
    command.env("CARGO_TARGET_DIR", root().join("target/observed"));
    command
}
