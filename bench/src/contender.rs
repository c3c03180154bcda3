//! What the benchmark's loops call.
//!
//! ```text
//!   loop ──► Contender ──► Contract<A> ──► any FrameAllocator         (inlines to nothing)
//!                     └──► registry::*                                 (their own interfaces)
//! ```

use std::hint::black_box;

use woodlot_frame::{
    Base4K, Batch, Construct, FrameAllocator, FrameId, Init, Order, Owned, Request, Slot,
    ZoneConfig,
};

use crate::Failure;
use crate::output::available_bytes;

/// As much of an allocator as the loops need. Every method is `#[inline]` in every implementation.
pub trait Contender: Send + Sync + Sized {
    /// A zone of `frames` free frames from frame 0, used through `slots` slots.
    ///
    /// # Errors
    /// Why this contender cannot manage it.
    fn new(frames: usize, slots: usize) -> Result<Self, Failure>;

    /// Allocates a block of movable frames.
    fn alloc(&self, order: Order, slot: Slot) -> Option<FrameId>;

    /// Frees a block; false where that was refused.
    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> bool;

    /// Allocates as many blocks as `out` holds; false where they are not to be had.
    #[inline]
    fn alloc_batch(&self, order: Order, slot: Slot, out: &mut [FrameId]) -> bool {
        for block in out {
            match self.alloc(order, slot) {
                Some(frame) => *block = frame,
                None => return false,
            }
        }
        true
    }

    /// Frees several blocks; false where one was refused.
    #[inline]
    fn free_batch(&self, frames: &[FrameId], order: Order, slot: Slot) -> bool {
        frames.iter().all(|&frame| self.free(frame, order, slot))
    }
}

/// Any engine that keeps the contract.
pub struct Contract<A>(pub Owned<A>);

impl<A: Construct + FrameAllocator<Geometry = Base4K> + Send> Contender for Contract<A> {
    fn new(frames: usize, slots: usize) -> Result<Self, Failure> {
        let config = ZoneConfig::new(frames, slots);
        fits::<A>(&config)?;
        let zone = Owned::<A>::new(&config, Init::Free);
        let failed = |error| Failure::Failed(format!("{}: {error}", A::NAME));
        let mut zone = zone.map_err(failed)?;
        // Initialising need not have written to every page of the durable part (it does to the
        // volatile one, in all engines): the first write would then be a page fault.
        zone.edit_durable(|bytes| {
            black_box(bytes);
        });
        Ok(Self(zone))
    }

    #[inline(always)]
    fn alloc(&self, order: Order, slot: Slot) -> Option<FrameId> {
        self.0.alloc(Request::movable(order, slot)).ok()
    }

    #[inline(always)]
    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> bool {
        self.0.free(frame, order, slot).is_ok()
    }

    #[inline(always)]
    fn alloc_batch(&self, order: Order, slot: Slot, out: &mut [FrameId]) -> bool {
        self.0.alloc_batch(Request::movable(order, slot), Batch::All, out).is_ok()
    }

    #[inline(always)]
    fn free_batch(&self, frames: &[FrameId], order: Order, slot: Slot) -> bool {
        self.0.free_batch(frames, order, slot).is_ok()
    }
}

/// Does the machine have the memory for the metadata of such a zone?
///
/// # Errors
/// How much is missing, or what is wrong with the zone.
pub fn fits<A: Construct>(config: &ZoneConfig) -> Result<(), Failure> {
    let failed = |cause: String| Failure::Failed(format!("{}: {cause}", A::NAME));
    let size = A::metadata_size(config).map_err(|error| failed(error.to_string()))?;
    let needed = size.durable.saturating_add(size.volatile);
    match available_bytes() {
        Some(available) if needed > available => Err(failed(format!(
            "needs {} MiB of metadata for this zone and {} MiB are available",
            needed >> 20,
            available >> 20
        ))),
        _ => Ok(()),
    }
}
