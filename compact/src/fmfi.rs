//! The free memory fragmentation index, figure 3 of the paper.
//!
//! ```text
//!   F(o) = 1 - (free frames / 2^o) / free blocks        in thousandths, rounded up
//! ```
//!
//! The two counters of an engine give the free frames and the free huge frames. The free frames of huge frames in use in part
//! count as a block each, as where nothing is known of their neighbours. So the index of every order is an upper bound; it is
//! exact where they lie alone, which is where compaction has work to do. [`FreeBlocks`] looks at the frames, and gives the
//! exact index of every order.

use core::ops::Range;

use woodlot_frame::{FrameId, FreeBlocks, Geometry, Order, Stats};

/// What the index is computed from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fmfi {
    /// Free base frames.
    pub free_frames: usize,
    /// How many blocks they are.
    pub free_blocks: usize,
    /// How many huge frames are free as a whole, alone or in larger blocks.
    pub free_huge: usize,
}

impl Fmfi {
    /// From the counters of an engine, or of one domain: in constant time.
    pub fn of<G: Geometry>(stats: &Stats) -> Fmfi {
        Self::of_counts::<G>(stats.free_frames, stats.free_huge)
    }

    /// From the free frames, and how many huge frames of them are free. As no block is larger than a huge frame, the index of the
    /// order of a huge frame is never negative then: that of smaller orders can be, and with [blocks](Self::of_blocks) larger than a
    /// huge frame, as in the paper's table I, any.
    pub const fn of_counts<G: Geometry>(free_frames: usize, free_huge: usize) -> Fmfi {
        let single = free_frames.saturating_sub(free_huge.saturating_mul(G::HUGE_FRAMES));
        Fmfi { free_frames, free_blocks: free_huge.saturating_add(single), free_huge }
    }

    /// From the blocks of every order: exact. To find those takes a walk over the frames.
    pub fn of_blocks<G: Geometry>(blocks: &FreeBlocks) -> Fmfi {
        let mut all = Fmfi::default();
        for order in Order::all::<G>() {
            let count = blocks.count(order);
            all.free_blocks += count;
            all.free_frames += count << order.0;
            let huge = u32::from(order.0).checked_sub(G::HUGE_ORDER);
            all.free_huge += huge.map_or(0, |more| count << more);
        }
        all
    }

    /// The same beside giant frames: `giants` are the free blocks of `order`, which is above that of a huge frame, from the lowest on
    /// (`Domains::free_giants`, or `free_giants_of` for one domain). Each counts as one block, and those side by side as the
    /// largest aligned ones that they make up. So the index of `order` is defined as that of every other order: negative
    /// where there is room for more than one, 0 where all free memory is in single ones. Linear in the giant frames.
    #[must_use]
    pub fn with_giants<G: Geometry>(
        mut self,
        order: Order,
        giants: impl IntoIterator<Item = FrameId>,
    ) -> Fmfi {
        let huge = order.frames() >> G::HUGE_ORDER;
        let (mut run, mut count) = (0..0, 0);
        for giant in giants {
            count += 1;
            let number = giant.0.checked_shr(order.0.into()).unwrap_or(0);
            if number != run.end {
                self.free_blocks = self.free_blocks.saturating_add(aligned(run));
                run = number..number;
            }
            run.end = number.saturating_add(1);
        }
        let huge = huge.saturating_mul(count);
        self.free_blocks = self.free_blocks.saturating_sub(huge).saturating_add(aligned(run));
        self
    }

    /// How many more huge frames there would be, were all free frames together: what compaction can win at the most.
    pub const fn winnable<G: Geometry>(self) -> usize {
        (self.free_frames >> G::HUGE_ORDER).saturating_sub(self.free_huge)
    }

    /// The index for requests of `order` in thousandths: 1000 where the free memory is in blocks as small as can be, 0 where
    /// there are as many blocks as blocks of `order` could be made of it, negative where the blocks are larger, so that there is
    /// room. 0 where no block is free, for nothing could be gained.
    pub const fn index(self, order: Order) -> i32 {
        if self.free_blocks == 0 {
            return 0;
        }
        // An order without a size needs more frames than there are.
        let of_order = if order.0 < usize::BITS as u8 {
            (self.free_frames as u128 * 1000) >> order.0
        } else {
            0
        };
        let index = 1000 - (of_order / self.free_blocks as u128) as i128;
        if index < i32::MIN as i128 { i32::MIN } else { index as i32 }
    }
}

