//! Isolation: huge frames of which nobody takes a frame, while frees go on.
//!
//! ```text
//!   bits 6, 7 of a child's hint
//!
//!                    isolate begins               isolate has all that it wants,
//!                                                 or what follows is refused
//!                ┌───────────────────┐           ┌────────────────────────────┐
//!                │                   ▼           │                            ▼
//!             neither               claimed by a call                    isolated
//!              ▲ ▲                   │           ▲                            │
//!              │ └───────────────────┘           └────────────────────────────┘
//!              │ isolate is refused, or             unisolate, or a claim, begins
//!              ▼ what follows has all
//!             going: a call takes it offline, and has taken all of its rows
//! ```
//!
//! # Invariants
//! 1. *Whoever takes, looks.* Every write by which a call takes frames is to a word from [`row_to_take`](OneWrite::row_to_take)
//!    or [`states_to_write`](OneWrite::states_to_write), which there is only while the child is not isolated. So a call that takes something
//!    of an isolated child has looked before it was isolated, and so begun before. Where the zone says that nothing is isolated, nobody
//!    looks at a child's bits: a number that is added to before the bits are set, and taken from after they are not. A search sees an isolated
//!    child as one whose rows are all taken.
//! 2. *Rows and children say the truth, isolated or not.* Frees do not look. Who allocates late, and whoever claims, decide by one
//!    write of the truth whose the frames are.
//! 3. *One call at a time begins or ends an isolation, or takes offline.* Each change of the two bits is a compare-and-swap, and only the
//!    call that has made them *claimed* or *going* changes them from there. So each call is all or none, whoever begins and ends isolations
//!    beside it.
//! 4. *A hint that says none is right* of what is to be had. To isolate a child makes no hint wrong. Who ends an isolation takes back
//!    afterwards what the tree's word and the zone's say, unless the child's hint and its rows say so. A free whose hint is not
//!    taken back since the child is isolated has seen that before it ended, so who ends it sees what was freed. A search says that there
//!    is nothing, and then looks whether a child is isolated: it sees that this has ended, or who ends it sees what was said.
//!    So does a call that was refused, a claim or an isolation, if it ends one.
//! 5. *Nothing is both isolated and offline* when the calls that did so have returned. Who takes offline makes the bits *going* before
//!    the rows are offline, and ends that afterwards; it gives way where they are not *neither*. Who isolates makes them *claimed*, then looks
//!    at the rows, and gives way to what it sees offline. A claim that takes offline begins from isolated, by invariant 3, and ends it.
//! 6. *What is offline is the caller's who took it so.* A call that takes several offline has the rows of all as its own, taken, before the
//!    first is offline. So what it gives back, where it is refused, nobody else can have changed. A call that brings several online leaves
//!    their rows offline until nothing can refuse it any more. One such call at a time has a hint's mark, and only that one changes
//!    rows that are offline. It takes the mark away while the rows are its own: who has the huge frame after it does not see it.
//!
//! # Counts
//! The slots' counts are of what is free, isolated or not, so that no free has to look. A query takes off what is free in isolated
//! children. The zone and the trees' words have their numbers, so that it looks at those alone.
//!
//! # Progress
//! Lock-free. A call that stops for ever keeps its huge frames isolated, or offline; nobody waits for it.
//!
//! # Crash
//! The bits are volatile: nothing is isolated after a recovery. What a claim has taken by then is allocated, or offline.

use core::ops::Range;

use woodlot_frame::atomics::{AtomicU16, AtomicU64, Ordering::SeqCst};
use woodlot_frame::{
    BadSlot, Claim, FrameId, Geometry, HugeFlags, HugeId, IsolateError, OfflineError,
};

use crate::OneWrite;
use crate::child::{FREE, OFFLINE, Part, TAKEN};
use crate::row::Rows;
use crate::words::{load, swap};

/// The bits of a child that is isolated, of one that a call takes offline, and of one whose isolation a call begins or ends.
const ISOLATED: u16 = 1 << 7;
const GOING: u16 = 1 << 6;
const CLAIMED: u16 = ISOLATED | GOING;
const NEITHER: u16 = 0;

