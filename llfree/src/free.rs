//! Free: figure 14(b) of LLFree, from the bits up to the counters.

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{FrameId, Geometry, Order, Persistence, Slot, row_of};

use crate::LLFree;
use crate::index::Use;
use crate::init::{SLOT_LAST_CHILD, SLOT_LAST_FREE};
use crate::lower::{Credits, Given, Refusal, Surplus};
use crate::record::{By, Intent};
use crate::refusal::NotFreed;
use crate::reservation::Reservation;
use crate::row::{ROW_ORDER, row_order};
use crate::state::{Polarity, States};

impl<G: Geometry, P: Persistence> LLFree<'_, G, P> {
    /// Base frames of a child that the slot holds, or of any other. Each case is a call in tail position,
    /// so that nothing has to be kept across calls.
    #[inline(never)]
    pub(crate) fn free_order<const ORDER: u32>(
        &self,
        frame: FrameId,
        slot: Slot,
    ) -> Result<(), NotFreed> {
        self.check_free(frame, Order(ORDER as u8), slot)?;
        let index = frame.0 - self.base;
        // SAFETY: `check_free` has said that the frame lies in the zone.
        let reserved = || unsafe { self.tree_of(index) }.is_reserved();
        // Slots hold children of reserved trees, but for what they borrowed before a tree was given up.
        if ORDER > ROW_ORDER || reserved() {
            let huge = index >> G::HUGE_ORDER;
            for word in self.slot_reservations(slot) {
                let now = self.read(word);
                if now.huge_index() == huge {
                    return self.free_held::<ORDER>(frame, slot, word, now);
                }
            }
            return self.free_part::<ORDER>(frame, slot);
        }
        self.free_unreserved::<ORDER>(index, slot)
    }

    /// Base frames of the child that the slot's reservation `word` was seen to be at, and to which the
    /// credits go back if it holds some.
    #[inline(never)]
    fn free_held<const ORDER: u32>(
        &self,
        frame: FrameId,
        slot: Slot,
        word: &AtomicU64,
        now: Reservation<G>,
    ) -> Result<(), NotFreed> {
        if now.held() == 0 {
            // Two reservations of a slot seldom have one child (an empty one counts as at the first): the
            // free goes to its counter. To look for credits before would cost each free seven instructions.
            return self.free_part::<ORDER>(frame, slot);
        }
        // The credits held, and the frame that the caller owns, keep the polarity.
        let index = frame.0 - self.base;
        let (offset, rows) = if ORDER > ROW_ORDER {
            self.lower.rows_of(index, ORDER, now.polarity())
        } else {
            // SAFETY: `check_free` has said that the frame lies in the zone.
            unsafe { self.lower.place(index) }.row_of(index, now.polarity())
        };
        let intent = self.intent(By::alone(slot), index - offset);
        if P::INTENTS && ORDER <= ROW_ORDER {
            if !rows.release_once(offset, ORDER, intent) {
                return self.free_part::<ORDER>(frame, slot);
            }
        } else if let Err(gone) = rows.release(offset, ORDER, intent) {
            return Err(self.refused(frame, Refusal::NotAllocated(gone)));
        }
        self.lower.persist_released();
        let repaid = now.repay(now.huge_index(), 1 << ORDER, now.polarity());
        if repaid.is_none_or(|repaid| self.swap(word, now, repaid).is_err()) {
            return self.credit(frame, ORDER, now.polarity(), slot);
        }
        self.count(slot, 1 << ORDER, true);
        Ok(())
    }

    /// Frees any block. The orders are told apart, so that the compiler knows how many bits they are.
    #[inline(never)]
    pub(crate) fn free_any(
        &self,
        frame: FrameId,
        order: Order,
        slot: Slot,
    ) -> Result<(), NotFreed> {
        match order.0 as u32 {
            order if order == G::HUGE_ORDER => self.free_huge::<1>(frame, slot),
            order if order == G::MAX_ORDER => self.free_huge::<2>(frame, slot),
            order if order > G::MAX_ORDER => Err(NotFreed::OrderTooLarge),
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

    /// Frees one huge frame or two.
    #[inline(never)]
    fn free_huge<const COUNT: usize>(&self, frame: FrameId, slot: Slot) -> Result<(), NotFreed> {
        let order = Order(G::HUGE_ORDER as u8 + COUNT.trailing_zeros() as u8);
        self.check_free(frame, order, slot)?;
        self.free_huge_as::<COUNT>(frame, By::alone(slot))
    }

    /// Frees any block as a part of the operation that the slot's record has open.
    #[cold]
    pub(crate) fn free_as_part(
        &self,
        frame: FrameId,
        order: Order,
        slot: Slot,
    ) -> Result<(), NotFreed> {
        if !Self::is_order(order) {
            return Err(NotFreed::OrderTooLarge);
        }
        self.check_free(frame, order, slot)?;
        match u32::from(order.0) {
            order if order < G::HUGE_ORDER => self.free_split(frame, order, By::part(slot)),
            order if order == G::HUGE_ORDER => self.free_huge_as::<1>(frame, By::part(slot)),
            _ => self.free_huge_as::<2>(frame, By::part(slot)),
        }
    }

    #[inline(always)]
    fn free_huge_as<const COUNT: usize>(&self, frame: FrameId, by: By) -> Result<(), NotFreed> {
        let (huge, slot) = (self.locate(frame).0, by.slot);
        let Some(before) = self.lower.free_whole(huge, COUNT, self.intent(by, 0)) else {
            return self.free_joined::<COUNT>(frame, by);
        };
        self.count(slot, COUNT << G::HUGE_ORDER, true);
        if self.tree(huge / G::TREE_HUGE).is_reserved() && !self.is_asked() {
            return Ok(());
        }
        self.freed_unreserved(huge, before, COUNT, slot)
    }

    /// The same where some were allocated by their base frames.
    #[cold]
    fn free_joined<const COUNT: usize>(&self, frame: FrameId, by: By) -> Result<(), NotFreed> {
        let (huge, slot) = (self.locate(frame).0, by.slot);
        match self.lower.free_joined(huge, COUNT, self.intent(by, 0)) {
            Ok((before, isolated)) => {
                self.count(slot, COUNT << G::HUGE_ORDER, true);
                let first = Self::first_of_word(huge);
                isolated.numbers().for_each(|number| self.close(first + number));
                match COUNT - isolated.count() {
                    0 => Ok(()),
                    free => self.freed_unreserved(huge, before, free, slot),
                }
            }
            Err(refusal) => Err(self.refused(frame, refusal)),
        }
    }

    /// Huge frames were freed in a tree that may be in the index, or somebody has asked for news of them.
    #[inline(never)]
    fn freed_unreserved(
        &self,
        huge: usize,
        before: States,
        count: usize,
        slot: Slot,
    ) -> Result<(), NotFreed> {
        self.tell_freed();
        self.follow_states(huge, before, count as isize);
        // Of pairs a tree has so few that it does not pay to wait for more than the second.
        let (tree, after) = (huge / G::TREE_HUGE, self.tuning.reserve_after_frees);
        let after = if count * 16 >= G::TREE_HUGE { after.min(2) } else { after };
        if self.count_in_a_row(slot, SLOT_LAST_FREE, tree, after) {
            self.reserve_for_frees(tree, slot);
        }
        Ok(())
    }

    /// Frees a block of base frames of a tree that nobody has reserved: where frees come in a random order,
    /// nearly each. Then each waits for memory, and as many can wait at once as fit into the processor's
    /// window: so it is short, in two steps with few registers each, and what is seldom is elsewhere.
    #[inline(never)]
    fn free_unreserved<const ORDER: u32>(&self, index: usize, slot: Slot) -> Result<(), NotFreed> {
        // SAFETY: `check_free` has said that the frame lies in the zone.
        let place = unsafe { self.lower.place(index) };
        let states = place.states();
        let Some(polarity) = self.lower.split_polarity_in(states, index >> G::HUGE_ORDER) else {
            return self.free_split(FrameId(self.base + index), ORDER, By::alone(slot));
        };
        let (offset, rows) = place.row_of(index, polarity);
        let intent = self.intent(By::alone(slot), index - offset);
        match rows.release(offset, ORDER, intent) {
            Ok(()) => {
                place.persist_states();
                self.credit_unreserved::<ORDER>(index, slot, states)
            }
            Err(gone) => self.not_allocated(FrameId(self.base + index), gone),
        }
    }

    /// Gives the credits of a block, released while its state word was `states`, to its child.
    #[inline(never)]
    fn credit_unreserved<const ORDER: u32>(
        &self,
        index: usize,
        slot: Slot,
        states: States,
    ) -> Result<(), NotFreed> {
        let (huge, tree) = (index >> G::HUGE_ORDER, (index >> G::HUGE_ORDER) / G::TREE_HUGE);
        let last = self.slot_word(slot, SLOT_LAST_FREE);
        // SAFETY: `check_free` has said that the frame lies in the zone.
        let place = unsafe { self.lower.place(index) };
        let polarity = self.lower.polarity_in(states, huge);
        // An equal word answers what `still_means` asks: split, with the same polarity, and no join.
        if place.states() != states
            || states.is_joining()
            || last.load(Ordering::Relaxed) >> 8 == tree as u64
            || self.tuning.reserve_after_frees == 1
        {
            return self.credit(FrameId(self.base + index), ORDER, polarity, slot);
        }
        last.store((tree as u64) << 8 | 1, Ordering::Relaxed);
        if self.keep_freed(slot, huge, index & (G::HUGE_FRAMES - 1), ORDER, polarity) {
            return Ok(());
        }
        let Some(Given { credits, all }) = place.give(1 << ORDER) else {
            return self.credit_isolated(FrameId(self.base + index), ORDER, polarity, slot);
        };
        self.count(slot, 1 << ORDER, true);
        if all || Self::is_to_follow(credits) {
            return self.given_last(huge, credits.before, credits.after, all);
        }
        Ok(())
    }

    /// Credits were given, and more is to be done. Each argument has a register.
    #[inline(never)]
    fn given_last(
        &self,
        huge: usize,
        before: usize,
        after: usize,
        all: bool,
    ) -> Result<(), NotFreed> {
        self.given(huge, Given { credits: Credits { before, after }, all });
        Ok(())
    }

    /// Frees a block of base frames of a huge frame that the slot does not hold, and that may have to
    /// be split.
    #[inline(never)]
    fn free_part<const ORDER: u32>(&self, frame: FrameId, slot: Slot) -> Result<(), NotFreed> {
        let (huge, offset) = self.locate(frame);
        let Some(polarity) = self.lower.split_polarity(huge) else {
            return self.free_split(frame, ORDER, By::alone(slot));
        };
        self.lower.persist_split(huge, ORDER);
        let intent = self.intent(By::alone(slot), huge << G::HUGE_ORDER);
        match self.lower.rows(huge, polarity).release(offset, ORDER, intent) {
            Ok(()) => {
                self.lower.persist_states(huge);
                self.credit(frame, ORDER, polarity, slot)
            }
            Err(gone) => self.not_allocated(frame, gone),
        }
    }

    #[cold]
    fn not_allocated(&self, frame: FrameId, gone: usize) -> Result<(), NotFreed> {
        Err(self.refused(frame, Refusal::NotAllocated(gone)))
    }

    /// The same of a huge frame that is whole, or was just now.
    #[cold]
    fn free_split(&self, frame: FrameId, order: u32, by: By) -> Result<(), NotFreed> {
        let (huge, offset) = self.locate(frame);
        let intent = self.intent(by, huge << G::HUGE_ORDER);
        match self.lower.release(huge, offset, order, intent) {
            Ok(polarity) => self.credit(frame, order, polarity, by.slot),
            Err(refusal) => Err(self.refused(frame, refusal)),
        }
    }

    #[cold]
    fn refused(&self, frame: FrameId, refusal: Refusal) -> NotFreed {
        if let Refusal::NotAllocated(gone) = refusal {
            self.give_held(self.locate(frame).0, gone);
        }
        refusal.into()
    }

    /// Gives the credits of released frames to the slot, if it holds credits of this child already.
    #[inline(always)]
    fn repay_held(&self, huge: usize, count: usize, polarity: Polarity, slot: Slot) -> bool {
        for word in self.slot_reservations(slot) {
            let mut now = self.read(word);
            while let Some(repaid) = now.repay(huge, count, polarity) {
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
    ) -> Result<(), NotFreed> {
        let (huge, count) = (self.locate(frame).0, 1 << order);
        if !self.lower.still_means(huge, polarity) {
            return self.take_back(frame, order, polarity);
        }
        if self.is_in_a_row(slot, huge, count) {
            return self.credit_in_a_row(frame, order, polarity, slot);
        }
        if self.keep_freed(slot, huge, self.locate(frame).1, order, polarity) {
            return Ok(());
        }
        let Some(given) = self.lower.give(huge, count, Surplus::Refuse) else {
            return self.credit_isolated(frame, order, polarity, slot);
        };
        self.count(slot, count, true);
        if given.all || Self::is_to_follow(given.credits) {
            self.given(huge, given);
        }
        Ok(())
    }

    /// Gives the credits of a released block to the counter of an isolated child. Refused if there is no room for them.
    #[cold]
    fn credit_isolated(
        &self,
        frame: FrameId,
        order: u32,
        polarity: Polarity,
        slot: Slot,
    ) -> Result<(), NotFreed> {
        if !self.give_isolated(self.locate(frame).0, 1 << order, Surplus::Refuse) {
            return self.take_back(frame, order, polarity);
        }
        self.count(slot, 1 << order, true);
        Ok(())
    }

    /// Turns the bits of a refused free back.
    #[cold]
    fn take_back(&self, frame: FrameId, order: u32, polarity: Polarity) -> Result<(), NotFreed> {
        let (huge, offset) = self.locate(frame);
        if self.lower.rows(huge, polarity).claim_at(offset, order, Intent::none()).is_err() {
            self.settle(huge, 1 << order, polarity);
        }
        Err(NotFreed::NotAllocated)
    }

    /// The bits of a refused free could not be turned back, since somebody else has turned some of them:
    /// so they have changed their meaning by this free, and the credits follow them. (Of a block of which
    /// only some were turned the others stay as they are: they are lost with the mistake.)
    #[cold]
    pub(crate) fn settle(&self, huge: usize, count: usize, polarity: Polarity) {
        let now = self.lower.split_polarity(huge);
        if now == Some(polarity) {
            self.give_child(huge, count, Surplus::Drop);
        } else if now.is_some() && !self.take_either(huge, count) {
            // The credits of what is allocated now may be in reservations.
            self.release_tree(huge / G::TREE_HUGE);
            self.take_either(huge, count);
        }
    }

    /// Gives credits after several frees in a row into one child of a reserved tree, or into one tree
    /// that nobody has reserved.
    #[inline(never)]
    fn credit_in_a_row(
        &self,
        frame: FrameId,
        order: u32,
        polarity: Polarity,
        slot: Slot,
    ) -> Result<(), NotFreed> {
        if !self.gather(self.locate(frame).0, 1 << order, polarity, slot) {
            return self.take_back(frame, order, polarity);
        }
        self.count(slot, 1 << order, true);
        Ok(())
    }

    /// The slot takes hold of a child of its own tree: the next frees need neither its state nor its
    /// counter, and tell no tree. A call that stops in between has the child's credits in flight, as one
    /// that allocates may. A tree that nobody has is reserved (reserve-on-free, section 3.2.2), but for frees into an isolated
    /// huge frame: who empties it wants nothing of the tree, and would keep it from those who allocate there.
    fn gather(&self, huge: usize, count: usize, polarity: Polarity, slot: Slot) -> bool {
        let tree = huge / G::TREE_HUGE;
        let mut words = self.slot_reservations(slot).iter();
        if let Some(word) = words.find(|&word| self.read(word).owns(tree)) {
            return self.hold_freed(word, huge, count, polarity);
        }
        let given = self.give_child(huge, count, Surplus::Refuse);
        if given && !self.tree(tree).is_reserved() && !self.lower.is_isolated(huge) {
            self.reserve_for_frees(tree, slot);
        }
        given
    }

    /// Frees as many of the base frames as lie in one row, from the first on, by one swap; returns
    /// how many. None where a single free would do better, or has an error to tell.
    pub(crate) fn free_row(&self, frames: &[FrameId], slot: Slot) -> Option<usize> {
        let (row, mask, count) = self.row_of(frames, slot)?;
        let (huge, offset) = Self::place_of_row(row);
        let row = offset >> ROW_ORDER;
        let polarity = self.lower.release_in(huge, row, mask).ok()?;
        let given = self.repay_held(huge, count, polarity, slot)
            || self.lower.still_means(huge, polarity)
                && match self.is_in_a_row(slot, huge, count) {
                    true => self.gather(huge, count, polarity, slot),
                    false => self.give_child(huge, count, Surplus::Refuse),
                };
        if !given {
            if !self.lower.rows(huge, polarity).claim_mask(row, mask) {
                self.settle(huge, count, polarity);
            }
            return None;
        }
        self.count(slot, count, true);
        Some(count)
    }

    /// The row of the first frame, which of its frames the first of `frames` are, and how many these are. None if
    /// the first cannot be freed.
    pub(crate) fn row_of(&self, frames: &[FrameId], slot: Slot) -> Option<(usize, u64, usize)> {
        self.check_free(*frames.first()?, Order::BASE, slot).ok()?;
        let offset = |frame| self.zone.contains(frame, Order::BASE).then(|| frame.0 - self.base);
        let (row, mask) = row_of(frames, row_order::<G>(), offset)?;
        Some((row, mask, mask.count_ones() as usize))
    }

    /// Are these frames the last of several frees in a row into one child of a reserved tree, or into
    /// one tree that nobody has reserved?
    #[inline(always)]
    fn is_in_a_row(&self, slot: Slot, huge: usize, count: usize) -> bool {
        let (tree, after) = (huge / G::TREE_HUGE, self.tuning.reserve_after_frees);
        if self.tree(tree).is_reserved() {
            // Of large blocks a child has so few that it does not pay to wait.
            let after = if count * 16 >= G::HUGE_FRAMES { after.min(1) } else { after };
            self.count_in_a_row(slot, SLOT_LAST_CHILD, huge, after)
        } else {
            self.count_in_a_row(slot, SLOT_LAST_FREE, tree, after)
        }
    }

    /// Counts in a hint that plain stores write: what it is above, how often in the low byte. True,
    /// and from the start again, after `after` times in a row; never, if that is none.
    #[inline(always)]
    fn count_in_a_row(&self, slot: Slot, word: usize, what: usize, after: u8) -> bool {
        let last = self.slot_word(slot, word);
        let before = last.load(Ordering::Relaxed);
        let times = if before >> 8 == what as u64 { (before & 0xff) + 1 } else { 1 };
        let enough = times >= after as u64 && after > 0;
        last.store(if enough { 0 } else { (what as u64) << 8 | times & 0xff }, Ordering::Relaxed);
        enough
    }

    /// The tree that nobody had reserved into which the slot freed last, by the same hint.
    pub(crate) fn last_freed_tree(&self, slot: Slot) -> Option<usize> {
        let last = self.slot_word(slot, SLOT_LAST_FREE).load(Ordering::Relaxed);
        (last & 0xff != 0).then_some((last >> 8) as usize).filter(|&tree| tree < self.trees.len())
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

    /// What is wrong with a free of a legal order, if its arguments show it.
    #[inline(always)]
    pub(crate) fn check_free(
        &self,
        frame: FrameId,
        order: Order,
        slot: Slot,
    ) -> Result<(), NotFreed> {
        if slot.0 >= self.zone.slots {
            return Err(NotFreed::BadSlot);
        }
        if !frame.is_aligned(order) {
            return Err(NotFreed::Misaligned);
        }
        // Both sides wrap below the zone, and a block is no larger than what is left of it.
        let (offset, frames) = (frame.0.wrapping_sub(self.zone.start.0), self.zone.frames);
        if offset >= frames || frames - offset < order.frames() {
            return Err(NotFreed::OutOfRange);
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use woodlot_frame::{
        AllocError, Base4K, Class, ClassPolicy, FrameAllocator, Init, Owned, Request, ZoneConfig,
    };

    use super::*;

    /// Only a wrong free brings credits for which a counter has no room.
    #[test]
    fn credits_for_which_there_is_no_room_are_refused() {
        let config = ZoneConfig::new(1024, 1);
        let zone = Owned::<LLFree<'static, Base4K>>::new(&config, Init::Free).expect("a zone");
        zone.alloc(Request::movable(Order(0), Slot(0)).at(FrameId(512))).expect("it is free");
        assert_eq!(zone.lower.give(1, 2, Surplus::Refuse), None);
        assert_eq!(zone.lower.credits(1), 511);
        let dropped = zone.lower.give(1, 2, Surplus::Drop).expect("they are dropped");
        assert_eq!((dropped.all, zone.lower.credits(1)), (true, 0));
    }

    /// What is left of a refused free whose bits were turned by another one: the credits of the child become
    /// what its bits say, wherever they are, and those of others stay where they are.
    #[test]
    fn credits_follow_the_bits_of_a_refused_free() {
        let config = ZoneConfig::new(1024, 1).with_classes(ClassPolicy::SINGLE);
        let zone = Owned::<LLFree<'static, Base4K>>::new(&config, Init::Free).expect("a zone");
        let request = Request::movable(Order(2), Slot(0));
        zone.alloc(request.at(FrameId(512))).expect("it is free");
        let polarity = zone.lower.split_polarity(1).expect("a part of it is allocated");
        let other = Polarity(!polarity.0);
        // Another call has turned them to free.
        let refused = zone.take_back(FrameId(512), 1, polarity);
        assert_eq!((refused, zone.lower.credits(1)), (Err(NotFreed::NotAllocated), 508 + 2));
        zone.settle(1, 1, polarity);
        assert_eq!(zone.lower.credits(1), 508 + 3);
        // And to allocated, of the other meaning.
        zone.settle(1, 2, other);
        assert_eq!(zone.lower.credits(1), 508 + 1);
        let word = zone.reservation(Slot(0), Class(0));
        zone.alloc(request).expect("there are some");
        let held = zone.read(word).held();
        assert_eq!((held, zone.lower.credits(1)), (508 + 1 - 4, 0));
        zone.settle(0, 1, polarity);
        assert_eq!(zone.read(word).held(), held, "of a huge frame that is whole by now");
        zone.settle(1, 3, other);
        assert_eq!((zone.read(word).held(), zone.lower.credits(1)), (0, held - 3));
    }

    /// Two wrong frees of one frame, of which the first turns its bit under a polarity that is no longer
    /// right, and is refused when its credit is in a reservation: no other frame comes to harm.
    #[test]
    fn a_refused_free_leaves_no_credit() {
        let config = ZoneConfig::new(1024, 2).with_classes(ClassPolicy::SINGLE);
        let zone = Owned::<LLFree<'static, Base4K>>::new(&config, Init::Free).expect("a zone");
        let request = |order, slot| Request::movable(Order(order), Slot(slot));
        let free = |frame| zone.free(frame, Order(0), Slot(1)).expect("it is allocated");
        let frame = zone.alloc(request(0, 0)).expect("a frame");
        let (huge, offset) = zone.locate(frame);
        let first = FrameId(frame.0 - offset);
        // The first wrong free has read this, and is interrupted.
        let polarity = zone.read(zone.reservation(Slot(0), Class::MOVABLE)).polarity();
        // Its owner frees the frame, and another one takes the huge frame, and frees two of its frames.
        zone.free(frame, Order(0), Slot(0)).expect("it is allocated");
        zone.drain(Slot(0)).expect("a slot");
        zone.alloc(request(9, 1).at(first)).expect("it is free");
        zone.drain(Slot(1)).expect("a slot");
        free(frame);
        zone.lower
            .rows(huge, polarity)
            .release(offset, 0, Intent::none())
            .expect("under the old polarity");
        let other = FrameId(first.0 + 100);
        free(other);
        // What is left of the two is allocated on slot 1, which holds a credit, and freed wrongly there.
        assert_eq!(zone.alloc(request(0, 1)), Ok(other));
        free(frame);
        let refused = zone.credit(frame, 0, polarity, Slot(0));
        assert_eq!(refused, Err(NotFreed::NotAllocated));
        // Everything but one frame is freed rightly: the huge frame is not free.
        free(other);
        let kept = FrameId(first.0 + 200);
        let rest = (first.0..first.0 + 512).map(FrameId);
        rest.filter(|rest| ![frame, other, kept].contains(rest)).for_each(free);
        zone.drain(Slot(1)).expect("a slot");
        assert!(!zone.is_free(kept, Order(0)));
        assert_eq!(zone.alloc(request(9, 0).at(first)), Err(AllocError::InUse(first)));
    }
}
