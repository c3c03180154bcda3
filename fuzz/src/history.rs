//! Calls of the contract, right and wrong, judged one by one by the suite's reference model.

use std::ops::Range;

use woodlot_frame::{
    Batch, Claim, Class, FrameId, HugeId, Order, Place, RangeRequest, Request, Slot,
};
use woodlot_suite::{Checked, Engine};

use crate::bytes::Bytes;
use crate::zone::{config, engine, init};

/// The first byte chooses engine and geometry, some more the zone, the others the calls.
pub fn history(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    judged(engine(&mut bytes), bytes);
}

/// The counts are compared after so many calls.
const COUNTED: usize = 16;

/// One history on this engine.
pub fn judged(engine: Engine, mut bytes: Bytes) {
    let config = config(engine, &mut bytes);
    let init = init(engine, &mut bytes);
    let zone = Checked::new(engine, &config, init);
    let mut history = History { zone, blocks: Vec::new(), runs: Vec::new(), recovered: false };
    let mut calls = 0;
    while !bytes.is_empty() {
        history.call(&mut bytes);
        calls += 1;
        if calls % COUNTED == 0 {
            history.zone.validate_counts();
        }
    }
    history.finish();
}

struct History {
    zone: Checked,
    /// Blocks as they were allocated; they may have been freed since, in other shapes.
    blocks: Vec<(FrameId, Order)>,
    /// Runs as they were allocated, likewise.
    runs: Vec<Range<FrameId>>,
    /// The last call was a recovery: another one would find what that one left.
    recovered: bool,
}

impl History {
    fn call(&mut self, bytes: &mut Bytes) {
        let choice = bytes.byte() % 22;
        let again = std::mem::replace(&mut self.recovered, choice == 15);
        match choice {
            0..=3 => self.alloc(bytes, false),
            4 | 5 => self.alloc(bytes, true),
            6..=8 => self.free_block(bytes),
            9 => self.free_anywhere(bytes),
            10 => self.alloc_batch(bytes),
            11 => self.free_batch(bytes),
            12 => {
                let slot = self.slot(bytes);
                let _ = self.zone.drain(slot);
            }
            13 => self.offline(bytes),
            14 => self.online(bytes),
            16 | 17 => self.alloc_range(bytes),
            18 => self.free_run(bytes),
            19 => self.free_range(bytes),
            20 => self.isolate(bytes),
            21 => self.end_isolation(bytes),
            _ if again => {}
            _ => self.zone.recover(),
        }
    }

    /// Now and then one that is not there.
    fn slot(&self, bytes: &mut Bytes) -> Slot {
        match bytes.byte() {
            255 => Slot(usize::MAX),
            byte => Slot(usize::from(byte) % self.zone.model.config().slots),
        }
    }

    /// Sometimes one too large.
    fn order(&self, bytes: &mut Bytes) -> Order {
        match bytes.byte() {
            255 => Order(255),
            byte => Order(byte % (self.zone.model.max_order().0 + 2)),
        }
    }

    /// A frame of the zone or just outside, usually aligned.
    fn frame(&self, order: Order, bytes: &mut Bytes) -> FrameId {
        let config = self.zone.model.config();
        let frame = (config.start.0 + bytes.below(config.frames + 2)).saturating_sub(1);
        let mask = if bytes.byte() > 240 { 0 } else { order.frames().wrapping_sub(1) };
        FrameId(frame & !mask)
    }

    fn request(&self, exact: bool, bytes: &mut Bytes) -> Request {
        let order = self.order(bytes);
        let classes = self.zone.model.config().classes.count() as u8;
        let class = match bytes.byte() {
            255 => Class(255),
            byte => Class(byte % classes),
        };
        let request = Request::new(order, class, self.slot(bytes));
        if exact { request.at(self.frame(order, bytes)) } else { request }
    }

    fn alloc(&mut self, bytes: &mut Bytes, exact: bool) {
        let request = self.request(exact, bytes);
        if let Ok(frame) = self.zone.alloc(request) {
            self.blocks.push((frame, request.order));
        }
    }

    /// Frames of the zone or just outside; sometimes reversed, or to the end of all numbers.
    fn range(&self, bytes: &mut Bytes) -> Range<FrameId> {
        let (one, other) = (self.frame(Order::BASE, bytes), self.frame(Order::BASE, bytes));
        match bytes.byte() {
            255 => one..FrameId(usize::MAX),
            250..255 => one.max(other)..one.min(other),
            _ => one.min(other)..one.max(other),
        }
    }

    /// As a block where it has a block's length and alignment, now and then.
    fn alloc_range(&mut self, bytes: &mut Bytes) {
        let Request { order, class, slot, .. } = self.request(false, bytes);
        let place = match bytes.byte() % 4 {
            0 => Place::Anywhere,
            1 => Place::At(self.frame(order, bytes)),
            _ => Place::within(self.range(bytes)),
        };
        if bytes.byte().is_multiple_of(4) {
            let allocated = self.zone.alloc(Request { order, class, slot, place });
            self.blocks.extend(allocated.map(|frame| (frame, order)));
            return;
        }
        let frames = match bytes.byte() {
            255 => usize::MAX,
            254 => order.frames(),
            short @ ..128 => usize::from(short),
            _ => bytes.below(self.zone.model.config().frames + 2),
        };
        let align = if bytes.byte().is_multiple_of(2) { order } else { Order::BASE };
        let request =
            RangeRequest { place, ..RangeRequest::new(frames, class, slot).aligned(align) };
        self.runs.extend(self.zone.alloc_range(request));
    }

