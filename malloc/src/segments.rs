//! The heap's addresses: one range, in segments that are opened when they are needed.
//!
//! ```text
//!   │ descriptors, 16 bytes for each page │ segment 0: 1 GiB, and 3 unused │ segment 1: 4 GiB │ …     reserved: 1 TiB, or what there is
//!   └ mapped as far as segments are open  └ base: mapped as far as a segment has grown
//! ```
//!
//! 1. Segments below `open` are made, and stay. Pages below `pages` have a descriptor; what is unused of segment 0 is in no zone.
//! 2. Whoever has the lock `range` opens segments.
//!
//! A segment of 4 GiB takes 0.25 MiB of metadata and some 0.1 ms to make, and the first one a quarter of that: a small program
//! pays for no more; reserved addresses cost nothing. One range means that the descriptor of an address is found without a search.
//!
//! *Progress*: lock-free, but for opening a segment and giving memory back.

use core::cell::UnsafeCell;
use core::mem::{MaybeUninit, offset_of};
use core::ptr::NonNull;

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_kmem::{Descriptor, Lock, NoPages, PAGE, PageId, Pages};

use crate::hot::HOT;
use crate::segment::{Grown, HUGE, Most, Segment, Survey};
use crate::{marks, system};

/// Pages from a segment to the next one, and those that the first one has.
const SEGMENT: usize = (4 << 30) / PAGE;
const FIRST: usize = (1 << 30) / PAGE;
/// The most segments.
const SEGMENTS: usize = 256;
/// The fewest bytes of a range.
const LEAST: usize = 16 << 20;
/// The first page's address is a multiple of this, so that the largest block of a zone is aligned to its size.
pub(crate) const ALIGN: usize = 4 << 20;
/// Pages that are freed at a time, each by itself.
const SOME: usize = 32;
/// Counters that keep CPUs apart.
const COUNTERS: usize = 64;
/// A counter that has seen so many freed pages, 4 MiB, tells. Somebody looks what could be given back when all have told of as
/// many, and of this part of the heap: a look goes through all of it.
const LOOK: u64 = 1024;
const LOOK_PART: usize = 16;
/// At least so many idle pages are kept, 64 MiB, and this part of those in use. What is given back and needed again
/// takes the system 0.2 ms a huge frame, and more than twice as much in small pages. glibc comes to keep 64 MiB as well.
const KEEP: usize = (64 << 20) / PAGE;
const KEEP_PART: usize = 8;
/// A run of so many pages goes by itself. Shorter ones stay until twice as many pages are idle: the system takes as long for
/// one as for a run, and where pages are freed at random, the runs come to be long.
const RUN: usize = 4;
/// The same where the heap grows, as the idle ones are not what is asked for; and where nothing happens for a while.
const SPARE: usize = (8 << 20) / PAGE;
const SPARE_PART: usize = 64;
/// The global layer is flushed each time that so many pages fewer are in use, and this part of the most that were. Its
/// blocks lie in pages each of its own, where blocks are freed at random. With a cyclical load of 256 MiB, 162 MiB stayed when
/// all was free with a part of 2, and 122 with one of 8.
const FALL: usize = (8 << 20) / PAGE;
const FALL_PART: usize = 8;
/// What goes at a time when nothing happens: half of what there is or so much, 32 MiB. If all pages are needed again, that
/// takes the system some 5 ms of each second. A run takes some 2 µs of the call that gives back, which makes others that give
/// back or fork wait.
const DECAY: Most = Most { pages: (32 << 20) / PAGE, runs: 1024 };
/// A heap of so many huge frames, 128 MiB, grows by one for each so many, and in huge pages: what is not used yet is less
/// than a sixtieth.
const MANY: usize = 64;

/// A counter of freed pages, on a cache line of its own. Threads that meet lose counts.
#[repr(align(128))]
struct Freed(AtomicU64);

/// The reserved range.
struct Range {
    /// Descriptors, and the first page. `None`: not reserved yet.
    starts: Option<(NonNull<Descriptor>, NonNull<u8>)>,
    /// Pages that the range has.
    pages: usize,
}

