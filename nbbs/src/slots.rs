//! The words of a slot: where its next search begins, its share of the count of free frames, and a release
//! that it has put off.
//!
//! ```text
//!   one cache line for each slot, and one for the zone:
//!   ┌──────┬───────┬──────┬─────────────┐
//!   │ hint │ count │ late │   unused    │
//!   └──────┴───────┴──────┴─────────────┘
//! ```
//!
//! * *hint*: the offset of the block that the slot allocated last, or the offset at which it is to look
//!   next. Any value will do. Slots begin apart from one another, and go apart where they meet.
//! * *count*: the frames that the slot has freed less the frames it has allocated, modulo 2^64. The sum of
//!   all counts is the number of free frames. A slot's count is loaded and stored, which costs no atomic
//!   operation; if two calls use one slot at once, the share of one call may be lost. The zone's own count
//!   is added to by offline and online, and by a call that counts the frames themselves and finds the sum
//!   wrong.
//! * *late*: the cell whose release is put off (`deferred.rs`): its number, then 8 bits for its group and
//!   one; 0 for none. The word is sequentially consistent, as cells are (`form.rs`): a word that names a
//!   cell must not be older than the cell's value.

use woodlot_frame::atomics::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use crate::shape::Cell;

/// Words of a line.
pub(crate) const LINE: usize = 8;
/// A line's words.
const HINT: usize = 0;
const COUNT: usize = 1;
const LATE: usize = 2;

/// The lines of all slots, and the zone's behind them.
pub(crate) struct Slots<'a>(pub(crate) &'a [AtomicU64]);

impl Slots<'_> {
    /// How many words that takes.
    pub(crate) const fn words(slots: usize) -> usize {
        (slots + 1) * LINE
    }

    fn word(&self, slot: usize, word: usize) -> Option<&AtomicU64> {
        self.0.get(slot * LINE + word)
    }

    /// The number of the zone's line.
    fn zone(&self) -> usize {
        (self.0.len() / LINE).saturating_sub(1)
    }

    /// Before the first call: hints apart from one another in `frames` frames, and so many free.
    pub(crate) fn start(&self, frames: usize, free: usize) {
        self.0.iter().for_each(|word| word.store(0, Relaxed));
        let slots = self.zone();
        (0..slots).for_each(|slot| self.set_hint(slot, frames / slots * slot));
        self.add(free as u64);
    }

    #[inline(always)]
    pub(crate) fn hint(&self, slot: usize) -> usize {
        self.word(slot, HINT).map_or(0, |word| word.load(Relaxed) as usize)
    }

    #[inline(always)]
    pub(crate) fn set_hint(&self, slot: usize, offset: usize) {
        let word = self.word(slot, HINT).into_iter();
        word.for_each(|word| word.store(offset as u64, Relaxed));
    }

    /// The cell whose release is put off.
    #[inline(always)]
    pub(crate) fn late(&self, slot: usize) -> Option<Cell> {
        let word = self.word(slot, LATE)?;
        // As for cells: see `form.rs`.
        #[cfg(not(woodlot_loom))]
        let late = word.load(SeqCst);
        #[cfg(woodlot_loom)]
        let late = word.fetch_add(0, SeqCst);
        unpack(late)
    }

    /// Keeps another cell, or none, and returns the one before. If there is no such slot, the new cell comes back.
    #[inline(always)]
    pub(crate) fn swap_late(&self, slot: usize, cell: Option<Cell>) -> Option<Cell> {
        match self.word(slot, LATE) {
            Some(word) => unpack(word.swap(pack(cell), SeqCst)),
            None => cell,
        }
    }

    /// Counts frames that a call on this slot has freed, or allocated (negative).
    #[inline(always)]
    pub(crate) fn count(&self, slot: usize, frames: isize) {
        let word = self.word(slot, COUNT).into_iter();
        word.for_each(|word| word.store(word.load(Relaxed).wrapping_add(frames as u64), Relaxed));
    }

    /// Adds to the zone's count.
    pub(crate) fn add(&self, frames: u64) {
        let word = self.word(self.zone(), COUNT).into_iter();
        word.for_each(|word| _ = word.fetch_add(frames, Relaxed));
    }

    /// The sum of all counts, modulo 2^64.
    pub(crate) fn sum(&self) -> u64 {
        let counts = self.0.iter().skip(COUNT).step_by(LINE);
        counts.fold(0, |sum, count| sum.wrapping_add(count.load(Relaxed)))
    }

    /// How many frames are free by the counts, at most `frames`. The sum itself may be out of that range while
    /// other calls change it, or after two calls used one slot at once.
    pub(crate) fn free(&self, frames: usize) -> usize {
        ((self.sum() as i64).max(0) as usize).min(frames)
    }

    /// Makes the sum equal to the count `free`, unless another call changes the zone's count meanwhile. So of two
    /// calls that count at once, only one corrects the sum.
    pub(crate) fn heal(&self, free: u64) {
        self.word(self.zone(), COUNT).into_iter().for_each(|word| {
            let now = word.load(Relaxed);
            let right = now.wrapping_add(free).wrapping_sub(self.sum());
            if right != now {
                let _ = word.compare_exchange(now, right, Relaxed, Relaxed);
            }
        });
    }
}

fn pack(cell: Option<Cell>) -> u64 {
    cell.map_or(0, |cell| (cell.number as u64) << 8 | u64::from(cell.group + 1))
}

fn unpack(late: u64) -> Option<Cell> {
    let group = (late & 0xFF).checked_sub(1)?;
    Some(Cell { group: group as u32, number: (late >> 8) as usize })
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;

    #[test]
    fn counts_sum_up_and_hints_are_apart() {
        let words: [AtomicU64; Slots::words(3)] = core::array::from_fn(|_| AtomicU64::new(77));
        let slots = Slots(&words);
        slots.start(300, 250);
        assert_eq!([0, 1, 2].map(|slot| slots.hint(slot)), [0, 100, 200]);
        slots.count(0, -8);
        slots.count(2, 3);
        slots.add(5);
        assert_eq!(slots.sum(), 250);
        slots.set_hint(1, 42);
        assert_eq!((slots.hint(1), slots.sum()), (42, 250));
        slots.heal(99);
        slots.heal(99);
        assert_eq!(slots.sum(), 99);
    }

    #[test]
    fn a_sum_below_zero_is_nothing() {
        let words: [AtomicU64; Slots::words(2)] = core::array::from_fn(|_| AtomicU64::new(0));
        let slots = Slots(&words);
        slots.start(300, 5);
        slots.count(0, -8);
        assert_eq!((slots.sum() as i64, slots.free(300)), (-3, 0));
        slots.count(1, 308);
        assert_eq!(slots.free(300), 300);
    }

    #[test]
    fn a_slot_keeps_a_cell() {
        let words: [AtomicU64; Slots::words(2)] = core::array::from_fn(|_| AtomicU64::new(77));
        let slots = Slots(&words);
        slots.start(300, 250);
        let cells = [Cell { group: 0, number: 0 }, Cell { group: 13, number: 1 << 55 }];
        assert_eq!(slots.late(1), None);
        for cell in cells.map(Some) {
            slots.swap_late(1, cell);
            assert_eq!((slots.late(1), slots.late(0)), (cell, None));
        }
        assert_eq!(slots.swap_late(1, None), Some(cells[1]));
        assert_eq!((slots.late(1), slots.sum()), (None, 250));
    }
}
