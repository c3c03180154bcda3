//! `cargo xtask aarch64`: the heap of a program on AArch64, under qemu-user.
//!
//! The emulator runs the restartable sequences to their ends, on an area of the test's own. It has none of the system's, so
//! that the heap has caches of threads there. That the system aborts a sequence, this does not try.

use std::process::Command;

use crate::outcome::{Length, Outcome};
use crate::shell::{cargo, passed, run, succeeds, this_cargo};

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";

/// What cargo is told: how to link, and how to run what was linked.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("CARGO_TARGET_DIR", "target/aarch64"),
    ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER),
    ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", "qemu-aarch64 -L /usr/aarch64-linux-gnu"),
];

/// Runs the tests of the sequences and of the heap, and links the library to preload.
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
    Ok(Outcome::Ran(format!("{tests} tests of woodlot-malloc under {EMULATOR}")))
}
