//! Requests for one very block: granted exactly when that block is free.

use woodlot_frame::{
    AllocError, Class, FrameId, FreeError, HugeId, Init, Order, Request, Slot, ZoneConfig,
};

use super::{Checked, Engine, rng};
use crate::zones;

/// Every block of every order of a small zone is claimed, refused a second time, and freed.
pub fn every_block_can_be_claimed(engine: Engine) {
    if engine.unsupported.exact_frame {
        return;
    }
    let config =
        ZoneConfig::new(5 * engine.huge_frames + 3, 2).starting_at(FrameId(engine.huge_frames - 1));
    let mut zone = Checked::new(engine, &config, Init::Free);
    for order in engine.orders() {
        let blocks: Vec<_> = zone.model.blocks(order).collect();
        for &frame in blocks.iter().rev() {
            zone.claim(frame, order, Slot(0));
            let again = zone.alloc(Request::movable(order, Slot(1)).at(frame));
            assert_eq!(again, Err(AllocError::InUse(frame)));
        }
        zone.validate_counts();
        for frame in blocks {
            zone.give(frame, order, Slot(1));
        }
        zone.validate_counts();
    }
    zone.validate();
}

/// One frame in use, at any position, refuses every block around it, and the refusal leaves no
/// trace in the other words of the block.
pub fn a_frame_in_use_refuses_the_blocks_around_it(engine: Engine) {
    if engine.unsupported.exact_frame {
        return;
    }
    let size = engine.huge_frames;
    let mut positions = vec![0, 1, 31, 32, 63, 64, 65, 127, 128, 255, 256, 448, 511, 512];
    positions.extend([size / 2 - 1, size / 2, size - 1, size, size + 1, 2 * size - 1]);
    for position in positions.into_iter().map(FrameId) {
        let mut zone = Checked::new(engine, &zones::largest(engine, 9, 2), Init::Free);
        zone.claim(position, Order::BASE, Slot(0));
        for order in engine.orders() {
            let block = FrameId(position.0 & !(order.frames() - 1));
            let answer = zone.alloc(Request::movable(order, Slot(1)).at(block));
            assert_eq!(answer, Err(AllocError::InUse(block)));
        }
        zone.validate();
        zone.fill_all(Slot(1));
        zone.give(position, Order::BASE, Slot(1));
        zone.validate_counts();
    }
}

/// Random claims of every order, with and against ordinary allocations, and through every class.
pub fn claims_and_allocations_mix(engine: Engine) {
    if engine.unsupported.exact_frame {
        return;
    }
    let mut rng = rng(40);
    let config = ZoneConfig::new(engine.tree_frames + 9, 3).starting_at(FrameId(5));
    let mut zone = Checked::new(engine, &config, Init::Free);
    let mut blocks = Vec::new();
    for _ in 0..1500 {
        let order = Order(rng.u8(..=zone.model.max_order().0));
        let frame = FrameId(rng.usize(5..config.end().0) & !(order.frames() - 1));
        let request = Request::new(order, Class(rng.u8(..4)), Slot(rng.usize(..3)));
        let request = if rng.bool() { request.at(frame) } else { request };
        match zone.alloc(request) {
            Ok(frame) => blocks.push((frame, order)),
            Err(_) if blocks.is_empty() => {}
            Err(_) => {
                let (frame, order) = blocks.swap_remove(rng.usize(..blocks.len()));
                zone.give(frame, order, Slot(rng.usize(..3)));
            }
        }
    }
    zone.validate();
    zone.give_all(blocks, &mut rng);
    zone.validate();
}

/// The last free block, wherever it is, can be claimed through every slot, though another slot
/// holds its tree.
pub fn the_last_block_can_be_claimed(engine: Engine) {
    if engine.unsupported.exact_frame {
        return;
    }
    let mut rng = rng(41);
    for order in engine.orders() {
        let mut zone = Checked::new(engine, &zones::huges(engine, 6, 3), Init::Free);
        let blocks = zone.fill(order, Class::MOVABLE, Slot(0));
        for n in 0..60 {
            let frame = blocks[rng.usize(..blocks.len())];
            zone.give(frame, order, Slot(n % 3));
            zone.claim(frame, order, Slot(n / 3 % 3));
        }
        zone.validate_counts();
    }
}

/// What is offline is in use for claims.
pub fn offline_frames_cannot_be_claimed(engine: Engine) {
    if engine.unsupported.exact_frame || engine.unsupported.offline {
        return;
    }
    let mut zone = Checked::new(engine, &zones::huges(engine, 4, 2), Init::Free);
    zone.offline(HugeId(1), 1).expect("the huge frame is free");
    for order in engine.orders() {
        let frame = FrameId(engine.huge_frames & !(order.frames() - 1));
        let answer = zone.alloc(Request::movable(order, Slot(0)).at(frame));
        assert_eq!(answer, Err(AllocError::InUse(frame)));
        assert!(matches!(
            zone.free(frame, order, Slot(0)),
            Err(FreeError::Offline(_)) | Err(FreeError::NotAllocated(_))
        ));
    }
    zone.validate();
}
