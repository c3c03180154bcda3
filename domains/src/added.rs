//! Ranges that were added: zones that come and go.
//!
//! ```text
//!   sections   │ 0 │ 0 │ 2 │ 2 │ 0 │ 1 │      which range has this piece of the address space; 0: none
//!   places     │ LIVE │ LIVE │ FREE │         state, zone
//!
//!   FREE ──► (zone written, sections) ──► LIVE ──► GONE ──► FREE
//!                add_range                 remove_range   reclaim
//! ```
//!
//! 1. Who holds the lock, and nobody else, writes states and sections, and the zone of a place that is FREE.
//! 2. The zone of a place is there from LIVE until its reclaim.
//! 3. A place that is GONE says which removal took it away, and the reclaim of no other one frees it.
//!
//! *Progress*: readers are wait-free. *Ordering*: LIVE is stored with release and loaded with acquire.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ops::Range;

use woodlot_frame::atomics::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use woodlot_frame::{FrameId, Order};

use crate::zone::Zone;

const FREE: u32 = 0;
const LIVE: u32 = 1;
const GONE: u32 = 2;

/// Where ranges may be added to a machine, and how many.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Room {
    /// The frames among which they lie.
    pub within: Range<FrameId>,
    /// How many there may be at a time.
    pub ranges: usize,
    /// They begin and end at multiples of this order; at least a chunk, which is as large as the largest block. Two bytes
    /// of metadata for each block of it in the room.
    pub section: Order,
}

impl Room {
    /// None at all.
    pub const NONE: Room = Room { within: FrameId(0)..FrameId(0), ranges: 0, section: Order(0) };

    /// Room for so many ranges, which begin and end at chunks.
    pub const fn new(within: Range<FrameId>, ranges: usize) -> Room {
        Room { within, ranges, section: Order(0) }
    }

    /// The same for ranges of whole blocks of this order: 15 for the 128 MiB of Linux.
    pub const fn in_sections(self, section: Order) -> Room {
        Room { section, ..self }
    }
}

/// Where a range is, or can be.
pub(crate) struct Place<'a, A> {
    state: AtomicU32,
    /// Which [removal](Removal) took it away, if it is GONE.
    removal: AtomicU64,
    zone: UnsafeCell<MaybeUninit<Zone<'a, A>>>,
}

impl<A> Place<'_, A> {
    pub(crate) const fn new() -> Self {
        let zone = UnsafeCell::new(MaybeUninit::uninit());
        Place { state: AtomicU32::new(FREE), removal: AtomicU64::new(0), zone }
    }
}

// SAFETY: a zone is shared from LIVE on, and never moved or dropped, by invariants 1 and 2.
unsafe impl<A: Sync> Sync for Place<'_, A> {}

/// All of them.
pub(crate) struct Ranges<'a, A> {
    /// log2 of the frames of a section, and the first one.
    shift: u32,
    first: usize,
    sections: &'a [AtomicU16],
    places: &'a [Place<'a, A>],
    lock: AtomicU32,
    /// How many removals there were.
    removals: AtomicU64,
}

/// The number of a removal, which no other one of these ranges has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Removal(u64);

/// The right to change the ranges.
pub(crate) struct Lock<'l>(&'l AtomicU32);

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

