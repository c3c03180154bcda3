//! What a run can be told by environment variables, and the line that replays a failure.
//!
//! | variable | default | what |
//! |---|---|---|
//! | `WOODLOT_SEED` | 1 | seed of every random choice; the first random zone uses exactly it |
//! | `WOODLOT_OPS` | 1000 | calls per random zone, and per thread in the stress tests |
//! | `WOODLOT_ZONES` | 24 | random zones |
//!
//! With one seed the suite is deterministic, except for the schedules of threads.

use std::process::Command;
use std::str::FromStr;

use fastrand::Rng;

fn variable<T: FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(text) => match text.parse() {
            Ok(value) => value,
            Err(_) => panic!("{name}={text:?} is not a number"),
        },
        Err(_) => default,
    }
}

/// The seed of this run.
pub fn seed() -> u64 {
    variable("WOODLOT_SEED", 1)
}

/// How many calls a random test makes.
pub fn ops() -> usize {
    variable("WOODLOT_OPS", 1000)
}

/// How many random zones there are.
pub fn zones() -> u64 {
    variable("WOODLOT_ZONES", 24)
}

/// Random numbers for one test, or for one thread of it.
pub fn rng(salt: u64) -> Rng {
    Rng::with_seed(seed().wrapping_add(salt.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}

/// The one line that replays a failure: seed, commit and command. The test's name is that of its
/// thread, the crate's is what cargo says.
pub fn replay_line(seed: u64) -> String {
    let crate_name = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "CRATE".into());
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("TEST");
    let profile = if cfg!(debug_assertions) { "" } else { " --release" };
    format!(
        "replay: WOODLOT_SEED={seed} WOODLOT_OPS={ops} cargo test{profile} -p {crate_name} -- \
         --exact {test}   # at commit {commit}",
        ops = ops(),
        commit = commit().unwrap_or_else(|| "unknown".into()),
    )
}

fn commit() -> Option<String> {
    // Miri can start no process.
    if cfg!(miri) {
        return None;
    }
    let output = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output().ok()?;
    let hash = String::from_utf8(output.stdout).ok()?;
    Some(hash.trim().to_owned()).filter(|hash| !hash.is_empty())
}
