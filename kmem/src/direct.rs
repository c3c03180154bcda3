//! Pages of a zone whose frames lie in one range of addresses: a kernel's direct map, or one mapping of a process.
//!
//! ```text
//!   descriptors   │ 16 bytes for each frame of the zone            │  memory of the caller
//!   frames        │ first │ … │ … │ … │                               address = base + number × 4096
//! ```
//!
//! The frame allocator coalesces here: a page is a frame, a span is a block or a run of frames, and what is freed can be
//! had by anybody at once. So the fourth layer of the paper needs no code of its own where addresses are frames.
//!
//! *Progress*: as the frame allocator's.

use core::ptr::NonNull;

use woodlot_frame::{FrameAllocator, FrameId, Order, RangeRequest, Request, Slot};

use crate::frames::{BATCH, Frames};
use crate::page::{Descriptor, PageId};
use crate::pages::{NoPages, Pages};
use crate::size::PAGE;

/// Pages that are the frames of a zone.
pub struct Direct<'a, A> {
    frames: Frames<'a, A>,
    base: NonNull<u8>,
    descriptors: &'a [Descriptor],
}

// SAFETY: the zone may be shared, descriptors are atomics, and the base is an address.
unsafe impl<A: Sync> Sync for Direct<'_, A> {}
// SAFETY: as above.
unsafe impl<A: Sync> Send for Direct<'_, A> {}

impl<'a, A: FrameAllocator> Direct<'a, A> {
    /// Pages from a zone of frames of 4 KiB, with a descriptor for each frame. All are of one class: immovable, where the
    /// zone has it. `None`, if there are fewer descriptors than frames, more frames than 2^32 - 2, or the frames are not
    /// of 4 KiB.
    ///
    /// # Safety
    /// * The zone's first frame is mapped at `base`, a multiple of 4096, and the others follow it, readable and
    ///   writable for `'a`.
    /// * Nobody else uses memory that the zone hands to this.
    pub unsafe fn new(
        zone: &'a A,
        base: NonNull<u8>,
        descriptors: &'a [Descriptor],
    ) -> Option<Direct<'a, A>> {
        let count = zone.zone().frames;
        let fits = descriptors.len() >= count && count < u32::MAX as usize;
        let frames = Frames::new(zone)?;
        fits.then_some(Direct { frames, base, descriptors })
    }

    /// The frame allocator.
    pub fn zone(&self) -> &'a A {
        self.frames.zone()
    }

    fn page(&self, frame: FrameId) -> PageId {
        PageId((frame.0 - self.zone().zone().start.0) as u32)
    }

    fn frame(&self, page: PageId) -> FrameId {
        FrameId(self.zone().zone().start.0 + page.0 as usize)
    }

    /// A block of an order has room for them: what is behind them goes back.
    fn alloc_block(&self, order: Order, count: usize, slot: Slot) -> Result<PageId, NoPages> {
        let request = Request::new(order, self.frames.class(), slot);
        let block = self.zone().alloc(request).map_err(|_| NoPages)?;
        let behind = FrameId(block.0 + count)..FrameId(block.0 + order.frames());
        if !behind.is_empty() {
            // The frames are ours, so the free succeeds.
            let _ = self.zone().free_range(behind, slot);
        }
        Ok(self.page(block))
    }
}

// SAFETY: frames are handed out once until they are freed, and lie where the caller of `new` says. Their descriptors
// are `None` before the first use, and the caller of `free` leaves them so.
unsafe impl<A: FrameAllocator> Pages for Direct<'_, A> {
    fn alloc(&self, count: usize, align: usize, cpu: usize) -> Result<PageId, NoPages> {
        let slot = self.frames.slot(cpu);
        let align = align.max(PAGE);
        // Frames are aligned as numbers. Addresses are so too, as far as that of frame 0 is.
        let zero = self.base.as_ptr().addr().wrapping_sub(self.zone().zone().start.0 * PAGE);
        if zero & (align - 1) != 0 {
            return Err(NoPages);
        }
        let align = Order((align / PAGE).trailing_zeros() as u8);
        let order = Order::containing(count).max(align);
        let is_block = order.frames() == count;
        if order <= Order::max::<A::Geometry>() && (is_block || !A::UNSUPPORTED.partial_free) {
            let block = self.alloc_block(order, count, slot);
            // Blocks of an order stay in their places, so that no frames between them are of no use.
            if is_block || block.is_ok() {
                return block;
            }
        }
        // There may be a run of as many frames that no block of an order contains.
        let request = RangeRequest::new(count, self.frames.class(), slot).aligned(align);
        let run = self.zone().alloc_range(request).map_err(|_| NoPages)?;
        Ok(self.page(run.start))
    }

    unsafe fn free(&self, first: PageId, count: usize, cpu: usize) {
        let (slot, first) = (self.frames.slot(cpu), self.frame(first));
        let order = Order::containing(count);
        let fits = order <= Order::max::<A::Geometry>() && order.frames() == count;
        let freed = if fits && first.is_aligned(order) {
            self.zone().free(first, order, slot)
        } else {
            self.zone().free_range(first..FrameId(first.0 + count), slot)
        };
        debug_assert!(freed.is_ok(), "{freed:?}: they were handed out");
    }

    fn alloc_some(&self, room: &mut [PageId], cpu: usize) -> Result<usize, NoPages> {
        let mut frames = [FrameId(0); BATCH];
        let frames = frames.get_mut(..room.len().min(BATCH)).ok_or(NoPages)?;
        let frames = self.frames.take(frames, cpu)?;
        room.iter_mut().zip(frames).for_each(|(page, &frame)| *page = self.page(frame));
        Ok(frames.len())
    }

    unsafe fn free_some(&self, pages: &[PageId], cpu: usize) {
        let mut frames = [FrameId(0); BATCH];
        for pages in pages.chunks(BATCH) {
            frames.iter_mut().zip(pages).for_each(|(frame, &page)| *frame = self.frame(page));
            self.frames.give(frames.get(..pages.len()).unwrap_or(&[]), cpu);
        }
    }

    #[inline]
    fn address(&self, page: PageId) -> NonNull<u8> {
        // SAFETY: the page lies in the mapping that `base` begins.
        unsafe { self.base.add(page.0 as usize * PAGE) }
    }

    #[inline]
    fn find(&self, address: *mut u8) -> Option<(PageId, usize)> {
        let offset = address.addr().wrapping_sub(self.base.as_ptr().addr());
        let page = offset / PAGE;
        (page < self.descriptors.len()).then_some((PageId(page as u32), offset % PAGE))
    }

    #[inline]
    fn descriptor(&self, page: PageId) -> &Descriptor {
        // SAFETY: a page that was handed out or found is one of the zone, and there is a descriptor for each.
        unsafe { self.descriptors.get_unchecked(page.0 as usize) }
    }
}
