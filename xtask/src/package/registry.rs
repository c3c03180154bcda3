//! A source of crates in a folder: ours as they were packaged, and those of others that the workspace has locked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::published::PUBLISHED;
use crate::shell::{capture, root, run, this_cargo};

/// The folder, which takes the place of crates.io.
pub struct Registry(PathBuf);

/// What is in every crate, as it is at the root of the repository.
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

impl Registry {
    /// Unpacks the crates that were packaged in a target folder, and looks whether they are whole.
    pub fn make(target: &Path) -> Result<Self, String> {
        let registry = Registry(target.join("registry"));
        // Without it cargo would tell standard output how to use them.
        capture(this_cargo().args(["vendor", "--quiet", "--locked"]).arg(&registry.0))?;
        for krate in &PUBLISHED {
            let file = target.join(format!("package/{}-{}.crate", krate.name, version()));
            run(Command::new("tar").arg("-xzf").arg(file).arg("-C").arg(&registry.0))?;
            let unpacked = registry.of(krate.name);
            let expected = LICENCES.map(|name| (root().join(name), name));
            let readme = (root().join(krate.folder).join("README.md"), "README.md");
            for (from, name) in expected.into_iter().chain([readme]) {
                same(&from, &unpacked.join(name))?;
            }
            // A folder is a crate of a source if its files have checksums; none of them has to have one.
            write(&unpacked.join(".cargo-checksum.json"), r#"{"files":{}}"#)?;
        }
        Ok(registry)
    }

    /// What tells cargo, in a folder above a project, to take crates from here and from nowhere else.
    pub fn config(&self) -> String {
        format!(
            "[source.crates-io]\nreplace-with = 'packaged'\n\n[source.packaged]\ndirectory = '{}'\n\n\
             [net]\noffline = true\n",
            self.0.display()
        )
    }

    /// Does something while the manifest of a crate has one more dependency.
    pub fn with_dependency<R>(
        &self,
        krate: &str,
        on: &str,
        work: impl FnOnce() -> Result<R, String>,
    ) -> Result<R, String> {
        let manifest = self.of(krate).join("Cargo.toml");
        let failed = |error| format!("{}: {error}", manifest.display());
        let before = fs::read_to_string(&manifest).map_err(failed)?;
        write(
            &manifest,
            &format!("{before}\n[target.'cfg(loom)'.dependencies.{on}]\nversion = '*'\n"),
        )?;
        let done = work();
        write(&manifest, &before)?;
        done
    }

    /// The folder of a crate.
    pub fn of(&self, krate: &str) -> PathBuf {
        self.0.join(format!("{krate}-{}", version()))
    }
}

/// The version of every crate of the workspace.
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// A packaged file must be what it is made from.
fn same(from: &Path, packaged: &Path) -> Result<(), String> {
    let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    match read(from)? == read(packaged)? {
        true => Ok(()),
        false => Err(format!("{} is not {}", packaged.display(), from.display())),
    }
}
