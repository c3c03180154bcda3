//! Page descriptors: what is known of each page.
//!
//! ```text
//!   links   63             32 31              0
//!   whole   │ the list behind it               │    of a page that is a block, while it is free
//!   slab    │ page before      │ page behind       │    in the list of slabs with as many free blocks; 0: none
//!   inside  │ 0                                    │
//!   span    │ 0                │ pages             │
//!   first   │ span before      │ span behind       │    of a free span of addresses: in the list of such spans
//!   last    │ 0                │ first page        │    of a free span of several pages
//!
//!   state   63      48 47      32 31      16 15     8 7      0
//!   slab    │ fresh     │ head      │ free      │ kind   │ size   │
//!   whole   │ page                  │ out, used │ kind   │ size   │
//!   inside  │ 0                     │ out       │ kind, before │ size   │    before: pages of the slab before this one
//!   first   │ pages                 │ 0         │ kind   │ 0      │
//!   others  │ 0                                 │ kind   │ 0      │
//! ```
//!
//! 1. A page that nobody has from this allocator has a descriptor of zeros, or the boundary tag of a free span.
//! 2. *size* is one more than the number of the size of a slab's blocks, and 0 where there is no slab: so the first byte
//!    says which blocks a slab has, and *before*, which is 0 in other pages, where in the slab the page lies. *kind*, *before* and *size* change only while nobody has a block of the page, so that whoever has one may read them without
//!    a lock. All else belongs to the holder of the lock of the slab's size.
//! 3. *free* counts free blocks of a slab. *head* is 1 + the offset / 16 of the first block of its free list, or 0.
//!    *fresh* is the offset / 16 behind the last block that was ever handed out: what lies there is free, and on no list.
//! 4. Page numbers in *links* of lists are one more than the page's.
//! 5. *whole* is the only page of a slab of one block. The lists link such a block through its descriptor, so that the page
//!    itself is not touched while it is free. *kind* is that of a slab.
//! 6. *out* says that a block of a page or more is not free: in the descriptor of the page if it is one, and in that of the
//!    first page that begins in the block if it is more, which is no other block's. It belongs to whoever has the block.
//! 7. *used* says that a block that is a page was freed since the page came: somebody may have written to it.
//! 8. *first* and *last* are the boundary tags of a layer of addresses, and belong to the holder of its lock.
//!
//! Sections 3.3.3 and 3.3.4, and figure 5 of the paper.

use core::ptr::NonNull;

use woodlot_frame::atomics::{AtomicU64, Ordering};

use crate::size::{MAX_PAGES, PAGE, SizeId};

/// The number of a page, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct PageId(pub u32);

impl PageId {
    /// The page `count` pages behind.
    pub const fn plus(self, count: usize) -> PageId {
        PageId(self.0.wrapping_add(count as u32))
    }

    /// As a field of *links*.
    fn link(page: Option<PageId>) -> u64 {
        page.map_or(0, |page| u64::from(page.0) + 1)
    }

    fn from_link(link: u64) -> Option<PageId> {
        (link & LINK).checked_sub(1).map(|page| PageId(page as u32))
    }
}

const LINK_BITS: u32 = 32;
const LINK: u64 = (1 << LINK_BITS) - 1;

/// What is known of one page. All zero is a page that is not in use.
#[derive(Default)]
#[repr(C)]
pub struct Descriptor {
    /// Atomics of a checker are no words: what lists keep in a descriptor lies beside them.
    #[cfg(any(woodlot_loom, woodlot_explore, woodlot_shuttle))]
    link: core::cell::UnsafeCell<u64>,
    links: AtomicU64,
    state: AtomicU64,
}

// SAFETY: all but the link are atomics, and the link is that of whoever has the block.
#[cfg(any(woodlot_loom, woodlot_explore, woodlot_shuttle))]
unsafe impl Sync for Descriptor {}

#[cfg(not(any(woodlot_loom, woodlot_explore, woodlot_shuttle)))]
const _: () = assert!(size_of::<Descriptor>() == 16);

/// What a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Not in use by this allocator.
    None,
    /// The first page of a slab of blocks of this size.
    Slab(SizeId),
    /// Another page of a slab of blocks of this size, so many pages behind the first one.
    Inside(usize, SizeId),
    /// The first page of a span of so many pages that is one block.
    Span(usize),
}

const KIND_SLAB: u64 = 1;
const KIND_INSIDE: u64 = 2;
const KIND_SPAN: u64 = 3;
const KIND_FIRST: u64 = 4;
const KIND_LAST: u64 = 5;
const KIND_AT: u32 = 8;
const KIND: u64 = (1 << (BEFORE_AT - KIND_AT)) - 1;
const BEFORE_AT: u32 = 11;
const BEFORE: u64 = (1 << (FREE_AT - BEFORE_AT)) - 1;
const _: () = assert!(KIND_LAST <= KIND && MAX_PAGES as u64 - 1 <= BEFORE);
const PAGE_AT: u32 = 32;
const OUT: u64 = 1 << 16;
const USED: u64 = 1 << 17;

