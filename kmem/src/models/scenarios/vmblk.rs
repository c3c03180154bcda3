//! The layer of addresses: spans of pages that CPUs take, free and coalesce, and vmblks that come and go.
//!
//! A vmblk has four pages here, one of which is for descriptors.

use std::array;
use std::boxed::Box;
use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};
use std::vec::Vec;

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{FrameAllocator, FrameId, ZoneConfig};

use super::{cpu, scenarios};
use crate::dope::VMBLK;
use crate::models::Op::{Alloc, AllocSure, Free};
use crate::models::script::Shared;
use crate::models::world::{Block, CPUS, judge, seat};
use crate::models::zone::Zone;
use crate::models::{Scenario, std};
use crate::{AddressSpace, Dope, NotMapped, PAGE, PageId, Pages, StillMapped, Vmblks};

/// Words of the dope vector.
const WORDS: usize = 3;
const PAGES: usize = WORDS * VMBLK / PAGE;
/// Pages for data in a vmblk.
const DATA: usize = VMBLK / PAGE - 1;

/// The addresses of a vmblk.
#[repr(align(16384))]
struct Part(
    #[expect(dead_code, reason = "it is accessed by its address")] UnsafeCell<[u64; VMBLK / 8]>,
);

const _: () = assert!(align_of::<Part>() == VMBLK && size_of::<Part>() == VMBLK);

/// Which frames are mapped. A call is one step, so that the explorer has fewer states.
struct Table {
    start: usize,
    /// One more than the frame's number of each page, in four bits.
    frames: AtomicU64,
}

const ENTRY_BITS: usize = 4;
const ENTRY: u64 = (1 << ENTRY_BITS) - 1;
const _: () = assert!(PAGES * ENTRY_BITS <= u64::BITS as usize);

impl Table {
    fn new(start: NonNull<u8>) -> Table {
        Table { start: start.addr().get(), frames: AtomicU64::new(0) }
    }

    /// Where the entries of so many pages begin, and their bits.
    fn entries(&self, first: NonNull<u8>, count: usize) -> (usize, u64) {
        let at = (first.addr().get() - self.start) / PAGE * ENTRY_BITS;
        (at, ((1 << (count * ENTRY_BITS)) - 1) << at)
    }

    fn is_mapped(&self, page: usize) -> bool {
        self.frames.load(Ordering::Relaxed) >> (page * ENTRY_BITS) & ENTRY != 0
    }
}

// SAFETY: the memory of the range is there all the time, and which of it may be used is checked.
unsafe impl AddressSpace for Table {
    fn map(&self, first: NonNull<u8>, frames: &[FrameId]) -> Result<(), NotMapped> {
        let (at, bits) = self.entries(first, frames.len());
        let entries = frames
            .iter()
            .rev()
            .fold(0, |entries, frame| entries << ENTRY_BITS | (frame.0 as u64 + 1));
        let before = self.frames.fetch_or(entries << at, Ordering::Relaxed);
        assert_eq!(before & bits, 0, "a page is mapped that has a frame");
        Ok(())
    }

    unsafe fn unmap(&self, first: NonNull<u8>, frames: &mut [FrameId]) -> Result<(), StillMapped> {
        let (at, bits) = self.entries(first, frames.len());
        let mut entries = self.frames.fetch_and(!bits, Ordering::Relaxed) >> at;
        for frame in frames {
            let before = (entries & ENTRY) as usize;
            *frame = FrameId(before.checked_sub(1).expect("a page that is unmapped has a frame"));
            entries >>= ENTRY_BITS;
        }
        Ok(())
    }

    #[cfg(woodlot_loom)]
    fn wait(&self, _: usize) {
        loom::thread::yield_now();
    }
}

/// What the threads share. The pages of a scenario are the frames of the zone.
struct World {
    /// Refers to the boxes, and is dropped before them.
    vmblks: Vmblks<'static, Zone, Table>,
    zone: Box<Zone>,
    _dope: Box<[Dope; WORDS]>,
    memory: Box<[Part; WORDS]>,
    scenario: Scenario,
    blocks: Vec<Option<Block>>,
    /// What the owner of a page writes to.
    #[cfg(woodlot_loom)]
    owned: Vec<loom::cell::UnsafeCell<bool>>,
}

// SAFETY: a page belongs to one caller, and who it is is checked.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

/// A reference to what is in a box.
///
/// # Safety
/// It is used no more when the box is dropped.
unsafe fn within<T>(boxed: &T) -> &'static T {
    // SAFETY: as the caller says.
    unsafe { &*ptr::from_ref(boxed) }
}

impl World {
    /// Pages get an owner, or lose it. They have frames.
    fn hand_over(&self, block: Block, to: bool) {
        let pages = block.at / PAGE..(block.at + block.bytes) / PAGE;
        for page in pages.clone() {
            assert!(self.vmblks.space().is_mapped(page), "a page in use has no frame");
        }
        #[cfg(woodlot_loom)]
        for cell in &self.owned[pages] {
            cell.with_mut(|owned| {
                // SAFETY: loom checks that nobody else is at the cell.
                let before = unsafe { ptr::replace(owned, to) };
                assert_ne!(before, to, "a page has two owners");
            });
        }
        #[cfg(not(woodlot_loom))]
        let _ = to;
    }