impl<'a, A> Ranges<'a, A> {
    pub(crate) fn new(
        sections: &'a [AtomicU16],
        places: &'a [Place<'a, A>],
        (first, shift): (usize, u32),
    ) -> Self {
        let (lock, removals) = (AtomicU32::new(0), AtomicU64::new(0));
        Ranges { shift, first, sections, places, lock, removals }
    }

    /// The lock, unless another call has it.
    pub(crate) fn lock(&self) -> Option<Lock<'_>> {
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        self.lock.compare_exchange(0, 1, acquire, relaxed).ok().map(|_| Lock(&self.lock))
    }

    /// The zone at a place.
    pub(crate) fn get(&self, place: usize) -> Option<&Zone<'a, A>> {
        let place = self.places.get(place)?;
        if place.state.load(Ordering::Acquire) != LIVE {
            return None;
        }
        // SAFETY: invariant 2.
        Some(unsafe { (*place.zone.get()).assume_init_ref() })
    }

    /// The zones that are there.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Zone<'a, A>> + Clone {
        (0..self.places.len()).filter_map(|place| self.get(place))
    }

    /// The place of the range that has a frame.
    pub(crate) fn place_of(&self, frame: FrameId) -> Option<usize> {
        let section = (frame.0 >> self.shift).wrapping_sub(self.first);
        let word = self.sections.get(section)?.load(Ordering::Acquire);
        usize::from(word).checked_sub(1)
    }

    /// The sections that a range consists of; `None`, if it does not, or if they are not in the room.
    fn sections(&self, range: &Range<FrameId>) -> Option<&[AtomicU16]> {
        let outside = (range.start.0 | range.end.0) & ((1 << self.shift) - 1);
        let [start, end] = [range.start, range.end].map(|frame| frame.0 >> self.shift);
        let room = self.sections.get(start.checked_sub(self.first)?..end.checked_sub(self.first)?);
        room.filter(|_| outside == 0)
    }

    /// Do ranges of these frames fit?
    pub(crate) fn fits(&self, range: &Range<FrameId>) -> bool {
        self.sections(range).is_some()
    }

    /// A place that is free.
    pub(crate) fn free(&self, _: &Lock<'_>) -> Option<usize> {
        self.places.iter().position(|place| place.state.load(Ordering::Acquire) == FREE)
    }

    /// Writes the zone of a range to a free place, from which all can see it.
    pub(crate) fn publish(
        &self,
        _: &Lock<'_>,
        at: usize,
        zone: Zone<'a, A>,
        range: &Range<FrameId>,
    ) {
        let Some(place) = self.places.get(at) else { return };
        // SAFETY: the place is free, so that nobody reads it, and only one call has the lock.
        unsafe { (*place.zone.get()).write(zone) };
        self.mark(range, at as u16 + 1);
        place.state.store(LIVE, Ordering::Release);
    }

    fn mark(&self, range: &Range<FrameId>, word: u16) {
        let sections = self.sections(range).unwrap_or_default();
        sections.iter().for_each(|section| section.store(word, Ordering::Release));
    }

    /// The next removal.
    pub(crate) fn removal(&self, _: &Lock<'_>) -> Removal {
        Removal(self.removals.fetch_add(1, Ordering::Relaxed))
    }

    /// Takes a zone away. Calls that had found it before may still look at it.
    pub(crate) fn retire(
        &self,
        _: &Lock<'_>,
        at: usize,
        range: &Range<FrameId>,
        Removal(number): Removal,
    ) {
        let Some(place) = self.places.get(at) else { return };
        place.removal.store(number, Ordering::Relaxed);
        place.state.store(GONE, Ordering::Release);
        self.mark(range, 0);
    }

    /// The places that a removal took away, until they are free.
    pub(crate) fn gone(&self, _: &Lock<'_>, removal: Removal) -> impl Iterator<Item = usize> {
        let places = self.places.iter().enumerate().filter(move |(_, place)| {
            place.state.load(Ordering::Acquire) == GONE
                && place.removal.load(Ordering::Relaxed) == removal.0
        });
        places.map(|(at, _)| at)
    }

    /// Frees a place whose zone was taken away. An allocator is nothing but its metadata, so that nothing is dropped.
    ///
    /// # Safety
    /// No call looks at the zone any more.
    pub(crate) unsafe fn reclaim(&self, _: &Lock<'_>, at: usize) {
        let place = self.places.get(at);
        place.into_iter().for_each(|place| place.state.store(FREE, Ordering::Release));
    }
}
