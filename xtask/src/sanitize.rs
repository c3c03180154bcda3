//! `cargo xtask sanitize`: the tests with threads under the address and the thread sanitizer, without
//! suppressions. A short run leaves out the contract suite, which takes minutes to build.

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

/// Calls of each thread.
const OPS: &str = "3000";

/// Runs the threaded tests under each sanitizer.
pub fn sanitize(length: Length) -> Result<Outcome, String> {
    if let Err(why) = components(&["rust-src"]) {
        return Outcome::missing(length, why);
    }
    let host = host()?;
    for sanitizer in SANITIZERS {
        run(sanitizer.test(&host, OPS).args(["--test", "short"]))?;
        if !length.short {
            let contract = ["--test", "contract", "--"];
            run(sanitizer.test(&host, OPS).args(contract).args(THREADED))?;
        }
    }
    let what = if length.short { "the short tests" } else { "all tests with threads" };
    Ok(Outcome::Ran(format!("0 findings by 2 sanitizers on {what}, {OPS} calls for each thread")))
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