/// The fewest aligned blocks that a run consists of.
fn aligned(run: Range<usize>) -> usize {
    let Range { start: mut next, end } = run;
    let mut count = 0;
    while let Some(fits) = end.saturating_sub(next).checked_ilog2() {
        next += 1 << next.trailing_zeros().min(fits);
        count += 1;
    }
    count
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;
    use super::*;
    use woodlot_frame::Base4K;

    fn counts(frames: usize, huge: usize) -> Fmfi {
        Fmfi::of_counts::<Base4K>(frames, huge)
    }

    #[test]
    fn the_index_is_that_of_the_formula() {
        // By hand: 1 - (1024 / 512) / (1 + 512) = 1 - 2 / 513.
        assert_eq!(counts(1024, 1).index(Order(9)), 1000 - 3);
        // 1 - (512 * 5 / 512) / 5.
        assert_eq!(counts(512 * 5, 5).index(Order(9)), 0);
        assert_eq!(counts(512 * 5, 5).index(Order(10)), 500);
        for frames in [1, 7, 511, 5000] {
            for huge in [0, 1, 3, 900] {
                let free = huge * 512 + frames;
                for order in 0..20 {
                    let blocks = (huge + frames) as f64;
                    let exact = 1000.0 * (1.0 - free as f64 / f64::from(1 << order) / blocks);
                    let index = counts(free, huge).index(Order(order));
                    assert!(
                        (f64::from(index) - exact).abs() <= 1.0,
                        "{free} {huge} {order}: {index} {exact}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_table_of_the_paper_is_fragmented_after_and_not_before() {
        // Table I: blocks of the orders 12, 11, 10, 9, 2, 1, 0.
        let index = |counts: [usize; 7]| {
            let orders = [12, 11, 10, 9, 2, 1, 0];
            let free_frames = counts.iter().zip(orders).map(|(count, order)| count << order).sum();
            let free_huge = 0;
            Fmfi { free_frames, free_blocks: counts.iter().sum(), free_huge }.index(Order(9))
        };
        assert!(index([337, 1, 2, 1, 9, 1, 1]) < -6000);
        assert!(index([11, 3, 23, 68, 1139, 1712, 2156]) > 900);
    }

    #[test]
    fn what_lies_apart_can_be_won() {
        assert_eq!(counts(512 * 10 + 511, 10).winnable::<Base4K>(), 0);
        assert_eq!(counts(512 * 10 + 1024, 10).winnable::<Base4K>(), 2);
        // Counts that are not of one moment.
        assert_eq!(counts(512 * 9, 10).winnable::<Base4K>(), 0);
    }

    #[test]
    fn there_is_room_where_it_is_negative() {
        assert!(counts(512 * 100, 100).index(Order(3)) < 0);
        assert_eq!(counts(512 << 40, 1 << 40).index(Order(0)), -511_000);
    }

    #[test]
    fn giant_frames_are_blocks() {
        const GIANT: Order = Order(18);
        let giants = |numbers: &[usize], others: usize| {
            let huge = numbers.len() * 512;
            let all = numbers.iter().map(|number| FrameId(number << 18));
            counts(huge * 512 + others, huge).with_giants::<Base4K>(GIANT, all)
        };
        // One, and two that make up no larger block: as many blocks as could be made.
        for separate in [&[0][..], &[0, 2], &[1, 2], &[5, 7, 9]] {
            let index = giants(separate, 0);
            assert_eq!((index.free_blocks, index.index(GIANT)), (separate.len(), 0));
            assert!(index.index(Order(9)) < 0);
        }
        // 8 GiB that are free as a whole: one block in place of eight.
        let all = giants(&[0, 1, 2, 3, 4, 5, 6, 7], 0);
        assert_eq!((all.free_blocks, all.index(GIANT)), (1, -7000));
        // 1 … 6 is one, two, two and one.
        assert_eq!(giants(&[1, 2, 3, 4, 5, 6], 0).free_blocks, 4);
        // 1 - 2 / (2 + 2), and 1 - (1 + 1/262144) / (1 + 1).
        assert_eq!(giants(&[0, 2], 2).index(GIANT), 1000 - 500);
        assert_eq!(giants(&[3], 1).index(GIANT), 500);
        // None: that of the counters.
        assert_eq!(giants(&[], 700), counts(700, 0));
        assert_eq!(giants(&[], 0).index(GIANT), 0, "no block is free");
    }

    #[test]
    fn the_index_is_defined_everywhere() {
        for order in 0..=255 {
            assert_eq!(counts(0, 0).index(Order(order)), 0);
            assert!((i32::MIN..=1000).contains(&counts(usize::MAX, 0).index(Order(order))));
            let last = [FrameId(0), FrameId(usize::MAX)];
            let odd = counts(0, 0).with_giants::<Base4K>(Order(order), last);
            assert!((i32::MIN..=1000).contains(&odd.index(Order(order))));
        }
        assert_eq!(counts(700, 1).index(Order(255)), 1000);
        let one = Fmfi { free_frames: usize::MAX, free_blocks: 1, free_huge: 0 };
        assert_eq!(one.index(Order(0)), i32::MIN);
    }
}
