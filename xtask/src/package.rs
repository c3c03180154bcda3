//! `cargo xtask package` and `clean-build`: the crates as others get them.

use std::fs;
use std::process::Command;
use std::time::{Instant, SystemTime};

use crate::shell::{cargo, root, run};

/// The crates that are published, each after those that it depends on.
const PUBLISHED: [&str; 8] = [
    "woodlot-explore",
    "woodlot-frame",
    "woodlot-llfree",
    "woodlot-nbbs",
    "woodlot-rivals",
    "woodlot-trace",
    "woodlot-bench",
    "woodlot-cli",
];

/// Packages and builds what is published, in a folder of its own: cargo remembers a crate that it
/// took from there by folder, name and version, and would build what an earlier run packaged.
pub fn package() -> Result<(), String> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let target = format!("target/package-{}", now.as_nanos());
    // With links to what the tests have built: of that cargo takes the crates of others. Its lock is no part of it.
    let made = fs::create_dir_all(root().join(&target));
    made.map_err(|error| format!("{target}: {error}"))?;
    if root().join("target/debug").exists() {
        run(Command::new("cp").args(["-al", "target/debug", &target]))?;
        let _ = fs::remove_file(root().join(&target).join("debug/.cargo-lock"));
    }
    let crates = PUBLISHED.iter().flat_map(|krate| ["-p", krate]);
    let args = ["package", "--allow-dirty"].into_iter().chain(crates);
    // The profiles of the workspace are not packaged.
    let env = [("CARGO_TARGET_DIR", target.as_str()), ("CARGO_PROFILE_DEV_DEBUG", "false")];
    let packaged = cargo(args, &env);
    let removed = fs::remove_dir_all(root().join(&target));
    packaged.and_then(|()| removed.map_err(|error| format!("{target}: {error}")))
}

/// Builds the workspace from nothing and says how long it took.
pub fn clean_build() -> Result<(), String> {
    const TARGET: &str = "target/clean-build";
    let _ = fs::remove_dir_all(root().join(TARGET));
    let start = Instant::now();
    cargo(["build", "--release", "--workspace"], &[("CARGO_TARGET_DIR", TARGET)])?;
    println!("clean build: {:.0} s", start.elapsed().as_secs_f64());
    fs::remove_dir_all(root().join(TARGET)).map_err(|error| format!("{TARGET}: {error}"))
}
