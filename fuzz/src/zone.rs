//! A zone from a fuzzer's bytes: geometry, ragged ends, slots, classes.

use woodlot_frame::{ClassPolicy, FrameId, Geometry, ZoneConfig};

use crate::bytes::Bytes;

/// Calls `$work::<LLFree<…>>(…)` for the geometry that a number chooses.
macro_rules! on_geometry {
    ($number:expr, $work:ident($($argument:expr),*)) => {
        match $number {
            0 => $work::<woodlot_llfree::LLFree<woodlot_frame::Base4K>>($($argument),*),
            1 => $work::<woodlot_llfree::LLFree<woodlot_frame::Base16K>>($($argument),*),
            _ => $work::<woodlot_llfree::LLFree<woodlot_frame::Base64K>>($($argument),*),
        }
    };
}
pub(crate) use on_geometry;

/// A zone of up to three huge frames, or of a little more than a tree where trees are small.
pub fn config<G: Geometry>(bytes: &mut Bytes) -> ZoneConfig {
    let huge = G::HUGE_FRAMES;
    let largest = if G::TREE_FRAMES <= 1024 { G::TREE_FRAMES + 2 * huge } else { 3 * huge };
    let frames = match bytes.byte() % 4 {
        0 => 1 + bytes.below(65),
        1 => huge - 2 + bytes.below(5),
        2 => 1 + bytes.below(largest),
        _ => largest - bytes.below(3),
    };
    let start = match bytes.byte() % 4 {
        0 => 0,
        1 => bytes.below(40) * huge,
        2 => bytes.below(G::TREE_FRAMES.min(1 << 16)),
        _ => (1 << 36) + bytes.below(huge),
    };
    let policy =
        if bytes.byte().is_multiple_of(3) { ClassPolicy::SINGLE } else { ClassPolicy::SHIPPED };
    ZoneConfig::new(frames, 1 + bytes.below(4)).starting_at(FrameId(start)).with_classes(policy)
}
