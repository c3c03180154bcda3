//! Runs batches on all cores, until one fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{available_parallelism, scope};

use clap::Parser;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use crate::defect::{ALL, Defect};
use crate::history::{Figures, run};

/// Runs random histories of compaction under random schedules.
#[derive(Parser)]
struct Args {
    /// So many schedules
    #[arg(long)]
    schedules: u64,
    /// What every choice follows from
    #[arg(long)]
    seed: u64,
    /// Only the schedules of this seed
    #[arg(long)]
    replay: Option<u64>,
}

/// Schedules of one history.
const SCHEDULES: u64 = 16;
/// A defect must be found in so many histories, and nothing where there is none.
const DEFECT_BATCHES: u64 = 500;
/// Bytes of the stack of a thread.
const STACK: usize = 1 << 18;
/// An execution of so many steps has a thread that waits for something.
const MAX_STEPS: usize = 300_000;

pub fn main() -> ExitCode {
    let args = Args::parse();
    // What panics is told at the end, once.
    std::panic::set_hook(Box::new(|_| ()));
    let figures = Arc::new(Figures::default());
    let ended = match args.replay {
        Some(seed) => batch(seed, Defect::Nothing, &figures).map(|()| String::new()),
        None => all(&args, &figures),
    };
    let found = match ended {
        Ok(found) => found,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    let Figures { schedules, calls, moves, won, taken, gone, failed, cancelled } = &*figures;
    let [schedules, calls, moves, won, taken, gone, failed, cancelled] =
        [schedules, calls, moves, won, taken, gone, failed, cancelled]
            .map(|figure| figure.load(Relaxed));
    println!(
        "compaction: {schedules} schedules of {calls} calls, {moves} frames moved, {won} huge frames won, \
         {taken} taken by the rival, {gone} blocks gone, {failed} moves failed, {cancelled} cancelled{found}"
    );
    ExitCode::SUCCESS
}

/// Finds the defects, and nothing in so many schedules. Returns how many defects were found.
fn all(args: &Args, figures: &Arc<Figures>) -> Result<String, String> {
    for defect in ALL {
        let seeds = args.seed..args.seed + DEFECT_BATCHES;
        let quiet = Arc::new(Figures::default());
        let found = seeds.into_iter().any(|seed| batch(seed, defect, &quiet).is_err());
        if !found {
            return Err(format!("{defect:?} passes {DEFECT_BATCHES} histories"));
        }
    }
    let (next, failed) = (AtomicU64::new(args.seed), AtomicBool::new(false));
    let end = args.seed + args.schedules.div_ceil(SCHEDULES);
    let why = Mutex::new(Ok(()));
    let work = || {
        while !failed.load(Relaxed) {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= end {
                break;
            }
            if let Err(said) = batch(seed, Defect::Nothing, figures) {
                failed.store(true, Relaxed);
                let line = format!("{said}\nreplay: cargo xtask shuttle --compact-replay {seed}");
                *why.lock().expect("nobody panics with it") = Err(line);
            }
        }
    };
    scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let found = format!("; {found} of {found} seeded defects found", found = ALL.len());
    why.into_inner().expect("nobody panics with it").map(|()| found)
}

/// One history under several schedules: half of the seeds at random, the others by priorities that change at a few points.
fn batch(seed: u64, defect: Defect, figures: &Arc<Figures>) -> Result<(), String> {
    let mut config = Config::new();
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(MAX_STEPS);
    config.silence_warnings = true;
    config.stack_size = STACK;
    let figures = figures.clone();
    let execution = move || run(seed, defect, &figures);
    let iterations = SCHEDULES as usize;
    let ended = catch_unwind(AssertUnwindSafe(|| match seed % 2 {
        0 => Runner::new(RandomScheduler::new_from_seed(seed, iterations), config).run(execution),
        _ => {
            let depth = 2 + (seed / 2 % 4) as usize;
            Runner::new(PctScheduler::new_from_seed(seed, depth, iterations), config).run(execution)
        }
    }));
    ended.map(|_| ()).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        text.unwrap_or_else(|| "a panic without words".to_owned())
    })
}
