//! A copy of the repository, in which defects are seeded: never in the working tree.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::table::{self, Mutant};
use crate::shell::{capture, root};

/// The copy. What is built there stays in its own `target`, so that a later run builds little.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes the copy like the working tree. What is alike already is not written, so that it is not built
    /// again.
    pub fn sync() -> Result<Self, String> {
        let path = root().join("target/mutants/tree");
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let files = listed(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
        let before = path.join("target/copied");
        let there = fs::read_to_string(&before).unwrap_or_default();
        for gone in there.split('\0').filter(|file| !files.contains(*file)) {
            let _ = fs::remove_file(path.join(gone));
        }
        for file in &files {
            let from = root().join(file);
            // A file may be deleted, and git not told yet.
            match fs::read(&from) {
                Ok(bytes) => write(&path.join(file), &bytes)?,
                Err(_) => drop(fs::remove_file(path.join(file))),
            }
        }
        let list: Vec<&str> = files.iter().map(String::as_str).collect();
        write(&before, list.join("\0").as_bytes())?;
        Ok(Scratch { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Does something while a defect is in the copy.
    pub fn with<R>(
        &self,
        mutant: &Mutant,
        work: impl FnOnce() -> Result<R, String>,
    ) -> Result<R, String> {
        let changed = mutant.changed(&self.path)?;
        let before = changed.iter().map(|(file, _)| Ok((file, table::source(&self.path, file)?)));
        let before: Vec<_> = before.collect::<Result<_, String>>()?;
        for (file, text) in &changed {
            write(&self.path.join(file), text.as_bytes())?;
        }
        let result = work();
        for (file, text) in &before {
            write(&self.path.join(file), text.as_bytes())?;
        }
        result
    }
}

/// The files that git knows or would.
fn listed(args: &[&str]) -> Result<BTreeSet<String>, String> {
    let said = capture(Command::new("git").args(args))?;
    Ok(said.split_terminator('\0').map(str::to_owned).collect())
}

/// Writes a file, if it is not so already.
fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, bytes))
        .map_err(|error| format!("{}: {error}", path.display()))
}
