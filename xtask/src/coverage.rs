//! `cargo xtask coverage`: which lines and branches of the core crates their tests and models reach, by
//! cargo-llvm-cov, and of kmem its tests alone. Branches need the nightly toolchain.
//!
//! ```text
//!   tests     unit tests, short tests, contract suite      ─┐
//!   explorer  a part of each scenario of the models:        ├─►  report: lines, branches, targets
//!             what only races reach                        ─┘
//! ```
//!
//! Of generic code that instance counts of which most is reached. The tests themselves are not counted.

use std::collections::HashMap;
use std::fs;
use std::process::Command;

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::models::ENGINES;
use crate::nightly::{components, nightly};
use crate::outcome::{Length, Outcome};
use crate::shell::{CHECKING, root, run};
use crate::tools;

/// What is measured.
#[derive(Args)]
pub struct Coverage {
    #[command(flatten)]
    length: Length,
    /// Only these crates
    #[arg(long, value_enum)]
    only: Option<Only>,
}

/// Crates with a report and targets of their own.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Only {
    /// frame and the engines: tests, contract suite and models
    Engines,
    /// The kernel memory allocator: its own tests
    Kmem,
}

impl From<Length> for Coverage {
    fn from(length: Length) -> Self {
        Self { length, only: None }
    }
}

/// What is not the core crates themselves.
const LEFT_OUT: &str = "/(suite|tests|explore|models|zone)/";
/// With kmem, whose tests have frames from them, the engines.
const LEFT_OUT_OF_KMEM: &str = "/(suite|tests|explore|models|zone|frame|llfree|onewrite|nbbs)/";

/// The least shares of lines and branches, in percent: a run below them fails.
const TARGETS: [f64; 2] = [98.0, 95.0];
/// Those of kmem, which are what its tests reach: less is a step back. docs/trust.md says what they do not reach.
const TARGETS_OF_KMEM: [f64; 2] = [92.0, 91.0];

/// States of a scenario after which no new line is reached.
const STATES: &str = "10000";

/// Runs the tests, and prints what they reach.
pub fn coverage(coverage: &Coverage) -> Result<Outcome, String> {
    let length = coverage.length;
    let tools = match components(&["llvm-tools"]).and_then(|()| tools::with("llvm-cov")) {
        Ok(tools) => tools,
        Err(why) => return Outcome::missing(length, why),
    };
    fs::create_dir_all(root().join("target/coverage")).map_err(|error| error.to_string())?;
    let asked = |only| coverage.only.is_none_or(|asked| asked == only);
    let mut figures = Vec::new();
    if asked(Only::Engines) {
        figures.push(engines(length, &tools)?);
    }
    if asked(Only::Kmem) {
        figures.push(format!("of kmem {}", kmem(&tools)?));
    }
    Ok(Outcome::Ran(figures.join("; ")))
}

fn llvm_cov(tools: &str, args: &[&str]) -> Command {
    let mut command = nightly("cargo");
    command.arg("llvm-cov").args(args);
    command.env("CARGO_TARGET_DIR", "target/coverage").env("PATH", tools);
    command
}

/// Sums up what was reached of these packages, holds it against the targets, and returns the line for all.
fn summed(
    tools: &str,
    packages: &[&str],
    (left_out, targets): (&str, [f64; 2]),
) -> Result<String, String> {
    let report = root().join("target/coverage/report.json");
    let _ = fs::remove_file(&report);
    let mut summed = llvm_cov(tools, &["report", "--branch", "--json"]);
    summed.args(packages).args(["--ignore-filename-regex", left_out, "--output-path"]);
    run(summed.arg(&report))?;
    let text = fs::read_to_string(&report).map_err(|error| error.to_string())?;
    judged(&text, targets).ok_or_else(|| format!("no summary in {}", report.display()))?
}

/// The unit tests and short tests of kmem.
fn kmem(tools: &str) -> Result<String, String> {
    let packages = ["--profile", "checked", "-p", "woodlot-kmem"];
    run(&mut llvm_cov(tools, &["clean", "--profraw-only"]))?;
    let mut tests = llvm_cov(tools, &["--no-report", "--branch"]);
    run(tests.args(packages).args(["--tests", "--", "--quiet"]))?;
    summed(tools, &packages, (LEFT_OUT_OF_KMEM, TARGETS_OF_KMEM))
}

/// Unit tests, the short tests, the contract suite (in a short run on two geometries) and the models of the engines.
fn engines(length: Length, tools: &str) -> Result<String, String> {
    let packages = ENGINES.iter().flat_map(|krate| ["-p", krate]);
    let packages: Vec<&str> = MEASURED.into_iter().chain(packages).collect();
    let measured = |args: &[&str]| {
        let mut command = llvm_cov(tools, &["--no-report", "--branch"]);
        command.args(&packages).args(args);
        command
    };
    run(&mut llvm_cov(tools, &["clean", "--profraw-only"]))?;
    // The tests of zones are tests of LLFree as well, but for what lies in a zone page.
    let tests =
        ["-p", "woodlot-zone", "--features", "woodlot-frame/std", "--tests", "--", "--quiet"];
    let mut tests = measured(&tests);
    if length.short {
        // What has several rows is reached with the other two, too.
        tests.args(["--skip", "base16k::"]);
    }
    run(&mut tests)?;
    let models = ["--lib", "--", "--quiet", "--test-threads", "2", "models::scenarios"];
    let models = [&CHECKING[..], &models].concat();
    run(measured(&models).env("RUSTFLAGS", explored()?).env("WOODLOT_STATES", STATES))?;
    summed(tools, &packages, (LEFT_OUT, TARGETS))
}

