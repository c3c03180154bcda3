//! Lots: lists on their way through the layers that all CPUs share, which may not be linked yet.
//!
//! ```text
//!   linked     b0 ─► b1 ─► b2 ─► b3                     a list
//!   unlinked   b0  .  .  . ─► b8  .  . ─► b3            runs: the first block has the list behind the run, the others nothing
//!   a run      b0  .  .  .                              no block has anything
//! ```
//!
//! 1. The word of a lot is that of its list, with two bits above the count: UNLINKED, and RUN with it if it is one run.
//! 2. A run has as many blocks as the list that its first block has is shorter.
//! 3. The blocks of a run follow one another in memory, upwards.
//!
//! New blocks are linked when a CPU gets them. So their cache lines come when they are about to be used, a list at a time, and
//! those of the next one may come meanwhile: a store that waits for its line holds up whatever has to wait for stores, as
//! a lock does.
//!
//! *Progress*: a step for each block that is linked.

use core::ptr::NonNull;

use crate::list::{List, MAX_BLOCKS};
use crate::word;

/// Bytes of a cache line, where lines are fetched.
const LINE: usize = 64;
/// The bit of an unlinked lot.
const UNLINKED: u64 = 1 << 15;
/// The bit of one that is a run.
const RUN: u64 = 1 << 14;
const _: () = assert!((MAX_BLOCKS as u64) < RUN);

/// A list that may not be linked yet. Copies of it are the same lot: only one of them may be used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub(crate) struct Lot(u64);

impl Lot {
    /// No blocks.
    pub(crate) const EMPTY: Lot = Lot::linked(List::EMPTY);

    /// A list that is linked.
    pub(crate) const fn linked(list: List) -> Lot {
        Lot(list.word())
    }

    /// How many blocks.
    pub(crate) const fn len(self) -> usize {
        self.list().len()
    }

    /// Are there none?
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The list, as it is when the lot is linked.
    pub(crate) const fn list(self) -> List {
        List::from_word(self.0 & !(UNLINKED | RUN))
    }

    /// The lot, unlinked, with a run of so many blocks of so many bytes before it, at least one.
    ///
    /// # Safety
    /// As for [`List::push`], for each of them.
    pub(crate) unsafe fn push_run(self, first: NonNull<u8>, bytes: usize, blocks: usize) -> Lot {
        let (list, one) = (self.list(), List::word_of(first) + (blocks - 1) as u64);
        let end = first.as_ptr().addr().wrapping_add(blocks * bytes);
        let is_whole = self.0 & RUN != 0;
        if list.is_empty() || is_whole && list.first_address() == end {
            return Lot((one + list.len() as u64) | UNLINKED | RUN);
        }
        // SAFETY: as the caller says. The run that was whole is followed by nothing.
        unsafe {
            if is_whole && let Some(second) = list.first() {
                word::write(second.as_ptr().cast(), List::EMPTY.word());
            }
            word::write(first.as_ptr().cast(), list.word());
        }
        Lot((one + list.len() as u64) | UNLINKED)
    }

    /// The list of the lot, whose blocks have so many bytes.
    ///
    /// # Safety
    /// The lot is the caller's.
    #[inline]
    pub(crate) unsafe fn link(self, bytes: usize) -> List {
        let (is_run, mut left) = (self.0 & RUN != 0, self.list());
        while self.0 & UNLINKED != 0
            && let Some(first) = left.first()
        {
            // SAFETY: as the caller says; up to the list that its first block has there is a run (invariants 2 and 3).
            unsafe {
                let rest = || List::from_word(word::read(first.as_ptr().cast()));
                let behind = if is_run { List::EMPTY } else { rest() };
                left.link_run(first, bytes, behind);
                left = behind;
            }
        }
        self.list()
    }

