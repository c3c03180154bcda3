//! What every allocation and every free reads, and the lists that they change, side by side.
//!
//! ```text
//!   -1536 │ sizes, by bytes / 16   -1272 │ steps   -760 │ slabs   -128 │ words   0 │ cache of CPU 0   1024 │ of CPU 1   …
//!                                                                               └ main of each size, aux of each size
//! ```
//!
//! 1. Tables do not change. Words change when the heap starts, and when it gets more addresses.
//! 2. A CPU's cache is changed as `rseq` says.
//!
//! The address of the first cache in one register is enough for all of it, and the words are less than 128 bytes away, so
//! that an offset takes a byte. This keeps the whole of `malloc` and `free` within two cache lines of code each. On a
//! Zen 4, a pair of empty functions of another library takes 17 cycles, and each further line adds one: that is what a
//! preloaded pair costs, whatever the lines do.

use core::mem::offset_of;

use woodlot_frame::atomics::{AtomicU64, Ordering, fence};
use woodlot_kmem::{
    Descriptor, GRAINS, MAX_SIZE, MAX_SIZES, PAGE, SIZE_IDS, SizeId, Sizes, Which, Wide,
};

use crate::segments::ALIGN;

/// CPUs with numbers below this have caches.
pub(crate) const CPUS: usize = 1024;
/// Lists of a kind that a cache has room for.
pub(crate) const LISTS: usize = SIZE_IDS;
/// log2 of the bytes of a cache.
pub(crate) const CACHE_SHIFT: u32 = 10;

/// Nobody has looked for areas yet.
pub(crate) const UNKNOWN: u64 = 0;
/// Somebody is looking: there are no caches meanwhile.
pub(crate) const STARTING: u64 = 1;
/// There are no areas.
pub(crate) const NONE: u64 = 2;

/// Far from what a program has: as many pages as there ever are begin here, and no block lies in any.
const NOWHERE: u64 = 1 << 63;

/// The word of a list. A thread accesses that of its own CPU in a sequence, and others as `rseq` says.
pub(crate) type Word = AtomicU64;

/// The caches of one CPU: *main* of each size, and *aux* of each size.
#[repr(C, align(512))]
pub(crate) struct Cache(pub(crate) [Word; 2 * LISTS]);

const _: () = assert!(size_of::<Cache>() == 1 << CACHE_SHIFT && MAX_SIZES <= LISTS);
const _: () = assert!(MAX_SIZES < SIZE_IDS, "a target for each number, from 1 on");
const _: () = assert!(Which::Main.index() == 0, "the first words of a cache");

/// The words, on one cache line.
#[repr(C, align(64))]
pub struct Words {
    /// The offset of the threads' areas; or [`UNKNOWN`], [`STARTING`] or [`NONE`], which no offset is.
    pub(crate) area: AtomicU64,
    /// The address of page 0; [`NOWHERE`] before the first segment is open.
    pub(crate) base: AtomicU64,
    /// Pages of open segments.
    pub(crate) pages: AtomicU64,
    /// The address of the descriptor of page 0.
    pub(crate) descriptors: AtomicU64,
    /// As many pages, as soon as the areas are known too; 0 where there are none. Who frees by a sequence of its own looks here.
    reach: AtomicU64,
    /// [`CPUS`].
    cpus: u64,
}

impl Words {
    /// Lets sequences have the pages, if both these and the areas are known: for whoever has just stored one of them.
    pub(crate) fn reach(&self) {
        // Of two who store at the same time, one sees what both have stored.
        fence(Ordering::SeqCst);
        if self.area.load(Ordering::Relaxed) > NONE {
            self.reach.fetch_max(self.pages.load(Ordering::Acquire), Ordering::Release);
        }
    }
}

/// All of it.
#[repr(C)]
pub struct Hot {
    /// The number of the size for requests of up to 16 times the index.
    sizes: [SizeId; GRAINS],
    /// By one more than the number of a size, as descriptors have it: its step, 0 of blocks of a page or more and of what is no slab.
    steps: [u64; SIZE_IDS],
    /// By the same: the bits of twice an address that say where in its slab it lies.
    slabs: [u32; SIZE_IDS],
    /// Keeps the words close to the caches.
    gap: [u64; 47],
    pub(crate) words: Words,
    pub(crate) caches: [Cache; CPUS],
}

