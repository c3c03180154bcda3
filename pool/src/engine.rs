//! The zone of a pool: of one of two engines, or one that lies in memory which several processes share.

use std::ops::Range;

use woodlot_frame::{
    AllocError, BadSlot, Base4K, Batch, Claim, FrameAllocator, FrameId, FreeBatchError, FreeError,
    HugeId, Init, InitError, IsolateError, OfflineError, Order, Owned, RangeRequest, Request, Slot,
    Stats, Unsupported, ZoneConfig,
};
use woodlot_llfree::LLFree;
use woodlot_onewrite::OneWrite;

use crate::locks::{Held, Part};
use crate::options::Engine;
use crate::shared::Common;

/// What hands out the frames.
pub(crate) enum Zone {
    /// Of one process.
    LLFree(Owned<LLFree<'static, Base4K>>),
    /// The same.
    OneWrite(Owned<OneWrite<'static, Base4K>>),
    /// Of several. Each call tags its frames with the member that this process is.
    Common(Common),
}

/// The same call of whichever zone it is. That of processes is not inlined, so that it costs the others nothing.
macro_rules! each {
    ($zone:expr, $one:ident => $call:expr) => {
        match $zone {
            Zone::LLFree($one) => $call,
            Zone::OneWrite($one) => $call,
            Zone::Common(common) => common.with(move |$one| $call),
        }
    };
}

/// Methods that are those of whichever zone it is.
macro_rules! methods {
    ($(fn $method:ident(&self $(, $name:ident: $type:ty)*) -> $answer:ty;)+) => {
        $(fn $method(&self $(, $name: $type)*) -> $answer {
            each!(self, zone => zone.$method($($name),*))
        })+
    };
}

impl FrameAllocator for Zone {
    type Geometry = Base4K;

    const NAME: &'static str = "pool";

    const UNSUPPORTED: Unsupported = LLFree::<Base4K>::UNSUPPORTED;

    fn zone(&self) -> &ZoneConfig {
        match self {
            Zone::LLFree(zone) => zone.zone(),
            Zone::OneWrite(zone) => zone.zone(),
            Zone::Common(common) => common.zone().zone(),
        }
    }

    #[inline(always)]
    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        // Word by word, as `Tagged` does.
        let Request { order, class, slot, place } = request;
        each!(self, zone => zone.alloc(Request { order, class, slot, place }))
    }

    #[inline(always)]
    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        each!(self, zone => zone.free(frame, order, slot))
    }

    methods! {
        fn alloc_batch(&self, request: Request, batch: Batch, out: &mut [FrameId]) -> Result<usize, AllocError>;
        fn free_batch(&self, blocks: &[FrameId], order: Order, slot: Slot) -> Result<(), FreeBatchError>;
        fn alloc_range(&self, request: RangeRequest) -> Result<Range<FrameId>, AllocError>;
        fn free_range(&self, frames: Range<FrameId>, slot: Slot) -> Result<(), FreeError>;
        fn can_free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError>;
        fn drain(&self, slot: Slot) -> Result<(), BadSlot>;
        fn offline(&self, first: HugeId, count: usize) -> Result<(), OfflineError>;
        fn online(&self, first: HugeId, count: usize) -> Result<(), OfflineError>;
        fn isolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError>;
        fn unisolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError>;
        fn claim_isolated(&self, first: HugeId, count: usize, claim: Claim) -> Result<(), IsolateError>;
        fn is_isolated(&self, huge: HugeId) -> bool;
        fn frames_in_use(&self, huge: HugeId) -> usize;
        fn used_map(&self, frame: FrameId) -> u64;
        fn is_available(&self, order: Order) -> bool;
        fn free_frames(&self) -> usize;
        fn stats(&self) -> Stats;
        fn is_free(&self, frame: FrameId, order: Order) -> bool;
        fn free_map(&self, frame: FrameId) -> u64;
        fn free_in_huge(&self, huge: HugeId) -> usize;
    }
}

impl Zone {
    /// A zone of this process alone, all of it free.
    ///
    /// # Errors
    /// As [`Owned::new`].
    pub(crate) fn new(engine: Engine, config: &ZoneConfig) -> Result<Zone, InitError> {
        match engine {
            Engine::LLFree => Owned::new(config, Init::Free).map(Zone::LLFree),
            Engine::OneWrite => Owned::new(config, Init::Free).map(Zone::OneWrite),
        }
    }

    pub(crate) fn engine(&self) -> Engine {
        match self {
            Zone::LLFree(_) | Zone::Common(_) => Engine::LLFree,
            Zone::OneWrite(_) => Engine::OneWrite,
        }
    }

    /// Makes a block this process's own that is allocated.
    ///
    /// # Errors
    /// It is not.
    pub(crate) fn adopt(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        self.can_free(frame, order, slot)?;
        match self {
            Zone::Common(common)
                if !common.tagged().adopt(frame..FrameId(frame.0 + order.frames())) =>
            {
                Err(FreeError::NotAllocated(frame))
            }
            _ => Ok(()),
        }
    }

    /// Is it one that other processes may have changed since this one looked last?
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Zone::Common(_))
    }

    /// Waits until no other process moves memory.
    pub(crate) fn traffic(&self) -> Held<'_> {
        match self {
            Zone::LLFree(_) | Zone::OneWrite(_) => Held::nothing(),
            Zone::Common(common) => common.locks().take(Part::Traffic),
        }
    }

    /// The same, or nothing if one does.
    pub(crate) fn try_traffic(&self) -> Option<Held<'_>> {
        match self {
            Zone::LLFree(_) | Zone::OneWrite(_) => Some(Held::nothing()),
            Zone::Common(common) => common.locks().try_take(Part::Traffic),
        }
    }

    /// Frees what members had that are dead; returns how many frames. Nothing in a pool of one process.
    pub(crate) fn reap(&self, slot: Slot) -> Option<usize> {
        match self {
            Zone::LLFree(_) | Zone::OneWrite(_) => None,
            Zone::Common(common) => Some(common.reap(slot)),
        }
    }
}
