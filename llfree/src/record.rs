//! The record of a slot: before each authoritative write it names the write, an *intent*.
//!
//! ```text
//!   record     a slot's, durable, some cache lines: header │ number │ entry 0 │ entry 1 │ entry 2 ┊ entry 3 │ …
//!
//!   header     ┌ frame, 48                              ┬ step, 8 ┬ order, 4 ┬ end, 2 ┬ operation, 2 ┐
//!   of a batch ┌ step, its upper 16 ┬ entries, 32       ┬ step, 8 ┬ …
//!     operation  0 none    1 allocation    2 free
//!     end        0 whole   1 under way     2 cut off, and resolved
//!     order      of the block; 14: a run; 15: a batch, of which the entries name the writes
//!
//!   entry      ┌ 0, 1 ┬ row, 63        ┐┌ which of its frames, 64 ┐
//!              └ 1, 1 ┴ huge frame, 63 ┘└ how many, 1 or 2        ┘
//!   of a run   ┌ its first frame       ┐┌ the frame behind its last  ┐     the header: at which frame, and how many
//!   number     how many batches and runs the slot has begun: whose the entries are
//! ```
//!
//! A call of one write stores the header and makes the write. Nothing more: the header stays as the *last operation*
//! of the slot, until the next one. After a crash the frames that it names tell whether the write has happened. A
//! call of several writes counts them: the write *step* is in doubt, and what is known of the others follows from it.
//!
//! A batch or a run is *open* while it is under way. What the slot's calls write meanwhile is a part of it: so the
//! same allocations and frees that stand alone make up a batch. A run is written from its first frame upwards, so the
//! frame that was written last says as much as a step ([`run`]).
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
//! 5. A batch or run replaces the header before it, then takes the next number, and then changes entries. So who has
//!    read an entry, and finds header and number then as they were, has read an entry of that operation. A call of one
//!    write has no part in this: its header says all.
//!
//! Values: any. What names no frames of the zone names nothing, and a write is undone only where all of its frames
//! are allocated.
//!
//! *Progress*: wait-free. A slot has one call at a time, so its record has one writer.
//! *Ordering*: the header is stored with release, behind its entries and the writes that it speaks of as done. The
//! write that it announces is a swap that releases, so it becomes visible after the header: on eADR, persistent.
//! With caches that are lost, the header is written back and fenced in between.

mod intent;
mod run;

pub(crate) use intent::{By, Intent};

use core::ops::Range;

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{Geometry, InitError, Persistence};

use crate::line::Line;
use crate::row::{ROW_ORDER, row_order};

/// Entries of a cache line. The first line has the header in place of one.
const IN_LINE: usize = 4;
/// The most entries of a record: a header counts the steps of a batch in 24 bits.
const MOST_ENTRIES: usize = (1 << 24) - 1;
/// The order in the header of a batch.
const BATCH: u32 = 15;
/// The order in the header of a run.
const RUN: u32 = 14;
/// The most frames of a zone with records: a header counts them in 48 bits, from the first of a huge frame on.
pub(crate) const MOST_FRAMES: u64 = 1 << 47;
/// In the first word of an entry: it names huge frames.
const HUGE: u64 = 1 << 63;

/// A cache line of a record: four entries, of which the header is the first of the first line.
pub type RecordLine = Line<[[AtomicU64; 2]; IN_LINE]>;

/// The record of a slot.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    head: &'a RecordLine,
    more: &'a [RecordLine],
}

/// How many lines a record has that names as many writes of a batch as this, or more.
///
/// # Errors
/// [`InitError::RecordRoom`]: none can.
pub(crate) const fn lines_of(room: usize) -> Result<usize, InitError> {
    match room {
        1..=MOST_ENTRIES => Ok((room + 1).div_ceil(IN_LINE)),
        _ => Err(InitError::RecordRoom(room)),
    }
}

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
pub(crate) struct Header(u64);

impl Header {
    pub(crate) const NONE: Header = Header(0);