/// The explorer's atomics, and the names that the files of the core crates have outside of `checking/`: under
/// others they would be counted twice.
fn explored() -> Result<String, String> {
    let root = root().canonicalize().map_err(|error| format!("{}: {error}", root().display()))?;
    let root = root.display();
    let names = ["frame", "llfree", "onewrite", "nbbs"]
        .map(|krate| format!(" --remap-path-prefix={root}/checking/{krate}/../..={root}"));
    Ok(format!("--cfg woodlot_explore{}", names.concat()))
}

/// Release with assertions, and the crate that the engines keep the contract of.
const MEASURED: [&str; 4] = ["--profile", "checked", "-p", "woodlot-frame"];

/// Prints each file, and returns the line for all of them; an error if that is below the targets.
fn judged(report: &str, targets: [f64; 2]) -> Option<Result<String, String>> {
    let report: Value = serde_json::from_str(report).ok()?;
    let data = report.get("data")?.get(0)?;
    let reached = branches(data.get("functions")?.as_array()?)?;
    let mut sum = Share { covered: 0, count: 0 };
    for file in data.get("files")?.as_array()? {
        let name = file.get("filename")?.as_str()?;
        let lines = lines(file.get("summary")?)?;
        let branches = reached.get(name).copied().unwrap_or(Share { covered: 0, count: 0 });
        sum = Share { covered: sum.covered + branches.covered, count: sum.count + branches.count };
        let name = name.rsplit_once("/src/").map_or(name, |(_, name)| name);
        println!("{name:20} {} of lines, {} of branches", lines.shown(), branches.shown());
    }
    let [lines, branches] = [lines(data.get("totals")?)?, sum];
    let line = format!("{} of lines, {} of branches", lines.shown(), branches.shown());
    let enough = [lines, branches].iter().zip(targets).all(|(is, least)| is.percent() >= least);
    Some(match enough {
        true => Ok(line),
        false => Err(format!("{line}: below {} % and {} %", targets[0], targets[1])),
    })
}

/// So many of so many.
#[derive(Clone, Copy)]
struct Share {
    covered: u64,
    count: u64,
}

impl Share {
    /// All of nothing is all.
    fn percent(self) -> f64 {
        if self.count == 0 { 100.0 } else { self.covered as f64 * 100.0 / self.count as f64 }
    }

    fn shown(self) -> String {
        // Rounded down, so that what falls short does not seem to be enough.
        let tenths = (self.percent() * 10.0).floor() / 10.0;
        format!("{tenths:.1} % ({} of {})", self.covered, self.count)
    }
}

/// The lines of a summary.
fn lines(summary: &Value) -> Option<Share> {
    let figure = |name: &str| summary.get("lines")?.get(name)?.as_u64();
    Some(Share { covered: figure("covered")?, count: figure("count")? })
}

/// The two ways of each branch that some copy of its function has gone, by file. Many branches are on a constant of the
/// geometry or the persistence, of which each copy goes one way only.
fn branches(functions: &[Value]) -> Option<HashMap<&str, Share>> {
    let mut ways: HashMap<(&str, [u64; 4]), [bool; 2]> = HashMap::new();
    for function in functions {
        let file = function.get("filenames")?.get(0)?.as_str()?;
        for branch in function.get("branches").and_then(Value::as_array).into_iter().flatten() {
            let number = |at: usize| branch.get(at).and_then(Value::as_u64);
            let place = [number(0)?, number(1)?, number(2)?, number(3)?];
            let went = ways.entry((file, place)).or_default();
            *went = [went[0] || number(4)? > 0, went[1] || number(5)? > 0];
        }
    }
    let mut files: HashMap<&str, Share> = HashMap::new();
    for ((file, _), went) in ways {
        let share = files.entry(file).or_insert(Share { covered: 0, count: 0 });
        share.covered += went.into_iter().filter(|&went| went).count() as u64;
        share.count += 2;
    }
    Some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of fifty branches, so many ways gone; each copy of the function goes one way.
    fn report(lines: u64, branches: u64) -> String {
        let counts = format!(r#"{{"lines":{{"count":1000,"covered":{lines}}}}}"#);
        let copy = |way: u64| {
            let gone = (0..50).map(|line| {
                let count = (2 * line + way < branches) as u64;
                let [yes, no] = if way == 0 { [count, 0] } else { [0, count] };
                format!("[{line},1,{line},9,{yes},{no},0,0,4]")
            });
            let gone = gone.collect::<Vec<_>>().join(",");
            format!(r#"{{"filenames":["a/src/b.rs"],"branches":[{gone}]}}"#)
        };
        let (one, other) = (copy(0), copy(1));
        format!(
            r#"{{"data":[{{"files":[{{"filename":"a/src/b.rs","summary":{counts}}}],"functions":[{one},{other}],"totals":{counts}}}]}}"#
        )
    }

    #[test]
    fn a_report_becomes_a_line_or_an_error() {
        let line = "98.0 % (980 of 1000) of lines, 95.0 % (95 of 100) of branches";
        assert!(matches!(judged(&report(980, 95), TARGETS), Some(Ok(said)) if said == line));
        let short = |lines, branches| match judged(&report(lines, branches), TARGETS) {
            Some(Err(why)) => why,
            _ => panic!("{lines} lines and {branches} branches are not enough"),
        };
        assert!(short(979, 100).starts_with("97.9 % (979 of 1000) of lines, 100.0 %"));
        assert!(short(1000, 94).ends_with("94.0 % (94 of 100) of branches: below 98 % and 95 %"));
        assert!(matches!(judged(&report(920, 91), TARGETS_OF_KMEM), Some(Ok(_))));
        assert!(matches!(judged(&report(919, 91), TARGETS_OF_KMEM), Some(Err(_))));
        assert!(judged("{}", TARGETS).is_none());
    }
}
