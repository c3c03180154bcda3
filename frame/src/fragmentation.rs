//! Where the free frames of a zone lie: free blocks by order, and what compaction would cost.

use crate::{FrameAllocator, Geometry, Order, blocks_in};

/// The most orders of any geometry ([`Geometry::HUGE_ORDER`] is at most 12).
const ORDERS: usize = 14;

/// Free blocks by order: what `/proc/buddyinfo` shows, computed from the frames themselves. Each
/// free frame counts once, in the largest aligned free block it lies in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FreeBlocks {
    counts: [usize; ORDERS],
    /// The most free frames in a row, aligned or not.
    pub largest_run: usize,
}

impl FreeBlocks {
    /// Walks the zone: O(huge frames), and a word for each 64 frames of those in use in part.
    pub fn of<A: FrameAllocator + ?Sized>(allocator: &A) -> Self {
        let mut all = Self::default();
        for run in allocator.free_runs(allocator.zone().range()) {
            all.largest_run = all.largest_run.max(run.end.0 - run.start.0);
            for (_, order) in blocks_in(allocator, run) {
                // Every order has a count.
                all.counts.get_mut(order.0 as usize).into_iter().for_each(|count| *count += 1);
            }
        }
        all
    }

    /// How many maximal free blocks of exactly `order` there are.
    pub fn count(&self, order: Order) -> usize {
        self.counts.get(order.0 as usize).copied().unwrap_or(0)
    }

    /// The unusable free space index of `order` in thousandths: how much of the free memory lies in blocks too
    /// small for a request of `order`. 0 where all of it could serve one, 1000 where none could, 0 where
    /// nothing is free (Gorman and Whitcroft, "The What, The Why and the Where To of Anti-Fragmentation", 2006). It is
    /// not the free memory fragmentation index (FMFI), which compares the number of free blocks with that of
    /// blocks of `order`: `woodlot-compact` has that.
    pub fn unusable(&self, order: Order) -> u32 {
        let frames = |(order, count): (usize, &usize)| count << order;
        let free: usize = self.counts.iter().enumerate().map(frames).sum();
        let large = self.counts.iter().enumerate().skip(order.0 as usize);
        let large: usize = large.map(frames).sum();
        match free {
            0 => 0,
            _ => ((free - large) as u128 * 1000 / free as u128) as u32,
        }
    }
}

/// The fewest base-frame moves that would make every possible huge frame free (LLFree section
/// 5.6): the emptiest huge frames are cleared, and the others filled up with what they held.
///
/// `free` holds the free base frames of each huge frame that frames could be moved out of or into.
pub fn compaction_cost<G: Geometry>(free: &[usize]) -> usize {
    // The emptiest `possible` huge frames are the cheapest to clear, and the others have room for
    // what they hold, because the free frames of all add up to that many whole huge frames.
    let possible = free.iter().sum::<usize>() >> G::HUGE_ORDER;
    let above = |bound: usize| free.iter().filter(move |&&free| free > bound);
    // The free frames of the fullest that is cleared. Sorting would find it, too, but the core
    // library's sort can panic.
    let (mut fullest, mut too_many) = (0, G::HUGE_FRAMES);
    while fullest < too_many {
        let middle = (fullest + too_many) >> 1;
        if above(middle).count() <= possible {
            too_many = middle;
        } else {
            fullest = middle + 1;
        }
    }
    let emptier = above(fullest).count();
    let cost = |free: usize| G::HUGE_FRAMES.saturating_sub(free);
    above(fullest).map(|&free| cost(free)).sum::<usize>() + (possible - emptier) * cost(fullest)
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;
    use super::*;
    use crate::Base4K;

    #[test]
    fn compaction_cost_counts_what_the_emptiest_hold() {
        assert_eq!(compaction_cost::<Base4K>(&[]), 0);
        assert_eq!(compaction_cost::<Base4K>(&[512, 0, 512]), 0);
        assert_eq!(compaction_cost::<Base4K>(&[256, 256]), 256);
        assert_eq!(compaction_cost::<Base4K>(&[500, 5, 6]), 0);
        assert_eq!(compaction_cost::<Base4K>(&[500, 6, 6]), 12);
    }

    #[test]
    fn compaction_cost_is_that_of_the_sorted_list() {
        let by_sorting = |mut free: std::vec::Vec<usize>| {
            free.sort_unstable();
            let possible = free.iter().sum::<usize>() / 512;
            free.iter().rev().take(possible).map(|free| 512 - free).sum::<usize>()
        };
        for step in [1, 2, 5, 64, 101, 256, 510, 512] {
            for len in (0..40).step_by(if cfg!(miri) { 13 } else { 1 }) {
                let free: std::vec::Vec<_> = (0..len).map(|n| n * step * n % 513).collect();
                assert_eq!(compaction_cost::<Base4K>(&free), by_sorting(free));
            }
        }
    }

    #[test]
    fn unusable_memory_of_known_blocks() {
        let mut blocks = FreeBlocks::default();
        assert_eq!(blocks.unusable(Order(9)), 0);
        blocks.counts[0] = 512;
        assert_eq!((blocks.unusable(Order(0)), blocks.unusable(Order(1))), (0, 1000));
        blocks.counts[9] = 1;
        assert_eq!((blocks.unusable(Order(9)), blocks.unusable(Order(10))), (500, 1000));
    }
}
