//! The states of rows: a word that says of each row of a pair of huge frames how it is used; of huge frames of more than 16 rows, of each of one.
//!
//! ```text
//!   bits   0 1   2 3         16 17            two for each row
//!         ┌─────┬─────┬───╥─────┬───
//!         │ row │ row │ … ║ row │ …
//!         └─────┴─────┴───╨─────┴───
//!           a huge frame    the next
//!
//!   OPEN: the row's bits count. In all other states they are 0.
//!
//!     FREE    ──▶ OPEN      a block of it is taken: then its bits are written
//!     OPEN    ──▶ FREE      it is closed: all its bits were 1, and were made 0 before
//!     FREE    ──▶ TAKEN     it is taken, with its neighbours
//!     TAKEN   ──▶ FREE      it is freed; so is an open row no frame of which is free
//!     TAKEN   ──▶ OPEN      a part of it is freed: then its bits are written
//!     TAKEN   ──▶ OFFLINE   with all of its huge frame, by the call that has taken it to do so
//!     OFFLINE ──▶ TAKEN     online, which frees it then
//! ```
//!
//! Orders from that of a row to that of a pair are allocated and freed by one compare-and-swap of this word. Only a pair of huge
//! frames of more than 16 rows has two words, and takes a compare-and-swap of each.
//!
//! What is said of the states of some rows is the word with the bits of all others 0.

use core::ops::Range;

use crate::row::Rows;

/// Nobody owns a frame of the row, and it is to be had as a whole.
pub(crate) const FREE: u64 = 0;
/// Every frame of the row is allocated.
pub(crate) const TAKEN: u64 = 1;
/// The row's bits say which frames are free.
pub(crate) const OPEN: u64 = 2;
/// The row's huge frame is offline.
pub(crate) const OFFLINE: u64 = 3;

/// The lower bit of every state.
const EACH: u64 = 0x5555_5555_5555_5555;

/// The first bits of the runs of 2^`k` states.
const ALIGNED: [u64; 6] =
    [EACH, 0x1111_1111_1111_1111, 0x0101_0101_0101_0101, 0x0001_0001_0001_0001, 0x1_0000_0001, 1];

/// Rows side by side whose states share a word: the huge frame of the first, its place in the word, and how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) child: usize,
    first: usize,
    count: usize,
}

impl Part {
    /// So many rows of a huge frame, from this one on.
    #[inline(always)]
    pub(crate) const fn of<G: Rows>(child: usize, first: usize, count: usize) -> Part {
        Part { child, first: child % G::SHARERS * G::ROWS + first, count }
    }

    /// A row.
    #[inline(always)]
    pub(crate) const fn row<G: Rows>(row: usize) -> Part {
        Part { child: row / G::ROWS, first: row % G::WORD_ROWS, count: 1 }
    }

    /// All rows of a huge frame.
    #[inline(always)]
    pub(crate) const fn whole<G: Rows>(child: usize) -> Part {
        Part::of::<G>(child, 0, G::ROWS)
    }

    /// All rows of a huge frame and the next, a pair; of the next apart, where they do not share a word.
    #[inline(always)]
    pub(crate) const fn pair<G: Rows>(child: usize) -> (Part, Option<Part>) {
        if G::SHARERS == 2 {
            return (Part::of::<G>(child, 0, G::WORD_ROWS), None);
        }
        (Part::whole::<G>(child), Some(Part::whole::<G>(child + 1)))
    }

    /// The rows of a block of `order`, at least a row's and at most a huge frame's, so many frames from the base.
    #[inline(always)]
    pub(crate) const fn at<G: Rows>(offset: usize, order: u32) -> Part {
        Part { count: 1 << (order - G::ROW_ORDER), ..Part::row::<G>(offset >> G::ROW_ORDER) }
    }

    /// The word of their states.
    #[inline(always)]
    pub(crate) const fn word<G: Rows>(self) -> usize {
        self.child / G::SHARERS
    }

    /// These states of its rows as those of the first huge frame of a word.
    #[inline(always)]
    pub(crate) const fn lowest<G: Rows>(self, states: u64) -> u64 {
        (states & self.mask()) >> place::<G>(self.first)
    }

