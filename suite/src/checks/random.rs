//! The differential test: random calls, right and wrong, on random zones, against the model.
//!
//! Every zone has a seed of its own; a failure prints it, and with it as `WOODLOT_SEED` that zone
//! comes first. `WOODLOT_OPS` sets the calls per zone, `WOODLOT_ZONES` the zones.

use std::ops::Range;

use fastrand::Rng;
use woodlot_frame::{
    Batch, Claim, Class, ClassPolicy, FrameId, HugeId, Init, Order, RangeRequest, Request, Slot,
    ZoneConfig,
};

use super::{Checked, Engine, all_allocated};
use crate::settings::{ops, seed, zones};

/// Random calls on random zones; says how many calls were judged.
pub fn random_calls_agree_with_the_model(engine: Engine) {
    let first = seed();
    let calls: usize = (0..zones()).map(|n| Walk::new(engine, first.wrapping_add(n)).run()).sum();
    println!("{}: {calls} calls on {} zones agree with the model", engine.name, zones());
}

/// Random calls on one zone.
pub fn random_calls_on(engine: Engine, config: &ZoneConfig, seed: u64) {
    Walk::on(engine, config, Init::Free, Rng::with_seed(seed), seed).run();
}

struct Walk {
    zone: Checked,
    rng: Rng,
    /// Blocks as they were allocated, as far as they still are.
    blocks: Vec<(FrameId, Order)>,
    /// Runs as they were allocated, as far as they still are.
    runs: Vec<Range<FrameId>>,
    offline: Vec<(HugeId, usize)>,
    /// How likely the next change of memory is an allocation, of 100: it swings, so that zones
    /// become full and empty.
    appetite: u8,
}

impl Walk {
    fn new(engine: Engine, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let huge = engine.huge_frames;
        let frames = match rng.u8(..6) {
            0 => rng.usize(1..=65),
            1 => rng.usize(huge - 1..=huge + 1),
            2 | 3 => rng.usize(huge..6 * huge),
            4 => rng.usize(engine.tree_frames - 2..engine.tree_frames + 2),
            _ => rng.usize(engine.tree_frames..2 * engine.tree_frames + huge),
        };
        let start = match rng.u8(..3) {
            0 => 0,
            1 => rng.usize(..4) * huge,
            _ => rng.usize(..engine.tree_frames),
        };
        let policy = match rng.u8(..4) {
            0 => ClassPolicy::SINGLE,
            1 => super::classes::eight_classes(),
            _ => ClassPolicy::SHIPPED,
        };
        let config = ZoneConfig::new(frames, rng.usize(1..=4))
            .starting_at(FrameId(start))
            .with_classes(policy);
        let allocated = rng.u8(..4) == 0;
        let zone = allocated.then(|| all_allocated(engine, &config)).flatten();
        let init = if zone.is_some() { Init::Allocated } else { Init::Free };
        Self::on(engine, &config, init, rng, seed)
    }

    fn on(engine: Engine, config: &ZoneConfig, init: Init, rng: Rng, seed: u64) -> Self {
        let zone = Checked::seeded(engine, config, init, seed);
        let (blocks, runs, offline) = (Vec::new(), Vec::new(), Vec::new());
        Self { zone, rng, blocks, runs, offline, appetite: 60 }
    }

    /// Runs to the end; returns how many calls were judged.
    fn run(mut self) -> usize {
        for step in 1..=ops() {
            self.step();
            if step % 64 == 0 {
                self.zone.validate_counts();
            }
            if step % 512 == 0 {
                self.zone.validate_touched();
            }
        }
        self.finish()
    }

    fn slot(&mut self) -> Slot {
        // One call in a hundred names a slot that is not there.
        let slots = self.zone.model.config().slots;
        if self.rng.u8(..100) == 0 { Slot(slots) } else { Slot(self.rng.usize(..slots)) }
    }

    fn order(&mut self) -> Order {
        // Small orders are more likely, as in life.
        let max = self.zone.model.max_order().0;
        let limit = if self.rng.u8(..50) == 0 { max + 1 } else { self.rng.u8(..=max) };
        Order(self.rng.u8(..=limit))
    }

