//! Isolation: nobody gets a frame of an isolated huge frame, frees go on, and what is empty is the isolator's.

use woodlot_frame::{
    AllocError, Batch, Claim, Class, FrameId, HugeId, Init, IsolateError, OfflineError, Order,
    RangeRequest, Request, Slot, ZoneConfig,
};

use super::{Checked, Engine, rng};
use crate::zones;

/// Blocks by which a huge frame comes to be used in every way: in part, as a whole, as a part of a larger block, not at
/// all; and all that of a zone in which little else is left.
pub fn whatever_it_is_used_as_nobody_gets_a_frame(engine: Engine) {
    if engine.unsupported.isolation {
        return;
    }
    for order in engine.orders().map(Some).chain([None]) {
        let mut zone = Checked::new(engine, &zones::huges(engine, 4, 2), Init::Free);
        let block = order.map(|order| (zone.take(order, Slot(0)), order));
        let huge = engine.huge_of(block.map_or(FrameId(0), |(frame, _)| frame));
        zone.isolate(huge, 1).expect("it is in the zone");
        zone.validate();
        // Whoever asks, and whatever for: the model says of each answer whether it may be.
        for asked in engine.orders() {
            let mut blocks: Vec<_> = Vec::new();
            for (class, slot) in [(Class::MOVABLE, 0), (Class::IMMOVABLE, 1), (Class::HUGE, 0)] {
                let filled = zone.fill(asked, class, Slot(slot));
                blocks.extend(filled.into_iter().map(|frame| (frame, asked)));
            }
            zone.validate_counts();
            let (first, behind) = (engine.first_of(huge), engine.first_of(HugeId(huge.0 + 1)));
            if !engine.unsupported.exact_frame {
                let within = Request::movable(asked, Slot(0)).within(first..behind);
                assert!(zone.alloc(within).is_err());
                let run = RangeRequest::new(3, Class::MOVABLE, Slot(1));
                assert!(zone.alloc_range(run.within(first..behind)).is_err());
            }
            for batch in [Batch::All, Batch::UpTo] {
                let more = zone.alloc_batch(Request::movable(asked, Slot(1)), batch, 3);
                assert!(more.is_err(), "all that is left is isolated");
            }
            zone.give_all(blocks, &mut rng(80));
        }
        let blocks = zone.fill_all(Slot(1));
        zone.validate();
        // With the isolation, it ends that nothing is left.
        zone.unisolate(huge, 1).expect("it is isolated");
        zone.validate();
        let rest = zone.fill_all(Slot(0));
        let used = block.map_or(0, |(_, order)| order.frames().min(engine.huge_frames));
        let found: usize = rest.iter().map(|(_, order)| order.frames()).sum();
        assert_eq!(found, engine.huge_frames - used);
        zone.give_all([blocks, rest].concat(), &mut rng(81));
        block.into_iter().for_each(|(frame, order)| zone.give(frame, order, Slot(1)));
        zone.validate();
    }
}

/// What is freed stays there, however it is freed; and then the isolator has it, as a block or offline.
pub fn frees_go_on_and_what_is_empty_is_claimed(engine: Engine) {
    if engine.unsupported.isolation {
        return;
    }
    let huge_order = engine.huge_order;
    for order in engine.orders() {
        for claim in [Claim::Block(Slot(1)), Claim::Offline] {
            let mut zone = Checked::new(engine, &zones::largest(engine, 2, 2), Init::Free);
            let mut mine = vec![zone.take(order, Slot(0))];
            let huge = engine.huge_of(mine[0]);
            // More in the same huge frame, as far as the engine puts them there.
            let more = zone.alloc_batch(Request::movable(order, Slot(0)), Batch::UpTo, 5);
            mine.extend(more.expect("there is room"));
            zone.isolate(huge, 1).expect("it is in the zone");
            while zone.model.frames_in_use(huge) > 0 {
                let used = zone.claim_isolated(huge, 1, claim);
                assert!(matches!(used, Err(IsolateError::InUse(_))), "{used:?}");
                let frame = mine.pop().expect("all that is in use is ours");
                let parts = order > Order::BASE && !engine.unsupported.partial_free;
                if parts && mine.len() % 2 == 0 {
                    let half = Order(order.0 - 1);
                    zone.give(FrameId(frame.0 + half.frames()), half, Slot(1));
                    zone.validate_counts();
                    zone.give(frame, half, Slot(0));
                } else {
                    zone.give(frame, order, Slot(mine.len() % 2));
                }
                zone.validate();
            }
            let blocks = zone.fill_all(Slot(0));
            zone.claim_isolated(huge, 1, claim).expect("it is empty");
            zone.validate();
            let again = zone.claim_isolated(huge, 1, claim);
            assert_eq!(again, Err(IsolateError::NotIsolated(huge)));
            match claim {
                Claim::Block(_) => zone.give(engine.first_of(huge), huge_order, Slot(0)),
                Claim::Offline => zone.online(huge, 1).expect("it is offline"),
            }
            zone.validate();
            assert_eq!(zone.fill_all(Slot(1)).len(), 1, "it is the only one that is free");
            drop(blocks);
        }
    }
}

