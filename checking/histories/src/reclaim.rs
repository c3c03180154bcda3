//! Calls of a history that reclaim huge frames, and give them back; and those that know what memory is zero.

use woodlot_frame::{
    AllocError, FrameAllocator, FrameId, Geometry, HugeFlags, HugeId, OfflineError, Order, Prefer,
    Reclaim, Reclaiming, Request, Slot,
};
use woodlot_llfree::LLFree;
use woodlot_nbbs::{Form, Nbbs};
use woodlot_onewrite::OneWrite;

use crate::history::{Geo, Zone};
use crate::ledger::{Block, Judged, Passing, Refusal};

/// An allocator whose calls are made, those of [`Reclaiming`] too if it has them.
pub trait Called: FrameAllocator {
    /// The allocator as one that reclaims.
    fn reclaiming(&self) -> Option<&dyn Reclaims> {
        None
    }
}

/// [`Reclaiming`] as a trait of objects.
pub trait Reclaims {
    /// [`Reclaiming::flags`].
    fn flags(&self, huge: HugeId) -> HugeFlags;

    /// [`Reclaiming::set_flags`].
    ///
    /// # Errors
    /// The engine's.
    fn set_flags(&self, huge: HugeId, flags: HugeFlags) -> Result<(), OfflineError>;

    /// [`Reclaiming::alloc_preferring`].
    ///
    /// # Errors
    /// The engine's.
    fn alloc_preferring(
        &self,
        request: Request,
        prefer: Prefer,
    ) -> Result<(FrameId, HugeFlags), AllocError>;

    /// [`Reclaiming::reclaim`].
    fn reclaim(&self, mode: Reclaim, out: &mut [HugeId]) -> usize;

    /// [`Reclaiming::give`].
    ///
    /// # Errors
    /// The engine's.
    fn give(&self, frames: &[HugeId], flags: HugeFlags) -> Result<(), OfflineError>;
}

impl<A: Reclaiming> Reclaims for A {
    fn flags(&self, huge: HugeId) -> HugeFlags {
        A::flags(self, huge)
    }

    fn set_flags(&self, huge: HugeId, flags: HugeFlags) -> Result<(), OfflineError> {
        A::set_flags(self, huge, flags)
    }

    fn alloc_preferring(
        &self,
        request: Request,
        prefer: Prefer,
    ) -> Result<(FrameId, HugeFlags), AllocError> {
        A::alloc_preferring(self, request, prefer)
    }

    fn reclaim(&self, mode: Reclaim, out: &mut [HugeId]) -> usize {
        A::reclaim(self, mode, out)
    }

    fn give(&self, frames: &[HugeId], flags: HugeFlags) -> Result<(), OfflineError> {
        A::give(self, frames, flags)
    }
}

impl<G: Geometry> Called for LLFree<'_, G> {
    fn reclaiming(&self) -> Option<&dyn Reclaims> {
        Some(self)
    }
}

impl<G: Geometry> Called for OneWrite<'_, G> {
    fn reclaiming(&self) -> Option<&dyn Reclaims> {
        Some(self)
    }
}

impl<G: Geometry, F: Form> Called for Nbbs<'_, G, F> {}

