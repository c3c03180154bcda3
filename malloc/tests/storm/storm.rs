//! A storm under way.

use std::panic::{catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use rustix::thread::{Pid, gettid};

use crate::churn::churn;
use crate::signals::{Signals, stepped};

/// Steps that the threads of a storm do at least, together.
const STEPS: u64 = 1000;

/// A thread of a storm.
#[derive(Default)]
struct Task {
    /// The thread's number; 0: it has not begun.
    id: AtomicUsize,
    /// Has the thread done a step since it was moved from outside?
    stepped: AtomicBool,
}

pub struct Storm {
    /// Do signals interrupt the threads?
    signals: bool,
    tasks: Vec<Task>,
    steps: AtomicU64,
    /// Aborted sequences before, and those that are to come.
    before: u64,
    goal: u64,
    over: AtomicBool,
}

impl Storm {
    /// It lasts until so many sequences are aborted.
    pub fn new(threads: usize, signals: bool, goal: u64) -> Storm {
        Storm {
            signals,
            tasks: (0..threads).map(|_| Task::default()).collect(),
            steps: AtomicU64::new(0),
            before: woodlot_malloc::aborts(),
            goal,
            over: AtomicBool::new(false),
        }
    }

    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Sequences that were aborted in it.
    pub fn aborts(&self) -> u64 {
        woodlot_malloc::aborts() - self.before
    }

    /// How much of it has happened: 1 is all.
    pub fn part(&self) -> f64 {
        let steps = self.steps() as f64 / STEPS as f64;
        if !woodlot_malloc::is_restartable() {
            return steps;
        }
        steps.min(self.aborts() as f64 / self.goal as f64)
    }

    /// All threads have ended, or one has failed.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// The threads that have done a step since they were last asked for.
    pub fn stepped(&self) -> impl Iterator<Item = Pid> {
        let stepped = self.tasks.iter().filter(|task| task.stepped.swap(false, Ordering::Relaxed));
        stepped.filter_map(|task| Pid::from_raw(task.id.load(Ordering::Relaxed) as i32))
    }

    /// Signals to this thread, if there are any.
    pub fn signals(&self) -> Option<Signals> {
        self.signals.then(Signals::new)
    }

    /// The life of a thread.
    pub fn thread(&self, at: usize) {
        let task = &self.tasks[at];
        task.id.store(gettid().as_raw_nonzero().get() as usize, Ordering::Relaxed);
        let _signals = self.signals();
        let ended = catch_unwind(|| {
            churn(at + 1, |step| {
                stepped();
                task.stepped.store(true, Ordering::Relaxed);
                if step % 16 == 0 {
                    self.steps.fetch_add(16, Ordering::Relaxed);
                }
                self.part() < 1.0 && !self.is_over()
            });
        });
        if let Err(why) = ended {
            self.end();
            resume_unwind(why);
        }
    }
}
