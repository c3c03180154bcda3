//! The allocator's contract: `alloc` and `free` from the caller's side.

use woodlot_frame::atomics::Ordering::{AcqRel, Relaxed};
use woodlot_frame::{
    AllocError, BadSlot, FrameAllocator, FrameId, FreeError, Geometry, HugeId, OfflineError, Order,
    Request, Slot, Stats, Unsupported, ZoneConfig,
};

use super::Linux;
use super::state::{self, ALLOCATED, LISTED};
use crate::config::{check_free, check_request, is_block};

impl<G: Geometry, const PCP: bool> Linux<G, PCP> {
    /// From the buddy lists, behind the zone lock (`rmqueue_buddy`).
    #[inline]
    fn alloc_from_zone(&self, order: u32, class: u32) -> Option<u32> {
        let held = self.central.lock.lock();
        let page = self.take(order, class, &held)?;
        self.count(-(1 << order), &held);
        self.pages.at(page).set_state(state::allocated(order, class));
        Some(page)
    }

    /// Where the slot's list had nothing (`__alloc_pages_slowpath`: lists are drained, then it is
    /// tried again).
    #[cold]
    #[inline(never)]
    fn alloc_slow(&self, order: u32, class: u32) -> Result<FrameId, AllocError> {
        let page = self.alloc_from_zone(order, class).or_else(|| {
            if self.listed() == 0 {
                return None;
            }
            self.drain_all();
            self.alloc_from_zone(order, class)
        });
        page.map(|page| self.frame(page)).ok_or(AllocError::OutOfMemory)
    }

    /// To the buddy lists, behind the zone lock.
    fn free_to_zone(&self, page: u32, order: u32) {
        let held = self.central.lock.lock();
        self.merge(page, order, self.class_of(page), &held);
        self.count(1 << order, &held);
    }
}

impl<G: Geometry, const PCP: bool> FrameAllocator for Linux<G, PCP> {
    type Geometry = G;

    const NAME: &'static str = if PCP { "LinuxBuddy" } else { "LinuxBuddyNoPcp" };

    const UNSUPPORTED: Unsupported = Unsupported {
        exact_frame: true,
        partial_free: false,
        classes: true,
        offline: true,
        isolation: true,
        recovery: true,
        exact_exhaustion: false,
    };

    fn zone(&self) -> &ZoneConfig {
        &self.zone
    }

    #[inline]
    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        check_request::<G>(&self.zone, &request)?;
        let (order, class) = (u32::from(request.order.0), u32::from(request.class.0));
        let page = if Self::has_lists(order) {
            let page = self.pop(order, class, request.slot.0);
            page.inspect(|&page| self.pages.at(page).set_state(state::allocated(order, class)))
        } else {
            self.alloc_from_zone(order, class)
        };
        match page {
            Some(page) => Ok(self.frame(page)),
            None => self.alloc_slow(order, class),
        }
    }

    #[inline]
    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        check_free::<G>(&self.zone, frame, order, slot)?;
        let (page, order) = (self.page(frame), u32::from(order.0));
        let state = &self.pages.at(page).state;
        let was = state.load(Relaxed);
        // One of two racing frees gets the block: Linux's `put_page_testzero`.
        let claimed = state::is_allocated(was, order)
            && state.compare_exchange(was, LISTED | order, AcqRel, Relaxed).is_ok();
        if !claimed {
            return match self.free_anyhow(page, order) {
                true => Ok(()),
                false => Err(FreeError::NotAllocated(frame)),
            };
        }
        if !(Self::has_lists(order) && self.push(page, order, slot.0)) {
            self.free_to_zone(page, order);
        }
        Ok(())
    }

    fn can_free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        check_free::<G>(&self.zone, frame, order, slot)?;
        let allocated = self.all_are(frame, order, |state| state::kind(state) == ALLOCATED);
        if allocated { Ok(()) } else { Err(FreeError::NotAllocated(frame)) }
    }

    fn drain(&self, slot: Slot) -> Result<(), BadSlot> {
        if slot.0 >= self.zone.slots {
            return Err(BadSlot(slot));
        }
        self.drain_slot(slot.0);
        Ok(())
    }

    fn offline(&self, _: HugeId, _: usize) -> Result<(), OfflineError> {
        Err(OfflineError::Unsupported)
    }

    fn online(&self, _: HugeId, _: usize) -> Result<(), OfflineError> {
        Err(OfflineError::Unsupported)
    }

    fn is_available(&self, order: Order) -> bool {
        u32::from(order.0) <= G::MAX_ORDER && self.has_free(order.0.into())
    }

    fn free_frames(&self) -> usize {
        self.central.free.load(Relaxed) as usize + self.listed()
    }

    fn stats(&self) -> Stats {
        self.count_all()
    }

    fn is_free(&self, frame: FrameId, order: Order) -> bool {
        is_block::<G>(&self.zone, frame, order) && self.all_are(frame, order, state::is_free)
    }

    fn free_in_huge(&self, huge: HugeId) -> usize {
        self.count_huge(huge)
    }
}
