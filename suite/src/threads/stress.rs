//! Many threads allocate and free at random: no frame has two owners, and when all have stopped
//! every count is exact.

use fastrand::Rng;
use woodlot_frame::{Batch, Class, FrameId, Order, Request, Slot, ZoneConfig};

use super::THREADS;
use super::arena::{Arena, Block};
use crate::checks::rng;
use crate::engine::Engine;
use crate::settings::ops;
use crate::zones;

/// What a thread does, by likelihood in 100; the rest are plain allocations and frees.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mix {
    /// Free a part of a block.
    pub partial: u8,
    /// Send a block to another thread, or free one that another sent.
    pub send: u8,
    /// Allocate or free a batch.
    pub batch: u8,
    /// Claim a random exact frame.
    pub exact: u8,
    /// Drain a random slot.
    pub drain: u8,
    /// Allocate only below this order, except for one allocation in 20.
    pub small: u8,
}

/// Everything at once.
pub(crate) const ALL: Mix = Mix { partial: 10, send: 20, batch: 6, exact: 6, drain: 4, small: 4 };

/// One thread of a stress test.
pub(crate) struct Worker<'a> {
    pub arena: &'a Arena,
    pub me: u32,
    pub rng: Rng,
    pub blocks: Vec<Block>,
    /// Use no slot but the thread's own.
    pub own_slot: bool,
    /// Frames in `blocks`.
    held: usize,
}

impl<'a> Worker<'a> {
    pub fn new(arena: &'a Arena, me: u32, salt: u64) -> Self {
        let rng = rng(salt * 1000 + u64::from(me));
        Self { arena, me, rng, blocks: Vec::new(), own_slot: false, held: 0 }
    }

    /// Mostly the thread's own slot, which it may share with others.
    fn slot(&mut self) -> Slot {
        let slots = self.arena.config().slots;
        match self.rng.u8(..10) {
            0 if !self.own_slot => Slot(self.rng.usize(..slots)),
            _ => Slot(self.me as usize % slots),
        }
    }

    fn order(&mut self, small: u8) -> Order {
        let max = self.arena.engine().max_order.0;
        match self.rng.u8(..20) {
            0 => Order(self.rng.u8(..=max)),
            _ => Order(self.rng.u8(..small.clamp(1, max))),
        }
    }

    fn keep(&mut self, block: Block) {
        self.held += block.1.frames();
        self.blocks.push(block);
    }

    fn pick(&mut self) -> Option<Block> {
        if self.blocks.is_empty() {
            return None;
        }
        let block = self.blocks.swap_remove(self.rng.usize(..self.blocks.len()));
        self.held -= block.1.frames();
        Some(block)
    }

    /// Makes `calls` random calls; holds at most `limit` frames.
    pub fn work(mut self, calls: usize, mix: Mix, limit: usize) -> Vec<Block> {
        for _ in 0..calls {
            let dice = self.rng.u8(..100);
            let mut below = 0;
            let mut chosen = |likely: u8| {
                below += likely;
                dice < below
            };
            match () {
                () if chosen(mix.partial) => self.free_part(),
                () if chosen(mix.send) => self.pass_on(),
                () if chosen(mix.batch) => self.batch(mix.small),
                () if chosen(mix.exact) => self.claim(),
                () if chosen(mix.drain) => {
                    let slot = self.slot();
                    self.arena.allocator().drain(slot).expect("the slot exists");
                }
                () if self.held < limit && self.rng.u8(..5) < 3 => self.alloc(mix.small),
                () => self.free(),
            }
        }
        self.blocks
    }

    fn alloc(&mut self, small: u8) {
        let class = Class(self.rng.u8(..4));
        let request = Request::new(self.order(small), class, self.slot());
        match self.arena.alloc(self.me, request) {
            Some(block) => self.keep(block),
            None => self.free(),
        }
    }

    fn free(&mut self) {
        if let Some(block) = self.pick() {
            let slot = self.slot();
            self.arena.free(self.me, block, slot);
        }
    }

    fn free_part(&mut self) {
        if self.arena.engine().unsupported.partial_free {
            return self.free();
        }
        let Some((frame, order)) = self.pick() else { return };
        // One half of what is left goes, down to a random order; the other halves are kept.
        let part = Order(self.rng.u8(..=order.0));
        let (mut first, slot) = (frame.0, self.slot());
        for order in (part.0..order.0).rev().map(Order) {
            let (low, high) = (FrameId(first), FrameId(first + order.frames()));
            let (go_on, kept) = if self.rng.bool() { (low, high) } else { (high, low) };
            self.keep((kept, order));
            first = go_on.0;
        }
        self.arena.free(self.me, (FrameId(first), part), slot);
    }

    fn pass_on(&mut self) {
        if self.rng.bool() {
            if let Some(block) = self.pick() {
                self.arena.send(self.me, block);
            }
        } else if let Some(block) = self.arena.receive(self.me) {
            let slot = self.slot();
            self.arena.free(self.me, block, slot);
        }
    }

