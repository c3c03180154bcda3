//! Intents: before each authoritative write, the record of the slot names it.
//!
//! ```text
//!   record     a slot's, durable, 4 KiB: header │ – │ entry 0 │ entry 1 │ … entry 254
//!
//!   header     ┌ frame, or number of entries, 48 ┬ step, 8 ┬ order, 4 ┬ end, 2 ┬ operation, 2 ┐
//!     operation  0 none    1 allocation    2 free
//!     end        0 whole   1 under way     2 cut off, and resolved
//!     order      of the block; 15: a batch, of which the entries name the writes
//!
//!   entry      ┌ 0, 1 ┬ row, 63        ┐┌ which of its frames, 64 ┐
//!              └ 1, 1 ┴ huge frame, 63 ┘└ how many, 1 or 2        ┘
//! ```
//!
//! A call of one write stores the header and makes the write. Nothing more: the header stays as the *last operation*
//! of the slot, until the next one. After a crash the frames that it names tell whether the write has happened. A
//! call of several writes counts them: the write *step* is in doubt, and what is known of the others follows from it.
//!
//! ```text
//!                 before the step            the step    behind it
//!   allocation    ours                       in doubt    not begun
//!   free          released, perhaps others'  in doubt    still ours
//! ```
//!
//! So an allocation that was cut off is taken back, and a free is brought to its end, but for the write in doubt, which
//! stays as it is. An allocation that fails becomes a free of what it has, by one store.
//!
//! Invariants:
//!
//! 1. A write that allocates or frees is named by its slot's record when it happens, and persistently.
//! 2. A step is stored when the writes before it have happened. Those of a free are persistent then.
//! 3. A call that returns has no record under way.
//! 4. Opening, closing, splitting and draining change the meaning of no frame, and are not named.
//!
//! Values: any. What names no frames of the zone names nothing, and a write is undone only where all of its frames
//! are allocated.
//!
//! *Progress*: wait-free. A slot has one call at a time, so its record has one writer.
//! *Ordering*: the header is stored with release, behind its entries and the writes that it speaks of as done. The
//! write that it announces is a swap that releases, so it becomes visible after the header: on eADR, persistent.
//! With caches that are lost, the header is written back and fenced in between.

use core::marker::PhantomData;
use core::ops::Range;

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{FrameId, Geometry, Persistence, Slot};

use crate::line::Line;
use crate::rows::{ROW_ORDER, row_count, row_mask, row_order};
use crate::state::Phase;
use crate::{LLFree, Repairs};

/// Words of a record.
const WORDS: usize = 512;
/// Entries of a record.
pub(crate) const ENTRIES: usize = (WORDS - FIRST_ENTRY) / 2;
/// Where the entries begin: none lies in two cache lines.
const FIRST_ENTRY: usize = 2;
/// The order in the header of a batch.
const BATCH: u32 = 15;
/// In the first word of an entry: it names huge frames.
const HUGE: u64 = 1 << 63;

/// The record of a slot.
pub type Record = Line<[AtomicU64; WORDS]>;

/// What an operation does with its frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// It allocates them.
    Alloc = 1,
    /// It frees them.
    Free = 2,
}

/// How far an operation came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It has happened entirely or not at all: its frames show which. So is every operation that has returned, and
    /// every one of a single write.
    Whole = 0,
    /// It has several writes, and is under way, or was when its slot's owner died.
    UnderWay = 1,
    /// A crash cut it off. The recovery has taken an allocation back, and brought a free to its end; only the frames of
    /// the one write that was in doubt are named, and are as the crash left them.
    CutOff = 2,
}

/// The first word of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Header(u64);

impl Header {
    const NONE: Header = Header(0);

    /// A call of one write, or one that has come to its end.
    #[inline(always)]
    const fn block(operation: Operation, order: u32, index: usize) -> Header {
        Header((index as u64) << 16 | (order as u64) << 4 | operation as u64)
    }

    /// A batch of `count` writes, of which none has happened.
    const fn batch(operation: Operation, count: usize) -> Header {
        Self::block(operation, BATCH, count).ended(End::UnderWay)
    }

    const fn ended(self, end: End) -> Header {
        Header(self.0 & !(3 << 2) | (end as u64) << 2)
    }

