//! CPython with tests of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::heap::Heap;
use super::program::{Folder, Program};
use super::run::{Ran, run};
use crate::shell::succeeds;

pub struct Python {
    folder: PathBuf,
    modules: &'static [&'static str],
}

const SHORT: usize = 4;
const MODULES: [&str; 18] = [
    "test_dict",
    "test_fork1",
    "test_struct",
    "test_heapq",
    "test_bytes",
    "test_collections",
    "test_functools",
    "test_gc",
    "test_json",
    "test_list",
    "test_pickle",
    "test_queue",
    "test_re",
    "test_set",
    "test_sqlite3",
    "test_thread",
    "test_weakref",
    "test_zlib",
];

impl Python {
    pub fn new(folder: &Folder) -> Result<Python, String> {
        if !succeeds(Command::new("python3").args(["-c", "import test.libregrtest"])) {
            return Err("python3 has no tests of its own (package libpython3-testsuite)".into());
        }
        let path = folder.path.join("python");
        fs::create_dir_all(&path).map_err(|error| error.to_string())?;
        let modules = if folder.short { &MODULES[..SHORT] } else { &MODULES };
        Ok(Python { folder: path, modules })
    }
}

impl Program for Python {
    fn name(&self) -> &'static str {
        "python"
    }

    /// How many tests there were. All objects are from `malloc`, not from arenas of Python's own.
    fn run(&self, heap: &Heap, bindings: Option<&Path>) -> Result<Ran, String> {
        let mut command = Command::new("python3");
        command.args(["-m", "test", "--quiet", "--junit-xml", "tests.xml"]).args(self.modules);
        command.env("PYTHONMALLOC", "malloc").env("PYTHONHASHSEED", "0").current_dir(&self.folder);
        heap.preload(&mut command);
        bindings.map(|folder| Heap::write_bindings(&mut command, folder));
        let (took, said) = run(&mut command, &self.folder.join("said"))?;
        let tests =
            fs::read_to_string(self.folder.join("tests.xml")).map_err(|error| error.to_string())?;
        match tests.split('>').next() {
            Some(counts) if counts.contains("tests=") => Ok(Ran { took, result: counts.into() }),
            _ => Err(format!("no test was counted: {said}")),
        }
    }
}
