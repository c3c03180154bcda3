//! An allocator as one member uses it.

use woodlot_frame::{
    AllocError, Batch, Claim, FrameAllocator, FrameId, FreeBatchError, FreeError, Geometry, HugeId,
    IsolateError, Order, RangeRequest, Request, Slot, Unsupported, can_free_run, forward,
};

use core::ops::Range;

use super::Owners;
use super::error::OwnersError;
use super::members::Member;

/// An allocator as one member uses it: what it allocates is tagged as its own.
///
/// Whoever shares the zone must allocate and free by such a value, with a member of its own. Frames that were allocated
/// before, without tags, can be freed by anybody; who keeps them [adopts](Self::adopt) them.
///
/// The calls are those of the allocator, and so are their results: one call of the allocator for each, so a batch or a run
/// is one operation where it is one to the allocator ([intents](woodlot_frame::Intents)). A free of a frame that another
/// member has allocated succeeds, if that member is to free it no more.
///
/// A wrong free of the same frames at the same time can make the allocator refuse a block or a run after a part of it was
/// free for a moment. A frame of it that is allocated then may be another member's that has not come to its tag. So what is
/// left of it is nobody's, and hidden until the next [sweep](super::Sweeper::sweep); of a batch, the one block that was refused.
pub struct Tagged<'z, 'a, A> {
    pub(super) allocator: &'z A,
    pub(super) owners: Owners<'a>,
    pub(super) me: Member,
}

impl<A> Clone for Tagged<'_, '_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Tagged<'_, '_, A> {}

/// The frames of a block that lies in the zone.
fn frames(first: FrameId, order: Order) -> Range<FrameId> {
    first..FrameId(first.0.saturating_add(order.frames()))
}

impl<'z, 'a, A: FrameAllocator> Tagged<'z, 'a, A> {
    /// The allocator as `me` uses it, which has [joined](Owners::join).
    ///
    /// # Errors
    /// [`OwnersError::OtherZone`] where the table is not that of the allocator's zone.
    pub fn new(allocator: &'z A, owners: Owners<'a>, me: Member) -> Result<Self, OwnersError> {
        owners.check(allocator)?;
        Ok(Self { allocator, owners, me })
    }

    /// The allocator without tags: for all that neither allocates nor frees.
    pub fn allocator(&self) -> &'z A {
        self.allocator
    }

    /// The owner table.
    pub fn owners(&self) -> Owners<'a> {
        self.owners
    }

    /// Who it is that calls.
    pub fn member(&self) -> Member {
        self.me
    }

    /// Makes frames the member's own that it has just allocated by a call of the allocator which is not here:
    /// [`alloc_preferring`](woodlot_frame::Reclaiming::alloc_preferring), say. Frames outside of the zone are none.
    pub fn tag(&self, frames: Range<FrameId>) {
        self.owners.tags.own(frames, self.me.id());
    }

    /// Makes frames the member's own, which were allocated without tags, or by a member that hands them over and uses
    /// them no more. False: some frame is free, being freed or outside of the zone; those before it are the
    /// member's.
    pub fn adopt(&self, frames: Range<FrameId>) -> bool {
        let all = frames.end.0.checked_sub(frames.start.0);
        let (zone, used) = (self.allocator.zone(), |frame| self.is_used(frame));
        let inside = frames.start >= zone.start && frames.end <= zone.end();
        inside && all.is_some_and(|all| self.owners.tags.adopt(&frames, self.me.id(), used) == all)
    }

    #[inline(always)]
    fn own(&self, first: FrameId, order: Order) {
        match order {
            Order::BASE => self.owners.tags.own_one(first, self.me.id()),
            order => self.owners.tags.own(frames(first, order), self.me.id()),
        }
    }

    /// Marks a block as one that is being freed. False: it is none, or it cannot be freed.
    #[inline(always)]
    fn mark(&self, first: FrameId, order: Order, slot: Slot) -> bool {
        match order {
            Order::BASE => self.owners.tags.mark_one(first, self.me.id()),
            order => self.is_block(first, order) && self.mark_block(first, order, slot),
        }
    }

    /// The allocator is asked before it frees anything, since a refusal from then on comes half-way.
    fn mark_block(&self, first: FrameId, order: Order, slot: Slot) -> bool {
        let block = frames(first, order);
        let marked = self.owners.tags.mark(&block, self.me.id());
        let all = marked == order.frames() && self.allocator.can_free(first, order, slot).is_ok();
        if !all {
            self.unmark(first..FrameId(first.0 + marked));
        }
        all
    }

    /// A free of a marked block was refused. Nothing of it is free of this call if its arguments were wrong. Otherwise a
    /// part of it may be, and be another member's by now that has not come to its tag: the marks stay, and what is left of
    /// it is nobody's.
    #[cold]
    fn refused(&self, first: FrameId, order: Order, cause: FreeError) {
        if !matches!(cause, FreeError::NotAllocated(_)) {
            self.unmark(frames(first, order));
        }
    }

    #[cold]
    fn unmark(&self, frames: Range<FrameId>) {
        self.owners.tags.unmark(frames, |frame| !self.is_used(frame));
    }

    /// Is a frame allocated? One that is isolated may be neither that nor free.
    fn is_used(&self, frame: FrameId) -> bool {
        self.allocator.used_map(frame) >> (frame.0 & 63) & 1 != 0
    }

    /// Is there such a block?
    fn is_block(&self, frame: FrameId, order: Order) -> bool {
        u32::from(order.0) <= A::Geometry::MAX_ORDER
            && frame.is_aligned(order)
            && self.allocator.zone().contains(frame, order)
    }

    /// Why a block cannot be freed of which a frame is marked, or which is none.
    #[cold]
    fn refusal(&self, frame: FrameId, order: Order, slot: Slot) -> FreeError {
        let refused = self.allocator.can_free(frame, order, slot);
        refused.err().unwrap_or(FreeError::NotAllocated(frame))
    }
}

