//! `cargo xtask minimum-rust`: what is published, with the oldest Rust that the manifests state.

use std::process::Command;

use crate::outcome::{Length, Outcome};
use crate::package::{PUBLISHED, Workspace};
use crate::shell::{capture, passed, run, succeeds};

/// Checks every published crate with all its features, and runs the examples of the crate `woodlot`, which
/// compile the engines to the end.
pub fn minimum_rust(length: Length) -> Result<Outcome, String> {
    let version = Workspace::read()?.rust_version;
    if let Err(why) = installed(&version) {
        return Outcome::missing(length, why);
    }
    let with = |program: &str, args: &[&str]| {
        let mut command = Command::new("rustup");
        command.args(["run", &version, program]).args(args);
        command.env("CARGO_TARGET_DIR", "target/minimum-rust");
        command
    };
    let rustc = capture(&mut with("rustc", &["--version"]))?;
    let mut check = with("cargo", &["check", "--quiet", "--locked", "--all-features"]);
    run(check.args(PUBLISHED.iter().flat_map(|krate| ["-p", krate.name])))?;
    let examples = ["test", "--quiet", "--locked", "--doc", "--all-features", "-p", "woodlot"];
    let examples = passed(&mut with("cargo", &examples))?;
    Ok(Outcome::Ran(format!(
        "{} published crates and {examples} examples of woodlot with {}",
        PUBLISHED.len(),
        rustc.trim()
    )))
}

/// Makes sure of a toolchain.
///
/// # Errors
/// It is not there, and cannot be installed.
fn installed(version: &str) -> Result<(), String> {
    if succeeds(Command::new("rustup").args(["run", version, "rustc", "--version"])) {
        return Ok(());
    }
    let install = ["toolchain", "install", version, "--profile", "minimal", "--no-self-update"];
    run(Command::new("rustup").args(install))
        .map_err(|why| format!("Rust {version} is not to be had ({why})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::root;

    #[test]
    fn every_readme_states_the_same_version() {
        let version = Workspace::read().expect("a manifest").rust_version;
        let folders = PUBLISHED.iter().map(|krate| krate.folder).chain(["."]);
        for readme in folders.map(|folder| root().join(folder).join("README.md")) {
            let text = std::fs::read_to_string(&readme).expect("it is there");
            assert!(text.contains(&format!("Rust {version} or later")), "{}", readme.display());
        }
    }
}
