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

use woodlot_frame::{FreeBlocks, Geometry, Order, Stats};

/// What the index is computed from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fmfi {
    /// Free base frames.
    pub free_frames: usize,
    /// How many blocks they are.
    pub free_blocks: usize,
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
        Fmfi { free_frames, free_blocks: free_huge.saturating_add(single) }
    }

    /// From the blocks of every order: exact. To find those takes a walk over the frames.
    pub fn of_blocks<G: Geometry>(blocks: &FreeBlocks) -> Fmfi {
        let mut all = Fmfi::default();
        for order in Order::all::<G>() {
            let count = blocks.count(order);
            all.free_blocks += count;
            all.free_frames += count << order.0;
        }
        all
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
            Fmfi { free_frames, free_blocks: counts.iter().sum() }.index(Order(9))
        };
        assert!(index([337, 1, 2, 1, 9, 1, 1]) < -6000);
        assert!(index([11, 3, 23, 68, 1139, 1712, 2156]) > 900);
    }

    #[test]
    fn there_is_room_where_it_is_negative() {
        assert!(counts(512 * 100, 100).index(Order(3)) < 0);
        assert_eq!(counts(512 << 40, 1 << 40).index(Order(0)), -511_000);
    }

    #[test]
    fn the_index_is_defined_everywhere() {
        for order in 0..=255 {
            assert_eq!(counts(0, 0).index(Order(order)), 0);
            assert!((i32::MIN..=1000).contains(&counts(usize::MAX, 0).index(Order(order))));
        }
        assert_eq!(counts(700, 1).index(Order(255)), 1000);
        assert_eq!(Fmfi { free_frames: usize::MAX, free_blocks: 1 }.index(Order(0)), i32::MIN);
    }
}
