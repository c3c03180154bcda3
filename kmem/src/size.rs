//! Sizes of blocks, and which one a request gets.
//!
//! ```text
//!   Octaves   16 32 64 128 256 512 1024 2048 4096                                9 sizes, the paper's
//!   Quarters  16 32 48 64 80 96 112 128 160 192 224 256 320 … 3584 4096         28 sizes, four an octave
//!   Wide      … 3584 4096 4608 5120 6144 7168 8192 10240 … 28672 32768          41 sizes, four an octave and one more
//! ```
//!
//! 1. A block's address is a multiple of the largest power of two that divides its size, up to a page.
//! 2. A slab of blocks below a page has 1, 2, 4 or 8 pages, and one of larger blocks up to 32: the fewest that leave at most
//!    a sixteenth of it unused; where none does, as for 28 KiB, it has the most, and an eighth is unused.
//!
//! All of it is computed when the crate is compiled (section 3.3.5: a table indexed by size).

use crate::global::GLOBAL_TARGET;
use crate::list::{MAX_BLOCKS, MIN_BLOCK};
use crate::step::Step;

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// The most pages of a slab.
pub(crate) const MAX_PAGES: usize = 32;
/// The largest block of [`Octaves`] and [`Quarters`]: a page.
pub const MAX_SIZE: usize = PAGE;
/// The largest block of any set.
const WIDEST: usize = 32 << 10;
/// A page, and what a program puts before or behind it: the one size above a page that many programs ask for much of.
const HEADED: usize = PAGE + 512;
/// The most sizes that a set has.
pub const MAX_SIZES: usize = 41;
/// Numbers of sizes are below this, a power of two.
pub const SIZE_IDS: usize = MAX_SIZES.next_power_of_two();
/// Bytes of the blocks that a list has, about.
const LIST_BYTES: usize = 16 << 10;
/// The most blocks of a list, and the bytes of a list that may have more: of 16 B. With 64, 128 and 192 of these, a block of all
/// of memory took 5.7, 5.2 and 5.7 ns, and 4.9, 4.4 and 4.3 to free (`bench kmem worst`, preloaded). The lists that come from
/// the pages at a time fit a cache of 32 KiB with 128.
const LIST_BLOCKS: usize = 64;
const SHORT_LIST_BYTES: usize = 2 << 10;
/// Blocks of a list, where each is a page. Such a list is not touched, so that handing it over is what counts: 4, 8 and 16
/// pages made 62, 46 and 36 ns of a page that one CPU allocates and another one frees, and where 16 made 67 (39 at best), 32 made 47 (30),
/// and 63 no less (`bench kmem producer-consumer`). Linux moves 63 at a time. Histories under shuttle have few pages.
const LIST_PAGES: usize = if cfg!(woodlot_shuttle) { 2 } else { 32 };
/// Bytes of the blocks of a list that are larger than a page, about. A list touches a page of each.
const WIDE_LIST_BYTES: usize = 32 << 10;
/// Bytes of the lists that come from the pages at a time, or go there, if they are no more than [`GLOBAL_TARGET`]. The global
/// layer keeps twice as many, a quarter of a MiB of a size, which the next size cannot have. Of pages it keeps 30 lists, 3.75 MiB,
/// as these go back before another size takes pages.
const LISTS_BYTES: usize = 128 << 10;
/// The smallest size. The table has an entry for each so many bytes.
const GRAIN: usize = 16;
/// Sizes above a page are multiples of this. They have a table of their own, so that the other one stays short.
const WIDE_GRAIN: usize = 512;
const _: () = assert!(MIN_BLOCK <= GRAIN);
/// How many entries it has: for requests of 0, up to 16, up to 32, … bytes.
pub const GRAINS: usize = MAX_SIZE / GRAIN + 1;

/// The number of a size: an index below [`Sizes::COUNT`], and so below [`MAX_SIZES`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(transparent)]
pub struct SizeId(u8);

