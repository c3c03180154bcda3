//! The engine of a pool: its own, or one that lies in memory which several processes share.

use std::ops::Range;

use woodlot_frame::{
    AllocError, Base4K, Batch, FrameAllocator, FrameId, FreeBatchError, FreeError, HugeId,
    OfflineError, Order, Owned, RangeRequest, Request, Slot, Stats,
};
use woodlot_llfree::LLFree;

use crate::locks::{Held, Part};
use crate::shared::Common;

pub(crate) type Zone = LLFree<'static, Base4K>;

/// Is a huge frame taken out of use?
pub(crate) fn is_offline(zone: &Zone, huge: HugeId) -> bool {
    let refused = zone.can_free(huge.first::<Base4K>(), Order::huge::<Base4K>(), Slot(0));
    matches!(refused, Err(FreeError::Offline(_)))
}

/// What hands out the frames.
pub(crate) enum Engine {
    /// Of one process.
    Own(Owned<Zone>),
    /// Of several. Each call tags its frames with the member that this process is.
    Common(Common),
}

/// The same call of whichever engine it is. That of processes is not inlined, so that it costs the other one nothing.
macro_rules! either {
    ($engine:expr, $one:ident => $call:expr) => {
        match $engine {
            Engine::Own($one) => $call,
            Engine::Common(common) => common.with(move |$one| $call),
        }
    };
}

impl Engine {
    #[inline(always)]
    pub(crate) fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        // Word by word, as `Tagged` does.
        let Request { order, class, slot, place } = request;
        either!(self, engine => engine.alloc(Request { order, class, slot, place }))
    }

    pub(crate) fn alloc_batch(
        &self,
        request: Request,
        batch: Batch,
        out: &mut [FrameId],
    ) -> Result<usize, AllocError> {
        either!(self, engine => engine.alloc_batch(request, batch, out))
    }

    pub(crate) fn alloc_range(&self, request: RangeRequest) -> Result<Range<FrameId>, AllocError> {
        either!(self, engine => engine.alloc_range(request))
    }

    #[inline(always)]
    pub(crate) fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        either!(self, engine => engine.free(frame, order, slot))
    }

    pub(crate) fn free_batch(
        &self,
        blocks: &[FrameId],
        order: Order,
        slot: Slot,
    ) -> Result<(), FreeBatchError> {
        either!(self, engine => engine.free_batch(blocks, order, slot))
    }

    pub(crate) fn free_range(&self, frames: Range<FrameId>, slot: Slot) -> Result<(), FreeError> {
        either!(self, engine => engine.free_range(frames, slot))
    }

    /// Makes a block this process's own that is allocated.
    ///
    /// # Errors
    /// It is not.
    pub(crate) fn adopt(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        either!(self, engine => engine.can_free(frame, order, slot))?;
        match self {
            Engine::Common(common)
                if !common.tagged().adopt(frame..FrameId(frame.0 + order.frames())) =>
            {
                Err(FreeError::NotAllocated(frame))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn offline(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        self.zone().offline(first, count)
    }

    pub(crate) fn online(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        self.zone().online(first, count)
    }

    pub(crate) fn is_offline(&self, huge: HugeId) -> bool {
        is_offline(self.zone(), huge)
    }

    pub(crate) fn free_in_huge(&self, huge: HugeId) -> usize {
        self.zone().free_in_huge(huge)
    }

    pub(crate) fn free_frames(&self) -> usize {
        self.zone().free_frames()
    }

    pub(crate) fn stats(&self) -> Stats {
        self.zone().stats()
    }

    /// The engine without tags: for all that neither allocates nor frees.
    pub(crate) fn zone(&self) -> &Zone {
        match self {
            Engine::Own(zone) => zone,
            Engine::Common(common) => common.zone(),
        }
    }

    /// Is it one that other processes may have changed since this one looked last?
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Engine::Common(_))
    }

    /// Waits until no other process moves memory.
    pub(crate) fn traffic(&self) -> Held<'_> {
        match self {
            Engine::Own(_) => Held::nothing(),
            Engine::Common(common) => common.locks().take(Part::Traffic),
        }
    }

    /// The same, or nothing if one does.
    pub(crate) fn try_traffic(&self) -> Option<Held<'_>> {
        match self {
            Engine::Own(_) => Some(Held::nothing()),
            Engine::Common(common) => common.locks().try_take(Part::Traffic),
        }
    }

    /// Frees what members had that are dead; returns how many frames. Nothing in a pool of one process.
    pub(crate) fn reap(&self, slot: Slot) -> Option<usize> {
        match self {
            Engine::Own(_) => None,
            Engine::Common(common) => Some(common.reap(slot)),
        }
    }
}
