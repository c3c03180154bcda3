//! Contention for the last frames: never more winners than frames, and what nobody won in passing
//! is there when all have stopped.

use woodlot_frame::{Class, Order, Request, Slot, ZoneConfig};

use super::THREADS;
use super::arena::Arena;
use crate::engine::Engine;

/// `THREADS` threads ask once for fewer blocks than there are threads.
pub fn more_threads_than_blocks(engine: Engine) {
    let orders = [0, 1, engine.huge_order.0 - 1, engine.huge_order.0];
    let mut missed = 0;
    for order in orders.into_iter().chain([engine.max_order.0]).map(Order) {
        for left in 1..THREADS - 1 {
            for slots in [1, 3, THREADS] {
                // As many blocks as are left, and some frames too few for another.
                let frames = (left << order.0) + order.frames() / 2;
                let arena = Arena::new(engine, &ZoneConfig::new(frames, slots));
                let mut owned = arena.run(THREADS, |me| {
                    let slot = Slot(me as usize % slots);
                    let request = Request::new(order, Class(me as u8 % 4), slot);
                    arena.alloc(me, request).into_iter().collect()
                });
                assert!(owned.len() <= left, "{} winners of {left} blocks", owned.len());
                missed += left - owned.len();
                // No call is in flight now: the rest is to be had, through any slot.
                if !engine.unsupported.exact_exhaustion {
                    for n in owned.len()..left {
                        let block = arena.alloc(1, Request::movable(order, Slot(n % slots)));
                        owned.push((1, block.expect("it is free")));
                    }
                    assert!(arena.alloc(1, Request::movable(order, Slot(0))).is_none());
                }
                arena.settle(owned);
            }
        }
    }
    println!("{missed} blocks were won by nobody at first");
}

/// One frame goes round: whoever has it frees it, and all want it.
pub fn one_frame_for_all(engine: Engine) {
    for slots in [1, 2, THREADS] {
        for frames in [1, 2, engine.huge_frames / 4] {
            let arena = Arena::new(engine, &ZoneConfig::new(frames, slots));
            // All but one frame stay in use.
            let take =
                |_| (1, arena.alloc(1, Request::movable(Order(0), Slot(0))).expect("it is free"));
            let kept: Vec<_> = (1..frames).map(take).collect();
            arena.run(THREADS, |me| {
                let slot = Slot(me as usize % slots);
                for _ in 0..crate::settings::ops() / 4 {
                    if let Some(block) = arena.alloc(me, Request::movable(Order(0), slot)) {
                        arena.free(me, block, Slot((me as usize + 1) % slots));
                    }
                }
                Vec::new()
            });
            arena.settle(kept);
        }
    }
}
