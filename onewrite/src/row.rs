//! A row: the frames that one word of bits stands for, and the positions in it.
//!
//! A bit is 1 exactly while its frame is free *and can be had singly*, by an order below that of a row. So the bits
//! of a row that is free, allocated or offline as a whole are all 0, and no such order finds anything there.

use woodlot_frame::Geometry;

/// How a geometry is cut into rows.
pub(crate) trait Rows: Geometry {
    /// The order of a row: 64 frames, or a huge frame if that has fewer.
    const ROW_ORDER: u32 = if Self::HUGE_ORDER < 6 { Self::HUGE_ORDER } else { 6 };
    /// Frames in a row.
    const ROW_FRAMES: usize = 1 << Self::ROW_ORDER;
    /// Rows in a huge frame.
    const ROWS: usize = 1 << (Self::HUGE_ORDER - Self::ROW_ORDER);
    /// Huge frames whose rows' states share a word: a pair, where a word has room for that.
    const SHARERS: usize = if Self::ROWS <= 16 { 2 } else { 1 };
    /// Rows whose states share a word.
    const WORD_ROWS: usize = Self::ROWS * Self::SHARERS;
    /// The bits of a row of which every frame can be had singly.
    const ALL: u64 = !0 >> (64 - Self::ROW_FRAMES);
    /// The bits of a row in each state are less than this, in a zone in which there is nothing to repair.
    const BITS_END: &'static [u64; 4] = &[1, 1, Self::ALL, 0];
    /// Huge frames in a tree. Blocks of the largest order do not reach across trees.
    const TREE: usize = if Self::TREE_HUGE < 2 { 2 } else { Self::TREE_HUGE.next_power_of_two() };
    /// A word has two bits for each row. Statistics are by trees.
    const FITS: () = {
        assert!(Self::HUGE_ORDER <= 11, "a word has the states of 32 rows");
        assert!(Self::TREE_HUGE > 0, "a tree has a huge frame at least");
    };
}

impl<G: Geometry> Rows for G {}

/// The bits at multiples of a block's size, for each order below 6.
const ALIGNED: [u64; 6] = [
    !0,
    0x5555_5555_5555_5555,
    0x1111_1111_1111_1111,
    0x0101_0101_0101_0101,
    0x0001_0001_0001_0001,
    0x0000_0001_0000_0001,
];

/// The lowest 1 is in the first block of `order`, less than 6, that is free; of higher bits nothing is said. 0 if no block is free.
#[inline(always)]
fn in_first_block(bits: u64, order: u32) -> u64 {
    if order == 0 {
        return bits;
    }
    // One is added to each block. What is free carries it past its last bit, and nothing below the first that is free does.
    let first = ALIGNED.get(order as usize).copied().unwrap_or(1);
    let last = first << ((1 << order) - 1);
    bits & !bits.wrapping_add(first) & last
}

/// The first bit of the first block of `order`, less than 6, that is free.
#[inline(always)]
pub(crate) fn first_block(bits: u64, order: u32) -> Option<usize> {
    let bits = in_first_block(bits, order);
    (bits != 0).then(|| bits.trailing_zeros() as usize & !((1 << order) - 1))
}

/// Is a block of `order`, less than 6, free?
#[inline(always)]
pub(crate) fn has_block(bits: u64, order: u32) -> bool {
    in_first_block(bits, order) != 0
}

/// The bits with these frames free, too, if none of them is yet.
#[inline(always)]
pub(crate) fn given(bits: u64, frames: u64) -> Option<u64> {
    (bits & frames == 0).then_some(bits | frames)
}

/// The same of the frame at bit `at`. One bit is turned by one instruction, if its mask is needed for nothing else; and the word is less
/// than before if the bit was 1.
#[inline(always)]
pub(crate) fn given_one(bits: u64, at: usize) -> Option<u64> {
    let now = bits ^ 1 << at;
    (now > bits).then_some(now)
}

/// The bits of the block of `order`, less than 6, at bit `at`.
#[inline(always)]
pub(crate) fn block(order: u32, at: usize) -> u64 {
    ((1 << (1u32 << order)) - 1) << at
}

/// The block of `order`, less than 6, that is free, if nothing else is.
#[inline(always)]
pub(crate) fn only_block(bits: u64, order: u32) -> Option<usize> {
    let at = (bits.trailing_zeros() % 64) as usize;
    (at.is_multiple_of(1 << order) && bits == block(order, at)).then_some(at)
}

/// The orders of which a block is free, as bits. With an order there is every smaller one.
pub(crate) fn orders(bits: u64) -> u64 {
    (0..6).filter(|&order| has_block(bits, order)).fold(0, |orders, order| orders | 1 << order)
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use woodlot_frame::{Base4K, Base16K, Base64K};

    #[test]
    fn a_frame_is_given_that_is_not_free() {
        for at in 0..64 {
            for bits in [0, 1 << at, !(1 << at), 0x5555_5555_5555_5555, !0] {
                assert_eq!(given_one(bits, at), given(bits, 1 << at), "{bits:#x}, {at}");
            }
        }
    }

    #[test]
    fn rows_of_the_geometries() {
        let of = |rows, order, all: u64| (rows, order, all.count_ones());
        assert_eq!(of(Base4K::ROWS, Base4K::ROW_ORDER, Base4K::ALL), (8, 6, 64));
        assert_eq!(of(Base16K::ROWS, Base16K::ROW_ORDER, Base16K::ALL), (32, 6, 64));
        assert_eq!(of(Base64K::ROWS, Base64K::ROW_ORDER, Base64K::ALL), (1, 5, 32));
        let sharers = [Base4K::SHARERS, Base16K::SHARERS, Base64K::SHARERS];
        assert_eq!((sharers, Base4K::WORD_ROWS, Base16K::WORD_ROWS), ([2, 1, 2], 16, 32));
    }

    #[test]
    fn the_first_block_is_the_first_all_of_whose_bits_are() {
        let mut seed = 1u64;
        for n in 0..60_000 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // From half of the frames free to nearly all, and from some of these on.
            let bits = (0..n % 6).fold(seed, |bits, by| bits | seed.rotate_left(5 + 7 * by));
            let bits = bits & !0 << (n % 64);
            for order in 0..6 {
                let mut starts = (0..64usize).step_by(1 << order);
                let first = starts.find(|&at| bits & block(order, at) == block(order, at));
                assert_eq!(first_block(bits, order), first, "order {order} of {bits:#x}");
                assert_eq!(has_block(bits, order), first.is_some());
            }
        }
    }

    #[test]
    fn a_block_is_free_where_all_its_bits_are() {
        let bits = 0xF0F0_0000_FFFF_0136;
        for order in 0..6 {
            let only = |at| only_block(block(order, at), order);
            assert!((0..64usize).step_by(1 << order).all(|at| only(at) == Some(at)));
            assert_eq!(
                [0, !0, block(order, 0) | 1 << 63].map(|bits| only_block(bits, order)),
                [None; 3]
            );
        }
        // Frames side by side that are no block.
        assert_eq!([0b110, 1 << 63, 0b1111_0000 << 2].map(|bits| only_block(bits, 1)), [None; 3]);
        assert_eq!(only_block(0xF0 << 2, 2), None);
        assert_eq!((orders(bits), orders(0), orders(!0)), (0b1_1111, 0, 0b11_1111));
    }
}