    fn batch(&mut self, small: u8) {
        let order = Order(self.rng.u8(..small.clamp(1, 3)));
        let slot = self.slot();
        if self.rng.bool() {
            let batch = if self.rng.bool() { Batch::All } else { Batch::UpTo };
            let wanted = self.rng.usize(1..20);
            let request = Request::movable(order, slot);
            let blocks = self.arena.alloc_batch(self.me, request, batch, wanted);
            blocks.into_iter().for_each(|block| self.keep(block));
        } else {
            let (go, stay) = self.blocks.drain(..).partition(|block| block.1 == order);
            self.blocks = stay;
            let go: Vec<Block> = go;
            self.held -= go.len() << order.0;
            self.arena.free_batch(self.me, &go, slot);
        }
    }

    fn claim(&mut self) {
        if self.arena.engine().unsupported.exact_frame {
            return self.free();
        }
        let config = *self.arena.config();
        let order = self.order(3);
        let frame = config.start.0 + self.rng.usize(..config.frames);
        let frame = FrameId(frame & !(order.frames() - 1));
        if config.contains(frame, order) {
            let request = Request::movable(order, self.slot()).at(frame);
            if let Some(block) = self.arena.alloc(self.me, request) {
                self.keep(block);
            }
        }
    }
}

fn stress(engine: Engine, config: &ZoneConfig, mix: Mix, salt: u64, share: usize) {
    let arena = Arena::new(engine, config);
    let limit = config.frames / share;
    let owned = arena.run(THREADS, |me| Worker::new(&arena, me, salt).work(ops(), mix, limit));
    arena.settle(owned);
}

/// Small zones, one slot for all, fewer slots than threads, and one each; half of it all in use.
pub fn nobody_owns_a_frame_twice(engine: Engine) {
    for (n, trees) in [1, 2, 4].into_iter().enumerate() {
        for (m, slots) in [1, 3, THREADS].into_iter().enumerate() {
            let config = ZoneConfig::new(trees * engine.tree_frames - 3, slots);
            stress(engine, &config.starting_at(FrameId(1)), ALL, (n * 3 + m) as u64, 16);
        }
    }
}

/// So little memory that it is nearly always used up: stealing and refusals at every turn.
pub fn nobody_owns_a_frame_twice_when_memory_is_short(engine: Engine) {
    let small = engine.huge_frames;
    for (n, frames) in [7, small / 2, small + 1, 2 * small, 5 * small].into_iter().enumerate() {
        for slots in [1, 2, THREADS] {
            stress(engine, &ZoneConfig::new(frames, slots), ALL, (20 + n * 3 + slots) as u64, 4);
        }
    }
}

/// Only middle and large orders, which take several words or children each, and their parts.
pub fn large_blocks_under_stress(engine: Engine) {
    let max = engine.max_order.0;
    let mix = Mix { partial: 15, send: 10, small: max, ..Mix::default() };
    for (n, huges) in [2, 6, 32].into_iter().enumerate() {
        for slots in [1, 4] {
            let config = zones::huges(engine, huges, slots);
            stress(engine, &config, mix, (40 + n * 2 + slots) as u64, 6);
        }
    }
}

/// Only single frames, from one slot: the shortest path, most contended.
pub fn single_frames_under_stress(engine: Engine) {
    let mix = Mix { send: 20, small: 1, ..Mix::default() };
    for (n, slots) in [1, 2, THREADS].into_iter().enumerate() {
        stress(engine, &zones::trees(engine, 1, slots), mix, 50 + n as u64, 8);
        stress(engine, &ZoneConfig::new(130, slots), mix, 60 + n as u64, 4);
    }
}

/// Batches above all.
pub fn batches_under_stress(engine: Engine) {
    let mix = Mix { batch: 60, partial: 5, small: 3, ..Mix::default() };
    for (n, slots) in [1, 3].into_iter().enumerate() {
        stress(engine, &zones::huges(engine, 8, slots), mix, 70 + n as u64, 8);
        stress(engine, &ZoneConfig::new(100, slots), mix, 80 + n as u64, 4);
    }
}

/// Exact claims race with allocations and with each other.
pub fn claims_under_stress(engine: Engine) {
    let mix = Mix { exact: 50, partial: 5, small: 5, ..Mix::default() };
    stress(engine, &zones::huges(engine, 4, 3), mix, 90, 10);
    stress(engine, &ZoneConfig::new(64, 2), mix, 91, 10);
}

/// Every thread keeps to a slot of its own, also for frames that others allocated: then even the
/// approximate count is exact.
pub fn slots_of_their_own_count_exactly(engine: Engine) {
    let config = zones::trees(engine, 2, THREADS);
    let arena = Arena::new(engine, &config);
    let mix = Mix { drain: 0, ..ALL };
    let owned = arena.run(THREADS, |me| {
        let mut worker = Worker::new(&arena, me, 95);
        worker.own_slot = true;
        worker.work(ops(), mix, config.frames / 16)
    });
    arena.validate_own_slots();
    arena.settle(owned);
}