impl SizeId {
    /// From a descriptor, which has an index that was one; the last one for a larger number.
    #[inline]
    pub(crate) const fn from_byte(byte: u8) -> SizeId {
        let last = MAX_SIZES as u8 - 1;
        SizeId(if byte < last { byte } else { last })
    }

    /// As an index. The compiler knows that it is below [`MAX_SIZES`].
    #[inline]
    pub const fn index(self) -> usize {
        // SAFETY: a table numbers at most so many sizes, and `from_byte` makes no larger number.
        unsafe { core::hint::assert_unchecked((self.0 as usize) < MAX_SIZES) };
        self.0 as usize
    }
}

/// A size of blocks.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Bytes of a block.
    pub bytes: usize,
    /// Blocks of a full list between the layers: the paper's `target`.
    pub target: usize,
    /// Lists that come from the pages, or go there, at a time: the paper's `gbltarget`. The global layer keeps up to
    /// twice as many. Of blocks that are pages, one comes at a time.
    pub lists: usize,
    /// log2 of the pages of a slab.
    pub order: u8,
    /// Blocks of a slab.
    pub blocks: usize,
    /// 2^32 / bytes, rounded up: `offset * reciprocal >> 32` is the block at an offset of a slab.
    pub(crate) reciprocal: u64,
}

impl Size {
    /// The size of which nothing is made: a place of the table that is not used.
    const NONE: Size = Size { bytes: 0, target: 0, lists: 0, order: 0, blocks: 0, reciprocal: 0 };

    pub(crate) const fn new(bytes: usize) -> Size {
        let (mut order, highest) = (0, if bytes > PAGE { MAX_PAGES.ilog2() as u8 } else { 3 });
        while order < highest && (PAGE << order) % bytes * 16 > PAGE << order {
            order += 1;
        }
        let (most, short) = (LIST_BYTES / bytes, SHORT_LIST_BYTES / bytes);
        let target = if bytes == PAGE {
            LIST_PAGES
        } else if bytes > WIDE_LIST_BYTES / 2 {
            2
        } else if bytes > PAGE {
            WIDE_LIST_BYTES / bytes
        } else if most < 4 {
            4
        } else if short > LIST_BLOCKS {
            short
        } else if most > LIST_BLOCKS {
            LIST_BLOCKS
        } else {
            most
        };
        let reciprocal = (1u64 << 32).div_ceil(bytes as u64);
        let lists = LISTS_BYTES / (target * bytes);
        let lists = if bytes == PAGE || lists >= GLOBAL_TARGET { GLOBAL_TARGET } else { lists };
        Size { bytes, target, lists, order, blocks: (PAGE << order) / bytes, reciprocal }
    }

    /// Pages of a slab.
    pub const fn pages(&self) -> usize {
        1 << self.order
    }

    /// Slabs that have so many blocks: a few, for which this is shorter than a division.
    pub(crate) fn slabs_for(&self, blocks: usize) -> usize {
        (0..blocks).find(|slabs| slabs * self.blocks >= blocks).unwrap_or(blocks)
    }

    /// Blocks before an offset of a slab, the one that has it not counted.
    pub(crate) fn blocks_before(&self, offset: usize) -> usize {
        ((offset as u64 * self.reciprocal) >> 32) as usize
    }

    /// The number of the block in its slab that begins at this offset.
    pub(crate) fn block_at(&self, offset: usize) -> Option<usize> {
        let block = self.blocks_before(offset);
        (block < self.blocks && block * self.bytes == offset).then_some(block)
    }
}

/// A set of sizes.
#[derive(Clone, Copy)]
pub struct Table {
    sizes: [Size; MAX_SIZES],
    /// What every free looks at.
    steps: [Step; MAX_SIZES],
    count: usize,
    /// The first size that is no smaller than a page.
    paged: usize,
    /// The size for requests of up to 16 times the index.
    of: [SizeId; GRAINS],
    /// The same, for requests above a page, of up to 512 times the index.
    wide: [SizeId; WIDEST / WIDE_GRAIN + 1],
}

