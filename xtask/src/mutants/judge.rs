//! Builds and runs the one test of a defect.

use std::fmt::{self, Display, Formatter};
use std::process::Command;

use super::scratch::Scratch;
use super::table::{Checker, Mutant, Place, Test};
use crate::shell::{CHECKING, host, this_cargo};
use crate::{miri, sanitize};

/// What became of a defect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Its test failed, with the words of the table.
    Killed,
    /// Its test passed.
    Survived,
    /// Its test failed, but said something else.
    Otherwise,
    /// Its test did not come to an end.
    Hangs,
}

impl Display for Verdict {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Killed => "killed",
            Verdict::Survived => "SURVIVED",
            Verdict::Otherwise => "SURVIVED (its test failed, but did not say what it should)",
            Verdict::Hangs => "SURVIVED (its test was stopped at its time limit)",
        })
    }
}

/// What a run of tests came to.
struct Ran {
    /// The exit status, if it came to an end.
    success: Option<bool>,
    said: String,
}

/// What `timeout` says of a command that it has stopped.
const STOPPED: i32 = 124;
/// Seconds for one test on a defect. The slow checkers have more, and so have all tests of a place, which are up to some fifty.
const LIMIT: u32 = 300;
const SLOW_LIMIT: u32 = 1200;
/// Kilobytes of addresses, for a defect may allocate without end: enough for two segments of a heap beside all else.
const MEMORY: &str = "12582912";
/// Of the sanitizers, which map more than there is.
const NO_LIMIT: &str = "unlimited";

/// Lines that are shown of a test that did not kill its defect.
const SHOWN: usize = 12;

/// All of these tests, which are of one place, must pass.
pub fn all_pass(scratch: &Scratch, tests: &[&Test]) -> Result<(), String> {
    let Some(Test { place, .. }) = tests.first() else {
        return Ok(());
    };
    build(scratch, place)?;
    let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
    let ran = run(scratch, place, &names, SLOW_LIMIT)?;
    // A name that no test has would pass as well.
    if ran.success == Some(true)
        && ran.said.contains(&format!(". {} passed; 0 failed", tests.len()))
    {
        return Ok(());
    }
    let why = match ran.success {
        None => format!("are at their end after {SLOW_LIMIT} s"),
        Some(_) => "pass".into(),
    };
    Err(format!("{}\nunchanged, not all of {place} {why}: {}", ran.said, names.join(" ")))
}

/// Seeds a defect and runs its test.
pub fn judge(scratch: &Scratch, mutant: &Mutant) -> Result<Verdict, String> {
    let Test { place, name } = &mutant.test;
    let ran = scratch.with(mutant, || {
        build(scratch, place).map_err(|why| format!("{why}\nmutant {}", mutant.name))?;
        let limit = match place.checker {
            Checker::Miri | Checker::Tsan | Checker::Asan => SLOW_LIMIT,
            _ => LIMIT,
        };
        run(scratch, place, &[name], limit)
    })?;
    let verdict = match ran.success {
        None => Verdict::Hangs,
        Some(true) => Verdict::Survived,
        Some(false) if ran.said.contains(&mutant.says) => Verdict::Killed,
        Some(false) => Verdict::Otherwise,
    };
    if verdict != Verdict::Killed {
        let lines: Vec<&str> = ran.said.lines().collect();
        let first = lines.iter().position(|line| line.contains("panicked at")).unwrap_or(0);
        println!("{}", lines[first..].iter().take(SHOWN).copied().collect::<Vec<_>>().join("\n"));
    }
    Ok(verdict)
}

/// Builds the tests of a place.
fn build(scratch: &Scratch, place: &Place) -> Result<(), String> {
    let mut command = tests_of(place)?;
    command.arg("--no-run").current_dir(scratch.path());
    let output = command.output().map_err(|error| format!("{place}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{}the tests of {place} do not compile",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// Runs some tests of a place, which are built, for so many seconds at most.
fn run(scratch: &Scratch, place: &Place, names: &[&str], limit: u32) -> Result<Ran, String> {
    let tests = tests_of(place)?;
    let memory = match place.checker {
        Checker::Tsan | Checker::Asan => NO_LIMIT,
        _ => MEMORY,
    };
    let mut command = Command::new("sh");
    command.args(["-c", r#"ulimit -v "$0" && exec timeout --kill-after=5 "$@""#, memory]);
    command.arg(limit.to_string()).arg(tests.get_program()).args(tests.get_args());
    let set = tests.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.envs(set).env("RUST_BACKTRACE", "0").current_dir(scratch.path());
    command.args(["--", "--exact", "--nocapture"]);
    command.args(names.iter().map(|name| format!("{}{name}", place.checker.prefix())));
    let output = command.output().map_err(|error| format!("{place}: {error}"))?;
    let said = [output.stdout, output.stderr].concat();
    let success = match output.status.code() {
        Some(STOPPED) => None,
        code => Some(code == Some(0)),
    };
    Ok(Ran { success, said: String::from_utf8_lossy(&said).into_owned() })
}

/// What builds and runs the tests of a place, in the folder that it is run in.
fn tests_of(place: &Place) -> Result<Command, String> {
    let package = place.package.as_str();
    let ours = |target: &str, flags: &str| {
        let mut command = this_cargo();
        command.args(["test", "--profile", "mutants", "-p", package]);
        command.env("CARGO_TARGET_DIR", format!("target/{target}")).env("RUSTFLAGS", flags);
        command
    };
    let checked = |target: &str, cfg: &str| {
        let mut command = ours(target, &format!("--cfg {cfg}"));
        command.args(CHECKING);
        command
    };
    let mut command = match &place.checker {
        Checker::Unit | Checker::File(_) => ours("plain", ""),
        Checker::Model => checked("model", "woodlot_explore"),
        Checker::Loom => checked("loom", "woodlot_loom"),
        Checker::Miri => miri::schedules(package),
        Checker::Tsan => sanitize::THREAD.test(&host()?, package),
        Checker::Asan => sanitize::ADDRESS.test(&host()?, package),
    };
    match &place.checker {
        Checker::Unit | Checker::Model | Checker::Loom => command.arg("--lib"),
        Checker::Miri | Checker::Tsan | Checker::Asan => command.args(["--test", "short"]),
        Checker::File(file) => command.args(["--test", file]),
    };
    Ok(command)
}