// SAFETY: addresses, which the holder of the lock uses.
unsafe impl Send for Range {}

/// The pages of the heap.
pub(crate) struct Segments {
    /// Open segments.
    open: AtomicU64,
    /// How often a segment has grown.
    grown: AtomicU64,
    /// Where pages were found last.
    last: AtomicU64,
    segments: [UnsafeCell<MaybeUninit<Segment>>; SEGMENTS],
    range: Lock<Range>,
    /// Held by whoever looks what could be given back.
    look: Lock<()>,
    freed: [Freed; COUNTERS],
    /// Freed pages that nobody has looked at, and how many of them are enough for a look.
    unseen: AtomicU64,
    enough: AtomicU64,
    /// Pages by which the heap has grown since a look.
    gained: AtomicU64,
}

// SAFETY: segments are shared once they are open, and written before that by the holder of the lock.
unsafe impl Sync for Segments {}

/// Where the words of the heap's addresses lie, in bytes from the begin: for whoever reads them from outside.
impl Segments {
    /// The address of the bits of segment 0, and the bytes from there to those of the next one.
    pub(crate) const RESIDENT: usize = offset_of!(Segments, segments) + Segment::RESIDENT;
    pub(crate) const STRIDE: usize = size_of::<Segment>();
    /// Pages of a segment.
    pub(crate) const SEGMENT: usize = SEGMENT;
}

impl Segments {
    pub(crate) const fn new() -> Segments {
        Segments {
            open: AtomicU64::new(0),
            grown: AtomicU64::new(0),
            last: AtomicU64::new(0),
            segments: [const { UnsafeCell::new(MaybeUninit::uninit()) }; SEGMENTS],
            range: Lock::new(Range { starts: None, pages: 0 }),
            look: Lock::new(()),
            freed: [const { Freed(AtomicU64::new(0)) }; COUNTERS],
            unseen: AtomicU64::new(0),
            enough: AtomicU64::new(LOOK),
            gained: AtomicU64::new(0),
        }
    }

    /// The open segments.
    fn segments(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        let open = self.open.load(Ordering::Acquire) as usize;
        // SAFETY: those below `open` are made, and stay (invariant 1).
        self.segments.iter().take(open).map(|segment| unsafe { (*segment.get()).assume_init_ref() })
    }

    /// Pages of the open segments, the one first where pages were found last.
    fn alloc_open<T>(
        &self,
        mut alloc: impl FnMut(&Segment) -> Result<T, NoPages>,
    ) -> Result<(T, u32), NoPages> {
        let last = self.last.load(Ordering::Relaxed) as usize;
        let all = || self.segments().enumerate();
        for (at, segment) in all().skip(last).chain(all().take(last)) {
            if let Ok(pages) = alloc(segment) {
                if at != last {
                    self.last.store(at as u64, Ordering::Relaxed);
                }
                return Ok((pages, (at * SEGMENT) as u32));
            }
        }
        Err(NoPages)
    }

    /// The same; memory is got if there is none, for so many pages at so large an alignment. With the number of the
    /// segment's first page.
    fn alloc_any<T>(
        &self,
        (count, align): (usize, usize),
        mut alloc: impl FnMut(&Segment) -> Result<T, NoPages>,
    ) -> Result<(T, u32), NoPages> {
        loop {
            let grown = self.grown.load(Ordering::Acquire);
            if let Ok(found) = self.alloc_open(&mut alloc) {
                return Ok(found);
            }
            if !self.grow(grown, count, align) {
                // Somebody may have taken free memory offline to give it back.
                drop(self.look.take(system::wait));
                return self.alloc_open(&mut alloc);
            }
        }
    }

