//! Which thread goes on: shuttle's schedulers, and one thread that is left standing.

use fastrand::Rng;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Schedule, Scheduler, Task, TaskId};

use crate::history::Books;

/// An execution of so many steps has a thread that waits for something.
const MAX_STEPS: usize = 300_000;

/// A scheduler for the executions of one plan. Every second one leaves a thread standing from a step
/// on that is chosen by chance: it is not scheduled again before all other threads have ended. Where
/// one of those waits for it, the execution does not end within its steps.
pub struct Schedules {
    inner: Box<dyn Scheduler + Send>,
    rng: Rng,
    books: Books,
    threads: usize,
    /// Steps of this execution, and those of them at which there was a choice.
    steps: usize,
    choices: usize,
    /// The most choices that an execution had so far.
    longest: usize,
    victim: Option<Victim>,
}

/// A thread that is left standing.
struct Victim {
    task: TaskId,
    from: usize,
    standing: bool,
}

impl Schedules {
    /// For so many executions of a plan with so many threads: half of the seeds at random, the others
    /// by priorities that change at a few points (PCT).
    pub fn new(seed: u64, executions: usize, threads: usize, books: Books) -> Self {
        let mut rng = Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let inner: Box<dyn Scheduler + Send> = match rng.bool() {
            true => Box::new(RandomScheduler::new_from_seed(rng.u64(..), executions)),
            false => {
                let depth = rng.usize(2..=6);
                Box::new(PctScheduler::new_from_seed(rng.u64(..), depth, executions))
            }
        };
        let (steps, choices, longest, victim) = (0, 0, 100, None);
        Self { inner, rng, books, threads, steps, choices, longest, victim }
    }
}

impl Scheduler for Schedules {
    fn new_execution(&mut self) -> Option<Schedule> {
        let mut books = self.books.open();
        books.figures.steps += self.steps;
        self.longest = self.longest.max(self.choices);
        (self.steps, self.choices) = (0, 0);
        if books.failure.is_some() {
            // To its end, or it prints a seed of its own as it is dropped.
            while self.inner.new_execution().is_some() {}
            return None;
        }
        let schedule = self.inner.new_execution();
        self.victim = self.rng.bool().then(|| Victim {
            task: TaskId::from(self.rng.usize(1..=self.threads)),
            from: self.rng.usize(0..self.longest),
            standing: false,
        });
        schedule
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            let standing = self.victim.as_ref().filter(|victim| victim.standing);
            let whom = match standing {
                Some(victim) => format!("thread {} stands still", usize::from(victim.task)),
                None => "nobody stands still".into(),
            };
            self.books.fail(format!("no end after {MAX_STEPS} steps; {whom}"));
        }
        if let [only] = runnable {
            let victim = self.victim.take_if(|victim| victim.standing && victim.task == only.id());
            let mut books = self.books.open();
            if victim.is_some() && books.ledger.ended + 1 < self.threads {
                books.failure.get_or_insert("threads wait for one that stands still".into());
            }
            return books.failure.is_none().then(|| only.id());
        }
        if self.books.open().failure.is_some() {
            return None;
        }
        self.choices += 1;
        let Some(victim) = &mut self.victim else {
            return self.inner.next_task(runnable, current, is_yielding);
        };
        let is_there = |task: &&Task| task.id() == victim.task;
        if !victim.standing && self.choices > victim.from && runnable.iter().any(is_there) {
            victim.standing = true;
            let mut books = self.books.open();
            let inside = books.ledger.is_calling(victim.task.into());
            books.figures.stood += 1;
            books.figures.stood_inside += usize::from(inside);
        }
        if !victim.standing {
            return self.inner.next_task(runnable, current, is_yielding);
        }
        let others: Vec<_> =
            runnable.iter().copied().filter(|task| task.id() != victim.task).collect();
        self.inner.next_task(&others, current, is_yielding)
    }

    fn next_u64(&mut self) -> u64 {
        self.inner.next_u64()
    }
}
