//! `cargo xtask fuzz`: coverage-guided fuzzing with libFuzzer, which is compiled in from the
//! registry: a C++ compiler is all it needs.
//!
//! What the targets do is in `fuzz/src`. What was learned is kept in `target/fuzz/corpus`, and a
//! run begins with it and with `fuzz/seeds`. A failing input is printed as the one line that
//! replays it. Two processes run at a time.
//!
//! A full run is made in parts, of which `target/fuzz/tally` has those that have ended well, for each
//! binary: a run that was stopped goes on there, if nothing has changed since.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::{Args, ValueEnum};

use crate::outcome::{Length, Outcome};
use crate::shell::{capture, cargo, host, root, run, succeeds, two_at_a_time};

/// What is fuzzed, how long, or what is replayed.
#[derive(Args)]
pub struct Fuzz {
    /// Only this target; otherwise all
    #[arg(value_enum)]
    target: Option<Target>,
    #[command(flatten)]
    length: Length,
    /// Seconds for each target [default: until it has made its executions, short 5]
    #[arg(long)]
    seconds: Option<u32>,
    /// Run only this input, as a failure printed it
    #[arg(long, value_name = "HEX", requires = "target")]
    input: Option<String>,
}

impl From<Length> for Fuzz {
    fn from(length: Length) -> Self {
        Self { target: None, length, seconds: None, input: None }
    }
}

/// The targets.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// Calls of the contract, against the reference model
    History,
    /// Calls of the kernel memory allocator, against a list of what is in use
    Kmem,
    /// Recovery of damaged durable bytes
    Recovery,
    /// Trace files
    Trace,
    /// Command lines; takes minutes to build, so not in a short run
    Command,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Target::History => "history",
            Target::Kmem => "kmem",
            Target::Recovery => "recovery",
            Target::Trace => "trace",
            Target::Command => "command",
        }
    }

    /// Executions of a full run, in whole parts: 1.1 · 10^8 in all. One of the engines takes as long as five to
    /// ten of the others, so most of the time goes into them.
    fn executions(self) -> u64 {
        match self {
            Target::History => 20_000_000,
            Target::Kmem | Target::Recovery => 10_000_000,
            Target::Trace => 60_000_000,
            Target::Command => 10_000_000,
        }
    }

    /// Executions of one process in a full run: so many that reading the corpus does not matter, so few
    /// that both processors have work to the end. Of kmem there are 650 a second.
    fn part(self) -> u64 {
        if self == Target::Kmem { 100_000 } else { 2_500_000 }
    }

    /// The longest input, in bytes: short enough for a line to replay it, and of calls, which cost the most
    /// and of which `cargo xtask histories` makes long rows, so short that there are many.
    fn max_len(self) -> &'static str {
        match self {
            Target::History | Target::Kmem | Target::Recovery => "-max_len=256",
            Target::Trace | Target::Command => "-max_len=1024",
        }
    }
}

/// How long a target is fuzzed.
#[derive(Clone, Copy)]
enum Bound {
    Seconds(u32),
    Executions(u64),
}

impl Bound {
    fn argument(self) -> String {
        match self {
            Bound::Seconds(seconds) => format!("-max_total_time={seconds}"),
            Bound::Executions(executions) => format!("-runs={executions}"),
        }
    }
}

/// Counters at every edge. Not the operands of comparisons: an input is a row of choices, not of values
/// to be hit, and following them took half of the time.
const INSTRUMENTED: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table";

/// What every fuzzer is told: weighing the corpus by entropy, and looking again and again for what others
/// wrote to it, would take longer than running it.
const OPTIONS: [&str; 3] = ["-entropic=0", "-reload=0", "-verbosity=0"];

