//! `bench`.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::PathBufValueParser;
use clap::{Args, Subcommand};
use woodlot_frame::Order;

#[cfg(target_os = "linux")]
use super::daemon::{DaemonArgs, daemon};
use super::domains::{DomainsArgs, domains};
use super::kmem::{KmemArgs, kmem};
#[cfg(target_os = "linux")]
use super::moves::{MovesArgs, moves};
use super::scale::{SLOW, ScaleArgs, scale_command};
use super::stacks::{StacksArgs, stacks};
use super::values::{numbers, once, range, tenths};
#[cfg(target_os = "linux")]
use super::wiring::{WiringArgs, wiring};
use crate::Failure;
use crate::check;
use crate::engine::Engines;
use crate::measure::{Options, Run, Subject, measure_and_keep};
use crate::output::{
    Found, Machine, Screen, check_writable, csv, describe, describe_floor, json, keep_files,
    kept_in, progress, svg, write_files,
};
use crate::patterns::{BURST, MOST_BLOCKS, Pattern, Placement, Setup};
use crate::size::Size;

/// What is measured with arguments of its own.
#[derive(Subcommand, Debug)]
pub enum Others {
    /// Measure heaps: woodlot-kmem beside malloc and others
    Kmem(KmemArgs),
    /// Measure batches of pages from two domains, beside the FreeBSD paper's one by one
    Domains(DomainsArgs),
    /// Simulate 1 to 256 CPUs: cache lines that move between them for each call, and which (x86-64 Linux)
    #[command(after_help = SLOW)]
    Scale(ScaleArgs),
    /// Count the holes that the guards of kernel stacks leave in memory
    Stacks(StacksArgs),
    /// Measure memory that is wired in large pieces beside one fault for each page
    #[cfg(target_os = "linux")]
    Wiring(WiringArgs),
    /// Measure moves of memory that is in use: how fast, what they win, how long others wait
    #[cfg(target_os = "linux")]
    Moves(MovesArgs),
    /// Measure allocations beside a daemon that compacts what is in use, and without it
    #[cfg(target_os = "linux")]
    Daemon(DaemonArgs),
}

/// How to measure.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct BenchArgs {
    /// What else can be measured
    #[command(subcommand)]
    pub others: Option<Others>,
    /// How the allocators are asked for blocks
    #[arg(value_enum, required_unless_present = "check")]
    pub pattern: Option<Pattern>,
    /// Who is measured, separated by commas, or all
    #[arg(long, value_name = "NAMES", default_value = "llfree")]
    pub engine: Engines,
    /// The sizes of blocks, separated by commas, or a range such as 0-10: 0 is 4 KiB, 5 is 128 KiB,
    /// 9 is 2 MiB, 10 is 4 MiB [default: 0,5,9 for linux-scalability, thread-test,
    /// constant-occupancy and cached-allocation, otherwise 0]
    #[arg(long, value_name = "ORDERS", value_delimiter = ',', value_parser = range::<0, 10>)]
    pub order: Vec<RangeInclusive<u16>>,
    /// How many threads, separated by commas, or a range such as 1-4 [default: 2 for remote, in-step,
    /// out-of-step and ring, otherwise 1]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = range::<1, 4096>)]
    pub threads: Vec<RangeInclusive<u16>>,
    /// How many slots; thread t uses slot t modulo this [default: one for each thread, two
    /// for remote-churn]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub slots: Option<u16>,
    /// How much memory is managed, 4MiB to 16TiB. Only metadata is touched
    #[arg(long, value_name = "SIZE", default_value = "8GiB")]
    pub memory: Size,
    /// How full the zone is before, in percent, to a tenth, separated by commas [default:
    /// 90,99,99.8 for near-full, 50,90,99,99.8 for churn, otherwise 0]
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', value_parser = tenths)]
    pub fill: Vec<f64>,
    /// Where that lies, separated by commas; packed is another word for row, spread for random
    /// [default: row,random for churn, otherwise random]
    #[arg(long, value_enum, value_name = "WHERE", value_delimiter = ',')]
    pub placement: Vec<Placement>,
    /// For churn: blocks of mixed orders, each drawn as often as the shipped build trace allocates it
    #[arg(long, conflicts_with = "order")]
    pub mix: bool,
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
    /// Write everything to a file, every repetition included; what is finished is in it while the
    /// run goes on
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new())]
    pub json: Option<PathBuf>,
    /// Write a row for each figure to a file, likewise; docs/csv.md in the repository has the columns
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new())]
    pub csv: Option<PathBuf>,
    /// Draw it to a file, in the end
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new())]
    pub svg: Option<PathBuf>,
    /// Measure the targets instead and say which are met
    #[arg(long, conflicts_with_all = ["pattern", "engine", "order", "threads", "slots", "memory", "fill", "placement", "mix", "burst", "operations", "json", "csv", "svg"])]
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
    match &args.others {
        Some(Others::Kmem(args)) => return kmem(args),
        Some(Others::Domains(args)) => return domains(args),
        Some(Others::Scale(args)) => return scale_command(args),
        Some(Others::Stacks(args)) => return stacks(args),
        #[cfg(target_os = "linux")]
        Some(Others::Wiring(args)) => return wiring(args),
        #[cfg(target_os = "linux")]
        Some(Others::Moves(args)) => return moves(args),
        #[cfg(target_os = "linux")]
        Some(Others::Daemon(args)) => return daemon(args),
        None => {}
    }
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
    let files = Files { json: args.json.as_deref(), csv: args.csv.as_deref() };
    check_writable(files.paths().chain(args.svg.as_deref()))?;
    screen.print(&machine.describe())?;
    screen.print(&describe_setups(pattern, &subjects, &args))?;
    let repetitions = args.repetitions as usize;
    let bar = progress(&pattern.to_string(), (repetitions + 1) * subjects.len());
    let options = Options { repetitions, seed: args.seed, floor_rounds: 1 };
    // What cannot be written now may be at the end; until then the run goes on.
    let mut kept = Ok(());
    let samples = repetitions * subjects.len();
    let mut keep = |done, run: &Run| {
        let remark = format!("after {done} of {samples} measurements");
        kept = files.keep(run, remark, (repetitions, &machine));
    };
    let run =
        measure_and_keep(&subjects, options, &|done| bar.set_position(done as u64), &mut keep);
    bar.finish_and_clear();
    screen.print(&results(&run))?;
    kept?;
    if let Some(path) = &args.svg {
        write_files(&[(path.clone(), svg(pattern, &run)?.into_bytes())])?;
    }
    for path in files.paths().chain(args.svg.as_deref()) {
        screen.print(&format!("wrote {}\n", path.display()))?;
    }
    match run.measured.iter().any(|measured| measured.outcome.is_ok()) {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Failure::Failed("nothing could be measured".into())),
    }
}

