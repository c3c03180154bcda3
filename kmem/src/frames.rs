//! The frames of a zone, as this allocator asks for them.

use woodlot_frame::{Batch, Class, FrameAllocator, FrameId, Geometry, Order, Request, Slot};

use crate::pages::NoPages;
use crate::size::PAGE;

/// Frames that are asked for, or given back, at a time.
pub(crate) const BATCH: usize = 32;

/// A zone of frames of 4 KiB, all of which are asked for in one class: immovable, where the zone has it.
pub(crate) struct Frames<'a, A> {
    zone: &'a A,
    class: Class,
}

impl<'a, A: FrameAllocator> Frames<'a, A> {
    /// `None`, if the frames are not of 4 KiB.
    pub(crate) fn new(zone: &'a A) -> Option<Frames<'a, A>> {
        let has = zone.classes().has(Class::IMMOVABLE);
        let class = if has { Class::IMMOVABLE } else { Class::MOVABLE };
        (A::Geometry::BASE_BYTES == PAGE).then_some(Frames { zone, class })
    }

    pub(crate) fn zone(&self) -> &'a A {
        self.zone
    }

    pub(crate) fn class(&self) -> Class {
        self.class
    }

    /// The slot of a CPU.
    pub(crate) fn slot(&self, cpu: usize) -> Slot {
        let slots = self.zone.zone().slots;
        // Most machines have a slot for each CPU. Others share the first 2^n, so that no division is made.
        let shared = cpu & ((1 << slots.checked_ilog2().unwrap_or(0)) - 1);
        Slot(if cpu < slots { cpu } else { shared })
    }

    /// Takes up to as many frames as there is room for, anywhere in the zone. Returns those that it took, at least one.
    pub(crate) fn take<'b>(
        &self,
        room: &'b mut [FrameId],
        cpu: usize,
    ) -> Result<&'b [FrameId], NoPages> {
        let request = Request::new(Order::BASE, self.class, self.slot(cpu));
        let count = self.zone.alloc_batch(request, Batch::UpTo, room).map_err(|_| NoPages)?;
        room.get(..count).ok_or(NoPages)
    }

    /// Gives frames back that were taken.
    pub(crate) fn give(&self, frames: &[FrameId], cpu: usize) {
        let freed = self.zone.free_batch(frames, Order::BASE, self.slot(cpu));
        debug_assert!(freed.is_ok(), "{freed:?}: they were taken");
    }
}
