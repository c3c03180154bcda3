//! How a checker ends, and what a run of several says at its end.

use std::cmp::Reverse;
use std::fs::{self, File};
use std::io;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use wait4::Wait4;

use crate::shell::{root, two_at_a_time};

/// How long a checker may take.
#[derive(Args, Clone, Copy)]
pub struct Length {
    /// What CI runs; where a tool cannot be had, it says so and is skipped
    #[arg(long)]
    pub short: bool,
}

impl Length {
    /// What CI runs.
    pub const SHORT: Length = Length { short: true };
}

/// How a checker ended that did not fail.
pub enum Outcome {
    /// It ran; the figure is its last line.
    Ran(String),
    /// Its tool is not to be had: only in a short run, a full one fails.
    NotRun(String),
}

impl Outcome {
    /// For steps that say nothing of their own.
    pub fn done() -> Outcome {
        Outcome::Ran(String::new())
    }

    /// What a missing tool means for a run of this length.
    pub fn missing(length: Length, why: String) -> Result<Outcome, String> {
        if length.short { Ok(Outcome::NotRun(why)) } else { Err(why) }
    }

    /// Prints the last line.
    pub fn say(&self, name: &str) {
        match self {
            Outcome::Ran(figure) if figure.is_empty() => {}
            Outcome::Ran(figure) => println!("{name}: {figure}"),
            Outcome::NotRun(why) => println!("{name}: did not run: {why}"),
        }
    }
}

/// A check: its name, and what it does at this length.
pub type Check = (&'static str, fn(Length) -> Result<Outcome, String>);

/// How a process ends whose check did not run: what test runners take for skipped.
const NOT_RUN: u8 = 77;

/// Where the output of each check goes, from the root of the repository.
const LOGS: &str = "target/checks";

/// Runs one check in its short form, in the process that [`run_all`] began for it.
pub fn run_one(&(name, check): &Check) -> Result<ExitCode, String> {
    let outcome = check(Length::SHORT).map_err(|why| format!("{name}: {why}"))?;
    outcome.say(name);
    match outcome {
        Outcome::Ran(_) => Ok(ExitCode::SUCCESS),
        Outcome::NotRun(_) => Ok(NOT_RUN.into()),
    }
}

/// How a check ended that did not fail.
struct Ended {
    name: &'static str,
    /// Otherwise its tool is missing.
    ran: bool,
    wall: Duration,
    /// Of all that it started and waited for.
    processor: Duration,
}

/// Runs checks in their short form, two at a time, since few of them keep two processors busy. Each has a process, whose output
/// goes to [`LOGS`] and is shown when it has ended. After a failure none is begun any more. Says how long each took, by the
/// clock and of the processors, how many ran and were skipped.
pub fn run_all<'c>(checks: impl IntoIterator<Item = &'c Check>) -> Result<Outcome, String> {
    fs::create_dir_all(root().join(LOGS)).map_err(|error| format!("{LOGS}: {error}"))?;
    let ended = two_at_a_time(checks, |(name, _)| {
        in_a_process(name).map_err(|why| format!("{name}: {why}"))
    })?;
    print!("{}", table(&ended));
    let skipped: Vec<_> = ended.iter().filter(|check| !check.ran).map(|check| check.name).collect();
    let names = if skipped.is_empty() { "none".into() } else { skipped.join(", ") };
    let ran = ended.len() - skipped.len();
    Ok(Outcome::Ran(format!("{ran} passed, {} skipped ({names})", skipped.len())))
}

/// A line for each check, those that kept the processors busy for longest first, and one for all.
fn table(ended: &[Ended]) -> String {
    let line = |name: &str, wall: Duration, processor: Duration| {
        format!("{name:<16}{:>8}{:>16}\n", wall.as_secs(), processor.as_secs())
    };
    let mut sorted: Vec<&Ended> = ended.iter().collect();
    sorted.sort_by_key(|check| Reverse(check.processor));
    let sum = |of: fn(&Ended) -> Duration| ended.iter().map(of).sum();
    let mut table = format!("{:<16}{:>8}{:>16}\n", "check", "seconds", "of a processor");
    table.extend(sorted.iter().map(|check| line(check.name, check.wall, check.processor)));
    table + &line("all", sum(|check| check.wall), sum(|check| check.processor))
}

/// Runs the check.
fn in_a_process(name: &'static str) -> Result<Ended, String> {
    let shown = format!("{LOGS}/{name}.log");
    let failed = |error: io::Error| format!("{shown}: {error}");
    let path = root().join(&shown);
    let log = File::create(&path).map_err(failed)?;
    println!("== {name} begins: {shown}");
    let started = Instant::now();
    // This program, which the tests' build may replace in its folder.
    let mut process = Command::new("/proc/self/exe")
        .args(["check", name])
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(failed)?)
        .stderr(log)
        .spawn()
        .map_err(failed)?;
    let done = process.wait4().map_err(failed)?;
    let (wall, processor) = (started.elapsed(), done.rusage.utime + done.rusage.stime);
    let said = fs::read(&path).map_err(failed)?;
    // In one piece: another check may end meanwhile.
    println!(
        "{}== {name}: {} s, {} s of a processor",
        String::from_utf8_lossy(&said),
        wall.as_secs(),
        processor.as_secs()
    );
    let ended = |ran| Ok(Ended { name, ran, wall, processor });
    match done.status.code() {
        Some(0) => ended(true),
        Some(code) if code == i32::from(NOT_RUN) => ended(false),
        _ => Err(format!("{}; {shown}", done.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_the_processors_longest_comes_first() {
        let ended = |name, wall, processor| {
            let [wall, processor] = [wall, processor].map(Duration::from_secs);
            Ended { name, ran: true, wall, processor }
        };
        let table = table(&[ended("rings", 20, 3), ended("tests", 900, 1400)]);
        let columns: Vec<Vec<&str>> =
            table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        let expected = [["tests", "900", "1400"], ["rings", "20", "3"], ["all", "920", "1403"]];
        assert_eq!(columns, expected);
    }
}
