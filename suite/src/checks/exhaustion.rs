//! Out of memory means that there is none: the last frame is found on every slot, for every
//! class, wherever it was freed and whoever holds its tree.

use woodlot_frame::{Class, FrameId, Init, Order, Request, Slot, ZoneConfig};

use super::{Checked, Engine, rng};
use crate::zones;

/// Every slot and class gets the one block that is left, whichever slot freed it.
pub fn the_last_block_is_found_from_every_slot_and_class(engine: Engine) {
    let mut rng = rng(20);
    let config = ZoneConfig::new(2 * engine.tree_frames - 3, 3).starting_at(FrameId(1));
    for order in engine.orders() {
        let mut zone = Checked::new(engine, &config, Init::Free);
        let blocks = zone.fill(order, Class::MOVABLE, Slot(0));
        for freed_by in (0..config.slots).map(Slot) {
            for slot in (0..config.slots).map(Slot) {
                for class in config.classes.all() {
                    let last = blocks[rng.usize(..blocks.len())];
                    zone.give(last, order, freed_by);
                    let again = zone.alloc(Request::new(order, class, slot));
                    assert_eq!(again, Ok(last), "the only free block of {order}");
                    assert!(zone.alloc(Request::new(order, class, slot)).is_err());
                }
            }
        }
        zone.validate_counts();
    }
}

/// One slot takes everything although the others hold trees of their own, of every class.
pub fn trees_held_by_other_slots_are_found(engine: Engine) {
    let classes = ZoneConfig::new(1, 1).classes;
    for taker in 0..4 {
        let mut zone = Checked::new(engine, &zones::trees(engine, 4, 4), Init::Free);
        let mut kept = Vec::new();
        for slot in (0..4).map(Slot) {
            for class in classes.all() {
                let order = Order(class.0);
                let frame = zone.alloc(Request::new(order, class, slot));
                kept.push((frame.expect("the zone is empty"), order));
            }
        }
        let blocks = zone.fill_all(Slot(taker));
        zone.validate_counts();
        // What the others freed themselves is found too.
        for (n, (frame, order)) in kept.into_iter().enumerate() {
            zone.give(frame, order, Slot(n / classes.count()));
        }
        zone.fill(Order::BASE, Class::IMMOVABLE, Slot(taker));
        assert_eq!(zone.model.free_frames(), 0);
        zone.validate();
        drop(blocks);
    }
}

/// Frames that other slots freed in a row (which may move their reservation there) are found.
pub fn frames_freed_by_other_slots_are_found(engine: Engine) {
    let mut rng = rng(21);
    let config = zones::trees(engine, 3, 3);
    let mut zone = Checked::new(engine, &config, Init::Free);
    let order = Order(engine.huge_order.0 - 3);
    let mut blocks = zone.fill(order, Class::MOVABLE, Slot(0));
    for round in 0..30 {
        // A run of neighbours, then some anywhere: eight frees in a tree move a reservation.
        let run = rng.usize(..blocks.len() - 12);
        let mut freed: Vec<FrameId> = blocks.drain(run..run + 12).collect();
        for _ in 0..4 {
            freed.push(blocks.swap_remove(rng.usize(..blocks.len())));
        }
        for &frame in &freed {
            zone.give(frame, order, Slot(1 + round % 2));
        }
        let class = Class(round as u8 % 4);
        let found = zone.fill(order, class, Slot((round / 2) % 3));
        assert_eq!(found.len(), freed.len(), "all that was freed is found");
        blocks.extend(found);
        zone.validate_counts();
    }
    zone.validate();
}

