//! Sizes of blocks, and which one a request gets.
//!
//! ```text
//!   Octaves   16 32 64 128 256 512 1024 2048 4096                                9 sizes, the paper's
//!   Quarters  16 32 48 64 80 96 112 128 160 192 224 256 320 … 3584 4096         28 sizes, four an octave
//! ```
//!
//! 1. A block's address is a multiple of the largest power of two that divides its size, up to a page.
//! 2. A slab has 1, 2, 4 or 8 pages: the fewest that leave at most a sixteenth of it unused.
//!
//! All of it is computed when the crate is compiled (section 3.3.5: a table indexed by size).

use crate::list::{MAX_BLOCKS, MIN_BLOCK};

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// The largest block that has a size of its own. Larger requests get pages.
pub const MAX_SIZE: usize = 4096;
/// The most sizes that a set has.
pub const MAX_SIZES: usize = 28;
/// Numbers of sizes are below this, a power of two.
pub const SIZE_IDS: usize = MAX_SIZES.next_power_of_two();
/// Bytes of the blocks that a list has, about.
const LIST_BYTES: usize = 16 << 10;
/// Blocks of a list, where each is a page. Such a list is not touched, so that handing it over is what counts: 4, 8 and 16
/// pages made 62, 46 and 36 ns of a page that one CPU allocates and another one frees (`bench kmem producer-consumer`).
const LIST_PAGES: usize = 16;
/// The smallest size. The table has an entry for each so many bytes.
const GRAIN: usize = 16;
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
    /// log2 of the pages of a slab.
    pub order: u8,
    /// Blocks of a slab.
    pub blocks: usize,
    /// 2^32 / bytes, rounded up: `offset * reciprocal >> 32` is the block at an offset of a slab.
    pub(crate) reciprocal: u64,
}

impl Size {
    /// The size of which nothing is made: a place of the table that is not used.
    const NONE: Size = Size { bytes: 0, target: 0, order: 0, blocks: 0, reciprocal: 0 };

    const fn new(bytes: usize) -> Size {
        let mut order = 0;
        while order < 3 && (PAGE << order) % bytes * 16 > PAGE << order {
            order += 1;
        }
        let most = LIST_BYTES / bytes;
        let target = if bytes == PAGE {
            LIST_PAGES
        } else if most < 4 {
            4
        } else if most > 64 {
            64
        } else {
            most
        };
        let reciprocal = (1u64 << 32).div_ceil(bytes as u64);
        Size { bytes, target, order, blocks: (PAGE << order) / bytes, reciprocal }
    }

