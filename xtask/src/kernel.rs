//! `cargo xtask kernel`: Linux with this repository's allocator, built, booted and put under stress
//! in a guest (`linux/run`).

use std::process::Command;

use crate::outcome::{Length, Outcome};
use crate::shell::{root, run};

/// The exit status of `linux/run fetch` where the kernel source is not installed.
const NO_SOURCE: i32 = 3;

/// Runs for CI: on one CPU at full speed, with both engines, and where two CPUs race. The second kernel of an architecture is
/// linked from the first one's folder.
const SHORT: [&str; 3] = [
    "test um --mem 512M --seconds 5",
    "test um --engine onewrite --mem 512M --seconds 1",
    "test x86 --cpus 2 --mem 1G --seconds 5",
];

/// Beside these: power-offs, sizes of memory, nodes, holes, and the kernel's own assertions.
const FULL: [&str; 19] = [
    "boot um --times 50",
    "test um --mem 256M",
    "test um --mem 1G",
    "test um --mem 4G",
    "test um --mem 8G",
    "test um --mem 1G --with reporting",
    "test x86 --cpus 1 --mem 256M",
    "test x86 --cpus 2 --mem 4G",
    "test x86 --cpus 4 --mem 4G",
    "test x86 --cpus 4 --nodes 2 --mem 2G",
    "test x86 --cpus 2 --mem 1G --append memmap=64M$256M --append memmap=3M$513M",
    "test x86 --cpus 2 --mem 8G",
    "test x86 --cpus 2 --mem 1G --with features",
    "test x86 --cpus 2 --mem 1G --with debug-vm,lockdep,kasan",
    "boot um --engine onewrite --times 10",
    "test um --engine onewrite --mem 4G",
    "test um --engine onewrite --mem 1G --with reporting",
    "test x86 --engine onewrite --cpus 2 --mem 1G",
    "test x86 --engine onewrite --cpus 4 --nodes 2 --mem 2G",
];

/// Of `linux/run` itself.
const TESTS: [&str; 9] =
    ["-B", "-m", "unittest", "discover", "-s", "linux/harness", "-t", "linux", "-ptests.py"];

/// Runs the guests one after the other.
pub fn kernel(length: Length) -> Result<Outcome, String> {
    run(Command::new("python3").args(TESTS))?;
    let mut fetch = Command::new(root().join("linux/run"));
    let status = fetch.arg("fetch").status();
    let status = status.map_err(|error| format!("linux/run: {error}"))?;
    match status.code() {
        Some(0) => {}
        Some(NO_SOURCE) => {
            return Outcome::missing(length, "linux-source-6.12 is not there".into());
        }
        _ => return Err(format!("linux/run fetch: {status}")),
    }
    let full = if length.short { &[] } else { &FULL[..] };
    let guests: Vec<_> = SHORT.iter().chain(full).collect();
    for words in &guests {
        run(Command::new(root().join("linux/run")).args(words.split(' ')))?;
    }
    Ok(Outcome::Ran(format!("{} guest runs passed", guests.len())))
}
