//! What a program is to those who run it.

use std::path::{Path, PathBuf};

use super::heap::Heap;
use super::run::Ran;

/// Where the programs' files are, and whether they have little to do.
pub struct Folder {
    pub path: PathBuf,
    pub short: bool,
}

/// A program with something to do.
pub trait Program {
    fn name(&self) -> &'static str;

    /// Does it with a heap. With a folder for them, the dynamic loader writes down its bindings.
    fn run(&self, heap: &Heap, bindings: Option<&Path>) -> Result<Ran, String>;
}