    /// A call of one write, or one that has come to its end.
    #[inline(always)]
    pub(crate) const fn block(operation: Operation, order: u32, index: usize) -> Header {
        Header((index as u64) << 16 | (order as u64) << 4 | operation as u64)
    }

    /// A batch of `count` writes, of which none has happened.
    pub(crate) const fn batch(operation: Operation, count: usize) -> Header {
        Self::block(operation, BATCH, count).ended(End::UnderWay)
    }

    pub(crate) const fn ended(self, end: End) -> Header {
        Header(self.0 & !(3 << 2) | (end as u64) << 2)
    }

    pub(crate) const fn at(self, step: usize) -> Header {
        let (low, high) = (step as u64 & 0xff, step as u64 >> 8);
        let kept = if self.order() == BATCH { !(0xffff << 48) } else { !0 };
        Header(self.0 & kept & !(0xff << 8) | low << 8 | (high << 48) & !kept)
    }

    pub(crate) const fn operation(self) -> Option<Operation> {
        match self.0 & 3 {
            1 => Some(Operation::Alloc),
            2 => Some(Operation::Free),
            _ => None,
        }
    }

    pub(crate) const fn end(self) -> End {
        match self.0 >> 2 & 3 {
            1 => End::UnderWay,
            2 => End::CutOff,
            _ => End::Whole,
        }
    }

    pub(crate) const fn order(self) -> u32 {
        (self.0 >> 4) as u32 & 15
    }

    pub(crate) const fn step(self) -> usize {
        let high = if self.order() == BATCH { self.0 >> 48 << 8 } else { 0 };
        (high | self.0 >> 8 & 0xff) as usize
    }

    /// Is a batch or a run under way? What its slot writes is a part of it.
    #[inline(always)]
    pub(crate) const fn is_open(self) -> bool {
        self.0 & 0xec == 0xe4
    }

    /// The frame of a block, from the first that the metadata is for; of a run, the frame of the write in doubt.
    pub(crate) const fn index(self) -> usize {
        (self.0 >> 16) as usize
    }

    /// Is it that of a batch? Then entries name its writes.
    pub(crate) const fn is_batch(self) -> bool {
        self.order() == BATCH
    }

    /// How many entries a batch has.
    pub(crate) const fn entries(self) -> usize {
        (self.0 >> 16) as u32 as usize
    }
}

/// How many writes a block has.
pub(crate) const fn writes_of<G: Geometry>(order: u32) -> usize {
    let rows = order > ROW_ORDER && order < G::HUGE_ORDER;
    if rows { 1 << (order - ROW_ORDER) } else { 1 }
}

/// One write: frames of one row, or one huge frame or two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Write {
    Frames { row: usize, mask: u64 },
    Huge { huge: usize, count: usize },
}

impl Write {
    /// The write number `step` of a block.
    pub(crate) fn of_block<G: Geometry>(order: u32, index: usize, step: usize) -> Write {
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

    pub(crate) const fn words(self) -> [u64; 2] {
        match self {
            Write::Frames { row, mask } => [row as u64, mask],
            Write::Huge { huge, count } => [HUGE | huge as u64, count as u64],
        }
    }

    pub(crate) const fn of_words([what, how]: [u64; 2]) -> Write {
        if what & HUGE == 0 {
            Write::Frames { row: what as usize, mask: how }
        } else {
            Write::Huge { huge: (what & !HUGE) as usize, count: how as usize }
        }
    }
}

/// Reading and writing a record.
impl<'a> Record<'a> {
    /// The record that has this line first, and these behind it.
    #[inline(always)]
    pub(crate) const fn new(head: &'a RecordLine, more: &'a [RecordLine]) -> Self {
        Record { head, more }
    }

    /// The record that has these lines, unless there is none.
    pub(crate) fn of(lines: &'a [RecordLine]) -> Option<Self> {
        let (head, more) = lines.split_first()?;
        Some(Record { head, more })
    }

    /// How many writes of a batch it can name.
    pub(crate) const fn room(self) -> usize {
        (1 + self.more.len()) * IN_LINE - 1
    }