/// The counts of a slab: the state of its first page, in the hands of the layer. It is one word there too: a processor that
/// loads together what was stored in parts waits until all stores before have reached the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Counts(u64);

/// *kind*, *before* and *size*.
const FIXED: u64 = (1 << FREE_AT) - 1;
const FREE_AT: u32 = 16;
const HEAD_AT: u32 = 32;
const FRESH_AT: u32 = 48;

impl Counts {
    pub(crate) fn free(self) -> u16 {
        (self.0 >> FREE_AT) as u16
    }

    pub(crate) fn head(self) -> u16 {
        (self.0 >> HEAD_AT) as u16
    }

    pub(crate) fn fresh(self) -> u16 {
        (self.0 >> FRESH_AT) as u16
    }

    pub(crate) fn set_free(&mut self, free: u16) {
        self.set(FREE_AT, free);
    }

    pub(crate) fn set_head(&mut self, head: u16) {
        self.set(HEAD_AT, head);
    }

    pub(crate) fn set_fresh(&mut self, fresh: u16) {
        self.set(FRESH_AT, fresh);
    }

    fn set(&mut self, at: u32, field: u16) {
        self.0 = self.0 & !(0xffff << at) | u64::from(field) << at;
    }
}

/// The boundary tag of a free span of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tag {
    /// The first of so many pages.
    First(usize),
    /// The last of several pages, the first of which is this.
    Last(PageId),
}

const PAGES_AT: u32 = 32;

/// *size* of a state.
#[inline(always)]
fn slab_size(state: u64) -> Option<SizeId> {
    (state as u8).checked_sub(1).map(SizeId::from_byte)
}

/// *kind* of a state.
fn kind(state: u64) -> u64 {
    state >> KIND_AT & KIND
}

/// *before* of a state.
#[inline(always)]
fn before(state: u64) -> usize {
    (state >> BEFORE_AT & BEFORE) as usize
}

/// Who reads is who wrote, holds the lock, or has a block (invariant 2).
const ORDERING: Ordering = Ordering::Relaxed;

impl Descriptor {
    /// The two words of a descriptor in another memory, as they lie there: of a crash dump, or of another process.
    pub fn of_words([links, state]: [u64; 2]) -> Descriptor {
        Descriptor {
            #[cfg(any(woodlot_loom, woodlot_explore, woodlot_shuttle))]
            link: core::cell::UnsafeCell::new(links),
            links: AtomicU64::new(links),
            state: AtomicU64::new(state),
        }
    }

    /// Makes descriptors of pages that nobody has, in memory with any contents.
    ///
    /// # Safety
    /// The memory has room for so many, and is the caller's.
    #[cfg(not(any(woodlot_loom, woodlot_explore)))]
    pub(crate) unsafe fn init(first: NonNull<Descriptor>, count: usize) {
        // SAFETY: as the caller says, and all zero is such a descriptor.
        unsafe { first.write_bytes(0, count) };
    }

    /// The same for atomics of loom, whose zero is not all zero.
    ///
    /// # Safety
    /// As above.
    #[cfg(woodlot_loom)]
    pub(crate) unsafe fn init(first: NonNull<Descriptor>, count: usize) {
        // SAFETY: as the caller says.
        (0..count).for_each(|at| unsafe { first.add(at).write(Descriptor::default()) });
    }

    /// The same for the explorer, whose states have what was there before.
    ///
    /// # Safety
    /// As above.
    #[cfg(woodlot_explore)]
    pub(crate) unsafe fn init(first: NonNull<Descriptor>, count: usize) {
        // SAFETY: as the caller says, and any contents are a descriptor.
        (0..count).for_each(|at| unsafe { first.add(at).as_ref().set(Kind::None) });
    }

    /// Where the byte with the size of a slab's blocks lies, one more than the number of the size; 0 where there is no
    /// slab. For those who look it up by code of their own.
    #[cfg(target_endian = "little")]
    pub const SIZE_AT: usize = core::mem::offset_of!(Descriptor, state);

    /// What the page is.
    #[inline]
    pub fn kind(&self) -> Kind {
        let (state, links) = (self.state.load(ORDERING), self.links.load(ORDERING));
        match (kind(state), slab_size(state)) {
            (KIND_SLAB, Some(size)) => Kind::Slab(size),
            (KIND_INSIDE, Some(size)) => Kind::Inside(before(state), size),
            (KIND_SPAN, _) => Kind::Span((links & LINK) as usize),
            _ => Kind::None,
        }
    }

    /// The size of a slab's blocks, if the page is one of a slab, and how many bytes of the slab lie before the page: what a free
    /// without a size looks at.
    #[inline(always)]
    pub(crate) fn slab(&self) -> Option<(SizeId, usize)> {
        let state = self.state.load(ORDERING);
        slab_size(state).map(|size| (size, before(state) * PAGE))
    }

    /// Makes the page, which is this one, a block of this size: what stands for it in the lists.
    #[inline]
    pub(crate) fn set_whole(&self, id: SizeId, page: PageId) -> NonNull<u8> {
        let fixed = KIND_SLAB << KIND_AT | (id.index() as u64 + 1);
        self.state.store(u64::from(page.0) << PAGE_AT | fixed, ORDERING);
        self.token()
    }

