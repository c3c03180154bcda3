//! Free: figure 14(b) of LLFree, from the bits up to the counters.

use woodlot_frame::atomics::Ordering;
use woodlot_frame::{FrameId, FreeError, Geometry, Order, Slot};

use crate::LLFree;
use crate::index::Use;
use crate::init::{SLOT_LAST_CHILD, SLOT_LAST_FREE};
use crate::lower::{Refusal, Surplus};
use crate::reservation::Reservation;
use crate::rows::ROW_ORDER;
use crate::state::Polarity;

impl<G: Geometry> LLFree<'_, G> {
    /// The usual case: base frames of a child of which the slot holds credits. The block is known to be
    /// of the zone and aligned. Whatever else happens is told by a call in tail position, so that
    /// nothing has to be kept across calls.
    #[inline(always)]
    pub(crate) fn free_base<const ORDER: u32>(
        &self,
        frame: FrameId,
        slot: Slot,
    ) -> Result<(), FreeError> {
        let (huge, offset) = self.locate(frame);
        for word in self.slot_reservations(slot) {
            let now = self.read(word);
            if now.huge_index() != huge || now.held() == 0 {
                continue;
            }
            // The credits held, and the frame that the caller owns, keep the polarity.
            if let Err(gone) = self.lower.rows(huge, now.polarity()).release(offset, ORDER) {
                return Err(self.refused(frame, Refusal::NotAllocated(gone)));
            }
            let repaid = now.repay(Reservation::<G>::key(huge, now.polarity()), 1 << ORDER);
            if !repaid.is_some_and(|repaid| self.swap(word, now, repaid).is_ok()) {
                return self.credit(frame, ORDER, now.polarity(), slot);
            }
            self.count(slot, 1 << ORDER, true);
            return Ok(());
        }
        self.free_part::<ORDER>(frame, slot)
    }

    /// Frees a block of any order. The orders are told apart, so that the compiler knows how many
    /// bits they are.
    #[inline(never)]
    pub(crate) fn free_large(
        &self,
        frame: FrameId,
        order: Order,
        slot: Slot,
    ) -> Result<(), FreeError> {
        match order.0 as u32 {
            order if order > G::HUGE_ORDER => self.free_huge::<2>(frame, slot),
            order if order == G::HUGE_ORDER => self.free_huge::<1>(frame, slot),
            0 => self.free_order::<0>(frame, slot),
            1 => self.free_order::<1>(frame, slot),
            2 => self.free_order::<2>(frame, slot),
            3 => self.free_order::<3>(frame, slot),
            4 => self.free_order::<4>(frame, slot),
            5 => self.free_order::<5>(frame, slot),
            6 => self.free_order::<6>(frame, slot),
            7 => self.free_order::<7>(frame, slot),
            8 => self.free_order::<8>(frame, slot),
            9 => self.free_order::<9>(frame, slot),
            10 => self.free_order::<10>(frame, slot),
            _ => self.free_order::<11>(frame, slot),
        }
    }

    #[inline(never)]
    fn free_order<const ORDER: u32>(&self, frame: FrameId, slot: Slot) -> Result<(), FreeError> {
        self.free_base::<ORDER>(frame, slot)
    }

    /// Frees one huge frame or two.
    #[inline(never)]
    fn free_huge<const COUNT: usize>(&self, frame: FrameId, slot: Slot) -> Result<(), FreeError> {
        let huge = self.locate(frame).0;
        let tree = huge / G::TREE_HUGE;
        match self.lower.free_whole(huge, COUNT) {
            Ok(change) => {
                self.count(slot, COUNT << G::HUGE_ORDER, true);
                if !self.tree(tree).is_reserved() {
                    self.follow_states(tree, change);
                    self.freed_into(tree, slot);
                }
                Ok(())
            }
            Err(refusal) => Err(self.refused(frame, refusal)),
        }
    }

    /// Frees a block of base frames of a huge frame that the slot does not hold, and that may have to
    /// be split.
    #[inline(never)]
    fn free_part<const ORDER: u32>(&self, frame: FrameId, slot: Slot) -> Result<(), FreeError> {
        let (huge, offset) = self.locate(frame);
        match self.lower.release(huge, offset, ORDER) {
            Ok(polarity) => self.credit(frame, ORDER, polarity, slot),
            Err(refusal) => Err(self.refused(frame, refusal)),
        }
    }

    #[cold]
    fn refused(&self, frame: FrameId, refusal: Refusal) -> FreeError {
        match refusal {
            Refusal::Offline => FreeError::Offline(frame),
            Refusal::NotAllocated(gone) => {
                self.give_held(self.locate(frame).0, gone);
                FreeError::NotAllocated(frame)
            }
        }
    }

    /// Gives the credits of released frames to the slot, if it holds credits of this child already.
    #[inline(always)]
    fn repay_held(&self, huge: usize, count: usize, polarity: Polarity, slot: Slot) -> bool {
        let key = Reservation::<G>::key(huge, polarity);
        for word in self.slot_reservations(slot) {
            let mut now = self.read(word);
            while let Some(repaid) = now.repay(key, count) {
                match self.swap(word, now, repaid) {
                    Ok(()) => return true,
                    Err(changed) => now = changed,
                }
            }
        }
        false
    }

    /// Gives the credits of a released block to its child. Refused if the bits mean something else by
    /// now, which only a free of frames that the caller does not own can meet: they are turned back.
    #[inline(never)]
    fn credit(
        &self,
        frame: FrameId,
        order: u32,
        polarity: Polarity,
        slot: Slot,
    ) -> Result<(), FreeError> {
        let (huge, offset) = self.locate(frame);
        if !self.credit_child(huge, 1 << order, polarity, slot) {
            let _ = self.lower.rows(huge, polarity).claim_at(offset, order);
            return Err(FreeError::NotAllocated(frame));
        }
        self.count(slot, 1 << order, true);
        Ok(())
    }

    /// After several frees in a row into one child of its own tree the slot holds that child: the next
    /// ones cost one swap less. A call that stops in between has the child's credits in flight, as
    /// one that allocates may.
    #[inline(always)]
    fn credit_child(&self, huge: usize, count: usize, polarity: Polarity, slot: Slot) -> bool {
        if !self.lower.still_means(huge, polarity) {
            return false;
        }
        let tree = huge / G::TREE_HUGE;
        if self.tree(tree).is_reserved() {
            // Of large blocks a child has so few that it does not pay to wait.
            let after = (self.tuning.reserve_after_frees as usize).min(G::HUGE_FRAMES / 8 / count);
            if self.is_in_a_row(slot, SLOT_LAST_CHILD, huge, after)
                && let mut words = self.slot_reservations(slot).iter()
                && let Some(word) = words.find(|&word| self.read(word).owns(tree))
            {
                return self.hold_freed(word, huge, count, polarity);
            }
            return self.give_child(huge, count, Surplus::Refuse);
        }
        let given = self.give_child(huge, count, Surplus::Refuse);
        if given {
            self.freed_into(tree, slot);
        }
        given
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
        let given = self.repay_held(huge, count, polarity, slot)
            || self.credit_child(huge, count, polarity, slot);
        if !given {
            self.lower.rows(huge, polarity).claim_mask(row, mask);
            return None;
        }
        self.count(slot, count, true);
        Some(count)
    }

    /// Counts frees in a row into one child or tree, by a hint that plain stores write: what it is
    /// above, how often in the low byte. True, and from the start again, after `after` of them.
    #[inline(always)]
    fn is_in_a_row(&self, slot: Slot, word: usize, what: usize, after: usize) -> bool {
        if self.tuning.reserve_after_frees == 0 {
            return false;
        }
        let last = self.slot_word(slot, word);
        let before = last.load(Ordering::Relaxed);
        let times = if before >> 8 == what as u64 { (before & 0xff) + 1 } else { 1 };
        let enough = times >= after as u64;
        last.store(if enough { 0 } else { (what as u64) << 8 | times }, Ordering::Relaxed);
        enough
    }

    /// Something was freed into a tree that nobody has reserved. After several such frees in a row
    /// the slot reserves it (reserve-on-free, section 3.2.2).
    #[inline(always)]
    fn freed_into(&self, tree: usize, slot: Slot) {
        let after = self.tuning.reserve_after_frees as usize;
        if self.is_in_a_row(slot, SLOT_LAST_FREE, tree, after) {
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
    #[inline(always)]
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
        // Both sides wrap below the zone, and a block is no larger than what is left of it.
        let (offset, frames) = (frame.0.wrapping_sub(self.zone.start.0), self.zone.frames);
        if offset >= frames || frames - offset < order.frames() {
            return Err(FreeError::OutOfRange(frame));
        }
        Ok(())
    }
}
