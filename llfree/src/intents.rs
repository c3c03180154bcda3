//! Intents: what calls say in the records of their slots, and what a recovery makes of it.
//!
//! ```text
//!   call      intent ── named ──▶ record ── the write ──▶ rows, states
//!   resolve   record, under way ── taken back, or brought to its end ──▶ record, cut off
//!   embedder  last_operations, frames_of: what may not be in its log
//! ```
//!
//! The header of [`record`](crate::record) has the words, the invariants and the order of the writes.
//!
//! *Progress*: wait-free, but for a recovery's frees.

use core::ops::Range;

use woodlot_frame::atomics::Ordering;
use woodlot_frame::{FrameId, FreeError, Geometry, Order, Persistence, Slot, blocks};

use crate::LLFree;
use crate::part::Part;
use crate::record::{By, End, Header, Intent, Operation, Record, Write, writes_of};
use crate::row::{ROW_ORDER, row_count, row_mask, row_order};
use crate::state::Run;

/// What is said by a slot.
impl<'a, G: Geometry, P: Persistence> LLFree<'a, G, P> {
    /// Where a call says what it is about to write, counting from frame `first`.
    #[inline(always)]
    pub(crate) fn intent(&self, by: By, first: usize) -> Intent<'a, G, P> {
        let record = if P::INTENTS {
            let first = by.slot.0 * self.record_lines;
            debug_assert!(self.record_lines > 0 && first + self.record_lines <= self.records.len());
            // SAFETY: `over` checked that there are the lines of a record for each slot, at least one, and public calls
            // check the slot.
            let record = unsafe {
                let more = self.records.get_unchecked(first + 1..first + self.record_lines);
                Record::new(self.records.get_unchecked(first), more)
            };
            Some((record, self.lower.persistence()))
        } else {
            None
        };
        Intent::new(record, by, first)
    }

    /// The record of a slot, if the allocator keeps intents.
    fn record(&self, slot: Slot) -> Option<Record<'a>> {
        let first = slot.0.checked_mul(self.record_lines).filter(|_| P::INTENTS)?;
        Record::of(self.records.get(first..)?.get(..self.record_lines)?)
    }

    /// The records of all slots.
    pub(crate) fn all_records(&self) -> impl Iterator<Item = Record<'a>> {
        let records = self.records.chunks_exact(self.record_lines.max(1));
        records.filter(|_| P::INTENTS).filter_map(Record::of)
    }

    /// How many blocks of an order a batch may have in any case. With [intents](woodlot_frame::Intents) a batch is one
    /// operation, and the record of a slot has [room](woodlot_frame::ZoneConfig::record_room) for a write of each block, of orders 7 to
    /// H-1 for 2^(order-6) of each. Of base frames a batch may have up to 64 times as many, as many as lie in so many
    /// rows. Without intents any number; none of an order that the geometry does not have.
    pub fn batch_room(&self, order: Order) -> usize {
        let order = u32::from(order.0);
        match self.record(Slot(0)) {
            _ if order > G::MAX_ORDER => 0,
            Some(record) => record.room() / writes_of::<G>(order),
            None => usize::MAX,
        }
    }

    /// Has the record of the slot room for another write of the batch that it has open, of which `taken` frames are
    /// allocated? Each of its writes has one or more of them, so a record that is full of fewer names another call's:
    /// the slot is shared, and no reason to refuse.
    pub(crate) fn has_room(&self, slot: Slot, taken: usize) -> bool {
        self.record(slot).is_none_or(|record| taken < record.room() || record.has_room())
    }

    /// Makes what a call writes one run. A call that allocates tells its frames as it writes.
    pub(crate) fn as_run<T, E>(
        &self,
        slot: Slot,
        frames: Range<FrameId>,
        call: impl FnOnce(&Part<'_, 'a, G, P>) -> Result<T, E>,
    ) -> Result<T, E> {
        let Some(record) = self.record(slot) else {
            return call(&Part(self));
        };
        let [start, end] = [frames.start, frames.end].map(|frame| frame.0.wrapping_sub(self.base));
        record.begin_run(start..end, self.lower.persistence());
        let done = call(&Part(self));
        record.end_run(done.is_err(), self.lower.persistence());
        done
    }

    /// Begins to allocate a batch.
    pub(crate) fn begin_batch(&self, slot: Slot) {
        if let Some(record) = self.record(slot) {
            record.begin(Header::batch(Operation::Alloc, 0), self.lower.persistence());
        }
    }

    /// Every write of a batch has happened.
    pub(crate) fn end_batch(&self, slot: Slot) {
        if let Some(record) = self.record(slot) {
            record.put(record.header().ended(End::Whole), self.lower.persistence());
        }
    }

    /// A batch has allocated nothing, or has freed all that it had.
    pub(crate) fn forget_batch(&self, slot: Slot) {
        if let Some(record) = self.record(slot) {
            record.put(Header::NONE, self.lower.persistence());
        }
    }

    /// Frees what the batch has allocated so far: these frames, in the order of its entries.
    #[cold]
    pub(crate) fn undo_batch(&self, slot: Slot, mut frames: &[FrameId]) {
        let Some(record) = self.record(slot) else {
            return;
        };
        let header = Header::batch(Operation::Free, record.header().entries());
        for step in 0..record.count::<G>(header) {
            record.put(header.at(step), self.lower.persistence());
            let Write::Frames { mask, .. } = record.write::<G>(header, step) else { continue };
            let some = frames.split_at_checked(mask.count_ones() as usize);
            let (some, rest) = some.unwrap_or((frames, &[]));
            self.free_own(some, slot);
            frames = rest;
        }
        // There are more if two calls have used the slot at once, which spoils what the record says and nothing else.
        self.free_own(frames, slot);
        record.put(Header::NONE, self.lower.persistence());
    }

    /// Frees frames of which the call is the owner, so each is freed; nothing is said of them.
    fn free_own(&self, mut frames: &[FrameId], slot: Slot) {
        while let Some(freed) = self.free_row(frames, slot) {
            frames = frames.get(freed..).unwrap_or_default();
        }
    }

    /// Begins to free a batch of base frames: says which, from the first of `frames` on as many as are allocated.
    /// Returns how many writes that are, and the frames.
    ///
    /// # Errors
    /// The record has no room for all of them. It is as it was then, or says nothing.
    pub(crate) fn begin_frees<'f>(
        &self,
        frames: &'f [FrameId],
        slot: Slot,
    ) -> Result<(usize, &'f [FrameId]), FreeError> {
        let (mut count, mut said) = (0, 0);
        let Some(record) = self.record(slot) else {
            return Ok((0, &[]));
        };
        while let Some((row, mask, frames)) =
            self.allocated_in_row(frames.get(said..).unwrap_or_default(), slot)
        {
            if count == 0 {
                // What is said here is not a batch until its header is there.
                record.begin(Header::NONE, self.lower.persistence());
            }
            if count == record.room() {
                return Err(FreeError::BatchTooLong);
            }
            record.set_entry(count, Write::Frames { row, mask }, self.lower.persistence());
            (count, said) = (count + 1, said + frames);
        }
        self.lower.persist_released();
        Ok((count, frames.get(..said).unwrap_or_default()))
    }

    /// As [`row_of`](Self::row_of), of as many frames as are allocated. None if not even the first is.
    fn allocated_in_row(&self, frames: &[FrameId], slot: Slot) -> Option<(usize, u64, usize)> {
        let (row, _, count) = self.row_of(frames, slot)?;
        let (huge, offset) = Self::place_of_row(row);
        let allocated = |&&frame: &&FrameId| {
            let offset = offset | self.locate(frame).1 & 63;
            self.lower.check_allocated(huge, offset, 0).is_ok()
        };
        let frames = frames.get(..count)?;
        let count = frames.iter().take_while(allocated).count();
        self.row_of(frames.get(..count)?, slot)
    }

    /// The same for the first of these blocks of `order`; returns how many blocks that are. The batch is open then.
    pub(crate) fn begin_block_frees(&self, frames: &[FrameId], order: Order, slot: Slot) -> usize {
        let Some(record) = self.record(slot) else {
            return 0;
        };
        let legal = |&&frame: &&FrameId| self.check_free(frame, order, slot).is_ok();
        let legal = frames.iter().take_while(legal);
        record.begin(Header::NONE, self.lower.persistence());
        let (mut count, mut blocks) = (0, 0);
        for &frame in legal {
            for write in Self::writes_of_block(frame.0 - self.base, order) {
                record.set_entry(count, write, self.lower.persistence());
                count += 1;
            }
            blocks += 1;
        }
        self.lower.persist_released();
        if blocks > 0 {
            self.free_step(slot, count, 0);
        }
        blocks
    }

    /// Before the write number `step` of `count` of a batch that is freed.
    pub(crate) fn free_step(&self, slot: Slot, count: usize, step: usize) {
        if let Some(record) = self.record(slot) {
            record.put(Header::batch(Operation::Free, count).at(step), self.lower.persistence());
        }
    }

    /// The first `count` writes of a batch have freed their frames, and there are no more.
    pub(crate) fn end_frees(&self, slot: Slot, count: usize) {
        if let Some(record) = self.record(slot) {
            let all = Header::batch(Operation::Free, count).ended(End::Whole);
            let header = if count > 0 { all } else { Header::NONE };
            record.put(header, self.lower.persistence());
        }
    }
}