    #[inline(always)]
    fn word(self) -> &'a AtomicU64 {
        let Line([[header, _], ..]) = self.head;
        header
    }

    pub(crate) fn header(self) -> Header {
        Header(self.word().load(Ordering::Acquire))
    }

    /// Stores the header, and makes it persistent.
    #[inline(always)]
    pub(crate) fn put<P: Persistence>(self, header: Header, persistence: P) {
        let word = self.word();
        word.store(header.0, Ordering::Release);
        persistence.write_back(word);
        persistence.fence();
    }

    fn number_word(self) -> &'a AtomicU64 {
        let Line([[_, number], ..]) = self.head;
        number
    }

    /// The number of the batch or run to which the header belongs, if it is that of one.
    pub(crate) fn number(self) -> u64 {
        self.number_word().load(Ordering::Acquire)
    }

    /// Is this still what the record says? What was read of it before is this operation's then (5).
    pub(crate) fn is_at(self, header: Header, number: u64) -> bool {
        self.header() == header && self.number() == number
    }

    /// Begins a batch or run: with a header that speaks of no entry, since these are about to change.
    pub(crate) fn begin<P: Persistence>(self, header: Header, persistence: P) {
        self.put(header, persistence);
        let number = self.number_word();
        // It lies in the line of the header, which the next header makes persistent.
        number.store(number.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    /// The same of an open batch or run, unless it is over or another call on the slot has said something: then this
    /// call does not open it again, since nobody would close it.
    fn go_on<P: Persistence>(self, before: Header, after: Header, persistence: P) {
        let (success, failure) = (Ordering::Release, Ordering::Relaxed);
        // A slot that two calls use at once has a record that says nothing of use.
        let _ = self.word().compare_exchange(before.0, after.0, success, failure);
        self.persist_header(persistence);
    }

    /// Makes the header persistent that another call has stored.
    pub(crate) fn persist_header<P: Persistence>(self, persistence: P) {
        persistence.write_back(self.word());
        persistence.fence();
    }

    /// Makes all of it persistent.
    pub(crate) fn persist_all<P: Persistence>(self, persistence: P) {
        let lines = core::iter::once(self.head).chain(self.more);
        lines.for_each(|line| persistence.write_back_all(line.as_flattened()));
        persistence.fence();
    }

    pub(crate) fn entry(self, number: usize) -> &'a [AtomicU64] {
        let (line, within) = ((number + 1) / IN_LINE, (number + 1) % IN_LINE);
        let line = if line == 0 { Some(self.head) } else { self.more.get(line - 1) };
        line.and_then(|line| line.get(within)).map_or(&[], |entry| entry)
    }

    /// Sets an entry, and begins to write it back.
    pub(crate) fn set_entry<P: Persistence>(self, number: usize, write: Write, persistence: P) {
        let entry = self.entry(number);
        // Behind the header and the number (5).
        entry.iter().zip(write.words()).for_each(|(word, value)| {
            word.store(value, Ordering::Release);
        });
        entry.iter().take(1).for_each(|word| persistence.write_back(word));
    }

    /// Before a write of an open batch or run, which a header would name so if the write stood alone. Here and below,
    /// arguments are such as fit into registers: who says something keeps nothing in memory for it.
    #[inline(never)]
    pub(crate) fn say_part<G: Geometry, P: Persistence>(self, alone: Header, persistence: P) {
        let header = self.header();
        if !header.is_open() {
            return self.put(alone, persistence);
        }
        if header.order() == RUN {
            return self.say_of_run(header, alone, persistence);
        }
        let write = Write::of_block::<G>(alone.order(), alone.index(), 0);
        if alone.operation() == Some(Operation::Free) {
            self.step_to::<G, P>(header, write, persistence);
        } else {
            // Who begins a batch of blocks, or another frame of one, has seen that there is room.
            let _ = self.append(write, persistence);
        }
    }

    /// Is there room for another write of the batch that is open, if one is?
    pub(crate) fn has_room(self) -> bool {
        let header = self.header();
        !header.is_open() || header.order() != BATCH || header.entries() < self.room()
    }

    /// The next write of a batch that allocates. False: the record has no room for it, and nothing is said.
    pub(crate) fn append<P: Persistence>(self, write: Write, persistence: P) -> bool {
        let before = self.header();
        if !before.is_open() {
            return true;
        }
        let step = before.entries();
        if step >= self.room() {
            return false;
        }
        self.set_entry(step, write, persistence);
        self.go_on(before, Header::batch(Operation::Alloc, step + 1).at(step), persistence);
        true
    }

    /// The next write of a batch that frees, or the same once more. A batch that has allocated becomes one that frees
    /// what it has.
    fn step_to<G: Geometry, P: Persistence>(self, before: Header, write: Write, persistence: P) {
        let header = Header::batch(Operation::Free, before.entries());
        let step = match before.operation() {
            Some(Operation::Free) if self.write::<G>(header, before.step()) == write => {
                before.step()
            }
            Some(Operation::Free) => before.step() + 1,
            _ => 0,
        };
        self.go_on(before, header.at(step), persistence);
    }

    /// The allocating write said last, of an open batch or run, does not happen.
    #[cold]
    #[inline(never)]
    pub(crate) fn withdraw<P: Persistence>(self, persistence: P) {
        let (header, step) = (self.header(), self.header().step());
        if !header.is_open() || header.operation() != Some(Operation::Alloc) {
            return;
        }
        let without = Header::batch(Operation::Alloc, step).at(step);
        let without = if header.order() == RUN { header.withdrawn() } else { without };
        self.go_on(header, without, persistence);
    }

    /// The write before the one said last is undone, of an allocation.
    #[cold]
    #[inline(never)]
    pub(crate) fn step_back<P: Persistence>(self, persistence: P) {
        let (header, step) = (self.header(), self.header().step());
        let before = match header.order() {
            RUN => header.row_before(),
            BATCH => Header::batch(Operation::Alloc, step).at(step.saturating_sub(1)),
            _ => header.at(step.saturating_sub(1)),
        };
        self.go_on(header, before, persistence);
    }

    /// All writes of a block of several rows were undone. What a wrong free had released is nobody's to name.
    #[cold]
    #[inline(never)]
    pub(crate) fn undone<P: Persistence>(self, operation: Operation, persistence: P) {
        if operation == Operation::Alloc && self.header().is_open() {
            self.withdraw(persistence);
        } else {
            self.put(Header::NONE, persistence);
        }
    }

    /// How many writes the operation has. Those of a run are not numbered.
    pub(crate) fn count<G: Geometry>(self, header: Header) -> usize {
        match header.order() {
            BATCH => header.entries().min(self.room()),
            RUN => 0,
            order => writes_of::<G>(order),
        }
    }

    /// The writes whose frames the caller owns beside the one in doubt, if the operation is under way.
    pub(crate) fn owned<G: Geometry>(self, header: Header) -> Range<usize> {
        let (step, count) = (header.step(), self.count::<G>(header));
        match (header.end(), header.operation()) {
            (End::UnderWay, Some(Operation::Alloc)) => 0..step.min(count),
            (End::UnderWay, Some(Operation::Free)) => step + 1..count,
            _ => 0..0,
        }
    }

    /// The writes whose frames are named.
    pub(crate) fn named<G: Geometry>(self, header: Header) -> Range<usize> {
        let (step, count) = (header.step(), self.count::<G>(header));
        match header.end() {
            End::CutOff => step..count.min(step + 1),
            _ => 0..count,
        }
    }

    /// The write number `step` of the operation.
    pub(crate) fn write<G: Geometry>(self, header: Header, step: usize) -> Write {
        if header.order() != BATCH {
            return Write::of_block::<G>(header.order(), header.index(), step);
        }
        let mut words = [0; 2];
        let entry = words.iter_mut().zip(self.entry(step));
        // Before header and number are looked at once more (5).
        entry.for_each(|(value, word)| *value = word.load(Ordering::Acquire));
        Write::of_words(words)
    }
}
