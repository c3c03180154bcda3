//! A huge frame that is being emptied, row by row.

use woodlot_frame::{FrameAllocator, FrameId, Geometry, HugeId, Order};

/// Frames that a row of the map of frames in use has.
const ROW: usize = 64;

/// What is to be done with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Its blocks are asked for, so that nothing moves out of a huge frame that cannot be emptied.
    Survey,
    /// Its blocks are moved: the largest first, for which there may be no room.
    Move,
}

/// A huge frame that the compaction has isolated and empties.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// Where it stands among the candidates.
    pub(crate) place: usize,
    pub(crate) huge: HugeId,
    pub(crate) phase: Phase,
    /// The frame from which to look on.
    pub(crate) next: FrameId,
    /// Smaller blocks are left for the next round.
    pub(crate) least: Order,
    /// How often its frames were gone through while it was emptied.
    pub(crate) rounds: u32,
    /// Moves that failed.
    pub(crate) failures: u32,
}

/// What comes next in a huge frame.
pub(crate) enum Row {
    /// A frame in use.
    Used(FrameId),
    /// None in this row; the next one begins there.
    Free(FrameId),
    /// The huge frame has no more.
    End,
}

impl Source {
    pub(crate) fn new<G: Geometry>(place: usize, huge: HugeId) -> Source {
        let next = huge.first::<G>();
        Source {
            place,
            huge,
            phase: Phase::Survey,
            next,
            least: Order::BASE,
            rounds: 0,
            failures: 0,
        }
    }

    /// Goes through its frames again.
    pub(crate) fn again<G: Geometry>(&mut self, phase: Phase) {
        (self.phase, self.next) = (phase, self.huge.first::<G>());
    }

    /// The next frame in use, in the row of `next`.
    pub(crate) fn row<A: FrameAllocator>(&self, allocator: &A) -> Row {
        let end = self.huge.first::<A::Geometry>().0.saturating_add(A::Geometry::HUGE_FRAMES);
        if self.next.0 >= end {
            return Row::End;
        }
        let passed = self.next.0 & (ROW - 1);
        let used = allocator.used_map(self.next) >> passed;
        let frame = self.next.0 + used.trailing_zeros() as usize;
        let row_end = (self.next.0 - passed).saturating_add(ROW);
        if used == 0 || frame >= end {
            return Row::Free(FrameId(row_end.min(end)));
        }
        Row::Used(FrameId(frame))
    }
}
