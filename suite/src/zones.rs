//! The zones that tests run on: ragged at both ends, small and large, low and high.

use woodlot_frame::{FrameId, Geometry, ZoneConfig};

/// A zone of whole trees from frame zero.
pub fn trees<G: Geometry>(trees: usize, slots: usize) -> ZoneConfig {
    ZoneConfig::new(trees * G::TREE_FRAMES, slots)
}

/// A zone of whole huge frames from frame zero.
pub fn huges<G: Geometry>(huges: usize, slots: usize) -> ZoneConfig {
    ZoneConfig::new(huges * G::HUGE_FRAMES, slots)
}

/// First frames: zero, one, odd, inside a huge frame, the last of one, inside a tree, and high.
fn starts<G: Geometry>() -> [usize; 7] {
    let (huge, tree) = (G::HUGE_FRAMES, G::TREE_FRAMES);
    [0, 1, 12_345, huge / 2, huge - 1, 5 * tree + 3 * huge, (1 << 36) + tree - 3]
}

/// Zones below and around one huge frame.
pub fn small<G: Geometry>() -> Vec<ZoneConfig> {
    let huge = G::HUGE_FRAMES;
    let sizes = [1, 2, 3, 63, 65, huge - 1, huge, huge + 1, 2 * huge, 3 * huge + 5];
    let sized = |start| sizes.map(|frames| ZoneConfig::new(frames, 2).starting_at(FrameId(start)));
    starts::<G>().into_iter().flat_map(sized).collect()
}

/// Zones around one tree and several.
pub fn large<G: Geometry>() -> Vec<ZoneConfig> {
    let tree = G::TREE_FRAMES;
    let [zero, one, .., unaligned, _, high] = starts::<G>();
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
pub fn ragged<G: Geometry>() -> Vec<ZoneConfig> {
    let mut zones = small::<G>();
    zones.extend(large::<G>());
    zones
}
