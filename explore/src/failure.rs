//! What went wrong, and the schedule that shows it.

use std::fmt;

/// One step of a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Whose step.
    pub thread: usize,
    /// The access with its operands.
    pub call: String,
    /// The atomic: its name, or `#` and the order in which the explorer met it.
    pub atom: String,
    /// Its value before the step.
    pub before: u64,
    /// Its value after the step.
    pub after: u64,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Step { thread, call, atom, before, after } = self;
        write!(f, "thread {thread}  {atom}.{call}  {before:#x}")?;
        if after == before { Ok(()) } else { write!(f, " -> {after:#x}") }
    }
}

/// A schedule in which an assertion does not hold, a thread is held up by others, or a thread does
/// not end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What went wrong.
    pub what: String,
    /// The steps that lead there.
    pub steps: Vec<Step>,
}

impl Failure {
    /// The schedule as `WOODLOT_SCHEDULE` and [`Options::schedule`](crate::Options::schedule)
    /// take it: the thread of each step, separated by commas.
    #[must_use]
    pub fn schedule(&self) -> String {
        let threads: Vec<_> = self.steps.iter().map(|step| step.thread.to_string()).collect();
        threads.join(",")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, after {} steps:", self.what, self.steps.len())?;
        for (number, step) in (1..).zip(&self.steps) {
            writeln!(f, "{number:4}. {step}")?;
        }
        write!(f, "replay with WOODLOT_SCHEDULE={}", self.schedule())
    }
}

impl std::error::Error for Failure {}
