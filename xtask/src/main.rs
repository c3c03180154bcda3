//! Every habit of this repository, one verb each: `cargo xtask --help`.

mod aarch64;
mod boot;
mod callgrind;
mod capi;
mod coverage;
mod crash;
mod docs;
mod fuzz;
mod histories;
mod kernel;
mod links;
mod lint;
mod minimum;
mod miri;
mod models;
mod moves;
mod mutants;
mod nightly;
mod no_panic;
mod outcome;
mod package;
mod persist;
mod programs;
mod report;
mod rings;
mod sanitize;
mod scale;
mod shell;
mod shuttle;
mod storm;
mod tools;
mod trust;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use capi::Capi;
use coverage::Coverage;
use fuzz::Fuzz;
use histories::Histories;
use models::{ENGINES, Models, models};
use mutants::Mutants;
use outcome::{Check, Length, Outcome, run_all, run_one};
use persist::Persist;
use programs::Programs;
use scale::Scale;
use shell::{cargo, passed, this_cargo};
use shuttle::Shuttle;
use trust::Trust;

/// Every habit of this repository, one verb each.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", version, arg_required_else_help = true)]
struct Xtask {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run every test: cargo test --workspace (about 3 minutes)
    Test,
    /// Run the contract suite on every engine in release with debug assertions (about 2 minutes)
    Contract,
    /// Check format, clippy (every cfg, warnings denied), a build for 32 bits, documentation and links between pages (about 2 minutes)
    Lint,
    /// Search interleavings and memory orderings with loom, 3 preemptions (half an hour; short: 2 minutes)
    Loom(Models),
    /// Explore every interleaving under sequential consistency (10 minutes; short: 2)
    Model(Models),
    /// Run random histories of whole allocators under shuttle (a quarter of an hour; short: 1.5 minutes)
    Shuttle(Shuttle),
    /// Enumerate what a crash leaves in persistent memory, and recover it (5 minutes; short: 40 s)
    Persist(Persist),
    /// Kill processes that share a zone at any moment, and compare what is left with a log (10 minutes; short: 20 s)
    Crash(Length),
    /// Look for panics, heap, locks, floats and divisions in what a kernel would link (half a minute, short or not)
    NoPanic(Length),
    /// Make 10^9 random calls that the naive model judges, on every engine (half an hour; short: 20 s)
    Histories(Histories),
    /// Fuzz with coverage: 10^8 call histories, recoveries, calls of kmem, trace files, command lines (half an hour, and four hours of kmem; short: 2 minutes)
    Fuzz(Fuzz),
    /// Interpret the core crates with Miri (15 minutes; short: 3)
    Miri(Length),
    /// Run the tests with threads under the address and thread sanitizers (10 minutes; short: 2)
    Sanitize(Length),
    /// Abort a million sequences of the heap's threads: signals, moves, thefts, forks (10 minutes)
    Storm,
    /// Move real memory under load for an hour: nothing may be torn, lost or in two hands
    Moves,
    /// Run compilers, Python, SQLite and Redis with the preloaded heap, beside others (20 minutes; short: 30 s)
    Programs(Programs),
    /// Seed defects into the engines: the test named for each must fail (half an hour; short: 1.5)
    Mutants(Mutants),
    /// Measure which lines and branches of the core crates are tested (10 minutes; short: 3)
    Coverage(Coverage),
    /// Count instructions for an allocation and its free, with valgrind (about 1 minute)
    Callgrind {
        /// The allocator, as `woodlot bench` names it
        #[arg(default_value = "llfree")]
        engine: String,
        /// Of half of 1 GiB that is allocated and then freed, in place of a block after another
        #[arg(long)]
        bulk: bool,
    },
    /// Simulate 1 to 256 CPUs: woodlot bench scale, in seconds (a minute or two to build)
    Scale(Scale),
    /// Build the library for C, install it, compile and run programs against it (2 minutes)
    Capi(Capi),
    /// Run the tests of the heap of a program on AArch64, under qemu-user (4 minutes; short: half a minute)
    Aarch64(Length),
    /// Draw the report and open it in headless Chromium: both themes, desk and phone (6 minutes; short: 2)
    Report(Length),
    /// Boot the example kernel in QEMU, on several machines, and count its lines (1 minute; short: half)
    Boot(Length),
    /// Build Linux with this allocator, boot it, put it under stress (an hour; short: 10 minutes, 3 warm)
    Kernel(Length),
    /// Package every crate that is published, and do with it what its README says (3 minutes)
    Package,
    /// Look for files that import each other: no more than two may (a second)
    Rings,
    /// Build what is published with the oldest Rust that it states, installed where it is missing (2 minutes)
    MinimumRust(Length),
    /// Build the workspace from nothing and say how long it took
    CleanBuild,
    /// The tests and every other check of .ci/run, two at a time
    Checks,
    /// One of these, or of trust, as they run it: its short form
    #[command(hide = true)]
    Check { name: String },
    /// Every checker of the core crates at full length, its figure written to docs/trust.md (6 hours)
    Trust(Trust),
}

