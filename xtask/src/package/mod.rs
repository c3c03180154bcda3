//! `cargo xtask package` and `clean-build`: the crates as others get them.
//!
//! ```text
//!   cargo package ── .crate files ── registry: unpacked, beside the crates of others
//!                                       │
//!   README.md ── readme: first example ─┴─ user: an empty project ── builds, runs, lock file, cargo vendor
//! ```
//!
//! A crate that is embedded brings nothing else: the lock file and the vendored folder of who uses it hold our
//! published crates only. That this is noticed is checked, too: by a crate of others that is put into a manifest.

mod published;
mod readme;
mod registry;
mod user;

use std::fs;
use std::path::Path;
use std::time::{Instant, SystemTime};

use serde::Deserialize;

use crate::outcome::Outcome;
use crate::shell::{cargo, root};
pub use published::PUBLISHED;
use registry::Registry;
use user::Users;

/// Packages what is published, and uses it as its users would, in a folder of its own: cargo remembers a crate that
/// it took from there by folder, name and version, and would build what an earlier run packaged.
pub fn package() -> Result<Outcome, String> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let target = root().join(format!("target/package-{}", now.as_nanos()));
    let done = packaged_and_used(&target);
    let removed = fs::remove_dir_all(&target);
    let said = done?;
    removed.map_err(|error| format!("{}: {error}", target.display()))?;
    Ok(Outcome::Ran(said))
}

fn packaged_and_used(target: &Path) -> Result<String, String> {
    // The users build them, so cargo need not.
    let args = ["package", "--allow-dirty", "--no-verify"].into_iter();
    let crates = PUBLISHED.iter().flat_map(|krate| ["-p", krate.name]);
    cargo(args.chain(crates), &[("CARGO_TARGET_DIR", target.to_string_lossy().as_ref())])?;
    let registry = Registry::make(target)?;
    let users = Users::make(target, &registry)?;
    let found = users.seeded_crate_is_found()?;
    users.all()?;
    let stated = match has_repository()? {
        true => "",
        false => "; [workspace.package] repository is empty, which who publishes fills in",
    };
    let alone = PUBLISHED.iter().filter(|krate| krate.alone).count();
    Ok(format!(
        "{} crates packaged, the first example of each README built and run from them; 0 crates of others with {alone} \
         of them; a seeded one found: {found}{stated}",
        PUBLISHED.len(),
    ))
}

/// Does the workspace say where its source is to be had?
fn has_repository() -> Result<bool, String> {
    Ok(!Workspace::read()?.repository.is_empty())
}

/// What the workspace says for every package.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Workspace {
    pub repository: String,
    /// The oldest Rust that the crates are built with.
    pub rust_version: String,
}

impl Workspace {
    pub fn read() -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Manifest {
            workspace: Of,
        }
        #[derive(Deserialize)]
        struct Of {
            package: Workspace,
        }
        let text = fs::read_to_string(root().join("Cargo.toml"));
        let text = text.map_err(|error| format!("Cargo.toml: {error}"))?;
        let manifest = toml::from_str::<Manifest>(&text);
        manifest.map(|all| all.workspace.package).map_err(|error| format!("Cargo.toml: {error}"))
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::this_cargo;

    #[test]
    fn what_is_published_is_in_the_table() {
        let command = this_cargo()
            .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
            .current_dir(root())
            .output()
            .expect("cargo runs");
        let metadata: serde_json::Value = serde_json::from_slice(&command.stdout).expect("JSON");
        let packages = metadata["packages"].as_array().expect("a list").iter();
        // `publish = false` is an empty list.
        let published = packages.filter(|package| package["publish"].is_null());
        let mut published: Vec<_> = published.filter_map(|p| p["name"].as_str()).collect();
        let mut table = PUBLISHED.map(|krate| krate.name);
        published.sort();
        table.sort();
        assert_eq!(published, table);
    }
}