    /// Are rows of the next huge frame among them?
    #[inline(always)]
    pub(crate) const fn is_pair<G: Rows>(self) -> bool {
        self.count > G::ROWS
    }

    /// The rows, counted from the base.
    #[inline(always)]
    pub(crate) const fn rows<G: Rows>(self) -> Range<usize> {
        let first = self.word::<G>() * G::WORD_ROWS + self.first;
        first..first + self.count
    }

    /// Where the first row begins, so many frames from the base.
    #[inline(always)]
    pub(crate) const fn offset<G: Rows>(self) -> usize {
        self.rows::<G>().start << G::ROW_ORDER
    }

    /// How many frames that is.
    #[inline(always)]
    pub(crate) const fn frames<G: Rows>(self) -> usize {
        self.count << G::ROW_ORDER
    }

    /// The rows' states, each of this value.
    #[inline(always)]
    pub(crate) const fn all(self, state: u64) -> u64 {
        let lower = (EACH >> (64 - 2 * self.count as u32)) << (2 * self.first as u32);
        lower * state
    }

    /// The bits of the rows' states.
    #[inline(always)]
    pub(crate) const fn mask(self) -> u64 {
        self.all(3)
    }

    /// Is every row in this state?
    #[inline(always)]
    pub(crate) const fn is(self, states: u64, state: u64) -> bool {
        states & self.mask() == self.all(state)
    }

    /// The word with all of these rows in another state.
    #[inline(always)]
    pub(crate) const fn with(self, states: u64, state: u64) -> u64 {
        states & !self.mask() | self.all(state)
    }

    /// The lower bits of the states of the rows that are free.
    #[inline(always)]
    pub(crate) const fn free(self, states: u64) -> u64 {
        !(states | states >> 1) & self.all(1)
    }

    /// How many frames the rows have that are free.
    #[inline(always)]
    pub(crate) const fn free_frames<G: Rows>(self, states: u64) -> usize {
        match self.free(states) {
            // Nearly always, of what is in use; and not every processor counts bits quickly.
            0 => 0,
            free => (free.count_ones() as usize) << G::ROW_ORDER,
        }
    }

    /// The first of the aligned runs of 2^`k` of these rows that are free: a look at all at once.
    #[inline(always)]
    pub(crate) fn free_run(self, states: u64, k: u32) -> Option<Part> {
        if 1 << k == self.count {
            return self.is(states, FREE).then_some(self);
        }
        let free = self.free(states);
        if free == 0 {
            return None;
        }
        let runs = (0..k).fold(free, |runs, half| runs & runs >> (2 << half));
        let runs = runs & ALIGNED.get(k as usize).copied().unwrap_or(1);
        let first = (runs.trailing_zeros() / 2) as usize;
        (runs != 0).then_some(Part { first, count: 1 << k, ..self })
    }

    /// Is every row free or taken?
    pub(crate) const fn is_closed(self, states: u64) -> bool {
        states & self.all(2) == 0
    }
}

/// Where the word of a row has its state.
#[inline(always)]
pub(crate) const fn place<G: Rows>(row: usize) -> u32 {
    2 * (row % G::WORD_ROWS) as u32
}

/// The state of a row, of its word.
#[inline(always)]
pub(crate) const fn state<G: Rows>(states: u64, row: usize) -> u64 {
    // A shift of 32 bits takes its distance modulo 32, so that no mask is made.
    if G::WORD_ROWS <= 16 {
        (states as u32 >> place::<G>(row) & 3) as u64
    } else {
        states >> place::<G>(row) & 3
    }
}

/// The lower bit of the state of a row.
#[inline(always)]
pub(crate) const fn lower<G: Rows>(row: usize) -> u64 {
    1 << place::<G>(row)
}

/// The rows, counted from the base, that have these lower bits in the word of a child.
#[inline(always)]
pub(crate) fn rows_in<G: Rows>(
    child: usize,
    mut lower: u64,
) -> impl Iterator<Item = usize> + Clone {
    let word = child / G::SHARERS;
    core::iter::from_fn(move || {
        let row = (lower != 0).then(|| (lower.trailing_zeros() / 2) as usize)?;
        lower &= lower - 1;
        Some(word * G::WORD_ROWS + row)
    })
}

/// The lower bits of the states of the rows that are taken.
pub(crate) const fn taken_rows(states: u64) -> u64 {
    states & !(states >> 1) & EACH
}