impl<A: FrameAllocator> FrameAllocator for Tagged<'_, '_, A> {
    type Geometry = A::Geometry;

    const NAME: &'static str = A::NAME;

    const UNSUPPORTED: Unsupported = A::UNSUPPORTED;

    #[inline]
    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        // Word by word: a copy of the whole request would wait for the bytes that were just written (+ 30 ns a pair).
        let Request { order, class, slot, place } = request;
        let frame = self.allocator.alloc(Request { order, class, slot, place })?;
        self.own(frame, order);
        Ok(frame)
    }

    #[inline]
    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        if !self.mark(frame, order, slot) {
            return Err(self.refusal(frame, order, slot));
        }
        let freed = self.allocator.free(frame, order, slot);
        if let Err(cause) = freed {
            self.refused(frame, order, cause);
        }
        freed
    }

    fn alloc_batch(
        &self,
        request: Request,
        batch: Batch,
        out: &mut [FrameId],
    ) -> Result<usize, AllocError> {
        let count = self.allocator.alloc_batch(request, batch, out)?;
        out.iter().take(count).for_each(|&frame| self.own(frame, request.order));
        Ok(count)
    }

    fn free_batch(
        &self,
        blocks: &[FrameId],
        order: Order,
        slot: Slot,
    ) -> Result<(), FreeBatchError> {
        let mark = |&&frame: &&FrameId| self.mark(frame, order, slot);
        let marked = blocks.iter().take_while(mark).count();
        let (ours, others) = blocks.split_at_checked(marked).unwrap_or((blocks, &[]));
        let freed = self.allocator.free_batch(ours, order, slot);
        if let Err(error) = freed {
            let mut kept = ours.iter().skip(error.freed);
            kept.next().into_iter().for_each(|&frame| self.refused(frame, order, error.cause));
            kept.for_each(|&frame| self.unmark(frames(frame, order)));
            return Err(error);
        }
        others.first().map_or(Ok(()), |&frame| {
            Err(FreeBatchError { freed: marked, cause: self.refusal(frame, order, slot) })
        })
    }

    fn alloc_range(&self, request: RangeRequest) -> Result<Range<FrameId>, AllocError> {
        let run = self.allocator.alloc_range(request)?;
        self.owners.tags.own(run.clone(), self.me.id());
        Ok(run)
    }

    /// Frees a run, all of whose tags are marked before the allocator frees its first block. A death in the call hides
    /// what is not free yet of the run, up to all of it, until the next [sweep](super::Sweeper::sweep).
    ///
    /// A wrong free of the same frames at the same time can make the allocator refuse the run half-way. What is left of it
    /// then is nobody's, and hidden until the next sweep, too, as it is of a block.
    fn free_range(&self, frames: Range<FrameId>, slot: Slot) -> Result<(), FreeError> {
        let all = frames.end.0.saturating_sub(frames.start.0);
        let marked = self.owners.tags.mark(&frames, self.me.id());
        if marked < all {
            let next = FrameId(frames.start.0.saturating_add(marked));
            self.unmark(frames.start..next);
            let refused = can_free_run(self, frames, slot);
            return refused.and(Err(FreeError::NotAllocated(next)));
        }
        // Of one that is empty or reversed nothing is marked: what it is, the allocator says.
        if let Err(refused) = can_free_run(self.allocator, frames.clone(), slot) {
            self.unmark(frames);
            return Err(refused);
        }
        // A refusal from here on comes half-way: some frames may be free, and others' by now. So the marks stay.
        self.allocator.free_range(frames, slot)
    }

    fn can_free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        self.allocator.can_free(frame, order, slot)?;
        match self.owners.tags.is_marked(&frames(frame, order)) {
            true => Err(FreeError::NotAllocated(frame)),
            false => Ok(()),
        }
    }

    fn claim_isolated(
        &self,
        first: HugeId,
        count: usize,
        claim: Claim,
    ) -> Result<(), IsolateError> {
        self.allocator.claim_isolated(first, count, claim)?;
        if let Claim::Block(_) = claim {
            let blocks = (first.0..first.0 + count).map(|huge| HugeId(huge).first::<A::Geometry>());
            blocks.for_each(|frame| self.own(frame, Order::huge::<A::Geometry>()));
        }
        Ok(())
    }

    forward!(allocator: zone, classes, largest_at, drain, offline, online);
    forward!(allocator: isolate, unisolate, is_isolated, frames_in_use, used_map);
    forward!(allocator: is_available, free_frames, stats, is_free, free_map, free_in_huge);
}
