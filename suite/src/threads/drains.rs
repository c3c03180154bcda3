//! Draining and stealing while others allocate: nothing is lost and nothing appears.

use woodlot_frame::atomics::{AtomicU32, Ordering};
use woodlot_frame::{Order, Request, Slot, ZoneConfig};

use super::THREADS;
use super::arena::{Arena, Block};
use super::stress::{Mix, Worker};
use crate::engine::Engine;
use crate::settings::ops;
use crate::zones;

/// Counts a working thread for as long as it works, also when it panics.
pub(crate) struct Working<'a>(&'a AtomicU32);

impl<'a> Working<'a> {
    pub(crate) fn new(count: &'a AtomicU32) -> Self {
        Self(count)
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Runs `THREADS` threads, of which the first `watchers` repeat `watch` until the others are done.
pub(crate) fn watched(
    arena: &Arena,
    watchers: usize,
    watch: impl Fn(u32) + Sync,
    work: impl Fn(u32) -> Vec<Block> + Sync,
) -> Vec<(u32, Block)> {
    let working = AtomicU32::new((THREADS - watchers) as u32);
    arena.run(THREADS, |me| {
        if me as usize <= watchers {
            while working.load(Ordering::Acquire) > 0 {
                watch(me);
                std::thread::yield_now();
            }
            return Vec::new();
        }
        let _working = Working::new(&working);
        work(me)
    })
}

/// One thread does nothing but drain all slots.
pub fn a_thread_drains_while_others_allocate(engine: Engine) {
    let mix = Mix { partial: 5, send: 20, small: 4, ..Mix::default() };
    for (n, config) in [
        zones::trees(engine, 2, 3),
        zones::trees(engine, 1, THREADS),
        ZoneConfig::new(3 * engine.huge_frames + 7, 2),
    ]
    .into_iter()
    .enumerate()
    {
        let arena = Arena::new(engine, &config);
        let drain = |_| {
            for slot in (0..config.slots).map(Slot) {
                arena.allocator().drain(slot).expect("the slot exists");
            }
        };
        let owned = watched(&arena, 1, drain, |me| {
            Worker::new(&arena, me, 200 + n as u64).work(ops(), mix, config.frames / 16)
        });
        arena.settle(owned);
    }
}

/// Threads fill the zone together, each through its own slot, so that the last of it is stolen
/// from one another; then each frees what another took.
pub fn slots_steal_from_each_other(engine: Engine) {
    for frames in [engine.tree_frames, engine.tree_frames + 5, 2 * engine.tree_frames - 1] {
        let config = ZoneConfig::new(frames, THREADS);
        let order = Order((engine.tree_frames / 1024).max(1).ilog2() as u8);
        for round in 0..3 {
            let arena = Arena::new(engine, &config);
            let take = |me: u32| {
                let slot = Slot((me as usize + round) % THREADS);
                let take = || arena.alloc(me, Request::movable(order, slot));
                let blocks: Vec<_> = std::iter::from_fn(take).collect();
                blocks.into_iter().for_each(|block| arena.send(me, block));
                Vec::new()
            };
            arena.run(THREADS, take);
            arena.validate();
            let give = |me: u32| {
                while let Some(block) = arena.receive(me) {
                    arena.free(me, block, Slot(me as usize % THREADS));
                }
                Vec::new()
            };
            arena.run(THREADS, give);
            arena.settle(Vec::new());
        }
    }
}

/// Two threads read every statistic while others work: never a panic, never more than there is.
pub fn statistics_while_others_allocate(engine: Engine) {
    let config = zones::trees(engine, 2, 3);
    let arena = Arena::new(engine, &config);
    let mix = Mix { partial: 10, send: 10, drain: 5, small: 6, ..Mix::default() };
    let watch = |me: u32| {
        let a = arena.allocator();
        // In passing, counts may be off: only that there is an answer can be asserted.
        std::hint::black_box(a.stats());
        assert!(a.free_huge_frames().len() <= config.frames / engine.huge_frames);
        for order in engine.orders() {
            std::hint::black_box(a.is_available(order));
        }
        std::hint::black_box((a.free_frames(), a.is_free(config.start, Order(me as u8))));
    };
    let owned = watched(&arena, 2, watch, |me| {
        Worker::new(&arena, me, 210).work(ops(), mix, config.frames / 16)
    });
    arena.settle(owned);
}
