//! The blocks that a run of frames consists of.

use core::iter;
use core::ops::Range;

use crate::{FrameId, Geometry, Order};

/// The fewest aligned blocks that a run of frames consists of, from the first to the last.
pub fn blocks<G: Geometry>(
    frames: Range<FrameId>,
) -> impl Iterator<Item = (FrameId, Order)> + Clone {
    blocks_by(frames, largest::<G>)
}

/// The blocks of a run, each as large as `largest` says of where it begins and where the run ends.
pub(crate) fn blocks_by<L: Fn(FrameId, FrameId) -> Option<Order> + Clone>(
    frames: Range<FrameId>,
    largest: L,
) -> impl Iterator<Item = (FrameId, Order)> + Clone {
    let Range { start: mut next, end } = frames;
    iter::from_fn(move || {
        let block = (next, largest(next, end)?);
        next = FrameId(next.0 + block.1.frames());
        Some(block)
    })
}

/// The order of the largest block that begins at `start` and ends at `end` or before.
pub(crate) fn largest<G: Geometry>(start: FrameId, end: FrameId) -> Option<Order> {
    let fits = end.0.checked_sub(start.0)?.checked_ilog2()?;
    Some(Order(start.0.trailing_zeros().min(fits).min(G::MAX_ORDER) as u8))
}

/// The row of the first frame, of 2^`row_order` frames, and which frames of that row are named one after another, each once: for engines that
/// have a bit for each. `offset` says where a frame lies from the first row on. `None` if there is no first frame, or that lies nowhere.
#[inline]
pub fn row_of(
    frames: &[FrameId],
    row_order: u32,
    offset: impl Fn(FrameId) -> Option<usize>,
) -> Option<(usize, u64)> {
    let row = offset(*frames.first()?)? >> row_order;
    let mut bits = 0;
    for &frame in frames {
        // Nowhere is no frame of the row. One question, so that a processor guesses one answer.
        let offset = offset(frame).unwrap_or(usize::MAX);
        let bit = 1 << (offset & ((1 << row_order) - 1));
        if (offset >> row_order != row) | (bits & bit != 0) {
            break;
        }
        bits |= bit;
    }
    Some((row, bits))
}

/// The first frame of a block of which something is true; the block's first where that has just changed.
pub(crate) fn first(block: FrameId, order: Order, is: impl Fn(FrameId) -> bool) -> FrameId {
    (0..order.frames()).map(|n| FrameId(block.0 + n)).find(|&frame| is(frame)).unwrap_or(block)
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;
    use super::*;
    use crate::{Base4K, Base64K};
    use std::vec::Vec;

    fn orders<G: Geometry>(start: usize, end: usize) -> Vec<(usize, u8)> {
        let blocks = blocks::<G>(FrameId(start)..FrameId(end));
        blocks.map(|(frame, order)| (frame.0, order.0)).collect()
    }

    #[test]
    fn frames_of_a_row_are_named_one_after_another() {
        let offset = |FrameId(frame)| (100..200).contains(&frame).then(|| frame - 100);
        let row = |frames: &[usize], order| {
            let frames: Vec<_> = frames.iter().copied().map(FrameId).collect();
            row_of(&frames, order, offset)
        };
        assert_eq!(row(&[103, 101, 164, 102], 6), Some((0, 0b1010)));
        assert_eq!(row(&[164, 199, 199, 165], 6), Some((1, 1 << 35 | 1)));
        assert_eq!(row(&[163, 200, 162], 6), Some((0, 1 << 63)));
        assert_eq!(row(&[108, 111, 112], 2), Some((2, 0b1001)));
        assert_eq!([row(&[200, 101], 6), row(&[], 6)], [None; 2]);
    }

    #[test]
    fn a_run_is_the_fewest_blocks() {
        assert_eq!(orders::<Base4K>(5, 16), [(5, 0), (6, 1), (8, 3)]);
        assert_eq!(orders::<Base4K>(0, 2049), [(0, 10), (1024, 10), (2048, 0)]);
        assert_eq!(orders::<Base64K>(0, 129), [(0, 6), (64, 6), (128, 0)]);
        assert_eq!(orders::<Base4K>(7, 7), []);
        assert_eq!(orders::<Base4K>(8, 7), []);
        assert_eq!(orders::<Base4K>(usize::MAX - 1, usize::MAX), [(usize::MAX - 1, 0)]);
    }
}
