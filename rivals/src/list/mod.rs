//! Allocators that are one singly linked list of blocks of one order (LLFree section 5.4).
//!
//! ```text
//!   head ──▶ │ 3 │ ──▶ │ 7 │ ──▶ │ 1 │ ──▶ ∎         last in, first out
//!            └ a page of 64 bytes per block ┘        next, state
//! ```
//!
//! [`List`] is what they have in common: which blocks there are, which calls are wrong, what is
//! free. A [`Discipline`] says how blocks come off the list and go back. At the start the list is
//! in the order of the frames.
//!
//! A list serves blocks of `ORDER` only: every other order is refused as unsupported, and frames at
//! the zone's ends that do not make up a block are never free. There are no classes, and blocks are
//! freed as they were allocated. The state in the page, in a cache line that the call needs anyway,
//! tells a double free; whether also two that race depends on the discipline.
//!
//! Only the discipline's own count is kept: [`stats`](FrameAllocator::stats),
//! [`free_in_huge`](FrameAllocator::free_in_huge) and
//! [`is_available`](FrameAllocator::is_available) of another order look at every block's state.
//!
//! Invariants:
//! 1. A block is in exactly one list while its state is `FREE` and no call has it in its hands.
//! 2. The list's links are below the number of blocks, or `NIL`.

mod cas;
mod local;
mod locked;

pub use cas::ListCas;
pub use local::ListLocal;
pub use locked::ListLocked;

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

use woodlot_frame::atomics::AtomicU64;
use woodlot_frame::{
    AllocError, BadSlot, ClassStats, Construct, FrameAllocator, FrameId, FreeError, Geometry,
    HugeId, Init, InitError, MetadataSize, OfflineError, Order, RawMetadata, Region, Request, Slot,
    Stats, Unsupported, ZoneConfig,
};

use crate::config::{check_free, check_request, check_zone, is_block};
use crate::pages::{Carver, Page, Pages, bytes_of};

/// No block: the end of a list.
const NIL: u32 = u32::MAX;

/// States of a block.
const FREE: u32 = 0;
const ALLOCATED: u32 = 1;

/// How blocks come off a list and go back.
pub trait Discipline: Send + Sync + Sized {
    /// The allocator's name.
    const NAME: &'static str;
    /// A block that is free is found, whichever slot freed it.
    const FINDS_ALL: bool;

    /// A discipline whose list is empty. `lanes` is one word on a cache line for each slot, zero.
    fn new(lanes: Lanes) -> Self;
    /// Fills the empty list with blocks `0..count`; nobody else uses it yet.
    fn fill(&self, blocks: &Blocks, count: u32);
    /// Takes the first block and makes it `ALLOCATED`.
    fn pop(&self, blocks: &Blocks, slot: usize) -> Option<u32>;
    /// Puts a block back and makes it `FREE`; false where it is free already.
    fn push(&self, blocks: &Blocks, slot: usize, block: u32) -> bool;
    /// About how many blocks are listed.
    fn len(&self) -> usize;
    /// Learns how many blocks are listed, while no other call is in flight.
    fn recount(&self, _: usize) {}
    /// Is nothing listed?
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The pages of the blocks.
pub struct Blocks(Pages);

impl Blocks {
    #[inline(always)]
    fn at(&self, block: u32) -> &Page {
        self.0.at(block)
    }

    /// Links the blocks of a range in order; the last one ends the list.
    fn chain(&self, range: Range<u32>) {
        for block in range.clone() {
            self.at(block).set_state(FREE);
            self.at(block).set_next(if block + 1 < range.end { block + 1 } else { NIL });
        }
    }
}

/// A word for each slot, each on its own cache line.
pub struct Lanes {
    first: NonNull<Lane>,
    len: usize,
}

#[repr(align(64))]
struct Lane(AtomicU64);

// SAFETY: a shared slice of atomics that is the allocator's alone (the promise of `construct`).
unsafe impl Send for Lanes {}
// SAFETY: as above.
unsafe impl Sync for Lanes {}

impl Lanes {
    /// The word of a slot, which the caller has checked.
    #[inline(always)]
    fn at(&self, slot: usize) -> &AtomicU64 {
        debug_assert!(slot < self.len);
        // SAFETY: there are `len` lanes, one for each slot of the zone.
        unsafe { &self.first.add(slot).as_ref().0 }
    }