    /// Pages of a slab.
    pub const fn pages(&self) -> usize {
        1 << self.order
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

    /// Is this the offset of a block in its slab?
    pub(crate) fn is_block(&self, offset: usize) -> bool {
        self.block_at(offset).is_some()
    }
}

/// A set of sizes.
#[derive(Clone, Copy)]
pub struct Table {
    sizes: [Size; MAX_SIZES],
    /// The `target` of each size: what every free looks at.
    targets: [u16; MAX_SIZES],
    count: usize,
    /// The size for requests of up to 16 times the index.
    of: [SizeId; GRAINS],
}

impl Table {
    /// Sizes of which each octave has `steps`, from its begin on.
    const fn new(steps: usize) -> Table {
        let mut table = Table {
            sizes: [Size::NONE; MAX_SIZES],
            targets: [0; MAX_SIZES],
            count: 0,
            of: [SizeId(0); GRAINS],
        };
        let (mut bytes, mut grain) = (GRAIN, 0);
        while bytes <= MAX_SIZE {
            while grain * GRAIN <= bytes && grain < table.of.len() {
                table.of[grain] = SizeId(table.count as u8);
                grain += 1;
            }
            table.sizes[table.count] = Size::new(bytes);
            table.targets[table.count] = table.sizes[table.count].target as u16;
            table.count += 1;
            let step = (1 << bytes.ilog2()) / steps;
            bytes += if step < GRAIN { GRAIN } else { step };
        }
        table
    }
}

#[cfg(all(test, any(woodlot_loom, woodlot_explore)))]
impl Table {
    /// A few sizes, the smallest first and a page last, with the `target` of each: for models.
    pub(crate) const fn few<const N: usize>(of: [(usize, usize); N]) -> Table {
        let mut table = Table::new(1);
        table.count = N;
        let (mut size, mut grain) = (0, 0);
        while size < N {
            let (bytes, target) = of[size];
            table.sizes[size] = Size { target, ..Size::new(bytes) };
            table.targets[size] = target as u16;
            while grain < table.of.len() && grain * GRAIN <= bytes {
                table.of[grain] = SizeId(size as u8);
                grain += 1;
            }
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

    /// The size with this number, which is below [`Sizes::COUNT`].
    pub const fn size(&self, number: usize) -> &Size {
        &self.sizes[number]
    }

    /// The size for requests of so many bytes, when the program is compiled.
    pub(crate) const fn of_bytes(&self, bytes: usize) -> SizeId {
        self.of[bytes.div_ceil(GRAIN)]
    }
}

/// Which sizes an allocator has, chosen when the program is compiled.
pub trait Sizes: Copy + Sync + 'static {
    /// The sizes.
    const TABLE: &'static Table;

    /// How many there are.
    const COUNT: usize = Self::TABLE.count;

    /// The size with this number. One of no bytes, for a number of another set that is too large.
    #[inline]
    fn size(id: SizeId) -> &'static Size {
        &Self::TABLE.sizes[id.index()]
    }

    /// Its [`target`](Size::target).
    #[inline]
    fn target(id: SizeId) -> usize {
        usize::from(Self::TABLE.targets[id.index()])
    }

    /// Is each block of this size a page by itself?
    #[inline]
    fn is_page(id: SizeId) -> bool {
        id.index() + 1 == Self::TABLE.count
    }

    /// The size for requests of so many bytes, if they are not too many.
    #[inline]
    fn of(bytes: usize) -> Option<SizeId> {
        (bytes <= MAX_SIZE).then(|| Self::TABLE.of[(bytes + GRAIN - 1) >> GRAIN.ilog2()])
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
    const TABLE: &'static Table = &Table::new(1);
}

/// Four sizes in each octave from 16 to 4096 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Quarters;

impl Sizes for Quarters {
    const TABLE: &'static Table = &Table::new(4);
}

/// Lists fit the count of a list, with one block more that is pushed on a full one.
const _: () = assert!(LIST_BYTES / GRAIN >= 64 && 64 < MAX_BLOCKS);

#[cfg(test)]
mod tests {
    use super::*;

    fn check<S: Sizes>(expected: usize) {
        assert_eq!(S::COUNT, expected);
        for bytes in 0..=MAX_SIZE {
            let id = S::of(bytes).expect("it is small");
            assert!(S::size(id).bytes >= bytes);
            assert!(id.0 == 0 || S::size(SizeId(id.0 - 1)).bytes < bytes, "{bytes}");
        }
        assert_eq!(S::of(MAX_SIZE + 1), None);
        assert_eq!(S::of(usize::MAX), None);
        for size in S::all().map(S::size) {
            let slab = size.pages() * PAGE;
            assert!(slab - size.blocks * size.bytes < size.bytes);
            assert!((slab - size.blocks * size.bytes) * 16 <= slab, "{size:?}");
            for offset in 0..slab {
                let is_block = offset % size.bytes == 0 && offset / size.bytes < size.blocks;
                assert_eq!(size.is_block(offset), is_block, "{size:?} {offset}");
            }
        }
        for align in (0..=12).map(|log| 1 << log) {
            for bytes in 0..=MAX_SIZE {
                let size = S::size(S::aligned(bytes, align).expect("4096 is aligned"));
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
}
