//! Huge frames and trees taken out and put back.

use woodlot_frame::{
    Class, FrameId, FreeError, HugeId, Init, OfflineError, Order, Request, Slot, ZoneConfig,
};

use super::{Checked, Engine, rng};
use crate::zones;

/// A ragged zone with whole huge frames 1 to 34.
fn ragged(engine: Engine) -> ZoneConfig {
    ZoneConfig::new(engine.tree_frames + 3 * engine.huge_frames - 2, 2).starting_at(FrameId(1))
}

/// Every huge frame, one at a time: nobody gets it, nobody can free it, then it is back.
pub fn every_huge_frame_goes_and_comes_back(engine: Engine) {
    if engine.unsupported.offline {
        return;
    }
    let mut zone = Checked::new(engine, &ragged(engine), Init::Free);
    for huge_frame in zone.model.huge_range().map(HugeId) {
        zone.offline(huge_frame, 1).expect("the huge frame is free");
        let first = engine.first_of(huge_frame);
        assert_eq!(zone.offline(huge_frame, 1), Err(OfflineError::InUse(first)), "twice");
        for order in engine.orders().take(usize::from(engine.huge_order.0) + 1) {
            assert_eq!(zone.free(first, order, Slot(0)), Err(FreeError::Offline(first)));
        }
        zone.validate_counts();
        zone.online(huge_frame, 1).expect("it is offline");
        assert_eq!(zone.online(huge_frame, 1), Err(OfflineError::NotOffline), "twice");
        zone.validate_counts();
    }
    zone.validate();
}

/// What is offline is never handed out, though memory runs out.
pub fn offline_frames_are_never_handed_out(engine: Engine) {
    if engine.unsupported.offline {
        return;
    }
    let mut rng = rng(70);
    let mut zone = Checked::new(engine, &ragged(engine), Init::Free);
    for order in [0, 1, 3, engine.huge_order.0 - 1, engine.huge_order.0].map(Order) {
        let mut out = Vec::new();
        for n in zone.model.huge_range().filter(|n| n % 3 == 0) {
            zone.offline(HugeId(n), 1).expect("the huge frame is free");
            out.push(HugeId(n));
        }
        let blocks = zone.fill(order, Class::MOVABLE, Slot(0));
        zone.validate();
        // Put back while everything else is used: it is found at once, by the other slot.
        let back = out.pop().expect("some are offline");
        zone.online(back, 1).expect("it is offline");
        let found = zone.fill(order, Class::IMMOVABLE, Slot(1));
        assert_eq!(found.len() << order.0, engine.huge_frames);
        let all = blocks.into_iter().chain(found).map(|frame| (frame, order)).collect();
        zone.give_all(all, &mut rng);
        out.into_iter().for_each(|n| zone.online(n, 1).expect("it is offline"));
        zone.validate();
    }
}

/// Whole trees at once, and ranges across trees, also with a slot's reservation in them.
pub fn whole_trees_go_and_come_back(engine: Engine) {
    if engine.unsupported.offline {
        return;
    }
    let tree_huge = engine.tree_huge;
    let mut zone = Checked::new(engine, &zones::trees(engine, 3, 2), Init::Free);
    for (first, count) in [(0, 1), (1, 1), (2, 1), (0, 2), (0, 3)] {
        let (first, count) = (HugeId(first * tree_huge), count * tree_huge);
        // A reservation in whichever tree the engine likes.
        let frame = zone.take(Order::BASE, Slot(0));
        zone.give(frame, Order::BASE, Slot(0));
        zone.offline(first, count).expect("all is free");
        zone.validate();
        let blocks = zone.fill_all(Slot(0));
        zone.online(first, count).expect("all of it is offline");
        zone.give_all(blocks, &mut rng(71));
        zone.validate();
    }
    let (first, count) = (HugeId(tree_huge - 2), 4);
    zone.offline(first, count).expect("all is free");
    zone.validate();
    zone.online(first, count).expect("all of it is offline");
    zone.validate();
}

/// A range of which one frame is in use, or one huge frame offline, stays as it is: all or none.
pub fn ranges_are_taken_all_or_none(engine: Engine) {
    if engine.unsupported.offline || engine.unsupported.exact_frame {
        return;
    }
    let mut zone = Checked::new(engine, &zones::trees(engine, 2, 2), Init::Free);
    for used in [0, 1, 7, 31, 32, 39] {
        for frame in [0, engine.huge_frames / 2, engine.huge_frames - 1] {
            let frame = FrameId(used * engine.huge_frames + frame);
            zone.claim(frame, Order::BASE, Slot(0));
            assert_eq!(zone.offline(HugeId(0), 40), Err(OfflineError::InUse(frame)));
            assert_eq!(zone.offline(HugeId(used), 1), Err(OfflineError::InUse(frame)));
            zone.validate_counts();
            zone.give(frame, Order::BASE, Slot(0));
        }
        zone.offline(HugeId(used), 1).expect("the huge frame is free");
        let taken = Err(OfflineError::InUse(engine.first_of(HugeId(used))));
        assert_eq!(zone.offline(HugeId(0), 40), taken);
        assert_eq!(zone.online(HugeId(0), 40), Err(OfflineError::NotOffline));
        zone.validate_counts();
        zone.online(HugeId(used), 1).expect("it is offline");
    }
    zone.offline(HugeId(0), 40).expect("all is free again");
    assert_eq!(zone.online(HugeId(0), 41), Err(OfflineError::NotOffline));
    zone.validate();
    zone.online(HugeId(0), 40).expect("all of it is offline");
    zone.validate();
}

/// Huge frames owned in part, as one block, split, or as part of a larger block, stay.
pub fn used_huge_frames_stay(engine: Engine) {
    if engine.unsupported.offline {
        return;
    }
    let mut zone = Checked::new(engine, &zones::huges(engine, 4, 2), Init::Free);
    for order in engine.orders() {
        let frame = zone.take(order, Slot(0));
        let first = engine.huge_of(frame);
        assert_eq!(zone.offline(first, 1), Err(OfflineError::InUse(frame)));
        assert_eq!(zone.online(first, 1), Err(OfflineError::NotOffline));
        if order > Order::BASE && !engine.unsupported.partial_free {
            zone.give(frame, Order(order.0 - 1), Slot(0));
            let rest = FrameId(frame.0 + order.frames() / 2);
            assert_eq!(zone.offline(engine.huge_of(rest), 1), Err(OfflineError::InUse(rest)));
            zone.validate_counts();
            zone.give(rest, Order(order.0 - 1), Slot(0));
        } else {
            zone.give(frame, order, Slot(0));
        }
        // Now that it is free again, also after having been split, it can go.
        zone.offline(first, 1).expect("the huge frame is free");
        zone.validate_counts();
        zone.online(first, 1).expect("it is offline");
    }
    zone.validate();
}

/// Everything offline: no memory at all, and no error but that.
pub fn everything_offline(engine: Engine) {
    if engine.unsupported.offline {
        return;
    }
    let config = zones::trees(engine, 1, 2);
    let mut zone = Checked::new(engine, &config, Init::Free);
    zone.offline(HugeId(0), engine.tree_huge).expect("all is free");
    for order in engine.orders() {
        assert!(zone.alloc(Request::movable(order, Slot(0))).is_err());
    }
    zone.drain(Slot(0)).expect("the slot exists");
    zone.validate();
    zone.online(HugeId(0), engine.tree_huge).expect("all is offline");
    zone.fill_all(Slot(1));
    assert_eq!(zone.allocator().stats().free_frames, 0);
    zone.validate();
}
