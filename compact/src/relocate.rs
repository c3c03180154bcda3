//! What the owner of the frames does for compaction.

use core::ops::Range;

use woodlot_frame::{Class, FrameId, HugeId, Order};

/// An allocated block, as its owner knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Its first frame.
    pub first: FrameId,
    /// 2^order frames. It moves to a block of the same order.
    pub order: Order,
    /// What the block that receives it is allocated for.
    pub class: Class,
}

impl Block {
    /// Is it an aligned block that the frame belongs to?
    pub(crate) fn has(&self, frame: FrameId) -> bool {
        let frames = self.order.frames();
        let offset = frame.0.checked_sub(self.first.0);
        offset.is_some_and(|offset| offset < frames) && self.first.0 & (frames - 1) == 0
    }

    /// Does all of it lie in these frames?
    pub(crate) fn is_in(&self, frames: &Range<FrameId>) -> bool {
        let end = self.first.0.checked_add(self.order.frames());
        self.first >= frames.start && end.is_some_and(|end| end <= frames.end.0)
    }
}

/// What a frame is to its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// A frame of a block that may be moved.
    Movable(Block),
    /// It stays where it is, at least for now: it is pinned, of a class that does not move, or nobody's that the owner knows.
    Pinned,
    /// It is being freed, or is free already.
    Gone,
}

/// Why a block was not moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It has been pinned since it was looked up.
    Pinned,
    /// It was freed, or is being freed, by its owner.
    Gone,
    /// It could not be done, perhaps half-way; another time it may succeed.
    Failed,
}

/// The owner of the frames: it knows the blocks, copies and remaps.
///
/// # Contract
/// * [`relocate`](Self::relocate) succeeds at most once for each block, and a block that was freed, or that somebody has begun to
///   free, is [gone](Refusal::Gone). So of a free and a move of one block exactly one happens: this is the owner's to decide,
///   for the allocator does not know owners.
/// * After a success the old block is nobody's but compaction's, and no free names it. After a refusal no reader or writer sees
///   the block that was to receive, whatever was copied into it.
/// * A call that panics cancels its compaction. After a panic of `relocate` both blocks stay allocated, for nobody knows
///   which of the two the owner has; unwinding past it is the owner's to make good.
/// * A call that returns late, or never, holds up the compaction that made it, and that compaction's daemon. Nobody cancels it meanwhile, for the owner alone
///   knows whether the block moves. So what they have stays theirs: isolated is one huge frame, or all of a range or a block that is to
///   be won, and allocated are both blocks of a move; nothing where a plan is made. Everybody else goes on, also frees there: allocations, statistics, other
///   compactions and daemons. Those that want these huge frames pass over them, or end as [taken](crate::Stop::Taken). When the call returns, it
///   counts as it says, once. Who waits for the daemon's answer waits as long as they want to; how long whoever
///   stops it does, says `Background`.
pub trait Relocate {
    /// The free frames are about to be counted, for a plan. What the owner keeps for itself, as threads keep what they have freed, it
    /// frees now: it counts as in use otherwise, and the plan as less than could be won.
    fn prepare(&mut self) {}

    /// The block that an allocated frame belongs to. Asked before anything is moved out of a huge frame, for each of its
    /// blocks, and again for each before it is moved.
    ///
    /// An answer of the past is harmless: a block that `frame` does not belong to counts as [`Lookup::Gone`], one that reaches out
    /// of what is isolated as [`Lookup::Pinned`].
    fn block_at(&mut self, frame: FrameId) -> Lookup;

    /// Copies the block to the frames from `to` on, which are as many and nobody else's, and lets everybody find it there.
    ///
    /// # Errors
    /// Why it stays where it is.
    fn relocate(&mut self, block: Block, to: FrameId) -> Result<(), Refusal>;

    /// Is it known that some frame of the huge frame cannot move? Such huge frames receive, and are never emptied in part. In
    /// constant time, or false.
    fn has_pinned(&mut self, _huge: HugeId) -> bool {
        false
    }
}

impl<R: Relocate + ?Sized> Relocate for &mut R {
    fn prepare(&mut self) {
        (**self).prepare();
    }

    fn block_at(&mut self, frame: FrameId) -> Lookup {
        (**self).block_at(frame)
    }

    fn relocate(&mut self, block: Block, to: FrameId) -> Result<(), Refusal> {
        (**self).relocate(block, to)
    }

    fn has_pinned(&mut self, huge: HugeId) -> bool {
        (**self).has_pinned(huge)
    }
}
