//! The measures of a row: 64 frames, or all of a huge frame that has fewer.

use woodlot_frame::Geometry;

/// log₂ of the frames in a row.
pub(crate) const ROW_ORDER: u32 = 6;

/// The bits of a row that stand for frames.
pub(crate) const fn row_mask<G: Geometry>() -> u64 {
    if G::HUGE_FRAMES < 64 { (1 << G::HUGE_FRAMES) - 1 } else { !0 }
}

/// How many rows a huge frame has.
pub(crate) const fn row_count<G: Geometry>() -> usize {
    if G::HUGE_FRAMES < 64 { 1 } else { G::HUGE_FRAMES / 64 }
}

/// log₂ of the frames that a row stands for.
pub(crate) const fn row_order<G: Geometry>() -> u32 {
    if G::HUGE_ORDER < ROW_ORDER { G::HUGE_ORDER } else { ROW_ORDER }
}
