//! Judgement: was an answer legal, given what the model knows?
//!
//! One method for each call of the contract. It takes the call and the allocator's answer; where
//! the answer is legal the model follows it, otherwise it says in words what is wrong. Where
//! several errors apply to one call the contract does not rank them: any of them is accepted, and
//! none other. What an engine declares away must be refused with `Unsupported`.

mod isolation;
mod range;

use std::fmt::Debug;

use woodlot_frame::{
    AllocError, BadSlot, Batch, FrameId, FreeBatchError, FreeError, HugeId, OfflineError, Order,
    Place, RangeRequest, Request, Slot,
};

use crate::model::{ALLOCATED_BLOCK, FREE, KEPT, Model, OFFLINE, State};

/// What is wrong with an answer, in words; `Ok` where nothing is.
pub type Judged = Result<(), String>;

/// Judges `answer` against a list of errors that all apply: if there are any, it must be one.
/// `None` where nothing is wrong with the call.
fn refused<T: Debug, E: PartialEq + Debug>(faults: &[E], answer: &Result<T, E>) -> Option<Judged> {
    match answer {
        _ if faults.is_empty() => None,
        Err(error) if faults.contains(error) => Some(Ok(())),
        _ => Some(Err(format!("answered {answer:?}, but must refuse with one of {faults:?}"))),
    }
}

/// An answer that is not legal, and why.
fn wrong<T>(why: impl Into<String>) -> Result<T, String> {
    Err(why.into())
}

/// A block as a run of frames.
fn as_run(request: Request) -> RangeRequest {
    let Request { order, class, slot, place } = request;
    RangeRequest { frames: order.frames(), align: order, class, slot, place }
}

impl Model {
    // ---- Allocation ----

    /// What is wrong with a request, whatever the zone holds.
    fn request_faults(&self, request: Request) -> Vec<AllocError> {
        let mut faults = Vec::new();
        let Request { order, class, slot, .. } = request;
        if order > self.max_order() {
            faults.push(AllocError::OrderTooLarge(order));
        }
        if slot.0 >= self.config.slots {
            faults.push(AllocError::BadSlot(slot));
        }
        if !self.config.classes.has(class) {
            faults.push(AllocError::BadClass(class));
        }
        // Anywhere there may be no place either: a zone is smaller than a block. That is no fault.
        if request.place != Place::Anywhere && order <= self.max_order() {
            faults.extend(self.place_faults(&as_run(request)));
        }
        faults
    }

    /// Every frame of a block that was handed out must have been free.
    fn judge_block(&self, frame: FrameId, order: Order) -> Judged {
        if !frame.is_aligned(order) {
            return wrong(format!("handed out {frame}, which is not aligned to {order}"));
        }
        if !self.config.contains(frame, order) {
            return wrong(format!("handed out {frame} of {order}, which leaves the zone"));
        }
        if self.is_free(frame, order) {
            return Ok(());
        }
        let frames = (frame.0..frame.0 + order.frames()).map(FrameId);
        match frames.into_iter().find(|&frame| self.state(frame) != Some(State::Free)) {
            Some(f) => wrong(format!(
                "handed out {frame} of {order}, of which frame {f} is {:?}",
                self.state(f)
            )),
            None => Ok(()),
        }
    }

    /// Was this a legal answer to `alloc`? If so the model follows it.
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub fn alloc(&mut self, request: Request, answer: Result<FrameId, AllocError>) -> Judged {
        if let Some(judged) = refused(&self.request_faults(request), &answer) {
            return judged;
        }
        let order = request.order;
        match (answer, request.place) {
            (Ok(frame), Place::At(asked)) if frame != asked => {
                return wrong(format!("asked for frame {asked}, answered {frame}"));
            }
            (Ok(frame), place) => {
                self.judge_block(frame, order)?;
                if place != Place::Anywhere {
                    self.judge_run(&as_run(request), &(frame..FrameId(frame.0 + order.frames())))?;
                }
                self.allocate(frame, order);
            }
            (Err(AllocError::InUse(frame)), Place::At(asked)) if frame == asked => {
                if self.is_free(asked, order) {
                    return wrong(format!("the block at {asked} of {order} is free, not in use"));
                }
            }
            (Err(error), Place::Within { .. }) => {
                return self.judge_refusal(&as_run(request), error);
            }
            (Err(AllocError::OutOfMemory), Place::Anywhere) => {
                if let Some(frame) = self.free_blocks(order).next() {
                    return wrong(format!(
                        "out of memory while the block at {frame} of {order} is free ({} frames \
                         are)",
                        self.free
                    ));
                }
            }
            (Err(error), _) => return wrong(format!("{error:?} is no answer to this request")),
        }
        Ok(())
    }

