//! `bench domains`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::builder::PathBufValueParser;
use serde::Serialize;

use crate::Failure;
use crate::batches::{self, Batches};
use crate::output::{Machine, Screen, check_writable, progress, write_files};

/// How to measure batches.
#[derive(Args, Debug)]
pub struct DomainsArgs {
    /// How often everything is measured, after a first time that does not count
    #[arg(long, value_name = "N", default_value_t = 51, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repetitions: u32,
    /// Write everything to a file, every repetition included
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new())]
    json: Option<PathBuf>,
    /// Draw it to a file
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new())]
    svg: Option<PathBuf>,
}

/// What is written.
#[derive(Serialize)]
struct Document<'a> {
    machine: &'a Machine,
    #[serde(flatten)]
    found: &'a Batches,
}

/// Measures batches of pages from two domains in turn.
///
/// # Errors
/// There is no memory, or a file cannot be written.
pub fn domains(args: &DomainsArgs) -> Result<ExitCode, Failure> {
    let (mut screen, machine) = (Screen::default(), Machine::here());
    check_writable(args.json.as_deref().into_iter().chain(args.svg.as_deref()))?;
    screen.print(&machine.describe())?;
    let repetitions = args.repetitions as usize;
    let bar = progress("domains", batches::steps(repetitions));
    let measured = batches::measure(repetitions, &|| bar.inc(1));
    bar.finish_and_clear();
    let (found, stats) = measured?;
    screen.print(&batches::describe(&found, &stats))?;
    let mut files = Vec::new();
    if let Some(path) = &args.json {
        let document = Document { machine: &machine, found: &found };
        let failed = |cause: serde_json::Error| Failure::Failed(format!("as JSON: {cause}"));
        files.push((path.clone(), serde_json::to_vec_pretty(&document).map_err(failed)?));
    }
    if let Some(path) = &args.svg {
        files.push((path.clone(), batches::svg(&found)?.into_bytes()));
    }
    write_files(&files)?;
    files.iter().try_for_each(|(path, _)| screen.print(&format!("wrote {}\n", path.display())))?;
    Ok(ExitCode::SUCCESS)
}
