//! Huge frames go offline and come back while others allocate and free.

use fastrand::Rng;
use woodlot_frame::{FrameId, HugeId, Slot, ZoneConfig};

use super::arena::Arena;
use super::drains::watched;
use super::stress::{Mix, Worker};
use crate::checks::rng;
use crate::engine::Engine;
use crate::settings::ops;

/// Two threads do this to five huge frames of their choice, over and over, while others allocate and free.
pub(super) fn beside_work(
    engine: Engine,
    seed: u64,
    disturb: impl Fn(&Arena, u32, &mut Rng, &[HugeId]) + Sync,
) {
    let mix = Mix { partial: 10, send: 10, batch: 3, drain: 3, exact: 5, small: 6 };
    for (n, frames) in [6 * engine.huge_frames + 1, engine.tree_frames + 7].into_iter().enumerate()
    {
        let config = ZoneConfig::new(frames, 3).starting_at(FrameId(engine.huge_frames - 1));
        let arena = Arena::new(engine, &config);
        let range = engine.huge_range(&config);
        let watch = |me: u32| {
            let mut rng = rng(seed + u64::from(me) + arena.allocator().free_frames() as u64);
            let chosen: [HugeId; 5] =
                std::array::from_fn(|_| HugeId(rng.usize(range.start.0..range.end.0)));
            disturb(&arena, me, &mut rng, &chosen);
        };
        let owned = watched(&arena, 2, watch, |me| {
            Worker::new(&arena, me, seed + 10 + n as u64).work(ops(), mix, frames / 24)
        });
        arena.settle(owned);
    }
}

/// Two threads take huge frames out and put them back; the others never get one that is out.
pub fn huge_frames_go_and_come_back_while_others_allocate(engine: Engine) {
    if engine.unsupported.offline {
        return;
    }
    beside_work(engine, 300, |arena, _, _, chosen| {
        // What is out is out until this very thread puts it back.
        let out: Vec<_> = chosen.iter().filter(|&&huge| arena.offline(huge)).collect();
        std::thread::yield_now();
        out.into_iter().for_each(|&huge| arena.online(huge));
    });
}

/// Threads race to take the same huge frames out: each is taken once. What is out stays out, and
/// comes back when all have stopped.
pub fn a_huge_frame_goes_offline_once(engine: Engine) {
    if engine.unsupported.offline {
        return;
    }
    let config = ZoneConfig::new(engine.tree_frames, 2);
    let arena = Arena::new(engine, &config);
    arena.run(super::THREADS, |me| {
        // The owner words of the arena see a second taker.
        let first = me as usize * 5;
        for n in 0..32 {
            arena.offline(HugeId((first + n) % 32));
        }
        arena.allocator().drain(Slot(0)).expect("the slot exists");
        Vec::new()
    });
    arena.validate();
    arena.settle(Vec::new());
}
