//! The nouns of an exploration: the model, how far to explore, and the report.

use std::collections::HashMap;
use std::fmt;

use crate::program::{NodeId, Point, Program};
use crate::runtime::{self, Place};

/// The most threads of a model.
pub const MAX_THREADS: usize = 4;

pub(crate) type Check<'m> = Box<dyn Fn(&View<'_>) + 'm>;

/// Threads, and what must hold of them.
#[derive(Default)]
pub struct Model<'m> {
    pub(crate) bodies: Vec<Box<dyn Fn() + 'm>>,
    pub(crate) invariants: Vec<Check<'m>>,
    pub(crate) finals: Vec<Check<'m>>,
    pub(crate) names: HashMap<u32, String>,
}

impl<'m> Model<'m> {
    /// Adds a thread. It runs many times: see invariant 2 of the [crate]. Its number is the count
    /// of those added before.
    pub fn thread(&mut self, body: impl Fn() + 'm) {
        self.bodies.push(Box::new(body));
    }

    /// What must hold in every state; a panic is a failure. Its accesses are no steps. What it
    /// writes to atomics that a thread has accessed, or that have a [name](Self::name), is
    /// forgotten afterwards, so it may run a recovery right on them; atomics of its own work as
    /// usual.
    pub fn invariant(&mut self, check: impl Fn(&View<'_>) + 'm) {
        self.invariants.push(Box::new(check));
    }

    /// What must hold whenever all threads have finished. As [`Self::invariant`].
    pub fn finally(&mut self, check: impl Fn(&View<'_>) + 'm) {
        self.finals.push(Box::new(check));
    }

    /// Makes every atomic known that `f` accesses, as if it had a [name](Self::name). What `f` writes is forgotten. For a
    /// check that uses more atomics than the threads do: what it writes to these is forgotten too, then.
    pub fn meet(&mut self, f: impl FnOnce()) {
        runtime::meet(f);
    }

    /// Calls these atomics `name[0]`, `name[1]`… (or `name`, if there is one) in a schedule.
    pub fn name<A: Place>(&mut self, name: &str, atoms: &[A]) {
        for (index, atom) in atoms.iter().enumerate() {
            let name = if atoms.len() == 1 { name.into() } else { format!("{name}[{index}]") };
            self.names.insert(runtime::with(|runtime| runtime.know(atom)), name);
        }
    }
}

/// What a check sees of the threads, beside the atomics.
pub struct View<'a> {
    pub(crate) programs: &'a [Program],
    pub(crate) at: &'a [NodeId],
}

impl View<'_> {
    /// What this thread has reported by [`note`](crate::note) so far.
    ///
    /// # Panics
    /// If a note is of another type, or there is no such thread.
    #[must_use]
    pub fn notes<T: 'static>(&self, thread: usize) -> Vec<&T> {
        let notes = &self.programs[thread].node(self.at[thread]).notes;
        notes.iter().map(|note| note.downcast_ref().expect("a note of another type")).collect()
    }

    /// Has this thread finished?
    ///
    /// # Panics
    /// If there is no such thread.
    #[must_use]
    pub fn finished(&self, thread: usize) -> bool {
        self.programs[thread].node(self.at[thread]).point == Point::End
    }
}

/// How far to explore.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) max_states: usize,
    pub(crate) max_steps: usize,
    pub(crate) solo: Option<u16>,
    pub(crate) schedule: Option<Vec<usize>>,
}

impl Default for Options {
    /// 10⁷ states, which take up to 1 GB (32 bytes each in a table that doubles when 7/8 full, and
    /// the programs of the threads);
    /// 1000 steps for each thread.
    fn default() -> Self {
        Options { max_states: 10_000_000, max_steps: 1000, solo: None, schedule: None }
    }
}

impl Options {
    /// The default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stop after so many states; the report then is not complete.
    #[must_use]
    pub fn max_states(self, max_states: usize) -> Self {
        Options { max_states, ..self }
    }

    /// A thread that makes more than this many accesses in one execution is a failure (a livelock,
    /// or a loop that waits).
    #[must_use]
    pub fn max_steps(self, max_steps: usize) -> Self {
        Options { max_steps, ..self }
    }

    /// Check lock-freedom of a kind: from every state, every thread finishes within `steps` steps
    /// when it runs alone. So nobody ever waits for a stalled thread.
    #[must_use]
    pub fn solo_progress(self, steps: u16) -> Self {
        Options { solo: Some(steps), ..self }
    }

    /// Run only this schedule, the threads of the steps in order; the report is not complete.
    #[must_use]
    pub fn schedule(self, schedule: &[usize]) -> Self {
        Options { schedule: Some(schedule.to_vec()), ..self }
    }
}

/// What an exploration without failures went through.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Different states: contents of the atomics, and what each thread has observed.
    pub states: u64,
    /// Steps from each state, by each thread that could.
    pub transitions: u64,
    /// Interleavings: different schedules from start to end, all of which the states stand for
    /// (counted, not run one by one; up to `u64::MAX`; too few where threads
    /// [wait](crate::wait_until)).
    pub executions: u64,
    /// Different states in which all threads have finished.
    pub finals: u64,
    /// How often the body of a thread ran, to learn its program.
    pub runs: u64,
    /// Steps of the longest path that the search took (it turns back at states that it knows).
    pub max_depth: usize,
    /// Is this everything?
    pub complete: bool,
}

impl Report {
    /// Nothing was cut off.
    ///
    /// # Panics
    /// If something was.
    #[track_caller]
    pub fn assert_complete(&self) {
        assert!(self.complete, "cut off: {self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { states, transitions, executions, finals, runs, max_depth, complete } = self;
        let complete = if *complete { "complete" } else { "NOT COMPLETE" };
        write!(
            f,
            "{states} states ({finals} final), {transitions} transitions, {executions} \
             executions, depth {max_depth}, {runs} runs, {complete}"
        )
    }
}
