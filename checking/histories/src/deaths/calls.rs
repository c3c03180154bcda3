//! What a thread does: calls of the contract, each of which it writes down before and after.

use fastrand::Rng;
use woodlot_frame::{
    AllocError, Batch, Class, FrameAllocator, FrameId, FreeError, Geometry, Intents, Order,
    RangeRequest, Request, Slot, Volatile, alloc_run, blocks, free_each,
};
use woodlot_llfree::LLFree;

use super::defects::Defect;
use super::log::{Log, Phase};
use crate::ledger::{Block, Judged};

/// The allocator.
pub type Zone<'a, G> = LLFree<'a, G, Intents<Volatile>>;

/// A thread, by its number; so is its slot.
pub struct Thread<'a, G: Geometry> {
    zone: &'a Zone<'a, G>,
    log: &'a Log,
    me: usize,
    defect: Defect,
    rng: Rng,
}

impl<'a, G: Geometry> Thread<'a, G> {
    /// The thread whose choices follow from a seed.
    pub fn new(zone: &'a Zone<'a, G>, log: &'a Log, me: usize, seed: u64, defect: Defect) -> Self {
        let rng = Rng::with_seed(seed.wrapping_mul(31).wrapping_add(me as u64));
        Self { zone, log, me, defect, rng }
    }

    /// Makes so many calls, unless something goes wrong; or the thread has stopped, and this is its ghost.
    pub fn run(mut self, calls: usize) {
        for _ in 0..calls {
            if self.log.open().phase == Phase::Over {
                return;
            }
            if let Err(why) = self.step() {
                self.log.fail(format!("thread {}: {why}", self.me));
                return;
            }
        }
    }

    fn step(&mut self) -> Judged {
        match self.rng.u8(..16) {
            0..4 => self.alloc(),
            4..6 => self.alloc_batch(),
            6..8 => self.alloc_range(),
            8..11 => self.free_block(),
            11..13 => self.free_batch(),
            13..15 => self.free_range(),
            _ => {
                let drained = self.zone.drain(self.slot());
                drained.map_err(|error| format!("{error:?}"))
            }
        }
    }

    /// Its own; with a defect it takes its neighbour's for its own.
    fn slot(&self) -> Slot {
        match self.defect {
            Defect::SharedSlot => Slot(self.me.max(2)),
            _ => Slot(self.me),
        }
    }

    /// Blocks of several rows are likely ones, where there are such.
    fn order(&mut self) -> Order {
        let max = Order::max::<G>().0;
        Order(match self.rng.u8(..4) {
            0 => 0,
            1 if G::HUGE_ORDER > 7 => 7,
            2 => max - 2,
            _ => self.rng.u8(..=max),
        })
    }

    fn request(&mut self) -> Request {
        let class = self.rng.u8(..self.zone.classes().count() as u8);
        Request::new(self.order(), Class(class), self.slot())
    }

    // ---- Allocations ----

    /// Allocates by a call that yields blocks, or has none.
    fn allocates(
        &mut self,
        text: String,
        call: impl FnOnce(&Self) -> Result<Vec<Block>, AllocError>,
    ) -> Judged {
        let before = self.zone.last_operation(Slot(self.me));
        self.log.open().allocates(self.me, text.clone(), before);
        let answer = call(self);
        let mut log = self.log.open();
        match answer {
            _ if log.phase == Phase::Over => Ok(()),
            Ok(blocks) => log.allocated(self.me, &blocks),
            Err(AllocError::OutOfMemory | AllocError::InUse(_)) => log.allocated(self.me, &[]),
            Err(error) => Err(format!("{error:?}")),
        }
        .map_err(|why| format!("{text}: {why}"))
    }

    fn alloc(&mut self) -> Judged {
        let mut request = self.request();
        if self.rng.u8(..4) == 0 {
            let blocks = self.zone.zone().frames >> request.order.0;
            let frame = self.rng.usize(..blocks.max(1)) << request.order.0;
            request = request.at(FrameId(frame));
        }
        self.allocates(format!("alloc {request:?}"), |this| {
            this.zone.alloc(request).map(|frame| vec![Block(frame, request.order)])
        })
    }