/// Fuzzes each target for its time, or replays one input.
pub fn fuzz(fuzz: &Fuzz) -> Result<Outcome, String> {
    if let Err(why) = compiler() {
        return Outcome::missing(fuzz.length, why);
    }
    let targets: Vec<Target> = match fuzz.target {
        Some(target) => vec![target],
        None => Target::value_variants().iter().copied().filter(|t| fuzz.takes(*t)).collect(),
    };
    let binaries = build(&targets)?;
    if let (Some(target), Some(input)) = (fuzz.target, &fuzz.input) {
        return replay(&binaries, target, input);
    }
    seeded_defects_are_found(&binaries)?;
    let seconds = fuzz.seconds.or(fuzz.length.short.then_some(5));
    let ran = match seconds {
        Some(seconds) => two_at_a_time(targets.iter().copied(), |target| {
            search(&binaries, target, Bound::Seconds(seconds))
        })?,
        None => in_parts(&binaries, &targets)?,
    };
    let executions: u64 = ran.iter().sum();
    let left_out = if targets.len() == 4 { ", `command` left out" } else { "" };
    Ok(Outcome::Ran(format!(
        "{} targets{left_out}, {executions} executions, 0 crashes; {seeded} of {seeded} seeded \
         defects found",
        targets.len(),
        seeded = SEEDED.iter().map(|seeded| seeded.defects.len()).sum::<usize>()
    )))
}

impl Fuzz {
    fn takes(&self, target: Target) -> bool {
        !self.length.short || target != Target::Command
    }
}

/// Makes what is left of the executions of a full run, and returns how many there are now.
fn in_parts(binaries: &Path, targets: &[Target]) -> Result<Vec<u64>, String> {
    let tally = Tally(folder().join("tally"));
    let mut parts = Vec::new();
    let mut before = 0;
    for &target in targets {
        let name = target.name();
        let binary = capture(Command::new("git").arg("hash-object").arg(binaries.join(name)))?;
        let key = format!("{name} {}", binary.trim());
        let made = tally.made(&key);
        println!("{name}: {made} of {} executions made before", target.executions());
        before += made;
        let left = target.executions().saturating_sub(made).div_ceil(target.part());
        parts.extend((0..left).map(|_| (target, key.clone())));
    }
    let part = |(target, key): (Target, String)| {
        let ran = search(binaries, target, Bound::Executions(target.part()))?;
        tally.add(&key, ran).map(|()| ran)
    };
    let mut ran = two_at_a_time(parts, part)?;
    ran.push(before);
    // All is made: the next run begins anew.
    tally.clear()?;
    Ok(ran)
}

/// The executions that have been made, in lines of target, hash of its binary, number.
struct Tally(PathBuf);

impl Tally {
    fn made(&self, key: &str) -> u64 {
        let lines = fs::read_to_string(&self.0).unwrap_or_default();
        let made = |line: &str| line.strip_prefix(key)?.trim().parse::<u64>().ok();
        lines.lines().filter_map(made).sum()
    }

    fn add(&self, key: &str, ran: u64) -> Result<(), String> {
        let file = File::options().create(true).append(true).open(&self.0);
        let added = file.and_then(|mut file| file.write_all(format!("{key} {ran}\n").as_bytes()));
        added.map_err(|error| format!("{}: {error}", self.0.display()))
    }

    fn clear(&self) -> Result<(), String> {
        fs::write(&self.0, "").map_err(|error| format!("{}: {error}", self.0.display()))
    }
}

/// Builds the targets and says where they are.
fn build(targets: &[Target]) -> Result<PathBuf, String> {
    let mut args = vec!["--bin", "seeded"];
    targets.iter().for_each(|target| args.extend(["--bin", target.name()]));
    if targets.contains(&Target::Command) {
        args.extend(["--features", "command"]);
    }
    instrumented("build", &args)
}

/// Is there what it takes to build the fuzzers?
pub fn compiler() -> Result<(), String> {
    match succeeds(Command::new("c++").arg("--version")) {
        true => Ok(()),
        false => Err("libFuzzer needs a C++ compiler (c++)".into()),
    }
}

/// Checks the fuzzers but for the command line's, which would take minutes. What both need, libFuzzer above all, is
/// built for this and for [`fuzz`].
pub fn clippy() -> Result<(), String> {
    instrumented("clippy", &["--", "-D", "warnings"]).map(|_| ())
}