/// A call brings the child online.
const COMING: u16 = 1 << 14;

/// One isolated child in the word of its tree.
const ONE: u64 = 1 << 32;

/// Does a child's hint say that it is isolated?
#[inline(always)]
pub(crate) const fn is_isolated(hint: u16) -> bool {
    hint & ISOLATED != 0
}

/// Does something to each child of a run, or undoes it where one refuses, for its reason.
fn all_or_none<E>(
    run: Range<usize>,
    does: impl Fn(usize) -> Result<(), E>,
    undoes: impl Fn(usize),
) -> Result<(), E> {
    for child in run.clone() {
        if let Err(reason) = does(child) {
            (run.start..child).for_each(undoes);
            return Err(reason);
        }
    }
    Ok(())
}

impl<G: Geometry> OneWrite<'_, G> {
    // ---- What may be taken ----

    #[inline(always)]
    pub(crate) fn isolates(&self, child: usize) -> bool {
        is_isolated(self.hint(child))
    }

    /// The bits of a row, for who takes frames by them: none of an isolated child.
    #[inline(always)]
    pub(crate) fn row_to_take(&self, row: usize) -> Option<&AtomicU64> {
        let word = self.rows.get(row)?;
        if self.isolates_any() && self.isolates(row / G::ROWS) { None } else { Some(word) }
    }

    /// The word of rows, for who takes them by it: none if a huge frame of theirs is isolated.
    #[inline(always)]
    pub(crate) fn states_to_write(&self, part: Part) -> Option<&AtomicU64> {
        let word = self.states.get(part.word::<G>())?;
        if self.isolates_any() && self.isolates_some(part) { None } else { Some(word) }
    }

    #[inline(always)]
    pub(crate) fn isolates_some(&self, part: Part) -> bool {
        let beside = if part.is_pair::<G>() { self.hint(part.child + 1) } else { 0 };
        is_isolated(self.hint(part.child) | beside)
    }

    /// Is any child isolated? The zone's number says so before the child's hint does, and until the hint does not any more.
    #[inline(always)]
    fn isolates_any(&self) -> bool {
        load(Some(self.slots.isolated())) != 0
    }

    /// The states of rows, for who looks for some to take: all taken if a huge frame of theirs is isolated.
    #[inline(always)]
    pub(crate) fn states_to_take(&self, part: Part) -> u64 {
        if self.isolates_some(part) { part.all(TAKEN) } else { self.states_in(part) }
    }

    // ---- The bits ----

    /// Changes the two bits, if they are these; or says what the hint has.
    fn change(&self, child: usize, from: u16, to: u16) -> Result<(), u16> {
        let Some(word) = self.hints.get(child) else { return Err(NEITHER) };
        let mut hint = self.hint(child);
        while hint & CLAIMED == from {
            match word.compare_exchange(hint, hint & !CLAIMED | to, SeqCst, SeqCst) {
                Ok(_) => return Ok(()),
                Err(now) => hint = now,
            }
        }
        Err(hint)
    }

    /// Ends the isolation of a child that this call has claimed.
    fn end(&self, child: usize) {
        if self.change(child, CLAIMED, NEITHER).is_ok() {
            self.slots.isolated().fetch_sub(1, SeqCst);
            self.count_in_tree(child, ONE.wrapping_neg());
            self.can_be_had(child);
        }
    }

    /// Makes children claimed that are isolated: all or none.
    fn claim_bits(&self, run: Range<usize>) -> Result<(), IsolateError> {
        let claim = |child| {
            let claimed = self.change(child, ISOLATED, CLAIMED);
            claimed.map_err(|_| IsolateError::NotIsolated(self.huge_id(child)))
        };
        all_or_none(run, claim, |child| self.isolated_again(child))
    }

    fn isolated_again(&self, child: usize) {
        let _ = self.change(child, CLAIMED, ISOLATED);
    }

    // ---- How much ----

    /// Adds to the number of isolated children of a tree.
    fn count_in_tree(&self, child: usize, number: u64) {
        let tree = self.trees.get(child / G::TREE).into_iter();
        tree.for_each(|word| _ = word.fetch_add(number, SeqCst));
    }

    /// How many frames are free in isolated children.
    pub(crate) fn free_in_isolated(&self) -> usize {
        if !self.isolates_any() {
            return 0;
        }
        let trees = (0..self.trees.len()).filter(|&tree| self.tree(tree) >= ONE);
        let isolated = trees.flat_map(|tree| self.children_of(tree));
        let isolated = isolated.filter(|&child| self.isolates(child));
        isolated.map(|child| self.free_in_child(child)).sum()
    }

    // ---- Isolate ----

    pub(crate) fn isolate_run(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        let run = self.isolable(first, count)?;
        // Nobody ends the isolation of some before all are isolated.
        all_or_none(run.clone(), |child| self.begin(child), |child| self.end(child))?;
        run.for_each(|child| self.isolated_again(child));
        Ok(())
    }

    pub(crate) fn unisolate_run(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        let run = self.isolable(first, count)?;
        self.claim_bits(run.clone())?;
        run.for_each(|child| self.end(child));
        Ok(())
    }

    /// Makes a child claimed that is not isolated, and not offline.
    fn begin(&self, child: usize) -> Result<(), IsolateError> {
        let offline = Err(IsolateError::Offline(self.huge_id(child)));
        if self.is_offline(child) {
            return offline;
        }
        // Before the hint says so: who takes looks at a hint only while something is isolated.
        self.slots.isolated().fetch_add(1, SeqCst);
        if let Err(hint) = self.change(child, NEITHER, CLAIMED) {
            self.slots.isolated().fetch_sub(1, SeqCst);
            let isolated = Err(IsolateError::Isolated(self.huge_id(child)));
            return if is_isolated(hint) { isolated } else { offline };
        }
        self.count_in_tree(child, ONE);
        if self.is_offline(child) {
            self.end(child);
            return offline;
        }
        Ok(())
    }

    pub(crate) fn is_offline(&self, child: usize) -> bool {
        Part::whole::<G>(child).is(self.states(child), OFFLINE)
    }

    /// The children of huge frames that lie wholly in the zone.
    fn isolable(&self, first: HugeId, count: usize) -> Result<Range<usize>, IsolateError> {
        self.huge_frames(first, count).map_err(|_| IsolateError::OutOfRange)
    }

    pub(crate) fn huge_id(&self, child: usize) -> HugeId {
        HugeId((self.ground.base >> G::HUGE_ORDER) + child)
    }

    // ---- Offline ----

    /// Takes huge frames offline that are free: all or none.
    pub(crate) fn offline_run(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        let run = self.huge_frames(first, count)?;
        let take = |child| {
            let taken = self.take_to_go(child).then_some(());
            taken.ok_or_else(|| OfflineError::in_use(self, self.huge_id(child)))
        };
        let give_back = |child| {
            self.stays(child);
            self.untake(child);
        };
        all_or_none(run.clone(), take, give_back)?;
        self.go_offline(run.clone());
        run.for_each(|child| self.stays(child));
        Ok(())
    }

    /// Takes a huge frame that is free, and that nobody isolates from now on.
    pub(crate) fn take_to_go(&self, child: usize) -> bool {
        if !self.turn_free(Part::whole::<G>(child), TAKEN) {
            return false;
        }
        let going = self.change(child, NEITHER, GOING).is_ok();
        if !going {
            self.untake(child);
        }
        going
    }

    /// A call that has made a child going takes it offline no more, or has done so.
    pub(crate) fn stays(&self, child: usize) {
        let _ = self.change(child, GOING, NEITHER);
    }

    /// Children that this call has taken are offline from now on.
    pub(crate) fn go_offline(&self, run: Range<usize>) {
        let frames = (run.len() << G::HUGE_ORDER) as u64;
        run.for_each(|child| self.put_offline(child));
        self.slots.add(frames.wrapping_neg());
    }

    /// Brings huge frames online, with these flags if any are named: all or none. What is refused has written nothing but the marks, of what was offline.
    pub(crate) fn online_run(
        &self,
        first: HugeId,
        count: usize,
        flags: Option<HugeFlags>,
    ) -> Result<(), OfflineError> {
        let run = self.huge_frames(first, count)?;
        let unmark = |child: usize| {
            self.hints.get(child).into_iter().for_each(|hint| _ = hint.fetch_and(!COMING, SeqCst));
        };
        let mark = |child: usize| {
            let marked = |hint: &AtomicU16| hint.fetch_or(COMING, SeqCst) & COMING == 0;
            let is_own = self.is_offline(child) && self.hints.get(child).is_some_and(marked);
            // Whoever had the mark before may have brought it online.
            let offline = is_own && self.is_offline(child);
            if is_own && !offline {
                unmark(child);
            }
            offline.then_some(()).ok_or(OfflineError::NotOffline)
        };
        all_or_none(run.clone(), mark, unmark)?;
        run.for_each(|child| {
            // Nobody else turns it, by invariant 6.
            self.turn(Part::whole::<G>(child), OFFLINE, TAKEN);
            flags.into_iter().for_each(|flags| self.put_flags(child, flags));
            unmark(child);
            self.untake(child);
        });
        self.slots.add((count << G::HUGE_ORDER) as u64);
        Ok(())
    }

    // ---- Claim ----

    pub(crate) fn claim_run(
        &self,
        first: HugeId,
        count: usize,
        claim: Claim,
    ) -> Result<(), IsolateError> {
        let line = match claim {
            Claim::Block(slot) => {
                Some(self.line(slot).map_err(|BadSlot(slot)| IsolateError::BadSlot(slot))?)
            }
            Claim::Offline => None,
        };
        let run = self.isolable(first, count)?;
        self.claim_bits(run.clone())?;
        // They become this call's own first, all or none.
        let take = |child| {
            let taken = self.take_isolated(child).then_some(());
            taken.ok_or_else(|| IsolateError::InUse(self.first_used(child)))
        };
        let taken = all_or_none(run.clone(), take, |child| self.untake(child));
        if taken.is_err() {
            run.for_each(|child| self.isolated_again(child));
            return taken;
        }
        match line {
            Some(line) => line.count(-((count << G::HUGE_ORDER) as isize)),
            None => self.go_offline(run.clone()),
        }
        run.for_each(|child| self.end(child));
        Ok(())
    }

    /// Takes a huge frame of which every frame is free, although it is isolated.
    fn take_isolated(&self, child: usize) -> bool {
        let whole = Part::whole::<G>(child);
        let Some(word) = self.states.get(whole.word::<G>()) else { return false };
        while self.free_in_child(child) == G::HUGE_FRAMES {
            let states = self.close(whole);
            if whole.is(states, FREE) && swap(word, states, whole.with(states, TAKEN)).is_ok() {
                self.taken(whole);
                return true;
            }
        }
        false
    }

    /// The first allocated frame of a child; its first, if there is none any more.
    fn first_used(&self, child: usize) -> FrameId {
        let used = |row: usize| match self.used_bits(row) {
            0 => None,
            bits => Some((row << G::ROW_ORDER) + bits.trailing_zeros() as usize),
        };
        let found = (child * G::ROWS..(child + 1) * G::ROWS).find_map(used);
        FrameId(self.ground.base + found.unwrap_or(child << G::HUGE_ORDER))
    }
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use woodlot_frame::{
        Base4K, Class, FrameAllocator, FreeError, Init, OfflineError, Order, Owned, Request, Slot,
        ZoneConfig,
    };

    type Zone = Owned<OneWrite<'static, Base4K>>;

    fn zone(huge_frames: usize) -> Zone {
        Owned::new(&ZoneConfig::new(huge_frames * Base4K::HUGE_FRAMES, 1), Init::Free)
            .expect("a zone")
    }

    fn alloc(zone: &Zone, order: u8) -> Option<FrameId> {
        zone.alloc(Request::movable(Order(order), Slot(0))).ok()
    }

    fn free(zone: &Zone, frame: usize, order: u8) -> Result<(), FreeError> {
        zone.free(FrameId(frame), Order(order), Slot(0))
    }

    /// Of which orders, as bits, neither the zone nor its first tree may have a block.
    fn ruled_out(zone: &Zone) -> u64 {
        let orders = 0..=Base4K::MAX_ORDER;
        let ruled_out = |&k: &u32| !zone.zone_may_have(k) && !zone.tree_may_have(0, k);
        orders.filter(ruled_out).fold(0, |all, order| all | 1 << order)
    }

    /// Or a zone that is full but for it would be searched by each call that fails.
    #[test]
    fn hints_say_that_an_isolated_huge_frame_has_nothing() {
        let zone = zone(2);
        let orders = 0..=Base4K::MAX_ORDER as u8;
        let all = (1 << orders.len()) - 1;
        let fail = || orders.clone().for_each(|order| assert_eq!(alloc(&zone, order), None));
        assert_eq!(zone.isolate(HugeId(0), 1), Ok(()));
        assert_eq!((alloc(&zone, 9), zone.free_frames()), (Some(FrameId(512)), 0));
        fail();
        assert_eq!(ruled_out(&zone), all);
        // What is freed there is not told.
        assert_eq!(zone.unisolate(HugeId(0), 1), Ok(()));
        for (frame, order) in [(0, 0), (64, 6)] {
            let request = Request::movable(Order(order), Slot(0)).at(FrameId(frame));
            assert_eq!(zone.alloc(request), Ok(FrameId(frame)));
        }
        assert_eq!(zone.isolate(HugeId(0), 1), Ok(()));
        fail();
        assert_eq!((free(&zone, 0, 0), free(&zone, 64, 6)), (Ok(()), Ok(())));
        assert_eq!(ruled_out(&zone), all);
        assert!(orders.clone().all(|order| !zone.is_available(Order(order))));
        assert_eq!(zone.unisolate(HugeId(0), 1), Ok(()));
        assert_eq!(ruled_out(&zone), 1 << Base4K::MAX_ORDER);
    }

    /// What the other half of a pair has is told where one half has nothing for anybody.
    #[test]
    fn half_of_a_pair_that_is_freed_can_be_had() {
        for isolated in [0, 1] {
            let zone = zone(2);
            assert_eq!(alloc(&zone, 10), Some(FrameId(0)));
            for order in [6, 9] {
                assert_eq!(alloc(&zone, order), None);
            }
            assert_eq!(zone.isolate(HugeId(isolated), 1), Ok(()));
            assert_eq!(free(&zone, 0, 10), Ok(()));
            assert!(zone.is_available(Order(9)) && zone.is_available(Order(6)));
            assert_eq!(alloc(&zone, 9), Some(FrameId((1 - isolated) * 512)));
            assert_eq!(alloc(&zone, 6), None);
        }
    }

    #[test]
    fn a_look_around_passes_what_is_isolated() {
        let zone = zone(8);
        for (huge, row) in [(0, 1), (1, 5), (2, 3)] {
            assert!(zone.turn(Part::of::<Base4K>(huge, 8 - row, row), FREE, TAKEN));
            assert!(zone.open(Part::of::<Base4K>(huge, 0, 1), 0, 0));
        }
        zone.has_class(0, Class::MOVABLE);
        // Least is free of the second, which is isolated, and then of the third.
        assert_eq!(zone.isolate(HugeId(1), 1), Ok(()));
        for order in [0, 3, 6] {
            let frame = alloc(&zone, order).expect("there is room");
            assert_eq!(frame.0 / 512, 2, "order {order}: not of the fullest");
        }
    }

    /// And searches of rows end, which go on until another call changes a huge frame.
    #[test]
    fn nothing_is_opened_of_what_is_isolated() {
        let zone = zone(2);
        assert_eq!(zone.isolate(HugeId(0), 2), Ok(()));
        for order in 0..=Base4K::MAX_ORDER as u8 {
            assert_eq!(alloc(&zone, order), None);
        }
        assert_eq!([0, 1].map(|child| zone.states(child)), [0, 0]);
    }

    #[test]
    fn what_a_claim_takes_is_neither_given_back_nor_claimed_meanwhile() {
        let zone = zone(2);
        assert_eq!(zone.isolate(HugeId(0), 2), Ok(()));
        assert_eq!(zone.change(1, ISOLATED, CLAIMED), Ok(()));
        let not_isolated = Err(IsolateError::NotIsolated(HugeId(1)));
        assert_eq!(zone.unisolate(HugeId(0), 2), not_isolated);
        assert_eq!(zone.claim_isolated(HugeId(0), 2, Claim::Offline), not_isolated);
        assert_eq!(zone.isolate(HugeId(1), 1), Err(IsolateError::Isolated(HugeId(1))));
        let in_use = Err(OfflineError::InUse(FrameId(512)));
        assert_eq!((zone.offline(HugeId(1), 1), alloc(&zone, 0)), (in_use, None));
        assert_eq!(zone.change(1, CLAIMED, ISOLATED), Ok(()));
        assert_eq!(zone.claim_isolated(HugeId(0), 2, Claim::Offline), Ok(()));
        assert_eq!((zone.stats().offline_huge, zone.free_frames()), (2, 0));
    }

    #[test]
    fn what_has_gone_offline_or_was_refused_is_isolated_and_goes_again() {
        let zone = zone(4);
        let request = Request::movable(Order(0), Slot(0)).at(FrameId(1024 + 130));
        assert_eq!(zone.alloc(request), Ok(FrameId(1024 + 130)));
        let in_use = Err(OfflineError::InUse(FrameId(1024 + 130)));
        assert_eq!((zone.offline(HugeId(0), 3), zone.free_frames()), (in_use, 4 * 512 - 1));
        assert_eq!((zone.isolate(HugeId(0), 2), zone.unisolate(HugeId(0), 2)), (Ok(()), Ok(())));
        for _ in 0..2 {
            assert_eq!((zone.offline(HugeId(0), 2), zone.free_frames()), (Ok(()), 2 * 512 - 1));
            let offline = Err(IsolateError::Offline(HugeId(1)));
            assert_eq!(
                (zone.isolate(HugeId(1), 1), zone.isolate(HugeId(1), 2)),
                (offline, offline)
            );
            assert_eq!((zone.online(HugeId(0), 2), zone.free_frames()), (Ok(()), 4 * 512 - 1));
        }
        assert_eq!(zone.isolate(HugeId(0), 3), Ok(()));
    }

    /// What a claim takes that fails is isolated still, and every row that it has closed is free.
    #[test]
    fn a_claim_that_fails_gives_back() {
        let zone = zone(4);
        assert!(zone.open(Part::of::<Base4K>(0, 0, 2), 7, 0));
        assert_eq!(free(&zone, 7, 0), Ok(()));
        let request = Request::movable(Order(0), Slot(0)).at(FrameId(1024 + 130));
        assert_eq!(zone.alloc(request), Ok(FrameId(1024 + 130)));
        assert_eq!(zone.isolate(HugeId(0), 3), Ok(()));
        for claim in [Claim::Block(Slot(0)), Claim::Offline] {
            let used = Err(IsolateError::InUse(FrameId(1024 + 130)));
            assert_eq!(zone.claim_isolated(HugeId(0), 3, claim), used);
            let stats = zone.stats();
            assert_eq!((stats.isolated_huge, stats.isolated_frames), (3, 3 * 512 - 1));
            assert_eq!((stats.free_frames, stats.offline_huge), (512, 0));
        }
        // In parts, and as a pair.
        assert_eq!(free(&zone, 1024 + 130, 0), Ok(()));
        assert_eq!(zone.claim_isolated(HugeId(0), 3, Claim::Block(Slot(0))), Ok(()));
        assert_eq!(free(&zone, 1024, 5), Ok(()));
        assert_eq!(free(&zone, 0, 10), Ok(()));
        assert_eq!((zone.free_frames(), zone.stats().free_huge), (1024 + 32 + 512, 3));
    }
}