/// The largest block is not there while a half of it is isolated, and the credits of the other are a slot's.
pub fn half_of_the_largest_block_is_not_available(engine: Engine) {
    if engine.unsupported.isolation {
        return;
    }
    let largest = engine.max_order.frames();
    for isolated in (0..largest / engine.huge_frames).map(HugeId) {
        let mut zone = Checked::new(engine, &ZoneConfig::new(largest, 2), Init::Free);
        let frames = zone.fill(Order::BASE, Class::MOVABLE, Slot(0));
        let others = |frame: &FrameId| engine.huge_of(*frame) == isolated;
        let (theirs, here): (Vec<_>, Vec<_>) = frames.into_iter().partition(others);
        let (some, rest) = here.split_at(here.len() / 2);
        some.iter().for_each(|&frame| zone.give(frame, Order::BASE, Slot(1)));
        // The slot takes their credits, and one of them.
        let one = zone.take(Order::BASE, Slot(0));
        rest.iter().chain(&theirs).for_each(|&frame| zone.give(frame, Order::BASE, Slot(1)));
        zone.give(one, Order::BASE, Slot(0));
        zone.validate();
        zone.isolate(isolated, 1).expect("it is in the zone");
        zone.validate();
    }
}

/// Ranges across trees: isolated and claimed as a whole, or not at all.
pub fn ranges_are_isolated_all_or_none(engine: Engine) {
    if engine.unsupported.isolation {
        return;
    }
    let mut zone = Checked::new(engine, &zones::trees(engine, 2, 2), Init::Free);
    let (all, last) = (2 * engine.tree_huge, HugeId(2 * engine.tree_huge - 1));
    let frame = zone.take(Order::BASE, Slot(0));
    zone.isolate(last, 1).expect("it is in the zone");
    assert_eq!(zone.isolate(HugeId(0), all), Err(IsolateError::Isolated(last)));
    zone.validate();
    assert_eq!(zone.unisolate(HugeId(0), all), Err(IsolateError::NotIsolated(HugeId(0))));
    zone.claim_isolated(last, 1, Claim::Offline).expect("it is empty");
    assert_eq!(zone.isolate(HugeId(0), all), Err(IsolateError::Offline(last)));
    zone.validate();
    zone.online(last, 1).expect("it is offline");
    zone.isolate(HugeId(0), all).expect("each is in the zone");
    zone.validate();
    for order in engine.orders() {
        assert_eq!(zone.alloc(Request::movable(order, Slot(1))), Err(AllocError::OutOfMemory));
    }
    let used = Err(IsolateError::InUse(frame));
    assert_eq!(zone.claim_isolated(HugeId(0), all, Claim::Block(Slot(0))), used);
    assert_eq!(zone.claim_isolated(HugeId(0), all, Claim::Offline), used);
    zone.validate();
    zone.give(frame, Order::BASE, Slot(1));
    zone.claim_isolated(HugeId(0), all, Claim::Block(Slot(1))).expect("all are empty");
    zone.validate();
    // As blocks, whatever they are freed as.
    let (first, second) = (engine.first_of(HugeId(0)), engine.first_of(HugeId(1)));
    zone.give(first, engine.huge_order, Slot(0));
    if !engine.unsupported.partial_free {
        zone.give(second, Order(2), Slot(0));
        let third = engine.first_of(HugeId(2));
        zone.give(third, engine.pair_order, Slot(1));
    }
    zone.validate();
    zone.give_rest(Slot(0));
    zone.validate();
}

/// What a slot has in hand of a huge frame is isolated with it: its next block comes from elsewhere.
pub fn what_slots_hold_is_isolated(engine: Engine) {
    if engine.unsupported.isolation {
        return;
    }
    let config = ZoneConfig::new(engine.tree_frames + 3 * engine.huge_frames - 2, 3);
    for order in engine.orders().filter(|&order| order < engine.huge_order) {
        let mut zone = Checked::new(engine, &config, Init::Free);
        let mut blocks = Vec::new();
        for round in 0..12 {
            let slot = Slot(round % 3);
            // The last huge frame is cut, and cannot be isolated. An engine that fills it first does so.
            let huge = loop {
                let frame = zone.take(order, slot);
                blocks.push((frame, order));
                let huge = engine.huge_of(frame);
                if zone.model.huge_range().contains(&huge.0) {
                    break huge;
                }
            };
            if !zone.model.is_isolated(huge) {
                zone.isolate(huge, 1).expect("it is in the zone");
            }
            blocks.push((zone.take(order, slot), order));
            zone.validate_counts();
            // Several in a row into what is isolated: none of them comes into the slot's hand.
            let there = |&(frame, _): &(FrameId, Order)| engine.huge_of(frame) == huge;
            let (back, others): (Vec<_>, Vec<_>) = blocks.into_iter().partition(there);
            blocks = others;
            back.into_iter().for_each(|(frame, order)| zone.give(frame, order, slot));
            blocks.push((zone.take(order, slot), order));
            zone.validate_counts();
        }
        zone.validate();
        let isolated: Vec<_> = zone.model.isolated_huge_frames().collect();
        assert!(!isolated.is_empty());
        (0..3).for_each(|slot| zone.drain(Slot(slot)).expect("the slot exists"));
        zone.validate();
        for huge in isolated {
            zone.unisolate(huge, 1).expect("it is isolated");
        }
        zone.give_all(blocks, &mut rng(82));
        assert_eq!(zone.model.free_frames(), config.frames);
        zone.validate();
    }
}

