//! The lower half: blocks are taken from rows and their states, and given back. What is written here is the truth.
//!
//! # Invariants
//! 1. The bits of a row that is not open are 0, unless a call is about to open it or has just closed it. So nobody who
//!    comes late takes bits of a row that was closed meanwhile, and nothing needs to be undone. The exception is misuse:
//!    a second free of a block at the moment at which its row is closed, or taken offline, may set its bits in that row, and one of rows
//!    at the moment at which they are opened may close them with their bits. Whoever opens the row next overwrites them.
//! 2. Who turns a row's state from free to open writes its bits, which are 0 until then: nobody else finds anything in
//!    it, and its frames are the caller's alone.
//! 3. Who turns all bits of an open row from 1 to 0 has allocated the row, and may say that it is free as a whole. Only
//!    searches do so. A free does not: a second free of the same frames at that moment would find their bits 0.
//! 4. A row of which some frame is allocated is neither free nor offline. So what an owner sees of the state of its own
//!    rows changes only from taken to open, and that only where another owner frees a part of them.
//!
//! # Progress
//! Lock-free: each loop begins anew only after another call has changed the word.
//!
//! # Crash
//! A call's frames are taken, and freed, by one write, or those of a pair of two words by two. Between the first and the last of the writes by which
//! rows are opened or closed their frames look allocated: a call that is cut off there leaves those that are free allocated,
//! and nobody's. What is opened is a row, or rows for 16 blocks; what is closed is a part of the block that is taken.

use core::ops::Range;

use woodlot_frame::atomics::{AtomicU64, Ordering::SeqCst, fetch_to_write};
use woodlot_frame::{Class, FrameId, FreeError, Geometry, HugeFlags};

use crate::OneWrite;
use crate::child::{self, FREE, OFFLINE, OPEN, Part, TAKEN};
use crate::row::{self, Rows};
use crate::words::{load, swap};

/// Why a block is not freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    NotAllocated,
    Offline,
}

impl Refusal {
    pub(crate) fn of(self, frame: FrameId) -> FreeError {
        match self {
            Refusal::NotAllocated => FreeError::NotAllocated(frame),
            Refusal::Offline => FreeError::Offline(frame),
        }
    }

    /// What there is to say of a row that is neither open nor taken.
    const fn closed(state: u64) -> Refusal {
        if state == OFFLINE { Refusal::Offline } else { Refusal::NotAllocated }
    }
}

