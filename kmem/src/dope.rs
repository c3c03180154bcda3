//! The dope vector: from an address to its vmblk.
//!
//! ```text
//!   dope     │ 0..1 │ 1..4 │ 1..4 │ 1..4 │ none │ …        a word for each 4 MiB of addresses
//!              │      │
//!   range    │ vmblk│ vmblk              │ free │ …
//!
//!   vmblk    │ descriptors │ data pages                 │   4 pages of descriptors for each 4 MiB
//! ```
//!
//! 1. The words of a vmblk are alike: its first 4 MiB, and how many. Those of addresses that are lost have no vmblk: pages
//!    of descriptors are mapped there that the address space did not let go.
//! 2. A word is set after the descriptors are mapped and are zero, and cleared before they are unmapped. Whoever has a page
//!    of the vmblk may read it without a lock.
//!
//! Section 3.3.4 and figure 6 of the paper. There a vmblk has 4 MiB; here one that was made for a span which is larger than
//! that has as many as it needs.

use woodlot_frame::atomics::{AtomicU64, Ordering};

use crate::page::{Descriptor, PageId};
use crate::size::PAGE;

/// Bytes of the addresses that a word of the dope vector stands for: of a vmblk, or of a part of a larger one.
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
pub const VMBLK: usize = 4 << 20;
/// The same for the checkers, for which each descriptor that is made is several steps.
#[cfg(any(woodlot_loom, woodlot_explore))]
pub const VMBLK: usize = 4 * PAGE;
/// log2 of the pages of as much.
const PAGES_LOG: u32 = (VMBLK / PAGE).trailing_zeros();
/// Pages of descriptors for as much.
const DESCRIPTOR_PAGES: usize = (VMBLK / PAGE * size_of::<Descriptor>()).div_ceil(PAGE);
/// Pages for data in as much.
const DATA_PAGES: usize = VMBLK / PAGE - DESCRIPTOR_PAGES;

/// An entry of the dope vector. All zero is free addresses.
#[derive(Default)]
#[repr(transparent)]
pub struct Dope(AtomicU64);

const COUNT_AT: u32 = 32;
/// The word of addresses that nobody has, and that are not free either.
const LOST: u64 = 1;

/// A vmblk: descriptors of pages, and these pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Vmblk {
    /// Its first 4 MiB, counted from the begin of the range.
    first: u32,
    /// How many such parts it has; at least one.
    count: u32,
}

impl Vmblk {
    /// The number of the page that it begins with: the first one of the descriptors.
    pub(crate) fn start(self) -> PageId {
        PageId(self.first << PAGES_LOG)
    }

    pub(crate) fn descriptor_pages(self) -> usize {
        self.count as usize * DESCRIPTOR_PAGES
    }

    /// The first page for data.
    pub(crate) fn data(self) -> PageId {
        self.start().plus(self.descriptor_pages())
    }

    /// All of its pages.
    pub(crate) fn pages(self) -> usize {
        (self.count as usize) << PAGES_LOG
    }

    pub(crate) fn data_pages(self) -> usize {
        self.count as usize * DATA_PAGES
    }

    /// The page behind the last one.
    pub(crate) fn end(self) -> PageId {
        PageId((self.first + self.count) << PAGES_LOG)
    }

    fn word(self) -> u64 {
        u64::from(self.count) << COUNT_AT | u64::from(self.first)
    }

    fn from_word(word: u64) -> Option<Vmblk> {
        let (first, count) = (word as u32, (word >> COUNT_AT) as u32);
        (count != 0).then_some(Vmblk { first, count })
    }
}

/// What a new vmblk must look like, for a block of pages that fits no old one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    /// 4 MiB each.
    count: usize,
    /// The page in the vmblk at which the block may begin.
    pub(crate) offset: usize,
}

impl Shape {
    /// For so many pages at a multiple of `align` bytes, a power of two.
    pub(crate) fn new(pages: usize, align: usize) -> Shape {
        let align = (align / PAGE).clamp(1, 1 << PAGES_LOG);
        let mut count = pages.div_ceil(DATA_PAGES);
        loop {
            let offset = (count * DESCRIPTOR_PAGES + align - 1) & !(align - 1);
            if offset + pages <= count << PAGES_LOG {
                return Shape { count, offset };
            }
            count += 1;
        }
    }
}

/// The whole dope vector.
#[derive(Clone, Copy)]
pub(crate) struct Dopes<'a>(&'a [Dope]);

impl<'a> Dopes<'a> {
    /// `None`, if there are more pages than have numbers.
    pub(crate) fn new(words: &'a [Dope]) -> Option<Dopes<'a>> {
        (words.len() < 1 << (u32::BITS - PAGES_LOG)).then_some(Dopes(words))
    }

    /// The vmblk of a page, if it lies in one.
    #[inline]
    pub(crate) fn of(self, page: usize) -> Option<Vmblk> {
        let word = self.0.get(page >> PAGES_LOG)?.0.load(Ordering::Acquire);
        Vmblk::from_word(word)
    }

    /// The first addresses that are free, and long enough, and whose first page is right.
    pub(crate) fn room(self, shape: Shape, is_right: impl Fn(PageId) -> bool) -> Option<Vmblk> {
        let mut free = 0;
        for (at, word) in self.0.iter().enumerate() {
            free = if word.0.load(Ordering::Relaxed) == 0 { free + 1 } else { 0 };
            if free >= shape.count {
                let first = (at + 1 - shape.count) as u32;
                let vmblk = Vmblk { first, count: shape.count as u32 };
                if is_right(vmblk.start()) {
                    return Some(vmblk);
                }
            }
        }
        None
    }

    /// The addresses are a vmblk's from now on.
    pub(crate) fn set(self, vmblk: Vmblk) {
        self.store(vmblk, vmblk.word());
    }

    /// The addresses are free from now on.
    pub(crate) fn clear(self, vmblk: Vmblk) {
        self.store(vmblk, 0);
    }

    /// The addresses are nobody's from now on, and no vmblk will have them.
    pub(crate) fn lose(self, vmblk: Vmblk) {
        self.store(vmblk, LOST);
    }

    fn store(self, vmblk: Vmblk, value: u64) {
        let words = self.0.iter().skip(vmblk.first as usize).take(vmblk.count as usize);
        words.for_each(|word| word.0.store(value, Ordering::Release));
    }

    /// The vmblks, in order.
    pub(crate) fn all(self) -> impl Iterator<Item = Vmblk> + 'a {
        let vmblks = (0..self.0.len()).map(move |at| (at, self.of(at << PAGES_LOG)));
        vmblks.filter_map(|(at, vmblk)| vmblk.filter(|vmblk| vmblk.first as usize == at))
    }
}