fn results(run: &Run) -> String {
    format!("\n{}\n{}", describe_floor(run), describe(run))
}

/// Where the results go.
struct Files<'a> {
    json: Option<&'a Path>,
    csv: Option<&'a Path>,
}

impl<'a> Files<'a> {
    fn paths(&self) -> impl Iterator<Item = &'a Path> + use<'a> {
        self.json.into_iter().chain(self.csv)
    }

    /// Writes what was found so far; a remark says how far that is.
    fn keep(
        &self,
        run: &Run,
        remark: String,
        (repetitions, machine): (usize, &Machine),
    ) -> Result<(), Failure> {
        let mut files = Vec::new();
        if let Some(path) = self.json {
            files.push((path.to_path_buf(), json(run, repetitions, machine)?));
        }
        if let Some(path) = self.csv {
            files.push((path.to_path_buf(), csv(run)?));
        }
        let remark = remark + &kept_in(self.paths());
        keep_files(&files, Found { results: results(run), remark })
    }
}

/// Every combination of pattern, threads, order, placement, fill and engine, engines next to each other.
fn subjects(named: Pattern, args: &BenchArgs) -> Result<Vec<Subject>, Failure> {
    let patterns = if named.together().is_empty() { &[named] } else { named.together() };
    let threads = or(numbers(&args.threads), [named.threads()]);
    let orders = or(numbers(&args.order), named.orders().iter().map(|&order| order.into()));
    let fills = or(once(args.fill.iter().copied()), named.fills().iter().copied());
    let placements = or(once(args.placement.iter().copied()), named.placements().iter().copied());
    let sweep = threads.len() * orders.len() * fills.len() > 1;
    let mut subjects = Vec::new();
    for &pattern in patterns {
        for &threads in &threads {
            for &order in &orders {
                for &placement in &placements {
                    for &fill in &fills {
                        let setup = Setup {
                            placement,
                            fill: (fill * 10.0).round() as usize,
                            ..setup(pattern, args, (threads, order))
                        };
                        let before = setup.before();
                        let which = || format!("(with {threads} threads, order {order}{before})");
                        let checked = setup.check();
                        checked.map_err(|why| if sweep { why.with(&which()) } else { why })?;
                        subjects
                            .extend(args.engine.0.iter().map(|&engine| Subject { engine, setup }));
                    }
                }
            }
        }
    }
    Ok(subjects)
}

/// What was named, or what is meant where nothing was.
fn or<T>(named: Vec<T>, meant: impl IntoIterator<Item = T>) -> Vec<T> {
    if named.is_empty() { meant.into_iter().collect() } else { named }
}

fn setup(pattern: Pattern, args: &BenchArgs, (threads, order): (u16, u16)) -> Setup {
    Setup {
        threads: threads.into(),
        slots: args.slots.unwrap_or(threads * pattern.slots()).into(),
        memory: args.memory,
        mix: args.mix,
        burst: args.burst as usize,
        seed: args.seed,
        operations: args.operations as usize,
        ..Setup::new(pattern, Order(order as u8))
    }
}

/// What all subjects have in common, and what differs.
fn describe_setups(pattern: Pattern, subjects: &[Subject], args: &BenchArgs) -> String {
    let Setup { memory, seed, .. } = subjects[0].setup;
    let mut threads: Vec<_> = subjects.iter().map(|subject| subject.setup.threads).collect();
    threads.dedup();
    let threads: Vec<_> = threads.iter().map(ToString::to_string).collect();
    let each = if pattern.slots() == 1 { "a slot for each" } else { "two slots for each" };
    let slots = args.slots.map_or(each.into(), |slots| format!("{slots} slots"));
    let mut text = format!(
        "{pattern}: {memory}, {} threads, {slots}, {} repetitions, seed {seed}\n",
        threads.join(", "),
        args.repetitions
    );
    if subjects[0].setup.has_bursts() {
        text += &format!("bursts of {} blocks\n", args.burst);
    }
    let lists =
        matches!(pattern, Pattern::Bulk | Pattern::Batch | Pattern::Random | Pattern::ExitStorm);
    let many = |subject: &Subject| memory.frames() >> (subject.setup.order.0 + 1) > MOST_BLOCKS;
    if lists && subjects.iter().any(many) {
        text += &format!("at most {MOST_BLOCKS} blocks are allocated at once\n");
    }
    text
}
