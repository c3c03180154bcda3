//! The allocator as a batch or a run calls it: what is written is a part of the operation that the slot's record has
//! open. A call that stands alone need not look for one.

use woodlot_frame::{
    AllocError, BadSlot, Claim, FrameAllocator, FrameId, FreeError, Geometry, HugeId, IsolateError,
    OfflineError, Order, Persistence, Place, Request, Slot, Stats, Unsupported, ZoneConfig,
    alloc_within,
};

use crate::LLFree;
use crate::allocate::Caller;
use crate::record::By;

/// The allocator, of whose blocks each is a part of an operation.
pub(crate) struct Part<'z, 'a, G: Geometry, P>(pub(crate) &'z LLFree<'a, G, P>);

impl<G: Geometry, P: Persistence> FrameAllocator for Part<'_, '_, G, P> {
    type Geometry = G;

    const NAME: &'static str = <LLFree<'_, G, P>>::NAME;

    const UNSUPPORTED: Unsupported = <LLFree<'_, G, P>>::UNSUPPORTED;

    fn zone(&self) -> &ZoneConfig {
        self.0.zone()
    }

    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        let Request { order, class, slot, place } = request;
        match place {
            Place::At(frame) => self.0.allocate_exactly(&request, frame, By::part(slot)),
            Place::Within { .. } => alloc_within(self, request),
            Place::Anywhere => {
                let block = self.0.allocate_part(order, Caller { slot, class });
                block.map_err(|refusal| refusal.of(&request))
            }
        }
    }

    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        let freed = self.0.free_as_part(frame, order, slot);
        freed.map_err(|refusal| refusal.of(frame, order, slot))
    }

    fn can_free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        self.0.can_free(frame, order, slot)
    }

    fn drain(&self, slot: Slot) -> Result<(), BadSlot> {
        self.0.drain(slot)
    }

    fn offline(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        self.0.offline(first, count)
    }

    fn online(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        self.0.online(first, count)
    }

    fn isolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        self.0.isolate(first, count)
    }

    fn unisolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        self.0.unisolate(first, count)
    }

    fn claim_isolated(
        &self,
        first: HugeId,
        count: usize,
        claim: Claim,
    ) -> Result<(), IsolateError> {
        self.0.claim_isolated(first, count, claim)
    }

    fn is_isolated(&self, huge: HugeId) -> bool {
        self.0.is_isolated(huge)
    }

    fn frames_in_use(&self, huge: HugeId) -> usize {
        self.0.frames_in_use(huge)
    }

    fn used_map(&self, frame: FrameId) -> u64 {
        self.0.used_map(frame)
    }

    fn is_available(&self, order: Order) -> bool {
        self.0.is_available(order)
    }

    fn free_frames(&self) -> usize {
        self.0.free_frames()
    }

    fn stats(&self) -> Stats {
        self.0.stats()
    }

    fn is_free(&self, frame: FrameId, order: Order) -> bool {
        self.0.is_free(frame, order)
    }

    fn free_map(&self, frame: FrameId) -> u64 {
        self.0.free_map(frame)
    }

    fn free_in_huge(&self, huge: HugeId) -> usize {
        self.0.free_in_huge(huge)
    }
}