impl Table {
    /// No sizes.
    const EMPTY: Table = Table {
        sizes: [Size::NONE; MAX_SIZES],
        steps: [Step::NONE; MAX_SIZES],
        count: 0,
        paged: 0,
        of: [SizeId(0); GRAINS],
        wide: [SizeId(0); WIDEST / WIDE_GRAIN + 1],
    };

    /// Adds a size, which is larger than those before. It is for all requests that these are too small for.
    const fn push(&mut self, size: Size) {
        let before = if self.count == 0 { 0 } else { self.sizes[self.count - 1].bytes };
        let mut grain = before.div_ceil(GRAIN) + (before > 0) as usize;
        while grain * GRAIN <= size.bytes && grain < self.of.len() {
            self.of[grain] = SizeId(self.count as u8);
            grain += 1;
        }
        let mut grain = before / WIDE_GRAIN + 1;
        while grain * WIDE_GRAIN <= size.bytes && grain < self.wide.len() {
            self.wide[grain] = SizeId(self.count as u8);
            grain += 1;
        }
        self.paged += (size.bytes < PAGE) as usize;
        self.sizes[self.count] = size;
        self.steps[self.count] = Step::new(size.bytes, size.blocks, size.target);
        self.count += 1;
    }

    /// Sizes up to `most`, of which each octave has `steps`, from its begin on; and one more, if it is not too large.
    const fn new(steps: usize, most: usize, more: usize) -> Table {
        let mut table = Table::EMPTY;
        let mut bytes = GRAIN;
        while bytes <= most {
            table.push(Size::new(bytes));
            let step = (1 << bytes.ilog2()) / steps;
            let next = bytes + if step < GRAIN { GRAIN } else { step };
            if bytes < more && more < next && more <= most {
                table.push(Size::new(more));
            }
            bytes = next;
        }
        table
    }
}

#[cfg(all(test, any(woodlot_loom, woodlot_explore)))]
impl Table {
    /// A few sizes, the smallest first, with the `target` of each: for models.
    pub(crate) const fn few<const N: usize>(of: [(usize, usize); N]) -> Table {
        let (mut table, mut size) = (Table::EMPTY, 0);
        while size < N {
            let (bytes, target) = of[size];
            table.push(Size { target, ..Size::new(bytes) });
            size += 1;
        }
        table
    }
}

impl Table {
    /// The sizes for requests of up to 16 times the index: for those who look one up by code of their own.
    pub const fn by_grains(&self) -> &[SizeId; GRAINS] {
        &self.of
    }

    /// The first size that is no smaller than a page.
    pub const fn paged(&self) -> usize {
        self.paged
    }

    /// The size with this number, which is below [`Sizes::COUNT`].
    pub const fn size(&self, number: usize) -> &Size {
        &self.sizes[number]
    }

    /// What a free looks at of the size with this number.
    pub const fn step(&self, number: usize) -> Step {
        self.steps[number]
    }

    /// The size for requests of so many bytes, up to a page.
    #[inline(always)]
    const fn in_grains(&self, bytes: usize) -> SizeId {
        self.of[(bytes + GRAIN - 1) >> GRAIN.ilog2()]
    }

    /// The size for requests of so many bytes, when the program is compiled.
    pub(crate) const fn of_bytes(&self, bytes: usize) -> SizeId {
        assert!(bytes <= self.sizes[self.count - 1].bytes, "no block is so large");
        if bytes <= PAGE { self.in_grains(bytes) } else { self.wide[bytes.div_ceil(WIDE_GRAIN)] }
    }
}

