//! What does repetitions, and what one gives.

use super::kinds::Metric;
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
}

/// What a thread has to say after a repetition.
pub(super) struct Part {
    pub(super) tallies: Sample,
    /// Calls that were refused although they must not be.
    pub(super) refused: usize,
}
