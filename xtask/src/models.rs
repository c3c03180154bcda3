//! `cargo xtask loom` and `model`: the models of the core crates under a checker of interleavings.

use clap::Args;

use crate::shell::cargo;

/// The crates that keep the contract and have models.
pub const ENGINES: [&str; 2] = ["woodlot-llfree", "woodlot-nbbs"];

/// How far a checker goes.
#[derive(Args)]
pub struct Bounds {
    /// Larger models and bounds: an hour or more
    #[arg(long)]
    pub full: bool,
    /// Only scenarios whose name contains this
    pub name: Option<String>,
}

/// What CI runs.
pub const SHORT: Bounds = Bounds { full: false, name: None };

/// The models of the engines under one checker, in a target folder of its own: the flag
/// changes every crate.
pub fn models(cfg: &str, bounds: &Bounds) -> Result<(), String> {
    let mut test = vec!["test", "--release", "--lib"];
    test.extend(ENGINES.iter().flat_map(|krate| ["-p", krate]));
    test.extend(["--", "--nocapture", "--test-threads", "2"]);
    test.push(bounds.name.as_deref().unwrap_or("models"));
    let flags = format!("--cfg {cfg}");
    let target = format!("target/{cfg}");
    let full = if bounds.full { "1" } else { "0" };
    cargo(test, &[("RUSTFLAGS", &flags), ("CARGO_TARGET_DIR", &target), ("WOODLOT_FULL", full)])
}
