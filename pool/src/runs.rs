//! Runs of frames, as they are found.

use std::ops::Range;

use woodlot_frame::{FrameId, Order};

/// Runs, and how many frames they have. A block that goes on where the last run ends, or ends where it begins, makes that
/// longer.
#[derive(Default)]
pub(crate) struct Runs {
    runs: Vec<Range<FrameId>>,
    frames: usize,
}

impl Runs {
    pub(crate) fn push_block(&mut self, first: FrameId, order: Order) {
        self.push(first..FrameId(first.0 + order.frames()));
    }

    pub(crate) fn push(&mut self, run: Range<FrameId>) {
        self.frames += run.end.0 - run.start.0;
        match self.runs.last_mut() {
            Some(last) if last.end == run.start => last.end = run.end,
            Some(last) if last.start == run.end => last.start = run.start,
            _ => self.runs.push(run),
        }
    }

    pub(crate) fn frames(&self) -> usize {
        self.frames
    }

    pub(crate) fn as_slice(&self) -> &[Range<FrameId>] {
        &self.runs
    }

    /// Joins those that touch, in the order of their addresses.
    pub(crate) fn sort(&mut self) {
        let mut runs = std::mem::take(&mut self.runs);
        runs.sort_unstable_by_key(|run| run.start);
        self.frames = 0;
        runs.into_iter().for_each(|run| self.push(run));
    }
}