/// The lower bits of the states of the rows that are open.
#[inline(always)]
pub(crate) const fn open_rows(states: u64) -> u64 {
    states >> 1 & !states & EACH
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use woodlot_frame::{Base4K, Base16K, Base64K};

    #[test]
    fn states_are_set_and_found() {
        let part = Part::of::<Base4K>(5, 2, 2);
        let states = part.with(0, OPEN);
        assert_eq!((40..48).map(|row| state::<Base4K>(states, row)).sum::<u64>(), 2 * OPEN);
        assert!(part.is(states, OPEN) && !Part::of::<Base4K>(5, 2, 4).is(states, OPEN));
        assert_eq!(open_rows(Part::row::<Base4K>(47).with(states, OFFLINE)).count_ones(), 2);
        assert_eq!(part.with(states, FREE), 0);
        assert_eq!(Part::whole::<Base16K>(3).all(OFFLINE), !0);
        assert_eq!([2, 3].map(|child| Part::whole::<Base64K>(child).mask()), [3, 12]);
    }

    #[test]
    fn rows_are_told_apart_by_their_states() {
        let states = [FREE, TAKEN, OPEN, OFFLINE].into_iter().zip(8..);
        let states =
            states.fold(0, |states, (state, row)| Part::row::<Base4K>(row).with(states, state));
        assert_eq!([taken_rows(states), open_rows(states)], [1 << 18, 1 << 20]);
        assert_eq!(
            [0, 1].map(|child| Part::whole::<Base4K>(child).free(states)),
            [0x5555, 0x5501 << 16]
        );
    }

    #[test]
    fn parts_know_their_place() {
        let part = Part::at::<Base4K>(3 * 512 + 256, 8);
        assert_eq!(part, Part::of::<Base4K>(3, 4, 4));
        assert_eq!((part.word::<Base4K>(), part.child, part.rows::<Base4K>()), (1, 3, 28..32));
        assert_eq!((part.offset::<Base4K>(), part.frames::<Base4K>()), (3 * 512 + 256, 256));
        assert!(!part.is_pair::<Base4K>());
        let (pair, second) = Part::pair::<Base4K>(4);
        assert_eq!((pair.rows::<Base4K>(), pair.mask(), second), (32..48, 0xffff_ffff, None));
        assert!(pair.is_pair::<Base4K>());
        let (first, second) = Part::pair::<Base16K>(4);
        assert_eq!((first, second), (Part::whole::<Base16K>(4), Some(Part::whole::<Base16K>(5))));
    }

    #[test]
    fn closed_is_what_is_free_or_taken() {
        let closed = |child, states| Part::whole::<Base4K>(child).is_closed(states);
        for states in [0, 1, 0x5555, 0x1001] {
            assert!(closed(0, states) && closed(1, states << 16), "{states:#x}");
        }
        for states in [2, 3, 0x8000, 0x5557] {
            assert!(!closed(0, states) && closed(1, states), "{states:#x}");
            assert!(!closed(1, states << 16) && closed(0, states << 16), "{states:#x}");
        }
    }

    #[test]
    fn free_runs_are_aligned_and_the_first() {
        for child in [0, 1] {
            let states = Part::of::<Base4K>(child, 0, 1).with(0, TAKEN);
            let states = Part::of::<Base4K>(child, 5, 1).with(states, OPEN);
            let whole = Part::whole::<Base4K>(child);
            let first = |k| whole.free_run(states, k);
            let run = |first, count| Some(Part::of::<Base4K>(child, first, count));
            assert_eq!([0, 1, 2, 3].map(first), [run(1, 1), run(2, 2), None, None]);
            assert_eq!(
                Part::whole::<Base4K>(1 - child).free_run(states, 3),
                Some(Part::whole::<Base4K>(1 - child))
            );
        }
        let whole = Part::whole::<Base16K>(0);
        assert_eq!(whole.free_run(1, 4), Some(Part::of::<Base16K>(0, 16, 16)));
        assert_eq!(whole.free_run(0, 5), Some(whole));
        let whole = Part::whole::<Base64K>(1);
        assert_eq!((whole.free_run(1, 0), whole.free_run(TAKEN << 2, 0)), (Some(whole), None));
    }
}