/// Which sizes an allocator has, chosen when the program is compiled.
pub trait Sizes: Copy + Sync + 'static {
    /// The sizes.
    const TABLE: &'static Table;

    /// How many there are.
    const COUNT: usize = Self::TABLE.count;

    /// Bytes of the largest block. Larger requests get pages of their own.
    const MOST: usize = Self::TABLE.sizes[Self::COUNT - 1].bytes;

    /// The size whose blocks are a page each.
    const ONE_PAGE: SizeId = SizeId(Self::TABLE.paged as u8);

    /// The size with this number. One of no bytes, for a number of another set that is too large.
    #[inline]
    fn size(id: SizeId) -> &'static Size {
        &Self::TABLE.sizes[id.index()]
    }

    /// Its [`target`](Size::target).
    #[inline]
    fn target(id: SizeId) -> usize {
        Self::TABLE.steps[id.index()].target()
    }

    /// Does a block of this size begin at this offset of its slab?
    #[inline(always)]
    fn is_block(id: SizeId, offset: usize) -> bool {
        Self::TABLE.steps[id.index()].is_block(offset)
    }

    /// Is each block of this size a page by itself, or more?
    #[inline]
    fn is_paged(id: SizeId) -> bool {
        id.index() >= Self::TABLE.paged
    }

    /// Is each block of this size a page by itself?
    #[inline]
    fn is_page(id: SizeId) -> bool {
        id == Self::ONE_PAGE
    }

    /// The size for requests of so many bytes, if its blocks are less than a page.
    #[inline(always)]
    fn below_page(bytes: usize) -> Option<SizeId> {
        let most = const { Self::TABLE.sizes[Self::TABLE.paged - 1].bytes };
        (bytes <= most).then(|| Self::TABLE.in_grains(bytes))
    }

    /// The size for requests of so many bytes, if they are not too many.
    #[inline]
    fn of(bytes: usize) -> Option<SizeId> {
        if bytes <= PAGE {
            return Some(Self::TABLE.in_grains(bytes));
        }
        (bytes <= Self::MOST)
            .then(|| Self::TABLE.wide[(bytes + WIDE_GRAIN - 1) >> WIDE_GRAIN.ilog2()])
    }

    /// The size for requests of so many bytes at a multiple of `align`, which is a power of two up to a page.
    #[inline]
    fn aligned(bytes: usize, align: usize) -> Option<SizeId> {
        let id = Self::of(bytes)?;
        if align <= GRAIN || Self::size(id).bytes & (align - 1) == 0 {
            return Some(id);
        }
        // Each octave begins with a power of two, so at most four steps lead to an aligned size.
        (id.0 + 1..Self::COUNT as u8)
            .map(SizeId::from_byte)
            .find(|&id| Self::size(id).bytes & (align - 1) == 0)
    }

    /// All of them, the smallest first.
    fn all() -> impl Iterator<Item = SizeId> {
        (0..Self::COUNT as u8).map(SizeId::from_byte)
    }
}

/// The paper's sizes: powers of two from 16 to 4096 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Octaves;

impl Sizes for Octaves {
    const TABLE: &'static Table = &Table::new(1, MAX_SIZE, 0);
}

/// Four sizes in each octave from 16 to 4096 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Quarters;

impl Sizes for Quarters {
    const TABLE: &'static Table = &Table::new(4, MAX_SIZE, 0);
}

/// Four sizes in each octave from 16 bytes to 32 KiB, and one for a page with a header: for programs.
#[derive(Clone, Copy, Debug)]
pub struct Wide;

impl Sizes for Wide {
    const TABLE: &'static Table = &Table::new(4, WIDEST, HEADED);
}