    /// What stands in the lists for a block that is a page: the descriptor, the first word of which is theirs.
    #[inline]
    pub(crate) fn token(&self) -> NonNull<u8> {
        NonNull::from(self).cast()
    }

    /// The descriptor of which this is the [`token`](Self::token).
    ///
    /// # Safety
    /// It is one, and the descriptor lives for `'a`.
    #[inline]
    pub(crate) unsafe fn of_token<'a>(token: NonNull<u8>) -> &'a Descriptor {
        // SAFETY: as the caller says.
        unsafe { token.cast::<Descriptor>().as_ref() }
    }

    /// The page of a block that is a whole one.
    #[inline]
    pub(crate) fn page(&self) -> PageId {
        PageId((self.state.load(ORDERING) >> PAGE_AT) as u32)
    }

    /// Says that a block of a page or more is handed out. The page, if it is a whole one.
    #[inline]
    pub(crate) fn hand_out(&self) -> PageId {
        let state = self.state.load(ORDERING);
        self.state.store(state | OUT, ORDERING);
        PageId((state >> PAGE_AT) as u32)
    }

    /// Says that a block of this size, which is this page, is free: what stands for it in the lists. `None`, and nothing has
    /// changed, if there is no such block in use.
    #[inline]
    pub(crate) fn take_back_whole(&self, id: SizeId) -> Option<NonNull<u8>> {
        let state = self.state.load(ORDERING);
        let is_out = state & (OUT | FIXED) == OUT | KIND_SLAB << KIND_AT | (id.index() as u64 + 1);
        is_out.then(|| {
            self.state.store(state & !OUT | USED, ORDERING);
            self.token()
        })
    }

    /// Says that it is free. False: it is so already.
    #[inline]
    pub(crate) fn take_back(&self) -> bool {
        let state = self.state.load(ORDERING);
        self.state.store(state & !OUT, ORDERING);
        state & OUT != 0
    }

    /// Was the block freed since its page came?
    pub(crate) fn is_used(&self) -> bool {
        self.state.load(ORDERING) & USED != 0
    }

    /// Is it handed out?
    pub(crate) fn is_out(&self) -> bool {
        self.state.load(ORDERING) & OUT != 0
    }

    /// Makes a page that was a block none. False: it was none.
    #[inline]
    pub(crate) fn unset_whole(&self, id: SizeId) -> bool {
        let is_whole = self.slab() == Some((id, 0));
        if is_whole {
            self.state.store(u64::from(self.page().0) << PAGE_AT, ORDERING);
        }
        is_whole
    }

    #[inline]
    pub(crate) fn set(&self, kind: Kind) {
        let of_slab = |kind, size: SizeId| kind << KIND_AT | (size.index() as u64 + 1);
        let (state, links) = match kind {
            Kind::None => (0, 0),
            Kind::Slab(size) => (of_slab(KIND_SLAB, size), 0),
            Kind::Inside(pages, size) => {
                (of_slab(KIND_INSIDE, size) | (pages as u64 & BEFORE) << BEFORE_AT, 0)
            }
            Kind::Span(pages) => (KIND_SPAN << KIND_AT, pages as u64 & LINK),
        };
        self.links.store(links, ORDERING);
        self.state.store(state, ORDERING);
    }

    /// The boundary tag, if the page is the first or the last one of a free span.
    pub(crate) fn tag(&self) -> Option<Tag> {
        let state = self.state.load(ORDERING);
        match kind(state) {
            KIND_FIRST => Some(Tag::First((state >> PAGES_AT) as usize)),
            KIND_LAST => Some(Tag::Last(PageId(self.links.load(ORDERING) as u32))),
            _ => None,
        }
    }

    /// Makes the page the first or the last one of a free span, on no list.
    pub(crate) fn set_tag(&self, tag: Tag) {
        let (state, links) = match tag {
            Tag::First(pages) => ((pages as u64) << PAGES_AT | KIND_FIRST << KIND_AT, 0),
            Tag::Last(first) => (KIND_LAST << KIND_AT, u64::from(first.0)),
        };
        self.links.store(links, ORDERING);
        self.state.store(state, ORDERING);
    }

    /// The counts of a slab, of which this is the first page.
    #[inline]
    pub(crate) fn counts(&self) -> Counts {
        Counts(self.state.load(ORDERING))
    }

    /// Sets what [`counts`](Self::counts) returned, and who has them has changed.
    #[inline]
    pub(crate) fn set_counts(&self, counts: Counts) {
        self.state.store(counts.0, ORDERING);
    }

    /// The slabs before and behind in the list.
    #[inline]
    pub(crate) fn links(&self) -> (Option<PageId>, Option<PageId>) {
        let links = self.links.load(ORDERING);
        (PageId::from_link(links >> LINK_BITS), PageId::from_link(links))
    }

    #[inline]
    pub(crate) fn set_links(&self, before: Option<PageId>, behind: Option<PageId>) {
        self.links.store(PageId::link(before) << LINK_BITS | PageId::link(behind), ORDERING);
    }
}
