//! `cargo xtask programs`: real programs with the heap of this repository, beside others.
//!
//! ```text
//!   program ─► with each heap, by turns ─► what came of it: the same with all      heap, run
//!                                        └► time, and resident memory at its peak
//! ```
//!
//! Before it is measured, a program runs once with each heap while the dynamic loader writes down where each `malloc`
//! is found: a program that brings a heap of its own would compare nothing.

mod compilers;
mod heap;
mod program;
mod python;
mod redis;
mod run;
mod sqlite;

use std::fs;
use std::time::Duration;

use clap::Args;

use self::heap::{Heap, OURS};
use self::program::{Folder, Program};
use self::run::Took;
use crate::outcome::{Length, Outcome};
use crate::shell::root;
use crate::trust::place;

/// Which programs, and how often.
#[derive(Args)]
pub struct Programs {
    #[command(flatten)]
    length: Length,
    /// Rounds that are measured [default: 5, short none]
    #[arg(long)]
    rounds: Option<usize>,
    /// Only these programs
    #[arg(value_name = "PROGRAM")]
    only: Vec<String>,
}

impl From<Length> for Programs {
    fn from(length: Length) -> Self {
        Self { length, rounds: None, only: Vec::new() }
    }
}

/// A program's name, and what prepares it; the error is what is not installed.
type New = (&'static str, fn(&Folder) -> Result<Box<dyn Program>, String>);

const PROGRAMS: [New; 5] = [
    ("g++", |folder| Ok(Box::new(compilers::Cxx::new(folder)?))),
    ("rustc", |folder| Ok(Box::new(compilers::Rustc::new(folder)?))),
    ("python", |folder| Ok(Box::new(python::Python::new(folder)?))),
    ("sqlite", |folder| Ok(Box::new(sqlite::Sqlite::new(folder)?))),
    ("redis", |folder| Ok(Box::new(redis::Redis::new(folder)?))),
];

/// Runs the programs.
pub fn programs(options: &Programs) -> Result<Outcome, String> {
    let short = options.length.short;
    if let Some(unknown) =
        options.only.iter().find(|name| PROGRAMS.iter().all(|known| known.0 != *name))
    {
        return Err(format!("there is no program `{unknown}`"));
    }
    let path = root().canonicalize().map_err(|error| error.to_string())?.join("target/programs");
    let folder = Folder { path, short };
    let mut missing = Vec::new();
    let mut heaps = vec![Heap::ours(short)?];
    // A short run looks whether anything fails, and compares with the C library's heap alone.
    for heap in Heap::others().take(if short { 1 } else { usize::MAX }) {
        heap.map_or_else(|why| missing.push(why), |heap| heaps.push(heap));
    }
    println!("{}", place()?);
    let mut ran = Vec::new();
    for (name, new) in PROGRAMS {
        if !options.only.is_empty() && options.only.iter().all(|only| only != name) {
            continue;
        }
        match new(&folder) {
            Ok(program) => {
                let rounds = options.rounds.unwrap_or(if short { 0 } else { 5 });
                ran.push(
                    compare(program.as_ref(), &heaps, rounds, &folder)
                        .map_err(|why| format!("{name}: {why}"))?,
                );
            }
            Err(why) => missing.push(format!("{name}: {why}")),
        }
    }
    match missing.is_empty() {
        true => Ok(Outcome::Ran(format!(
            "{} programs, the same output with {} heaps: {}",
            ran.len(),
            heaps.len(),
            ran.join("; ")
        ))),
        false => Outcome::missing(options.length, missing.join("; ")),
    }
}

/// Runs a program with all heaps; what there is to say of it in short.
fn compare(
    program: &dyn Program,
    heaps: &[Heap],
    rounds: usize,
    folder: &Folder,
) -> Result<String, String> {
    let mut result = None;
    for heap in heaps {
        let bindings = folder.path.join("bindings");
        let empty = || if bindings.exists() { fs::remove_dir_all(&bindings) } else { Ok(()) };
        empty().and_then(|()| fs::create_dir_all(&bindings)).map_err(|error| error.to_string())?;
        let ran =
            program.run(heap, Some(&bindings)).map_err(|why| format!("{}: {why}", heap.name))?;
        heap.is_bound(&bindings)?;
        same(heap, &mut result, ran.result)?;
    }
    let mut took = vec![Vec::new(); heaps.len()];
    for round in 0..rounds {
        for turn in 0..heaps.len() {
            let at = (round + turn) % heaps.len();
            let ran = program
                .run(&heaps[at], None)
                .map_err(|why| format!("{}: {why}", heaps[at].name))?;
            same(&heaps[at], &mut result, ran.result)?;
            took[at].push(ran.took);
        }
    }
    if rounds == 0 {
        return Ok(program.name().into());
    }
    println!(
        "| {} | user, s | user and system, s | clock, s | peak, MiB |\n|---|---|---|---|---|",
        program.name()
    );
    for (heap, took) in heaps.iter().zip(&took) {
        let seconds = |of: fn(&Took) -> Duration| figure(took, |took| of(took).as_secs_f64());
        let (user, cpu) = (seconds(|took| took.user), seconds(|took| took.user + took.system));
        let peak = figure(took, |took| took.peak as f64 / f64::from(1 << 20));
        println!("| {} | {user} | {cpu} | {} | {peak} |", heap.name, seconds(|took| took.wall));
    }
    let least =
        |at: usize, of: fn(&Took) -> f64| took[at].iter().map(of).fold(f64::INFINITY, f64::min);
    let ratio =
        |of| least(0, of) / (1..heaps.len()).map(|at| least(at, of)).fold(f64::INFINITY, f64::min);
    let (time, peak) = (ratio(|took| took.user.as_secs_f64()), ratio(|took| took.peak as f64));
    Ok(format!("{} time {time:.2} and peak {peak:.2} of the best other", program.name()))
}

/// What comes of a program is the same with every heap.
fn same(heap: &Heap, result: &mut Option<String>, this: String) -> Result<(), String> {
    match result {
        Some(other) if *other != this => {
            Err(format!("with {} it is {this}, with {OURS} {other}", heap.name))
        }
        _ => {
            *result = Some(this);
            Ok(())
        }
    }
}

/// The median of the runs, and the least.
fn figure(took: &[Took], of: impl Fn(&Took) -> f64) -> String {
    let mut all: Vec<f64> = took.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    format!("{:.2} ({:.2})", all[all.len() / 2], all[0])
}
