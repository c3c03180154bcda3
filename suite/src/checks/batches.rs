//! Many blocks in one call: all or none, or as many as there are; errors in the middle.

use woodlot_frame::{
    AllocError, Batch, Class, FrameId, FreeError, Init, Order, Request, Slot, ZoneConfig,
};

use super::{Checked, Engine, rng};
use crate::zones;

/// Batches of every order and several sizes, freed as batches.
pub fn batches_of_every_order(engine: Engine) {
    let config = ZoneConfig::new(engine.tree_frames + 3, 2).starting_at(FrameId(1));
    let mut zone = Checked::new(engine, &config, Init::Free);
    for order in engine.orders() {
        for batch in [Batch::All, Batch::UpTo] {
            for wanted in [0, 1, 2, 15, 64, 65] {
                // Not all sizes fit; the judge knows which.
                let class = Class(wanted as u8 % 4);
                let request = Request::new(order, class, Slot(0));
                let Ok(frames) = zone.alloc_batch(request, batch, wanted) else { continue };
                zone.validate_counts();
                zone.free_batch(&frames, order, Slot(1)).expect("all of it is allocated");
            }
        }
        zone.validate_counts();
    }
    zone.validate();
}

/// More than the zone has: none with `All`, everything with `UpTo`.
pub fn batches_larger_than_the_zone(engine: Engine) {
    let mut rng = rng(60);
    let config =
        ZoneConfig::new(3 * engine.huge_frames + 1, 3).starting_at(FrameId(engine.huge_frames - 1));
    let mut zone = Checked::new(engine, &config, Init::Free);
    for order in engine.orders() {
        // Free memory near every slot.
        for slot in (0..3).map(Slot) {
            let frame = zone.take(Order::BASE, slot);
            zone.give(frame, Order::BASE, slot);
        }
        let blocks = zone.model.free_blocks(order).count();
        let request = Request::movable(order, Slot(1));
        for wanted in [blocks + 1, blocks + 500] {
            let none = zone.alloc_batch(request, Batch::All, wanted);
            assert_eq!(none, Err(AllocError::OutOfMemory));
            zone.validate_counts();
        }
        let all = zone.alloc_batch(request, Batch::UpTo, blocks + 1).unwrap_or_default();
        if !engine.unsupported.exact_exhaustion {
            assert_eq!(all.len(), blocks);
            let none = zone.alloc_batch(request, Batch::UpTo, 5);
            assert_eq!(none, Err(AllocError::OutOfMemory));
        }
        zone.give_all(all.into_iter().map(|frame| (frame, order)).collect(), &mut rng);
        // Exactly all there is.
        if blocks > 0 && !engine.unsupported.exact_exhaustion {
            let all = zone.alloc_batch(request, Batch::All, blocks).expect("exactly enough");
            zone.free_batch(&all, order, Slot(2)).expect("all of it is allocated");
        }
        zone.validate_counts();
    }
    zone.validate();
}

/// Runs at exact frames, with something in the way at the start, in the middle, or past the end.
pub fn exact_batches(engine: Engine) {
    if engine.unsupported.exact_frame {
        return;
    }
    let config = ZoneConfig::new(6 * engine.huge_frames, 2);
    let mut zone = Checked::new(engine, &config, Init::Free);
    for order in engine.orders().take(4).chain([engine.huge_order]) {
        let at = |n: usize| FrameId(n << order.0);
        let request = Request::movable(order, Slot(0));
        let all = zone.alloc_batch(request.at(at(1)), Batch::All, 3).expect("all is free");
        assert_eq!(all, [at(1), at(2), at(3)]);
        zone.free_batch(&all, order, Slot(1)).expect("all of it is allocated");

        zone.claim(at(3), order, Slot(1));
        let error = Err(AllocError::InUse(at(3)));
        assert_eq!(zone.alloc_batch(request.at(at(1)), Batch::All, 4), error);
        assert_eq!(zone.alloc_batch(request.at(at(3)), Batch::UpTo, 2), error);
        zone.validate_counts();
        let some = zone.alloc_batch(request.at(at(1)), Batch::UpTo, 4).expect("two are free");
        assert_eq!(some, [at(1), at(2)]);
        zone.free_batch(&[at(1), at(2), at(3)], order, Slot(0)).expect("all are allocated");

        let last = FrameId(config.frames - order.frames());
        let over = zone.alloc_batch(request.at(last), Batch::All, 2);
        assert_eq!(over, Err(AllocError::OutOfRange(FrameId(config.frames))));
        let some = zone.alloc_batch(request.at(last), Batch::UpTo, 2);
        assert_eq!(some, Ok(vec![last]));
        zone.give(last, order, Slot(0));
        zone.validate_counts();
    }
    zone.validate();
}

