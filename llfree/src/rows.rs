//! The bit field: which base frames of one huge frame are allocated.
//!
//! ```text
//!   row 0         row 1               row 2^H/64 - 1      64 frames each, one atomic word
//!   ┌────────────┬────────────┬─ ─ ─┬────────────┐
//!   │ frame 0…63 │ 64…127     │     │ …2^H - 1   │        4 KiB base: 8 rows, one cache line
//!   └────────────┴────────────┴─ ─ ─┴────────────┘
//! ```
//!
//! A bit says *allocated* when it differs from the child's polarity (see [`state`](crate::state)).
//! Legal values: any. A geometry with fewer than 64 frames in a huge frame uses the low bits of
//! one row; the others are never read for meaning.
//!
//! Orders up to 6 change one row by one compare-and-swap. Orders 7 to H-1 change 2^(o-6) rows one after the
//! other. A claim that loses a row takes back the rows before it and looks elsewhere. Only a caller with
//! credits claims, so the rows that it takes back still belong to it.
//!
//! *Progress*: lock-free; every search is bounded by two passes over the field.
//! *Ordering*: a claim acquires what the release of the same bit published. A release acquires as well:
//! [`Rows::is_full`] says why.
//! *Crash*: a claim is persistent when it returns, and so is what a call turned back: only then do its credits
//! go back. A release is written back; it is persistent after a fence, which its caller makes before it gives
//! the credits. So a credit is never one of a frame that a crash could show as allocated, and the rows of a
//! huge frame that is closed have the free value in the durable memory as well.

use core::marker::PhantomData;
use core::slice;

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{Geometry, Persistence};

use crate::record::{Intent, Operation};
use crate::row::{ROW_ORDER, row_count, row_mask};
use crate::state::Polarity;

/// The rows of one huge frame, read with one polarity.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a, G, P> {
    rows: &'a [AtomicU64],
    polarity: Polarity,
    persistence: P,
    geometry: PhantomData<G>,
}

/// Where a block was seen to be free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spot {
    /// The row, or the first of them.
    pub(crate) row: usize,
    /// What was in it, and where in it such a block begins; for several rows without meaning.
    value: u64,
    starts: u64,
}

/// Of a write that no record is to name.
const NOTHING: (fn(), fn()) = (|| {}, || {});

/// Which way bits are turned.
#[derive(Clone, Copy)]
enum Turn {
    Claim,
    Release,
}

impl Turn {
    const fn operation(self) -> Operation {
        match self {
            Turn::Claim => Operation::Alloc,
            Turn::Release => Operation::Free,
        }
    }
}

/// The ordering of a claim that succeeds. With intents it releases as well: what names it comes first.
#[inline(always)]
pub(crate) const fn claiming<P: Persistence>() -> Ordering {
    if P::INTENTS { Ordering::AcqRel } else { Ordering::Acquire }
}

/// The bits that a block of `order` (at most 6) takes at the low end of a row.
const fn block_mask(order: u32) -> u64 {
    !0 >> (64 - (1u32 << order))
}

/// How many rows a block of `order` takes, at least one.
const fn rows_of(order: u32) -> usize {
    if order > ROW_ORDER { 1 << (order - ROW_ORDER) } else { 1 }
}

/// Of the free frames of a row, those at which an aligned free block of `order` (at most 6)
/// begins.
const fn block_starts(free: u64, order: u32) -> u64 {
    // Every 2^o-th bit, for o = 0 … 6; and one more, so that three bits of the order are an index.
    const ALIGNED: [u64; 8] = [
        0xffff_ffff_ffff_ffff,
        0x5555_5555_5555_5555,
        0x1111_1111_1111_1111,
        0x0101_0101_0101_0101,
        0x0001_0001_0001_0001,
        0x0000_0001_0000_0001,
        1,
        1,
    ];
    if order == 0 {
        return free;
    }
    let mut starts = free;
    let mut step = 0;
    while step < order {
        starts &= starts >> (1 << step);
        step += 1;
    }
    starts & ALIGNED[order as usize & 7]
}

/// The lowest `count` bits of those that are set.
fn lowest(bits: u64, count: usize) -> u64 {
    if bits.count_ones() as usize <= count {
        return bits;
    }
    let rest = (0..count).fold(bits, |rest, _| rest & rest.wrapping_sub(1));
    bits ^ rest
}

