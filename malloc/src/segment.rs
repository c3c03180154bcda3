//! A segment: a zone of page frames over a part of the heap's addresses, which gives memory back to the system.
//!
//! ```text
//!   frames      │ huge frame │ huge frame │ …         2 MiB each
//!   resident    │ 1          │ 0          │ …         a bit for each: it may have memory
//!   used        │ 110…       │ 000…       │ …         a bit for each page: it may hold something
//!   in parts    │ 0          │ 0          │ …         a bit for each: parts of it were given back
//!   zone        │ online     │ offline    │ …
//! ```
//!
//! 1. A huge frame whose bit is clear is offline and has no memory. Before its first time it cannot be accessed either: a
//!    program that locks all it has into memory (`mlockall`) locks what the heap has grown to, and no more.
//! 2. One whose bit is set is online, or on its way to or from there: a call that grows the segment sets the bit first,
//!    and one that gives memory back clears it last.
//! 3. One call at a time grows the segment; whoever has the lock `given` gives back, and only what it has taken offline or
//!    allocated: nobody else has a frame there.
//! 4. A page whose bit of *used* is clear was not freed since its memory came from the system: if nobody has it, it is zero.
//!    The bit is set before the page is free, and cleared while it has no memory, and is offline or allocated by whoever has
//!    given it back.
//! 5. A page that is free has memory if its bit of *used* is set: it is *idle*. Others that are free have none, but for what
//!    is left of a huge page that the system has provided as a whole.
//! 6. The system is told not to provide a huge page for a huge frame whose bit of *in parts* is set, so that what was given
//!    back stays so: otherwise it fills in what lacks in the background (khugepaged), unseen by this heap. One that has gone back
//!    as a whole may be a huge page when it comes again.
//!
//! So an allocation uses up huge frames that have memory before another one gets some. If all addresses were online, the zone
//! would go on to huge frames that nobody has touched while others are free: with all of memory freed and allocated in
//! another size, 1.76 bytes were resident for each in use; it is 1.01 now.
//!
//! *Progress*: an allocation is as the zone's, and lock-free. Growing and giving back are linear in the huge frames of
//! the segment.

use core::iter;
use core::mem::offset_of;
use core::ops::Range;
use core::ptr::NonNull;

use woodlot_frame::atomics::{AtomicU32, AtomicU64, Ordering};
use woodlot_frame::{
    Base4K, Class, ClassPolicy, Construct, FrameAllocator, FrameId, Geometry, HugeId, Init,
    METADATA_ALIGN, RangeRequest, RawMetadata, Slot, ZoneConfig,
};
use woodlot_kmem::{Descriptor, Direct, Lock, NoPages, PAGE, PageId, Pages};
use woodlot_llfree::LLFree;

use crate::system;

type Zone = LLFree<'static, Base4K>;

/// Bytes of a huge frame: what the system is given back at a time.
pub(crate) const HUGE: usize = Base4K::HUGE_FRAMES * PAGE;
/// The most slots that keep CPUs apart, a power of two.
const SLOTS: usize = 64;
/// There is one for each so many huge frames: two trees. A slot that finds each tree reserved by others takes frames from
/// theirs, one by one, by a search through all slots: 10,000 instructions a frame.
const OF_SLOT: usize = 2 * Base4K::TREE_HUGE;
/// Bits of a word.
const WORD: usize = u64::BITS as usize;
/// Words of *used* that a huge frame has.
const WORDS: usize = Base4K::HUGE_FRAMES / WORD;
/// So many refusals in a row end a pass that gives back: the process has locked its memory.
const REFUSALS: usize = 8;
/// At most so many huge frames are told to be in parts. Each may divide a mapping in three, and a process may have 65,530.
const IN_PARTS: u32 = 1 << 14;
/// Those that are, of all segments.
static COUNT_IN_PARTS: AtomicU32 = AtomicU32::new(0);
/// The bits of huge frames that a pair begins with.
const EVEN: u64 = u64::MAX / 3;

/// What came of an attempt to grow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grown {
    Yes,
    /// The segment has all its huge frames.
    Full,
    /// The system has no more memory.
    Refused,
}

