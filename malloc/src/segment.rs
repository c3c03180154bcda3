//! A segment: a zone of page frames over a part of the heap's addresses, which gives memory back to the system.
//!
//! ```text
//!   frames      │ huge frame │ huge frame │ …         2 MiB each
//!   resident    │ 1          │ 0          │ …         a bit for each: somebody had a frame there since the system has it
//! ```
//!
//! 1. A huge frame whose bit is clear has no memory, or is in use only by a call that is about to set the bit.
//! 2. Whoever has the lock `given` clears bits, and only of huge frames that it has taken offline: nobody has a frame
//!    there.
//!
//! *Progress*: an allocation is as the zone's, and lock-free. Giving back is linear in the huge frames of the segment.

use core::mem::offset_of;
use core::ptr::NonNull;

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{
    Base4K, Construct, FrameAllocator, Geometry, HugeId, Init, METADATA_ALIGN, RawMetadata,
    ZoneConfig,
};
use woodlot_kmem::{Descriptor, Direct, Lock, NoPages, PAGE, PageId, Pages};
use woodlot_llfree::LLFree;

use crate::system;

type Zone = LLFree<'static, Base4K>;

/// Bytes of a huge frame: what the system is given back at a time.
pub(crate) const HUGE: usize = Base4K::HUGE_FRAMES * PAGE;
/// Slots that keep CPUs apart.
const SLOTS: usize = 64;

/// A zone and its memory.
pub(crate) struct Segment {
    pages: Direct<'static, Zone>,
    resident: &'static [AtomicU64],
    /// Held by whoever gives memory back.
    given: Lock<()>,
}

impl Segment {
    /// Where the address of *resident* lies: for whoever reads it from outside.
    pub(crate) const RESIDENT: usize = offset_of!(Segment, resident);

    /// A segment of so many pages, all free. `None`: the system has no memory for what describes them.
    ///
    /// # Safety
    /// The pages and their descriptors are mapped, zero, and nobody else's for ever.
    pub(crate) unsafe fn new(
        base: NonNull<u8>,
        pages: usize,
        descriptors: &'static [Descriptor],
    ) -> Option<Segment> {
        let config = ZoneConfig::new(pages, SLOTS);
        let size = Zone::metadata_size(&config).ok()?;
        let words = pages.div_ceil(Base4K::HUGE_FRAMES).div_ceil(u64::BITS as usize);
        let durable = size_of::<Zone>().next_multiple_of(METADATA_ALIGN);
        let volatile = durable + size.durable.next_multiple_of(METADATA_ALIGN);
        let resident = volatile + size.volatile.next_multiple_of(METADATA_ALIGN);
        let memory = system::memory(resident + words * size_of::<AtomicU64>())?;
        // SAFETY: the offsets lie in the memory, which is new and zero, one part behind the other.
        unsafe {
            let at = |offset| memory.add(offset).as_ptr();
            let raw = RawMetadata {
                durable: (at(durable), size.durable),
                volatile: (at(volatile), size.volatile),
            };
            let zone = Zone::construct(&config, raw, Init::Free).ok()?;
            let place = memory.cast::<Zone>();
            place.write(zone);
            let resident = core::slice::from_raw_parts(at(resident).cast(), words);
            let pages = Direct::new(place.as_ref(), base, descriptors)?;
            Some(Segment { pages, resident, given: Lock::new(()) })
        }
    }

    /// Allocates pages, as [`Pages::alloc`] does; their numbers are the segment's.
    pub(crate) fn alloc(&self, count: usize, align: usize, cpu: usize) -> Result<PageId, NoPages> {
        let first = self.pages.alloc(count, align, cpu)?;
        self.set_resident(first, count);
        Ok(first)
    }

    /// Allocates single pages, as [`Pages::alloc_some`] does.
    pub(crate) fn alloc_some(&self, room: &mut [PageId], cpu: usize) -> Result<usize, NoPages> {
        let count = self.pages.alloc_some(room, cpu)?;
        room.iter().take(count).for_each(|&page| self.set_resident(page, 1));
        Ok(count)
    }

    /// Somebody has so many pages from now on.
    fn set_resident(&self, first: PageId, count: usize) {
        let begin = first.0 as usize >> Base4K::HUGE_ORDER;
        let last = (first.0 as usize + count - 1) >> Base4K::HUGE_ORDER;
        for huge in begin..=last {
            if let Some((word, bit)) = self.bit(huge)
                && word.load(Ordering::Relaxed) & bit == 0
            {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
    }

    /// Frees pages.
    ///
    /// # Safety
    /// As for [`Pages::free`].
    pub(crate) unsafe fn free(&self, first: PageId, count: usize, cpu: usize) {
        // SAFETY: as the caller says.
        unsafe { self.pages.free(first, count, cpu) };
    }

    fn bit(&self, huge: usize) -> Option<(&AtomicU64, u64)> {
        self.resident.get(huge / 64).map(|word| (word, 1 << (huge % 64)))
    }

    /// The huge frames that may have memory, the last one first.
    fn resident(&self) -> impl Iterator<Item = usize> {
        let words = self.resident.iter().enumerate().rev();
        words.filter(|(_, word)| word.load(Ordering::Relaxed) != 0).flat_map(|(at, word)| {
            let word = word.load(Ordering::Relaxed);
            (0..64).rev().filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit)
        })
    }

    fn is_free(&self, huge: usize) -> bool {
        self.pages.zone().free_in_huge(HugeId(huge)) == Base4K::HUGE_FRAMES
    }

    /// How many huge frames may have memory, and how many of these are free.
    pub(crate) fn count_resident(&self) -> (usize, usize) {
        self.resident().fold((0, 0), |(resident, free), huge| {
            (resident + 1, free + usize::from(self.is_free(huge)))
        })
    }

    /// Gives up to `most` free huge frames back to the system; returns how many.
    pub(crate) fn give_back(&self, most: usize) -> usize {
        let _given = self.given.take(system::wait);
        self.resident().filter(|&huge| self.give(huge)).take(most).count()
    }

    /// Gives a huge frame back, if it is free.
    fn give(&self, huge: usize) -> bool {
        let zone = self.pages.zone();
        if !self.is_free(huge) || zone.offline(HugeId(huge), 1).is_err() {
            return false;
        }
        if let Some((word, bit)) = self.bit(huge) {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
        let start = self.pages.address(PageId((huge << Base4K::HUGE_ORDER) as u32));
        // SAFETY: nobody has a frame of what is offline (invariant 2).
        let discarded = unsafe { system::discard(start, HUGE) };
        let online = zone.online(HugeId(huge), 1);
        debug_assert!(discarded && online.is_ok(), "it is a mapping, and was offline");
        true
    }

    /// Keeps others from giving back: before a process forks.
    pub(crate) fn lock(&self) {
        core::mem::forget(self.given.take(system::wait));
    }

    /// Lets them again.
    ///
    /// # Safety
    /// This thread, or its copy in the parent, has called [`lock`](Self::lock).
    pub(crate) unsafe fn unlock(&self) {
        // SAFETY: as the caller says.
        unsafe { self.given.let_go() };
    }
}
