//! Frees that race: parts of one block, the same block twice, and blocks of other threads.

use woodlot_frame::atomics::{AtomicU32, Ordering};
use woodlot_frame::{FrameId, FreeError, Order, Request, Slot, ZoneConfig};

use super::arena::{Arena, Block};
use super::{THREADS, Turnstile};
use crate::checks::rng;
use crate::engine::Engine;
use crate::zones;

/// Several threads free their shares of one block at once: all succeed, and it is whole again.
pub fn shares_of_one_block_are_freed_at_once(engine: Engine) {
    if engine.unsupported.partial_free {
        return;
    }
    let orders = [engine.huge_order.0, engine.max_order.0];
    for large in orders.into_iter().chain([engine.huge_order.0 - 1]).map(Order) {
        for share in [0, 1, large.0 - 3].map(Order) {
            for round in 0..4 {
                let arena = Arena::new(engine, &zones::huges(engine, 4, 3));
                let block = arena.alloc(1, Request::movable(large, Slot(0))).expect("all is free");
                let parts = 1 << (large.0 - share.0);
                // Every thread has every eighth part: neighbours race in one word.
                let mut shares: Vec<Vec<Block>> = vec![Vec::new(); THREADS];
                for n in 0..parts {
                    let first = FrameId(block.0.0 + (n << share.0));
                    shares[n % THREADS].push((first, share));
                }
                arena.run(THREADS, |me| {
                    let mut mine = shares[me as usize - 1].clone();
                    rng(500 + round + u64::from(me)).shuffle(&mut mine);
                    for part in mine {
                        arena.free(1, part, Slot(me as usize % 3));
                    }
                    Vec::new()
                });
                arena.settle(Vec::new());
            }
        }
    }
}

/// The same for many huge blocks in turn: whoever comes first splits it, the others follow.
pub fn the_first_free_of_a_part_races_with_the_second(engine: Engine) {
    if engine.unsupported.partial_free {
        return;
    }
    let arena = Arena::new(engine, &zones::trees(engine, 2, 2));
    let huge_order = engine.huge_order;
    let half = Order(huge_order.0 - 1);
    let blocks: Vec<_> =
        (0..64).map(|_| arena.alloc(1, Request::movable(huge_order, Slot(0)))).collect();
    let blocks: Vec<Block> = blocks.into_iter().flatten().collect();
    assert_eq!(blocks.len(), 64);
    let turnstile = Turnstile::new(2);
    arena.run(2, |me| {
        let mut way = turnstile.enter();
        for &(frame, _) in &blocks {
            way.wait();
            let first = frame.0 + (me as usize - 1) * half.frames();
            arena.free(1, (FrameId(first), half), Slot(me as usize - 1));
        }
        Vec::new()
    });
    arena.settle(Vec::new());
}

/// Two threads free the same block at the same time and nobody allocates: exactly one succeeds,
/// the other is told that it is not allocated, and no count is wrong.
pub fn of_two_racing_frees_one_succeeds(engine: Engine) {
    for order in engine.orders() {
        let config = zones::huges(engine, 24, 2);
        let arena = Arena::new(engine, &config);
        let count = (config.frames >> order.0).min(60);
        for _ in 0..10 {
            let alloc =
                |_| arena.alloc(1, Request::movable(order, Slot(0))).expect("there is room");
            let blocks: Vec<_> = (0..count).map(alloc).collect();
            blocks.iter().for_each(|&block| arena.disown(1, block));
            free_twice(&arena, &blocks);
        }
        arena.settle(Vec::new());
    }
}

fn free_twice(arena: &Arena, blocks: &[Block]) {
    let successes: Vec<_> = blocks.iter().map(|_| AtomicU32::new(0)).collect();
    let turnstile = Turnstile::new(2);
    arena.run(2, |me| {
        let mut way = turnstile.enter();
        for (&(frame, order), successes) in blocks.iter().zip(&successes) {
            way.wait();
            match arena.allocator().free(frame, order, Slot(me as usize - 1)) {
                Ok(()) => drop(successes.fetch_add(1, Ordering::Relaxed)),
                Err(error) => assert_eq!(error, FreeError::NotAllocated(frame)),
            }
        }
        Vec::new()
    });
    for (block, successes) in blocks.iter().zip(&successes) {
        let successes = successes.load(Ordering::Relaxed);
        assert_eq!(successes, 1, "frees of {block:?} that succeeded");
    }
}

/// One half of the threads allocates, the other half frees what those allocated: every free is
/// remote, and slots come to hold trees that others fill.
pub fn every_free_is_remote(engine: Engine) {
    for (slots, frames) in
        [(THREADS, engine.tree_frames), (2, 3 * engine.huge_frames + 1), (THREADS, 40)]
    {
        let arena = Arena::new(engine, &ZoneConfig::new(frames, slots));
        let calls = crate::settings::ops();
        let owned = arena.run(THREADS, |me| {
            let slot = Slot(me as usize % slots);
            let mut rng = rng(510 + u64::from(me));
            for _ in 0..calls {
                if me % 2 == 0 {
                    let order = Order(rng.u8(..3));
                    if let Some(block) = arena.alloc(me, Request::movable(order, slot)) {
                        arena.send(me, block);
                    }
                } else if let Some(block) = arena.receive(me) {
                    arena.free(me, block, slot);
                } else {
                    std::thread::yield_now();
                }
            }
            Vec::new()
        });
        arena.settle(owned);
    }
}
