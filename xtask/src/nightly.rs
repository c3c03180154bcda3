//! The nightly toolchain, for checkers that need it: the one that is installed, never another.

use std::process::Command;

use crate::shell::{capture, run};

/// A program of the nightly toolchain.
pub fn nightly(program: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", program]);
    command
}

/// Adds what the nightly toolchain lacks of these components.
///
/// # Errors
/// There is no nightly toolchain, or a component is not to be had for it.
pub fn components(names: &[&str]) -> Result<(), String> {
    let list = ["component", "list", "--toolchain", "nightly", "--installed"];
    let installed = capture(Command::new("rustup").args(list))
        .map_err(|why| format!("no nightly toolchain is installed ({why})"))?;
    let missing =
        names.iter().filter(|name| !installed.lines().any(|line| line.starts_with(**name)));
    for name in missing {
        run(Command::new("rustup").args(["component", "add", "--toolchain", "nightly", name]))
            .map_err(|why| format!("nightly has no {name} ({why})"))?;
    }
    Ok(())
}
