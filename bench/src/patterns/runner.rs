//! What does repetitions, and what one gives.

use serde::{Deserialize, Serialize};

use super::kinds::{Metric, Pattern};
use crate::Failure;
use crate::clock::Tally;

/// Figures of one repetition.
pub type Sample = Vec<(Metric, Tally)>;

/// A contender that is ready to be measured, whichever it is.
pub trait Runner {
    /// Does one repetition.
    ///
    /// # Errors
    /// When the contender refused what it must not refuse.
    fn sample(&mut self) -> Result<Sample, Failure>;

    /// What the last repetition left of huge frames, where the pattern looks at that.
    fn kept(&self) -> Option<Kept> {
        None
    }
}

/// Huge frames after a repetition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Kept {
    /// How many are free.
    pub free_huge: usize,
    /// How many the best placement would have free after the same calls.
    pub best_huge: usize,
    /// How many the free frames would make, if they lay together.
    pub possible_huge: usize,
    /// Allocations of the repetition that found no block of their order.
    pub refused: u64,
}

impl Kept {
    /// Of those that the best placement would have, in percent; all, where it would have none.
    pub fn percent(&self) -> f64 {
        match self.best_huge {
            0 => 100.0,
            best => 100.0 * self.free_huge as f64 / best as f64,
        }
    }
}

/// What a thread has to say after a repetition.
pub(super) struct Part {
    pub(super) tallies: Sample,
    /// Calls that were refused although they must not be.
    pub(super) refused: usize,
}

/// All threads together.
pub(super) fn total(pattern: Pattern, parts: Vec<Part>) -> Result<Sample, Failure> {
    let refused: usize = parts.iter().map(|part| part.refused).sum();
    if refused > 0 {
        let message = format!("{pattern}: {refused} calls were refused that must succeed");
        return Err(Failure::Failed(message));
    }
    let mut totals = Sample::new();
    for (metric, tally) in parts.into_iter().flat_map(|part| part.tallies) {
        match totals.iter_mut().find(|(known, _)| *known == metric) {
            Some((_, sum)) => *sum = sum.and(tally),
            None => totals.push((metric, tally)),
        }
    }
    Ok(totals)
}
