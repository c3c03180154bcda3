//! `bench`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::builder::PathBufValueParser;
use woodlot_frame::Order;

use super::tenths;
use crate::Failure;
use crate::check;
use crate::engine::Engines;
use crate::measure::{Options, Subject, measure};
use crate::output::{
    Machine, Screen, check_writable, csv, describe, describe_floor, json, progress, write_files,
};
use crate::patterns::{BURST, MOST_BLOCKS, Pattern, Placement, Setup};
use crate::size::Size;

/// How to measure.
#[derive(Args, Debug)]
pub struct BenchArgs {
    /// How the allocators are asked for blocks
    #[arg(value_enum, required_unless_present = "check")]
    pub pattern: Option<Pattern>,
    /// Who is measured, separated by commas, or all
    #[arg(long, value_name = "NAMES", default_value = "llfree")]
    pub engine: Engines,
    /// The sizes of blocks, separated by commas: 0 is 4 KiB, 5 is 128 KiB, 9 is 2 MiB, 10 is 4 MiB
    /// [default: 0,5,9 for linux-scalability, thread-test, constant-occupancy and
    /// cached-allocation, otherwise 0]
    #[arg(long, value_name = "ORDERS", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(..=10))]
    pub order: Vec<u8>,
    /// How many threads [default: 2 for remote, otherwise 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub threads: Option<u16>,
    /// How many slots; thread t uses slot t modulo this [default: one for each thread]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub slots: Option<u16>,
    /// How much memory is managed, 4MiB to 16TiB. Only metadata is touched
    #[arg(long, value_name = "SIZE", default_value = "8GiB")]
    pub memory: Size,
    /// How full the zone is before, in percent, to a tenth, separated by commas [default:
    /// 90,99,99.8 for near-full, otherwise 0]
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', value_parser = tenths)]
    pub fill: Vec<f64>,
    /// Where that lies
    #[arg(long, value_enum, default_value_t, value_name = "WHERE")]
    pub placement: Placement,
    /// For linux-scalability, thread-test and constant-occupancy: how many blocks a burst has
    #[arg(long, value_name = "N", default_value_t = BURST as u32, value_parser = clap::value_parser!(u32).range(1..))]
    pub burst: u32,
    /// How often everything is measured, after a first time that does not count
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repetitions: u32,
    /// How many operations each repetition does at least
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub operations: u32,
    /// What random choices follow from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write everything to a file, every repetition included
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new())]
    pub json: Option<PathBuf>,
    /// Write a row for each figure to a file
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new())]
    pub csv: Option<PathBuf>,
    /// Measure the targets instead and say which are met
    #[arg(long, conflicts_with_all = ["pattern", "engine", "order", "threads", "slots", "memory", "fill", "placement", "burst", "operations", "json", "csv"])]
    pub check: bool,
    /// The targets [default: bench/targets.toml of the repository, as it was when this was built]
    #[arg(long, value_name = "FILE", requires = "check", conflicts_with = "pattern", value_parser = PathBufValueParser::new())]
    pub targets: Option<PathBuf>,
    /// With --check: only targets whose name contains this
    #[arg(long, value_name = "TEXT", requires = "check", conflicts_with = "pattern")]
    pub only: Option<String>,
    /// With --check: fewer repetitions on zones of at most 16GiB; proves nothing about larger ones
    #[arg(long, requires = "check", conflicts_with_all = ["pattern", "repetitions"])]
    pub quick: bool,
}

/// Measures.
///
/// # Errors
/// When the arguments make no sense together, or nothing could be measured.
pub fn bench(args: BenchArgs) -> Result<ExitCode, Failure> {
    let mut screen = Screen::default();
    let machine = Machine::here();
    if args.check {
        let targets = check::load(args.targets.as_deref(), args.only.as_deref())?;
        let effort = check::Effort {
            repetitions: if args.quick { 3 } else { args.repetitions as usize },
            quick: args.quick,
            seed: args.seed,
        };
        return check::run(&targets, effort, &machine, &mut screen);
    }
    let pattern = args.pattern.ok_or_else(|| Failure::Usage("no pattern".into()))?;
    let subjects = subjects(pattern, &args)?;
    check_writable([&args.json, &args.csv].into_iter().flatten())?;
    screen.print(&machine.describe())?;
    screen.print(&describe_setup(&subjects[0].setup, args.repetitions))?;
    let repetitions = args.repetitions as usize;
    let bar = progress(&pattern.to_string(), (repetitions + 1) * subjects.len());
    let options = Options { repetitions, seed: args.seed, floor_rounds: 1 };
    let run = measure(&subjects, options, &|done| bar.set_position(done as u64));
    bar.finish_and_clear();
    screen.print(&format!("\n{}\n{}", describe_floor(&run), describe(&run)))?;
    let mut files = Vec::new();
    if let Some(path) = &args.json {
        files.push((path.clone(), json(&run, &machine)?));
    }
    if let Some(path) = &args.csv {
        files.push((path.clone(), csv(&run)?));
    }
    write_files(&files)?;
    for (path, _) in &files {
        screen.print(&format!("wrote {}\n", path.display()))?;
    }
    match run.measured.iter().any(|measured| measured.outcome.is_ok()) {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Failure::Failed("nothing could be measured".into())),
    }
}

/// Every engine with every order (and fill), engines next to each other.
fn subjects(pattern: Pattern, args: &BenchArgs) -> Result<Vec<Subject>, Failure> {
    let threads = args.threads.unwrap_or(if pattern == Pattern::Remote { 2 } else { 1 }).into();
    let orders = if args.order.is_empty() { pattern.orders() } else { &args.order };
    let fills = if args.fill.is_empty() { pattern.fills() } else { &args.fill };
    let mut subjects = Vec::new();
    for &order in orders {
        for &fill in fills {
            let setup = Setup {
                threads,
                slots: args.slots.map_or(threads, Into::into),
                memory: args.memory,
                fill: (fill * 10.0).round() as usize,
                placement: args.placement,
                burst: args.burst as usize,
                seed: args.seed,
                operations: args.operations as usize,
                ..Setup::new(pattern, Order(order))
            };
            setup.check()?;
            subjects.extend(args.engine.0.iter().map(|&engine| Subject { engine, setup }));
        }
    }
    Ok(subjects)
}

fn describe_setup(setup: &Setup, repetitions: u32) -> String {
    let Setup { pattern, threads, slots, memory, seed, .. } = setup;
    let mut text = format!(
        "{pattern}: {memory}, {threads} threads, {slots} slots, {repetitions} repetitions, seed \
         {seed}\n"
    );
    if setup.has_bursts() {
        text += &format!("bursts of {} blocks\n", setup.burst);
    }
    let lists =
        matches!(pattern, Pattern::Bulk | Pattern::Batch | Pattern::Random | Pattern::ExitStorm);
    if lists && memory.frames() >> (setup.order.0 + 1) > MOST_BLOCKS {
        text += &format!("at most {MOST_BLOCKS} blocks are allocated at once\n");
    }
    text
}
