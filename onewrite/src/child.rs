//! A child: the word that says of each row of a huge frame how it is used.
//!
//! ```text
//!   bits   0 1   2 3   4 5   …                two for each row
//!         ┌─────┬─────┬─────┬───
//!         │ row │ row │ row │ …
//!         └─────┴─────┴─────┴───
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
//! Orders from that of a row to that of a huge frame are allocated and freed by one compare-and-swap of this word.

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

/// Rows side by side of one huge frame: the first, and how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) first: usize,
    pub(crate) count: usize,
}

impl Part {
    /// All rows of a huge frame.
    pub(crate) const fn whole<G: Rows>() -> Part {
        Part { first: 0, count: G::ROWS }
    }

    /// The huge frame and the rows of a block of `order`, at least a row's and at most a huge frame's, so many frames from the base.
    #[inline(always)]
    pub(crate) const fn at<G: Rows>(offset: usize, order: u32) -> (usize, Part) {
        let part =
            Part { first: (offset >> G::ROW_ORDER) % G::ROWS, count: 1 << (order - G::ROW_ORDER) };
        (offset >> G::HUGE_ORDER, part)
    }

    /// Where these rows of a huge frame begin, so many frames from the base.
    #[inline(always)]
    pub(crate) const fn offset<G: Rows>(self, child: usize) -> usize {
        (child << G::HUGE_ORDER) + (self.first << G::ROW_ORDER)
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

    pub(crate) fn rows(self) -> core::ops::Range<usize> {
        self.first..self.first + self.count
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
}

/// The state of a row.
#[inline(always)]
pub(crate) const fn state(states: u64, row: usize) -> u64 {
    states >> (2 * row as u32) & 3
}

/// The word with a row in another state.
#[inline(always)]
pub(crate) const fn with(states: u64, row: usize, state: u64) -> u64 {
    Part { first: row, count: 1 }.with(states, state)
}

/// The first of the aligned runs of 2^`k` rows that are free: a look at all rows at once.
#[inline(always)]
pub(crate) fn free_run<G: Rows>(states: u64, k: u32) -> Option<Part> {
    if 1 << k == G::ROWS {
        return (states == 0).then(Part::whole::<G>);
    }
    let free = free_rows::<G>(states);
    if free == 0 {
        return None;
    }
    let runs = (0..k).fold(free, |runs, half| runs & runs >> (2 << half));
    let runs = runs & ALIGNED.get(k as usize).copied().unwrap_or(1);
    (runs != 0).then(|| Part { first: (runs.trailing_zeros() / 2) as usize, count: 1 << k })
}

/// The lower bits of the states of the rows that are free.
#[inline(always)]
pub(crate) const fn free_rows<G: Rows>(states: u64) -> u64 {
    !(states | states >> 1) & Part::whole::<G>().all(1)
}

/// The lower bits of the states of the rows that are taken.
pub(crate) const fn taken_rows(states: u64) -> u64 {
    states & !(states >> 1) & EACH
}

/// Is every row free or taken, and nothing else said?
#[inline(always)]
pub(crate) const fn is_closed<G: Rows>(states: u64) -> bool {
    states & (EACH << 1) == 0 && states & !Part::whole::<G>().mask() == 0
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
        let part = Part { first: 2, count: 2 };
        let states = part.with(0, OPEN);
        assert_eq!((0..8).map(|row| state(states, row)).sum::<u64>(), 2 * OPEN);
        assert!(part.is(states, OPEN) && !Part { first: 2, count: 4 }.is(states, OPEN));
        assert_eq!(open_rows(with(states, 7, OFFLINE)).count_ones(), 2);
        assert_eq!(part.with(states, FREE), 0);
        assert_eq!(Part::whole::<Base16K>().all(OFFLINE), !0);
        assert_eq!(Part::whole::<Base64K>().mask(), 3);
    }

    #[test]
    fn rows_are_told_apart_by_their_states() {
        let states = [FREE, TAKEN, OPEN, OFFLINE].into_iter().enumerate();
        let states = states.fold(0, |states, (row, state)| with(states, row, state));
        assert_eq!([taken_rows(states), open_rows(states)], [1 << 2, 1 << 4]);
        assert_eq!(free_rows::<Base4K>(states), 0x5501);
    }

    #[test]
    fn closed_is_what_is_free_or_taken_and_says_nothing_else() {
        for states in [0, 1, 0x5555, 0x1001] {
            assert!(is_closed::<Base4K>(states), "{states:#x}");
        }
        for states in [2, 3, 0x8000, 0x5557, 1 << 16, 1 << 63] {
            assert!(!is_closed::<Base4K>(states), "{states:#x}");
        }
        assert!(is_closed::<Base16K>(1 << 62) && !is_closed::<Base64K>(1 << 2));
    }

    #[test]
    fn free_runs_are_aligned_and_the_first() {
        let states = with(with(0, 0, TAKEN), 5, OPEN);
        let first = |k| free_run::<Base4K>(states, k).map(|part| part.first);
        assert_eq!([0, 1, 2, 3].map(first), [Some(1), Some(2), None, None]);
        assert_eq!(free_run::<Base4K>(0, 3), Some(Part::whole::<Base4K>()));
        assert_eq!(free_run::<Base16K>(1, 4).map(|part| part.first), Some(16));
        assert_eq!(free_run::<Base16K>(0, 5), Some(Part::whole::<Base16K>()));
        assert_eq!(free_run::<Base64K>(0, 0), Some(Part::whole::<Base64K>()));
        assert_eq!(free_run::<Base64K>(TAKEN, 0), None);
    }
}