/// A tree with exactly one fitting block left serves it, at every order (not "more than enough",
/// but "enough").
pub fn the_last_exact_fit_is_used(engine: Engine) {
    for order in engine.orders() {
        // As large as one block, and as two: the counters reach zero exactly.
        for blocks in 1..=2 {
            let mut zone = Checked::new(engine, &ZoneConfig::new(blocks << order.0, 2), Init::Free);
            for n in 0..blocks {
                zone.take(order, Slot(n));
            }
            assert!(zone.alloc(Request::movable(order, Slot(0))).is_err());
            zone.validate();
        }
        // The last huge frame of a tree holds exactly one block.
        if order.frames() < engine.huge_frames {
            let mut zone = Checked::new(engine, &zones::trees(engine, 1, 2), Init::Free);
            let huge_order = engine.huge_order;
            zone.fill(huge_order, Class::MOVABLE, Slot(0));
            let last = zone.model.allocated().next_back().expect("the zone is full").0;
            zone.give(FrameId(last + 1 - engine.huge_frames), huge_order, Slot(0));
            for slot in 0..engine.huge_frames >> order.0 {
                zone.take(order, Slot(slot & 1));
            }
            assert!(zone.alloc(Request::movable(order, Slot(1))).is_err());
            zone.validate_counts();
        }
    }
}

/// More slots than trees, and more slots than frames.
pub fn more_slots_than_memory(engine: Engine) {
    let slots = 8;
    for frames in [1, 3, engine.huge_frames, 3 * engine.huge_frames + 1, engine.tree_frames] {
        let mut zone = Checked::new(engine, &ZoneConfig::new(frames, slots), Init::Free);
        let mut taken = Vec::new();
        let order = Order(if frames > 3 { 2 } else { 0 });
        for n in 0.. {
            let class = Class(n as u8 / 8 % 4);
            match zone.alloc(Request::new(order, class, Slot(n % slots))) {
                Ok(frame) => taken.push((frame, order)),
                Err(_) => break,
            }
        }
        let last = zone.fill(Order::BASE, Class::HUGE, Slot(slots - 1));
        taken.extend(last.into_iter().map(|frame| (frame, Order::BASE)));
        assert_eq!(zone.model.free_frames(), 0);
        zone.validate_counts();
        zone.give_all(taken, &mut rng(22));
        for slot in 0..slots {
            let all = zone.fill_all(Slot(slot));
            zone.give_all(all, &mut rng(23));
        }
        zone.validate();
    }
}

/// Free frames that are no neighbours: each is found, and no larger block is.
pub fn scattered_frames_are_found(engine: Engine) {
    let mut rng = rng(24);
    let config = ZoneConfig::new(engine.tree_frames + 5, 2).starting_at(FrameId(2));
    let mut zone = Checked::new(engine, &config, Init::Free);
    let mut blocks = zone.fill(Order::BASE, Class::MOVABLE, Slot(0));
    rng.shuffle(&mut blocks);
    // One of each pair of neighbours, in one huge frame of four.
    for &frame in blocks.iter().filter(|frame| frame.0 % 2 == 1) {
        if (frame.0 / engine.huge_frames) % 4 == 1 {
            zone.give(frame, Order::BASE, Slot(rng.usize(..2)));
        }
    }
    for order in engine.orders().skip(1) {
        assert!(zone.alloc(Request::movable(order, Slot(1))).is_err());
    }
    zone.validate();
    zone.fill(Order::BASE, Class::LONG_LIVED, Slot(1));
    assert_eq!(zone.model.free_frames(), 0);
    zone.validate();
}

/// Draining between any two calls changes what is near, never what is there.
pub fn drains_lose_nothing(engine: Engine) {
    let mut rng = rng(25);
    let config = zones::trees(engine, 2, 3);
    let mut zone = Checked::new(engine, &config, Init::Free);
    let mut blocks = Vec::new();
    for _ in 0..300 {
        let slot = Slot(rng.usize(..3));
        zone.drain(slot).expect("the slot exists");
        let order = Order(rng.u8(..=3));
        blocks.push((zone.take(order, slot), order));
        zone.drain(Slot(rng.usize(..3))).expect("the slot exists");
        zone.validate_counts();
        if rng.bool() {
            let (frame, order) = blocks.swap_remove(rng.usize(..blocks.len()));
            zone.give(frame, order, slot);
        }
    }
    (0..3).for_each(|slot| zone.drain(Slot(slot)).expect("the slot exists"));
    zone.validate();
    blocks.extend(zone.fill_all(Slot(2)));
    zone.give_all(blocks, &mut rng);
    zone.validate();
}
