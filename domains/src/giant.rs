//! Giant frames: blocks above the largest order of the zones' allocators, up to 1 GiB.
//!
//! ```text
//!   orders     0 … huge, huge + 1     a block of one zone's allocator
//!              … 1 GiB                a run of frames, aligned to itself: of one domain, or where ranges of several domains
//!                                     touch, across them
//! ```
//!
//! The allocators know nothing of it: a giant frame is as good as the largest blocks that it consists of, so that parts of
//! any order are freed by themselves, and what was freed in parts is a giant frame again. It is won back by moving what is in
//! use, as FreeBSD's `vm_page_reclaim_contig` does.
//!
//! *Progress*: lock-free where the allocators are. A search is linear in the chunks from the first frame to the last one,
//! and passes by a block at its first chunk in use. Where another call is faster, what was claimed is given back.

use core::ops::Range;

use woodlot_frame::{
    AllocError, FrameAllocator, FrameId, FreeError, Geometry, Order, RangeRequest, Request, Slot,
    alloc_run, blocks_in, can_free_run,
};

use crate::DomainId;
use crate::domains::Domains;
use crate::policy::{DomainSet, Policy};
use crate::turns::Wanted;

impl<A: FrameAllocator> Domains<'_, A> {
    /// The blocks of zones that a giant frame consists of.
    fn parts(&self, block: FrameId, order: Order) -> impl Iterator<Item = (FrameId, Order)> + '_ {
        blocks_in(self, block..FrameId(block.0.saturating_add(order.frames())))
    }

    /// Is an order above the largest of the zones' allocators?
    #[inline(always)]
    pub(crate) const fn is_above(order: Order) -> bool {
        order.0 as u32 > A::Geometry::MAX_ORDER
    }

    /// The free blocks of an order above the largest of the zones' allocators, from the lowest on, as they are at this moment.
    /// None above the [largest](FrameAllocator::MAX_ORDER).
    pub fn free_giants(&self, order: Order) -> impl Iterator<Item = FrameId> + '_ {
        self.giants_in(order, DomainSet::ALL, self.config.range())
    }

    /// The same where all of a block lies in one domain.
    pub fn free_giants_of(
        &self,
        domain: DomainId,
        order: Order,
    ) -> impl Iterator<Item = FrameId> + '_ {
        self.giants_in(order, DomainSet::one(domain), self.config.range())
    }

    /// The same where all of a block lies in these domains, and in this range.
    pub(crate) fn giants_in(
        &self,
        order: Order,
        set: DomainSet,
        range: Range<FrameId>,
    ) -> impl Iterator<Item = FrameId> + '_ {
        let legal = Self::is_above(order) && order <= Self::MAX_ORDER;
        let range = if legal { range } else { range.start..range.start };
        Self::blocks_of(order, range).filter(move |&block| self.is_giant_free(block, order, set))
    }

    /// Is every part of a block free, and in one of these domains?
    fn is_giant_free(&self, block: FrameId, order: Order, set: DomainSet) -> bool {
        self.parts(block, order).all(|(part, order)| {
            self.at(part).is_some_and(|(zone, there)| {
                set.has(zone.domain) && zone.allocator.is_free(there, order)
            })
        })
    }

    /// Has each part of a block frames that exist, of one of these domains?
    pub(crate) fn is_giant_of(&self, block: FrameId, order: Order, set: DomainSet) -> bool {
        self.parts(block, order)
            .all(|(part, _)| self.at(part).is_some_and(|(zone, _)| set.has(zone.domain)))
    }

    /// The same of any domains.
    fn is_giant_here(&self, block: FrameId, order: Order) -> bool {
        self.is_giant_of(block, order, DomainSet::ALL)
    }

    /// [`is_free`](FrameAllocator::is_free) for an order above the largest of the zones' allocators.
    #[cold]
    pub(crate) fn is_free_giant(&self, block: FrameId, order: Order) -> bool {
        order <= Self::MAX_ORDER
            && block.is_aligned(order)
            && self.is_giant_free(block, order, DomainSet::ALL)
    }

    /// A giant frame from the domain in turn and then from those that a policy says; where none of them has one by itself,
    /// one across those that it allows.
    #[cold]
    #[inline(never)]
    pub(crate) fn alloc_giant(
        &self,
        request: Request,
        policy: Policy<'_>,
        in_turn: Option<DomainId>,
    ) -> Result<FrameId, AllocError> {
        let Request { order, class, slot, .. } = request;
        if order > Self::MAX_ORDER {
            return Err(AllocError::OrderTooLarge(order));
        }
        if slot.0 >= self.config.slots {
            return Err(AllocError::BadSlot(slot));
        }
        if !self.config.classes.has(class) {
            return Err(AllocError::BadClass(class));
        }
        let run = RangeRequest::new(order.frames(), class, slot).aligned(order);
        let turn = || in_turn.into_iter().chain(self.domains_of(policy, slot));
        let allowed = turn().fold(DomainSet::default(), DomainSet::with);
        let sets = turn().map(DomainSet::one);
        let window = self.window(request.place);
        let reaches = |domain: &_| self.zones_of(*domain).any(|zone| zone.reaches(&window));
        for set in sets.chain([allowed]) {
            for block in self.giants_in(order, set, window.clone()) {
                if let Ok(run) = alloc_run(self, run.at(block)) {
                    if let Some(domain) = turn().find(reaches) {
                        let wanted = Wanted { domain, in_turn: in_turn == Some(domain) };
                        self.count_run(run, slot, wanted);
                    }
                    return Ok(block);
                }
            }
        }
        Err(self.none(request))
    }

    /// A giant frame at a frame, of these domains.
    #[cold]
    pub(crate) fn alloc_giant_at(
        &self,
        request: Request,
        block: FrameId,
        allowed: DomainSet,
    ) -> Result<FrameId, AllocError> {
        let Request { order, class, slot, place } = request;
        if order > Self::MAX_ORDER {
            return Err(AllocError::OrderTooLarge(order));
        }
        if block.is_aligned(order) && !self.is_giant_here(block, order) {
            return Err(AllocError::OutOfRange(block));
        }
        if block.is_aligned(order) && !self.is_giant_of(block, order, allowed) {
            return Err(self.none(request));
        }
        let run = RangeRequest::new(order.frames(), class, slot).aligned(order);
        match alloc_run(self, RangeRequest { place, ..run }) {
            Ok(run) => Ok(run.start),
            // Of a block that is in use, the block itself.
            Err(AllocError::InUse(_)) => Err(AllocError::InUse(block)),
            Err(error) => Err(error),
        }
    }

    /// Frees a giant frame, whatever it was allocated as.
    #[cold]
    #[inline(never)]
    pub(crate) fn free_giant(
        &self,
        block: FrameId,
        order: Order,
        slot: Slot,
    ) -> Result<(), FreeError> {
        self.with_giant(block, order, |frames| self.free_range(frames, slot))
    }

    /// Would [`free_giant`](Self::free_giant) succeed?
    #[cold]
    pub(crate) fn can_free_giant(
        &self,
        block: FrameId,
        order: Order,
        slot: Slot,
    ) -> Result<(), FreeError> {
        self.with_giant(block, order, |frames| can_free_run(self, frames, slot))
    }

    /// Calls with the frames of a giant frame, if it is one.
    fn with_giant(
        &self,
        block: FrameId,
        order: Order,
        call: impl FnOnce(Range<FrameId>) -> Result<(), FreeError>,
    ) -> Result<(), FreeError> {
        if order > Self::MAX_ORDER {
            return Err(FreeError::OrderTooLarge(order));
        }
        if !block.is_aligned(order) {
            return Err(FreeError::Misaligned(block, order));
        }
        let end = block.checked_add(order.frames()).filter(|_| self.is_giant_here(block, order));
        let end = end.ok_or(FreeError::OutOfRange(block))?;
        // Of a chunk that is there in part, or a frame that is free: the block.
        call(block..end).map_err(|error| match error {
            FreeError::OutOfRange(_) => FreeError::OutOfRange(block),
            FreeError::NotAllocated(_) => FreeError::NotAllocated(block),
            FreeError::Offline(_) => FreeError::Offline(block),
            other => other,
        })
    }
}