    /// Gets memory for so many pages, unless somebody did who has grown a segment after it was `seen` how often that was.
    /// False: there can be no more.
    #[cold]
    fn grow(&self, seen: u64, count: usize, align: usize) -> bool {
        let mut range = self.range.take(system::wait);
        if self.grown.load(Ordering::Relaxed) != seen {
            return true;
        }
        let pair = count.max(align / PAGE) > HUGE / PAGE;
        let online: usize = self.segments().map(Segment::count_online).sum();
        // What is more than one step is for speed only.
        let steps = 0..=online / MANY;
        let steps = steps.take_while(|_| self.grow_one(&mut range, pair, online >= MANY)).count();
        if steps > 0 {
            let gained = steps * if pair { 2 } else { 1 } * HUGE / PAGE;
            self.gained.fetch_add(gained as u64, Ordering::Relaxed);
            // One look is due.
            self.unseen.store(u64::MAX / 2, Ordering::Relaxed);
            self.grown.store(seen + 1, Ordering::Release);
            return true;
        }
        false
    }

    /// Gets memory for one step, from the first segment that has not all of it.
    fn grow_one(&self, range: &mut Range, pair: bool, in_huge_pages: bool) -> bool {
        let grow = |segment: &Segment| segment.grow(pair, in_huge_pages);
        let tried = self.segments().map(grow).find(|&grown| grown != Grown::Full);
        let opened = || self.segments().next_back().map(grow);
        let grown = tried.or_else(|| self.open_more(range).then(opened).flatten());
        grown == Some(Grown::Yes)
    }

    /// Opens a segment. False: there can be no more.
    fn open_more(&self, range: &mut Range) -> bool {
        let open = self.open.load(Ordering::Relaxed);
        let (at, first) = (open as usize, open as usize * SEGMENT);
        let Some((descriptors, base)) = range.reserve() else { return false };
        let (Some(place), left @ 1..) = (self.segments.get(at), range.pages.saturating_sub(first))
        else {
            return false;
        };
        let mut described = left.min(SEGMENT);
        // SAFETY: the range is reserved for `range.pages` pages and their descriptors, and nobody has this part of it.
        let made = unsafe {
            let (descriptors, base) = (descriptors.add(first), base.add(first * PAGE));
            while !system::allow(descriptors.cast(), described * size_of::<Descriptor>())
                || !marks::open(first, described, range.pages)
            {
                described /= 2;
                if described * PAGE < LEAST {
                    return false;
                }
            }
            let descriptors = NonNull::slice_from_raw_parts(descriptors, described);
            let pages = if at == 0 { described.min(FIRST) } else { described };
            Segment::new(base, pages, descriptors.as_ref())
        };
        let Some(segment) = made else { return false };
        if described < SEGMENT {
            // The system has no more: the range ends here.
            range.pages = first + described;
        }
        // SAFETY: the segment is not open yet, and the lock keeps others from making it.
        unsafe { (*place.get()).write(segment) };
        HOT.words
            .descriptors
            .store(descriptors.as_ptr().expose_provenance() as u64, Ordering::Relaxed);
        HOT.words.base.store(base.as_ptr().expose_provenance() as u64, Ordering::Relaxed);
        HOT.words.pages.store((first + described) as u64, Ordering::Release);
        HOT.words.reach();
        self.open.store(open + 1, Ordering::Release);
        true
    }

    /// Gives free memory to the system, but for so many bytes; returns how many bytes were given.
    pub(crate) fn give_back(&self, keep: usize, cpu: usize) -> usize {
        let _look = self.look.take(system::wait);
        let found = self.survey();
        self.give_back_of(Most { pages: found.over(keep.div_ceil(PAGE)), runs: usize::MAX }, 1, cpu)
            * PAGE
    }

    /// Gives idle pages to the system, in runs of at least `least`. Returns how many were given.
    fn give_back_of(&self, most: Most, least: usize, cpu: usize) -> usize {
        let mut left = most;
        for segment in self.segments().rev() {
            if left.is_reached() {
                break;
            }
            segment.give_back(&mut left, least, cpu);
        }
        most.pages - left.pages
    }

    fn survey(&self) -> Survey {
        self.segments().map(Segment::survey).fold(Survey::default(), Survey::plus)
    }