    /// Was this a legal answer to `alloc_batch` with `out.len()` blocks wanted? If so the model
    /// follows it.
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub fn alloc_batch(
        &mut self,
        request: Request,
        batch: Batch,
        out: &[FrameId],
        answer: Result<usize, AllocError>,
    ) -> Judged {
        let wanted = out.len();
        if wanted == 0 {
            return match answer {
                Ok(0) => Ok(()),
                _ => wrong(format!("an empty batch yields Ok(0), not {answer:?}")),
            };
        }
        if let Some(judged) = refused(&self.request_faults(request), &answer) {
            return judged;
        }
        let order = request.order;
        let nth = |first: FrameId, n: usize| FrameId(first.0.saturating_add(n << order.0));
        let possible = match request.place {
            Place::At(first) => {
                (0..wanted).take_while(|&n| self.is_free(nth(first, n), order)).count()
            }
            Place::Within { start, end } => {
                let inside = |frame: &FrameId| start <= *frame && nth(*frame, 1) <= end;
                self.free_blocks(order).filter(inside).take(wanted).count()
            }
            Place::Anywhere if order.0 == 0 => self.free.min(wanted),
            Place::Anywhere => self.free_blocks(order).take(wanted).count(),
        };
        let first = if let Place::At(first) = request.place { Some(first) } else { None };
        let due = if batch == Batch::All && possible < wanted { 0 } else { possible };
        match answer {
            Ok(taken) if taken > wanted || taken == 0 => {
                wrong(format!("{taken} blocks of {wanted} wanted"))
            }
            Ok(taken) if batch == Batch::All && taken < wanted => {
                wrong(format!("all of {wanted} blocks or none, not {taken}"))
            }
            Ok(taken) => {
                for (n, &frame) in out.iter().enumerate().take(taken) {
                    if first.is_some_and(|first| frame != nth(first, n)) {
                        return wrong(format!("block {n} of the batch is {frame}"));
                    }
                    self.judge_block(frame, order)?;
                    if let Place::Within { .. } = request.place {
                        self.judge_run(&as_run(request), &(frame..nth(frame, 1)))?;
                    }
                    self.allocate(frame, order);
                }
                match taken < due && !self.unsupported.exact_exhaustion {
                    true => wrong(format!("only {taken} blocks where {due} were to be had")),
                    false => Ok(()),
                }
            }
            Err(error) if due > 0 => match (error, first) {
                (AllocError::OutOfMemory, None) if self.unsupported.exact_exhaustion => Ok(()),
                _ => wrong(format!("{error:?} where {due} blocks were to be had")),
            },
            Err(AllocError::OutOfMemory) if first.is_none() => Ok(()),
            Err(error) => {
                // The error of some block of the batch.
                let applies = first.is_some_and(|first| {
                    (possible..wanted).map(|n| nth(first, n)).any(|frame| match error {
                        AllocError::InUse(f) => f == frame && !self.is_free(frame, order),
                        AllocError::OutOfRange(f) => {
                            f == frame && !self.config.contains(frame, order)
                        }
                        _ => false,
                    })
                });
                match applies {
                    true => Ok(()),
                    false => wrong(format!("{error:?} is no answer to this batch")),
                }
            }
        }
    }

    // ---- Free ----

    /// Every error that applies to a free; empty if it must succeed.
    pub fn free_faults(&self, frame: FrameId, order: Order, slot: Slot) -> Vec<FreeError> {
        let mut faults = Vec::new();
        if order > self.max_order() {
            faults.push(FreeError::OrderTooLarge(order));
        }
        if !frame.is_aligned(order) {
            faults.push(FreeError::Misaligned(frame, order));
        }
        if !self.config.contains(frame, order) {
            faults.push(FreeError::OutOfRange(frame));
        }
        if slot.0 >= self.config.slots {
            faults.push(FreeError::BadSlot(slot));
        }
        let Some(block) = self.block(frame, order) else { return faults };
        if *block != ALLOCATED_BLOCK[..block.len()] {
            if block.contains(&OFFLINE) {
                faults.push(FreeError::Offline(frame));
            }
            if block.contains(&FREE) || block.contains(&KEPT) {
                faults.push(FreeError::NotAllocated(frame));
            }
        }
        let whole = self.blocks[frame.0 - self.config.start.0] == order.0 + 1;
        if self.unsupported.partial_free && !whole {
            faults.push(FreeError::Unsupported);
        }
        faults
    }