/// A request that names a frame of an isolated huge frame is refused, and so is everything else that takes huge frames.
pub fn exact_requests_are_refused(engine: Engine) {
    if engine.unsupported.isolation || engine.unsupported.exact_frame {
        return;
    }
    let mut zone = Checked::new(engine, &zones::huges(engine, 6, 2), Init::Free);
    zone.claim(engine.first_of(HugeId(2)), Order(1), Slot(0));
    zone.isolate(HugeId(2), 2).expect("each is in the zone");
    for huge in [2, 3].map(HugeId) {
        for order in engine.orders() {
            let last = engine.first_of(huge).0 + engine.huge_frames - 1;
            let frame = FrameId(last & !(order.frames() - 1));
            let request = Request::movable(order, Slot(1)).at(frame);
            assert_eq!(zone.alloc(request), Err(AllocError::InUse(frame)));
        }
        let first = engine.first_of(huge);
        assert_eq!(zone.offline(huge, 1), Err(OfflineError::InUse(first)));
        assert_eq!(zone.online(huge, 1), Err(OfflineError::NotOffline));
        let run = RangeRequest::new(7, Class::MOVABLE, Slot(0));
        assert_eq!(zone.alloc_range(run.at(first)), Err(AllocError::InUse(first)));
        zone.validate_counts();
    }
    // A run that would go across.
    let run = RangeRequest::new(3 * engine.huge_frames, Class::MOVABLE, Slot(0));
    assert_eq!(zone.alloc_range(run), Err(AllocError::OutOfMemory));
    zone.unisolate(HugeId(3), 1).expect("it is isolated");
    zone.alloc_range(run).expect("there are three behind");
    zone.validate();
}

/// Ranges that are none, huge frames that are not isolated, slots that do not exist.
pub fn bad_isolations_are_refused(engine: Engine) {
    if engine.unsupported.isolation {
        return;
    }
    let config = ZoneConfig::new(4 * engine.huge_frames, 2).starting_at(FrameId(1));
    let mut zone = Checked::new(engine, &config, Init::Free);
    let ranges =
        [(0, 1), (4, 1), (3, 2), (1, 0), (1, usize::MAX), (usize::MAX, 1), (usize::MAX, 2)];
    for (first, count) in ranges.map(|(first, count)| (HugeId(first), count)) {
        let out_of_range = Err(IsolateError::OutOfRange);
        assert_eq!(zone.isolate(first, count), out_of_range);
        assert_eq!(zone.unisolate(first, count), out_of_range);
        assert_eq!(zone.claim_isolated(first, count, Claim::Offline), out_of_range);
    }
    let huge = HugeId(2);
    let not = Err(IsolateError::NotIsolated(huge));
    assert_eq!(zone.unisolate(huge, 1), not);
    assert_eq!(zone.claim_isolated(huge, 1, Claim::Block(Slot(0))), not);
    zone.isolate(huge, 1).expect("it is in the zone");
    assert_eq!(zone.isolate(huge, 1), Err(IsolateError::Isolated(huge)));
    for slot in [2, 3, usize::MAX].map(Slot) {
        let bad = Err(IsolateError::BadSlot(slot));
        assert_eq!(zone.claim_isolated(huge, 1, Claim::Block(slot)), bad);
    }
    zone.validate();
    zone.unisolate(huge, 1).expect("it is isolated");
    assert_eq!(zone.unisolate(huge, 1), not);
    zone.validate();
}

/// After a restart nothing is isolated, and what is allocated is so still.
pub fn a_recovery_forgets_isolation(engine: Engine) {
    if engine.unsupported.isolation || engine.unsupported.recovery {
        return;
    }
    for order in engine.orders() {
        let mut zone = Checked::new(engine, &zones::largest(engine, 3, 2), Init::Free);
        let blocks = [(); 2].map(|()| zone.take(order, Slot(0)));
        zone.isolate(HugeId(0), 4).expect("each is in the zone");
        zone.give(blocks[1], order, Slot(1));
        zone.recover();
        zone.validate();
        zone.give(blocks[0], order, Slot(1));
        zone.validate();
        zone.fill_all(Slot(0));
    }
}