/// The only one.
pub static HOT: Hot = Hot {
    sizes: *Wide::TABLE.by_grains(),
    steps: steps(),
    slabs: slabs(),
    gap: [0; 47],
    words: Words {
        area: AtomicU64::new(UNKNOWN),
        base: AtomicU64::new(NOWHERE),
        pages: AtomicU64::new(0),
        descriptors: AtomicU64::new(0),
        reach: AtomicU64::new(0),
        cpus: CPUS as u64,
    },
    caches: [const { Cache([const { Word::new(0) }; 2 * LISTS]) }; CPUS],
};

/// Where the parts are, in bytes from the first cache: for those who write a sequence of their own.
impl Hot {
    /// The first cache itself, in bytes from the begin.
    pub const CACHES: usize = offset_of!(Hot, caches);
    /// log2 of the bytes from a CPU's cache to that of the next CPU.
    pub const CACHE_SHIFT: u32 = CACHE_SHIFT;
    /// The numbers of sizes, a byte for each 16 bytes that are asked for.
    pub const SIZES: isize = Hot::at(offset_of!(Hot, sizes));
    /// The [steps](woodlot_kmem::Step), a word for each number that a descriptor has at [`SIZE_AT`](Hot::SIZE_AT): the lowest byte is a
    /// target, and a list with fewer blocks has room for one more. What no list of this kind is for has 0.
    pub const STEPS: isize = Hot::at(offset_of!(Hot, steps));
    /// The bits of twice an address that say where in its slab it lies, 4 bytes for each such number. Slabs are aligned.
    pub const SLABS: isize = Hot::at(offset_of!(Hot, slabs));
    /// The offset of the threads' areas, if it is more than [`NO_AREA`](Hot::NO_AREA).
    pub const AREA: isize = Hot::word(offset_of!(Words, area));
    /// The address of page 0.
    pub const BASE: isize = Hot::word(offset_of!(Words, base));
    /// How many pages there are whose blocks sequences may free: 0 where there are no areas.
    pub const REACH: isize = Hot::word(offset_of!(Words, reach));
    /// The address of the descriptor of page 0.
    pub const DESCRIPTORS: isize = Hot::word(offset_of!(Words, descriptors));
    /// The number of CPUs that have caches.
    pub const CPUS: isize = Hot::word(offset_of!(Words, cpus));
    /// What stands in the place of a CPU's number where a thread is to go past the caches. The system and the C library use
    /// -1 and -2 so.
    pub const NO_CPU: i32 = -3;
    /// The largest value at [`AREA`](Hot::AREA) that is no offset.
    pub const NO_AREA: u64 = NONE;
    /// Sizes whose blocks are less than a page. Descriptors of pages are marked when others are handed out and freed.
    pub const PLAIN: usize = Wide::TABLE.paged();
    /// The most bytes of such a block.
    pub const MOST: usize = Wide::TABLE.size(Hot::PLAIN - 1).bytes;
    /// log2 of the bytes that an entry of the table of sizes is for.
    pub const GRAIN_SHIFT: u32 = (MAX_SIZE / (GRAINS - 1)).ilog2();
    /// log2 of the bytes of a page.
    pub const PAGE_SHIFT: u32 = PAGE.ilog2();
    /// log2 of the bytes of a descriptor.
    pub const DESCRIPTOR_SHIFT: u32 = size_of::<Descriptor>().ilog2();
    /// Where a descriptor says the size of a slab's blocks.
    pub const SIZE_AT: usize = Descriptor::SIZE_AT;

    const fn at(offset: usize) -> isize {
        offset as isize - Hot::CACHES as isize
    }

    const fn word(offset: usize) -> isize {
        Hot::at(offset_of!(Hot, words) + offset)
    }
}

const _: () = assert!(Hot::AREA == -128 && Hot::SIZES == -1536);

const fn steps() -> [u64; SIZE_IDS] {
    let (mut steps, mut at) = ([0; SIZE_IDS], 0);
    while at < Hot::PLAIN {
        steps[at + 1] = Wide::TABLE.step(at).word();
        at += 1;
    }
    steps
}

const fn slabs() -> [u32; SIZE_IDS] {
    let (mut slabs, mut at) = ([0; SIZE_IDS], 0);
    while at < Hot::PLAIN {
        let bytes = Wide::TABLE.size(at).pages() * PAGE;
        assert!(bytes <= ALIGN, "it lies at a multiple of its size");
        slabs[at + 1] = 2 * (bytes as u32 - 1);
        at += 1;
    }
    slabs
}
