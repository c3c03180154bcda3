//! Runs that race: with each other, and with blocks.

use woodlot_frame::{FrameId, Order, RangeRequest, Request, Slot};

use super::THREADS;
use super::arena::{Arena, Block};
use crate::checks::rng;
use crate::engine::Engine;
use crate::zones;

/// Threads allocate and free runs and blocks at random, some of them in windows.
pub fn runs_race_with_blocks(engine: Engine) {
    if engine.unsupported.exact_frame {
        return;
    }
    let huge = engine.huge_frames;
    let config = zones::huges(engine, 12, 3);
    let arena = Arena::new(engine, &config);
    let owned = arena.run(THREADS, |me| {
        let mut rng = rng(500 + u64::from(me));
        let mut runs: Vec<Vec<Block>> = Vec::new();
        for _ in 0..600 {
            let class = config.classes.all().nth(rng.usize(..config.classes.count()));
            let class = class.expect("there are that many");
            let slot = Slot(rng.usize(..3));
            let start = rng.usize(..10) * huge;
            let window = FrameId(start)..FrameId(start + rng.usize(1..=2) * huge);
            match rng.u8(..8) {
                0..2 => {
                    let request = RangeRequest::new(rng.usize(1..2 * huge), class, slot);
                    runs.extend(arena.alloc_range(me, request));
                }
                2 => {
                    let request = RangeRequest::new(rng.usize(1..huge), class, slot);
                    runs.extend(arena.alloc_range(me, request.within(window)));
                }
                3 => {
                    let order = Order(rng.u8(..=engine.max_order.0));
                    let request =
                        Request::new(order, class, slot).within(FrameId(0)..FrameId(12 * huge));
                    runs.extend(arena.alloc(me, request).map(|block| vec![block]));
                }
                4 => {
                    let order = Order(rng.u8(..=engine.huge_order.0));
                    let request = Request::new(order, class, slot);
                    runs.extend(arena.alloc(me, request).map(|block| vec![block]));
                }
                _ if runs.is_empty() => {}
                _ => arena.free_range(me, &runs.swap_remove(rng.usize(..runs.len())), slot),
            }
        }
        runs.into_iter().flatten().collect()
    });
    arena.settle(owned);
}

/// All threads want the same run, of which there is one: nobody gets a part, and it is there afterwards.
pub fn runs_race_for_one_place(engine: Engine) {
    if engine.unsupported.exact_frame {
        return;
    }
    let config = zones::huges(engine, 3, 2);
    let arena = Arena::new(engine, &config);
    let length = 2 * engine.huge_frames + 1;
    arena.run(THREADS, |me| {
        for round in 0..200 {
            let slot = Slot(round % 2);
            let request = RangeRequest::new(length, config.classes.all().last().unwrap(), slot);
            if let Some(run) = arena.alloc_range(me, request) {
                arena.free_range(me, &run, slot);
            }
        }
        Vec::new()
    });
    arena.validate();
    let request = RangeRequest::new(length, config.classes.all().last().unwrap(), Slot(0));
    let run = arena.alloc_range(1, request).expect("no other call is in flight");
    arena.settle(run.into_iter().map(|block| (1, block)).collect());
}
