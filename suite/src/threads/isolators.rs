//! Huge frames are isolated, emptied and claimed while others allocate and free.

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{Claim, FrameId, HugeId, Slot, ZoneConfig};

use super::arena::Arena;
use super::drains::watched;
use super::stress::{Mix, Worker};
use crate::checks::rng;
use crate::engine::Engine;
use crate::settings::ops;

/// Two threads isolate huge frames, whatever they are used as, and claim those that are empty; what they have claimed
/// nobody else has.
pub fn huge_frames_are_isolated_while_others_allocate(engine: Engine) {
    if engine.unsupported.isolation {
        return;
    }
    let mix = Mix { partial: 10, send: 10, batch: 3, drain: 3, exact: 5, small: 6 };
    for (n, frames) in [6 * engine.huge_frames + 1, engine.tree_frames + 7].into_iter().enumerate()
    {
        let config = ZoneConfig::new(frames, 3).starting_at(FrameId(engine.huge_frames - 1));
        let arena = Arena::new(engine, &config);
        let range = engine.huge_range(&config);
        let watch = |me: u32| {
            let mut rng = rng(320 + u64::from(me) + arena.allocator().free_frames() as u64);
            let isolated: Vec<_> = (0..4)
                .map(|_| HugeId(rng.usize(range.start.0..range.end.0)))
                .filter(|&huge| arena.allocator().isolate(huge, 1).is_ok())
                .collect();
            std::thread::yield_now();
            let slot = Slot(rng.usize(..3));
            for huge in isolated {
                let used = arena.allocator().frames_in_use(huge);
                let claim = if rng.bool() { Claim::Block(slot) } else { Claim::Offline };
                if used == 0 && arena.claim_isolated(me, huge, claim) {
                    arena.give_claimed(me, huge, claim);
                } else {
                    arena.allocator().unisolate(huge, 1).expect("this very thread has isolated it");
                }
            }
        };
        let owned = watched(&arena, 2, watch, |me| {
            Worker::new(&arena, me, 330 + n as u64).work(ops(), mix, frames / 24)
        });
        arena.settle(owned);
    }
}

/// Threads race to isolate the same huge frames: each has one isolator. The others are told so, and what the one
/// claims nobody else has.
pub fn a_huge_frame_is_isolated_once(engine: Engine) {
    if engine.unsupported.isolation {
        return;
    }
    let config = ZoneConfig::new(engine.tree_frames, 2);
    let arena = Arena::new(engine, &config);
    let won = AtomicU64::new(0);
    let huge_frames = engine.tree_huge;
    arena.run(super::THREADS, |me| {
        for n in 0..huge_frames {
            let huge = HugeId((me as usize * 5 + n) % huge_frames);
            if arena.allocator().isolate(huge, 1).is_ok() {
                won.fetch_add(1, Ordering::Relaxed);
            }
        }
        Vec::new()
    });
    assert_eq!(won.load(Ordering::Relaxed), huge_frames as u64, "each has one isolator");
    let claims = AtomicU64::new(0);
    arena.run(super::THREADS, |me| {
        for huge in (0..huge_frames).map(HugeId) {
            // The owner words of the arena see a second taker.
            if arena.claim_isolated(me, huge, Claim::Offline) {
                claims.fetch_add(1, Ordering::Relaxed);
            }
        }
        Vec::new()
    });
    assert_eq!(claims.load(Ordering::Relaxed), huge_frames as u64, "each is claimed once");
    arena.validate();
    arena.settle(Vec::new());
}
