//! `cargo xtask sanitize`: the tests with threads under the address and the thread sanitizer, without
//! suppressions.

use std::process::Command;

use crate::nightly::{components, nightly};
use crate::outcome::{Length, Outcome};
use crate::shell::{host, run};

/// The modules of the contract suite whose checks use threads.
const THREADED: [&str; 6] = ["stress::", "drains::", "hotplug::", "claims::", "frees::", "last::"];

/// A sanitizer, and what cargo needs for it.
struct Sanitizer {
    name: &'static str,
    options: (&'static str, &'static str),
    /// The thread sanitizer must see the standard library's own synchronisation.
    build_std: bool,
}

const SANITIZERS: [Sanitizer; 2] = [
    Sanitizer { name: "address", options: ("ASAN_OPTIONS", "halt_on_error=1"), build_std: false },
    Sanitizer { name: "thread", options: ("TSAN_OPTIONS", "halt_on_error=1"), build_std: true },
];

/// Runs the threaded tests under each sanitizer.
pub fn sanitize(length: Length) -> Result<Outcome, String> {
    if let Err(why) = components(&["rust-src"]) {
        return Outcome::missing(length, why);
    }
    let host = host()?;
    let ops = if length.short { "100" } else { "3000" };
    for sanitizer in SANITIZERS {
        let command = || sanitizer.test(&host, ops);
        run(command().args(["--test", "short"]))?;
        run(command().args(["--test", "contract", "--"]).args(THREADED))?;
    }
    Ok(Outcome::Ran(format!("0 findings by 2 sanitizers, {ops} calls for each thread")))
}

impl Sanitizer {
    fn test(&self, host: &str, ops: &str) -> Command {
        let mut command = nightly("cargo");
        command.args(["test", "--quiet", "--profile", "checked", "--target", host]);
        if self.build_std {
            command.arg("-Zbuild-std");
        }
        command.args(["-p", "woodlot-llfree"]);
        command.env("RUSTFLAGS", format!("-Zsanitizer={}", self.name));
        command.env("CARGO_TARGET_DIR", format!("target/sanitize-{}", self.name));
        command.env(self.options.0, self.options.1).env("WOODLOT_OPS", ops);
        command
    }
}