impl<A: Called> Zone<'_, A> {
    /// What is said to be zero is so.
    pub(crate) fn alloc_preferring(&self, me: usize, request: Request, prefer: Prefer) -> Judged {
        let Some(engine) = self.engine.reclaiming() else { return self.alloc(me, request) };
        let order = request.order;
        let id = self.books.with(|ledger| ledger.begin(me, Passing::Blocks(order, 1)));
        let answer = engine.alloc_preferring(request, prefer);
        let gone = answer.map(|(frame, _)| {
            // Nobody else says that there is memory.
            let huge = |at| FrameId(at).huge::<Geo<A>>();
            Block(frame, order).range().any(|at| engine.flags(huge(at)).reclaimed)
        });
        self.books.with(|ledger| match answer {
            Ok((frame, flags)) => {
                let block = Block(frame, order);
                if gone != Ok(flags.reclaimed) {
                    return Err(format!("{frame} of {order} has no memory, and that is not told"));
                }
                if flags.zeroed && (order < Order::huge::<Geo<A>>() || ledger.is_written(block)) {
                    return Err(format!("{frame} of {order} is said to be zero, and is not"));
                }
                ledger.allocated(me, id, &[block], None)
            }
            Err(AllocError::OutOfMemory) => {
                ledger.refused(me, id, Refusal::Memory(order));
                Ok(())
            }
            Err(error) => Err(format!("answered {error:?}")),
        })
    }

    /// Those of a hard reclaim are the thread's, and without memory.
    pub(crate) fn reclaim(&self, me: usize, mode: Reclaim, most: usize) -> Judged {
        let Some(engine) = self.engine.reclaiming() else { return Ok(()) };
        let passing = Passing::Blocks(Order::huge::<Geo<A>>(), most);
        let id = self.books.with(|ledger| ledger.begin(me, passing));
        let mut out = vec![HugeId(usize::MAX); most];
        let count = engine.reclaim(mode, &mut out);
        let Some((taken, rest)) = out.split_at_checked(count) else {
            return Err(format!("{count} huge frames are reclaimed, and {most} were wanted"));
        };
        if rest.iter().any(|&huge| huge != HugeId(usize::MAX)) {
            return Err(format!("{out:?} is written behind {count}"));
        }
        if mode == Reclaim::Soft {
            let zone = self.engine.zone().huge_range::<Geo<A>>();
            self.books.with(|ledger| ledger.done(me, id));
            let other = taken.iter().find(|huge| !zone.contains(huge));
            return other.map_or(Ok(()), |huge| Err(format!("{huge} is reclaimed, and not there")));
        }
        // Fewer than there were is as if memory had run out.
        let refused = (count < most).then_some(Refusal::Memory(Order::huge::<Geo<A>>()));
        self.books.with(|ledger| ledger.taken_out::<Geo<A>>(me, id, taken, refused))?;
        let backed = taken.iter().find(|&&huge| engine.flags(huge) != HugeFlags::RECLAIMED);
        backed.map_or(Ok(()), |huge| Err(format!("{huge} is reclaimed, and its flags are not")))
    }

    /// Gives back what the thread has offline, zeroed.
    pub(crate) fn give(&self, me: usize, pick: usize, most: usize) -> Judged {
        let Some(engine) = self.engine.reclaiming() else { return Ok(()) };
        let take = || self.books.with(|ledger| ledger.take_out(me, pick));
        let all: Vec<_> = std::iter::from_fn(take).take(most).collect();
        let id = self.books.with(|ledger| {
            let huge = Order::huge::<Geo<A>>();
            all.iter().for_each(|of| ledger.wiped(Block(of.first::<Geo<A>>(), huge)));
            ledger.begin_online::<Geo<A>>(me, &all)
        })?;
        let answer = engine.give(&all, HugeFlags::ZEROED);
        self.books.with(|ledger| ledger.done(me, id));
        answer.map_err(|error| format!("{error:?}, but thread {me} has taken {all:?} out"))
    }

    /// Fills a huge frame or a pair that the thread owns with zeros, says so, and frees it.
    pub(crate) fn free_zeroed(&self, me: usize, pick: usize, slot: Slot) -> Judged {
        let Some(engine) = self.engine.reclaiming() else { return Ok(()) };
        let is_huge = |block: &Block| block.1 >= Order::huge::<Geo<A>>();
        let block = self.books.with(|ledger| {
            let block = ledger.block(me, pick).filter(is_huge)?;
            ledger.take_this(me, block).then_some(block)
        });
        let Some(block) = block else { return Ok(()) };
        self.books.with(|ledger| ledger.wiped(block));
        let frames = block.range();
        for huge in frames.step_by(Geo::<A>::HUGE_FRAMES).map(|at| FrameId(at).huge::<Geo<A>>()) {
            let id = self.books.with(|ledger| ledger.begin(me, Passing::NOTHING));
            let answer = engine.set_flags(huge, HugeFlags::ZEROED);
            self.books.with(|ledger| ledger.done(me, id));
            answer.map_err(|error| format!("{error:?}, but {huge} is thread {me}'s"))?;
        }
        self.free(me, block, slot)
    }

    /// Of what a thread owns nothing is said to be zero: it may have written there.
    pub(crate) fn is_said_to_be_zero(&self, block: Block) -> bool {
        let huge = FrameId(block.range().start).huge::<Geo<A>>();
        self.engine.reclaiming().is_some_and(|engine| engine.flags(huge).zeroed)
    }

    /// All threads have ended: what is said to be zero is free as a whole, and so.
    pub(crate) fn judge_flags(&self) -> Judged {
        let Some(engine) = self.engine.reclaiming() else { return Ok(()) };
        let range = self.engine.zone().huge_range::<Geo<A>>();
        let zeroed =
            (range.start.0..range.end.0).map(HugeId).filter(|&huge| engine.flags(huge).zeroed);
        for huge in zeroed {
            let block = Block(huge.first::<Geo<A>>(), Order::huge::<Geo<A>>());
            if self.books.with(|ledger| ledger.is_owned(block) || ledger.is_written(block)) {
                return Err(format!("{huge} is said to be zero, and is not"));
            }
        }
        Ok(())
    }
}
