//! Every habit of this repository, one verb each: `cargo xtask --help`.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Instant, SystemTime};

use clap::{Args, Parser, Subcommand};

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
    /// Explore every interleaving under sequential consistency (short: about 6 minutes)
    Model(Bounds),
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

#[derive(Args)]
struct Bounds {
    /// Larger models and bounds: an hour or more
    #[arg(long)]
    full: bool,
    /// Only scenarios whose name contains this
    name: Option<String>,
}

const SHORT: Bounds = Bounds { full: false, name: None };

/// The crates that are published, each after those that it depends on.
const PUBLISHED: [&str; 8] = [
    "woodlot-explore",
    "woodlot-frame",
    "woodlot-llfree",
    "woodlot-nbbs",
    "woodlot-rivals",
    "woodlot-trace",
    "woodlot-bench",
    "woodlot-cli",
];

/// The crates whose concurrent code is model-checked.
const CORE: [&str; 3] = ["woodlot-frame", "woodlot-llfree", "woodlot-nbbs"];

/// The crates that keep the contract and have models.
const ENGINES: [&str; 2] = ["woodlot-llfree", "woodlot-nbbs"];

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
        Verb::Contract => {
            let engines = ENGINES.iter().flat_map(|krate| ["-p", krate]);
            let test = ["test", "--profile", "checked"].into_iter().chain(engines);
            cargo(test.chain(["--test", "contract"]), &[])
        }
        Verb::Lint => lint(),
        Verb::Loom(bounds) => models("loom", &bounds),
        Verb::Model(bounds) => models("woodlot_explore", &bounds),
        Verb::Callgrind { engine } => callgrind(&engine),
        Verb::Package => package(),
        Verb::CleanBuild => clean_build(),
        Verb::Checks => {
            lint()?;
            run(Verb::Contract)?;
            run(Verb::Model(SHORT))?;
            run(Verb::Loom(SHORT))?;
            package()
        }
    }
}

fn lint() -> Result<(), String> {
    cargo(["fmt", "--all", "--check"], &[])?;
    cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])?;
    for cfg in ["loom", "woodlot_explore"] {
        let core = CORE.iter().flat_map(|krate| ["-p", krate]);
        let clippy = ["clippy", "--all-targets"].into_iter().chain(core);
        cargo(clippy.chain(["--", "-D", "warnings"]), &[("RUSTFLAGS", &format!("--cfg {cfg}"))])?;
    }
    cargo(["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])
}

/// The models of the engines under one checker, in a target folder of its own: the flag
/// changes every crate.
fn models(cfg: &str, bounds: &Bounds) -> Result<(), String> {
    let mut test = vec!["test", "--release", "--lib"];
    test.extend(ENGINES.iter().flat_map(|krate| ["-p", krate]));
    test.extend(["--", "--nocapture", "--test-threads", "2"]);
    test.push(bounds.name.as_deref().unwrap_or("models"));
    let flags = format!("--cfg {cfg}");
    let target = format!("target/{cfg}");
    let full = if bounds.full { "1" } else { "0" };
    cargo(test, &[("RUSTFLAGS", &flags), ("CARGO_TARGET_DIR", &target), ("WOODLOT_FULL", full)])
}

/// Instructions of a repeat pair, by order: the difference of two runs that differ in length.
fn callgrind(engine: &str) -> Result<(), String> {
    const SHORT: u64 = 1_000;
    const LONG: u64 = 11_000;
    cargo(["build", "--release", "-p", "woodlot-bench", "--example", "instructions"], &[])?;
    let collected = |order: u8, pairs: u64| -> Result<u64, String> {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        valgrind.arg(root().join("target/release/examples/instructions"));
        valgrind.args([engine, &order.to_string(), &pairs.to_string()]);
        let output = valgrind.output().map_err(|error| format!("valgrind: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let count = said.lines().find_map(|line| line.split("Collected : ").nth(1)?.parse().ok());
        count.filter(|_| output.status.success()).ok_or_else(|| format!("valgrind said: {said}"))
    };
    println!("instructions for one allocation and its free, {engine}");
    for order in 0..=10 {
        let pairs = collected(order, LONG)? - collected(order, SHORT)?;
        println!("order {order:2}: {:.1}", pairs as f64 / (LONG - SHORT) as f64);
    }
    Ok(())
}

/// Packages and builds what is published, in a folder of its own: cargo remembers a crate that it
/// took from there by folder, name and version, and would build what an earlier run packaged.
fn package() -> Result<(), String> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let target = format!("target/package-{}", now.as_nanos());
    let crates = PUBLISHED.iter().flat_map(|krate| ["-p", krate]);
    let args = ["package", "--allow-dirty"].into_iter().chain(crates);
    let packaged = cargo(args, &[("CARGO_TARGET_DIR", &target)]);
    let removed = std::fs::remove_dir_all(root().join(&target));
    packaged.and_then(|()| removed.map_err(|error| format!("{target}: {error}")))
}

fn clean_build() -> Result<(), String> {
    const TARGET: &str = "target/clean-build";
    let _ = std::fs::remove_dir_all(root().join(TARGET));
    let start = Instant::now();
    cargo(["build", "--release", "--workspace"], &[("CARGO_TARGET_DIR", TARGET)])?;
    println!("clean build: {:.0} s", start.elapsed().as_secs_f64());
    std::fs::remove_dir_all(root().join(TARGET)).map_err(|error| format!("{TARGET}: {error}"))
}

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Runs cargo at the root of the repository.
fn cargo<A: AsRef<OsStr>>(
    args: impl IntoIterator<Item = A>,
    env: &[(&str, &str)],
) -> Result<(), String> {
    let args: Vec<A> = args.into_iter().collect();
    let shown: Vec<_> = args.iter().map(|arg| arg.as_ref().to_string_lossy()).collect();
    let shown = format!("cargo {}", shown.join(" "));
    let set: String = env.iter().map(|(name, value)| format!("{name}='{value}' ")).collect();
    eprintln!("xtask: {set}{shown}");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let status = command.args(&args).envs(env.iter().copied()).current_dir(root()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown}: {status}")),
        Err(error) => Err(format!("{shown}: {error}")),
    }
}
