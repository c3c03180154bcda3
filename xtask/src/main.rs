//! Every habit of this repository, one verb each: `cargo xtask --help`.

mod callgrind;
mod coverage;
mod fuzz;
mod lint;
mod miri;
mod models;
mod nightly;
mod no_panic;
mod outcome;
mod package;
mod sanitize;
mod shell;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use fuzz::Fuzz;
use models::{Bounds, ENGINES, SHORT as SHORT_MODELS, models};
use outcome::{Length, Outcome, Step, run_all};
use shell::cargo;

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
    /// Check format, clippy (every cfg, warnings denied) and documentation (about 2 minutes)
    Lint,
    /// Search interleavings and memory orderings with loom, 3 preemptions (short: about 7 minutes)
    Loom(Bounds),
    /// Explore every interleaving under sequential consistency (short: about 2 minutes)
    Model(Bounds),
    /// Look for panics, heap, locks, floats and divisions in what a kernel would link (half a minute)
    NoPanic,
    /// Fuzz with coverage: call histories, recovery, trace files, command lines (40 minutes; short: 2)
    Fuzz(Fuzz),
    /// Interpret the core crates with Miri (15 minutes; short: 2)
    Miri(Length),
    /// Run the tests with threads under the address and thread sanitizers (10 minutes; short: 2)
    Sanitize(Length),
    /// Measure which lines and branches of the core crates are tested (3 minutes; short: 1)
    Coverage(Length),
    /// Count instructions for an allocation and its free, with valgrind (about 1 minute)
    Callgrind {
        /// The allocator, as `woodlot bench` names it
        #[arg(default_value = "llfree")]
        engine: String,
    },
    /// Package every crate that is published
    Package,
    /// Build the workspace from nothing and say how long it took
    CleanBuild,
    /// Everything that .ci/run does after the README's test command
    Checks,
}

const SHORT: Length = Length { short: true };

/// What CI runs after the tests, the quickest to fail first.
const CHECKS: [Step; 10] = [
    ("lint", || lint::lint().map(|()| Outcome::done())),
    ("no-panic", || no_panic::no_panic().map(Outcome::Ran)),
    ("contract", || contract().map(|()| Outcome::done())),
    ("model", || models("woodlot_explore", &SHORT_MODELS).map(|()| Outcome::done())),
    ("loom", || models("loom", &SHORT_MODELS).map(|()| Outcome::done())),
    ("fuzz", || fuzz::fuzz(&fuzz::SHORT)),
    ("miri", || miri::miri(SHORT)),
    ("sanitize", || sanitize::sanitize(SHORT)),
    ("coverage", || coverage::coverage(SHORT)),
    ("package", || package::package().map(|()| Outcome::done())),
];

fn main() -> ExitCode {
    match run(Xtask::parse().verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> Result<(), String> {
    match verb {
        Verb::Test => cargo(["test", "--workspace"], &[]),
        Verb::Contract => contract(),
        Verb::Lint => lint::lint(),
        Verb::Loom(bounds) => models("loom", &bounds),
        Verb::Model(bounds) => models("woodlot_explore", &bounds),
        Verb::NoPanic => said("no-panic", no_panic::no_panic().map(Outcome::Ran)),
        Verb::Fuzz(length) => said("fuzz", fuzz::fuzz(&length)),
        Verb::Miri(length) => said("miri", miri::miri(length)),
        Verb::Sanitize(length) => said("sanitize", sanitize::sanitize(length)),
        Verb::Coverage(length) => said("coverage", coverage::coverage(length)),
        Verb::Callgrind { engine } => callgrind::callgrind(&engine),
        Verb::Package => package::package(),
        Verb::CleanBuild => package::clean_build(),
        Verb::Checks => said("checks", run_all(&CHECKS)),
    }
}

/// Prints the last line of a checker.
fn said(name: &str, outcome: Result<Outcome, String>) -> Result<(), String> {
    outcome.map(|outcome| outcome.say(name)).map_err(|why| format!("{name}: {why}"))
}

fn contract() -> Result<(), String> {
    let engines = ENGINES.iter().flat_map(|krate| ["-p", krate]);
    let test = ["test", "--profile", "checked"].into_iter().chain(engines);
    cargo(test.chain(["--test", "contract"]), &[])
}
