//! `woodlot crash`: processes that share a zone are killed at any moment, and what is left is compared with a log.
//!
//! ```text
//!   run ──► arena (a file or memory: zone, log) ◄── child ── actor ── log     each process, until it is killed
//!    │                  ▲
//!    └──► judge ────────┘   everybody is dead: recover, zone against log
//!
//!   kept    what the zone is: LLFree's with its page, or the metadata of one-write
//! ```
//!
//! Processes die here, and the machine does not: what was written stays. What a loss of power leaves is for
//! `cargo xtask persist`.

mod actor;
mod arena;
mod child;
mod judge;
mod kept;
mod log;
mod run;
mod words;

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::PathBufValueParser;
use clap::{Args, ValueEnum};
use woodlot_bench::Failure;
use woodlot_bench::command::values::{numbers, range};
use woodlot_bench::output::{Screen, note, progress};

use crate::stop;

pub use actor::Defect;
pub use arena::Place;
pub use child::{ChildArgs, FOUND, VERB, child};
pub use kept::Kept;
pub use run::{Plan, run};
pub use words::sum;

/// What the zone lies in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum On {
    /// A file: FILE, or a temporary one
    #[default]
    File,
    /// Memory without a name
    Memfd,
}

/// What is done to the processes.
#[derive(Args, Debug)]
pub struct CrashArgs {
    /// A file to make for the zone, which stays there, closed if it is LLFree's [default: a temporary file]
    #[arg(value_parser = PathBufValueParser::new())]
    file: Option<PathBuf>,
    /// Whose the zone is
    #[arg(long, value_enum, default_value_t)]
    engine: Kept,
    /// What the zone lies in
    #[arg(long, value_enum, default_value_t, conflicts_with = "file")]
    on: On,
    /// How many processes share it: numbers and ranges, one after the other
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1-8", value_parser = range::<1, MOST>)]
    processes: Vec<RangeInclusive<u16>>,
    /// How often a process is killed, over all numbers of processes
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    kills: u32,
    /// Stop after so many seconds, however often one was killed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    seconds: Option<u32>,
    /// Another seed gives other calls, victims and pauses
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep a table of the owners in the file: it frees what the dead have owned, and nothing stays lost. Whom a sweep is
    /// to keep owns after it what the log says
    #[arg(long)]
    owners: bool,
    /// Keep a record of each slot that names its last operation: no frame may be lost at all. Each process keeps to a
    /// slot of its own
    #[arg(long)]
    intents: bool,
    /// A mistake that is made, to see that it is found
    #[arg(long, hide = true)]
    defect: Option<Defect>,
}

/// The most processes: the judge and a process that recovers have seats as well.
const MOST: u16 = 24;
const _: () = assert!(MOST as usize + 2 <= log::SEATS);

/// Kills processes, and judges.
///
/// # Errors
/// What kept the run from its end, and what is wrong with the zone.
pub fn crash(args: &CrashArgs, screen: &mut Screen) -> Result<ExitCode, Failure> {
    stop::listen();
    let place = match (&args.file, args.on) {
        (Some(path), _) => Place::File(path.clone()),
        (None, On::File) => Place::Temporary,
        (None, On::Memfd) => Place::Memory,
    };
    let processes = numbers(&args.processes).into_iter().map(usize::from).collect();
    let kills = args.kills as usize;
    let limit = args.seconds.map(|seconds| Duration::from_secs(seconds.into()));
    let CrashArgs { engine, seed, owners, intents, defect, .. } = *args;
    if !intents && defect.is_some_and(Defect::is_of_intents) {
        return Err(Failure::Usage("there is no such --defect without --intents".into()));
    }
    if engine == Kept::Onewrite && (owners || intents) {
        return Err(Failure::Usage("only zones of LLFree have --owners and --intents".into()));
    }
    let plan = Plan { engine, place, processes, kills, limit, seed, owners, intents, defect };
    let bar = progress("crash", kills);
    let ended = run(&plan, &|kills| bar.set_position(kills as u64))?;
    bar.finish_and_clear();
    screen.print(&words::describe(&ended, owners && ended.wrong.is_empty(), intents))?;
    if !ended.wrong.is_empty() {
        let replay = format!("the same again: woodlot crash --seed {} {}", args.seed, args.again());
        return Err(Failure::Failed(format!("{}\n{replay}", ended.wrong.join("\n"))));
    }
    if ended.interrupted {
        let closed = if engine == Kept::Llfree { " and closed" } else { "" };
        note(&format!("interrupted: every process was killed, and the zone was recovered{closed}"));
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(ExitCode::SUCCESS)
}

/// As after Ctrl-C everywhere.
const INTERRUPTED: u8 = 130;

impl CrashArgs {
    /// The options that choose what is done, but for the seed.
    fn again(&self) -> String {
        let ranges =
            self.processes.iter().map(|range| format!("{}-{}", range.start(), range.end()));
        let on = match (&self.file, self.on) {
            (None, On::Memfd) => " --on memfd",
            _ => "",
        };
        let processes = ranges.collect::<Vec<_>>().join(",");
        let engine = if self.engine == Kept::Onewrite { " --engine onewrite" } else { "" };
        let owners = if self.owners { " --owners" } else { "" };
        let intents = if self.intents { " --intents" } else { "" };
        let defect = self.defect.and_then(|defect| defect.to_possible_value());
        let defect = defect.map_or(String::new(), |name| format!(" --defect {}", name.get_name()));
        format!(
            "--processes {processes} --kills {}{engine}{on}{owners}{intents}{defect}",
            self.kills
        )
    }
}
