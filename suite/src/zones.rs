//! The zones that tests run on: ragged at both ends, small and large, low and high.

use woodlot_frame::{FrameId, ZoneConfig};

use crate::engine::Engine;

/// A zone of whole trees from frame zero.
pub fn trees(engine: Engine, trees: usize, slots: usize) -> ZoneConfig {
    ZoneConfig::new(trees * engine.tree_frames, slots)
}

/// A zone of whole huge frames from frame zero.
pub fn huges(engine: Engine, huges: usize, slots: usize) -> ZoneConfig {
    ZoneConfig::new(huges * engine.huge_frames, slots)
}

/// A zone of so many blocks of the largest order from frame zero.
pub fn largest(engine: Engine, blocks: usize, slots: usize) -> ZoneConfig {
    ZoneConfig::new(blocks * engine.max_order.frames(), slots)
}

/// First frames: zero, one, odd, inside a huge frame, the last of one, inside a tree, and high.
fn starts(engine: Engine) -> [usize; 7] {
    let (huge, tree) = (engine.huge_frames, engine.tree_frames);
    [0, 1, 12_345, huge / 2, huge - 1, 5 * tree + 3 * huge, (1 << 36) + tree - 3]
}

/// Zones below and around one huge frame.
pub fn small(engine: Engine) -> Vec<ZoneConfig> {
    let huge = engine.huge_frames;
    let sizes = [1, 2, 3, 63, 65, huge - 1, huge, huge + 1, 2 * huge, 3 * huge + 5];
    let sized = |start| sizes.map(|frames| ZoneConfig::new(frames, 2).starting_at(FrameId(start)));
    starts(engine).into_iter().flat_map(sized).collect()
}

/// Zones around one tree and several.
pub fn large(engine: Engine) -> Vec<ZoneConfig> {
    let tree = engine.tree_frames;
    let [zero, one, .., unaligned, _, high] = starts(engine);
    let mut zones = Vec::new();
    for frames in [tree - 1, tree, tree + 1] {
        zones.push(ZoneConfig::new(frames, 3).starting_at(FrameId(zero)));
        zones.push(ZoneConfig::new(frames, 3).starting_at(FrameId(unaligned)));
    }
    zones.push(ZoneConfig::new(3 * tree + 7, 3).starting_at(FrameId(one)));
    zones.push(ZoneConfig::new(3 * tree + 7, 3).starting_at(FrameId(high)));
    zones
}

/// Every ragged zone.
pub fn ragged(engine: Engine) -> Vec<ZoneConfig> {
    let mut zones = small(engine);
    zones.extend(large(engine));
    zones
}