    /// Was this a legal answer to `can_free`?
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub fn can_free(
        &self,
        frame: FrameId,
        order: Order,
        slot: Slot,
        answer: Result<(), FreeError>,
    ) -> Judged {
        if let Some(judged) = refused(&self.free_faults(frame, order, slot), &answer) {
            return judged;
        }
        answer.or_else(|error| wrong(format!("can_free: {error:?}, but a free must succeed")))
    }

    /// Was this a legal answer to `free`? If so the model follows it.
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub fn free(
        &mut self,
        frame: FrameId,
        order: Order,
        slot: Slot,
        answer: Result<(), FreeError>,
    ) -> Judged {
        if let Some(judged) = refused(&self.free_faults(frame, order, slot), &answer) {
            return judged;
        }
        if let Err(error) = answer {
            return wrong(format!("{error:?}, but every frame of the block is allocated"));
        }
        self.set(frame, order.frames(), FREE);
        Ok(())
    }

    /// Was this a legal answer to `free_batch`? If so the model follows it.
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub fn free_batch(
        &mut self,
        frames: &[FrameId],
        order: Order,
        slot: Slot,
        answer: Result<(), FreeBatchError>,
    ) -> Judged {
        let freed = answer.map_or_else(|error| error.freed, |()| frames.len());
        if freed > frames.len() {
            return wrong(format!("freed {freed} of {} blocks", frames.len()));
        }
        for (n, &frame) in frames[..freed].iter().enumerate() {
            let judged = self.free(frame, order, slot, Ok(()));
            judged.map_err(|why| format!("block {n} of the batch: {why}"))?;
        }
        match (answer, frames.get(freed)) {
            (Ok(()), _) => Ok(()),
            (Err(error), Some(&frame)) => self.free(frame, order, slot, Err(error.cause)),
            (Err(error), None) => wrong(format!("{error:?}, but there is no such block")),
        }
    }

    /// Was this a legal answer to `drain`?
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub fn drain(&self, slot: Slot, answer: Result<(), BadSlot>) -> Judged {
        let due = if slot.0 < self.config.slots { Ok(()) } else { Err(BadSlot(slot)) };
        match answer == due {
            true => Ok(()),
            false => wrong(format!("answered {answer:?}, not {due:?}")),
        }
    }

    // ---- Offline ----

    fn huge_faults(
        &self,
        first: HugeId,
        count: usize,
        from: u8,
        not: impl Fn(FrameId) -> OfflineError,
    ) -> Vec<OfflineError> {
        let mut faults = Vec::new();
        if self.unsupported.offline {
            faults.push(OfflineError::Unsupported);
        }
        let range = self.huge_range();
        let end = first.0.checked_add(count);
        if count == 0 || first.0 < range.start || end.is_none_or(|end| end > range.end) {
            faults.push(OfflineError::OutOfRange);
        }
        // The part of the range that lies in the zone.
        let end = end.unwrap_or(usize::MAX).min(range.end);
        let named = first.0.max(range.start)..end;
        let other = |n: usize| {
            let (first, zone) = (n << self.huge_order, self.config.start.0);
            (first..first + (1 << self.huge_order)).find(|frame| self.state[frame - zone] != from)
        };
        faults.extend(named.into_iter().find_map(other).map(|frame| not(FrameId(frame))));
        faults
    }

    /// Was this a legal answer to `offline`? If so the model follows it.
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub fn offline(
        &mut self,
        first: HugeId,
        count: usize,
        answer: Result<(), OfflineError>,
    ) -> Judged {
        let faults = self.huge_faults(first, count, FREE, OfflineError::InUse);
        self.switch(first, count, OFFLINE, &faults, answer)
    }

    /// Was this a legal answer to `online`? If so the model follows it.
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub fn online(
        &mut self,
        first: HugeId,
        count: usize,
        answer: Result<(), OfflineError>,
    ) -> Judged {
        let faults = self.huge_faults(first, count, OFFLINE, |_| OfflineError::NotOffline);
        self.switch(first, count, FREE, &faults, answer)
    }

    fn switch(
        &mut self,
        first: HugeId,
        count: usize,
        to: u8,
        faults: &[OfflineError],
        answer: Result<(), OfflineError>,
    ) -> Judged {
        if let Some(judged) = refused(faults, &answer) {
            return judged;
        }
        match answer {
            Ok(()) => {
                self.set(FrameId(first.0 << self.huge_order), count << self.huge_order, to);
                Ok(())
            }
            Err(error) => wrong(format!("{error:?}, but nothing stands against it")),
        }
    }
}
