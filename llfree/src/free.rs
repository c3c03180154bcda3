//! Free: figure 14(b) of LLFree, from the bits up to the counters.

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{FrameId, FreeError, Geometry, Order, Slot};

use crate::LLFree;
use crate::index::Use;
use crate::init::{SLOT_LAST_CHILD, SLOT_LAST_FREE};
use crate::lower::{Refusal, Surplus};
use crate::rows::{ROW_ORDER, Rows};
use crate::state::Polarity;

impl<G: Geometry> LLFree<'_, G> {
    /// Frees a block, which is known to be of the zone and aligned.
    #[inline(always)]
    pub(crate) fn free_block(
        &self,
        frame: FrameId,
        order: u32,
        slot: Slot,
    ) -> Result<(), FreeError> {
        let (huge, offset) = self.locate(frame);
        let freed = if order < G::HUGE_ORDER {
            self.free_base(huge, offset, order, slot)
        } else {
            self.free_whole(huge, order, slot)
        };
        match freed {
            Ok(()) => {
                self.count(slot, 1 << order, true);
                Ok(())
            }
            Err(refusal) => Err(self.refused(frame, huge, refusal)),
        }
    }

    /// The same for larger blocks, kept apart so that the compiler knows the order of base frames.
    #[inline(never)]
    pub(crate) fn free_large(
        &self,
        frame: FrameId,
        order: Order,
        slot: Slot,
    ) -> Result<(), FreeError> {
        self.free_block(frame, order.0 as u32, slot)
    }

    #[cold]
    fn refused(&self, frame: FrameId, huge: usize, refusal: Refusal) -> FreeError {
        match refusal {
            Refusal::Offline => FreeError::Offline(frame),
            Refusal::NotAllocated(gone) => {
                self.give_held(huge, gone);
                FreeError::NotAllocated(frame)
            }
        }
    }

    #[inline(always)]
    fn free_whole(&self, huge: usize, order: u32, slot: Slot) -> Result<(), Refusal> {
        let change = self.lower.free_whole(huge, order)?;
        let tree = huge / G::TREE_HUGE;
        self.states_changed(tree, change);
        self.freed_into(tree, slot);
        Ok(())
    }

    #[inline(always)]
    fn free_base(&self, huge: usize, offset: usize, order: u32, slot: Slot) -> Result<(), Refusal> {
        let polarity = self.lower.release(huge, offset, order)?;
        self.credit(huge, 1 << order, polarity, slot, |rows| {
            let _ = rows.claim_at(offset, order);
        })
    }

    /// Gives the credits of `count` released frames back, to the slot if it holds credits of this
    /// child already, else to the child. Refused if the bits mean something else by now, which only
    /// a free of frames that the caller does not own can meet: `undo` turns them back then.
    #[inline(always)]
    fn credit(
        &self,
        huge: usize,
        count: usize,
        polarity: Polarity,
        slot: Slot,
        undo: impl FnOnce(Rows<G>),
    ) -> Result<(), Refusal> {
        for word in self.slot_reservations(slot) {
            let mut now = self.read(word);
            while now.huge_index() == huge
                && let Some(repaid) = now.repay(huge, count, polarity)
            {
                match self.swap(word, now, repaid) {
                    Ok(()) => return Ok(()),
                    Err(changed) => now = changed,
                }
            }
        }
        let given = self.lower.still_means(huge, polarity)
            && self.give_child(huge, count, Surplus::Refuse);
        if !given {
            undo(self.lower.rows(huge, polarity));
            return Err(Refusal::NotAllocated(0));
        }
        self.freed_beside(huge, slot);
        Ok(())
    }

    /// Frees as many of the base frames as lie in one row, from the first on, by one swap; returns
    /// how many. None where a single free would do better, or has an error to tell.
    pub(crate) fn free_row(&self, frames: &[FrameId], slot: Slot) -> Option<usize> {
        let &first = frames.first()?;
        self.check_free(first, Order::BASE, slot).ok()?;
        let (huge, offset) = self.locate(first);
        let row = offset >> ROW_ORDER;
        let mut mask = 0;
        let mut joins = |frame: FrameId| {
            let within = self.zone.contains(frame, Order::BASE);
            let (its_huge, offset) = if within { self.locate(frame) } else { (usize::MAX, 0) };
            let bit = 1u64 << (offset & 63);
            let joins = its_huge == huge && offset >> ROW_ORDER == row && mask & bit == 0;
            mask |= if joins { bit } else { 0 };
            joins
        };
        let count = frames.iter().take_while(|&&frame| joins(frame)).count();
        let polarity = self.lower.release_in(huge, row, mask).ok()?;
        let undo = |rows: Rows<G>| {
            rows.claim_mask(row, mask);
        };
        self.credit(huge, count, polarity, slot, undo).ok()?;
        self.count(slot, count, true);
        Some(count)
    }

    /// Counts frees in a row into one child or tree, by a hint that plain stores write: what it is
    /// above, how often in the low byte. True, and from the start again, after as many as reserve a
    /// tree.
    fn is_in_a_row(&self, slot: Slot, word: usize, what: usize) -> bool {
        let after = self.tuning.reserve_after_frees as u64;
        if after == 0 {
            return false;
        }
        let last = self.slot_word(slot, word);
        let before = last.load(Ordering::Relaxed);
        let times = if before >> 8 == what as u64 { (before & 0xff) + 1 } else { 1 };
        let enough = times >= after;
        last.store(if enough { 0 } else { (what as u64) << 8 | times }, Ordering::Relaxed);
        enough
    }

    /// Base frames went to a child that the slot does not hold. After several of one child of its
    /// own tree the slot holds that child: the next ones cost one swap less.
    #[inline(always)]
    fn freed_beside(&self, huge: usize, slot: Slot) {
        let tree = huge / G::TREE_HUGE;
        let mut words = self.slot_reservations(slot).iter();
        match words.find(|&word| self.read(word).owns(tree)) {
            Some(word) => {
                if self.is_in_a_row(slot, SLOT_LAST_CHILD, huge) {
                    self.follow_frees(word, huge);
                }
            }
            None => self.freed_into(tree, slot),
        }
    }

    /// A call that stops in between has the child's credits in flight, as one that allocates may.
    #[inline(never)]
    fn follow_frees(&self, word: &AtomicU64, huge: usize) {
        if let Some((held, polarity)) = self.take_child(huge, 1) {
            self.hold(word, huge / G::TREE_HUGE, huge, held, polarity);
        }
    }

    /// Something was freed into a tree. After several such frees in a row the slot reserves it, if
    /// nobody has (reserve-on-free, section 3.2.2).
    #[inline(always)]
    fn freed_into(&self, tree: usize, slot: Slot) {
        if !self.tree(tree).is_reserved() && self.is_in_a_row(slot, SLOT_LAST_FREE, tree) {
            self.reserve_for_frees(tree, slot);
        }
    }

    #[inline(never)]
    fn reserve_for_frees(&self, tree: usize, slot: Slot) {
        let now = self.look_at(tree);
        let class = now.tree.class();
        if self.is_between(now)
            && let Some(reservation) = self.reserve(tree, now.tree, class)
        {
            self.install(self.reservation(slot, class), reservation);
        }
    }

    /// Neither *allocated* nor *free* in the terms of section 3.2.2.
    fn is_between(&self, now: Use) -> bool {
        let eighths = now.quarters() * 2;
        eighths >= self.tuning.allocated_below as usize * G::TREE_HUGE
            && eighths <= self.tuning.free_above as usize * G::TREE_HUGE
    }

    /// What is wrong with a free, if its arguments show it.
    pub(crate) fn check_free(
        &self,
        frame: FrameId,
        order: Order,
        slot: Slot,
    ) -> Result<(), FreeError> {
        if !Self::is_order(order) {
            return Err(FreeError::OrderTooLarge(order));
        }
        if slot.0 >= self.zone.slots {
            return Err(FreeError::BadSlot(slot));
        }
        if !frame.is_aligned(order) {
            return Err(FreeError::Misaligned(frame, order));
        }
        if !self.zone.contains(frame, order) {
            return Err(FreeError::OutOfRange(frame));
        }
        Ok(())
    }
}
