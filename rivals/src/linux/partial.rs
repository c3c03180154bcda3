//! Frees of what was not allocated as one block: in parts (`split_page`), or several together.
//!
//! Rare, and under the zone lock, because block boundaries change. The frees that race with this
//! one hold no lock when they claim their block, so each block is claimed here as they do it: by a
//! compare-exchange of its state.

use woodlot_frame::Geometry;
use woodlot_frame::atomics::Ordering::{AcqRel, Relaxed};

use super::Linux;
use super::state::{self, ALLOCATED, JOINING, LISTED, NONE};
use crate::lock::Held;

impl<G: Geometry, const PCP: bool> Linux<G, PCP> {
    /// Frees the aligned block of `order` at `page`, whichever blocks its frames belong to; false
    /// where some frame of it is free.
    #[cold]
    #[inline(never)]
    pub(super) fn free_anyhow(&self, page: u32, order: u32) -> bool {
        let held = self.central.lock.lock();
        let Some((head, state)) = self.block_of(page) else { return false };
        let claimed = match state::order(state) {
            large if large > order => self.split(head, page, order, &held),
            _ => self.join(page, order, &held),
        };
        if claimed {
            self.merge(page, order, self.class_of(page), &held);
            self.count(1 << order, &held);
        }
        claimed
    }

    /// The block that a page lies in: its first page and state. `None` for a page outside the zone.
    pub(super) fn block_of(&self, page: u32) -> Option<(u32, u32)> {
        (0..=G::MAX_ORDER).find_map(|order| {
            let head = page & !((1 << order) - 1);
            let state = self.pages.at(head).state();
            let covers = state != NONE && head + (1 << state::order(state)) > page;
            covers.then_some((head, state))
        })
    }

    /// Claims a block; false where somebody else has freed it.
    fn claim(&self, page: u32, from: u32, to: u32) -> bool {
        state::kind(from) == ALLOCATED
            && self.pages.at(page).state.compare_exchange(from, to, AcqRel, Relaxed).is_ok()
    }

    /// Cuts the block at `head` so that `page` begins one of `order`, and claims that.
    fn split(&self, head: u32, page: u32, order: u32, _: &Held<'_>) -> bool {
        let whole = self.pages.at(head).state();
        let (large, class) = (state::order(whole), state::class(whole));
        // From now on the block at `head` is as small as it will be.
        let left = if head == page { order } else { (page - head).ilog2() };
        let first = match head == page {
            true => LISTED | order,
            false => state::allocated(left, class),
        };
        if !self.claim(head, whole, first) {
            return false;
        }
        let mut cut = head;
        for half in (order..large).rev() {
            let upper = cut + (1 << half);
            let rest = if page >= upper { std::mem::replace(&mut cut, upper) } else { upper };
            if rest != head {
                self.pages.at(rest).set_state(state::allocated(half, class));
            }
        }
        self.pages.at(page).set_state(LISTED | order);
        true
    }

    /// Claims all blocks from `page` on that make up a block of `order`, as one; all or none.
    fn join(&self, page: u32, order: u32, _: &Held<'_>) -> bool {
        let end = page + (1 << order);
        let mut reached = page;
        while reached < end {
            let state = self.pages.at(reached).state();
            if !self.claim(reached, state, state::with_kind(state, JOINING)) {
                break;
            }
            reached += 1 << state::order(state);
        }
        let joined = reached == end;
        let mut at = page;
        while at < reached {
            let state = self.pages.at(at).state();
            let to = if joined { NONE } else { state::with_kind(state, ALLOCATED) };
            self.pages.at(at).set_state(to);
            at += 1 << state::order(state);
        }
        if joined {
            self.pages.at(page).set_state(LISTED | order);
        }
        joined
    }
}
