//! What every allocation and every free reads, and the lists that they change, side by side.
//!
//! ```text
//!   -4104 │ sizes, by bytes / 16   -3840 │ steps   -3328 │ slabs   -3072 │ caches of no CPU   -64 │ words
//!       0 │ cache of CPU 0   1024 │ of CPU 1   …
//!         └ main of each size, aux of each size
//! ```
//!
//! 1. Tables do not change. Words change when the heap starts, and when it gets more addresses.
//! 2. A CPU's cache is changed as `rseq` says.
//! 3. Where a thread has no CPU, a negative number stands in its place. What lies there in front of the caches is closed for ever: a
//!    thread that has no CPU finds lists that are empty when it takes and full when it puts, and nobody asks which thread has one.
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

use crate::rseq::thief::CLOSED;
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
/// There are, and sequences use the caches.
pub(crate) const FOUND: u64 = 3;

/// Far from what a program has: as many pages as there ever are begin here, and no block lies in any.
const NOWHERE: u64 = 1 << 63;

/// The word of a list. A thread accesses that of its own CPU in a sequence, and others as `rseq` says.
pub(crate) type Word = AtomicU64;

/// The caches of one CPU: *main* of each size, and *aux* of each size.
#[repr(C, align(512))]
pub(crate) struct Cache(pub(crate) [Word; 2 * LISTS]);

/// Words in front of the caches that stand in the place of those of three CPUs, but for the last of all, which are of no size.
const STRANGERS: usize =
    Hot::NO_CPU.unsigned_abs() as usize * size_of::<Cache>() / size_of::<Word>() - WORDS;
/// Words that lie between them and the caches.
const WORDS: usize = size_of::<Words>() / size_of::<Word>();

const _: () = assert!(size_of::<Cache>() == 1 << CACHE_SHIFT && MAX_SIZES <= LISTS - WORDS);
const _: () = assert!(MAX_SIZES < SIZE_IDS, "a target for each number, from 1 on");
const _: () = assert!(Which::Main.index() == 0, "the first words of a cache");

/// The words, on one cache line.
#[repr(C, align(64))]
pub struct Words {
    /// How far behind the thread's area of no CPU the one lies that sequences use.
    pub(crate) area: AtomicU64,
    /// [`UNKNOWN`], [`STARTING`], [`NONE`] or [`FOUND`].
    pub(crate) state: AtomicU64,
    /// For whoever has sequences of their own, and no thread's area of no CPU: how far behind the thread pointer the areas lie.
    offset: AtomicU64,
    /// For the same: one more than the bytes of the largest block below a page; 0 until the areas are known.
    more: AtomicU64,
    /// For the same: how many pages there are; 0 until the areas are known.
    reach: AtomicU64,
    /// The address of page 0; [`NOWHERE`] before the first segment is open.
    pub(crate) base: AtomicU64,
    /// Pages of open segments.
    pub(crate) pages: AtomicU64,
    /// The address of the descriptor of page 0.
    pub(crate) descriptors: AtomicU64,
}

impl Words {
    /// Sequences use the areas from now on that lie so far behind the thread pointer, and as far behind the thread's area of no CPU.
    pub(crate) fn found(&self, offset: isize, behind: isize) {
        self.area.store(behind as u64, Ordering::Relaxed);
        self.offset.store(offset as u64, Ordering::Relaxed);
        self.more.store(Hot::MOST as u64 + 1, Ordering::Release);
        self.state.store(FOUND, Ordering::Release);
        self.reach();
    }

    /// Lets sequences have the pages, if both these and the areas are known: for whoever has just stored one of them.
    pub(crate) fn reach(&self) {
        // Of two who store at the same time, one sees what both have stored.
        fence(Ordering::SeqCst);
        if self.state.load(Ordering::Acquire) == FOUND {
            self.reach.fetch_max(self.pages.load(Ordering::Acquire), Ordering::Release);
        }
    }
}

/// All of it.
#[repr(C)]
pub struct Hot {
    /// Keeps the caches at a multiple of their alignment.
    gap: [u64; 63],
    /// The number of the size for requests of up to 16 times the index.
    sizes: [SizeId; GRAINS],
    /// By one more than the number of a size, as descriptors have it: its step, 0 of blocks of a page or more and of what is no slab.
    steps: [u64; SIZE_IDS],
    /// By the same: the bits of twice an address that say where in its slab it lies.
    slabs: [u32; SIZE_IDS],
    strangers: [Word; STRANGERS],
    pub(crate) words: Words,
    pub(crate) caches: [Cache; CPUS],
}

/// The only one.
pub static HOT: Hot = Hot {
    gap: [0; 63],
    sizes: *Wide::TABLE.by_grains(),
    steps: steps(),
    slabs: slabs(),
    strangers: [const { Word::new(CLOSED) }; STRANGERS],
    words: Words {
        area: AtomicU64::new(0),
        state: AtomicU64::new(UNKNOWN),
        offset: AtomicU64::new(0),
        more: AtomicU64::new(0),
        reach: AtomicU64::new(0),
        base: AtomicU64::new(NOWHERE),
        pages: AtomicU64::new(0),
        descriptors: AtomicU64::new(0),
    },
    caches: [const { Cache([const { Word::new(0) }; 2 * LISTS]) }; CPUS],
};

/// Where the parts are, in bytes from the first cache: for those who write a sequence of their own.
impl Hot {
    /// How far behind the thread's area of no CPU the one lies that sequences use: where that stands, in bytes from the begin.
    #[cfg(target_arch = "x86_64")]
    pub(crate) const AREA: usize = offset_of!(Hot, words) + offset_of!(Words, area);
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
    /// How far behind the thread pointer the areas lie, if what is [`MORE`](Hot::MORE) or in [`REACH`](Hot::REACH) is not 0.
    pub const OFFSET: isize = Hot::word(offset_of!(Words, offset));
    /// One more than [`MOST`](Hot::MOST) where there are areas; until then 0, which nothing is less than.
    pub const MORE: isize = Hot::word(offset_of!(Words, more));
    /// The address of page 0.
    pub const BASE: isize = Hot::word(offset_of!(Words, base));
    /// How many pages there are whose blocks sequences may free: 0 where there are no areas.
    pub const REACH: isize = Hot::word(offset_of!(Words, reach));
    /// The address of the descriptor of page 0.
    pub const DESCRIPTORS: isize = Hot::word(offset_of!(Words, descriptors));
    /// What stands in the place of a CPU's number where a thread is to go past the caches. The system and the C library use
    /// -1 and -2 so.
    pub const NO_CPU: i32 = -3;
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

const _: () = assert!(Hot::word(0) == -64 && Hot::SIZES == -4104);

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