    /// Asks for the cache lines of a lot that somebody will link soon. Nothing depends on it.
    ///
    /// Of lines with several blocks it asks for the first three quarters: the processor sees by then that they follow one another,
    /// and to ask for more took an allocation of 32 bytes 8.2 ns, not 7.5 (`bench kmem worst`, preloaded).
    #[inline]
    pub(crate) fn fetch(self, bytes: usize) {
        if self.0 & UNLINKED != 0 {
            let (first, blocks) = (self.list().first_address(), self.len());
            let lines = if bytes < LINE { blocks * bytes / LINE * 3 / 4 } else { blocks };
            (0..lines).for_each(|at| word::fetch(first.wrapping_add(at * bytes.max(LINE))));
        }
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    /// What a block holds before it is linked: no list goes on there.
    const NOTHING: u64 = u64::MAX;

    /// The lot of these runs of blocks of 16 bytes, each of which is the number of the first one and how many; and the blocks
    /// that it wrote to, and those that it has when it is linked, by their numbers.
    fn linked(runs: &[(usize, usize)]) -> (Vec<usize>, Vec<usize>) {
        let mut memory = [[NOTHING; 2]; 16];
        let begin = NonNull::from(&mut memory).cast::<u8>();
        // SAFETY: the blocks are the test's, and each is pushed once.
        let lot = runs.iter().rev().fold(Lot::EMPTY, |lot, &(first, blocks)| unsafe {
            lot.push_run(begin.add(16 * first), 16, blocks)
        });
        assert_eq!(lot.len(), runs.iter().map(|(_, blocks)| blocks).sum::<usize>());
        // SAFETY: as above.
        let is_written =
            |&block: &usize| unsafe { begin.cast::<[u64; 2]>().add(block).read() }[0] != NOTHING;
        let written = (0..16).filter(is_written).collect();
        // SAFETY: as above.
        let mut list = unsafe { lot.link(16) };
        let blocks = core::iter::from_fn(|| {
            // SAFETY: as above.
            let (block, rest) = unsafe { list.pop() }?;
            assert_eq!(list.len(), rest.len() + 1);
            list = rest;
            Some((block.as_ptr().addr() - begin.as_ptr().addr()) / 16)
        });
        (written, blocks.collect())
    }

    #[test]
    fn runs_are_linked_from_their_begin() {
        for runs in [
            &[][..],
            &[(3, 1)],
            &[(3, 5)],
            &[(3, 2), (5, 3)],
            &[(8, 3), (2, 4)],
            &[(2, 4), (8, 3)],
            &[(9, 1), (4, 1), (6, 1)],
            &[(9, 2), (4, 2), (6, 1), (0, 3)],
            &[(3, 2), (5, 3), (12, 1)],
        ] {
            let blocks = runs.iter().flat_map(|&(first, blocks)| first..first + blocks);
            assert!(linked(runs).1.into_iter().eq(blocks), "{runs:?}");
        }
    }

    /// What is not known without it, and no more: so the lines of new blocks come when they are linked.
    #[test]
    fn before_that_only_runs_that_others_follow_are_written_to() {
        assert_eq!(linked(&[(3, 5)]).0, []);
        assert_eq!(linked(&[(3, 2), (5, 3)]).0, []);
        assert_eq!(linked(&[(8, 3), (2, 4)]).0, [2, 8]);
    }

    /// What a list says of itself lies where the bits are.
    #[test]
    fn a_list_is_a_lot() {
        let mut memory = [[0u64; 2]; 2];
        let [one, two] = memory.each_mut().map(|at| NonNull::from(at).cast::<u8>());
        // SAFETY: each block is pushed once.
        let list = unsafe { List::EMPTY.push(one).push(two) };
        let lot = Lot::linked(list);
        assert_eq!((lot.list(), lot.len(), lot.is_empty()), (list, 2, false));
        // SAFETY: the lot is the test's.
        assert_eq!(unsafe { lot.link(16) }, list);
        assert!(Lot::EMPTY.is_empty());
    }
}
