//! `cargo xtask lint`: format, warnings, documentation.

use crate::fuzz;
use crate::shell::cargo;

/// The crates whose concurrent code is model-checked, and what checks them.
const CORE: [&str; 4] = ["woodlot-frame", "woodlot-llfree", "woodlot-nbbs", "woodlot-explore"];

/// What is no part of the workspace, because it is built otherwise.
const OUTSIDE: [&str; 2] = ["nopanic/Cargo.toml", "fuzz/Cargo.toml"];

/// Checks format, clippy and documentation.
pub fn lint() -> Result<(), String> {
    cargo(["fmt", "--all", "--check"], &[])?;
    cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])?;
    for manifest in OUTSIDE {
        cargo(["fmt", "--check", "--manifest-path", manifest], &[])?;
    }
    let clippy = ["clippy", "--release", "--manifest-path", "nopanic/Cargo.toml"];
    let clippy = clippy.into_iter().chain(["--features", "defects", "--", "-D", "warnings"]);
    cargo(clippy, &[("CARGO_TARGET_DIR", "target/no-panic")])?;
    match fuzz::compiler() {
        Ok(()) => fuzz::clippy()?,
        Err(why) => println!("the fuzzers are not checked: {why}"),
    }
    for cfg in ["loom", "woodlot_explore"] {
        let core = CORE.iter().flat_map(|krate| ["-p", krate]);
        let clippy = ["clippy", "--all-targets"].into_iter().chain(core);
        cargo(clippy.chain(["--", "-D", "warnings"]), &[("RUSTFLAGS", &format!("--cfg {cfg}"))])?;
    }
    // No tests are written for it but the histories.
    let all = CORE.iter().chain(&["woodlot-histories"]).flat_map(|krate| ["-p", krate]);
    let clippy = ["clippy"].into_iter().chain(all).chain(["--", "-D", "warnings"]);
    cargo(clippy, &[("RUSTFLAGS", "--cfg shuttle")])?;
    cargo(["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])
}