    fn iter(&self) -> impl Iterator<Item = &AtomicU64> {
        (0..self.len).map(|slot| self.at(slot))
    }
}

/// A list allocator for blocks of `ORDER`.
pub struct List<G: Geometry, D: Discipline, const ORDER: u32> {
    zone: ZoneConfig,
    /// The number of the first block: its first frame divided by its size.
    first: usize,
    count: u32,
    blocks: Blocks,
    discipline: D,
    geometry: PhantomData<G>,
}

/// The blocks of an order that lie wholly in the zone, by number.
fn blocks_of(config: &ZoneConfig, order: u32) -> Range<usize> {
    let first = config.start.0.div_ceil(1 << order);
    first..(config.end().0 >> order).max(first)
}

impl<G: Geometry, D: Discipline, const ORDER: u32> List<G, D, ORDER> {
    /// The one order that is served.
    pub const ORDER: Order = Order(ORDER as u8);

    /// Frames from `frame` to `end` that lie in free blocks.
    fn free_between(&self, frame: usize, end: usize) -> usize {
        let of_block = |number: usize| {
            let block = number.checked_sub(self.first).filter(|&n| n < self.count as usize);
            let is_free = block.is_some_and(|n| self.blocks.at(n as u32).state() == FREE);
            let (first, last) = (number << ORDER, (number + 1) << ORDER);
            if is_free { end.min(last) - frame.max(first) } else { 0 }
        };
        (frame >> ORDER..=(end - 1) >> ORDER).map(of_block).sum()
    }

    /// The block that a free names, or what is wrong with the call.
    #[inline(always)]
    fn block(&self, frame: FrameId, order: Order, slot: Slot) -> Result<u32, FreeError> {
        check_free::<G>(&self.zone, frame, order, slot)?;
        if order != Self::ORDER {
            return Err(FreeError::Unsupported);
        }
        Ok(((frame.0 >> ORDER) - self.first) as u32)
    }

    /// Free frames of the part of a huge frame that lies in the zone.
    fn free_in(&self, huge: usize) -> usize {
        let first = (huge << G::HUGE_ORDER).max(self.zone.start.0);
        let end = (huge << G::HUGE_ORDER).saturating_add(G::HUGE_FRAMES).min(self.zone.end().0);
        self.free_between(first, end)
    }

    /// The huge frames that the zone touches.
    fn huge_frames(&self) -> Range<usize> {
        self.zone.start.0 >> G::HUGE_ORDER..((self.zone.end().0 - 1) >> G::HUGE_ORDER) + 1
    }
}

impl<G: Geometry, D: Discipline, const ORDER: u32> FrameAllocator for List<G, D, ORDER> {
    type Geometry = G;
    const NAME: &'static str = D::NAME;
    const UNSUPPORTED: Unsupported = Unsupported {
        exact_frame: true,
        partial_free: true,
        classes: true,
        offline: true,
        isolation: true,
        recovery: true,
        exact_exhaustion: !D::FINDS_ALL,
    };

    fn zone(&self) -> &ZoneConfig {
        &self.zone
    }

    #[inline]
    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        check_request::<G>(&self.zone, &request)?;
        if request.order != Self::ORDER {
            return Err(AllocError::Unsupported);
        }
        match self.discipline.pop(&self.blocks, request.slot.0) {
            Some(block) => Ok(FrameId((self.first + block as usize) << ORDER)),
            None => Err(AllocError::OutOfMemory),
        }
    }