impl<'a, G: Geometry, P: Persistence> Rows<'a, G, P> {
    /// `rows` are the [`row_count`] rows of one huge frame.
    pub(crate) fn new(rows: &'a [AtomicU64], polarity: Polarity, persistence: P) -> Self {
        Self { rows, polarity, persistence, geometry: PhantomData }
    }

    fn free_in(&self, row: u64) -> u64 {
        self.polarity.free_in(row) & row_mask::<G>()
    }

    /// The number of free frames.
    pub(crate) fn count_free(&self) -> usize {
        let free = |row: &AtomicU64| self.free_in(row.load(Ordering::Relaxed)).count_ones();
        self.rows.iter().map(|row| free(row) as usize).sum()
    }

    /// Is every frame allocated? By read-modify-writes, so that a release comes either before, and is
    /// seen, or after, and sees what this call's thread did before.
    pub(crate) fn is_full(&self) -> bool {
        self.rows.iter().all(|row| self.free_in(row.fetch_or(0, Ordering::AcqRel)) == 0)
    }

    /// Is every frame of the block free?
    #[inline]
    pub(crate) fn is_free(&self, offset: usize, order: u32) -> bool {
        if order > ROW_ORDER {
            return self.all_are(self.run(offset, order), !0);
        }
        let mask = block_mask(order) << (offset & 63);
        self.free_in_row(offset) & mask == mask
    }

    /// Is some frame of the block free?
    pub(crate) fn has_free(&self, offset: usize, order: u32) -> bool {
        if order > ROW_ORDER {
            let free = |row: &AtomicU64| self.free_in(row.load(Ordering::Relaxed)) != 0;
            return self.run(offset, order).iter().any(free);
        }
        self.free_in_row(offset) & block_mask(order) << (offset & 63) != 0
    }

    /// The free frames of the row at `offset`; none past the end.
    pub(crate) fn free_in_row(&self, offset: usize) -> u64 {
        let row = self.rows.get(offset >> ROW_ORDER);
        row.map_or(0, |row| self.free_in(row.load(Ordering::Relaxed)))
    }

    /// Has every one of these rows exactly the frames `free` free? False for none.
    #[inline]
    fn all_are(&self, rows: &[AtomicU64], free: u64) -> bool {
        !rows.is_empty()
            && rows.iter().all(|row| self.polarity.free_in(row.load(Ordering::Relaxed)) == free)
    }

