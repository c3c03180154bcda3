//! What is free where, counted block by block under the zone lock.

use woodlot_frame::{ClassStats, FrameId, Geometry, HugeId, MAX_CLASSES, Order, Stats};

use super::Linux;
use super::state;

impl<G: Geometry, const PCP: bool> Linux<G, PCP> {
    /// Free frames from `frame` to `end`, both in the zone.
    fn free_between(&self, frame: usize, end: usize) -> usize {
        let (mut at, end) = ((frame - self.base) as u32, (end - self.base) as u32);
        let mut free = 0;
        while at < end {
            let Some((head, state)) = self.block_of(at) else { return free };
            let next = end.min(head + (1 << state::order(state)));
            if state::is_free(state) {
                free += (next - at) as usize;
            }
            at = next;
        }
        free
    }

    pub(super) fn count_huge(&self, huge: HugeId) -> usize {
        let last = (self.zone.end().0 - 1) >> G::HUGE_ORDER;
        if !(self.zone.start.0 >> G::HUGE_ORDER..=last).contains(&huge.0) {
            return 0;
        }
        let _held = self.central.lock.lock();
        self.free_in(huge)
    }

    /// Free frames of the part of a huge frame that lies in the zone.
    fn free_in(&self, huge: HugeId) -> usize {
        let first = huge.0 << G::HUGE_ORDER;
        let end = first.saturating_add(G::HUGE_FRAMES).min(self.zone.end().0);
        self.free_between(first.max(self.zone.start.0), end)
    }

    pub(super) fn count_all(&self) -> Stats {
        let (start, last) = (self.zone.start.0, self.zone.end().0 - 1);
        let whole = self.zone.huge_range::<G>();
        let mut all = ClassStats {
            trees: last / G::TREE_FRAMES - start / G::TREE_FRAMES + 1,
            ..ClassStats::default()
        };
        let _held = self.central.lock.lock();
        for huge in (start >> G::HUGE_ORDER..=last >> G::HUGE_ORDER).map(HugeId) {
            let free = self.free_in(huge);
            all.free_frames += free;
            all.free_huge += usize::from(whole.contains(&huge) && free == G::HUGE_FRAMES);
        }
        let (free_frames, free_huge) = (all.free_frames, all.free_huge);
        let mut stats = Stats { free_frames, free_huge, ..Stats::default() };
        stats.classes[0] = all;
        stats
    }

    /// Is something true of the state of every block that has frames of this one, a block of the zone?
    pub(super) fn all_are(&self, frame: FrameId, order: Order, is: impl Fn(u32) -> bool) -> bool {
        let _held = self.central.lock.lock();
        let mut at = self.page(frame);
        let end = at + (1 << order.0);
        while at < end {
            match self.block_of(at) {
                Some((head, state)) if is(state) => {
                    at = head + (1 << state::order(state));
                }
                _ => return false,
            }
        }
        true
    }

    /// Has some buddy list a block of `order` or more?
    fn has_block(&self, order: u32) -> bool {
        let lists = self.list(order, 0)..self.list(G::MAX_ORDER, MAX_CLASSES as u32);
        lists.into_iter().any(|list| !self.pages.is_empty(list))
    }

    /// Near-constant time, unless only the slots' lists can make up a block: those are then drained
    /// to see.
    pub(super) fn has_free(&self, order: u32) -> bool {
        if self.has_block(order) {
            return true;
        }
        let listed = self.listed();
        if order == 0 || listed == 0 {
            return listed > 0;
        }
        self.drain_all();
        self.has_block(order)
    }

    /// Frames in the lists of all slots.
    pub(super) fn listed(&self) -> usize {
        (0..self.zone.slots).map(|slot| self.slot(slot).frames::<G>()).sum()
    }
}
