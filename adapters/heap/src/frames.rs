//! Allocations of whole frames.

use core::alloc::Layout;

use woodlot_frame::{
    AllocError, Class, FrameAllocator, FrameId, Geometry, Order, RangeRequest, Request, Slot,
};

/// A run of frames, aligned to a block of an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    pub frames: usize,
    align: Order,
}

impl Run {
    /// The frames for a layout. An engine that takes no parts of a block back hands out the whole block.
    pub fn of<A: FrameAllocator>(layout: Layout) -> Run {
        let align = Order::containing(layout.align() >> A::Geometry::BASE_SHIFT);
        let frames = layout.size().div_ceil(A::Geometry::BASE_BYTES).max(1);
        let block = Order::containing(frames).max(align);
        match A::UNSUPPORTED.partial_free && block <= Order::max::<A::Geometry>() {
            true => Run { frames: block.frames(), align },
            false => Run { frames, align },
        }
    }

    /// Allocates the run: the smallest block that has room, whose rest is given back; or, if there is no such
    /// block, any frames that lie together.
    pub fn alloc<A: FrameAllocator>(self, zone: &A, class: Class, slot: Slot) -> Option<FrameId> {
        let order = Order::containing(self.frames).max(self.align);
        match zone.alloc(Request::new(order, class, slot)) {
            Ok(block) => {
                let end = |frames| block.checked_add(frames).unwrap_or(block);
                // The rest is this call's own, so the free succeeds.
                let _ = zone.free_range(end(self.frames)..end(order.frames()), slot);
                Some(block)
            }
            // The block was all that could be had.
            Err(AllocError::OutOfMemory)
                if self.frames == order.frames() && self.align == order =>
            {
                None
            }
            Err(_) => {
                let request = RangeRequest::new(self.frames, class, slot);
                zone.alloc_range(request.aligned(self.align)).ok().map(|run| run.start)
            }
        }
    }

    /// Frees the run at `frame`.
    pub fn free<A: FrameAllocator>(self, zone: &A, frame: FrameId, slot: Slot) {
        // The run was handed out, so the free succeeds.
        let _ = zone.free_range(frame..FrameId(frame.0.saturating_add(self.frames)), slot);
    }
}
