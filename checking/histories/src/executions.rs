//! Executions under a scheduler of shuttle, and batches of them on all cores.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread::{available_parallelism, scope};
use std::time::{Duration, Instant};

use shuttle::scheduler::Scheduler;
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use crate::ledger::Judged;

/// How often a long run says how far it is.
const PROGRESS: Duration = Duration::from_secs(30);

/// Executions that write no file and warn of nothing.
pub fn config(max_steps: MaxSteps) -> Config {
    let mut config = Config::new();
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = max_steps;
    config.silence_warnings = true;
    config
}

/// Executes under a scheduler, until it has no more schedules.
///
/// # Errors
/// What a panic said.
pub fn execute(
    scheduler: impl Scheduler + 'static,
    config: Config,
    execution: impl Fn() + Send + Sync + 'static,
) -> Judged {
    let ended = catch_unwind(AssertUnwindSafe(|| Runner::new(scheduler, config).run(execution)));
    ended.map(|_| ()).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        text.unwrap_or("(no words)").to_owned()
    })
}

/// Runs so many batches, by their numbers, on all cores, until one fails.
///
/// # Errors
/// What the last one that failed says.
pub fn on_all_cores(name: &str, batches: u64, run: impl Fn(u64) -> Judged + Sync) -> Judged {
    let begin = Instant::now();
    let next = Mutex::new((0, Ok(()), begin));
    let work = || {
        while let Some(number) = {
            let mut state = next.lock().expect("nobody panics with it");
            let (number, ended, _) = &mut *state;
            let mine = (*number < batches && ended.is_ok()).then_some(*number);
            *number += 1;
            mine
        } {
            let judged = run(number);
            let mut state = next.lock().expect("nobody panics with it");
            let (begun, ended, told) = &mut *state;
            if judged.is_err() {
                *ended = judged;
            }
            if told.elapsed() > PROGRESS {
                let seconds = begin.elapsed().as_secs();
                eprintln!("{name}: {begun} of {batches} batches begun after {seconds} s");
                *told = Instant::now();
            }
        }
    };
    scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    next.into_inner().expect("nobody panics with it").1
}