    /// The rows of a block of an order above 6.
    #[inline]
    fn run(&self, offset: usize, order: u32) -> &'a [AtomicU64] {
        let first = offset >> ROW_ORDER;
        self.rows.get(first..first + (1 << (order - ROW_ORDER))).unwrap_or_default()
    }

    /// Where a block of `order` could be claimed now in a huge frame that is entirely free.
    #[inline(always)]
    pub(crate) fn first(&self, order: u32) -> Spot {
        let starts = if order > ROW_ORDER { 0 } else { block_starts(row_mask::<G>(), order) };
        Spot { row: 0, value: self.polarity.all_free(), starts }
    }

    /// Where a block of `order` could be claimed now, looking first at row `from`.
    pub(crate) fn find(&self, order: u32, from: usize) -> Option<Spot> {
        let step = rows_of(order);
        let looks = row_count::<G>() / step;
        (0..looks).find_map(|n| self.look(order, (from + n * step) % row_count::<G>()))
    }

    /// The same in row `row` alone, or in the aligned run of rows that it lies in.
    #[inline(always)]
    pub(crate) fn look(&self, order: u32, row: usize) -> Option<Spot> {
        if order > ROW_ORDER {
            let row = row & !(rows_of(order) - 1);
            let free = self.all_are(self.run(row << ROW_ORDER, order), !0);
            return free.then_some(Spot { row, value: 0, starts: 0 });
        }
        let value = self.rows.get(row)?.load(Ordering::Relaxed);
        let starts = block_starts(self.free_in(value), order);
        (starts != 0).then_some(Spot { row, value, starts })
    }

    /// How many rows are full after a claim of `order` at `spot`, so that the next search goes behind them.
    /// For small orders that is too rare to look.
    #[inline(always)]
    pub(crate) fn filled(&self, order: u32, spot: Spot) -> usize {
        let last = spot.starts & spot.starts.wrapping_sub(1) == 0;
        let full = order >= ROW_ORDER || order >= ROW_ORDER - 2 && last;
        if full { rows_of(order) } else { 0 }
    }

    /// Claims a block of `order` where one was found, or elsewhere; the caller holds its credits.
    /// Returns the offset of the block's first frame, or how many of the credits are lost (see
    /// [`toggle`](Self::toggle)).
    pub(crate) fn claim(
        &self,
        order: u32,
        spot: Spot,
        intent: Intent<'_, G, P>,
    ) -> Result<usize, usize> {
        match self.claim_in(spot, order, intent) {
            Err(0) => self.claim_behind(order, spot.row, intent),
            done => done,
        }
    }

    /// Claims a block of `order` wherever there is one.
    #[cold]
    pub(crate) fn claim_behind(
        &self,
        order: u32,
        from: usize,
        intent: Intent<'_, G, P>,
    ) -> Result<usize, usize> {
        // Twice: bits that a claim took and then took back while the search passed, and bits that
        // were released behind it, are found by the second pass.
        for step in 0..2 * row_count::<G>() / rows_of(order) {
            let row = (from + step * rows_of(order)) % row_count::<G>();
            if let Some(spot) = self.look(order, row) {
                match self.claim_in(spot, order, intent) {
                    Err(0) => {}
                    done => return done,
                }
            }
        }
        Err(0)
    }

    /// Claims a block where one was found, and nowhere else; returns its offset, or how many of the
    /// credits are lost.
    #[inline(always)]
    pub(crate) fn claim_in(
        &self,
        spot: Spot,
        order: u32,
        intent: Intent<'_, G, P>,
    ) -> Result<usize, usize> {
        let Spot { row, mut value, mut starts } = spot;
        if order > ROW_ORDER {
            return self.claim_at(row << ROW_ORDER, order, intent).map(|()| row << ROW_ORDER);
        }
        let word = self.rows.get(row).ok_or(0usize)?;
        loop {
            match self.claim_of(word, Spot { row, value, starts }, order, intent) {
                Ok(offset) => return Ok(offset),
                Err(now) => {
                    intent.withdraw();
                    value = now;
                }
            }
            starts = block_starts(self.free_in(value), order);
            if starts == 0 {
                return Err(0);
            }
        }
    }

    /// The same by one swap: a block of at most a row is not looked for again if the row has changed. So nothing has to
    /// be kept for a second one.
    #[inline(always)]
    pub(crate) fn claim_once(
        &self,
        spot: Spot,
        order: u32,
        intent: Intent<'_, G, P>,
    ) -> Result<usize, usize> {
        if order > ROW_ORDER {
            return self.claim_in(spot, order, intent);
        }
        let word = self.rows.get(spot.row).ok_or(0usize)?;
        self.claim_of(word, spot, order, intent).map_err(|_| 0)
    }

    /// Claims a block of a row that is as it was seen, or says what it is.
    #[inline(always)]
    fn claim_of(
        &self,
        word: &AtomicU64,
        Spot { row, value, starts }: Spot,
        order: u32,
        intent: Intent<'_, G, P>,
    ) -> Result<usize, u64> {
        let at = starts.trailing_zeros();
        let claimed = value ^ block_mask(order) << at;
        intent.write(Operation::Alloc, order, row << ROW_ORDER | at as usize);
        word.compare_exchange(value, claimed, claiming::<P>(), Ordering::Relaxed)?;
        self.persist(slice::from_ref(word));
        Ok(row << ROW_ORDER | at as usize)
    }

    /// Claims up to `count` single frames, looking first at row `from`, and passes the offset of each
    /// to `take`; the caller holds the credits. Returns how many.
    pub(crate) fn claim_many(
        &self,
        count: usize,
        from: usize,
        intent: Intent<'_, G, P>,
        mut take: impl FnMut(usize),
    ) -> usize {
        let mut left = count;
        let rows = (from..row_count::<G>()).chain(0..row_count::<G>());
        for index in rows {
            let Some(row) = self.rows.get(index).filter(|_| left > 0) else {
                break;
            };
            let mut value = row.load(Ordering::Relaxed);
            let mut claimed = loop {
                let some = lowest(self.free_in(value), left);
                if some == 0 {
                    break 0;
                }
                if !intent.frames(index << ROW_ORDER, some) {
                    break 0;
                }
                let claimed = value ^ some;
                match row.compare_exchange(value, claimed, claiming::<P>(), Ordering::Relaxed) {
                    Ok(_) => {
                        self.persistence.write_back(row);
                        break some;
                    }
                    Err(now) => {
                        intent.withdraw();
                        value = now;
                    }
                }
            };
            left -= claimed.count_ones() as usize;
            while claimed != 0 {
                take(index << ROW_ORDER | claimed.trailing_zeros() as usize);
                claimed &= claimed - 1;
            }
        }
        if left < count {
            self.persistence.fence();
        }
        count - left
    }

    /// Releases the frames `mask` of row `index`, all of which must be allocated, or none of them.
    pub(crate) fn release_in(&self, index: usize, mask: u64) -> bool {
        self.rows.get(index).is_some_and(|row| self.toggle_row(row, mask, Turn::Release, NOTHING))
    }

    /// Claims the frames `mask` of row `index`, all of which must be free, or none of them.
    pub(crate) fn claim_mask(&self, index: usize, mask: u64) -> bool {
        self.rows.get(index).is_some_and(|row| self.toggle_row(row, mask, Turn::Claim, NOTHING))
    }

    /// Claims this very block; the caller holds its credits. Fails with the number of credits that
    /// are lost.
    #[inline(always)]
    pub(crate) fn claim_at(
        &self,
        offset: usize,
        order: u32,
        intent: Intent<'_, G, P>,
    ) -> Result<(), usize> {
        self.toggle(offset, order, Turn::Claim, intent)
    }

    /// Releases a block, all of whose frames must be allocated. Fails with the number of frames
    /// that were released all the same and now belong to somebody else.
    ///
    /// Every frame is looked at before the first one is released, so that a wrong free changes
    /// nothing; after that only a second free of the same frames can come between.
    #[inline(always)]
    pub(crate) fn release(
        &self,
        offset: usize,
        order: u32,
        intent: Intent<'_, G, P>,
    ) -> Result<(), usize> {
        if order > ROW_ORDER && !self.all_are(self.run(offset, order), 0) {
            return Err(0);
        }
        self.toggle(offset, order, Turn::Release, intent)
    }

    /// Releases a block of at most a row by one swap. False: some frame is free, or the row has just changed.
    #[inline(always)]
    pub(crate) fn release_once(&self, offset: usize, order: u32, intent: Intent<'_, G, P>) -> bool {
        let Some(row) = self.rows.get(offset >> ROW_ORDER) else {
            return false;
        };
        let (value, mask) = (row.load(Ordering::Relaxed), block_mask(order) << (offset & 63));
        if self.free_in(value) & mask != 0 {
            return false;
        }
        intent.write(Operation::Free, order, offset);
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let released = row.compare_exchange(value, value ^ mask, success, failure).is_ok();
        if released {
            self.turned(slice::from_ref(row), Turn::Release);
        }
        released
    }

    /// Turns the bits of a block, which must all be free or all allocated. When a row turns out
    /// not to be so, the rows before it are turned back, and the error is the number of frames for
    /// which that came too late: a wrong free of frames that were just being claimed, or a claim of
    /// frames that were being freed twice. 0 when nobody made such a mistake.
    #[inline(always)]
    fn toggle(
        &self,
        offset: usize,
        order: u32,
        turn: Turn,
        intent: Intent<'_, G, P>,
    ) -> Result<(), usize> {
        if order > ROW_ORDER {
            return self.toggle_rows(offset, order, turn, intent);
        }
        let mask = block_mask(order) << (offset & 63);
        let row = self.rows.get(offset >> ROW_ORDER).ok_or(0usize)?;
        let said = (|| intent.write(turn.operation(), order, offset), || intent.withdraw());
        if self.toggle_row(row, mask, turn, said) { Ok(()) } else { Err(0) }
    }

    #[inline(always)]
    fn toggle_rows(
        &self,
        offset: usize,
        order: u32,
        turn: Turn,
        intent: Intent<'_, G, P>,
    ) -> Result<(), usize> {
        let (rows, all_free) = (self.run(offset, order), self.polarity.all_free());
        // A whole row has but one value that is right.
        let (before, success) = match turn {
            Turn::Claim => (all_free, claiming::<P>()),
            Turn::Release => (!all_free, Ordering::AcqRel),
        };
        for (done, row) in rows.iter().enumerate() {
            intent.row(turn.operation(), order, offset, done);
            if row.compare_exchange(before, !before, success, Ordering::Relaxed).is_err() {
                let intent = if P::INTENTS { Some(&intent) } else { None };
                return Err(self.turn_all_back(rows, done, turn, intent));
            }
            if P::INTENTS && matches!(turn, Turn::Release) {
                self.persist(slice::from_ref(row));
            }
        }
        self.turned(rows, turn);
        intent.done(turn.operation(), order, offset);
        Ok(())
    }

    #[inline(always)]
    fn toggle_row(
        &self,
        row: &AtomicU64,
        mask: u64,
        turn: Turn,
        (say, withdraw): (impl Fn(), impl Fn()),
    ) -> bool {
        let (free, success) = match turn {
            Turn::Claim => (mask, claiming::<P>()),
            Turn::Release => (0, Ordering::AcqRel),
        };
        let mut value = row.load(Ordering::Relaxed);
        while self.free_in(value) & mask == free {
            say();
            match row.compare_exchange(value, value ^ mask, success, Ordering::Relaxed) {
                Ok(_) => {
                    self.turned(slice::from_ref(row), turn);
                    return true;
                }
                Err(now) => {
                    withdraw();
                    value = now;
                }
            }
        }
        false
    }

    /// Rows were turned. A claim is persistent when it returns. What else a release has to make persistent
    /// its caller knows, and fences.
    #[inline(always)]
    fn turned(&self, rows: &[AtomicU64], turn: Turn) {
        match turn {
            Turn::Claim => self.persist(rows),
            Turn::Release => self.persistence.write_back_all(rows),
        }
    }

    #[inline(always)]
    fn persist(&self, rows: &[AtomicU64]) {
        self.persistence.write_back_all(rows);
        self.persistence.fence();
    }

    /// Turns rows back, the last first, and makes each persistent before the next: with an intent the step says which
    /// of them are still ours. What a wrong free had released, others may own by now: nothing is said of that.
    #[cold]
    fn turn_all_back(
        &self,
        rows: &[AtomicU64],
        count: usize,
        turn: Turn,
        intent: Option<&Intent<'_, G, P>>,
    ) -> usize {
        let back = |row: &AtomicU64| {
            match (turn, intent) {
                (Turn::Claim, Some(intent)) => intent.step_back(),
                (Turn::Release, Some(intent)) => intent.undone(turn.operation()),
                _ => {}
            }
            let lost = self.turn_back(row, turn);
            self.persist(slice::from_ref(row));
            lost
        };
        let lost = rows.get(..count).unwrap_or_default().iter().rev().map(back).sum();
        intent.into_iter().for_each(|intent| intent.undone(turn.operation()));
        lost
    }

    /// Undoes a turn of a whole row; returns how many of its frames were otherwise already.
    fn turn_back(&self, row: &AtomicU64, turn: Turn) -> usize {
        let all_free = self.polarity.all_free();
        // What an undone release made visible was visible before: only an undone claim publishes.
        let (target, success) = match turn {
            Turn::Claim => (all_free, Ordering::Release),
            Turn::Release => (!all_free, Ordering::Acquire),
        };
        (row.swap(target, success) ^ target ^ !0).count_ones() as usize
    }
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;

    use super::*;
    use std::vec::Vec;
    use woodlot_frame::{Base4K, Volatile};

    const NONE: Intent<'_, Base4K, Volatile> = Intent::none();

    /// Rows in which these frames are allocated.
    fn words<const N: usize>(rows: [u64; N]) -> [AtomicU64; N] {
        rows.map(AtomicU64::new)
    }

    fn of(rows: &[AtomicU64]) -> Rows<'_, Base4K, Volatile> {
        Rows::new(rows, Polarity(false), Volatile)
    }

    fn values<const N: usize>(rows: &[AtomicU64; N]) -> [u64; N] {
        rows.each_ref().map(|row| row.load(Ordering::Relaxed))
    }

    #[test]
    fn a_huge_frame_that_is_not_there_has_nothing() {
        let none = of(&[]);
        for order in 0..9 {
            assert!(!none.is_free(0, order));
            assert_eq!(none.find(order, 0), None);
            assert_eq!(none.claim_behind(order, 3, NONE), Err(0));
            assert_eq!(none.release(0, order, NONE), Err(0));
        }
        assert_eq!(none.claim(0, none.first(0), NONE), Err(0));
        assert_eq!(none.claim_many(5, 0, NONE, |_| unreachable!("nothing is claimed")), 0);
        assert_eq!([none.claim_mask(0, 1), none.release_in(0, 1)], [false, false]);
    }

    #[test]
    fn a_block_that_is_lost_is_found_elsewhere() {
        let rows = words([!0, 0, !0, !0, 0, 0, !0, !0]);
        let found = of(&rows).find(6, 0).expect("row 1 is free");
        // Somebody is quicker, and leaves a half.
        assert_eq!(of(&rows).claim_at(64, 5, NONE), Ok(()));
        assert_eq!(of(&rows).claim_in(found, 6, NONE), Err(0));
        assert_eq!(of(&rows).claim(6, found, NONE), Ok(4 * 64));
        let half = Spot { row: 1, value: 0, starts: 1 };
        assert_eq!(of(&rows).claim(5, half, NONE), Ok(64 + 32));
        assert_eq!(values(&rows), [!0, !0, !0, !0, !0, 0, !0, !0]);
        assert_eq!(of(&rows).claim(7, Spot { row: 4, value: 0, starts: 0 }, NONE), Err(0));
        assert_eq!(values(&rows), [!0, !0, !0, !0, !0, 0, !0, !0]);
    }

    #[test]
    fn several_frames_are_claimed_row_by_row() {
        let rows = words([!0, !0b1011, 0, !0, !0, !0, !0, !0]);
        let claim = |count, from| {
            let mut taken = Vec::new();
            assert_eq!(
                of(&rows).claim_many(count, from, NONE, |offset| taken.push(offset)),
                taken.len()
            );
            taken
        };
        assert_eq!(claim(4, 1), [64, 65, 67, 128], "no more of the last row than asked for");
        assert_eq!(values(&rows), [!0, !0, 1, !0, !0, !0, !0, !0]);
        assert_eq!(claim(2, 3), [129, 130], "the search goes round");
        assert_eq!(claim(64, 2), Vec::from_iter(131..192), "what there is");
        assert_eq!(values(&rows), [!0; 8]);
    }

    #[test]
    fn some_frames_of_a_row_are_turned_together_or_not() {
        let rows = words([!0, 0b1100, !0, !0, !0, !0, !0, !0]);
        assert_eq!([of(&rows).release_in(1, 0b0110), of(&rows).claim_mask(1, 0b0110)], [false; 2]);
        assert_eq!(values(&rows)[1], 0b1100);
        assert!(of(&rows).release_in(1, 0b0100) && of(&rows).claim_mask(1, 0b0011));
        assert_eq!(values(&rows)[1], 0b1011);
    }

    #[test]
    fn a_search_comes_to_every_place_of_a_block() {
        for order in 0..9 {
            for start in (0..512).step_by(1 << order) {
                for from in 0..8 {
                    let rows = [(); 8].map(|()| AtomicU64::new(!0));
                    of(&rows).release(start, order, NONE).expect("all are allocated");
                    assert_eq!(of(&rows).claim_behind(order, from, NONE), Ok(start));
                    assert_eq!(values(&rows), [!0; 8]);
                }
            }
        }
    }

    #[test]
    fn a_large_claim_says_which_rows_it_fills() {
        let free = of(&[]);
        let filled = |order, starts| free.filled(order, Spot { row: 0, value: 0, starts });
        assert_eq!([6, 7, 8].map(|order| filled(order, 0)), [1, 2, 4]);
        let last = [0, 3, 4, 5].map(|order| filled(order, 1 << 32));
        let one_of_two = [0, 3, 4, 5].map(|order| filled(order, 1 << 32 | 1));
        assert_eq!((last, one_of_two), ([0, 0, 1, 1], [0, 0, 0, 0]));
    }

    #[test]
    fn blocks_of_several_rows_are_turned_as_a_whole_or_not() {
        let before = [0, 0, 0, 1, !0, !0, !0, !1];
        let rows = words(before);
        assert_eq!(of(&rows).claim_at(0, 8, NONE), Err(0));
        assert_eq!(of(&rows).release(256, 8, NONE), Err(0));
        // The same after it was looked at, as a second free of the same frames may come upon it.
        assert_eq!(of(&rows).toggle(256, 8, Turn::Release, NONE), Err(0));
        assert_eq!(values(&rows), before);
        assert_eq!(of(&rows).claim_at(0, 7, NONE), Ok(()));
        assert_eq!(of(&rows).release(256, 7, NONE), Ok(()));
        assert_eq!(values(&rows), [!0, !0, 0, 1, 0, 0, !0, !1]);
    }

    #[test]
    fn what_others_changed_meanwhile_is_not_undone() {
        // The row was claimed as a whole; wrong frees have released all of it but one frame since.
        let rows = words([0b1000]);
        assert_eq!(of(&rows).turn_back(&rows[0], Turn::Claim), 63);
        assert_eq!(values(&rows), [0]);
    }
}