/// The checkers of the core crates, the quickest first: what `trust` runs.
const TRUST: [Check; 11] = [
    ("no-panic", |_| no_panic::no_panic().map(Outcome::Ran)),
    ("contract", |_| contract().map(Outcome::Ran)),
    ("model", |length| models("woodlot_explore", &length.into())),
    ("loom", |length| models("woodlot_loom", &length.into())),
    ("shuttle", |length| shuttle::shuttle(&length.into())),
    ("persist", |length| persist::persist(&length.into())),
    ("crash", crash::crash),
    ("programs", |length| programs::programs(&length.into())),
    ("histories", |length| histories::histories(&length.into())),
    ("fuzz", |length| fuzz::fuzz(&length.into())),
    ("miri", miri::miri),
];

/// What CI has no time for: `trust` runs it, too.
const UNHURRIED: [Check; 3] = [
    ("mutants", |length| mutants::mutants(&length.into())),
    ("sanitize", sanitize::sanitize),
    ("coverage", |length| coverage::coverage(&length.into())),
];

/// What only a full run of `trust` has: it takes hours, or its short form is a test.
const LONG: [Check; 3] = [
    ("storm", |_| storm::storm()),
    ("moves", |_| moves::moves()),
    ("cargo-mutants", |_| mutants::generated(None, None).map(Outcome::Ran)),
];

/// What CI runs beside them.
const BESIDE: [Check; 11] = [
    ("tests", |_| tests().map(|()| Outcome::done())),
    ("rings", |_| rings::rings().map(Outcome::Ran)),
    ("lint", |_| lint::lint().map(|()| Outcome::done())),
    ("scale", |_| scale::tests()),
    ("capi", capi::check),
    ("aarch64", aarch64::aarch64),
    ("boot", boot::boot),
    ("report", report::report),
    ("kernel", kernel::kernel),
    ("package", |_| package::package()),
    ("minimum-rust", minimum::minimum_rust),
];

/// What CI begins with, and all others after it: the longest first, so that both processors have work to the end. `rings` costs
/// nothing. Clippy builds in the folder of the tests, and would wait for them; the report takes the program that `crash` has
/// built.
const FIRST: [&str; 14] = [
    "tests", "rings", "crash", "persist", "lint", "kernel", "shuttle", "package", "model", "loom",
    "fuzz", "miri", "scale", "no-panic",
];