    /// Counts freed pages. When they are many, somebody is to look what could be given back.
    fn count_freed(&self, count: usize, cpu: usize) {
        let Some(Freed(freed)) = self.freed.get(cpu & (COUNTERS - 1)) else { return };
        let all = freed.load(Ordering::Relaxed) + count as u64;
        freed.store(if all < LOOK { all } else { 0 }, Ordering::Relaxed);
        if all >= LOOK {
            self.unseen.fetch_add(all, Ordering::Relaxed);
        }
    }

    /// Were so many pages freed since somebody looked, or any got from the system, that somebody should look again?
    #[inline]
    pub(crate) fn is_look_due(&self) -> bool {
        self.unseen.load(Ordering::Relaxed) >= self.enough.load(Ordering::Relaxed)
    }

    /// Looks what could be given back. The caller has no lock.
    ///
    /// What the heap has grown by is taken from what it may keep: a heap that grows while pages are free cannot use these.
    /// Returns what there was before; `None`, if the heap is too small to have too much, or somebody else looks.
    pub(crate) fn look(&self, cpu: usize) -> Option<Survey> {
        let _look = self.look.try_take()?;
        self.unseen.store(0, Ordering::Relaxed);
        let grown = self.gained.swap(0, Ordering::Relaxed) as usize;
        let online: usize = self.segments().map(Segment::count_online).sum();
        if online * HUGE / PAGE <= if grown > 0 { SPARE } else { KEEP } {
            return None;
        }
        let found = self.survey();
        let enough = (found.in_use + found.idle) / LOOK_PART;
        self.enough.store(LOOK.max(enough as u64), Ordering::Relaxed);
        let useless = found.idle.saturating_sub(grown).max(found.spare());
        let keep = KEEP.max(found.in_use / KEEP_PART);
        let over = |keep: usize| Most { pages: found.over(keep.min(useless)), runs: usize::MAX };
        let given = self.give_back_of(over(keep), RUN, cpu);
        let more = over(2 * keep);
        self.give_back_of(Most { pages: more.pages.saturating_sub(given), ..more }, 1, cpu);
        Some(found)
    }

    /// Gives a part of the idle pages back: called each second. Returns what there was before, as [`look`](Self::look) does.
    pub(crate) fn decay(&self, cpu: usize) -> Option<Survey> {
        let _look = self.look.try_take()?;
        let found = self.survey();
        let pages = found.over(found.spare()).div_ceil(2).min(DECAY.pages);
        self.give_back_of(Most { pages, ..DECAY }, 1, cpu);
        Some(found)
    }

    /// Takes all locks: before a process forks.
    pub(crate) fn lock(&self) {
        core::mem::forget(self.look.take(system::wait));
        core::mem::forget(self.range.take(system::wait));
        self.segments().for_each(Segment::lock);
    }

    /// Lets go of them, in the parent and in the child.
    ///
    /// # Safety
    /// This thread, or its copy in the parent, has called [`lock`](Self::lock).
    pub(crate) unsafe fn unlock(&self) {
        // SAFETY: as the caller says.
        unsafe {
            self.segments().for_each(|segment| segment.unlock());
            self.range.let_go();
            self.look.let_go();
        }
    }
}

impl Survey {
    /// Idle pages that are kept in any case.
    fn spare(self) -> usize {
        SPARE.max(self.in_use / SPARE_PART)
    }

    /// Idle pages but for so many.
    fn over(self, keep: usize) -> usize {
        self.idle.saturating_sub(keep)
    }

    /// Is the heap larger than what it keeps in any case?
    pub(crate) fn is_large(self) -> bool {
        self.in_use + self.idle > KEEP
    }

    /// Is what it has in use so much less than what it had?
    pub(crate) fn has_fallen_from(self, highest: usize) -> bool {
        highest.saturating_sub(self.in_use) >= FALL.max(highest / FALL_PART)
    }
}