/// Lists fit the count of a list, with one block more that is pushed on a full one.
const _: () = assert!(SHORT_LIST_BYTES / GRAIN < MAX_BLOCKS && SHORT_LIST_BYTES <= LIST_BYTES);

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    fn check<S: Sizes>(expected: usize) {
        assert_eq!(S::COUNT, expected);
        for bytes in 0..=S::MOST {
            let id = S::of(bytes).expect("it is small");
            assert_eq!(S::TABLE.of_bytes(bytes), id);
            assert!(S::size(id).bytes >= bytes);
            assert!(id.0 == 0 || S::size(SizeId(id.0 - 1)).bytes < bytes, "{bytes}");
        }
        assert_eq!(S::of(S::MOST + 1), None);
        assert_eq!(S::of(usize::MAX), None);
        for size in S::all().map(S::size) {
            let slab = size.pages() * PAGE;
            assert!(slab - size.blocks * size.bytes < size.bytes);
            let part = if size.bytes == 28 << 10 { 8 } else { 16 };
            assert!((slab - size.blocks * size.bytes) * part <= slab, "{size:?}");
            for offset in 0..slab {
                let is_block = offset % size.bytes == 0 && offset / size.bytes < size.blocks;
                assert_eq!(size.block_at(offset).is_some(), is_block, "{size:?} {offset}");
            }
        }
        for align in (0..=12).map(|log| 1 << log) {
            for bytes in 0..=S::MOST {
                let size = S::size(S::aligned(bytes, align).expect("the largest is aligned"));
                assert!(size.bytes >= bytes && size.bytes % align.min(16) == 0);
                assert!(size.bytes % align == 0, "{bytes} at {align}");
            }
        }
    }

    #[test]
    fn octaves() {
        check::<Octaves>(9);
    }

    #[test]
    fn quarters() {
        check::<Quarters>(28);
    }

    #[test]
    fn wide() {
        check::<Wide>(41);
        let above: Vec<_> = Wide::all().skip(28).map(|id| Wide::size(id).bytes).collect();
        let kib = [5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32].map(|kib| kib << 10);
        assert_eq!(above, [&[HEADED][..], &kib].concat());
    }

    /// A slab of any size has the fewest pages that leave a sixteenth, and lists are never too long.
    #[test]
    fn every_size_has_a_slab_and_lists() {
        for bytes in (GRAIN..=WIDEST).step_by(GRAIN) {
            let size = Size::new(bytes);
            let unused = |pages: usize| pages * PAGE % bytes;
            let leaves_little = |pages: usize| unused(pages) * 16 <= pages * PAGE;
            let most = if bytes > PAGE { 32 } else { 8 };
            let pages = [1, 2, 4, 8, 16, 32].into_iter().filter(|&pages| pages <= most);
            let fewest = pages.clone().find(|&pages| leaves_little(pages)).unwrap_or(most);
            assert_eq!((size.pages(), size.blocks), (fewest, fewest * PAGE / bytes), "{bytes}");
            assert!((2..=SHORT_LIST_BYTES / GRAIN).contains(&size.target), "{size:?}");
            assert!((1..=GLOBAL_TARGET).contains(&size.lists), "{size:?}");
            if bytes == PAGE {
                assert_eq!(size.lists, GLOBAL_TARGET);
            } else {
                assert!(size.lists * size.target * bytes <= LISTS_BYTES, "{size:?}");
            }
        }
    }

    /// However many steps an octave has, and whatever stands between them.
    #[test]
    fn a_request_gets_the_smallest_size_of_any_table() {
        for (steps, most, more) in [(1, WIDEST, 0), (2, PAGE, 0), (2, WIDEST, HEADED), (4, PAGE, 0)]
        {
            let table = Table::new(steps, most, more);
            let sizes: Vec<_> = table.sizes[..table.count].iter().map(|size| size.bytes).collect();
            assert!(sizes.is_sorted_by(|one, next| one < next), "{sizes:?}");
            assert_eq!((sizes[0], sizes.last()), (GRAIN, Some(&most)));
            assert_eq!(more == HEADED, sizes.contains(&HEADED));
            assert_eq!(sizes[..table.paged].last(), sizes.iter().rfind(|&&bytes| bytes < PAGE));
            for bytes in 0..=most {
                let fits = sizes.iter().position(|&size| size >= bytes);
                assert_eq!(Some(table.of_bytes(bytes).index()), fits, "{bytes} of {sizes:?}");
            }
        }
    }
}
