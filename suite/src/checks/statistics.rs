//! What can be known about a zone: counts, availability, the map of free huge frames, free blocks.
//! `validate` compares all of it; here are the states in which it could differ.

use woodlot_frame::{Class, FrameId, FreeBlocks, HugeId, Init, Order, Request, Slot, ZoneConfig};

use super::{Checked, Engine, rng};
use crate::zones;

/// After every call, through every slot, drained or not.
pub fn counts_are_exact_after_every_call(engine: Engine) {
    let mut rng = rng(110);
    let config =
        ZoneConfig::new(5 * engine.huge_frames + 9, 3).starting_at(FrameId(engine.huge_frames - 2));
    let mut zone = Checked::new(engine, &config, Init::Free);
    let mut blocks = Vec::new();
    for _ in 0..400 {
        let slot = Slot(rng.usize(..3));
        let order = Order(rng.u8(..=zone.model.max_order().0));
        match rng.u8(..8) {
            0 => drop(zone.drain(slot)),
            1..=3 if !blocks.is_empty() => {
                let (frame, order) = blocks.swap_remove(rng.usize(..blocks.len()));
                zone.give(frame, order, slot);
            }
            _ => blocks.extend(zone.alloc(Request::movable(order, slot)).map(|f| (f, order))),
        }
        zone.validate_counts();
    }
    zone.validate();
    zone.validate_free_blocks();
}

/// "Never no while a huge frame is free", down to the last one, and exact at both ends.
pub fn availability_near_exhaustion(engine: Engine) {
    let config =
        ZoneConfig::new(engine.tree_frames + 5, 2).starting_at(FrameId(engine.huge_frames - 3));
    let mut zone = Checked::new(engine, &config, Init::Free);
    let huge_order = engine.huge_order;
    let mut held = Vec::new();
    while let Ok(frame) = zone.alloc(Request::movable(huge_order, Slot(0))) {
        held.push((frame, huge_order));
        zone.validate_counts();
    }
    while let Ok(frame) = zone.alloc(Request::movable(Order::BASE, Slot(1))) {
        held.push((frame, Order::BASE));
        zone.validate_counts();
    }
    while let Some((frame, order)) = held.pop() {
        zone.give(frame, order, Slot(0));
        zone.validate_counts();
    }
    zone.validate();
}

/// Two free huge frames are a block of the geometry's largest order only if they are neighbours that are
/// aligned.
pub fn the_largest_order_needs_an_aligned_pair(engine: Engine) {
    let mut zone = Checked::new(engine, &zones::huges(engine, 6, 2), Init::Free);
    let huge_order = engine.huge_order;
    zone.fill(huge_order, Class::HUGE, Slot(0));
    for (a, b) in [(0, 2), (1, 2), (3, 4), (0, 5), (2, 3), (4, 5)] {
        let frames = [a, b].map(|n: usize| FrameId(n * engine.huge_frames));
        frames.into_iter().for_each(|frame| zone.give(frame, huge_order, Slot(1)));
        zone.validate_counts();
        assert_eq!(zone.allocator().is_available(engine.pair_order), b == a + 1 && a % 2 == 0);
        let pair = zone.alloc(Request::movable(engine.pair_order, Slot(1)));
        if let Ok(frame) = pair {
            zone.give(frame, engine.pair_order, Slot(0));
        }
        zone.fill(huge_order, Class::HUGE, Slot(0));
    }
    zone.validate();
}

/// Drained, the statistics show every free frame, whatever the slots held.
pub fn drained_statistics(engine: Engine) {
    let mut rng = rng(111);
    let mut zone = Checked::new(engine, &zones::trees(engine, 4, 4), Init::Free);
    let mut blocks = Vec::new();
    for n in 0..1000 {
        let class = Class(n as u8 % 4);
        let order = Order(n as u8 % 5);
        let frame = zone.alloc(Request::new(order, class, Slot(n % 4)));
        blocks.extend(frame.map(|frame| (frame, order)));
    }
    let half = blocks.split_off(blocks.len() / 2);
    zone.give_all(half, &mut rng);
    for slot in (0..4).map(Slot) {
        zone.drain(slot).expect("the slot exists");
        zone.drain(slot).expect("the slot exists, twice");
        zone.validate_counts();
    }
    zone.validate();
    zone.give_all(blocks, &mut rng);
    (0..4).for_each(|slot| zone.drain(Slot(slot)).expect("the slot exists"));
    let stats = zone.allocator().stats();
    assert_eq!(stats.free_huge, 4 * engine.tree_huge, "all is free again");
    zone.validate();
}

/// The free blocks and the longest free run of ragged, scattered, empty and full zones.
pub fn free_blocks_are_counted(engine: Engine) {
    let mut rng = rng(112);
    for config in zones::small(engine).into_iter().step_by(3) {
        let mut zone = Checked::new(engine, &config, Init::Free);
        zone.validate_free_blocks();
        let mut blocks = zone.fill_all(Slot(0));
        zone.validate_free_blocks();
        assert_eq!(zone.allocator().free_blocks(), FreeBlocks::default());
        rng.shuffle(&mut blocks);
        blocks.truncate(blocks.len() / 2);
        zone.give_all(blocks, &mut rng);
        zone.validate_free_blocks();
    }
}

/// The map of a huge frame in all its states, with what compaction would choose by.
pub fn the_map_of_huge_frames(engine: Engine) {
    let mut zone = Checked::new(engine, &zones::huges(engine, 3, 2), Init::Free);
    for order in engine.orders().filter(|&order| order <= engine.pair_order) {
        let frame = zone.take(order, Slot(0));
        let used = order.frames().min(engine.huge_frames);
        let huge_frame = engine.huge_of(frame);
        assert_eq!(zone.allocator().free_in_huge(huge_frame), engine.huge_frames - used);
        assert!(!zone.allocator().free_huge_frames().contains(&huge_frame));
        zone.validate();
        zone.give(frame, order, Slot(1));
        assert_eq!(zone.allocator().free_in_huge(huge_frame), engine.huge_frames);
    }
    if !engine.unsupported.offline {
        zone.offline(HugeId(1), 1).expect("the huge frame is free");
        assert_eq!(zone.allocator().free_in_huge(HugeId(1)), 0);
        zone.validate();
    }
}
