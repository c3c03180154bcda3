//! `cargo xtask trust`: every checker of the core crates, and its figure in `docs/trust.md`.
//!
//! A row of the table there is written as soon as its checker has ended well, so a run that is
//! stopped keeps what it has, and each row says where and when it was taken.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;

use crate::outcome::{Check, Length, Outcome, run_all};
use crate::shell::{capture, root};

/// Which checkers run, and how long.
#[derive(Args)]
pub struct Trust {
    /// At full length, with the figures written to docs/trust.md; otherwise their short forms
    #[arg(long)]
    pub full: bool,
    /// Only these checkers
    #[arg(value_name = "CHECKER")]
    only: Vec<String>,
}

/// The page of what the checkers said, from the root of the repository.
pub const PAGE: &str = "docs/trust.md";

/// The line before the rows, and the line after them.
const ROWS: [&str; 2] = ["| --- | --- | --- | --- |", "<!-- end of the figures -->"];

/// Runs the checkers. A full run goes on after a failure and tells all of them at its end.
pub fn trust(trust: &Trust, checks: &[Check]) -> Result<Outcome, String> {
    let known = |name: &&String| checks.iter().any(|check| check.0 == name.as_str());
    if let Some(unknown) = trust.only.iter().find(|name| !known(name)) {
        let names: Vec<_> = checks.iter().map(|check| check.0).collect();
        return Err(format!("there is no checker `{unknown}`; there are {}", names.join(", ")));
    }
    let asked = |check: &&Check| trust.only.is_empty() || trust.only.iter().any(|n| n == check.0);
    let checks = checks.iter().filter(asked);
    if !trust.full {
        return run_all(checks);
    }
    let document = Document(root().join(PAGE));
    let place = place()?;
    let (mut ran, mut failures) = (0, Vec::new());
    for &(name, check) in checks {
        let start = Instant::now();
        match check(Length { short: false }) {
            Ok(Outcome::Ran(figure)) => {
                println!("{name}: {figure}");
                document.write(&Row { name, figure, took: start.elapsed() }, &place)?;
                ran += 1;
            }
            Ok(Outcome::NotRun(why)) | Err(why) => {
                println!("{name}: FAILED: {why}");
                failures.push(name);
            }
        }
    }
    match failures.is_empty() {
        true => Ok(Outcome::Ran(format!("{ran} passed, figures in {PAGE}"))),
        false => Err(format!("{ran} passed, failed: {}", failures.join(", "))),
    }
}

/// The commit, the day and the machine.
pub fn place() -> Result<String, String> {
    let git = |args: &[&str]| capture(Command::new("git").args(args).current_dir(root()));
    let commit = git(&["rev-parse", "--short", "HEAD"])?;
    // The rows that were written before are no change.
    let but_this_page = format!(":!{PAGE}");
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", &but_this_page])?;
    let mark = if changed.is_empty() { "" } else { "+" };
    let day = capture(Command::new("date").args(["-u", "+%F"]))?;
    let machine = capture(&mut Command::new("lscpu"))?;
    let field = |name: &str| {
        let mut values = machine.lines().filter_map(|line| line.trim().strip_prefix(name));
        values.next().map_or("unknown", str::trim).to_owned()
    };
    let (cpus, model) = (field("CPU(s):"), field("Model name:"));
    Ok(format!("{}{mark}, {}, {cpus} CPUs of {model}", commit.trim(), day.trim()))
}

/// What a checker said.
struct Row {
    name: &'static str,
    figure: String,
    took: Duration,
}

/// The page with the table.
struct Document(PathBuf);

impl Document {
    /// Puts the row where the row of this checker is, or last.
    fn write(&self, row: &Row, place: &str) -> Result<(), String> {
        let failed = |path: &Path, error| format!("{}: {error}", path.display());
        let text = fs::read_to_string(&self.0).map_err(|error| failed(&self.0, error))?;
        let minutes = row.took.as_secs().div_ceil(60);
        let line = format!("| `{}` | {} | {minutes} min | {place} |", row.name, row.figure);
        let text = with_row(&text, row.name, &line)
            .ok_or_else(|| format!("{} has no table of figures", self.0.display()))?;
        let beside = self.0.with_extension("md.new");
        fs::write(&beside, text).map_err(|error| failed(&beside, error))?;
        fs::rename(&beside, &self.0).map_err(|error| failed(&self.0, error))
    }
}

fn with_row(text: &str, name: &str, line: &str) -> Option<String> {
    let start = text.find(ROWS[0])? + ROWS[0].len() + 1;
    let end = start + text.get(start..)?.find(ROWS[1])?;
    let mut rows: Vec<&str> = text[start..end].lines().collect();
    let of_checker = format!("| `{name}` |");
    match rows.iter().position(|row| row.starts_with(&of_checker)) {
        Some(index) => rows[index] = line,
        None => rows.push(line),
    }
    Some(format!("{}{}\n{}", &text[..start], rows.join("\n"), &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_takes_the_place_of_the_last_one() {
        let page = |rows: &str| format!("head\n{}\n{rows}{}\ntail\n", ROWS[0], ROWS[1]);
        let first = with_row(&page(""), "loom", "| `loom` | 1 |").expect("a table");
        assert_eq!(first, page("| `loom` | 1 |\n"));
        let second = with_row(&first, "model", "| `model` | 2 |").expect("a table");
        let third = with_row(&second, "loom", "| `loom` | 3 |").expect("a table");
        assert_eq!(third, page("| `loom` | 3 |\n| `model` | 2 |\n"));
        assert_eq!(with_row("no table", "loom", ""), None);
    }
}
