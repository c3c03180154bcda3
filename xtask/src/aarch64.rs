//! `cargo xtask aarch64`: the heap of a program on AArch64, under qemu-user.
//!
//! The emulator runs the restartable sequences to their ends, on an area of the test's own. It has none of the system's, so
//! that the heap has caches of threads there. That the system aborts a sequence, this does not try.

use std::process::Command;

use crate::outcome::{Length, Outcome};
use crate::shell::{capture_both, cargo, passed, root, run, succeeds, this_cargo};

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";
/// The emulator, and where it finds the C library.
const RUNNER: &str = "qemu-aarch64 -L /usr/aarch64-linux-gnu";

/// The parts of the C program of `malloc/preload/tests` that can be tried there. The emulator fails where a program with threads forks, also with
/// the C library's heap, and lacks what others ask of the system: limits, filters, and the pages of its own that are in memory.
const PARTS: [&str; 8] =
    ["sizes", "zeroed", "resized", "aligned", "given_back", "cyclical", "tides", "signals"];

/// What cargo is told: how to link, and how to run what was linked.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("CARGO_TARGET_DIR", "target/aarch64"),
    ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER),
    ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", RUNNER),
];

/// Runs the tests of the sequences and of the heap, links the library to preload, and in a full run preloads it.
pub fn aarch64(length: Length) -> Result<Outcome, String> {
    for program in [LINKER, EMULATOR] {
        if !succeeds(Command::new(program).arg("--version")) {
            return Outcome::missing(length, format!("{program} is not there"));
        }
    }
    if let Err(why) = run(Command::new("rustup").args(["target", "add", TARGET])) {
        return Outcome::missing(length, format!("Rust for {TARGET} is not to be had ({why})"));
    }
    let mut tests = this_cargo();
    tests.args(["test", "--quiet", "--package", "woodlot-malloc", "--target", TARGET]);
    tests.args(["--lib", "--test", "heap"]).envs(ENVIRONMENT);
    let tests = passed(&mut tests)?;
    let preload = ["build", "--quiet", "--package", "woodlot-malloc-preload", "--target", TARGET];
    cargo(preload, &ENVIRONMENT)?;
    let tests = format!("{tests} tests of woodlot-malloc under {EMULATOR}");
    if length.short {
        return Ok(Outcome::Ran(tests));
    }
    let parts = preloaded()?;
    Ok(Outcome::Ran(format!("{tests}, {parts} parts of a C program with the library preloaded")))
}

/// Has a C program check what each call of the library promises, some seconds for each part; how many there were.
fn preloaded() -> Result<usize, String> {
    let (folder, tests) = (root().join("target/aarch64"), root().join("malloc/preload"));
    let program = folder.join("contract");
    let mut compile = Command::new(LINKER);
    compile.args(["-O1", "-Wall", "-Werror", "-pthread", "-I"]).arg(tests.join("include"));
    run(compile.arg("-o").args([&program, &tests.join("tests/contract.c")]))?;
    let library = folder.join(TARGET).join("debug/libwoodlot_malloc.so");
    for part in PARTS {
        let mut emulated = Command::new(EMULATOR);
        emulated
            .args(RUNNER.split(' ').skip(1))
            .arg("-E")
            .arg(format!("LD_PRELOAD={}", library.display()));
        // So the library says at the end of a program what its heap has, or that the emulator lets nobody look.
        emulated.args(["-E", "WOODLOT_MALLOC_STATS=text"]).arg(&program).arg(part);
        let (_, complained) = capture_both(&mut emulated)?;
        if !complained.contains("woodlot_malloc") || !complained.contains("process ") {
            return Err(format!("{part}: the library was not preloaded: {complained}"));
        }
    }
    Ok(PARTS.len())
}
