//! Geometries and zones in numbers.

use woodlot_frame::{Base4K, Base16K, Base64K, FrameId, Geometry, HugeId, ZoneConfig};

#[test]
fn frames_are_as_large_as_their_names_say() {
    let sizes = [
        (Base4K::BASE_BYTES, Base4K::HUGE_FRAMES, Base4K::MAX_FRAMES),
        (Base16K::BASE_BYTES, Base16K::HUGE_FRAMES, Base16K::MAX_FRAMES),
        (Base64K::BASE_BYTES, Base64K::HUGE_FRAMES, Base64K::MAX_FRAMES),
    ];
    assert_eq!(sizes, [(4096, 512, 1024), (16384, 2048, 4096), (65536, 32, 64)]);
}

#[test]
fn huge_frames_at_ragged_ends_are_not_in_the_zone() {
    let huge = |start, frames| {
        let zone = ZoneConfig::new(frames, 1).starting_at(FrameId(start));
        zone.huge_range::<Base4K>()
    };
    assert_eq!(huge(512, 1024), HugeId(1)..HugeId(3));
    assert_eq!(huge(513, 1535), HugeId(2)..HugeId(4));
    assert_eq!(huge(513, 1534), HugeId(2)..HugeId(3));
    // None at all, though the numbers of those around would be in the wrong order.
    assert_eq!(huge(513, 100), HugeId(2)..HugeId(2));
}
