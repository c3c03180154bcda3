//! An allocator in which something happens between the two steps of a tagged call: right after an allocation, right
//! before a free, or right after it.

use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use woodlot_frame::{
    AllocError, Batch, FrameAllocator, FrameId, FreeBatchError, FreeError, Order, RangeRequest,
    Request, Slot, Unsupported, blocks, forward,
};

/// Where in a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Allocated,
    Freeing,
    Freed,
}

/// What happens there, with the block.
type Happens<'a> = dyn Fn(Step, FrameId, Order) + Sync + 'a;

pub struct Between<'a, A> {
    pub engine: &'a A,
    pub happens: &'a Happens<'a>,
}

thread_local! {
    /// What happens does not happen again in what it calls.
    static HAPPENING: Cell<bool> = const { Cell::new(false) };
}

impl<A: FrameAllocator> Between<'_, A> {
    /// At every block of a run that lies in the zone.
    fn at_run(&self, step: Step, run: &Range<FrameId>) {
        let Range { start, end } = self.engine.zone().range();
        let run = run.start.max(start)..run.end.min(end);
        blocks::<A::Geometry>(run).for_each(|(frame, order)| self.at(step, frame, order));
    }
}

impl<A> Between<'_, A> {
    fn at(&self, step: Step, frame: FrameId, order: Order) {
        if !HAPPENING.replace(true) {
            (self.happens)(step, frame, order);
            HAPPENING.set(false);
        }
    }
}

/// The end of a process.
struct Death;

/// Dies here, and says nothing.
pub fn dies() {
    resume_unwind(Box::new(Death));
}

/// Does something as a process that dies in the middle of it.
pub fn until_it_dies(what: impl FnOnce()) {
    let end = catch_unwind(AssertUnwindSafe(what));
    HAPPENING.set(false);
    assert!(end.is_err_and(|end| end.is::<Death>()), "it should have died");
}

impl<A: FrameAllocator> FrameAllocator for Between<'_, A> {
    type Geometry = A::Geometry;

    const NAME: &'static str = A::NAME;

    const UNSUPPORTED: Unsupported = A::UNSUPPORTED;

    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        let frame = self.engine.alloc(request)?;
        self.at(Step::Allocated, frame, request.order);
        Ok(frame)
    }

    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        self.at(Step::Freeing, frame, order);
        self.engine.free(frame, order, slot)?;
        self.at(Step::Freed, frame, order);
        Ok(())
    }

    fn alloc_batch(
        &self,
        request: Request,
        batch: Batch,
        out: &mut [FrameId],
    ) -> Result<usize, AllocError> {
        let count = self.engine.alloc_batch(request, batch, out)?;
        out[..count].iter().for_each(|&frame| self.at(Step::Allocated, frame, request.order));
        Ok(count)
    }

    fn free_batch(
        &self,
        frames: &[FrameId],
        order: Order,
        slot: Slot,
    ) -> Result<(), FreeBatchError> {
        frames.iter().for_each(|&frame| self.at(Step::Freeing, frame, order));
        self.engine.free_batch(frames, order, slot)?;
        frames.iter().for_each(|&frame| self.at(Step::Freed, frame, order));
        Ok(())
    }

    fn alloc_range(&self, request: RangeRequest) -> Result<Range<FrameId>, AllocError> {
        let run = self.engine.alloc_range(request)?;
        self.at_run(Step::Allocated, &run);
        Ok(run)
    }

    fn free_range(&self, frames: Range<FrameId>, slot: Slot) -> Result<(), FreeError> {
        self.at_run(Step::Freeing, &frames);
        self.engine.free_range(frames.clone(), slot)?;
        self.at_run(Step::Freed, &frames);
        Ok(())
    }

    forward!(engine: zone, largest_at, can_free, drain, offline, online);
    forward!(engine: isolate, unisolate, claim_isolated, is_isolated, frames_in_use, used_map);
    forward!(engine: is_available, free_frames, stats, is_free, free_map, free_in_huge);
}