    const fn at(self, step: usize) -> Header {
        Header(self.0 & !(0xff << 8) | (step as u64 & 0xff) << 8)
    }

    const fn operation(self) -> Option<Operation> {
        match self.0 & 3 {
            1 => Some(Operation::Alloc),
            2 => Some(Operation::Free),
            _ => None,
        }
    }

    const fn end(self) -> End {
        match self.0 >> 2 & 3 {
            1 => End::UnderWay,
            2 => End::CutOff,
            _ => End::Whole,
        }
    }

    const fn order(self) -> u32 {
        (self.0 >> 4) as u32 & 15
    }

    const fn step(self) -> usize {
        (self.0 >> 8) as usize & 0xff
    }

    /// The frame of a block, from the first that the metadata is for; of a batch, how many entries it has.
    const fn index(self) -> usize {
        (self.0 >> 16) as usize
    }

    /// How many writes the operation has.
    fn count<G: Geometry>(self) -> usize {
        match self.order() {
            BATCH => self.index().min(ENTRIES),
            order if order > ROW_ORDER && order < G::HUGE_ORDER => 1 << (order - ROW_ORDER),
            _ => 1,
        }
    }

    /// The writes whose frames the caller owns beside the one in doubt, if the operation is under way.
    fn owned<G: Geometry>(self) -> Range<usize> {
        let (step, count) = (self.step(), self.count::<G>());
        match (self.end(), self.operation()) {
            (End::UnderWay, Some(Operation::Alloc)) => 0..step.min(count),
            (End::UnderWay, Some(Operation::Free)) => step + 1..count,
            _ => 0..0,
        }
    }

    /// The writes whose frames are named.
    fn named<G: Geometry>(self) -> Range<usize> {
        let (step, count) = (self.step(), self.count::<G>());
        match self.end() {
            End::CutOff => step..count.min(step + 1),
            _ => 0..count,
        }
    }
}

/// One write: frames of one row, or one huge frame or two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Write {
    Frames { row: usize, mask: u64 },
    Huge { huge: usize, count: usize },
}

impl Write {
    /// The write number `step` of a block.
    fn of_block<G: Geometry>(order: u32, index: usize, step: usize) -> Write {
        if order >= G::HUGE_ORDER {
            let count = 1usize.wrapping_shl(order - G::HUGE_ORDER);
            return Write::Huge { huge: index >> G::HUGE_ORDER, count };
        }
        let row = (index >> row_order::<G>()).wrapping_add(step);
        let mask = match order {
            order @ ..ROW_ORDER => (1 << (1u32 << order)) - 1,
            _ => !0u64,
        };
        Write::Frames { row, mask: mask << (index & ((1 << row_order::<G>()) - 1)) }
    }

    const fn words(self) -> [u64; 2] {
        match self {
            Write::Frames { row, mask } => [row as u64, mask],
            Write::Huge { huge, count } => [HUGE | huge as u64, count as u64],
        }
    }

    const fn of_words([what, how]: [u64; 2]) -> Write {
        if what & HUGE == 0 {
            Write::Frames { row: what as usize, mask: how }
        } else {
            Write::Huge { huge: (what & !HUGE) as usize, count: how as usize }
        }
    }
}

/// Reading and writing a record.
impl Record {
    fn header(&self) -> Header {
        let [header, ..] = &self.0;
        Header(header.load(Ordering::Acquire))
    }

    /// Stores the header, and makes it persistent.
    #[inline(always)]
    fn put<P: Persistence>(&self, header: Header, persistence: P) {
        let [word, ..] = &self.0;
        word.store(header.0, Ordering::Release);
        persistence.write_back(word);
        persistence.fence();
    }

    fn entry(&self, number: usize) -> &[AtomicU64] {
        let first = FIRST_ENTRY + 2 * number;
        self.0.get(first..first + 2).unwrap_or_default()
    }

    /// Sets an entry, and begins to write it back.
    fn set_entry<P: Persistence>(&self, number: usize, write: Write, persistence: P) {
        let entry = self.entry(number);
        entry.iter().zip(write.words()).for_each(|(word, value)| {
            word.store(value, Ordering::Relaxed);
        });
        entry.iter().take(1).for_each(|word| persistence.write_back(word));
    }