/// A batch of frees stops at the first wrong block; those before it are free, the others not.
pub fn a_batch_of_frees_stops_at_the_first_error(engine: Engine) {
    let mut zone = Checked::new(engine, &zones::huges(engine, 24, 2), Init::Free);
    for order in engine.orders() {
        for at in 0..4 {
            let good: Vec<_> = (0..4).map(|_| zone.take(order, Slot(0))).collect();
            let free = zone.model.free_blocks(order).next().expect("four of many are taken");
            for bad in [free, FrameId(usize::MAX & !(order.frames() - 1)), FrameId(good[0].0 ^ 1)] {
                if order.0 == 0 && bad == FrameId(good[0].0 ^ 1) {
                    continue;
                }
                let mut frames = good.clone();
                frames.insert(at, bad);
                let error = zone.free_batch(&frames, order, Slot(1)).expect_err("one is wrong");
                assert_eq!(error.freed, at);
                zone.validate_counts();
                if engine.unsupported.exact_frame {
                    break;
                }
                // Back to where it was.
                good[..at].iter().for_each(|&frame| zone.claim(frame, order, Slot(0)));
            }
            for frame in good {
                let _ = zone.free(frame, order, Slot(0));
            }
        }
        zone.validate_counts();
    }
    zone.validate();
}

/// The same block twice in one batch of frees is a double free.
pub fn a_batch_with_a_block_twice(engine: Engine) {
    let mut zone = Checked::new(engine, &zones::huges(engine, 8, 2), Init::Free);
    for order in engine.orders() {
        let (a, b) = (zone.take(order, Slot(0)), zone.take(order, Slot(0)));
        let error = zone.free_batch(&[a, a, b], order, Slot(0)).expect_err("a is named twice");
        assert_eq!((error.freed, error.cause), (1, FreeError::NotAllocated(a)));
        zone.give(b, order, Slot(0));
    }
    zone.validate();
}

/// What an engine without batches of its own has: single calls, with the same promises.
pub fn batches_one_by_one(engine: Engine) {
    let mut zone =
        Checked::new(engine, &ZoneConfig::new(2 * engine.huge_frames + 3, 2), Init::Free);
    for order in engine.orders() {
        let any = Request::movable(order, Slot(0));
        let too_many = zone.model.free_blocks(order).count() + 1;
        for (wanted, batch) in
            [(0, Batch::All), (2, Batch::All), (too_many, Batch::All), (too_many, Batch::UpTo)]
        {
            one_by_one(&mut zone, any, batch, wanted);
            if !engine.unsupported.exact_frame {
                one_by_one(&mut zone, any.at(FrameId(0)), batch, wanted.min(3));
            }
        }
        zone.validate_counts();
    }
}

fn one_by_one(zone: &mut Checked, request: Request, batch: Batch, wanted: usize) {
    let mut out = vec![FrameId(usize::MAX); wanted];
    let answer = zone.allocator().alloc_each(request, batch, &mut out);
    zone.model.alloc_batch(request, batch, &out, answer).unwrap_or_else(|why| zone.fail(&why));
    out.truncate(answer.unwrap_or(0));
    // The second time the first of them is refused.
    for _ in 0..2 {
        let answer = zone.allocator().free_each(&out, request.order, Slot(1));
        let judged = zone.model.free_batch(&out, request.order, Slot(1), answer);
        judged.unwrap_or_else(|why| zone.fail(&why));
    }
}