fn main() -> ExitCode {
    match run(Xtask::parse().verb) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> Result<ExitCode, String> {
    match verb {
        Verb::Test => tests(),
        Verb::Contract => said("contract", contract().map(Outcome::Ran)),
        Verb::Lint => lint::lint(),
        Verb::Loom(what) => said("loom", models("woodlot_loom", &what)),
        Verb::Model(what) => said("model", models("woodlot_explore", &what)),
        Verb::Shuttle(what) => said("shuttle", shuttle::shuttle(&what)),
        Verb::Persist(what) => said("persist", persist::persist(&what)),
        Verb::Crash(length) => said("crash", crash::crash(length)),
        Verb::NoPanic(_) => said("no-panic", no_panic::no_panic().map(Outcome::Ran)),
        Verb::Histories(length) => said("histories", histories::histories(&length)),
        Verb::Fuzz(length) => said("fuzz", fuzz::fuzz(&length)),
        Verb::Miri(length) => said("miri", miri::miri(length)),
        Verb::Sanitize(length) => said("sanitize", sanitize::sanitize(length)),
        Verb::Programs(options) => said("programs", programs::programs(&options)),
        Verb::Storm => said("storm", storm::storm()),
        Verb::Moves => said("moves", moves::moves()),
        Verb::Mutants(options) => said("mutants", mutants::mutants(&options)),
        Verb::Coverage(options) => said("coverage", coverage::coverage(&options)),
        Verb::Callgrind { engine, bulk } => callgrind::callgrind(&engine, bulk),
        Verb::Aarch64(length) => said("aarch64", aarch64::aarch64(length)),
        Verb::Scale(options) => scale::scale(&options),
        Verb::Capi(options) => said("capi", capi::capi(&options)),
        Verb::Report(length) => said("report", report::report(length)),
        Verb::Boot(length) => said("boot", boot::boot(length)),
        Verb::Kernel(length) => said("kernel", kernel::kernel(length)),
        Verb::Rings => said("rings", rings::rings().map(Outcome::Ran)),
        Verb::Package => said("package", package::package()),
        Verb::MinimumRust(length) => said("minimum-rust", minimum::minimum_rust(length)),
        Verb::CleanBuild => package::clean_build(),
        Verb::Checks => said("checks", run_all(of_ci())),
        Verb::Check { name } => return check(&name),
        Verb::Trust(trust) => {
            let long = if trust.full { &LONG[..] } else { &[] };
            said("trust", trust::trust(&trust, &[&TRUST[..], &UNHURRIED, long].concat()))
        }
    }?;
    Ok(ExitCode::SUCCESS)
}

/// The checks of CI, in the order in which they begin.
fn of_ci() -> Vec<&'static Check> {
    let mut checks: Vec<_> = [&TRUST[..], &BESIDE].into_iter().flatten().collect();
    let place = |check: &&Check| FIRST.iter().position(|name| *name == check.0);
    checks.sort_by_key(|check| place(check).unwrap_or(FIRST.len()));
    checks
}

/// Runs the check of this name.
fn check(name: &str) -> Result<ExitCode, String> {
    let mut all = [&TRUST[..], &UNHURRIED, &BESIDE].into_iter().flatten();
    run_one(all.find(|check| check.0 == name).ok_or("there is no such check")?)
}

/// Every test: those of the workspace, and those of heaps that are built to check each free, to count each call, or with another front.
fn tests() -> Result<(), String> {
    cargo(["test", "--workspace"], &[])?;
    let built = [
        ("woodlot-malloc", "checked", "checked"),
        ("woodlot-capi", "checked", "kmem"),
        ("woodlot-malloc", "counted", "outside"),
        ("woodlot-capi", "counted", "kmem"),
        ("woodlot-malloc", "allocator-api2", "heap"),
    ];
    built.into_iter().try_for_each(|(package, feature, test)| {
        cargo(["test", "-p", package, "--features", feature, "--test", test], &[])
    })
}

/// Prints the last line of a checker.
fn said(name: &str, outcome: Result<Outcome, String>) -> Result<(), String> {
    outcome.map(|outcome| outcome.say(name)).map_err(|why| format!("{name}: {why}"))
}

/// Runs the contract suite; how many of its tests passed.
fn contract() -> Result<String, String> {
    let mut command = this_cargo();
    command.args(["test", "--profile", "checked", "--test", "contract"]);
    command.args(ENGINES.iter().flat_map(|krate| ["-p", krate]));
    let passed = passed(&mut command)?;
    Ok(format!("{passed} checks passed on {} engines", ENGINES.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_of_ci_runs_once_the_longest_first() {
        let begun: Vec<&str> = of_ci().iter().map(|check| check.0).collect();
        assert_eq!(begun[..FIRST.len()], FIRST);
        let mut named: Vec<&str> = TRUST.iter().chain(&BESIDE).map(|check| check.0).collect();
        let mut sorted = begun;
        named.sort();
        sorted.sort();
        assert_eq!(sorted, named);
        named.dedup();
        assert_eq!(named.len(), TRUST.len() + BESIDE.len());
    }
}