    /// All frames are free, and all addresses.
    fn is_empty(&self) {
        self.vmblks.validate().expect("it is whole");
        let stats = self.vmblks.stats();
        let left = (stats.pages, stats.free, stats.descriptor_pages);
        assert_eq!(left, (0, 0, 0), "pages are lost");
        assert_eq!(stats.made, stats.returned, "vmblks are lost");
        assert_eq!(self.zone.free_frames(), self.scenario.pages, "frames are lost");
        assert!(self.vmblks.find(self.memory.as_ptr().cast_mut().cast()).is_none());
    }
}

impl Shared for World {
    fn new(scenario: &Scenario) -> World {
        let memory = Box::new(array::from_fn(|_| Part(UnsafeCell::new([0; VMBLK / 8]))));
        let dope = Box::new(array::from_fn(|_| Dope::default()));
        let zone = Box::new(Zone::new(ZoneConfig::new(scenario.pages, CPUS)));
        let start = NonNull::from(&*memory).cast::<u8>();
        // SAFETY: the boxes are dropped after what refers to them, and what is in them is the world's.
        let vmblks = unsafe {
            Vmblks::new(within(&*zone), Table::new(start), start, within::<[Dope; WORDS]>(&*dope))
        };
        let mut world = World {
            vmblks: vmblks.expect("it fits"),
            zone,
            _dope: dope,
            memory,
            scenario: *scenario,
            blocks: Vec::new(),
            #[cfg(woodlot_loom)]
            owned: (0..PAGES).map(|_| loom::cell::UnsafeCell::new(false)).collect(),
        };
        world.blocks = world.set_up();
        world
    }

    fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    fn blocks(&self) -> &[Option<Block>] {
        &self.blocks
    }

    fn alloc(&self, bytes: usize) -> Option<Block> {
        let first = self.vmblks.alloc(bytes / PAGE, PAGE, seat()).ok()?;
        let block = Block { at: first.0 as usize * PAGE, bytes };
        self.hand_over(block, true);
        Some(block)
    }

    fn free(&self, block: Block) {
        self.hand_over(block, false);
        // SAFETY: the pages were allocated here, and nobody uses them.
        unsafe {
            let first = PageId((block.at / PAGE) as u32);
            self.vmblks.free(first, block.bytes / PAGE, seat());
        }
    }

    fn flush_cpu(&self, _: usize) {
        unreachable!("nothing is cached here");
    }

    fn flush(&self) {
        unreachable!("nothing is cached here");
    }

    /// All comes back, and each vmblk can be had as a whole, as far as there are frames.
    fn settle<'b>(&self, blocks: impl Iterator<Item = &'b Block>) {
        let blocks: Vec<Block> = blocks.copied().collect();
        judge(blocks.iter());
        blocks.into_iter().for_each(|block| self.free(block));
        self.is_empty();
        let vmblks = (self.scenario.pages / (DATA + 1)).min(WORDS);
        let all: Vec<Block> = (0..vmblks).map_while(|_| self.alloc(DATA * PAGE)).collect();
        assert_eq!(all.len(), vmblks, "addresses are lost");
        all.into_iter().for_each(|block| self.free(block));
        self.is_empty();
    }
}

scenarios! { World;
    /// The vmblk of one is made and goes back while the other one wants pages too.
    made_and_returned: 12 pages, [], [
        cpu(0, &[], &[AllocSure(PAGE), Free(0)]),
        cpu(1, &[], &[AllocSure(2 * PAGE), Free(0)]),
    ];

    /// Spans that touch are freed by both, and become a whole vmblk.
    neighbours: 12 pages, [Alloc(PAGE), Alloc(PAGE), Alloc(PAGE)], [
        cpu(0, &[0, 2], &[Free(0), Free(1)]),
        cpu(1, &[1], &[Free(0), AllocSure(PAGE)]),
    ];

    /// The last pages of a vmblk are freed while the other one wants all that it has.
    the_last_pages: 12 pages, [Alloc(2 * PAGE)], [
        cpu(0, &[0], &[Free(0), AllocSure(PAGE)]),
        cpu(1, &[], &[AllocSure(DATA * PAGE), Free(0)]),
    ];

    /// There are addresses for both, but not frames.
    frames_are_short: 4 pages, [Alloc(PAGE)], [
        cpu(0, &[0], &[Alloc(2 * PAGE), Free(1)]),
        cpu(1, &[], &[Alloc(2 * PAGE), Free(0)]),
    ];

    /// A vmblk that is longer than others, beside one that is not.
    a_longer_one: 12 pages, [], [
        cpu(0, &[], &[AllocSure((DATA + 1) * PAGE), Free(0)]),
        cpu(1, &[], &[AllocSure(PAGE), Free(0)]),
    ];
}