/// Runs cargo on the fuzzers with their instrumentation; where what it builds is.
fn instrumented(verb: &str, args: &[&str]) -> Result<PathBuf, String> {
    let host = host()?;
    let folder = folder();
    let how = [verb, "--release", "--manifest-path", "fuzz/Cargo.toml"];
    // With a target, the flags are not those of build scripts.
    let how = how.into_iter().chain(["--target", &host]);
    let env = [("RUSTFLAGS", INSTRUMENTED), ("CARGO_TARGET_DIR", &folder.to_string_lossy())];
    cargo(how.chain(args.iter().copied()), &env)?;
    Ok(folder.join(&host).join("release"))
}

/// The defects that a target must find: of the suite's list (`woodlot_suite::mutants::Bug`), or of layers of the kernel memory
/// allocator (`kmem::wrong::Defect` of the fuzzers); and what is said then, by the judge, or by the defect that panics itself.
struct Seeded {
    target: Target,
    defects: &'static [&'static str],
    found: &'static [&'static str],
}

const SEEDED: [Seeded; 3] = [
    Seeded {
        target: Target::History,
        defects: &[
            "MoreThanEnough",
            "DoubleFreeAccepted",
            "OnlyFirstFrameChecked",
            "OnlyEndsChecked",
            "HalfOfLargestExposed",
            "BadSlotPanics",
            "BeyondTheEnd",
            "OfflineFreeAccepted",
            "RefusedFreeCounts",
            "FailedRunKeepsPart",
            "RunLeavesItsPlace",
            "RunMisaligned",
            "ExactRunPassedOver",
            "RunFreedInPart",
            "WrongFrameInUse",
        ],
        found: &["wrong reference: ", "index out of bounds: the slot is "],
    },
    Seeded {
        target: Target::Kmem,
        defects: &[
            "ListLost",
            "FlushLosesAux",
            "BlockTwice",
            "LastPageLost",
            "SpanMisaligned",
            "OneByteShort",
            "BlockMisaligned",
            "DoubleFreeUntold",
            "WrongSizeUntold",
            "MarksShared",
        ],
        found: &[
            "bytes are lost",
            "frames are lost",
            "two blocks share bytes",
            "a block is not what was asked for",
            "a wrong call was not told of",
            "a right call was told of",
        ],
    },
    Seeded {
        target: Target::Recovery,
        defects: &["RecoveryPanicsOnRaggedZones", "RecoveryBelievesAnything"],
        found: &["ZoneConfig", "index out of bounds: the last child"],
    },
];

/// Fuzzes a wrong allocator: each defect must be found in the time that it gets, by what is wrong and not
/// by some other failure; and nothing where there is none.
fn seeded_defects_are_found(binaries: &Path) -> Result<(), String> {
    SEEDED.iter().try_for_each(|seeded| seeded.are_found(binaries))
}

impl Seeded {
    fn are_found(&self, binaries: &Path) -> Result<(), String> {
        let name = self.target.name();
        let corpus = folder().join("seeded").join(name);
        fs::create_dir_all(&corpus).map_err(|error| format!("{}: {error}", corpus.display()))?;
        let run = |defect: Option<&str>, bound: Bound| {
            let mut command = Command::new(binaries.join("seeded"));
            command.args(OPTIONS).args([&bound.argument(), self.target.max_len()]);
            command.arg("-artifact_prefix=/dev/null");
            command.args([&corpus, &root().join("fuzz/seeds").join(name)]);
            command.env("WOODLOT_TARGET", name).env_remove("WOODLOT_DEFECT");
            command.envs(defect.map(|defect| ("WOODLOT_DEFECT", defect)));
            let output = command.output();
            let output = output.map_err(|error| format!("seeded: {error}"))?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            Ok::<_, String>((output.status.success(), said))
        };
        let (passes, said) = run(None, Bound::Executions(2000))?;
        if !passes {
            return Err(format!("{name}: a defect was found where none is seeded: {said}"));
        }
        for &defect in self.defects {
            let (passes, said) = run(Some(defect), Bound::Seconds(60))?;
            if passes || !self.found.iter().any(|words| said.contains(words)) {
                return Err(format!("{name}: seeded defect {defect} was not found: {said}"));
            }
        }
        Ok(())
    }
}

fn folder() -> PathBuf {
    root().join("target/fuzz")
}

