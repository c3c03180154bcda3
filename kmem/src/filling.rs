//! Lots in the making, of blocks that follow one another.
//!
//! ```text
//!   runs   │ 1 2 3 4 5 │   │ 6 7 8 │          pushed from the last one on
//!   lots     1 2 │ 3 4 5 │ 6 7 8              of `target`, but for the first one
//! ```
//!
//! 1. The blocks that are pushed last are handed out first, of a run those that lie lowest.
//! 2. All lots but the first one are full. One that is not is linked.

use core::ptr::NonNull;

use crate::global::Lists;
use crate::lot::Lot;
use crate::size::Size;

/// What was pushed.
pub(crate) struct Filling<'a> {
    size: &'a Size,
    /// From `from` on, the last one first.
    lots: &'a mut Lists,
    from: usize,
    lot: Lot,
}

impl<'a> Filling<'a> {
    /// Lots that are to come behind those that there are.
    pub(crate) fn new(size: &'a Size, lots: &'a mut Lists) -> Filling<'a> {
        let from = lots.len();
        Filling { size, lots, from, lot: Lot::EMPTY }
    }

    /// Pushes so many blocks that follow one another.
    ///
    /// # Safety
    /// They are of this size, and the caller's, who gives them away.
    pub(crate) unsafe fn push_run(&mut self, first: NonNull<u8>, mut blocks: usize) {
        let Size { bytes, target, .. } = *self.size;
        while blocks > 0 {
            let some = blocks.min(target - self.lot.len());
            blocks -= some;
            // SAFETY: as the caller says.
            self.lot = unsafe { self.lot.push_run(first.add(blocks * bytes), bytes, some) };
            if self.lot.len() == target {
                self.lots.push(core::mem::replace(&mut self.lot, Lot::EMPTY));
            }
        }
    }

    /// Puts the lots in their order, the first one first. True: that one is there, and full.
    pub(crate) fn finish(self) -> bool {
        // SAFETY: the blocks were given away.
        let odd = unsafe { self.lot.link(self.size.bytes) };
        self.lots.push(Lot::linked(odd));
        self.lots.reverse(self.from);
        odd.is_empty() && self.lots.len() > self.from
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;
    use crate::list::List;

    /// The lots of these runs of blocks of 16 bytes in lists of three, the first run first: the number of each block.
    fn lots(runs: &[(usize, usize)]) -> Vec<Vec<usize>> {
        let mut memory = [[0u64; 2]; 16];
        let begin = NonNull::from(&mut memory).cast::<u8>();
        let size = Size { target: 3, ..Size::new(16) };
        // One that was there before, and stays the first.
        let (mut lots, before) = (Lists::new(), Lot::linked(List::from_word(3)));
        lots.push(before);
        let mut filling = Filling::new(&size, &mut lots);
        for &(first, blocks) in runs.iter().rev() {
            // SAFETY: the blocks are the test's, and each is pushed once.
            unsafe { filling.push_run(begin.add(16 * first), blocks) };
        }
        let is_full = filling.finish();
        assert_eq!(lots.iter().next(), Some(before));
        let lots = || lots.iter().skip(1);
        assert_eq!(is_full, lots().next().is_some_and(|first| first.len() == 3));
        let is_linked = |lot: Lot| lot == Lot::linked(lot.list());
        assert!(lots().all(|lot| lot.len() == 3 || is_linked(lot)), "an odd one is to be linked");
        assert!(lots().skip(1).all(|lot| lot.len() == 3), "another one than the first is odd");
        lots()
            .map(|lot| {
                // SAFETY: the lots are the test's.
                let mut list = unsafe { lot.link(16) };
                let blocks = core::iter::from_fn(|| {
                    // SAFETY: as above.
                    let (block, rest) = unsafe { list.pop() }?;
                    list = rest;
                    Some((block.as_ptr().addr() - begin.as_ptr().addr()) / 16)
                });
                blocks.collect()
            })
            .collect()
    }

    #[test]
    fn runs_are_cut_into_lists() {
        assert_eq!(lots(&[]), [[]; 0]);
        assert_eq!(lots(&[(4, 2)]), [[4, 5]]);
        assert_eq!(lots(&[(4, 6)]), [[4, 5, 6], [7, 8, 9]]);
        assert_eq!(lots(&[(4, 5), (0, 3)]), [&[4, 5][..], &[6, 7, 8], &[0, 1, 2]]);
        assert_eq!(lots(&[(9, 2), (4, 1), (0, 4)]), [&[9][..], &[10, 4, 0], &[1, 2, 3]]);
    }
}
