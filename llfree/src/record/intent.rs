//! What a call says before it writes.
//!
//! ```text
//!   no batch or run is open    header ◀── the block            of several rows: and which of them
//!   one is                     its next write                  of several rows: each is one
//! ```
//!
//! Without intents nothing is said, and nothing is compiled.

use core::marker::PhantomData;

use woodlot_frame::{Geometry, Persistence, Slot};

use super::{End, Header, Operation, Record, Write};
use crate::row::{ROW_ORDER, row_order};

/// By whom a block is written: on what slot, and whether as a part of what its record has open.
#[derive(Clone, Copy)]
pub(crate) struct By {
    pub(crate) slot: Slot,
    part: bool,
}

impl By {
    #[inline(always)]
    pub(crate) const fn alone(slot: Slot) -> By {
        By { slot, part: false }
    }

    #[inline(always)]
    pub(crate) const fn part(slot: Slot) -> By {
        By { slot, part: true }
    }
}

/// What a call is about to write is said here, if the allocator keeps intents.
#[derive(Clone, Copy)]
pub(crate) struct Intent<'a, G, P> {
    record: Option<(Record<'a>, P)>,
    part: bool,
    /// The frame from which offsets are counted.
    first: usize,
    geometry: PhantomData<G>,
}

impl<'a, G: Geometry, P: Persistence> Intent<'a, G, P> {
    /// For writes with offsets from frame `first` on.
    #[inline(always)]
    pub(crate) const fn new(record: Option<(Record<'a>, P)>, by: By, first: usize) -> Self {
        Intent { record, part: by.part, first, geometry: PhantomData }
    }

    /// Says nothing.
    #[inline(always)]
    pub(crate) const fn none() -> Self {
        Intent { record: None, part: false, first: 0, geometry: PhantomData }
    }

    #[inline(always)]
    fn record(&self) -> Option<(Record<'a>, P)> {
        if P::INTENTS { self.record } else { None }
    }

    /// Before the only write of a block.
    #[inline(always)]
    pub(crate) fn write(&self, operation: Operation, order: u32, offset: usize) {
        let Some((record, persistence)) = self.record() else {
            return;
        };
        let block = Header::block(operation, order, self.first + offset);
        if self.part {
            record.say_part::<G, P>(block, persistence);
        } else {
            record.put(block, persistence);
        }
    }

    /// Before the write number `step` of a block of several rows.
    #[inline(always)]
    pub(crate) fn row(&self, operation: Operation, order: u32, offset: usize, step: usize) {
        let Some((record, persistence)) = self.record() else {
            return;
        };
        let index = self.first + offset;
        if self.part {
            let row = index + (step << ROW_ORDER);
            record.say_part::<G, P>(Header::block(operation, ROW_ORDER, row), persistence);
        } else {
            let block = Header::block(operation, order, index).ended(End::UnderWay);
            record.put(block.at(step), persistence);
        }
    }

    /// Before some frames of a row are taken, as a part of a batch. False: the record has no room for that.
    #[inline(always)]
    pub(crate) fn frames(&self, offset: usize, mask: u64) -> bool {
        self.record().is_none_or(|(record, persistence)| {
            let row = (self.first + offset) >> row_order::<G>();
            record.append(Write::Frames { row, mask }, persistence)
        })
    }

    /// What was said last does not happen. Of a batch it is no longer an entry; the header of a single write stays
    /// until the call says something else.
    #[inline(always)]
    pub(crate) fn withdraw(&self) {
        if let Some((record, persistence)) = self.record().filter(|_| self.part) {
            record.withdraw(persistence);
        }
    }

    /// All writes of a block of several rows were undone.
    #[inline(always)]
    pub(crate) fn undone(&self, operation: Operation) {
        if let Some((record, persistence)) = self.record() {
            record.undone(operation, persistence);
        }
    }

    /// Before the write that came before the one said last is undone, since that did not happen.
    #[inline(always)]
    pub(crate) fn step_back(&self) {
        if let Some((record, persistence)) = self.record() {
            record.step_back(persistence);
        }
    }

    /// All writes of a block of several rows have happened, and are persistent.
    #[inline(always)]
    pub(crate) fn done(&self, operation: Operation, order: u32, offset: usize) {
        if let Some((record, persistence)) = self.record().filter(|_| !self.part) {
            record.put(Header::block(operation, order, self.first + offset), persistence);
        }
    }
}
