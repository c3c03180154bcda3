//! Blocks freed in parts, in any order, and freed together though they were allocated apart.

use woodlot_frame::{
    AllocError, Class, FrameId, FreeError, Init, Order, Request, Slot, ZoneConfig,
};

use super::{Checked, Engine, all_allocated, rng};
use crate::zones;

/// Every order freed in blocks of every smaller order, in random order.
pub fn every_order_in_every_smaller_order(engine: Engine) {
    if engine.unsupported.partial_free {
        return;
    }
    let mut rng = rng(50);
    let mut zone = Checked::new(engine, &zones::largest(engine, 3, 2), Init::Free);
    for large in engine.orders() {
        for small in engine.orders().take(large.0 as usize) {
            let neighbour = zone.take(large, Slot(0));
            let block = zone.take(large, Slot(1));
            let parts = 0..1usize << (large.0 - small.0);
            let parts = parts.map(|n| (FrameId(block.0 + (n << small.0)), small)).collect();
            zone.give_all(parts, &mut rng);
            assert_eq!(
                zone.free(block, large, Slot(0)),
                Err(FreeError::NotAllocated(block)),
                "a whole free after the parts"
            );
            zone.give(neighbour, large, Slot(0));
        }
        zone.validate_counts();
    }
    zone.validate();
}

/// Every order freed in random parts of random orders, parts of it allocated again meanwhile.
pub fn random_parts_return_and_come_back(engine: Engine) {
    if engine.unsupported.partial_free {
        return;
    }
    let mut rng = rng(51);
    let config =
        ZoneConfig::new(4 * engine.huge_frames + 1, 2).starting_at(FrameId(engine.huge_frames));
    let mut zone = Checked::new(engine, &config, Init::Free);
    for round in 0..12 {
        zone.fill_all(Slot(0));
        for _ in 0..150 {
            let order = Order(rng.u8(..=zone.model.max_order().0));
            let frame = rng.usize(config.start.0..config.end().0) & !(order.frames() - 1);
            // Most of these are allocated in full; the others must be refused.
            let _ = zone.free(FrameId(frame), order, Slot(rng.usize(..2)));
            if rng.u8(..4) == 0 {
                let _ = zone.alloc(Request::movable(Order(rng.u8(..=order.0)), Slot(1)));
            }
        }
        zone.validate_counts();
        if round % 4 == 0 {
            zone.validate();
        }
    }
    zone.give_rest(Slot(0));
    zone.validate();
}

/// Small blocks freed as larger ones that were never allocated as such.
pub fn small_blocks_are_freed_together(engine: Engine) {
    if engine.unsupported.partial_free {
        return;
    }
    for small in engine.orders() {
        for large in engine.orders().skip(small.0 as usize + 1) {
            let mut zone = Checked::new(engine, &zones::huges(engine, 4, 2), Init::Free);
            zone.fill(small, Class::IMMOVABLE, Slot(0));
            let blocks: Vec<_> = zone.model.blocks(large).collect();
            for frame in blocks {
                zone.give(frame, large, Slot(1));
            }
            zone.validate();
        }
    }
}

/// Boot memory: all allocated, then freed in blocks of one order that nobody ever allocated, some
/// holes staying behind.
pub fn boot_memory_is_freed_in_every_order(engine: Engine) {
    if engine.unsupported.partial_free {
        return;
    }
    let config =
        ZoneConfig::new(engine.tree_frames + engine.huge_frames + 5, 2).starting_at(FrameId(3));
    for order in engine.orders() {
        let Some(mut zone) = all_allocated(engine, &config) else { return };
        let blocks: Vec<_> = zone.model.blocks(order).collect();
        for (n, frame) in blocks.into_iter().enumerate() {
            if n % 7 != 3 {
                zone.give(frame, order, Slot(n & 1));
            }
        }
        zone.validate();
        // The holes stay.
        let (free, left) = (zone.model.free_frames(), config.frames - zone.model.free_frames());
        assert!(left > 0);
        let blocks = zone.fill(order, Class::MOVABLE, Slot(0));
        assert_eq!(blocks.len() << order.0, free);
        zone.give_all(blocks.into_iter().map(|frame| (frame, order)).collect(), &mut rng(52));
        zone.validate();
        zone.give_rest(Slot(0));
        zone.validate();
    }
}

/// The first part splits a block; at that moment nothing else of it is free.
pub fn a_split_frees_only_the_part(engine: Engine) {
    if engine.unsupported.partial_free {
        return;
    }
    for large in engine.orders().skip(1) {
        let size = large.frames();
        for part in [0, 1, size / 2, size - 1] {
            let mut zone = Checked::new(engine, &ZoneConfig::new(2 * size, 2), Init::Free);
            let block = zone.take(large, Slot(0));
            zone.take(large, Slot(0));
            let part = FrameId(block.0 + part);
            zone.give(part, Order::BASE, Slot(1));
            zone.validate();
            assert_eq!(zone.alloc(Request::movable(Order::BASE, Slot(1))), Ok(part));
            let none = zone.alloc(Request::movable(Order::BASE, Slot(0)));
            assert_eq!(none, Err(AllocError::OutOfMemory));
            // All is allocated again, so the block may go back as one.
            zone.give(block, large, Slot(0));
            zone.validate();
        }
    }
}