    fn request(&mut self) -> Request {
        let order = self.order();
        let class = self.rng.u8(..self.zone.model.config().classes.count() as u8);
        let class = if self.rng.u8(..100) == 0 { Class(self.rng.u8(..)) } else { Class(class) };
        let request = Request::new(order, class, self.slot());
        match self.rng.u8(..8) {
            0 => request.at(self.frame(order)),
            1 => request.within(self.window()),
            _ => request,
        }
    }

    /// A range of frames of the zone and around it; now and then one that ends before it begins.
    fn window(&mut self) -> Range<FrameId> {
        let ends = [0, 1].map(|_| self.frame(Order::BASE));
        let forwards = self.rng.u8(..20) > 0;
        if forwards { ends[0].min(ends[1])..ends[0].max(ends[1]) } else { ends[0]..ends[1] }
    }

    fn range_request(&mut self) -> RangeRequest {
        let Request { order, class, slot, .. } = self.request();
        let most = self.rng.usize(..=2 * order.frames().min(self.zone.model.config().frames));
        let align = if self.rng.bool() { Order::BASE } else { self.order() };
        let request = RangeRequest::new(most, class, slot).aligned(align);
        match self.rng.u8(..4) {
            0 => request.at(self.frame(align)),
            1 => request.within(self.window()),
            _ => request,
        }
    }

    /// A frame of the zone or just outside, usually aligned.
    fn frame(&mut self, order: Order) -> FrameId {
        let config = *self.zone.model.config();
        let frame = config.start.0 + self.rng.usize(..config.frames + 2);
        let mask = if self.rng.u8(..20) == 0 { 0 } else { order.frames() - 1 };
        FrameId(frame & !mask)
    }

    fn step(&mut self) {
        if self.rng.u8(..100) == 0 {
            self.appetite = [20, 45, 55, 80, 95][self.rng.usize(..5)];
        }
        match self.rng.u8(..100) {
            0..70 if self.rng.u8(..100) < self.appetite => self.alloc(),
            0..70 => self.free_block(),
            70..74 => self.free_anywhere(),
            74..76 => self.alloc_range(),
            76..78 => self.free_range(),
            78..83 => self.alloc_batch(),
            83..86 => self.free_batch(),
            86..90 => {
                let slot = self.slot();
                let _ = self.zone.drain(slot);
            }
            90..94 => self.toggle_offline(),
            94..97 => self.toggle_isolation(),
            97..98 if !self.zone.engine().unsupported.recovery => {
                self.zone.recover();
                self.zone.validate_counts();
            }
            _ => self.free_part(),
        }
    }

    fn alloc(&mut self) {
        let request = self.request();
        if let Ok(frame) = self.zone.alloc(request) {
            self.blocks.push((frame, request.order));
        }
    }

    fn alloc_range(&mut self) {
        let request = self.range_request();
        self.runs.extend(self.zone.alloc_range(request));
    }

    fn free_range(&mut self) {
        let slot = self.slot();
        let run = match self.rng.u8(..4) {
            0 => self.window(),
            _ if self.runs.is_empty() => return,
            _ => self.runs.swap_remove(self.rng.usize(..self.runs.len())),
        };
        let _ = self.zone.free_range(run, slot);
    }

    fn free_block(&mut self) {
        if !self.blocks.is_empty() {
            let (frame, order) = self.blocks.swap_remove(self.rng.usize(..self.blocks.len()));
            // It may have been freed in parts, or as part of another: the judge knows.
            let slot = self.slot();
            let _ = self.zone.free(frame, order, slot);
        }
    }

    fn free_anywhere(&mut self) {
        let order = self.order();
        let (frame, slot) = (self.frame(order), self.slot());
        let _ = self.zone.free(frame, order, slot);
    }

    fn free_part(&mut self) {
        if !self.blocks.is_empty() {
            let (frame, order) = self.blocks[self.rng.usize(..self.blocks.len())];
            let part = Order(self.rng.u8(..=order.0));
            let inside = self.rng.usize(..order.frames()) & !(part.frames() - 1);
            let slot = self.slot();
            let _ = self.zone.free(FrameId(frame.0 + inside), part, slot);
        }
    }

    fn alloc_batch(&mut self) {
        let request = self.request();
        let batch = if self.rng.bool() { Batch::All } else { Batch::UpTo };
        let wanted = self.rng.usize(..70);
        let frames = self.zone.alloc_batch(request, batch, wanted).unwrap_or_default();
        self.blocks.extend(frames.into_iter().map(|frame| (frame, request.order)));
    }

