//! Cargo's subcommands that checkers need, from the registry, installed under `target/tools`.

use std::path::PathBuf;
use std::process::Command;

use crate::shell::{cargo, root, succeeds};

/// Makes sure of `cargo NAME`, and returns the search path that finds it.
///
/// # Errors
/// It is not there, and cannot be installed.
pub fn with(name: &str) -> Result<String, String> {
    let folder = root().join("target/tools");
    let mut path: Vec<PathBuf> = vec![folder.join("bin")];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let path = std::env::join_paths(path).map_err(|error| error.to_string())?;
    let path = path.into_string().map_err(|_| "PATH is no text")?;
    if !succeeds(Command::new("cargo").args([name, "--version"]).env("PATH", &path)) {
        let root = folder.to_string_lossy();
        cargo(["install", "--locked", "--root", &root, &format!("cargo-{name}")], &[])?;
    }
    Ok(path)
}