/// Fuzzes a target, says how it went, and returns how many inputs were run.
fn search(binaries: &Path, target: Target, bound: Bound) -> Result<u64, String> {
    let begun = Instant::now();
    let name = target.name();
    let corpus = folder().join("corpus").join(name);
    let found = folder().join("found").join(name);
    for folder in [&corpus, &found] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut command = Command::new(binaries.join(name));
    command
        .args(["-timeout=20", "-rss_limit_mb=4096", "-print_final_stats=1"])
        .args(OPTIONS)
        .arg(target.max_len())
        .arg(bound.argument())
        .arg(format!("-artifact_prefix={}/", found.display()))
        .args([&corpus, &root().join("fuzz/seeds").join(name)]);
    let output = command.stdout(Stdio::null()).output();
    let output = output.map_err(|error| format!("{name}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(failure(target, &said, &found));
    }
    let figure =
        |line: &str| line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok();
    let ran = said.lines().find_map(figure);
    let ran: u64 = ran.ok_or_else(|| format!("{name} gave no figures: {said}"))?;
    let seconds = begun.elapsed().as_secs_f64();
    println!("{name}: {ran} executions in {seconds:.0} s, {:.0} a second", ran as f64 / seconds);
    Ok(ran)
}

/// What the target said, and the line that replays it.
fn failure(target: Target, said: &str, found: &Path) -> String {
    let input = written(said).and_then(|file| fs::read(found.join(file)).ok());
    let replay = match input {
        Some(bytes) => format!("cargo xtask fuzz {} --input {}", target.name(), to_hex(&bytes)),
        None => "there is no input to replay".into(),
    };
    format!("{said}\nreplay: {replay}")
}

/// The name of the file into which the fuzzer has written the input.
fn written(said: &str) -> Option<&str> {
    let path = said.lines().find_map(|line| Some(line.split_once("Test unit written to ")?.1))?;
    Path::new(path.trim()).file_name()?.to_str()
}

fn replay(binaries: &Path, target: Target, input: &str) -> Result<Outcome, String> {
    let bytes = from_hex(input).ok_or("the input is not in pairs of hexadecimal digits")?;
    let path = folder().join("replayed");
    fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    run(Command::new(binaries.join(target.name())).arg(&path))?;
    Ok(Outcome::Ran("the input passes".into()))
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_there_and_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
        assert_eq!(from_hex("0g"), None);
        assert_eq!(from_hex("é"), None);
    }

    #[test]
    fn the_input_that_failed_is_found() {
        let said = "MS: 5 CrossOver-\nartifact_prefix='/a/found/history/'; \
                    Test unit written to /a/found/history/crash-39d4\nBase64: AAEC\n";
        assert_eq!(written(said), Some("crash-39d4"));
        assert_eq!(written("stat::number_of_executed_units: 7"), None);
    }

    #[test]
    fn executions_of_a_binary_are_added_up() {
        let name = format!("woodlot-tally-{}", std::process::id());
        let tally = Tally(std::env::temp_dir().join(name));
        for (key, ran) in [("history 0a", 5), ("history 0b", 7), ("history 0a", 6)] {
            tally.add(key, ran).expect("a file can be written");
        }
        let made = ["history 0a", "trace 0a"].map(|key| tally.made(key));
        tally.clear().expect("a file can be written");
        assert_eq!((made, tally.made("history 0a")), ([11, 0], 0));
        fs::remove_file(&tally.0).expect("it is there");
    }

    #[test]
    fn a_full_run_is_in_whole_parts() {
        let targets = Target::value_variants();
        assert!(targets.iter().all(|target| target.executions() % target.part() == 0));
        assert_eq!(targets.iter().map(|target| target.executions()).sum::<u64>(), 110_000_000);
    }

    #[test]
    fn a_failure_is_a_line_that_replays_it() {
        let found = std::env::temp_dir().join(format!("woodlot-found-{}", std::process::id()));
        fs::create_dir_all(&found).expect("a folder can be made");
        fs::write(found.join("crash-1"), [0xab, 0x01]).expect("a file can be written");
        let said = format!("Test unit written to {}/crash-1", found.display());
        let failure = failure(Target::History, &said, &found);
        fs::remove_dir_all(&found).expect("it is there");
        assert!(failure.ends_with("\nreplay: cargo xtask fuzz history --input ab01"));
    }
}