/// What a heap has, in pages.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Survey {
    /// Pages that somebody has.
    pub(crate) in_use: usize,
    /// Pages that are free, and have memory all the same.
    pub(crate) idle: usize,
}

impl Survey {
    pub(crate) fn plus(self, other: Survey) -> Survey {
        Survey { in_use: self.in_use + other.in_use, idle: self.idle + other.idle }
    }
}

/// How much may be given back.
#[derive(Clone, Copy)]
pub(crate) struct Most {
    /// Idle pages.
    pub(crate) pages: usize,
    /// Runs of pages, each of which takes a call of the system.
    pub(crate) runs: usize,
}

impl Most {
    pub(crate) fn is_reached(self) -> bool {
        self.pages == 0 || self.runs == 0
    }

    /// After an attempt to give a run back, of which came so many pages.
    fn less(&mut self, pages: usize) {
        self.pages = self.pages.saturating_sub(pages);
        self.runs = self.runs.saturating_sub(1);
    }
}

/// A zone and its memory.
pub(crate) struct Segment {
    pages: Direct<'static, Zone>,
    resident: &'static [AtomicU64],
    used: &'static [AtomicU64],
    in_parts: &'static [AtomicU64],
    /// How many slots are in use, a power of two: a CPU has the one that the end of its number says.
    slots: AtomicU64,
    /// Held by whoever gives memory back.
    given: Lock<()>,
}

impl Segment {
    /// Where the address of *resident* lies: for whoever reads it from outside.
    pub(crate) const RESIDENT: usize = offset_of!(Segment, resident);

