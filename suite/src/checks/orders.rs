//! Every order is allocated, aligned, freed and allocated again; every order fills a zone.

use woodlot_frame::{Class, FrameId, Init, Order, Request, Slot, ZoneConfig};

use super::{Checked, Engine, rng};
use crate::zones;

/// A zone ragged at both ends, of a tree and some huge frames.
fn ragged_tree(engine: Engine) -> ZoneConfig {
    let frames = engine.tree_frames + 3 * engine.huge_frames + 7;
    ZoneConfig::new(frames, 3).starting_at(FrameId(engine.huge_frames / 2 + 1))
}

/// One block of each order, in each class, through each slot.
pub fn one_block_of_every_order(engine: Engine) {
    for config in [zones::trees(engine, 2, 3), ragged_tree(engine)] {
        let mut zone = Checked::new(engine, &config, Init::Free);
        for order in engine.orders() {
            for class in config.classes.all() {
                for slot in (0..config.slots).map(Slot) {
                    let frame = zone.alloc(Request::new(order, class, slot));
                    let frame = frame.expect("the zone is empty");
                    zone.validate_counts();
                    zone.give(frame, order, slot);
                }
            }
            zone.validate_counts();
        }
        zone.validate();
    }
}

/// Blocks of each order until there are no more, freed in random order, twice.
pub fn every_order_fills_the_zone(engine: Engine) {
    let mut rng = rng(1);
    let mut zone = Checked::new(engine, &ragged_tree(engine), Init::Free);
    for order in engine.orders() {
        for round in 0..2 {
            let frames = zone.fill(order, Class::MOVABLE, Slot(round));
            zone.validate_counts();
            zone.give_all(frames.into_iter().map(|frame| (frame, order)).collect(), &mut rng);
            zone.validate_counts();
        }
    }
    zone.validate();
}

/// Blocks of random orders until not even a single frame is left.
pub fn mixed_orders_fill_the_zone(engine: Engine) {
    let mut rng = rng(2);
    let mut zone = Checked::new(engine, &ragged_tree(engine), Init::Free);
    for round in 0..3 {
        let mut blocks = Vec::new();
        let mut largest = zone.model.max_order().0;
        loop {
            let order = Order(rng.u8(..=largest));
            let slot = Slot(rng.usize(..3));
            match zone.alloc(Request::movable(order, slot)) {
                Ok(frame) => blocks.push((frame, order)),
                Err(_) if order.0 == 0 => break,
                Err(_) => largest = order.0 - 1,
            }
        }
        if round == 0 {
            zone.validate();
        }
        zone.give_all(blocks, &mut rng);
        zone.validate_counts();
    }
    zone.validate();
    zone.validate_free_blocks();
}

/// The same block taken and freed again and again, through the same and through another slot:
/// nothing may drift.
pub fn pairs_leave_nothing_behind(engine: Engine) {
    let mut zone = Checked::new(engine, &ragged_tree(engine), Init::Free);
    for order in engine.orders() {
        for n in 0..200 {
            let frame = zone.take(order, Slot(0));
            zone.give(frame, order, Slot(n & 1));
        }
        zone.validate_counts();
    }
    zone.validate();
}

/// A few hundred blocks of one order, freed first-in first-out, last-in first-out and at random.
pub fn frees_in_every_pattern(engine: Engine) {
    let mut rng = rng(3);
    let mut zone = Checked::new(engine, &zones::trees(engine, 2, 3), Init::Free);
    for order in engine.orders() {
        let count = 300.min(zone.model.free_frames() >> order.0);
        for pattern in 0..3 {
            let mut frames: Vec<_> = (0..count).map(|_| zone.take(order, Slot(0))).collect();
            match pattern {
                0 => {}
                1 => frames.reverse(),
                _ => rng.shuffle(&mut frames),
            }
            for frame in frames {
                zone.give(frame, order, Slot(pattern));
            }
        }
        zone.validate_counts();
    }
    zone.validate();
}
