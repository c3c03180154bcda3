//! Zones from memory maps, over real memory: what is used is never touched, and all else is had once.
#![allow(clippy::single_range_in_vec_init, reason = "a map may have one range")]

mod common;

use std::ops::Range;

use common::Arena;
use woodlot_frame::{Base4K, Construct, FrameAllocator, InitError, Order, Request, Slot};
use woodlot_kernel::{BadMap, zone_from};
use woodlot_llfree::LLFree;
use woodlot_nbbs::Nbbs4;

type Zone = LLFree<'static, Base4K>;

const MIB: u64 = 1 << 20;

/// A zone of the map, whose addresses are offsets in the arena's memory.
fn zone<Z: Construct>(
    arena: &Arena<LLFree<Base4K>>,
    usable: &[Range<u64>],
    used: &[Range<u64>],
) -> Result<Z, BadMap> {
    // SAFETY: the arena has memory at each address of the maps here, and is there as long as the test.
    unsafe { zone_from(usable.iter().cloned(), used, 2, arena.memory) }
}

#[test]
fn all_that_is_not_used_is_free() {
    let arena = Arena::new(4096);
    // SAFETY: the memory is the arena's.
    unsafe { arena.memory.write_bytes(0xaa, 16 << 20) };
    let usable = [5 * MIB..16 * MIB, 100..3 * MIB + 100];
    let used = [0..4096, MIB..2 * MIB + 5, 7 * MIB - 1..7 * MIB + 1, 4 * MIB..5 * MIB];
    let zone: Zone = zone(&arena, &usable, &used).expect("a zone");
    let size = Zone::metadata_size(zone.zone()).expect("it was made");
    let metadata = (size.durable + size.volatile).div_ceil(4096);
    // 1 MiB without frame 0; 1 MiB without a frame at its begin; 11 MiB without the two that have a used byte.
    let there = 255 + 255 + 11 * 256 - 2;
    assert_eq!(zone.free_frames(), there - metadata);
    assert_eq!(zone.zone().range(), woodlot_frame::FrameId(1)..woodlot_frame::FrameId(4096));
    let inside = |ranges: &[Range<u64>], at: u64| ranges.iter().any(|range| range.contains(&at));
    let mut taken = 0;
    while let Ok(frame) = zone.alloc(Request::movable(Order(0), Slot(0))) {
        let (first, last) = (frame.0 as u64 * 4096, frame.0 as u64 * 4096 + 4095);
        assert!(inside(&usable, first) && inside(&usable, last), "{frame} is no memory");
        assert!(!inside(&used, first) && !inside(&used, last), "{frame} is in use");
        assert!(first < 16 * MIB - metadata as u64 * 4096, "{frame} has metadata");
        taken += 1;
    }
    assert_eq!(taken, there - metadata);
    for at in used.iter().flat_map(|used| used.clone()).filter(|&at| at < 7 * MIB + 1) {
        // SAFETY: as above.
        assert_eq!(unsafe { arena.memory.add(at as usize).read() }, 0xaa, "{at:#x} was written to");
    }
}

#[test]
fn what_is_wrong_with_a_map_is_said() {
    let arena = Arena::new(4096);
    let is = |usable: &[Range<u64>], used: &[Range<u64>]| zone::<Zone>(&arena, usable, used).err();
    assert_eq!(is(&[], &[]), Some(BadMap::TooSmall));
    assert_eq!(is(&[0..MIB], &[0..MIB]), Some(BadMap::TooSmall));
    assert_eq!(is(&[100..4000], &[]), Some(BadMap::TooSmall));
    // A frame here and one far away: neither has room for the metadata of all between them.
    assert_eq!(is(&[0..4096, 1 << 40..(1 << 40) + 4096], &[]), Some(BadMap::TooSmall));
    let twice = is(&[0..2 * MIB, MIB..4 * MIB], &[]);
    assert!(matches!(twice, Some(BadMap::Twice(_))), "{twice:?}");
    let nbbs = zone::<Nbbs4<'static, Base4K>>(&arena, &[0..MIB], &[]).err();
    assert_eq!(nbbs, Some(BadMap::Zone(InitError::Unsupported)));
    for error in [BadMap::TooSmall, twice.expect("seen above"), nbbs.expect("seen above")] {
        assert!(error.to_string().len() > 20, "{error}");
    }
}
