//! A program of histories of something else than whole zones: what its `main` does.

use std::fmt::Debug;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use shuttle::MaxSteps;
use shuttle::scheduler::{PctScheduler, RandomScheduler};

use crate::executions::{config, execute, on_all_cores};
use crate::ledger::Judged;

/// Runs random histories under random schedules.
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
/// An execution of so many steps has a thread that waits for something.
const MAX_STEPS: usize = 300_000;

/// What histories are of.
pub struct Subject<D: 'static, F> {
    /// What it is called.
    pub name: &'static str,
    /// No defect.
    pub nothing: D,
    /// Those that must be found.
    pub defects: &'static [D],
    /// One history of a seed; it panics where something is wrong.
    pub history: fn(u64, D, &Arc<F>),
    /// Bytes of the stack of a thread.
    pub stack: usize,
    /// The option of `cargo xtask shuttle` that runs the schedules of a seed again.
    pub replay: &'static str,
    /// What histories have done, in words.
    pub said: fn(&F) -> String,
}

impl<D: Copy + Debug + Send + Sync, F: Default + Send + Sync + 'static> Subject<D, F> {
    /// Finds the defects, and nothing in the schedules that are asked for.
    pub fn main(&self) -> ExitCode {
        let args = Args::parse();
        // What panics is told at the end, once.
        std::panic::set_hook(Box::new(|_| ()));
        let figures = Arc::new(F::default());
        let ended = match args.replay {
            Some(seed) => self.batch(seed, self.nothing, &figures).map(|()| String::new()),
            None => self.all(&args, &figures),
        };
        match ended {
            Ok(found) => {
                println!("{}: {}{found}", self.name, (self.said)(&figures));
                ExitCode::SUCCESS
            }
            Err(why) => {
                eprintln!("{why}");
                ExitCode::FAILURE
            }
        }
    }

    /// Finds the defects, and nothing in so many schedules. Returns how many defects were found.
    fn all(&self, args: &Args, figures: &Arc<F>) -> Judged<String> {
        for &defect in self.defects {
            let mut seeds = args.seed..args.seed + DEFECT_BATCHES;
            let quiet = Arc::new(F::default());
            if !seeds.any(|seed| self.batch(seed, defect, &quiet).is_err()) {
                return Err(format!("{defect:?} passes {DEFECT_BATCHES} histories"));
            }
        }
        on_all_cores(self.name, args.schedules.div_ceil(SCHEDULES), |number| {
            let seed = args.seed + number;
            let line = |why| format!("{why}\nreplay: cargo xtask shuttle {} {seed}", self.replay);
            self.batch(seed, self.nothing, figures).map_err(line)
        })?;
        Ok(format!("; {found} of {found} seeded defects found", found = self.defects.len()))
    }

    /// One history under several schedules: half of the seeds at random, the others by priorities that change at a few
    /// points.
    fn batch(&self, seed: u64, defect: D, figures: &Arc<F>) -> Judged {
        let mut config = config(MaxSteps::FailAfter(MAX_STEPS));
        config.stack_size = self.stack;
        let (figures, history) = (figures.clone(), self.history);
        let execution = move || history(seed, defect, &figures);
        let iterations = SCHEDULES as usize;
        if seed.is_multiple_of(2) {
            return execute(RandomScheduler::new_from_seed(seed, iterations), config, execution);
        }
        let depth = 2 + (seed / 2 % 4) as usize;
        execute(PctScheduler::new_from_seed(seed, depth, iterations), config, execution)
    }
}
