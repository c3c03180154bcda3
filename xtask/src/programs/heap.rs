//! Heaps that a program may have: each is a library that is preloaded, the C library's own as well, as some programs bring
//! another one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::{cargo, root};

/// A heap by the file that is preloaded.
pub struct Heap {
    pub name: &'static str,
    library: PathBuf,
}

/// What every other heap is compared with.
pub const OURS: &str = "woodlot";

/// Heaps that the dynamic loader finds by their names, and the package that each is in.
const OTHERS: [(&str, &str, &str); 3] = [
    ("glibc", "libc.so.6", "libc6"),
    ("jemalloc", "libjemalloc.so.2", "libjemalloc2"),
    ("mimalloc", "libmimalloc.so.2", "libmimalloc2.0"),
];

impl Heap {
    /// Ours, as the tests build it, or as its users do.
    pub fn ours(short: bool) -> Result<Heap, String> {
        let (profile, folder) = if short { ("dev", "debug") } else { ("capi", "capi") };
        cargo(["build", "--profile", profile, "--package", "woodlot-malloc-preload"], &[])?;
        let library = root().join("target").join(folder).join("libwoodlot_malloc.so");
        let library = library.canonicalize().map_err(|error| error.to_string())?;
        Ok(Heap { name: OURS, library })
    }

    /// The C library's, and the rivals.
    pub fn others() -> impl Iterator<Item = Result<Heap, String>> {
        OTHERS.iter().map(|&(name, library, package)| {
            let heap = Heap { name, library: library.into() };
            let said = heap.preload(&mut Command::new("true")).output();
            match said.map_err(|error| error.to_string())? {
                output if output.status.success() && output.stderr.is_empty() => Ok(heap),
                _ => Err(format!("there is no {library} (package {package})")),
            }
        })
    }

    /// Has a program, and all that it starts, allocate here.
    pub fn preload<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("LD_PRELOAD", &self.library)
    }

    /// Has the dynamic loader write down in a folder what names it finds where.
    pub fn write_bindings<'a>(command: &'a mut Command, folder: &Path) -> &'a mut Command {
        command.env("LD_DEBUG", "bindings").env("LD_DEBUG_OUTPUT", folder.join("bindings"))
    }

    /// Did every file of every process in the folder have its `malloc` from here?
    pub fn is_bound(&self, folder: &Path) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        let mut bound = 0;
        for entry in fs::read_dir(folder).map_err(failed)? {
            let said = fs::read(entry.map_err(failed)?.path()).map_err(failed)?;
            bound += count_bound(&String::from_utf8_lossy(&said), &self.library)?;
        }
        if bound == 0 { Err(format!("no malloc was {}'s", self.name)) } else { Ok(()) }
    }
}

/// How many files have their `malloc` from this library, if none has it from another.
fn count_bound(said: &str, library: &Path) -> Result<usize, String> {
    let mut bindings = said.lines().filter(|line| line.contains("symbol `malloc'"));
    bindings.try_fold(0, |bound, line| {
        let place = line.split(" to ").nth(1).and_then(|to| to.split(" [").next());
        let is_here =
            place.is_some_and(|place| Path::new(place).file_name() == library.file_name());
        if is_here { Ok(bound + 1) } else { Err(format!("another heap is used: {}", line.trim())) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_heap_is_noticed() {
        let line = |to| {
            format!("7:\tbinding file ./a [0] to {to} [0]: normal symbol `malloc' [GLIBC_2.2.5]\n")
        };
        let (here, there) = (line("/x/libour.so"), line("/lib/libc.so.6"));
        let other = there.replace("`malloc'", "`mallopt'");
        let library = Path::new("/y/libour.so");
        assert_eq!(count_bound(&format!("{here}{here}{other}"), library), Ok(2));
        assert!(count_bound(&format!("{here}{there}"), library).is_err());
    }
}