    #[inline]
    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        let block = self.block(frame, order, slot)?;
        match self.discipline.push(&self.blocks, slot.0, block) {
            true => Ok(()),
            false => Err(FreeError::NotAllocated(frame)),
        }
    }

    fn can_free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        let block = self.block(frame, order, slot)?;
        match self.blocks.at(block).state() {
            FREE => Err(FreeError::NotAllocated(frame)),
            _ => Ok(()),
        }
    }

    /// Nothing is held back that could be given.
    fn drain(&self, slot: Slot) -> Result<(), BadSlot> {
        if slot.0 < self.zone.slots { Ok(()) } else { Err(BadSlot(slot)) }
    }

    fn offline(&self, _: HugeId, _: usize) -> Result<(), OfflineError> {
        Err(OfflineError::Unsupported)
    }

    fn online(&self, _: HugeId, _: usize) -> Result<(), OfflineError> {
        Err(OfflineError::Unsupported)
    }

    /// Of an order that is not served, whether its frames are free; not in constant time.
    fn is_available(&self, order: Order) -> bool {
        if u32::from(order.0) > G::MAX_ORDER {
            return false;
        }
        if u32::from(order.0) <= ORDER {
            return !self.discipline.is_empty();
        }
        let mut blocks = blocks_of(&self.zone, order.0.into());
        blocks.any(|block| self.is_free(FrameId(block << order.0), order))
    }

    fn free_frames(&self) -> usize {
        self.discipline.len().min(self.count as usize) << ORDER
    }

    fn stats(&self) -> Stats {
        let whole = self.zone.huge_range::<G>();
        let (start, last) = (self.zone.start.0, self.zone.end().0 - 1);
        let mut all = ClassStats {
            trees: last / G::TREE_FRAMES - start / G::TREE_FRAMES + 1,
            ..ClassStats::default()
        };
        for huge in self.huge_frames() {
            let free = self.free_in(huge);
            all.free_frames += free;
            all.free_huge += usize::from(whole.contains(&HugeId(huge)) && free == G::HUGE_FRAMES);
        }
        let (free_frames, free_huge) = (all.free_frames, all.free_huge);
        self.discipline.recount(free_frames >> ORDER);
        let mut stats = Stats { free_frames, free_huge, ..Stats::default() };
        stats.classes[0] = all;
        stats
    }

    fn is_free(&self, frame: FrameId, order: Order) -> bool {
        is_block::<G>(&self.zone, frame, order)
            && self.free_between(frame.0, frame.0 + order.frames()) == order.frames()
    }

    fn free_in_huge(&self, huge: HugeId) -> usize {
        if self.huge_frames().contains(&huge.0) { self.free_in(huge.0) } else { 0 }
    }
}

impl<G: Geometry, D: Discipline, const ORDER: u32> Construct for List<G, D, ORDER> {
    fn metadata_size(config: &ZoneConfig) -> Result<MetadataSize, InitError> {
        const { assert!(ORDER <= G::MAX_ORDER) };
        check_zone(config)?;
        let pages = bytes_of::<Page>(blocks_of(config, ORDER).len());
        Ok(MetadataSize { durable: 0, volatile: bytes_of::<Lane>(config.slots) + pages })
    }

    fn metadata_parts(
        config: &ZoneConfig,
        part: &mut dyn FnMut(Region, &'static str, usize),
    ) -> Result<(), InitError> {
        check_zone(config)?;
        part(Region::Volatile, "slot", bytes_of::<Lane>(config.slots));
        part(Region::Volatile, "page", bytes_of::<Page>(blocks_of(config, ORDER).len()));
        Ok(())
    }

    unsafe fn construct(
        config: &ZoneConfig,
        metadata: RawMetadata,
        init: Init,
    ) -> Result<Self, InitError> {
        metadata.check(Self::metadata_size(config)?)?;
        // Boot memory would be freed in other blocks than those of the list.
        if init != Init::Free {
            return Err(InitError::Unsupported);
        }
        let numbers = blocks_of(config, ORDER);
        let mut carver = Carver::new(metadata.volatile.0);
        let lanes = Lanes { first: carver.take(config.slots), len: config.slots };
        for slot in 0..config.slots {
            // SAFETY: there are `config.slots` lanes, and nobody else knows of them yet.
            unsafe { lanes.first.add(slot).write(Lane(AtomicU64::new(0))) };
        }
        let pages = carver.take(numbers.len());
        // SAFETY: `take` gave that many entries of the memory that the caller hands over.
        let blocks = Blocks(unsafe { Pages::new(pages, numbers.len()) });
        let (first, count) = (numbers.start, numbers.len() as u32);
        let discipline = D::new(lanes);
        discipline.fill(&blocks, count);
        Ok(Self { zone: *config, first, count, blocks, discipline, geometry: PhantomData })
    }
}
