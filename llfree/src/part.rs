//! The allocator as a batch or a run calls it: what is written is a part of the operation that the slot's record has
//! open. A call that stands alone need not look for one.

use woodlot_frame::{
    AllocError, FrameAllocator, FrameId, FreeError, Geometry, Order, Persistence, Place, Request,
    Slot, Unsupported, alloc_within, forward,
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

    forward!(0: zone, can_free, drain, offline, online);
    forward!(0: isolate, unisolate, claim_isolated, is_isolated, frames_in_use, used_map);
    forward!(0: is_available, free_frames, stats, is_free, free_map, free_in_huge);
}