impl Range {
    /// The first descriptor and the first page. The range is reserved if it is not yet: as large as the system allows.
    fn reserve(&mut self) -> Option<(NonNull<Descriptor>, NonNull<u8>)> {
        if self.starts.is_none() {
            let mut pages = SEGMENTS * SEGMENT;
            let start = loop {
                let descriptors = pages * size_of::<Descriptor>();
                match system::reserve(descriptors + ALIGN + pages * PAGE) {
                    Some(start) => break start,
                    None if pages * PAGE / 2 < LEAST => return None,
                    None => pages /= 2,
                }
            };
            // SAFETY: the range has room for the descriptors, the pages, and what aligns them.
            let base = unsafe {
                let behind = start.add(pages * size_of::<Descriptor>());
                behind.add(behind.align_offset(ALIGN))
            };
            self.pages = pages;
            self.starts = Some((start.cast(), base));
        }
        self.starts
    }
}

// SAFETY: each segment hands its pages out once until they are freed, and their numbers and addresses begin where those of
// the segment before end. The descriptors are memory from the system, which is zero.
unsafe impl Pages for Segments {
    fn alloc(&self, count: usize, align: usize, cpu: usize) -> Result<PageId, NoPages> {
        let (page, first) =
            self.alloc_any((count, align), |segment| segment.alloc(count, align, cpu))?;
        Ok(PageId(page.0 + first))
    }

    fn alloc_some(&self, room: &mut [PageId], cpu: usize) -> Result<usize, NoPages> {
        let (count, first) = self.alloc_any((1, PAGE), |segment| segment.alloc_some(room, cpu))?;
        room.iter_mut().take(count).for_each(|page| page.0 += first);
        Ok(count)
    }

    unsafe fn free(&self, first: PageId, count: usize, cpu: usize) {
        let page = first.0 as usize;
        if let Some(segment) = self.segments().nth(page / SEGMENT) {
            // SAFETY: as the caller says.
            unsafe { segment.free(PageId((page % SEGMENT) as u32), count, cpu) };
            self.count_freed(count, cpu);
        }
    }

    unsafe fn free_some(&self, pages: &[PageId], cpu: usize) {
        let segment_of = |page: &PageId| page.0 as usize / SEGMENT;
        // Mostly all of them are of one segment.
        for some in pages.chunk_by(|one, next| segment_of(one) == segment_of(next)) {
            let Some(at) = some.first().map(segment_of) else { continue };
            let mut own = [PageId(0); SOME];
            for some in some.chunks(SOME) {
                let pairs = own.iter_mut().zip(some);
                pairs.for_each(|(own, page)| *own = PageId(page.0 - (at * SEGMENT) as u32));
                if let (Some(segment), Some(own)) = (self.segments().nth(at), own.get(..some.len()))
                {
                    // SAFETY: as the caller says.
                    unsafe { segment.free_some(own, cpu) };
                }
            }
            self.count_freed(some.len(), cpu);
        }
    }

    fn is_zero(&self, first: PageId, count: usize) -> bool {
        let page = first.0 as usize;
        let segment = self.segments().nth(page / SEGMENT);
        segment.is_some_and(|segment| segment.is_zero(page % SEGMENT, count))
    }

    #[inline]
    fn address(&self, page: PageId) -> NonNull<u8> {
        let base = HOT.words.base.load(Ordering::Relaxed) as usize;
        let address = core::ptr::with_exposed_provenance_mut(base + page.0 as usize * PAGE);
        // SAFETY: whoever has a page has it from an open segment, so the base is not 0.
        unsafe { NonNull::new_unchecked(address) }
    }

    #[inline(always)]
    fn find(&self, address: *mut u8) -> Option<(PageId, usize)> {
        // The number of pages first: if there are any, the base is seen that was set before. Without it, null would be page 0.
        let pages = HOT.words.pages.load(Ordering::Acquire) as usize;
        let offset = address.addr().wrapping_sub(HOT.words.base.load(Ordering::Relaxed) as usize);
        let page = offset / PAGE;
        (page < pages).then_some((PageId(page as u32), offset % PAGE))
    }

    #[inline(always)]
    fn descriptor(&self, page: PageId) -> &Descriptor {
        let descriptors = HOT.words.descriptors.load(Ordering::Relaxed) as usize;
        let first = core::ptr::with_exposed_provenance::<Descriptor>(descriptors);
        // SAFETY: the page lies in an open segment, and there is a descriptor for each.
        unsafe { &*first.add(page.0 as usize) }
    }
}
