//! A zone from a fuzzer's bytes: engine and geometry, ragged ends, slots, classes.

use woodlot_frame::{ClassPolicy, Construct, FrameId, Geometry, Init, ZoneConfig};

use crate::bytes::Bytes;

/// Calls `$work::<$engine>(…)` for the engine and geometry that a byte chooses.
macro_rules! on_engine {
    ($byte:expr, $work:ident($($argument:expr),*)) => {{
        use woodlot_frame::{Base4K, Base16K, Base64K};
        use woodlot_llfree::LLFree;
        use woodlot_nbbs::{Nbbs1, Nbbs4};
        use woodlot_suite::short::Small;

        match $byte % 9 {
            0 => $work::<LLFree<Base4K>>($($argument),*),
            1 => $work::<LLFree<Base16K>>($($argument),*),
            2 => $work::<LLFree<Base64K>>($($argument),*),
            3 => $work::<LLFree<Small<3, 4>>>($($argument),*),
            4 => $work::<LLFree<Small<8, 2>>>($($argument),*),
            5 => $work::<Nbbs1<Small<8, 2>>>($($argument),*),
            6 => $work::<Nbbs1<Base64K>>($($argument),*),
            7 => $work::<Nbbs4<Small<8, 2>>>($($argument),*),
            _ => $work::<Nbbs4<Base64K>>($($argument),*),
        }
    }};
}
pub(crate) use on_engine;

/// How a zone begins: allocated now and then, where blocks may be freed in parts.
pub fn init<A: Construct>(bytes: &mut Bytes) -> Init {
    let allocated = bytes.byte().is_multiple_of(4) && !A::UNSUPPORTED.partial_free;
    if allocated { Init::Allocated } else { Init::Free }
}

/// A zone of up to three huge frames, or of more than a tree where they are small.
pub fn config<G: Geometry>(bytes: &mut Bytes) -> ZoneConfig {
    let huge = G::HUGE_FRAMES;
    let largest = match G::TREE_FRAMES {
        small @ ..256 => 3 * small + huge,
        more @ ..1025 => more + 2 * huge,
        _ => 3 * huge,
    };
    let frames = match bytes.byte() % 4 {
        0 => 1 + bytes.below(65),
        1 => huge - 2 + bytes.below(5),
        2 => 1 + bytes.below(3 * huge),
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