    /// A segment of so many pages, a multiple of those of a huge frame, of as many as there are descriptors; all are offline.
    /// *Resident* has a bit for all that are described, as whoever looks from outside knows no others. `None`: the system has
    /// no memory for what describes them.
    ///
    /// # Safety
    /// The addresses of the pages are reserved, and nobody else's for ever; the descriptors are so too, mapped, and zero.
    pub(crate) unsafe fn new(
        base: NonNull<u8>,
        pages: usize,
        descriptors: &'static [Descriptor],
    ) -> Option<Segment> {
        // All pages are of one class. A tree comes to belong to another class when it is free as a whole, which one is
        // not of which a part is offline.
        let config = ZoneConfig::new(pages, SLOTS).with_classes(ClassPolicy::SINGLE);
        let size = Zone::metadata_size(&config).ok()?;
        let words = descriptors.len().div_ceil(Base4K::HUGE_FRAMES).div_ceil(WORD);
        let durable = size_of::<Zone>().next_multiple_of(METADATA_ALIGN);
        let volatile = durable + size.durable.next_multiple_of(METADATA_ALIGN);
        let resident = volatile + size.volatile.next_multiple_of(METADATA_ALIGN);
        let in_parts = resident + words * size_of::<AtomicU64>();
        let used = in_parts + words * size_of::<AtomicU64>();
        let memory = system::memory(used + pages / WORD * size_of::<AtomicU64>())?;
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
            let in_parts = core::slice::from_raw_parts(at(in_parts).cast(), words);
            let used = core::slice::from_raw_parts(at(used).cast(), pages / WORD);
            let zone = place.as_ref();
            zone.offline(HugeId(0), pages / Base4K::HUGE_FRAMES).ok()?;
            let pages = Direct::new(zone, base, descriptors)?;
            let slots = AtomicU64::new(1);
            let given = Lock::new(());
            Some(Segment { pages, resident, used, in_parts, slots, given })
        }
    }

    /// Allocates pages, as [`Pages::alloc`] does; their numbers are the segment's.
    pub(crate) fn alloc(&self, count: usize, align: usize, cpu: usize) -> Result<PageId, NoPages> {
        self.pages.alloc(count, align, self.slot(cpu))
    }

    /// Allocates single pages, as [`Pages::alloc_some`] does.
    pub(crate) fn alloc_some(&self, room: &mut [PageId], cpu: usize) -> Result<usize, NoPages> {
        self.pages.alloc_some(room, self.slot(cpu))
    }

    /// Frees pages.
    ///
    /// # Safety
    /// As for [`Pages::free`].
    pub(crate) unsafe fn free(&self, first: PageId, count: usize, cpu: usize) {
        self.used(first.0 as usize, count).for_each(|(word, bits)| set_used(word, bits));
        // SAFETY: as the caller says.
        unsafe { self.pages.free(first, count, self.slot(cpu)) };
    }

    /// Frees single pages, as [`Pages::free_some`] does.
    ///
    /// # Safety
    /// As for [`Pages::free_some`].
    pub(crate) unsafe fn free_some(&self, pages: &[PageId], cpu: usize) {
        // Mostly they lie side by side.
        for side in pages.chunk_by(|one, next| one.0 as usize / WORD == next.0 as usize / WORD) {
            let bits = side.iter().fold(0, |bits, page| bits | 1 << (page.0 as usize % WORD));
            let at = side.first().and_then(|page| self.used.get(page.0 as usize / WORD));
            at.into_iter().for_each(|word| set_used(word, bits));
        }
        // SAFETY: as the caller says.
        unsafe { self.pages.free_some(pages, self.slot(cpu)) };
    }

    /// Are pages zero that were allocated just now? The zone has whoever allocates them see what was done before they
    /// were freed.
    pub(crate) fn is_zero(&self, first: usize, count: usize) -> bool {
        self.used(first, count).all(|(word, bits)| word.load(Ordering::Relaxed) & bits == 0)
    }

    /// The words of *used* that have some of these pages, and their bits.
    fn used(&self, first: usize, count: usize) -> impl Iterator<Item = (&AtomicU64, u64)> {
        let end = first + count;
        let words = self.used.iter().enumerate().take(end.div_ceil(WORD)).skip(first / WORD);
        words.map(move |(at, word)| {
            let (from, to) = (first.max(at * WORD), end.min((at + 1) * WORD));
            (word, u64::MAX >> (WORD - (to - from)) << (from % WORD))
        })
    }

    /// Which slot a CPU has.
    fn slot(&self, cpu: usize) -> usize {
        cpu & (self.slots.load(Ordering::Relaxed) as usize - 1)
    }

    /// As many slots as there are trees for. What the others have reserved goes back. A call that grows may do this beside
    /// one that gives back, so the last one to write looks again.
    fn set_slots(&self) {
        loop {
            let slots = self.count_slots();
            let before = self.slots.swap(slots as u64, Ordering::AcqRel) as usize;
            for slot in slots..before {
                let drained = self.pages.zone().drain(Slot(slot));
                debug_assert!(drained.is_ok(), "the zone has as many");
            }
            if slots == self.count_slots() {
                return;
            }
        }
    }

    fn count_slots(&self) -> usize {
        let slots = (self.count_online() / OF_SLOT).clamp(1, SLOTS);
        if slots.is_power_of_two() { slots } else { slots.next_power_of_two() / 2 }
    }

    /// Has the zone take a huge frame more, or an aligned pair of them; the first ones that it does not have. The system is
    /// asked for huge pages, if that is said. One call at a time.
    pub(crate) fn grow(&self, pair: bool, in_huge_pages: bool) -> Grown {
        let (count, stride) = if pair { (2, EVEN) } else { (1, u64::MAX) };
        let all = self.pages.zone().zone().frames / Base4K::HUGE_FRAMES;
        for (at, word) in self.resident.iter().enumerate() {
            let absent = !word.load(Ordering::Acquire);
            let run = if pair { absent & absent >> 1 } else { absent } & stride;
            let first = at * WORD + run.trailing_zeros() as usize;
            if run != 0 && first + count <= all {
                let start = self.start(first);
                // SAFETY: the addresses are the segment's.
                if !unsafe { system::allow(start, count * HUGE) } {
                    return Grown::Refused;
                }
                if in_huge_pages {
                    // SAFETY: as above.
                    unsafe { system::prefer_huge_pages(start, count * HUGE) };
                    (first..first + count).for_each(|huge| self.is_whole_again(huge));
                }
                word.fetch_or(((1 << count) - 1) << run.trailing_zeros(), Ordering::Relaxed);
                let online = self.pages.zone().online(HugeId(first), count);
                debug_assert!(online.is_ok(), "{online:?}: what has no memory is offline");
                self.set_slots();
                return Grown::Yes;
            }
        }
        Grown::Full
    }

    /// The huge frames that may have memory, the last one first.
    fn resident(&self) -> impl Iterator<Item = usize> {
        let words = self.resident.iter().enumerate().rev();
        words.filter(|(_, word)| word.load(Ordering::Relaxed) != 0).flat_map(|(at, word)| {
            let word = word.load(Ordering::Relaxed);
            (0..WORD).rev().filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * WORD + bit)
        })
    }

    fn is_free(&self, huge: usize) -> bool {
        self.pages.zone().free_in_huge(HugeId(huge)) == Base4K::HUGE_FRAMES
    }

    /// How many huge frames may have memory.
    pub(crate) fn count_online(&self) -> usize {
        self.resident.iter().map(|word| word.load(Ordering::Relaxed).count_ones() as usize).sum()
    }

    /// Each word of *used* of a huge frame, with its first page.
    fn words(&self, huge: usize) -> impl Iterator<Item = (usize, &AtomicU64)> {
        let words = self.used.iter().enumerate().skip(huge * WORDS).take(WORDS);
        words.map(|(at, word)| (at * WORD, word))
    }

    /// Which of the pages of a word are free, and have memory.
    fn idle(&self, (first, word): (usize, &AtomicU64)) -> u64 {
        let used = word.load(Ordering::Relaxed);
        if used == 0 { 0 } else { self.pages.zone().free_map(FrameId(first)) & used }
    }

    /// How many pages of a huge frame are free, and have memory, if so many are free.
    fn count_idle(&self, huge: usize, free: usize) -> usize {
        let count = |idle: u64| idle.count_ones() as usize;
        match free {
            0 => 0,
            Base4K::HUGE_FRAMES => {
                self.words(huge).map(|(_, word)| count(word.load(Ordering::Relaxed))).sum()
            }
            _ => self.words(huge).map(|word| count(self.idle(word))).sum(),
        }
    }

    /// What the segment has.
    pub(crate) fn survey(&self) -> Survey {
        self.resident().fold(Survey::default(), |all, huge| {
            let free = self.pages.zone().free_in_huge(HugeId(huge));
            let idle = self.count_idle(huge, free);
            all.plus(Survey { in_use: Base4K::HUGE_FRAMES - free, idle })
        })
    }

    /// Gives idle pages back to the system, `most` or a few more: huge frames that are free as a whole first, and then runs of
    /// at least `least` pages. What may be given from then on is left in `most`.
    pub(crate) fn give_back(&self, most: &mut Most, least: usize, cpu: usize) {
        let _given = self.given.take(system::wait);
        self.give_each(most, |huge, most| self.give(huge, most));
        self.set_slots();
        let slot = Slot(self.slot(cpu));
        self.give_each(most, |huge, most| self.give_part(huge, least, slot, most));
    }

    /// Gives of one huge frame after the other. `None` of one says that the system does not take it: some of it is locked into
    /// memory.
    fn give_each(&self, most: &mut Most, give: impl Fn(usize, &mut Most) -> Option<()>) {
        let mut refusals = 0;
        for huge in self.resident() {
            if most.is_reached() || refusals == REFUSALS {
                return;
            }
            let before = most.pages;
            match give(huge, most) {
                None => refusals += 1,
                Some(()) if most.pages < before => refusals = 0,
                Some(()) => {}
            }
        }
    }

    /// Gives a huge frame back, if it is free and any of its pages have memory.
    fn give(&self, huge: usize, most: &mut Most) -> Option<()> {
        let zone = self.pages.zone();
        let idle = if self.is_free(huge) { self.count_idle(huge, Base4K::HUGE_FRAMES) } else { 0 };
        if idle == 0 || zone.offline(HugeId(huge), 1).is_err() {
            return Some(());
        }
        let start = self.start(huge);
        // SAFETY: nobody has a frame of what is offline, and nobody puts it back as long as its bit is set (invariant 2).
        if !unsafe { system::discard(start, HUGE) } {
            let online = zone.online(HugeId(huge), 1);
            debug_assert!(online.is_ok(), "{online:?}: it was taken offline");
            return None;
        }
        most.less(idle);
        self.words(huge).for_each(|(_, word)| word.store(0, Ordering::Relaxed));
        if let Some(word) = self.resident.get(huge / WORD) {
            word.fetch_and(!(1 << (huge % WORD)), Ordering::Release);
        }
        Some(())
    }

    /// Gives back the idle pages of a huge frame that is in use, in runs of at least `least`.
    fn give_part(&self, huge: usize, least: usize, slot: Slot, most: &mut Most) -> Option<()> {
        for (first, word) in self.words(huge) {
            let idle = self.idle((first, word));
            if idle != 0 && (least == 1 || idle & idle >> 1 & idle >> 2 & idle >> 3 != 0) {
                for (bit, count) in runs(idle).filter(|&(_, count)| count >= least) {
                    if most.is_reached() {
                        return Some(());
                    }
                    let bits = u64::MAX >> (WORD - count) << bit;
                    let frames = FrameId(first + bit)..FrameId(first + bit + count);
                    let given = self.give_run(frames, (word, bits), slot)?;
                    if given > 0 {
                        self.is_in_parts(huge);
                    }
                    most.less(given);
                }
            }
        }
        Some(())
    }

    /// The system is to leave out what this huge frame lacks from now on.
    fn is_in_parts(&self, huge: usize) {
        let Some(word) = self.in_parts.get(huge / WORD) else { return };
        let is_known = word.load(Ordering::Relaxed) >> (huge % WORD) & 1 == 1;
        if is_known || COUNT_IN_PARTS.load(Ordering::Relaxed) >= IN_PARTS {
            return;
        }
        word.fetch_or(1 << (huge % WORD), Ordering::Relaxed);
        COUNT_IN_PARTS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the addresses are the segment's.
        unsafe { system::avoid_huge_pages(self.start(huge), HUGE) };
    }

    /// The system may provide a huge page for this huge frame again.
    fn is_whole_again(&self, huge: usize) {
        let Some(word) = self.in_parts.get(huge / WORD) else { return };
        if word.fetch_and(!(1 << (huge % WORD)), Ordering::Relaxed) >> (huge % WORD) & 1 == 1 {
            COUNT_IN_PARTS.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The address of a huge frame.
    fn start(&self, huge: usize) -> NonNull<u8> {
        self.pages.address(PageId((huge << Base4K::HUGE_ORDER) as u32))
    }

    /// Gives a run of pages back, if they are free still. They are this call's own meanwhile. Returns how many. `None`: the system
    /// does not take them.
    fn give_run(
        &self,
        frames: Range<FrameId>,
        (word, bits): (&AtomicU64, u64),
        slot: Slot,
    ) -> Option<usize> {
        let (zone, count) = (self.pages.zone(), bits.count_ones() as usize);
        let request = RangeRequest::new(count, Class::MOVABLE, slot).at(frames.start);
        if zone.alloc_range(request).is_err() {
            return Some(0);
        }
        let start = self.pages.address(PageId(frames.start.0 as u32));
        // SAFETY: the pages were allocated just now, and nobody has written to them since.
        let given = unsafe { system::discard(start, count * PAGE) };
        if given {
            word.fetch_and(!bits, Ordering::Relaxed);
        }
        let freed = zone.free_range(frames, slot);
        debug_assert!(freed.is_ok(), "{freed:?}: they were allocated");
        given.then_some(count)
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

/// The runs of ones of a word: where each begins, and how long it is.
fn runs(mut word: u64) -> impl Iterator<Item = (usize, usize)> {
    iter::from_fn(move || {
        let first = word.trailing_zeros();
        let count = word.checked_shr(first)?.trailing_ones();
        word &= u64::MAX.checked_shl(first + count).unwrap_or(0);
        Some((first as usize, count as usize))
    })
}

/// Says of pages that they may hold something.
fn set_used(word: &AtomicU64, bits: u64) {
    // Mostly they did before.
    if word.load(Ordering::Relaxed) & bits != bits {
        word.fetch_or(bits, Ordering::Relaxed);
    }
}