    /// The next write of a batch, which is no longer than the record. Here and below, arguments are such as fit into
    /// registers: who says something keeps nothing in memory for it.
    #[inline(never)]
    fn append<P: Persistence>(&self, write: Write, persistence: P) {
        let step = self.header().index();
        self.set_entry(step, write, persistence);
        self.put(Header::batch(Operation::Alloc, step + 1).at(step), persistence);
    }

    /// The write said last does not happen.
    #[cold]
    #[inline(never)]
    fn withdraw<P: Persistence>(&self, batch: bool, persistence: P) {
        let step = self.header().step();
        let without = Header::batch(Operation::Alloc, step).at(step);
        self.put(if batch { without } else { Header::NONE }, persistence);
    }

    /// The write before the one said last is undone.
    #[cold]
    #[inline(never)]
    fn step_back<P: Persistence>(&self, batch: bool, persistence: P) {
        let (header, step) = (self.header(), self.header().step());
        let header = if batch { Header::batch(Operation::Alloc, step) } else { header };
        self.put(header.at(step.saturating_sub(1)), persistence);
    }

    /// The write number `step` of the operation.
    fn write<G: Geometry>(&self, header: Header, step: usize) -> Write {
        if header.order() != BATCH {
            return Write::of_block::<G>(header.order(), header.index(), step);
        }
        let mut words = [0; 2];
        let entry = words.iter_mut().zip(self.entry(step));
        entry.for_each(|(value, word)| *value = word.load(Ordering::Relaxed));
        Write::of_words(words)
    }
}

/// By whom a block is taken: on what slot, and whether as a part of a batch.
#[derive(Clone, Copy)]
pub(crate) struct By {
    slot: Slot,
    batch: bool,
}

impl By {
    #[inline(always)]
    pub(crate) const fn alone(slot: Slot) -> By {
        By { slot, batch: false }
    }

    #[inline(always)]
    pub(crate) const fn batch(slot: Slot) -> By {
        By { slot, batch: true }
    }
}

/// What a call is about to write is said here, if the allocator keeps intents.
#[derive(Clone, Copy)]
pub(crate) struct Intent<'a, G, P> {
    record: Option<(&'a Record, P)>,
    batch: bool,
    /// The frame from which offsets are counted.
    first: usize,
    geometry: PhantomData<G>,
}

impl<'a, G: Geometry, P: Persistence> Intent<'a, G, P> {
    /// Says nothing.
    #[inline(always)]
    pub(crate) const fn none() -> Self {
        Intent { record: None, batch: false, first: 0, geometry: PhantomData }
    }

    #[inline(always)]
    fn record(&self) -> Option<(&'a Record, P)> {
        if P::INTENTS { self.record } else { None }
    }

    /// Before the only write of a block.
    #[inline(always)]
    pub(crate) fn write(&self, operation: Operation, order: u32, offset: usize) {
        let Some((record, persistence)) = self.record() else {
            return;
        };
        let index = self.first + offset;
        if self.batch {
            record.append(Write::of_block::<G>(order, index, 0), persistence);
        } else {
            record.put(Header::block(operation, order, index), persistence);
        }
    }

    /// Before the write number `step` of a block of several rows.
    #[inline(always)]
    pub(crate) fn row(&self, operation: Operation, order: u32, offset: usize, step: usize) {
        let Some((record, persistence)) = self.record() else {
            return;
        };
        let index = self.first + offset;
        if self.batch {
            record.append(Write::of_block::<G>(order, index, step), persistence);
        } else {
            let block = Header::block(operation, order, index).ended(End::UnderWay);
            record.put(block.at(step), persistence);
        }
    }

    /// Before some frames of a row are taken, as a part of a batch.
    #[inline(always)]
    pub(crate) fn frames(&self, offset: usize, mask: u64) {
        if let Some((record, persistence)) = self.record() {
            let row = (self.first + offset) >> row_order::<G>();
            record.append(Write::Frames { row, mask }, persistence);
        }
    }

    /// What was said last does not happen. Of a batch it is no longer an entry; the header of a single write stays
    /// until the call says something else.
    #[inline(always)]
    pub(crate) fn withdraw(&self) {
        if let Some((record, persistence)) = self.record().filter(|_| self.batch) {
            record.withdraw(true, persistence);
        }
    }

    /// All writes of a block of several rows were undone.
    #[inline(always)]
    pub(crate) fn undone(&self) {
        if let Some((record, persistence)) = self.record() {
            record.withdraw(self.batch, persistence);
        }
    }

