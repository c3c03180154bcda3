//! The words of a slot: where it allocates, and its share of the count of free frames.
//!
//! ```text
//!   one cache line for each slot, and one for the zone:
//!   ┌─────┬───────┬───────┬──────┬─────────────┐
//!   │ row │ child │ count │ rich │   unused    │
//!   └─────┴───────┴───────┴──────┴─────────────┘
//! ```
//!
//! * *row*: the row from which the slot takes blocks below a row's order. One of the zone's; which one decides only
//!   where is looked first.
//! * *child*: the huge frame from which the slot takes whole rows. The same holds of it.
//! * *count*: the frames that the slot has freed less those it has allocated, modulo 2^64. It is loaded and stored, which
//!   costs no atomic operation; if two calls use one slot at once, the share of one may be lost. The zone's count is
//!   added to by offline and online, and by whoever counts the frames themselves.
//! * *rich*: of the zone's line only: a bit for each order, 0 where no tree is worth a visit for it (`hints.rs`).

use woodlot_frame::atomics::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use crate::words::load;

/// Words of a line.
const LINE: usize = 8;
/// A line's words.
const ROW: usize = 0;
const CHILD: usize = 1;
const COUNT: usize = 2;
const RICH: usize = 3;

/// The lines of all slots, and the zone's behind them.
pub(crate) struct Slots<'a>(pub(crate) &'a [AtomicU64]);

impl Slots<'_> {
    /// How many words that takes.
    pub(crate) const fn words(slots: usize) -> usize {
        (slots + 1) * LINE
    }

    #[inline(always)]
    fn word(&self, slot: usize, word: usize) -> Option<&AtomicU64> {
        self.0.get(slot * LINE + word)
    }

    /// How many slots there are; the number of the zone's line.
    pub(crate) fn len(&self) -> usize {
        (self.0.len() / LINE).saturating_sub(1)
    }

    /// Before the first call: apart from one another in so many children, and so many frames free.
    pub(crate) fn start(&self, children: usize, rows: usize, free: usize) {
        self.0.iter().for_each(|word| word.store(0, Relaxed));
        for slot in 0..self.len() {
            let child = children * slot / self.len();
            let set = |word, to: usize| {
                let word = self.word(slot, word).into_iter();
                word.for_each(|word: &AtomicU64| word.store(to as u64, Relaxed));
            };
            set(ROW, child * rows);
            set(CHILD, child);
        }
        self.add(free as u64);
    }

    #[inline(always)]
    pub(crate) fn row(&self, slot: usize) -> usize {
        self.word(slot, ROW).map_or(0, |word| word.load(Relaxed) as usize)
    }

    pub(crate) fn set_row(&self, slot: usize, row: usize) {
        self.word(slot, ROW).into_iter().for_each(|word| word.store(row as u64, Relaxed));
    }

    #[inline(always)]
    pub(crate) fn child(&self, slot: usize) -> usize {
        self.word(slot, CHILD).map_or(0, |word| word.load(Relaxed) as usize)
    }

    pub(crate) fn set_child(&self, slot: usize, child: usize) {
        let word = self.word(slot, CHILD).into_iter();
        word.for_each(|word| word.store(child as u64, Relaxed));
    }

    /// May a rich tree of the zone have a block of this order?
    pub(crate) fn is_rich(&self, order: u32) -> bool {
        self.word(self.len(), RICH).is_some_and(|word| word.load(Relaxed) & 1 << order != 0)
    }

    /// There may be one of each of these orders. Sequentially consistent like the trees' words: who says here that there is
    /// none looks at the trees next, and who changes a tree looks here next.
    pub(crate) fn set_rich(&self, orders: u64) {
        let word = self.word(self.len(), RICH).into_iter();
        let changed = word.filter(|word| load(Some(word)) & orders != orders);
        changed.for_each(|word| _ = word.fetch_or(orders, SeqCst));
    }

    /// There is none.
    pub(crate) fn set_poor(&self, orders: u64) {
        let word = self.word(self.len(), RICH).into_iter();
        word.for_each(|word| _ = word.fetch_and(!orders, SeqCst));
    }

    /// Counts frames that a call on this slot has freed, or allocated (negative).
    #[inline(always)]
    pub(crate) fn count(&self, slot: usize, frames: isize) {
        let word = self.word(slot, COUNT).into_iter();
        word.for_each(|word| word.store(word.load(Relaxed).wrapping_add(frames as u64), Relaxed));
    }

    /// Adds to the zone's count.
    pub(crate) fn add(&self, frames: u64) {
        let word = self.word(self.len(), COUNT).into_iter();
        word.for_each(|word| _ = word.fetch_add(frames, Relaxed));
    }

    /// The sum of all counts, modulo 2^64.
    fn sum(&self) -> u64 {
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
        self.word(self.len(), COUNT).into_iter().for_each(|word| {
            let now = word.load(Relaxed);
            let right = now.wrapping_add(free).wrapping_sub(self.sum());
            if right != now {
                let _ = word.compare_exchange(now, right, Relaxed, Relaxed);
            }
        });
    }
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;

    #[test]
    fn counts_sum_up_and_slots_are_apart() {
        let words: [AtomicU64; Slots::words(3)] = core::array::from_fn(|_| AtomicU64::new(77));
        let slots = Slots(&words);
        slots.start(300, 8, 250);
        assert_eq!(
            [0, 1, 2].map(|slot| (slots.row(slot), slots.child(slot))),
            [(0, 0), (800, 100), (1600, 200)]
        );
        slots.count(0, -8);
        slots.count(2, 3);
        slots.add(5);
        assert_eq!(slots.free(300), 250);
        slots.set_row(1, 42);
        slots.set_child(1, 7);
        assert_eq!((slots.row(1), slots.child(1)), (42, 7));
        slots.heal(99);
        assert_eq!((slots.free(300), slots.free(98)), (99, 98));
        slots.count(0, -100);
        assert_eq!(slots.free(300), 0);
    }
}
