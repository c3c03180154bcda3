//! Which thread goes on, and which never does again.

use fastrand::Rng;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Schedule, Scheduler, Task, TaskId};

use super::log::{Log, Phase};

/// An execution of so many steps has a thread that waits for something.
const MAX_STEPS: usize = 300_000;

/// A scheduler that stops some threads for ever, each at a step that is chosen by chance: one of them, or more, up to
/// all, as when the power fails. The main thread goes on when all others have ended or stopped.
pub struct Mortal {
    inner: Box<dyn Scheduler + Send>,
    rng: Rng,
    log: Log,
    threads: usize,
    steps: usize,
    /// Steps of this execution's threads, and the most that an execution had so far; 0 before the first.
    run: usize,
    longest: usize,
    /// When each thread stops, by its number; the main one has none.
    stops: Vec<Option<usize>>,
}

impl Mortal {
    /// For so many executions with so many threads beside the main one: half of the seeds at random, the others by
    /// priorities that change at a few points (PCT).
    pub fn new(seed: u64, executions: usize, threads: usize, log: Log) -> Self {
        let mut rng = Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let inner: Box<dyn Scheduler + Send> = match rng.bool() {
            true => Box::new(RandomScheduler::new_from_seed(rng.u64(..), executions)),
            false => {
                let depth = rng.usize(2..=6);
                Box::new(PctScheduler::new_from_seed(rng.u64(..), depth, executions))
            }
        };
        Self { inner, rng, log, threads, steps: 0, run: 0, longest: 0, stops: Vec::new() }
    }
}

impl Scheduler for Mortal {
    fn new_execution(&mut self) -> Option<Schedule> {
        if self.log.open().failure.is_some() {
            // To its end, or it prints a seed of its own as it is dropped.
            while self.inner.new_execution().is_some() {}
            return None;
        }
        self.longest = self.longest.max(self.run);
        (self.steps, self.run) = (0, 0);
        let all = self.rng.u8(..).is_multiple_of(4);
        let one = self.rng.usize(1..=self.threads);
        let moment = self.rng.usize(0..self.longest.max(1));
        let stop = |thread: usize| match thread {
            // In the first execution nobody stops: it shows how long one is, to this scheduler and to PCT.
            _ if self.longest == 0 => None,
            0 => None,
            // All at once.
            _ if all => Some(moment),
            _ => {
                let stops = thread == one || self.rng.u8(..).is_multiple_of(4);
                stops.then(|| self.rng.usize(0..self.longest))
            }
        };
        self.stops = (0..=self.threads).map(stop).collect();
        self.inner.new_execution()
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        self.steps += 1;
        let mut log = self.log.open();
        if self.steps > MAX_STEPS {
            log.failure.get_or_insert(format!("no end after {MAX_STEPS} steps"));
        }
        if log.failure.is_some() {
            return None;
        }
        let main = TaskId::from(0);
        match log.phase {
            Phase::Beginning | Phase::Judging => return Some(main),
            Phase::Over => {}
            Phase::Running => {
                self.run += 1;
                for thread in runnable.iter().map(|task| usize::from(task.id())) {
                    let stops = self.stops[thread].is_some_and(|stop| stop < self.run);
                    if stops && !log.standing[thread] {
                        log.standing[thread] = true;
                        log.figures.dead += 1;
                        log.figures.inside += usize::from(log.calls[thread].is_some());
                    }
                }
                let living =
                    |task: &&&Task| task.id() != main && !log.standing[usize::from(task.id())];
                let living: Vec<_> = runnable.iter().filter(living).copied().collect();
                if living.is_empty() {
                    return Some(main);
                }
                drop(log);
                return self.inner.next_task(&living, current, is_yielding);
            }
        }
        drop(log);
        self.inner.next_task(runnable, current, is_yielding)
    }

    fn next_u64(&mut self) -> u64 {
        self.inner.next_u64()
    }
}