/// What is read of a slot.
impl<G: Geometry, P: Persistence> LLFree<'_, G, P> {
    /// Are these frames of the zone, and such as one write can change?
    fn is_write(&self, write: Write) -> bool {
        let frames = match write {
            Write::Frames { mask: 0, .. } => return false,
            Write::Frames { row, mask } => {
                if row >= self.lower.len() * row_count::<G>() || mask & !row_mask::<G>() != 0 {
                    return false;
                }
                let first = self.base + (row << row_order::<G>());
                first + mask.trailing_zeros() as usize
                    ..first.saturating_add(64 - mask.leading_zeros() as usize)
            }
            Write::Huge { huge, count } => {
                let fits = matches!(count, 1 | 2) && huge & (count - 1) == 0;
                if !fits || huge >= self.lower.len() || huge + count > self.lower.len() {
                    return false;
                }
                let first = self.base + (huge << G::HUGE_ORDER);
                first..first.saturating_add(count << G::HUGE_ORDER)
            }
        };
        frames.start >= self.zone.start.0 && frames.end <= self.zone.end().0
    }

    /// How many of the frames of a write are free, and how many it has; none if it is not one of this zone.
    fn free_of(&self, write: Write) -> (usize, usize) {
        match write {
            write if !self.is_write(write) => (0, 0),
            Write::Frames { row, mask } => {
                let (huge, offset) = Self::place_of_row(row);
                let free = self.lower.free_in_row(huge, offset) & mask;
                (free.count_ones() as usize, mask.count_ones() as usize)
            }
            Write::Huge { huge, count } => {
                let free = (huge..huge + count).map(|huge| self.lower.count_free(huge)).sum();
                (free, count << G::HUGE_ORDER)
            }
        }
    }

    /// The writes of a block at frame `index`.
    fn writes_of_block(index: usize, order: Order) -> impl Iterator<Item = Write> {
        let order = u32::from(order.0);
        (0..writes_of::<G>(order)).map(move |step| Write::of_block::<G>(order, index, step))
    }

    /// The writes of frames side by side, of those that lie in the zone.
    fn writes_of_run(&self, frames: Range<usize>) -> impl Iterator<Item = Write> {
        let zone = [self.zone.start, self.zone.end()].map(|frame| frame.0 - self.base);
        let [start, end] = zone;
        let inside = FrameId(frames.start.max(start))..FrameId(frames.end.min(end));
        let each = blocks::<G>(inside);
        each.flat_map(|(frame, order)| Self::writes_of_block(frame.0, order))
    }

    /// The writes whose frames the caller owns beside the one in doubt, if the operation is under way.
    pub(crate) fn writes_owned(
        &self,
        record: Record<'_>,
        header: Header,
    ) -> impl Iterator<Item = Write> {
        let steps = record.owned::<G>(header).map(move |step| record.write::<G>(header, step));
        steps.chain(self.writes_of_run(record.run_owned(header)))
    }

    /// The huge frame of a row, and the offset of the row's first frame in it.
    pub(crate) fn place_of_row(row: usize) -> (usize, usize) {
        let index = row << row_order::<G>();
        (index >> G::HUGE_ORDER, index & (G::HUGE_FRAMES - 1))
    }

    /// The huge frames of a write, of those that there are.
    pub(crate) fn huge_of(&self, write: Write) -> Range<usize> {
        let (huge, count) = match write {
            Write::Frames { row, .. } => (Self::place_of_row(row).0, 1),
            Write::Huge { huge, count } => (huge, count),
        };
        huge..huge.saturating_add(count).min(self.lower.len())
    }

    /// Frees the frames of a write, if all of them are allocated; returns how many were freed.
    pub(crate) fn release_write(&self, write: Write) -> usize {
        let (free, frames) = self.free_of(write);
        if free > 0 || frames == 0 {
            return 0;
        }
        let released = match write {
            Write::Frames { row, mask } => {
                let (huge, offset) = Self::place_of_row(row);
                let released = self.lower.release_in(huge, offset >> ROW_ORDER, mask).is_ok();
                released && self.give_child(huge, frames, crate::lower::Surplus::Drop)
            }
            Write::Huge { huge, count } => {
                // Its claim may have died before the mark of it went.
                self.huge_of(write).for_each(|huge| self.lower.end_claim(huge));
                let whole = self.lower.free_whole(huge, count, Intent::none());
                let whole = whole.map(|before| (before, Run::of(0)));
                let joined = || self.lower.free_joined(huge, count, Intent::none()).ok();
                whole.or_else(joined).is_some_and(|(before, isolated)| {
                    // A recovery finds none, but who resolves in a zone that goes on may.
                    let first = Self::first_of_word(huge);
                    isolated.numbers().for_each(|number| self.close(first + number));
                    match count - isolated.count() {
                        0 => {}
                        free => self.states_changed(huge, before, free as isize),
                    }
                    true
                })
            }
        };
        if released { frames } else { 0 }
    }

    /// What a recovery would find in the records, but that each write is looked at by itself.
    #[cfg(not(any(woodlot_loom, woodlot_shuttle, woodlot_explore)))]
    pub(crate) fn inspect_intents(&self, found: &mut crate::Repairs) {
        for record in self.all_records() {
            let header = record.header();
            found.cut_off +=
                (header.end() == End::UnderWay && header.operation().is_some()) as usize;
            for write in self.writes_owned(record, header) {
                if let (0, frames) = self.free_of(write) {
                    found.released += frames;
                    found.free_frames += frames;
                    let free: usize = self.huge_of(write).map(|h| self.lower.count_free(h)).sum();
                    found.free_huge += (free + frames) / G::HUGE_FRAMES;
                }
            }
        }
    }

    /// Forgets what the records of a new zone's memory say.
    pub(crate) fn clear_intents(&self) {
        for line in self.records {
            let words = line.as_flattened();
            words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
            self.lower.persistence().write_back_all(words);
        }
    }

    /// The last operation of a slot that the allocator began with a write; `None`: there is no such operation, or
    /// slot, or the allocator keeps no [intents](woodlot_frame::Intents).
    ///
    /// A slot whose owner is dead can be read while others use the zone. The next operation on the slot overwrites it.
    ///
    /// Frames that an operation [under way](End::UnderWay) names must not be freed before a recovery, by nobody and
    /// whatever a log says of their owner: the recovery frees what is left of them, and would free them from whoever has
    /// them then. After a recovery no operation is under way. What is named then, allocated, and in nobody's log can be
    /// freed, on a slot whose own record names nothing of that kind, since each free overwrites its slot's record.
    ///
    /// # Progress
    /// Wait-free.
    pub fn last_operation(&self, slot: Slot) -> Option<LastOperation> {
        let record = self.record(slot)?;
        // In this order: a header of a later batch goes with no earlier number.
        let (number, header) = (record.number(), record.header());
        // What the caller makes of it rests on it.
        record.persist_header(self.lower.persistence());
        let operation = header.operation()?;
        Some(LastOperation { slot, operation, end: header.end(), header, number })
    }

    /// The last operations of all slots. After a crash, what was in doubt is among their [frames](Self::frames_of).
    ///
    /// # Progress
    /// Wait-free: linear in the slots.
    pub fn last_operations(&self) -> impl Iterator<Item = LastOperation> {
        (0..self.zone.slots).filter_map(|slot| self.last_operation(Slot(slot)))
    }

    /// The frames that an operation names, as runs, and whether they are free now. None once its slot says something
    /// else, and no more of a batch of which some were returned before: never those of another operation, however alike
    /// the two are.
    ///
    /// # Progress
    /// Wait-free: linear in the frames.
    pub fn frames_of(&self, operation: LastOperation) -> impl Iterator<Item = NamedFrames> {
        let LastOperation { slot, header, number, .. } = operation;
        let record = self.record(slot).filter(|record| record.is_at(header, number));
        let writes = record.into_iter().flat_map(move |record| {
            let steps = record.named::<G>(header).map(move |step| record.write::<G>(header, step));
            let run = Some(record.run_named(header)).filter(|_| record.is_at(header, number));
            let steps =
                steps.take_while(move |_| !header.is_batch() || record.is_at(header, number));
            steps.chain(self.writes_of_run(run.unwrap_or_default()))
        });
        writes.filter(|&write| self.is_write(write)).flat_map(|write| self.runs_of(write))
    }

    /// The runs of frames of a write.
    fn runs_of(&self, write: Write) -> impl Iterator<Item = NamedFrames> {
        let mut rest = Some(write);
        core::iter::from_fn(move || {
            let (run, first, count) = match rest? {
                Write::Frames { row, mask } => {
                    let first = mask.trailing_zeros();
                    let count = (mask >> first).trailing_ones();
                    let run = !0 >> (64 - count) << first;
                    rest = (mask != run).then_some(Write::Frames { row, mask: mask ^ run });
                    let index = (row << row_order::<G>()) + first as usize;
                    (Write::Frames { row, mask: run }, index, count as usize)
                }
                write @ Write::Huge { huge, count } => {
                    rest = None;
                    (write, huge << G::HUGE_ORDER, count << G::HUGE_ORDER)
                }
            };
            let start = FrameId(self.base + first);
            Some(NamedFrames { start, count, free: self.free_of(run).0 })
        })
    }
}

/// The last operation of a slot, as its record names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LastOperation {
    /// The slot.
    pub slot: Slot,
    /// What it does.
    pub operation: Operation,
    /// How far it came.
    pub end: End,
    header: Header,
    number: u64,
}

/// Frames side by side that an operation names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct NamedFrames {
    /// The first.
    pub start: FrameId,
    /// How many.
    pub count: usize,
    /// How many of them are free now. After a crash, if nobody has owned them since, none or all.
    pub free: usize,
}
