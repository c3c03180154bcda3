//! Huge frames and trees taken out and put back.

use woodlot_frame::{
    Class, Construct, FrameId, FreeError, Geometry, HugeId, Init, OfflineError, Order, Request,
    Slot, ZoneConfig,
};

use super::{Checked, Geo, huge, rng, tree};
use crate::zones;

/// A ragged zone with whole huge frames 1 to 34.
fn ragged<A: Construct>() -> ZoneConfig {
    ZoneConfig::new(tree::<A>() + 3 * huge::<A>() - 2, 2).starting_at(FrameId(1))
}

/// Every huge frame, one at a time: nobody gets it, nobody can free it, then it is back.
pub fn every_huge_frame_goes_and_comes_back<A: Construct>() {
    if A::UNSUPPORTED.offline {
        return;
    }
    let mut zone = Checked::<A>::new(&ragged::<A>(), Init::Free);
    for huge_frame in zone.model.huge_range().map(HugeId) {
        zone.offline(huge_frame, 1).expect("the huge frame is free");
        assert_eq!(zone.offline(huge_frame, 1), Err(OfflineError::InUse), "twice");
        let first = huge_frame.first::<Geo<A>>();
        for order in Order::all::<Geo<A>>().take(Geo::<A>::HUGE_ORDER as usize + 1) {
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
pub fn offline_frames_are_never_handed_out<A: Construct>() {
    if A::UNSUPPORTED.offline {
        return;
    }
    let mut rng = rng(70);
    let mut zone = Checked::<A>::new(&ragged::<A>(), Init::Free);
    for order in [0, 1, 3, Geo::<A>::HUGE_ORDER as u8 - 1, Geo::<A>::HUGE_ORDER as u8].map(Order) {
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
        assert_eq!(found.len() << order.0, huge::<A>());
        let all = blocks.into_iter().chain(found).map(|frame| (frame, order)).collect();
        zone.give_all(all, &mut rng);
        out.into_iter().for_each(|n| zone.online(n, 1).expect("it is offline"));
        zone.validate();
    }
}

/// Whole trees at once, and ranges across trees, also with a slot's reservation in them.
pub fn whole_trees_go_and_come_back<A: Construct>() {
    if A::UNSUPPORTED.offline {
        return;
    }
    let tree_huge = Geo::<A>::TREE_HUGE;
    let mut zone = Checked::<A>::new(&zones::trees::<Geo<A>>(3, 2), Init::Free);
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
pub fn ranges_are_taken_all_or_none<A: Construct>() {
    if A::UNSUPPORTED.offline || A::UNSUPPORTED.exact_frame {
        return;
    }
    let mut zone = Checked::<A>::new(&zones::trees::<Geo<A>>(2, 2), Init::Free);
    for used in [0, 1, 7, 31, 32, 39] {
        for frame in [0, huge::<A>() / 2, huge::<A>() - 1] {
            let frame = FrameId(used * huge::<A>() + frame);
            zone.claim(frame, Order::BASE, Slot(0));
            assert_eq!(zone.offline(HugeId(0), 40), Err(OfflineError::InUse));
            assert_eq!(zone.offline(HugeId(used), 1), Err(OfflineError::InUse));
            zone.validate_counts();
            zone.give(frame, Order::BASE, Slot(0));
        }
        zone.offline(HugeId(used), 1).expect("the huge frame is free");
        assert_eq!(zone.offline(HugeId(0), 40), Err(OfflineError::InUse));
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
pub fn used_huge_frames_stay<A: Construct>() {
    if A::UNSUPPORTED.offline {
        return;
    }
    let mut zone = Checked::<A>::new(&zones::huges::<Geo<A>>(4, 2), Init::Free);
    for order in Order::all::<Geo<A>>() {
        let frame = zone.take(order, Slot(0));
        let first = frame.huge::<Geo<A>>();
        assert_eq!(zone.offline(first, 1), Err(OfflineError::InUse));
        assert_eq!(zone.online(first, 1), Err(OfflineError::NotOffline));
        if order > Order::BASE && !A::UNSUPPORTED.partial_free {
            zone.give(frame, Order(order.0 - 1), Slot(0));
            let rest = FrameId(frame.0 + order.frames() / 2);
            assert_eq!(zone.offline(rest.huge::<Geo<A>>(), 1), Err(OfflineError::InUse));
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
pub fn everything_offline<A: Construct>() {
    if A::UNSUPPORTED.offline {
        return;
    }
    let config = zones::trees::<Geo<A>>(1, 2);
    let mut zone = Checked::<A>::new(&config, Init::Free);
    zone.offline(HugeId(0), Geo::<A>::TREE_HUGE).expect("all is free");
    for order in Order::all::<Geo<A>>() {
        assert!(zone.alloc(Request::new(order, Slot(0))).is_err());
    }
    zone.drain(Slot(0)).expect("the slot exists");
    zone.validate();
    zone.online(HugeId(0), Geo::<A>::TREE_HUGE).expect("all is offline");
    zone.fill_all(Slot(1));
    assert_eq!(zone.engine().stats().free_frames, 0);
    zone.validate();
}
