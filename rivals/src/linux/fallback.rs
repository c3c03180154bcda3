//! When a class has no block: stealing from others (`__rmqueue_fallback`).
//!
//! The largest block of another class is taken, so that stealing is rare; small blocks of movable
//! memory, which can be moved away again, are the exception. With a large enough block, or for
//! memory that cannot be moved, the free rest of the pageblock comes along, and the pageblock
//! changes its class if half of it is then free or of the same kind.
//!
//! Everything here runs under the zone lock.

use woodlot_frame::atomics::Ordering::Relaxed;
use woodlot_frame::{Class, Geometry};

use super::Linux;
use super::state::{self, ALLOCATED, FREE};
use crate::lock::Held;

const MOVABLE: u32 = Class::MOVABLE.0 as u32;

impl<G: Geometry, const PCP: bool> Linux<G, PCP> {
    /// Moves a block of `order` or more to the lists of `class`; false where no class has one.
    pub(super) fn steal(&self, order: u32, class: u32, held: &Held<'_>) -> bool {
        let mut largest = (order..=G::MAX_ORDER).rev();
        let found = largest.find_map(|large| Some((large, self.victim(large, class)?)));
        let Some((large, from)) = found else { return false };
        let whole = Self::takes_pageblock(large, class);
        let (large, from) = match !whole && class == MOVABLE && large > order {
            true => (order..large)
                .find_map(|small| Some((small, self.victim(small, class)?)))
                .unwrap_or((large, from)),
            false => (large, from),
        };
        let page = self.pages.at(self.list(large, from)).next();
        self.steal_block(page, large, class, whole, held);
        true
    }

    /// The first class in `class`'s turn that has a block of this order.
    fn victim(&self, order: u32, class: u32) -> Option<u32> {
        let turns = self.turns[class as usize].iter().take(self.zone.classes.count());
        let others = turns.map(|&other| u32::from(other)).filter(|&other| other != class);
        others.into_iter().find(|&other| !self.pages.is_empty(self.list(order, other)))
    }

    /// `can_steal_fallback`: what cannot be moved takes the pageblock whatever the block's size.
    fn takes_pageblock(order: u32, class: u32) -> bool {
        order >= G::HUGE_ORDER / 2 || class != MOVABLE
    }

    /// `steal_suitable_fallback`.
    fn steal_block(&self, page: u32, order: u32, class: u32, whole: bool, held: &Held<'_>) {
        if order >= G::HUGE_ORDER {
            for n in 0..1 << (order - G::HUGE_ORDER) {
                self.pageblock(page + (n << G::HUGE_ORDER)).store(class, Relaxed);
            }
        } else if whole {
            let block = page & !(G::HUGE_FRAMES as u32 - 1);
            let (free, alike) = self.move_pageblock(block, class, held);
            if free + alike >= G::HUGE_FRAMES as u32 / 2 {
                self.pageblock(page).store(class, Relaxed);
            }
            return;
        }
        self.move_block(page, order, class);
    }

    fn move_block(&self, page: u32, order: u32, class: u32) {
        self.pages.remove(page);
        self.pages.push_front(self.list(order, class), page);
    }

    /// Moves all free blocks of a pageblock to the lists of `class`; says how many frames those
    /// have, and how many are allocated to what suits the class (`move_freepages_block`).
    fn move_pageblock(&self, block: u32, class: u32, _: &Held<'_>) -> (u32, u32) {
        let (mut free, mut alike) = (0, 0);
        let mut page = block;
        while page < block + G::HUGE_FRAMES as u32 {
            let state = self.pages.at(page).state();
            let order = state::order(state);
            match state::kind(state) {
                FREE => {
                    self.move_block(page, order, class);
                    free += 1 << order;
                }
                ALLOCATED if (state::class(state) == MOVABLE) == (class == MOVABLE) => {
                    alike += 1 << order;
                }
                _ => {}
            }
            page += 1 << order;
        }
        (free, alike)
    }
}
