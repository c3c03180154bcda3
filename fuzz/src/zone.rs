//! A zone from a fuzzer's bytes: engine and geometry, ragged ends, slots, classes.

use woodlot_frame::{Base4K, Base16K, Base64K, ClassPolicy, FrameId, Init, ZoneConfig};
use woodlot_llfree::LLFree;
use woodlot_nbbs::{Nbbs1, Nbbs4};
use woodlot_onewrite::OneWrite;
use woodlot_suite::Engine;
use woodlot_suite::short::Small;

use crate::bytes::Bytes;

/// The engine and geometry that a byte chooses.
pub fn engine(bytes: &mut Bytes) -> Engine {
    match bytes.byte() % 13 {
        0 => Engine::of::<LLFree<Base4K>>(),
        1 => Engine::of::<LLFree<Base16K>>(),
        2 => Engine::of::<LLFree<Base64K>>(),
        3 => Engine::of::<LLFree<Small<3, 4>>>(),
        4 => Engine::of::<LLFree<Small<8, 2>>>(),
        5 => Engine::of::<Nbbs1<Small<8, 2>>>(),
        6 => Engine::of::<Nbbs1<Base64K>>(),
        7 => Engine::of::<Nbbs4<Small<8, 2>>>(),
        8 => Engine::of::<Nbbs4<Base64K>>(),
        9 => Engine::of::<OneWrite<Base4K>>(),
        10 => Engine::of::<OneWrite<Base16K>>(),
        11 => Engine::of::<OneWrite<Small<3, 4>>>(),
        _ => Engine::of::<OneWrite<Small<8, 2>>>(),
    }
}

/// How a zone begins: allocated now and then, where blocks may be freed in parts.
pub fn init(engine: Engine, bytes: &mut Bytes) -> Init {
    let allocated = bytes.byte().is_multiple_of(4) && !engine.unsupported.partial_free;
    if allocated { Init::Allocated } else { Init::Free }
}

/// A zone of up to three huge frames, or of more than a tree where they are small.
pub fn config(engine: Engine, bytes: &mut Bytes) -> ZoneConfig {
    let huge = engine.huge_frames;
    let largest = match engine.tree_frames {
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
        2 => bytes.below(engine.tree_frames.min(1 << 16)),
        _ => (1 << 36) + bytes.below(huge),
    };
    let policy =
        if bytes.byte().is_multiple_of(3) { ClassPolicy::SINGLE } else { ClassPolicy::SHIPPED };
    ZoneConfig::new(frames, 1 + bytes.below(4)).starting_at(FrameId(start)).with_classes(policy)
}