    fn alloc_batch(&mut self) -> Judged {
        let request = self.request();
        let batch = if self.rng.bool() { Batch::All } else { Batch::UpTo };
        let mut out = vec![FrameId(0); self.rng.usize(2..=5)];
        self.allocates(format!("alloc_batch {request:?} {batch:?} {}", out.len()), |this| {
            let count = this.zone.alloc_batch(request, batch, &mut out)?;
            Ok(out.iter().take(count).map(|&frame| Block(frame, request.order)).collect())
        })
    }

    fn alloc_range(&mut self) -> Judged {
        let Request { class, slot, .. } = self.request();
        let frames = self.rng.usize(1..=2 * G::HUGE_FRAMES);
        let request = RangeRequest::new(frames, class, slot);
        self.allocates(format!("alloc_range {request:?}"), |this| {
            let run = match this.defect {
                Defect::RunInPieces => alloc_run(this.zone, request)?,
                _ => this.zone.alloc_range(request)?,
            };
            Ok(blocks::<G>(run).map(|(frame, order)| Block(frame, order)).collect())
        })
    }

    // ---- Frees ----

    /// Frees blocks that are in no thread's list any more.
    fn frees(
        &mut self,
        text: String,
        given: &[Block],
        call: impl FnOnce(&Self) -> Result<(), FreeError>,
    ) -> Judged {
        let before = self.zone.last_operation(Slot(self.me));
        self.log.open().frees(self.me, text.clone(), given, before);
        let answer = call(self);
        let mut log = self.log.open();
        if log.phase != Phase::Over {
            answer.map_err(|error| format!("{text}: {error:?}, but it is allocated"))?;
            log.freed(self.me);
        }
        Ok(())
    }

    fn take(&mut self) -> Option<Block> {
        self.log.open().take(self.me, self.rng.usize(..))
    }

    /// Frees a block, or its first half.
    fn free_block(&mut self) -> Judged {
        let Some(mut block) = self.take() else { return Ok(()) };
        if block.1.0 > 0 && self.rng.u8(..3) == 0 {
            block = Block(block.0, Order(block.1.0 - 1));
            self.log.open().blocks[self.me].push(block.buddy());
        }
        let slot = self.slot();
        self.frees(format!("free {block:?}"), &[block], |this| {
            this.zone.free(block.0, block.1, slot)
        })
    }

    /// Frees a block, and all of its order that the thread owns.
    fn free_batch(&mut self) -> Judged {
        let Some(first) = self.take() else { return Ok(()) };
        let mut given = vec![first];
        self.log.open().blocks[self.me].retain(|&block| {
            let alike = block.1 == first.1 && given.len() < 6;
            given.extend(alike.then_some(block));
            !alike
        });
        let (frames, slot): (Vec<FrameId>, _) = (given.iter().map(|b| b.0).collect(), self.slot());
        self.frees(format!("free_batch {given:?}"), &given, |this| {
            let freed = match this.defect {
                Defect::BatchInPieces => free_each(this.zone, &frames, first.1, slot),
                _ => this.zone.free_batch(&frames, first.1, slot),
            };
            freed.map_err(|error| error.cause)
        })
    }

    /// Frees a block, and what the thread owns behind it, as one run.
    fn free_range(&mut self) -> Judged {
        let Some(first) = self.take() else { return Ok(()) };
        let (mut given, mut end) = (vec![first], first.range().end);
        {
            let blocks = &mut self.log.open().blocks[self.me];
            while let Some(at) = blocks.iter().position(|block| block.0.0 == end) {
                let block = blocks.swap_remove(at);
                end = block.range().end;
                given.push(block);
            }
        }
        let (run, slot) = (first.0..FrameId(end), self.slot());
        self.frees(format!("free_range {run:?}"), &given, |this| {
            this.zone.free_range(run.clone(), slot)
        })
    }
}