    /// Before the write that came before the one said last is undone, since that did not happen.
    #[inline(always)]
    pub(crate) fn step_back(&self) {
        if let Some((record, persistence)) = self.record() {
            record.step_back(self.batch, persistence);
        }
    }

    /// All writes of a block of several rows have happened, and are persistent.
    #[inline(always)]
    pub(crate) fn done(&self, operation: Operation, order: u32, offset: usize) {
        if let Some((record, persistence)) = self.record().filter(|_| !self.batch) {
            record.put(Header::block(operation, order, self.first + offset), persistence);
        }
    }
}

/// What is said by a slot.
impl<'a, G: Geometry, P: Persistence> LLFree<'a, G, P> {
    /// Where a call says what it is about to write, counting from frame `first`.
    #[inline(always)]
    pub(crate) fn intent(&self, by: By, first: usize) -> Intent<'a, G, P> {
        let By { slot, batch } = by;
        let record = if P::INTENTS {
            debug_assert!(slot.0 < self.records.len());
            // SAFETY: `over` checked that there is a record for each slot, and public calls check the slot.
            Some((unsafe { self.records.get_unchecked(slot.0) }, self.lower.persistence()))
        } else {
            None
        };
        Intent { record, batch, first, geometry: PhantomData }
    }

    /// The record of a slot, if the allocator keeps intents.
    fn record(&self, slot: Slot) -> Option<&'a Record> {
        self.records.get(slot.0).filter(|_| P::INTENTS)
    }

    /// Begins to allocate a batch of at most [`ENTRIES`] writes.
    pub(crate) fn begin_batch(&self, slot: Slot) {
        if let Some(record) = self.record(slot) {
            record.put(Header::batch(Operation::Alloc, 0), self.lower.persistence());
        }
    }

    /// Every write of a batch has happened.
    pub(crate) fn end_batch(&self, slot: Slot) {
        if let Some(record) = self.record(slot) {
            record.put(record.header().ended(End::Whole), self.lower.persistence());
        }
    }

    /// Frees what the batch has allocated so far: these frames, in the order of its entries.
    #[cold]
    pub(crate) fn undo_batch(&self, slot: Slot, mut frames: &[FrameId]) {
        let Some(record) = self.record(slot) else {
            return;
        };
        let header = Header::batch(Operation::Free, record.header().index());
        for step in 0..header.count::<G>() {
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

    /// Begins to free a batch: says which frames, of as many of the first of `frames` as the record has room for.
    /// Returns how many writes that are.
    pub(crate) fn begin_frees(&self, frames: &[FrameId], slot: Slot) -> usize {
        let Some(record) = self.record(slot) else {
            return 0;
        };
        // What is said here is not a batch until its header is there.
        record.put(Header::NONE, self.lower.persistence());
        let (mut count, mut rest) = (0, frames);
        while count < ENTRIES
            && let Some((row, mask, frames)) = self.row_of(rest, slot)
        {
            record.set_entry(count, Write::Frames { row, mask }, self.lower.persistence());
            (count, rest) = (count + 1, rest.get(frames..).unwrap_or_default());
        }
        self.lower.persist_released();
        count
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
                first + mask.trailing_zeros() as usize..first + 64 - mask.leading_zeros() as usize
            }
            Write::Huge { huge, count } => {
                let fits = matches!(count, 1 | 2) && huge & (count - 1) == 0;
                if !fits || huge >= self.lower.len() || huge + count > self.lower.len() {
                    return false;
                }
                let first = self.base + (huge << G::HUGE_ORDER);
                first..first + (count << G::HUGE_ORDER)
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

    /// The huge frame of a row, and the offset of the row's first frame in it.
    pub(crate) fn place_of_row(row: usize) -> (usize, usize) {
        let index = row << row_order::<G>();
        (index >> G::HUGE_ORDER, index & (G::HUGE_FRAMES - 1))
    }

    /// The huge frame, or the first of two, of a write.
    fn huge_of(write: Write) -> usize {
        match write {
            Write::Frames { row, .. } => Self::place_of_row(row).0,
            Write::Huge { huge, .. } => huge,
        }
    }

    /// Frees the frames of a write, if all of them are allocated; returns how many were freed.
    fn release_write(&self, write: Write) -> usize {
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
                let before = self.lower.free_whole(huge, count, Intent::none());
                before.is_some_and(|before| {
                    self.states_changed(huge, before, count as isize);
                    true
                })
            }
        };
        if released { frames } else { 0 }
    }

    /// Takes back, or brings to its end, what a crash has cut off. Nobody else uses the zone.
    pub(crate) fn resolve_intents(&self, found: &mut Repairs) {
        for record in self.records.iter().filter(|_| P::INTENTS) {
            let header = record.header();
            if header.end() != End::UnderWay || header.operation().is_none() {
                continue;
            }
            found.cut_off += 1;
            for step in header.owned::<G>() {
                let write = record.write::<G>(header, step);
                let released = self.release_write(write);
                found.released += released;
                found.free_frames += released;
                let huge = Self::huge_of(write);
                let free = released > 0 && self.lower.phase(huge) == Phase::Free;
                if free {
                    self.lower.tidy(huge);
                }
                found.free_huge += match write {
                    Write::Frames { .. } => free as usize,
                    Write::Huge { count, .. } => {
                        if free {
                            count
                        } else {
                            0
                        }
                    }
                };
            }
        }
    }

    /// Says in the records what was resolved, so that it is never undone again. All else is persistent before, and what
    /// records say is then.
    pub(crate) fn seal_intents(&self) {
        let persistence = self.lower.persistence();
        for record in self.records.iter().filter(|_| P::INTENTS) {
            let header = record.header();
            persistence.write_back_all(&record.0);
            persistence.fence();
            if header.end() == End::UnderWay {
                record.put(header.ended(End::CutOff), persistence);
            }
        }
    }

    /// What [`resolve_intents`](Self::resolve_intents) would find, but that each write is looked at by itself.
    #[cfg(not(any(woodlot_loom, woodlot_shuttle, woodlot_explore)))]
    pub(crate) fn inspect_intents(&self, found: &mut Repairs) {
        for record in self.records.iter().filter(|_| P::INTENTS) {
            let header = record.header();
            found.cut_off +=
                (header.end() == End::UnderWay && header.operation().is_some()) as usize;
            for step in header.owned::<G>() {
                let write = record.write::<G>(header, step);
                if let (0, frames) = self.free_of(write) {
                    found.released += frames;
                    found.free_frames += frames;
                    let all = self.lower.count_free(Self::huge_of(write)) + frames;
                    found.free_huge += all / G::HUGE_FRAMES;
                }
            }
        }
    }

    /// Forgets what the records of a new zone's memory say.
    pub(crate) fn clear_intents(&self) {
        for record in self.records.iter().filter(|_| P::INTENTS) {
            record.0.iter().for_each(|word| word.store(0, Ordering::Relaxed));
            self.lower.persistence().write_back_all(&record.0);
        }
    }

    /// The last operation of a slot that the allocator began with a write; `None`: there is no such operation, or
    /// slot, or the allocator keeps no [intents](woodlot_frame::Intents).
    ///
    /// A slot whose owner is dead can be read while others use the zone. The next operation on the slot overwrites it.
    ///
    /// # Progress
    /// Wait-free.
    pub fn last_operation(&self, slot: Slot) -> Option<LastOperation> {
        let header = self.record(slot)?.header();
        let operation = header.operation()?;
        Some(LastOperation { slot, operation, end: header.end(), header })
    }

    /// The last operations of all slots. After a crash, what was in doubt is among their [frames](Self::frames_of).
    ///
    /// # Progress
    /// Wait-free: linear in the slots.
    pub fn last_operations(&self) -> impl Iterator<Item = LastOperation> {
        (0..self.zone.slots).filter_map(|slot| self.last_operation(Slot(slot)))
    }

    /// The frames that an operation names, as runs, and whether they are free now. None of a batch that its slot has
    /// overwritten since.
    ///
    /// # Progress
    /// Wait-free: linear in the frames.
    pub fn frames_of(&self, operation: LastOperation) -> impl Iterator<Item = NamedFrames> {
        let header = operation.header;
        let record = self.record(operation.slot).filter(|record| record.header() == header);
        let writes = record.into_iter().flat_map(move |record| {
            header.named::<G>().map(move |step| record.write::<G>(header, step))
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
