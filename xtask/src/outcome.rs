//! How a checker ends, and what a run of several says at its end.

use std::time::Instant;

use clap::Args;

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

/// Runs the checks in order up to the first that fails, and says how long each took, how many ran and were skipped.
pub fn run_all(checks: impl IntoIterator<Item = Check>, length: Length) -> Result<Outcome, String> {
    let (mut ran, mut skipped) = (0, Vec::new());
    for (name, check) in checks {
        let started = Instant::now();
        let outcome = check(length).map_err(|why| format!("{name}: {why}"))?;
        outcome.say(name);
        println!("== {name}: {} s", started.elapsed().as_secs());
        match outcome {
            Outcome::Ran(_) => ran += 1,
            Outcome::NotRun(_) => skipped.push(name),
        }
    }
    let names = if skipped.is_empty() { "none".into() } else { skipped.join(", ") };
    Ok(Outcome::Ran(format!("{ran} passed, {} skipped ({names})", skipped.len())))
}
