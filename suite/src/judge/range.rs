//! Judgement of places and runs: where blocks may lie, and runs of any length, allocated and freed.

use std::ops::Range;

use woodlot_frame::{AllocError, FrameId, FreeError, Place, RangeRequest, Slot};

use super::{Judged, refused, wrong};
use crate::model::{ALLOCATED, FREE, KEPT, Model, OFFLINE};

impl Model {
    /// The first run of `frames` frames in a window whose first is aligned and that `is` accepts.
    fn first_run(
        &self,
        request: &RangeRequest,
        window: &Range<usize>,
        is: impl Fn(u8) -> bool,
    ) -> Option<usize> {
        let (size, zone) = (request.align.frames(), self.config.start.0);
        let mut start = window.start.checked_next_multiple_of(size)?;
        'places: loop {
            let end = start.checked_add(request.frames).filter(|&end| end <= window.end)?;
            for frame in (start..end).rev() {
                if !is(self.state[frame - zone]) {
                    start = (frame + 1).checked_next_multiple_of(size)?;
                    continue 'places;
                }
            }
            return Some(start);
        }
    }

    /// The frames of the zone among which a run must lie; `None` where the request names its first.
    fn window(&self, place: Place) -> Option<Range<usize>> {
        let zone = self.config.range();
        match place {
            Place::At(_) => None,
            Place::Anywhere => Some(zone.start.0..zone.end.0),
            Place::Within { start, end } => Some(start.max(zone.start).0..end.min(zone.end).0),
        }
    }

    /// What is wrong with where a run is to lie, whatever the zone holds.
    pub(super) fn place_faults(&self, request: &RangeRequest) -> Vec<AllocError> {
        let mut faults = Vec::new();
        if request.place != Place::Anywhere && self.unsupported.exact_frame {
            faults.push(AllocError::Unsupported);
        }
        if let Place::Within { start, end } = request.place
            && start > end
        {
            faults.push(AllocError::Reversed(start));
            return faults;
        }
        let zone = self.config.range();
        match (request.place, self.window(request.place)) {
            (Place::At(frame), _) => {
                if !frame.is_aligned(request.align) {
                    faults.push(AllocError::Misaligned(frame, request.align));
                }
                let end = frame.checked_add(request.frames);
                if frame < zone.start || end.is_none_or(|end| end > zone.end) {
                    faults.push(AllocError::OutOfRange(frame));
                }
            }
            (_, Some(window)) if self.first_run(request, &window, |_| true).is_none() => {
                faults.push(AllocError::NoPlace(FrameId(window.start)));
            }
            _ => {}
        }
        faults
    }

    fn range_faults(&self, request: &RangeRequest) -> Vec<AllocError> {
        let mut faults = Vec::new();
        if self.unsupported.exact_frame {
            faults.push(AllocError::Unsupported);
        }
        if request.slot.0 >= self.config.slots {
            faults.push(AllocError::BadSlot(request.slot));
        }
        if !self.config.classes.has(request.class) {
            faults.push(AllocError::BadClass(request.class));
        }
        if request.frames == 0 {
            faults.push(AllocError::NoFrames);
        }
        if request.align.frames() == 0 {
            faults.push(AllocError::OrderTooLarge(request.align));
        }
        if request.frames > 0 && request.align.frames() > 0 {
            faults.extend(self.place_faults(request));
        }
        faults
    }

    /// Does this run lie where it was asked for, and is all of it free?
    pub(super) fn judge_run(&self, request: &RangeRequest, run: &Range<FrameId>) -> Judged {
        let zone = self.config.start.0;
        let inside = match self.window(request.place) {
            Some(window) => window.start <= run.start.0 && run.end.0 <= window.end,
            None => request.place == Place::At(run.start),
        };
        let length = run.end.0.checked_sub(run.start.0);
        if !inside || length != Some(request.frames) || !run.start.is_aligned(request.align) {
            return wrong(format!("the run {run:?} is not what was asked for"));
        }
        match (run.start.0..run.end.0).find(|frame| self.state[frame - zone] != FREE) {
            Some(f) => wrong(format!("handed out {run:?}, of which frame {f:#x} is not free")),
            None => Ok(()),
        }
    }

    /// Was this a legal refusal of a run with whose request nothing is wrong?
    pub(super) fn judge_refusal(&self, request: &RangeRequest, error: AllocError) -> Judged {
        let zone = self.config.start.0;
        match (error, self.window(request.place)) {
            (AllocError::OutOfMemory, Some(window)) => {
                match self.first_run(request, &window, |state| state == FREE) {
                    Some(frame) => {
                        wrong(format!("out of memory while a run is free at {frame:#x}"))
                    }
                    None => Ok(()),
                }
            }
            (AllocError::InUse(frame), None) => {
                let Place::At(start) = request.place else { unreachable!("no window") };
                let mut frames = start.0..start.0 + request.frames;
                match frames.find(|frame| self.state[frame - zone] != FREE) {
                    Some(first) if first == frame.0 => Ok(()),
                    first => wrong(format!("{error:?}, but the first in use is {first:x?}")),
                }
            }
            _ => wrong(format!("{error:?} is no answer to this request")),
        }
    }

    /// Was this a legal answer to `alloc_range`? If so the model follows it.
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub fn alloc_range(
        &mut self,
        request: RangeRequest,
        answer: &Result<Range<FrameId>, AllocError>,
    ) -> Judged {
        if let Some(judged) = refused(&self.range_faults(&request), answer) {
            return judged;
        }
        let run = match answer {
            Ok(run) => run,
            Err(error) => return self.judge_refusal(&request, *error),
        };
        self.judge_run(&request, run)?;
        // It is as good as the largest blocks that it consists of.
        let mut frame = run.start;
        while frame < run.end {
            let fits = |order: &woodlot_frame::Order| {
                frame.is_aligned(*order) && order.frames() <= run.end.0 - frame.0
            };
            let largest = self.orders().rev().find(fits);
            let order = largest.expect("a single frame fits");
            self.allocate(frame, order);
            frame = FrameId(frame.0 + order.frames());
        }
        Ok(())
    }

    /// Every error that applies to a free of a run; empty if it must succeed.
    fn free_range_faults(&self, frames: &Range<FrameId>, slot: Slot) -> Vec<FreeError> {
        let (zone, mut faults) = (self.config.range(), Vec::new());
        if slot.0 >= self.config.slots {
            faults.push(FreeError::BadSlot(slot));
        }
        if frames.start > frames.end {
            faults.push(FreeError::Reversed(frames.start));
        }
        if frames.is_empty() {
            return faults;
        }
        if frames.start < zone.start {
            faults.push(FreeError::OutOfRange(frames.start));
        } else if frames.end > zone.end {
            faults.push(FreeError::OutOfRange(frames.start.max(zone.end)));
        } else if self.unsupported.partial_free {
            faults.extend(self.block_fault(frames));
        } else {
            faults.extend(self.frame_faults(frames));
        }
        faults
    }

    /// What is wrong with frames of the zone that are to be freed in any blocks.
    fn frame_faults(&self, frames: &Range<FrameId>) -> Vec<FreeError> {
        let start = self.config.start.0;
        let states = &self.state[frames.start.0 - start..frames.end.0 - start];
        let first = |state| states.iter().position(|&is| is == state);
        let mut faults = Vec::new();
        if let Some(n) = first(FREE).into_iter().chain(first(KEPT)).min() {
            faults.push(FreeError::NotAllocated(FrameId(frames.start.0 + n)));
        }
        if let Some(n) = first(OFFLINE) {
            // The block with the first offline frame in it.
            let offline = frames.start.0 + n;
            let aligned = self.orders().map(|order| offline & !(order.frames() - 1));
            let blocks = aligned.filter(|&block| block >= frames.start.0);
            faults.extend(blocks.map(|block| FreeError::Offline(FrameId(block))));
        }
        faults
    }

    /// What is wrong with the first block of these frames that cannot be freed as it was allocated.
    fn block_fault(&self, frames: &Range<FrameId>) -> Option<FreeError> {
        let mut frame = frames.start;
        while frame < frames.end {
            let index = frame.0 - self.config.start.0;
            let size = match self.blocks[index] {
                0 => 0,
                order => 1 << (order - 1),
            };
            match self.state[index] {
                FREE | KEPT => return Some(FreeError::NotAllocated(frame)),
                ALLOCATED if size > 0 && size <= frames.end.0 - frame.0 => frame.0 += size,
                ALLOCATED => return Some(FreeError::Unsupported),
                _ => return Some(FreeError::Offline(frame)),
            }
        }
        None
    }

    /// Was this a legal answer to `free_range`? If so the model follows it.
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub fn free_range(
        &mut self,
        frames: Range<FrameId>,
        slot: Slot,
        answer: Result<(), FreeError>,
    ) -> Judged {
        if let Some(judged) = refused(&self.free_range_faults(&frames, slot), &answer) {
            return judged;
        }
        if let Err(error) = answer {
            return wrong(format!("{error:?}, but every frame of the run is allocated"));
        }
        if !frames.is_empty() {
            self.set(frames.start, frames.end.0 - frames.start.0, FREE);
        }
        Ok(())
    }
}
