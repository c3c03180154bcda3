//! Batches: many blocks by one call. Base frames are taken and given back by rows, other blocks one by one.
//!
//! With intents a batch is one operation, which the slot's record names, and all that its call writes is a part of it. A
//! record names a write by an entry: some frames of a row, a row of a larger block, huge frames. So it has room for so
//! many blocks, of base frames for up to 64 times as many where they lie side by side. A batch beyond that is refused,
//! or yields what there is room for: no call is ever several operations.

use woodlot_frame::{
    AllocError, Batch, FrameAllocator, FrameId, FreeBatchError, FreeError, Geometry, Order,
    Persistence, Place, Request, Slot, alloc_each, free_each,
};

use crate::LLFree;
use crate::allocate::Caller;
use crate::part::Part;
use crate::record::writes_of;
use crate::refusal::NoBlock;

impl<G: Geometry, P: Persistence> LLFree<'_, G, P> {
    /// Allocates a batch.
    pub(crate) fn allocate_batch(
        &self,
        request: Request,
        batch: Batch,
        out: &mut [FrameId],
    ) -> Result<usize, AllocError> {
        if out.is_empty() || request.order != Order::BASE || request.place != Place::Anywhere {
            return match P::INTENTS {
                true => self.allocate_parts(request, batch, out),
                false => alloc_each(self, request, batch, out),
            };
        }
        let caller = Caller { slot: request.slot, class: request.class };
        self.check(caller).map_err(|refusal| refusal.of(&request))?;
        self.begin_batch(request.slot);
        match self.take_many(caller, out) {
            (taken, Some(refusal)) if batch == Batch::All || taken == 0 => {
                let taken = out.get(..taken).unwrap_or_default();
                match P::INTENTS {
                    true => self.undo_batch(request.slot, taken),
                    // They are the call's own, so the frees succeed.
                    false => _ = self.free_batch(taken, Order::BASE, request.slot),
                }
                Err(refusal.of(&request))
            }
            (taken, _) => {
                self.end_batch(request.slot);
                Ok(taken)
            }
        }
    }

    /// Allocates as many base frames as there are; how many, and why not more.
    fn take_many(&self, caller: Caller, out: &mut [FrameId]) -> (usize, Option<NoBlock>) {
        let word = self.reservation(caller.slot, caller.class);
        let mut taken = 0;
        while let Some(rest) = out.get_mut(taken..).filter(|rest| !rest.is_empty()) {
            if !self.has_room(caller.slot, taken) {
                return (taken, Some(NoBlock::BatchTooLong));
            }
            taken += match self.take_held_many(word, caller.slot, rest) {
                // The child is used up: the next frame is found where single ones are.
                0 => match self.allocate_in_batch(caller) {
                    Ok(frame) => {
                        rest.iter_mut().take(1).for_each(|entry| *entry = frame);
                        1
                    }
                    Err(refusal) => return (taken, Some(refusal)),
                },
                some => some,
            };
        }
        (taken, None)
    }

    /// A batch of any blocks, each of which is a part of it.
    fn allocate_parts(
        &self,
        request: Request,
        batch: Batch,
        out: &mut [FrameId],
    ) -> Result<usize, AllocError> {
        let Request { order, class, slot, .. } = request;
        if out.is_empty() || !Self::is_order(order) || self.check(Caller { slot, class }).is_err() {
            return alloc_each(self, request, batch, out);
        }
        // A block by itself is named without an entry.
        let room = self.batch_room(order).max(1);
        let most = match batch {
            Batch::All if out.len() > room => return Err(AllocError::BatchTooLong),
            _ => out.len().min(room),
        };
        if most == 1 {
            return alloc_each(self, request, batch, out.get_mut(..1).unwrap_or_default());
        }
        self.begin_batch(slot);
        let done = alloc_each(&Part(self), request, batch, out.get_mut(..most).unwrap_or_default());
        match done {
            Ok(_) => self.end_batch(slot),
            Err(_) => self.forget_batch(slot),
        }
        done
    }

    /// Frees base frames by rows.
    pub(crate) fn free_frames_in_batch(
        &self,
        frames: &[FrameId],
        slot: Slot,
    ) -> Result<(), FreeBatchError> {
        let mut freed = 0;
        while let Some(rest @ [first, ..]) = frames.get(freed..) {
            let refused = |cause| FreeBatchError { freed, cause };
            let some = match P::INTENTS {
                true => self.free_rows(rest, slot).map_err(refused)?,
                false => self.free_row(rest, slot),
            };
            freed += match some {
                Some(count) => count,
                None => {
                    self.free(*first, Order::BASE, slot).map_err(refused)?;
                    1
                }
            };
        }
        Ok(())
    }

    /// Frees the base frames by one operation, as many as can be freed from the first on; returns how many. None if it
    /// is not even one.
    ///
    /// # Errors
    /// They are more than the record has room for.
    fn free_rows(&self, frames: &[FrameId], slot: Slot) -> Result<Option<usize>, FreeError> {
        let (count, frames) = self.begin_frees(frames, slot)?;
        let (mut step, mut freed) = (0, 0);
        while step < count {
            self.free_step(slot, count, step);
            let rest = frames.get(freed..).unwrap_or_default();
            let Some(some) = self.free_row(rest, slot) else { break };
            (step, freed) = (step + 1, freed + some);
        }
        if count > 0 {
            self.end_frees(slot, step);
        }
        Ok((freed > 0).then_some(freed))
    }

    /// Frees blocks of any order, each of which is a part of the batch.
    pub(crate) fn free_parts(
        &self,
        frames: &[FrameId],
        order: Order,
        slot: Slot,
    ) -> Result<(), FreeBatchError> {
        if !Self::is_order(order) || frames.len() <= 1 {
            return free_each(self, frames, order, slot);
        }
        if frames.len() > self.batch_room(order) {
            return Err(FreeBatchError { freed: 0, cause: FreeError::BatchTooLong });
        }
        // Of one that cannot be freed nothing is said: the free says why.
        let said = self.begin_block_frees(frames, order, slot);
        let done = free_each(&Part(self), frames, order, slot);
        let freed = done.map_or_else(|refused| refused.freed, |()| frames.len());
        if said > 0 {
            self.end_frees(slot, freed.min(said) * writes_of::<G>(u32::from(order.0)));
        }
        done
    }
}