impl<G: Geometry> OneWrite<'_, G> {
    // ---- Single frames ----

    #[inline(always)]
    pub(crate) fn bits(&self, row: usize) -> u64 {
        load(self.rows.get(row))
    }

    /// The states of a child.
    #[inline(always)]
    pub(crate) fn states(&self, child: usize) -> u64 {
        self.states_in(Part::whole::<G>(child))
    }

    #[inline(always)]
    pub(crate) fn states_in(&self, part: Part) -> u64 {
        load(self.states.get(part.word::<G>())) & part.mask()
    }

    #[inline(always)]
    pub(crate) fn state(&self, row: usize) -> u64 {
        child::state::<G>(load(self.states.get(row / G::WORD_ROWS)), row)
    }

    /// Takes the first free block of `order`, below a row's, from a row that is open, unless another call changes the row: one
    /// write. Returns its offset, as all do that take a block anywhere.
    #[inline(always)]
    pub(crate) fn take_at_once(&self, row: usize, order: u32) -> Option<usize> {
        let word = self.row_to_take(row)?;
        let bits = load(Some(word));
        let at = row::first_block(bits, order)?;
        swap(word, bits, bits & !row::block(order, at)).ok()?;
        Some((row << G::ROW_ORDER) + at)
    }

    /// Takes a block of `order` of a row if nothing else is free in its child, which has these [holes](Self::holes), unless another call changes the
    /// row: one write. Several blocks at the same place of different rows are taken for one.
    #[inline(always)]
    pub(crate) fn take_only_hole(&self, row: usize, holes: u64, order: u32) -> Option<usize> {
        let at = row::only_block(holes, order)?;
        let word = self.row_to_take(row)?;
        let whole = Part::whole::<G>(row / G::ROWS);
        let is_only = load(Some(word)) == holes && whole.free(self.states_in(whole)) == 0;
        (is_only && swap(word, holes, 0).is_ok()).then_some((row << G::ROW_ORDER) + at)
    }

    /// Takes the first free block of `order`, below a row's, whatever others change.
    #[inline(always)]
    pub(crate) fn take_in_row(&self, row: usize, order: u32) -> Option<usize> {
        let word = self.row_to_take(row)?;
        let mut bits = load(Some(word));
        loop {
            let at = row::first_block(bits, order)?;
            match swap(word, bits, bits & !row::block(order, at)) {
                Ok(()) => return Some((row << G::ROW_ORDER) + at),
                Err(now) => bits = now,
            }
        }
    }

    /// Takes the first frames that are free, up to so many, at least one: of the row, as bits; whatever others change.
    pub(crate) fn take_some(&self, row: usize, most: usize) -> Option<u64> {
        let word = self.row_to_take(row)?;
        let mut bits = load(Some(word));
        while bits != 0 {
            let mut left = 0;
            if most < bits.count_ones() as usize {
                left = bits;
                (0..most).for_each(|_| left &= left.wrapping_sub(1));
            }
            match swap(word, bits, left) {
                Ok(()) => return Some(bits ^ left),
                Err(now) => bits = now,
            }
        }
        None
    }

    /// Takes this very block of a row, below a row's order; opens the row if it is free.
    pub(crate) fn take_bits(&self, row: usize, at: usize, order: u32) -> bool {
        let block = row::block(order, at);
        if self.state(row) == FREE && self.open(Part::row::<G>(row), at, order) {
            return true;
        }
        let Some(word) = self.row_to_take(row) else { return false };
        let mut bits = load(Some(word));
        while bits & block == block {
            match swap(word, bits, bits & !block) {
                Ok(()) => return true,
                Err(now) => bits = now,
            }
        }
        false
    }

    /// Opens rows that are free, and keeps a block of the first one: one write, and one for each row. Fails where they are not free
    /// any more.
    pub(crate) fn open(&self, part: Part, at: usize, order: u32) -> bool {
        let Range { start: first, end } = part.rows::<G>();
        let Some(rows) = self.rows.get(first..end) else { return false };
        if self.turn_closed(part, OPEN).is_none() {
            return false;
        }
        let rest = G::ALL & !row::block(order, at);
        // The bits are 0, by invariants 1 and 2, but for what a wrong free has left.
        let bits = core::iter::once(rest).chain(core::iter::repeat(G::ALL));
        rows.iter().zip(bits).for_each(|(row, bits)| _ = row.swap(bits, SeqCst));
        let bits = if first + 1 == end { rest } else { G::ALL };
        if self.has_to_tell(first, bits) {
            self.tell(first, bits);
        }
        true
    }

    /// Closes the open rows of which every frame is free: a write for each, and one. Returns the states of all rows of the word then.
    pub(crate) fn close(&self, part: Part) -> u64 {
        let Some(word) = self.states.get(part.word::<G>()) else { return 0 };
        let mut states = load(Some(word));
        let is_closed = |&row: &usize| {
            let bits = self.rows.get(row);
            child::state::<G>(states, row) == OPEN
                && bits
                    .is_some_and(|bits| load(Some(bits)) == G::ALL && swap(bits, G::ALL, 0).is_ok())
        };
        // These rows are this call's, by invariant 3, so they stay open: only a wrong free of a row changes that.
        let closed = part.rows::<G>().filter(is_closed);
        let own = closed.fold(0, |own, row| own | child::lower::<G>(row));
        if own == 0 {
            return states;
        }
        let after = |states| states & !((child::open_rows(states) & own) * OPEN);
        while let Err(now) = swap(word, states, after(states)) {
            states = now;
        }
        self.can_be_had_whole(part);
        after(states)
    }

    /// The states to take rows by, as they are when the open rows are closed of which every frame is free.
    pub(crate) fn whole_states(&self, part: Part) -> u64 {
        self.closed(part, self.states_to_take(part))
    }

    /// These states of rows, likewise.
    fn closed(&self, part: Part, states: u64) -> u64 {
        let open = child::open_rows(states);
        if open == 0 {
            return states;
        }
        let Some(rows) = self.rows.get(part.rows::<G>()) else { return states };
        let empty = part.rows::<G>().zip(rows).fold(0, |empty, (row, bits)| {
            let is_empty = u64::from(load(Some(bits)) == G::ALL);
            empty | (is_empty << child::place::<G>(row))
        });
        states & !((open & empty) * OPEN)
    }

    /// Is every frame of these rows free, and to be had? Nearly always one look says no.
    #[inline(always)]
    pub(crate) fn all_free(&self, part: Part) -> bool {
        let states = self.states_in(part);
        states & part.all(TAKEN & OFFLINE) == 0 && self.can_be_closed(part, states)
    }

    /// Is it, where the states are these, and no row is taken?
    #[inline(never)]
    fn can_be_closed(&self, part: Part, states: u64) -> bool {
        !self.isolates_some(part) && part.is(self.closed(part, states), FREE)
    }

    /// Frees a block of `order`, below a row's: one write; two where it is the first part of a block of rows.
    /// Returns the row's bits.
    pub(crate) fn give_bits(&self, row: usize, at: usize, order: u32) -> Result<u64, Refusal> {
        let block = row::block(order, at);
        loop {
            if let Some(bits) = self.give_bits_at_once(row, block) {
                return Ok(bits);
            }
            match self.state(row) {
                TAKEN => self.split(row)?,
                _ => self.can_give_bits(row, at, order)?,
            }
        }
    }

    /// Frees the block of an open row at this offset, unless frames of it are free, or another call changes the row: one write. Returns
    /// the row's bits.
    #[inline(always)]
    pub(crate) fn give_at_once(&self, offset: usize, order: u32) -> Option<u64> {
        let (row, at) = (offset >> G::ROW_ORDER, || offset & (G::ROW_FRAMES - 1));
        if order == 0 {
            // Said where it is needed, so that no mask is made: the instruction for a bit takes its number modulo 64.
            return self.give_at_once_by(row, |bits| row::given_one(bits, at()));
        }
        self.give_bits_at_once(row, row::block(order, at()))
    }

    /// The same of any frames of the row, as bits.
    #[inline(always)]
    pub(crate) fn give_bits_at_once(&self, row: usize, frames: u64) -> Option<u64> {
        self.give_at_once_by(row, |bits| row::given(bits, frames))
    }

    /// The same, where `given` says what the row's bits become, or that some of the frames are free.
    #[inline(always)]
    fn give_at_once_by(&self, row: usize, given: impl FnOnce(u64) -> Option<u64>) -> Option<u64> {
        fetch_to_write(self.rows, row);
        let word = self.rows.get(row)?;
        let states = load(Some(self.states.get(row / G::WORD_ROWS)?));
        if child::state::<G>(states, row) != OPEN {
            return None;
        }
        let bits = load(Some(word));
        let now = given(bits)?;
        swap(word, bits, now).ok().map(|()| now)
    }

    /// Makes a row that is taken an open one of which no frame is free: its bits say so already.
    #[cold]
    #[inline(never)]
    fn split(&self, row: usize) -> Result<(), Refusal> {
        let part = Part::row::<G>(row);
        let word = self.states.get(part.word::<G>()).ok_or(Refusal::NotAllocated)?;
        let mut states = load(Some(word));
        loop {
            match child::state::<G>(states, row) {
                TAKEN => {}
                OPEN => return Ok(()),
                closed => return Err(Refusal::closed(closed)),
            }
            // Before the row is open, and others give and take its frames.
            self.taken(part);
            match swap(word, states, part.with(states, OPEN)) {
                Ok(()) => {
                    let child = row / G::ROWS;
                    if Part::whole::<G>(child).is(states, TAKEN) {
                        self.becomes(child, Class::MOVABLE);
                    }
                    return Ok(());
                }
                Err(now) => states = now,
            }
        }
    }

    /// Would [`give_bits`](Self::give_bits) succeed?
    pub(crate) fn can_give_bits(&self, row: usize, at: usize, order: u32) -> Result<(), Refusal> {
        match self.state(row) {
            TAKEN => Ok(()),
            OPEN if self.bits(row) & row::block(order, at) == 0 => Ok(()),
            OPEN => Err(Refusal::NotAllocated),
            closed => Err(Refusal::closed(closed)),
        }
    }

    // ---- Rows ----

    /// Takes the first free run of 2^`k` rows of a huge frame: one write, and what it takes to close open rows.
    #[inline(always)]
    pub(crate) fn take_rows(&self, child: usize, k: u32) -> Option<Part> {
        let whole = Part::whole::<G>(child);
        let word = self.states_to_write(whole)?;
        let mut states = load(Some(word));
        while let Some(part) = whole.free_run(states, k) {
            match swap(word, states, part.with(states, TAKEN)) {
                Ok(()) => {
                    self.taken(part);
                    return Some(part);
                }
                Err(now) => states = now,
            }
        }
        if child::open_rows(states & whole.mask()) == 0 { None } else { self.take_empty(whole, k) }
    }

    /// Takes a huge frame of which every row is free and closed, unless another call changes its word: one write. Returns what is known of
    /// its memory.
    #[inline(always)]
    pub(crate) fn take_closed(&self, child: usize) -> Option<HugeFlags> {
        let whole = Part::whole::<G>(child);
        self.take_of_closed(whole, whole)
    }

    /// Takes some rows likewise of those of huge frames all of whose rows are free and closed.
    #[inline(always)]
    pub(crate) fn take_of_closed(&self, all: Part, part: Part) -> Option<HugeFlags> {
        let word = self.states_to_write(all)?;
        let states = load(Some(word));
        if !all.is(states, FREE) {
            return None;
        }
        swap(word, states, states | part.all(TAKEN)).ok()?;
        Some(self.taken(part))
    }

    /// Takes such a run of these rows where some are open.
    #[inline(never)]
    fn take_empty(&self, whole: Part, k: u32) -> Option<Part> {
        while let Some(part) = whole.free_run(self.whole_states(whole), k) {
            if self.turn_free(part, TAKEN) {
                return Some(part);
            }
        }
        None
    }

    /// Turns rows that are all in the state `from` to the state `to`, unless another call changes their word: one write. Returns
    /// the states of all rows of the word.
    #[inline(always)]
    pub(crate) fn turn_at_once(&self, part: Part, from: u64, to: u64) -> Option<u64> {
        fetch_to_write(self.states, part.word::<G>());
        let word = self.states.get(part.word::<G>())?;
        let states = load(Some(word));
        if !part.is(states, from) {
            return None;
        }
        let after = part.with(states, to);
        swap(word, states, after).ok().map(|()| after)
    }

    /// The same whatever others change.
    #[inline(always)]
    pub(crate) fn turn(&self, part: Part, from: u64, to: u64) -> bool {
        self.states.get(part.word::<G>()).is_some_and(|word| Self::turn_word(word, part, from, to))
    }

    /// The same from rows that are free and closed, unless a huge frame of theirs is isolated. Returns what is known of their memory.
    #[inline(always)]
    fn turn_closed(&self, part: Part, to: u64) -> Option<HugeFlags> {
        let word = self.states_to_write(part)?;
        Self::turn_word(word, part, FREE, to).then(|| self.taken(part))
    }

    #[inline(always)]
    fn turn_word(word: &AtomicU64, part: Part, from: u64, to: u64) -> bool {
        let mut states = load(Some(word));
        while part.is(states, from) {
            match swap(word, states, part.with(states, to)) {
                Ok(()) => return true,
                Err(now) => states = now,
            }
        }
        false
    }

    /// The same, after those are closed that are open with every frame free. Closes none where another row
    /// is in use.
    pub(crate) fn turn_free(&self, part: Part, to: u64) -> bool {
        if self.turn_closed(part, to).is_some() {
            return true;
        }
        if !self.all_free(part) {
            return false;
        }
        self.close(part);
        self.turn_closed(part, to).is_some()
    }

    /// Frees a huge frame that this call has taken, or gives back, and that nobody else owns. A row of it is open only if a wrong
    /// free has named a part of it meanwhile, or its owner had freed parts before: then the rest of the row becomes free, too.
    #[cold]
    #[inline(never)]
    pub(crate) fn untake(&self, child: usize) {
        let whole = Part::whole::<G>(child);
        let Some(word) = self.states.get(whole.word::<G>()) else { return };
        let mut states = load(Some(word));
        let freed = |states| states & !child::taken_rows(states & whole.mask());
        while let Err(now) = swap(word, states, freed(states)) {
            states = now;
        }
        self.words_of_open(whole, states).for_each(|bits| _ = bits.fetch_or(G::ALL, SeqCst));
        if child::open_rows(states & whole.mask()) == 0 {
            self.can_be_had_whole(whole);
        } else {
            self.tell(child * G::ROWS, G::ALL);
        }
    }

    /// The same, but takes it offline.
    pub(crate) fn put_offline(&self, child: usize) {
        let whole = Part::whole::<G>(child);
        let Some(word) = self.states.get(whole.word::<G>()) else { return };
        let mut states = load(Some(word));
        loop {
            self.words_of_open(whole, states).for_each(|bits| _ = bits.swap(0, SeqCst));
            match swap(word, states, whole.with(states, OFFLINE)) {
                Ok(()) => return,
                Err(now) => states = now,
            }
        }
    }

    /// The bits of those rows of a part that are open.
    fn words_of_open(&self, part: Part, states: u64) -> impl Iterator<Item = &AtomicU64> {
        let open = child::rows_in::<G>(part.child, child::open_rows(states & part.mask()));
        open.filter_map(|row| self.rows.get(row))
    }

    /// Frees rows, whatever their frames were allocated as: one write. Returns the states of all rows of their word.
    #[inline(always)]
    pub(crate) fn give_rows(&self, part: Part) -> Result<u64, Refusal> {
        let Some(word) = self.states.get(part.word::<G>()) else {
            return Err(Refusal::NotAllocated);
        };
        let mut states = load(Some(word));
        loop {
            self.can_give_mixed(part, states)?;
            let after = part.with(states, FREE);
            match swap(word, states, after) {
                Ok(()) => return Ok(after),
                Err(now) => states = now,
            }
        }
    }

    /// Would [`give_rows`](Self::give_rows) succeed?
    pub(crate) fn can_give_rows(&self, part: Part) -> Result<(), Refusal> {
        self.can_give_mixed(part, self.states_in(part))
    }

    /// Is every row taken, or open with no frame free?
    fn can_give_mixed(&self, part: Part, states: u64) -> Result<(), Refusal> {
        if part.is(states, TAKEN) {
            return Ok(());
        }
        for row in part.rows::<G>() {
            match child::state::<G>(states, row) {
                TAKEN => {}
                OPEN if self.bits(row) == 0 => {}
                OPEN => return Err(Refusal::NotAllocated),
                closed => return Err(Refusal::closed(closed)),
            }
        }
        Ok(())
    }

    // ---- Pairs of huge frames: a write of one word, or of each of two ----

    /// Takes a huge frame and the next if every row of both is free and closed, and no other call changes the first's word.
    /// Returns what is known of their memory.
    #[inline(always)]
    pub(crate) fn take_closed_pair(&self, child: usize) -> Option<HugeFlags> {
        if !child.is_multiple_of(2) {
            return None;
        }
        let (first, second) = Part::pair::<G>(child);
        if let Some(second) = second
            && self.states_to_take(second) != 0
        {
            return None;
        }
        let flags = self.take_of_closed(first, first)?;
        let Some(second) = second else { return Some(flags) };
        let more = self.turn_closed(second, TAKEN);
        if more.is_none() {
            self.untake(child);
        }
        more.map(|more| flags.together_with(more))
    }

    /// Frees a huge frame and the next, all rows of which are taken, if no other call changes the first's word.
    #[inline(always)]
    pub(crate) fn give_taken_pair(&self, child: usize) -> bool {
        let (first, second) = Part::pair::<G>(child);
        if second.is_some_and(|second| !second.is(self.states_in(second), TAKEN))
            || self.turn_at_once(first, TAKEN, FREE).is_none()
        {
            return false;
        }
        self.given_pair(child);
        true
    }

    /// After this call has freed the first word of a pair: frees the second, if there is one. That is the caller's own: not all of it can be freed at
    /// once only if a wrong free has named a part of it meanwhile. Then the rest becomes free, too.
    #[inline(always)]
    fn given_pair(&self, child: usize) {
        let (_, second) = Part::pair::<G>(child);
        if let Some(second) = second
            && self.give_rows(second).is_err()
        {
            self.untake(second.child);
        }
    }

    /// Takes a huge frame and the next.
    pub(crate) fn take_pair(&self, child: usize) -> bool {
        let (first, second) = Part::pair::<G>(child);
        if !self.is_free_pair(child) || !self.turn_free(first, TAKEN) {
            return false;
        }
        let all = second.is_none_or(|second| self.turn_free(second, TAKEN));
        if !all {
            self.untake(child);
        }
        all
    }

    /// Are a huge frame and the next free?
    pub(crate) fn is_free_pair(&self, child: usize) -> bool {
        let (first, second) = Part::pair::<G>(child);
        self.all_free(first) && second.is_none_or(|second| self.all_free(second))
    }

    /// Would [`give_pair`](Self::give_pair) succeed?
    pub(crate) fn can_give_pair(&self, child: usize) -> Result<(), Refusal> {
        let (first, second) = Part::pair::<G>(child);
        self.can_give_rows(first)?;
        second.map_or(Ok(()), |second| self.can_give_rows(second))
    }

    /// Frees a huge frame and the next.
    pub(crate) fn give_pair(&self, child: usize) -> Result<(), Refusal> {
        self.can_give_pair(child)?;
        self.give_rows(Part::pair::<G>(child).0)?;
        self.given_pair(child);
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use woodlot_frame::{
        AllocError, Base4K, Base16K, FrameAllocator, HugeId, Init, OfflineError, Order, Owned,
        Request, Slot, ZoneConfig,
    };

    /// Of two huge frames.
    fn pair<G: Geometry>() -> Owned<OneWrite<'static, G>> {
        Owned::new(&ZoneConfig::new(G::MAX_FRAMES, 1), Init::Free).expect("a zone")
    }

    fn zone() -> Owned<OneWrite<'static, Base4K>> {
        pair()
    }

    #[test]
    fn a_wrong_free_takes_no_other_frames_along() {
        for to in [FREE, OFFLINE] {
            let zone = zone();
            assert!(zone.turn_free(Part::whole::<Base4K>(0), TAKEN));
            assert_eq!(zone.free(FrameId(70), Order(0), Slot(0)), Ok(()));
            if to == FREE {
                zone.untake(0)
            } else {
                zone.put_offline(0)
            }
            let (free, offline) = if to == FREE { (1024, 0) } else { (512, 1) };
            assert_eq!((zone.stats().free_frames, zone.stats().offline_huge), (free, offline));
            assert_eq!(zone.bits(1), if to == FREE { Base4K::ALL } else { 0 });
        }
    }

    /// And the hints speak of them, which rule out all orders of a huge frame that was full.
    #[test]
    fn what_a_wrong_free_has_opened_is_to_be_had() {
        let zone = zone();
        assert!(
            [0, 1].into_iter().all(|child| zone.turn_free(Part::whole::<Base4K>(child), TAKEN))
        );
        let next = |order| zone.alloc(Request::movable(Order(order), Slot(0)));
        assert_eq!([0, 6].map(next), [Err(AllocError::OutOfMemory); 2]);
        [0, 1].into_iter().for_each(|child| zone.child_has_none(child, 0));
        assert_eq!(zone.free(FrameId(70), Order(0), Slot(0)), Ok(()));
        zone.untake(0);
        let place = Request::movable(Order(0), Slot(0)).at(FrameId(70));
        assert_eq!(zone.alloc(place), Ok(FrameId(70)));
        (0..7).for_each(|_| assert!(next(6).is_ok()));
        assert_eq!(next(5), Ok(FrameId(96)));
    }

    #[test]
    fn what_is_refused_closes_no_row() {
        let zone = zone();
        let at =
            |frame, order| zone.alloc(Request::movable(Order(order), Slot(0)).at(FrameId(frame)));
        assert_eq!((at(0, 0), at(64, 6)), (Ok(FrameId(0)), Ok(FrameId(64))));
        assert_eq!(zone.free(FrameId(0), Order(0), Slot(0)), Ok(()));
        assert_eq!((zone.state(0), zone.bits(0)), (OPEN, Base4K::ALL));
        assert_eq!(at(0, 7), Err(AllocError::InUse(FrameId(0))));
        assert!(matches!(zone.offline(HugeId(0), 1), Err(OfflineError::InUse(_))));
        assert_eq!((zone.state(0), zone.bits(0)), (OPEN, Base4K::ALL));
    }

    #[test]
    fn an_opening_overwrites_what_a_wrong_free_left() {
        let zone = zone();
        let _ = zone.rows[0].fetch_or(1 << 5, SeqCst);
        assert!(zone.open(Part::row::<Base4K>(0), 5, 0));
        assert_eq!(zone.bits(0), Base4K::ALL & !(1 << 5));
    }

    #[test]
    fn a_row_that_is_open_no_more_is_not_closed() {
        let zone = zone();
        assert!(zone.turn_free(Part::whole::<Base4K>(0), TAKEN));
        let _ = zone.rows[0].fetch_or(Base4K::ALL, SeqCst);
        zone.close(Part::whole::<Base4K>(0));
        assert_eq!(zone.state(0), TAKEN);
    }

    #[test]
    fn a_row_that_is_taken_is_not_free_by_what_a_wrong_free_left() {
        let zone = zone();
        assert!(zone.turn_free(Part::whole::<Base4K>(0), TAKEN));
        assert_eq!(zone.free(FrameId(70), Order(0), Slot(0)), Ok(()));
        let _ = zone.rows[0].fetch_or(Base4K::ALL, SeqCst);
        assert_eq!([0, 1].map(|child| zone.has_rows(child, Base4K::ROW_ORDER)), [false, true]);
    }

    #[test]
    fn rows_are_opened_together_or_not_at_all() {
        let zone = zone();
        let part = Part::of::<Base4K>(0, 2, 2);
        assert!(zone.open(part, 32, 5));
        let opened =
            |zone: &OneWrite<'_, Base4K>| (zone.states(0), [1, 2, 3, 4].map(|row| zone.bits(row)));
        let first = Base4K::ALL & !row::block(5, 32);
        let expected = (part.all(OPEN), [0, first, Base4K::ALL, 0]);
        assert_eq!(opened(&zone), expected);
        assert!(!zone.open(Part::of::<Base4K>(0, 0, 4), 0, 0));
        assert_eq!(opened(&zone), expected);
    }

    /// A search that saw them while they were opened has found no rows.
    #[test]
    fn rows_that_are_opened_together_are_told_of() {
        let zone = zone();
        let _ = zone.trees[0].fetch_or(1 << Base4K::ROW_ORDER, SeqCst);
        assert!(!zone.tree_may_have(0, Base4K::ROW_ORDER));
        assert!(zone.open(Part::of::<Base4K>(0, 2, 2), 32, 5));
        assert!(zone.tree_may_have(0, Base4K::ROW_ORDER));
    }

    #[test]
    fn the_only_hole_of_a_huge_frame_is_taken_and_no_other() {
        let cases: [(&[(usize, u8)], u32, _); 6] = [
            (&[(70, 0)], 0, Some(70)),
            (&[(66, 1)], 1, Some(66)),
            (&[(66, 1)], 0, None),
            (&[(70, 0), (9, 0)], 0, None),
            (&[(9, 0)], 0, None),
            (&[(70, 0), (128, 6)], 0, None),
        ];
        for (free, order, expected) in cases {
            let zone = ZoneConfig::new(1024, 1);
            let zone = Owned::<OneWrite<'_, Base4K>>::new(&zone, Init::Allocated).expect("a zone");
            for &(at, order) in free {
                assert_eq!(zone.free(FrameId(at), Order(order), Slot(0)), Ok(()));
            }
            let before = zone.stats().free_frames;
            assert_eq!(zone.take_only_hole(1, zone.holes(0), order), expected, "{free:?}");
            let taken = before - zone.stats().free_frames;
            assert_eq!(taken, expected.map_or(0, |_| 1 << order));
        }
    }

    #[test]
    fn empty_rows_of_the_part_are_closed_and_no_others() {
        let zone = zone();
        assert!(zone.open(Part::of::<Base4K>(0, 0, 4), 7, 0));
        zone.close(Part::of::<Base4K>(0, 0, 2));
        assert_eq!([0, 1, 2, 3].map(|row| zone.state(row)), [OPEN, FREE, OPEN, OPEN]);
        let bits = [0, 1, 2, 3].map(|row| zone.bits(row));
        assert_eq!(bits, [Base4K::ALL & !(1 << 7), 0, Base4K::ALL, Base4K::ALL]);
    }

    fn is_taken_at_once<G: Geometry>() {
        let zone = pair::<G>();
        assert_eq!([1, 2].map(|child| zone.take_closed_pair(child)), [None; 2]);
        assert!(zone.open(Part::of::<G>(1, 0, 1), 0, 0));
        assert_eq!(zone.take_closed_pair(0), None);
        assert_eq!(zone.states(0), 0);
        let _ = zone.rows[G::ROWS].fetch_or(1, SeqCst);
        zone.close(Part::whole::<G>(1));
        assert_eq!(zone.take_closed_pair(0), Some(HugeFlags::BACKED));
        assert_eq!([0, 1].map(|child| zone.take_closed(child)), [None; 2]);
    }

    /// Whether it has one word or two.
    #[test]
    fn a_pair_is_taken_at_once_where_both_are_free_and_closed() {
        is_taken_at_once::<Base4K>();
        is_taken_at_once::<Base16K>();
    }

    fn is_not_freed_in_part<G: Geometry>() {
        for part in [70, G::HUGE_FRAMES + 70] {
            let zone = pair::<G>();
            assert!(zone.take_pair(0));
            assert_eq!(zone.free(FrameId(part), Order(0), Slot(0)), Ok(()));
            let refused = Err(FreeError::NotAllocated(FrameId(0)));
            assert_eq!(zone.free(FrameId(0), Order(G::MAX_ORDER as u8), Slot(0)), refused);
            assert_eq!(zone.stats().free_frames, 1);
        }
    }

    #[test]
    fn a_pair_of_which_a_part_is_free_is_not_freed() {
        is_not_freed_in_part::<Base4K>();
        is_not_freed_in_part::<Base16K>();
    }

    /// After the first word of a pair is freed, and before the second is.
    #[test]
    fn a_wrong_free_takes_no_half_of_a_pair_along() {
        let zone = pair::<Base16K>();
        assert!(zone.turn_free(Part::whole::<Base16K>(1), TAKEN));
        assert_eq!(zone.free(FrameId(2048 + 70), Order(0), Slot(0)), Ok(()));
        zone.given_pair(0);
        assert_eq!(zone.stats().free_frames, 4096);
    }

    /// A call that has one half, and finds the other taken, gives the first back.
    #[test]
    fn no_half_of_a_pair_is_kept() {
        let zone = pair::<Base16K>();
        assert_eq!(zone.isolate(HugeId(1), 1), Ok(()));
        assert_eq!((zone.take_closed_pair(0), zone.take_pair(0)), (None, false));
        assert_eq!(zone.states(0), 0);
    }

    /// What is said of a huge frame leaves its neighbour alone.
    #[test]
    fn a_huge_frame_and_its_neighbour_are_told_apart() {
        for child in [0, 1] {
            let (zone, other) = (zone(), 1 - child);
            let both = || [child, other].map(|child| zone.states(child));
            let [taken, offline] = [TAKEN, OFFLINE].map(|to| Part::whole::<Base4K>(child).all(to));
            assert!(zone.take_closed(child).is_some());
            assert_eq!(both(), [taken, 0]);
            assert!(zone.open(Part::of::<Base4K>(other, 0, 1), 0, 0));
            assert!(zone.turn(Part::of::<Base4K>(other, 2, 2), FREE, TAKEN));
            let open = zone.states(other);
            zone.put_offline(child);
            assert_eq!(both(), [offline, open]);
            assert!(zone.turn(Part::whole::<Base4K>(child), OFFLINE, TAKEN));
            zone.untake(child);
            assert_eq!(both(), [0, open]);
        }
    }
}
