//! Isolation: huge frames that empty, and that nobody allocates from meanwhile.
//!
//! ```text
//!   isolate   credits: isolated ── state: split ── reservations: what they hold of it goes back
//!   claim     credits: all, of the whole range ── state: whole, or offline ── isolated no more
//! ```
//!
//! What the credits of an isolated huge frame are, and why it stays split, says the [lower level](crate::lower). Here the
//! words that follow are kept true: the tree, the index, and the count of what is free.
//!
//! A call that takes the credits of a child to its slot's reservation may be under way when the child is isolated. It
//! looks at the counter after they are there ([`look_for_isolation`](LLFree::look_for_isolation)), and the isolator reads
//! each reservation by a read-modify-write after it has changed the counter. So one of the two sees the other.
//!
//! *Progress*: lock-free, beside any other call. *Crash*: a recovery computes the counters anew, and nothing is isolated.

use core::ops::Range;

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{
    Claim, FrameAllocator, FrameId, Geometry, HugeId, IsolateError, Order, Persistence,
};

use crate::LLFree;
use crate::init::TOTAL_CLAIMS;
use crate::lower::{Credits, Mark};
use crate::record::{By, Intent};
use crate::reservation::Reservation;
use crate::row::row_order;
use crate::state::Phase;

impl<G: Geometry, P: Persistence> LLFree<'_, G, P> {
    pub(crate) fn isolate_run(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        let run = self.isolable(first, count)?;
        for huge in run.clone() {
            if let Err(error) = self.isolate_one(huge) {
                (run.start..huge).for_each(|huge| _ = self.unisolate_one(huge));
                return Err(error);
            }
        }
        self.take_from_reservations(&run);
        Ok(())
    }

    pub(crate) fn unisolate_run(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        let run = self.isolable(first, count)?;
        self.all_isolated(&run)?;
        for huge in run.clone() {
            if !self.unisolate_one(huge) {
                // Somebody else ends the isolation of the same huge frames.
                (run.start..huge).for_each(|huge| _ = self.isolate_one(huge));
                self.take_from_reservations(&run);
                return Err(IsolateError::NotIsolated(self.huge_id(huge)));
            }
        }
        Ok(())
    }

    pub(crate) fn claim_run(
        &self,
        first: HugeId,
        count: usize,
        claim: Claim,
    ) -> Result<(), IsolateError> {
        if let Claim::Block(slot) = claim
            && slot.0 >= self.zone.slots
        {
            return Err(IsolateError::BadSlot(slot));
        }
        let run = self.isolable(first, count)?;
        self.all_isolated(&run)?;
        let mark = self.next_mark();
        for huge in run.clone() {
            if let Err(error) = self.begin_claim(huge, mark) {
                (run.start..huge).for_each(|huge| self.withdraw_claim(huge, mark));
                return Err(error);
            }
        }
        for huge in run.clone() {
            if !self.claim_one(huge, mark, claim) {
                // Somebody has put back or isolated what others have.
                self.isolate_claimed(run.start..huge, claim);
                (huge..run.end).for_each(|huge| self.withdraw_claim(huge, mark));
                return Err(IsolateError::NotIsolated(self.huge_id(huge)));
            }
        }
        Ok(())
    }

    /// Ends every isolation, and every claim that died under way: what is claimed by then stays so, and what is not is
    /// free again. Whoever has isolated something does not have it any more.
    ///
    /// No other call may be under way, but for those of the dead.
    ///
    /// # Progress
    /// Linear in the huge frames.
    ///
    /// # Crash
    /// A crash inside this call leaves some isolated. Ending it again, or a recovery, comes to the same end.
    pub fn end_isolation(&self) {
        for huge in (0..self.lower.len()).filter(|&huge| self.lower.is_isolated(huge)) {
            self.lower.end_claim(huge);
            self.lower.end_dead_claim(huge);
            self.unisolate_one(huge);
        }
    }

    /// The indices of a run of huge frames that lies wholly in the zone.
    fn isolable(&self, first: HugeId, count: usize) -> Result<Range<usize>, IsolateError> {
        self.run_of(first, count).map_err(|_| IsolateError::OutOfRange)
    }

    /// Are all of them isolated? A claim that has changed a state, and whose caller died there, is ended first: or what
    /// it claimed would be freed as not isolated, and stay so by its counter.
    fn all_isolated(&self, run: &Range<usize>) -> Result<(), IsolateError> {
        run.clone().for_each(|huge| self.lower.end_claim(huge));
        match run.clone().find(|&huge| self.lower.isolated_credits(huge).is_none()) {
            Some(huge) => Err(IsolateError::NotIsolated(self.huge_id(huge))),
            None => Ok(()),
        }
    }

    /// Isolates a huge frame, but for what reservations hold of it.
    fn isolate_one(&self, huge: usize) -> Result<(), IsolateError> {
        let offline = IsolateError::Offline(self.huge_id(huge));
        if self.lower.phase(huge) == Phase::Offline {
            return Err(offline);
        }
        self.lower.end_claim(huge);
        let Some(credits) = self.lower.isolate_credits(huge) else {
            return Err(IsolateError::Isolated(self.huge_id(huge)));
        };
        self.count_free(-(credits as isize));
        self.counter_changed(huge, Credits { before: credits, after: 0 });
        let Ok(before) = self.lower.isolate_state(huge) else {
            self.unisolate_one(huge);
            return Err(offline);
        };
        if self.lower.was(before, huge, Phase::Free) {
            self.states_changed(huge, before, -1);
            self.close(huge);
        }
        Ok(())
    }

    /// False: it is not isolated.
    fn unisolate_one(&self, huge: usize) -> bool {
        let Some((given, credits)) = self.lower.unisolate(huge) else {
            self.lower.end_claim(huge);
            return false;
        };
        self.count_free(credits as isize);
        self.given(huge, given);
        true
    }

    /// Takes what reservations hold of isolated huge frames away from them.
    fn take_from_reservations(&self, run: &Range<usize>) {
        for word in self.reservations() {
            let now = Reservation::<G>::from_word(word.fetch_or(0, Ordering::AcqRel));
            if now.held() > 0 && run.contains(&now.huge_index()) {
                self.let_isolated_go(word, now.huge_index());
            }
        }
    }

    /// After credits of a child came into a reservation: back they go, if it is isolated.
    #[inline(always)]
    pub(crate) fn look_for_isolation(&self, word: &AtomicU64, huge: usize) {
        if self.lower.is_isolated(huge) {
            self.let_isolated_go(word, huge);
        }
    }

    #[cold]
    fn let_isolated_go(&self, word: &AtomicU64, huge: usize) {
        let empty = |now: Reservation<G>| now.holds(huge).then_some(now.empty());
        if let Some(before) = self.change(word, empty) {
            self.give_held(huge, before.held());
        }
    }

    /// Takes credits of a child, isolated or not, for frames that a refused free has made allocated.
    pub(crate) fn take_either(&self, huge: usize, count: usize) -> bool {
        if self.take_some(huge, count).is_some() {
            return true;
        }
        let taken = self.lower.take_isolated_back(huge, count);
        if taken {
            self.count_free(count as isize);
        }
        taken
    }

    /// Are all frames of an isolated huge frame free, and all of their credits in its counter?
    fn is_empty(&self, huge: usize) -> bool {
        let all = || self.lower.isolated_credits(huge) == Some(G::HUGE_FRAMES);
        all()
            || self.lower.count_free(huge) == G::HUGE_FRAMES && {
                self.take_from_reservations(&(huge..huge + 1));
                all()
            }
    }

    /// The mark of a claim that begins.
    fn next_mark(&self) -> Mark {
        Mark::of(self.total(TOTAL_CLAIMS).fetch_add(1, Ordering::Relaxed))
    }

    /// Takes all credits of an isolated huge frame, which are nobody's then until its state changes.
    fn begin_claim(&self, huge: usize, mark: Mark) -> Result<(), IsolateError> {
        if self.is_empty(huge) && self.lower.begin_claim(huge, mark) {
            return Ok(());
        }
        match self.lower.isolated_credits(huge) {
            Some(_) => Err(IsolateError::InUse(self.first_used(huge))),
            None => Err(IsolateError::NotIsolated(self.huge_id(huge))),
        }
    }

    fn withdraw_claim(&self, huge: usize, mark: Mark) {
        if !self.lower.withdraw_claim(huge, mark) {
            self.count_free(G::HUGE_FRAMES as isize);
            self.close(huge);
        }
    }

    /// Changes the state of a huge frame of which a claim has begun. False: its mark is gone.
    fn claim_one(&self, huge: usize, mark: Mark, claim: Claim) -> bool {
        let (to, intent) = match claim {
            Claim::Block(slot) => (Phase::Whole, self.intent(By::alone(slot), 0)),
            Claim::Offline => (Phase::Offline, Intent::none()),
        };
        if self.lower.claim(huge, mark, to, intent).is_err() {
            return false;
        }
        self.lower.end_claim(huge);
        // What is free in an isolated huge frame does not count, nor does what is offline.
        if let Claim::Block(slot) = claim {
            self.count_free(G::HUGE_FRAMES as isize);
            self.count(slot, G::HUGE_FRAMES, false);
        }
        true
    }

    /// Isolates again what was claimed, and gives it back. Between the two somebody may have taken hold of it.
    fn isolate_claimed(&self, run: Range<usize>, claim: Claim) {
        for huge in run.clone() {
            match claim {
                Claim::Offline => {
                    self.put_back(huge);
                    let _ = self.isolate_one(huge);
                }
                Claim::Block(slot) => {
                    let _ = self.isolate_one(huge);
                    let _ = self.free(self.frame(huge, 0), Order::huge::<G>(), slot);
                }
            }
        }
        self.take_from_reservations(&run);
    }

    /// Is every frame of the block free, and none of an isolated huge frame?
    pub(crate) fn is_there(&self, huge: usize, offset: usize, order: u32) -> bool {
        let count = 1 << order.saturating_sub(G::HUGE_ORDER);
        self.lower.is_free(huge, offset, order)
            && !(huge..huge + count).any(|huge| self.lower.is_isolated(huge))
    }

    /// How many frames of a huge frame are allocated.
    pub(crate) fn count_used(&self, huge: usize) -> usize {
        match self.lower.phase(huge) {
            Phase::Offline => 0,
            _ => self.inside(huge).len().saturating_sub(self.lower.count_free(huge)),
        }
    }

    /// The first allocated frame of a huge frame; its first, if a free is under way.
    fn first_used(&self, huge: usize) -> FrameId {
        let first = self.frame(huge, 0);
        let mut frames = (0..G::HUGE_FRAMES).map(|offset| FrameId(first.0 + offset));
        frames.find(|frame| self.used_of_word(*frame) >> (frame.0 & 63) & 1 != 0).unwrap_or(first)
    }

    /// Which frames of a word of 64 are allocated.
    pub(crate) fn used_of_word(&self, frame: FrameId) -> u64 {
        let rows = (0..64usize >> row_order::<G>()).map(|row| row << row_order::<G>());
        let used = rows.fold(0, |map, bit| {
            let row = FrameId(frame.0 & !63 | bit);
            let inside = row.0 >= self.base && row < self.zone.end();
            let (huge, offset) = if inside { self.locate(row) } else { return map };
            map | self.lower.used_in_row(huge, offset) << bit
        });
        used & self.inside_word(frame)
    }

    /// Which frames of a word of 64 lie in the zone.
    fn inside_word(&self, frame: FrameId) -> u64 {
        let first = frame.0 & !63;
        let below = |end: FrameId| match end.0.saturating_sub(first) {
            count @ ..64 => (1u64 << count) - 1,
            _ => !0,
        };
        below(self.zone.end()) & !below(self.zone.start)
    }
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use woodlot_frame::{Base4K, Init, Owned, Request, Slot, ZoneConfig};

    use super::*;
    use crate::record::Write;

    #[test]
    fn a_claim_that_died_in_the_middle_is_ended() {
        let config = ZoneConfig::new(64 * Base4K::HUGE_FRAMES, 1);
        let zone = Owned::<LLFree<'static, Base4K>>::new(&config, Init::Free).expect("a zone");
        let huge = HugeId(1);
        zone.isolate(huge, 1).expect("it is free");
        let mark = zone.next_mark();
        assert!(zone.lower.begin_claim(1, mark), "it is empty");
        zone.lower.claim(1, mark, Phase::Offline, Intent::none()).expect("its claim has begun");
        zone.online(huge, 1).expect("it is offline");
        let frame = huge.first::<Base4K>();
        zone.alloc(Request::movable(Order(0), Slot(0)).at(frame)).expect("it is free");
        let not_isolated = IsolateError::NotIsolated(huge);
        assert_eq!(zone.claim_isolated(huge, 1, Claim::Offline), Err(not_isolated));
        zone.free(frame, Order(0), Slot(0)).expect("it is allocated");
        zone.drain(Slot(0)).expect("it is a slot");
        let stats = zone.stats();
        assert_eq!((stats.free_huge, stats.isolated_huge, stats.offline_huge), (64, 0, 0));
    }

    /// A claim of two fails at the second. The first was put back by then, and a slot has taken hold of it.
    #[test]
    fn what_is_isolated_again_is_in_no_reservation() {
        let config = ZoneConfig::new(64 * Base4K::HUGE_FRAMES, 1);
        let zone = Owned::<LLFree<'static, Base4K>>::new(&config, Init::Free).expect("a zone");
        zone.isolate(HugeId(0), 2).expect("both are free");
        let mark = zone.next_mark();
        (0..2).for_each(|huge| assert_eq!(zone.begin_claim(huge, mark), Ok(())));
        assert!(zone.claim_one(0, mark, Claim::Offline));
        zone.put_back(0);
        let request = Request::movable(Order(0), Slot(0));
        assert_eq!(zone.alloc(request), Ok(FrameId(0)));
        zone.isolate_claimed(0..1, Claim::Offline);
        zone.withdraw_claim(1, mark);
        let frame = zone.alloc(request).expect("there is more");
        assert!(frame.0 >= 2 * Base4K::HUGE_FRAMES, "{frame:?} is isolated");
        assert_eq!(zone.stats().isolated_frames, 2 * Base4K::HUGE_FRAMES - 1);
    }

    #[test]
    fn who_empties_a_huge_frame_does_not_take_its_tree() {
        for isolates in [false, true] {
            let config = ZoneConfig::new(64 * Base4K::HUGE_FRAMES, 2);
            let zone = Owned::<LLFree<'static, Base4K>>::new(&config, Init::Free).expect("a zone");
            // Neither free nor full, and nobody's: exact frames reserve nothing.
            let at = |huge, offset, order| {
                let frame = zone.frame(huge, offset);
                zone.alloc(Request::movable(Order(order), Slot(0)).at(frame)).expect("it is free")
            };
            (0..8).for_each(|huge| _ = at(huge, 0, 9));
            let frames: [FrameId; 16] = core::array::from_fn(|offset| at(9, offset, 0));
            if isolates {
                zone.isolate(HugeId(9), 1).expect("it is there");
            }
            assert!(!zone.tree(0).is_reserved());
            for frame in frames {
                zone.free(frame, Order(0), Slot(1)).expect("it is allocated");
            }
            assert_eq!(zone.tree(0).is_reserved(), !isolates);
        }
    }

    /// A zone in which a caller died that had just claimed huge frame 1 as a block.
    fn died_as_it_claimed() -> Owned<LLFree<'static, Base4K>> {
        let config = ZoneConfig::new(64 * Base4K::HUGE_FRAMES, 1);
        let zone = Owned::<LLFree<'static, Base4K>>::new(&config, Init::Free).expect("a zone");
        zone.isolate(HugeId(1), 1).expect("it is free");
        let mark = zone.next_mark();
        assert!(zone.lower.begin_claim(1, mark), "it is empty");
        zone.lower.claim(1, mark, Phase::Whole, Intent::none()).expect("its claim has begun");
        zone
    }

    fn every_frame_can_be_had(zone: &LLFree<'_, Base4K>) {
        let request = Request::movable(Order(0), Slot(0));
        let had = core::iter::from_fn(|| zone.alloc(request).ok()).count();
        assert_eq!(had, 64 * Base4K::HUGE_FRAMES);
        assert_eq!((zone.free_frames(), zone.stats().isolated_huge), (0, 0));
    }

    #[test]
    fn what_is_claimed_is_isolated_no_more() {
        let ends = [
            |zone: &LLFree<'_, Base4K>| zone.unisolate(HugeId(1), 1),
            |zone: &LLFree<'_, Base4K>| zone.claim_isolated(HugeId(1), 1, Claim::Block(Slot(0))),
        ];
        for end in ends {
            let zone = died_as_it_claimed();
            assert_eq!(end(&zone), Err(IsolateError::NotIsolated(HugeId(1))));
            zone.free(zone.frame(1, 0), Order(9), Slot(0)).expect("it is claimed");
            every_frame_can_be_had(&zone);
        }
    }

    #[test]
    fn what_is_released_of_a_claim_is_isolated_no_more() {
        let zone = died_as_it_claimed();
        assert_eq!(zone.release_write(Write::Huge { huge: 1, count: 1 }), Base4K::HUGE_FRAMES);
        // As who resolves does.
        zone.count_free(Base4K::HUGE_FRAMES as isize);
        every_frame_can_be_had(&zone);
    }

    #[test]
    fn no_claim_outlives_the_end_of_isolation() {
        let zone = died_as_it_claimed();
        zone.isolate(HugeId(2), 2).expect("both are free");
        assert!(zone.lower.begin_claim(2, zone.next_mark()), "it is empty");
        zone.end_isolation();
        zone.free(zone.frame(1, 0), Order(9), Slot(0)).expect("it is claimed");
        every_frame_can_be_had(&zone);
    }
}
