//! Free lists by order and class: split on the way out, merged on the way in.
//!
//! Everything here runs under the zone lock, as the `Held` shows.
//!
//! Tried and left out: prefetching the large block after the next one (no gain in bulk order 9:
//! unlinking a block writes to its successor, which fetches that line early enough).

use woodlot_frame::Geometry;
use woodlot_frame::atomics::Ordering::Relaxed;

use super::Linux;
use super::state::{FREE, NONE};
use crate::lock::Held;

impl<G: Geometry, const PCP: bool> Linux<G, PCP> {
    /// Takes a block of `order` off the lists, stealing from other classes if need be. The caller
    /// sets its state and counts it (`__rmqueue`).
    #[inline(always)]
    pub(super) fn take(&self, order: u32, class: u32, held: &Held<'_>) -> Option<u32> {
        match self.take_smallest(order, class, held) {
            Some(page) => Some(page),
            None => self.take_stolen(order, class, held),
        }
    }

    #[cold]
    fn take_stolen(&self, order: u32, class: u32, held: &Held<'_>) -> Option<u32> {
        while self.steal(order, class, held) {
            if let Some(page) = self.take_smallest(order, class, held) {
                return Some(page);
            }
        }
        None
    }

    /// The smallest block of the class that is large enough, cut to size (`__rmqueue_smallest`).
    #[inline]
    fn take_smallest(&self, order: u32, class: u32, held: &Held<'_>) -> Option<u32> {
        let mut list = self.list(order, class);
        for large in order..=G::MAX_ORDER {
            let page = self.pages.at(list).next();
            if page != list {
                self.pages.remove(page);
                self.expand(page, order, large, class, held);
                return Some(page);
            }
            list += super::MAX_CLASSES as u32;
        }
        None
    }

    /// Puts back all of a block but its first `order` (`expand`).
    #[inline]
    fn expand(&self, page: u32, order: u32, large: u32, class: u32, _: &Held<'_>) {
        for half in (order..large).rev() {
            let upper = page + (1 << half);
            self.pages.push_front(self.list(half, class), upper);
            self.pages.at(upper).set_state(FREE | half);
        }
    }

    /// Gives a block back, merged with its buddies as far as they are free (`__free_one_page`). The
    /// caller counts it.
    ///
    /// Its first page is in no list, and of any state; the pages behind it are `NONE`.
    #[inline]
    pub(super) fn merge(&self, page: u32, order: u32, class: u32, _: &Held<'_>) {
        let (mut page, mut large) = (page, order);
        while large < G::MAX_ORDER {
            let buddy = page ^ 1 << large;
            if self.pages.at(buddy).state() != FREE | large {
                break;
            }
            self.pages.remove(buddy);
            self.pages.at(page | buddy).set_state(NONE);
            page &= buddy;
            large += 1;
        }
        self.pages.at(page).set_state(FREE | large);
        let list = self.list(large, class);
        if self.may_merge_soon(page, large) {
            self.pages.push_back(list, page);
        } else {
            self.pages.push_front(list, page);
        }
    }

    /// Would the block, once its buddy is free, merge once more? Then it is better left alone for
    /// a while, and goes to the end of its list (`buddy_merge_likely`).
    #[inline(always)]
    fn may_merge_soon(&self, page: u32, order: u32) -> bool {
        if order + 1 >= G::MAX_ORDER {
            return false;
        }
        let merged = page & !(1 << order);
        self.pages.at(merged ^ 1 << (order + 1)).state() == FREE | (order + 1)
    }

    /// Counts frames that come (or, negative, go).
    #[inline(always)]
    pub(super) fn count(&self, frames: i64, _: &Held<'_>) {
        let free = &self.central.free;
        free.store(free.load(Relaxed).wrapping_add_signed(frames), Relaxed);
    }
}