    /// A run as it was allocated, or a part of it.
    fn free_run(&mut self, bytes: &mut Bytes) {
        if self.runs.is_empty() {
            return;
        }
        let at = bytes.below(self.runs.len());
        let (run, slot) = (self.runs[at].clone(), self.slot(bytes));
        if bytes.byte() < 192 {
            self.runs.swap_remove(at);
            let _ = self.zone.free_range(run, slot);
        } else {
            let start = FrameId(run.start.0 + bytes.below(run.end.0 - run.start.0));
            let _ = self.zone.free_range(start..run.end, slot);
        }
    }

    fn free_range(&mut self, bytes: &mut Bytes) {
        let (frames, slot) = (self.range(bytes), self.slot(bytes));
        let _ = self.zone.free_range(frames, slot);
    }

    fn alloc_batch(&mut self, bytes: &mut Bytes) {
        let request = self.request(bytes.byte().is_multiple_of(4), bytes);
        let batch = if bytes.byte().is_multiple_of(2) { Batch::All } else { Batch::UpTo };
        let frames = self.zone.alloc_batch(request, batch, bytes.below(150)).unwrap_or_default();
        self.blocks.extend(frames.into_iter().map(|frame| (frame, request.order)));
    }

    /// A block as it was allocated, or an aligned part of it.
    fn free_block(&mut self, bytes: &mut Bytes) {
        if self.blocks.is_empty() {
            return;
        }
        let at = bytes.below(self.blocks.len());
        let (frame, order) = self.blocks[at];
        let slot = self.slot(bytes);
        match bytes.byte() {
            whole if whole < 192 => {
                self.blocks.swap_remove(at);
                let _ = self.zone.free(frame, order, slot);
            }
            part => {
                let part = Order(part % (order.0 + 1));
                let inside = bytes.below(order.frames()) & !(part.frames() - 1);
                let _ = self.zone.free(FrameId(frame.0 + inside), part, slot);
            }
        }
    }

    fn free_anywhere(&mut self, bytes: &mut Bytes) {
        let order = self.order(bytes);
        let (frame, slot) = (self.frame(order, bytes), self.slot(bytes));
        let _ = self.zone.free(frame, order, slot);
    }

    fn free_batch(&mut self, bytes: &mut Bytes) {
        let Some(&(_, order)) = self.blocks.last() else { return };
        let of_order = self.blocks.iter().filter(|block| block.1 == order);
        let frames: Vec<_> = of_order.map(|block| block.0).take(bytes.below(80)).collect();
        let slot = self.slot(bytes);
        if self.zone.free_batch(&frames, order, slot).is_ok() {
            self.blocks.retain(|block| block.1 != order || !frames.contains(&block.0));
        }
    }

    fn huge(&self, bytes: &mut Bytes) -> (HugeId, usize) {
        let range = self.zone.model.huge_range();
        let first = HugeId((range.start + bytes.below(range.len() + 2)).saturating_sub(1));
        match bytes.byte() {
            255 => (first, usize::MAX),
            byte => (first, usize::from(byte) % 4),
        }
    }

    fn offline(&mut self, bytes: &mut Bytes) {
        let (first, count) = self.huge(bytes);
        let _ = self.zone.offline(first, count);
    }

    fn online(&mut self, bytes: &mut Bytes) {
        let (first, count) = self.huge(bytes);
        let _ = self.zone.online(first, count);
    }

    fn isolate(&mut self, bytes: &mut Bytes) {
        let (first, count) = self.huge(bytes);
        let _ = self.zone.isolate(first, count);
    }

    /// Of what is isolated, more often than of anything else.
    fn end_isolation(&mut self, bytes: &mut Bytes) {
        let (any, count) = self.huge(bytes);
        let one = self.zone.model.isolated_huge_frames().nth(bytes.below(4));
        let (first, count) = one.map_or((any, count), |huge| (huge, 1));
        let slot = self.slot(bytes);
        match bytes.byte() % 4 {
            0 => _ = self.zone.claim_isolated(first, count, Claim::Offline),
            1 => {
                if self.zone.claim_isolated(first, count, Claim::Block(slot)).is_ok() {
                    let engine = self.zone.engine();
                    let blocks = (first.0..first.0 + count).map(HugeId);
                    self.blocks
                        .extend(blocks.map(|huge| (engine.first_of(huge), engine.huge_order)));
                }
            }
            _ => _ = self.zone.unisolate(first, count),
        }
    }

    /// Everything that was touched as the model says; then everything back, and every frame once
    /// more.
    fn finish(mut self) {
        self.zone.validate_touched();
        for huge in self.zone.model.isolated_huge_frames().collect::<Vec<_>>() {
            self.zone.unisolate(huge, 1).expect("it is isolated");
        }
        for huge in self.zone.model.offline_huge_frames().collect::<Vec<_>>() {
            self.zone.online(huge, 1).expect("it is offline");
        }
        self.zone.give_rest(Slot(0));
        self.zone.validate_counts();
        self.zone.fill_all(Slot(0));
        assert_eq!(self.zone.allocator().free_frames(), 0, "frames were left over");
    }
}
