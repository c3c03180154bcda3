//! Exact claims that race: at most one wins each block, and what nobody won is still there.

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{FrameId, Order, Request, Slot};

use super::THREADS;
use super::arena::Arena;
use crate::checks::rng;
use crate::engine::Engine;
use crate::zones;

/// All threads claim every block of a zone, each in an order of its own.
pub fn each_block_is_claimed_once(engine: Engine) {
    if engine.unsupported.exact_frame {
        return;
    }
    for order in [0, 1, 3, engine.huge_order.0 - 1, engine.huge_order.0]
        .into_iter()
        .chain([engine.max_order.0])
        .map(Order)
    {
        let config = zones::huges(engine, if order.0 < 2 { 2 } else { 16 }, 3);
        let arena = Arena::new(engine, &config);
        let blocks = config.frames >> order.0;
        let owned = arena.run(THREADS, |me| {
            let mut numbers: Vec<_> = (0..blocks).collect();
            rng(400 + u64::from(me)).shuffle(&mut numbers);
            let slot = Slot(me as usize % 3);
            let claim = |n: usize| {
                let request = Request::movable(order, slot).at(FrameId(n << order.0));
                arena.alloc(me, request)
            };
            numbers.into_iter().filter_map(claim).collect()
        });
        // A claim may fail because another was in flight, but then the block is free now.
        let model = arena.model();
        let left: Vec<_> = model.free_blocks(order).collect();
        println!("{} of {blocks} blocks of {order} were won by nobody", left.len());
        arena.validate();
        let mut owned = owned;
        for frame in left {
            let block = arena.alloc(1, Request::movable(order, Slot(0)).at(frame));
            owned.push((1, block.expect("it is free and no other call is in flight")));
        }
        arena.settle(owned);
    }
}

/// Claims of different sizes for the same place: large blocks against the frames inside.
pub fn claims_of_different_sizes_race(engine: Engine) {
    if engine.unsupported.exact_frame {
        return;
    }
    let config = zones::largest(engine, 1, 2);
    let won = AtomicU64::new(0);
    for round in 0..30 {
        let arena = Arena::new(engine, &config);
        let owned = arena.run(THREADS, |me| {
            let mut rng = rng(410 + round * 16 + u64::from(me));
            let mut blocks = Vec::new();
            for _ in 0..20 {
                let order = Order(rng.u8(..=engine.max_order.0));
                let frame = rng.usize(..config.frames) & !(order.frames() - 1);
                let request = Request::movable(order, Slot(me as usize % 2)).at(FrameId(frame));
                blocks.extend(arena.alloc(me, request));
                if rng.u8(..3) == 0
                    && let Some(block) = blocks.pop()
                {
                    arena.free(me, block, Slot(0));
                }
            }
            won.fetch_add(blocks.len() as u64, Ordering::Relaxed);
            blocks
        });
        arena.settle(owned);
    }
    println!("{won:?} blocks won");
}
