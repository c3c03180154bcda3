//! `cargo xtask sanitize`: the tests with threads under the address and the thread sanitizer, without
//! suppressions. A short run leaves out the contract suite, which takes minutes to build.

use std::process::Command;

use crate::models::ENGINES;
use crate::nightly::{components, nightly};
use crate::outcome::{Length, Outcome};
use crate::shell::{host, passed};

/// The modules of the contract suite whose checks use threads.
pub const THREADED: [&str; 8] =
    ["stress::", "drains::", "hotplug::", "claims::", "frees::", "last::", "runs::", "isolators::"];

/// A sanitizer, and what cargo needs for it.
pub struct Sanitizer {
    name: &'static str,
    options: (&'static str, &'static str),
    /// The thread sanitizer must see the standard library's own synchronisation.
    build_std: bool,
}

pub const ADDRESS: Sanitizer =
    Sanitizer { name: "address", options: ("ASAN_OPTIONS", "halt_on_error=1"), build_std: false };
pub const THREAD: Sanitizer =
    Sanitizer { name: "thread", options: ("TSAN_OPTIONS", "halt_on_error=1"), build_std: true };

const SANITIZERS: [Sanitizer; 2] = [ADDRESS, THREAD];

/// Calls of each thread.
const OPS: &str = "3000";

/// Runs the threaded tests under each sanitizer.
pub fn sanitize(length: Length) -> Result<Outcome, String> {
    if let Err(why) = components(&["rust-src"]) {
        return Outcome::missing(length, why);
    }
    let host = host()?;
    let mut tests = 0;
    for sanitizer in SANITIZERS {
        for engine in ENGINES {
            tests += passed(sanitizer.test(&host, engine).args(["--test", "short"]))?;
            if !length.short {
                let contract = ["--test", "contract", "--"];
                tests += passed(sanitizer.test(&host, engine).args(contract).args(THREADED))?;
            }
        }
    }
    let what = if length.short { "the short ones" } else { "all that have threads" };
    Ok(Outcome::Ran(format!(
        "0 findings by {} sanitizers in {tests} runs of tests, {what}, of {} engines; up to {OPS} \
         calls for each thread",
        SANITIZERS.len(),
        ENGINES.len()
    )))
}

impl Sanitizer {
    /// Tests of a package under the sanitizer, built for this host.
    pub fn test(&self, host: &str, package: &str) -> Command {
        let mut command = nightly("cargo");
        command.args(["test", "--quiet", "--profile", "checked", "--target", host]);
        if self.build_std {
            command.arg("-Zbuild-std");
        }
        command.args(["-p", package]);
        command.env("RUSTFLAGS", format!("-Zsanitizer={}", self.name));
        command.env("CARGO_TARGET_DIR", format!("target/sanitize-{}", self.name));
        command.env(self.options.0, self.options.1).env("WOODLOT_OPS", OPS);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::root;

    #[test]
    fn the_checks_with_threads_are_those_of_the_suite() {
        let suite = std::fs::read_to_string(root().join("suite/src/lib.rs")).expect("it is there");
        let modules = suite.lines().filter_map(|line| line.trim().strip_prefix("threads::"));
        let modules = modules.filter_map(|rest| Some(rest.split_once(": ")?.0.to_owned() + "::"));
        let mut modules: Vec<String> = modules.collect();
        modules.sort();
        let mut threaded = THREADED;
        threaded.sort();
        assert_eq!(modules, threaded);
    }
}
