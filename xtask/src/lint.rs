//! `cargo xtask lint`: format, warnings, documentation, links between pages.

use std::process::Command;

use crate::docs;
use crate::fuzz;
use crate::links::links;
use crate::models::EXPLORED;
use crate::shell::{CHECKING, cargo, run};

/// What is no part of the workspace, because it is built otherwise.
const OUTSIDE: [&str; 4] =
    ["nopanic/Cargo.toml", "fuzz/Cargo.toml", "checking/Cargo.toml", "examples/kernel/Cargo.toml"];

/// What runs on processors of 32 bits, too, and one of these.
const NARROW: [&str; 7] = [
    "woodlot-frame",
    "woodlot-llfree",
    "woodlot-onewrite",
    "woodlot-nbbs",
    "woodlot-domains",
    "woodlot-kmem",
    "woodlot",
];
const NARROW_TARGET: &str = "i686-unknown-linux-gnu";

/// Checks format, clippy, documentation and links between pages.
pub fn lint() -> Result<(), String> {
    println!("{}", links()?);
    cargo(["fmt", "--all", "--check"], &[])?;
    cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])?;
    for manifest in OUTSIDE {
        cargo(["fmt", "--all", "--check", "--manifest-path", manifest], &[])?;
    }
    let clippy = ["clippy", "--release", "--manifest-path", "nopanic/Cargo.toml"];
    let clippy = clippy.into_iter().chain(["--", "-D", "warnings"]);
    cargo(clippy, &[("CARGO_TARGET_DIR", "target/no-panic")])?;
    let clippy = ["clippy", "--release", "--manifest-path", "examples/kernel/Cargo.toml"];
    let clippy = clippy.into_iter().chain(["--target", "x86_64-unknown-none"]);
    cargo(clippy.chain(["--", "-D", "warnings"]), &[("CARGO_TARGET_DIR", "target/boot")])?;
    match fuzz::compiler() {
        Ok(()) => fuzz::clippy()?,
        Err(why) => println!("the fuzzers are not checked: {why}"),
    }
    let core = [
        "woodlot-frame",
        "woodlot-llfree",
        "woodlot-onewrite",
        "woodlot-nbbs",
        "woodlot-owners",
        "woodlot-kmem",
    ];
    for (cfg, more) in [("woodlot_loom", &[][..]), ("woodlot_explore", &EXPLORED)] {
        let crates: Vec<&str> = core.iter().chain(more).flat_map(|krate| ["-p", krate]).collect();
        on(cfg, &[&CHECKING[..], &["--lib", "--tests"], &crates].concat())?;
    }
    // A module of the explorer is for loom.
    on("woodlot_loom", &["--all-targets", "-p", "woodlot-explore"])?;
    // The simulator alone has real zones.
    let not_simulator =
        ["--workspace", "--exclude", "woodlot-persist", "--exclude", "woodlot-zone"];
    on("woodlot_shuttle", &[&CHECKING[..], &not_simulator].concat())?;
    let simulator = ["--all-targets", "-p", "woodlot-persist"];
    on("woodlot_observe", &[&CHECKING[..], &simulator].concat())?;
    on("woodlot_observe", &["--all-targets", "-p", "woodlot-bench"])?;
    run(Command::new("rustup").args(["target", "add", NARROW_TARGET]))?;
    // Only a build looks at shifts by more than a word has.
    let build = ["build", "--quiet", "--target", NARROW_TARGET, "--all-features"].into_iter();
    cargo(build.chain(NARROW.iter().flat_map(|krate| ["-p", krate])), &[])?;
    let doc = ["doc", "--workspace", "--no-deps", "--all-features"];
    cargo(doc, &[("RUSTDOCFLAGS", "-D warnings"), ("CARGO_TARGET_DIR", "target")])?;
    docs::name_no_files()
}

/// Checks with the atomics of a checker of interleavings.
fn on(cfg: &str, what: &[&str]) -> Result<(), String> {
    let args = ["clippy"].iter().chain(what).chain(&["--", "-D", "warnings"]);
    cargo(args, &[("RUSTFLAGS", &format!("--cfg {cfg}")), ("CARGO_TARGET_DIR", "target")])
}