    fn free_batch(&mut self) {
        let order = self.order();
        let of_order = self.blocks.iter().filter(|block| block.1 == order);
        let frames: Vec<_> = of_order.map(|block| block.0).take(self.rng.usize(..40)).collect();
        let slot = self.slot();
        let _ = self.zone.free_batch(&frames, order, slot);
    }

    fn toggle_offline(&mut self) {
        let first = self.zone.model.huge_range().start;
        let count = 1 + self.rng.usize(..3) * usize::from(self.rng.bool());
        match self.rng.u8(..3) {
            0 if !self.offline.is_empty() => {
                let (huge, count) = self.offline.swap_remove(self.rng.usize(..self.offline.len()));
                let _ = self.zone.online(huge, count);
            }
            1 => {
                let huge = HugeId(first + self.rng.usize(..40));
                let _ = self.zone.online(huge, count);
            }
            _ => {
                let len = self.zone.model.huge_range().len() + 1;
                let huge = HugeId(first + self.rng.usize(..len));
                // A free one, if there is any, so that it often succeeds.
                let free = self.zone.model.free_huge_frames().next();
                let huge = if self.rng.bool() { free.unwrap_or(huge) } else { huge };
                if self.zone.offline(huge, count).is_ok() {
                    self.offline.push((huge, count));
                }
            }
        }
    }

    /// Isolates huge frames, whatever they are used as, ends that, or claims what is empty.
    fn toggle_isolation(&mut self) {
        let range = self.zone.model.huge_range();
        let any = HugeId(range.start + self.rng.usize(..range.len() + 1));
        let isolated: Vec<_> = self.zone.model.isolated_huge_frames().collect();
        let one =
            if isolated.is_empty() { any } else { isolated[self.rng.usize(..isolated.len())] };
        // An empty one, if there is any, so that a claim often succeeds.
        let is_empty = |huge: &HugeId| self.zone.model.frames_in_use(*huge) == 0;
        let empty = isolated.iter().copied().find(is_empty).unwrap_or(one);
        let count = 1 + usize::from(self.rng.u8(..8) == 0);
        let slot = self.slot();
        match self.rng.u8(..10) {
            0 => _ = self.zone.unisolate(any, count),
            1..4 => _ = self.zone.unisolate(one, count),
            4 if self.zone.claim_isolated(empty, count, Claim::Offline).is_ok() => {
                self.offline.push((empty, count));
            }
            5 if self.zone.claim_isolated(empty, count, Claim::Block(slot)).is_ok() => {
                let order = self.zone.engine().huge_order;
                let huge = (empty.0..empty.0 + count).map(HugeId);
                self.blocks.extend(huge.map(|huge| (self.zone.engine().first_of(huge), order)));
            }
            4 | 5 => {}
            // Few at a time: what is isolated is out of use.
            _ if isolated.len() * 4 > range.len() => _ = self.zone.unisolate(one, 1),
            _ => _ = self.zone.isolate(any, count),
        }
    }

    /// Everything back, then every frame once more.
    fn finish(mut self) -> usize {
        self.zone.validate();
        for huge in self.zone.model.isolated_huge_frames().collect::<Vec<_>>() {
            self.zone.unisolate(huge, 1).expect("it is isolated");
        }
        for huge in self.zone.model.offline_huge_frames().collect::<Vec<_>>() {
            self.zone.online(huge, 1).expect("it is offline");
        }
        self.zone.give_rest(Slot(0));
        assert_eq!(self.zone.model.free_frames(), self.zone.model.config().frames);
        self.zone.validate_touched();
        self.zone.fill_all(Slot(0));
        self.zone.validate_counts();
        self.zone.calls()
    }
}

/// The walk must reach what it is meant to: that it is deterministic, and that the geometry's
/// zones are small enough to become full. (It tests the test.)
pub fn random_calls_are_the_same_for_the_same_seed(engine: Engine) {
    let run = |seed| {
        let mut walk = Walk::new(engine, seed);
        (0..100).for_each(|_| walk.step());
        (walk.zone.model.clone(), walk.rng.u64(..))
    };
    for seed in seed()..seed() + 4 {
        assert!(run(seed) == run(seed), "seed {seed} is not deterministic for this engine");
    }
}
