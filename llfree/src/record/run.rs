//! A run in a record: frames side by side, written from the first upwards.
//!
//! ```text
//!               start                 at        end of the write                end
//!                 ▼                    ▼         ▼                               ▼
//!   allocation    │ ours               │ in doubt│ not begun
//!   free          │ released           │ in doubt│ still ours                    │
//!
//!   header        operation, at, how many frames the write has
//!   entry 0       start, end           in the header's line: they are persistent before a header that goes with them
//! ```
//!
//! The header says which frame the write begins with, and its order. An allocation that the next write does not go on
//! begins anew: the call has given back what it had, and looks elsewhere. That is a free of what it has, as with a
//! batch: its end is where the allocation came to, and it begins at the start.

use core::ops::Range;

use woodlot_frame::Persistence;
use woodlot_frame::atomics::{AtomicU64, Ordering};

use super::{End, Header, Operation, RUN, Record};
use crate::row::ROW_ORDER;

/// In the step of a run: the write has not happened.
const WITHDRAWN: usize = 0x80;

impl Header {
    /// A run of which nothing is written yet: it names nothing.
    const BEGUN: Header = Header((RUN as u64) << 4).ended(End::UnderWay).at(WITHDRAWN);

    /// A run that is about to write the block of `order` at frame `index`.
    const fn run(operation: Operation, order: u32, index: usize) -> Header {
        Self::block(operation, RUN, index).ended(End::UnderWay).at(order as usize)
    }

    /// The write of a run does not happen.
    pub(super) const fn withdrawn(self) -> Header {
        self.at(self.step() | WITHDRAWN)
    }

    /// The write of a run is that of the row before.
    pub(super) fn row_before(self) -> Header {
        Self::run(Operation::Alloc, ROW_ORDER, self.index().saturating_sub(1 << ROW_ORDER))
    }

    /// The frame behind the write of a run.
    fn reached(self) -> usize {
        let happens = self.step() & WITHDRAWN == 0;
        let frames = if happens { 1 << (self.step() & 15) } else { 0 };
        self.index().wrapping_add(frames)
    }
}

/// Runs. Frames are counted from the first that the metadata is for.
impl<'a> Record<'a> {
    fn bounds(self) -> impl Iterator<Item = &'a AtomicU64> {
        self.entry(0).iter()
    }

    /// Begins a run; of one that allocates, the frames are not known yet.
    pub(crate) fn begin_run<P: Persistence>(self, frames: Range<usize>, persistence: P) {
        self.begin(Header::NONE, persistence);
        let values = [frames.start, frames.end];
        self.bounds()
            .zip(values)
            .for_each(|(word, value)| word.store(value as u64, Ordering::Release));
        self.put(Header::BEGUN, persistence);
    }

    /// Before a write of a run.
    pub(super) fn say_of_run<P: Persistence>(
        self,
        mut before: Header,
        alone: Header,
        persistence: P,
    ) {
        let (order, index) = (alone.order(), alone.index());
        let operation = alone.operation().unwrap_or(Operation::Alloc);
        let allocates = before.operation() == Some(Operation::Alloc);
        let goes_on = allocates && before.reached() == index;
        match operation {
            Operation::Alloc if !goes_on => {
                // It may lie below what was written last, and must not seem to reach up to that.
                self.go_on(before, Header::BEGUN, persistence);
                before = Header::BEGUN;
                self.set_bound(0, index);
            }
            Operation::Free if allocates => self.set_bound(1, before.reached()),
            _ => {}
        }
        self.go_on(before, Header::run(operation, order, index), persistence);
    }

    fn set_bound(self, number: usize, frame: usize) {
        let word = self.bounds().nth(number);
        word.into_iter().for_each(|word| word.store(frame as u64, Ordering::Release));
    }

    /// A run has come to its end. One that was refused has allocated nothing, or freed what it came to.
    pub(crate) fn end_run<P: Persistence>(self, refused: bool, persistence: P) {
        let header = self.header();
        let frees = header.operation() == Some(Operation::Free);
        if refused && frees {
            self.set_bound(1, header.reached());
        }
        let nothing = header.operation().is_none() || refused && !frees;
        self.put(if nothing { Header::NONE } else { header.ended(End::Whole) }, persistence);
    }

    /// The frames of a run that the caller owns beside those in doubt, if it is under way.
    pub(crate) fn run_owned(self, header: Header) -> Range<usize> {
        let [start, end] = self.run_bounds();
        match (header.end(), header.operation()) {
            _ if header.order() != RUN => 0..0,
            (End::UnderWay, Some(Operation::Alloc)) => start..header.index(),
            (End::UnderWay, Some(Operation::Free)) => header.reached()..end,
            _ => 0..0,
        }
    }

    /// The frames of a run that are named.
    pub(crate) fn run_named(self, header: Header) -> Range<usize> {
        let [start, end] = self.run_bounds();
        match (header.end(), header.operation()) {
            _ if header.order() != RUN => 0..0,
            (End::CutOff, _) => header.index()..header.reached(),
            (_, Some(Operation::Free)) => start..end,
            _ => start..header.reached(),
        }
    }

    fn run_bounds(self) -> [usize; 2] {
        let mut bounds = [0; 2];
        let words = bounds.iter_mut().zip(self.bounds());
        words.for_each(|(bound, word)| *bound = word.load(Ordering::Acquire) as usize);
        bounds
    }
}
