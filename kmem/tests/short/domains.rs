//! Frames of several zones under one allocator: two domains, one of which has two zones, and a CPU in each.

use std::alloc::{Layout, alloc_zeroed, dealloc};

use woodlot_domains::{DomainId, Domains, Map, Present, Setup};
use woodlot_frame::{FrameAllocator, FrameId};
use woodlot_kmem::{Kmem, Octaves, PAGE, Vmblks};

use crate::LLFree;
use crate::cpus::{Caches, caches, run_on};
use crate::space::{Space, dope};

const CPUS: usize = 2;
/// Where the ranges end, those of domain 0 and then that of domain 1; and frames that there are not.
const RANGES: [(usize, usize, u8); 3] = [(0, 2048, 0), (3072, 5120, 0), (8192, 10_240, 1)];
const END: usize = 10_240;
const VMBLKS: usize = 32;

/// Memory for all frames from 0 on, in which the metadata of the zones lie.
struct Frames(*mut u8);

impl Frames {
    const LAYOUT: Layout = match Layout::from_size_align(END * PAGE, PAGE) {
        Ok(layout) => layout,
        Err(_) => unreachable!(),
    };

    fn new() -> Frames {
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc_zeroed(Self::LAYOUT) };
        assert!(!base.is_null());
        Frames(base)
    }

    fn domains(&self) -> Domains<'_, LLFree> {
        let present =
            |(start, end, domain)| Present::new(FrameId(start)..FrameId(end), DomainId(domain));
        let mut ranges = RANGES.map(present);
        let homes = [DomainId(0), DomainId(1)];
        let map = Map::new(&mut ranges).expect("a map");
        let setup = Setup::new(map, CPUS).at_home(&homes);
        // SAFETY: each frame is memory of this one, which outlives the domains.
        unsafe { setup.carve(|frame: FrameId| self.0.wrapping_add(frame.0 * PAGE)) }
            .expect("domains")
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        // SAFETY: it was allocated so.
        unsafe { dealloc(self.0, Self::LAYOUT) };
    }
}

type Heap<'a> = Kmem<Caches<CPUS>, Vmblks<'a, Domains<'a, LLFree>, &'a Space>, Octaves>;

fn free_of(domains: &Domains<LLFree>) -> [usize; 2] {
    [0, 1].map(|domain| domains.stats_of(DomainId(domain)).map_or(0, |stats| stats.free_frames))
}

/// Takes blocks on a CPU until there are no more.
fn take_all(heap: &Heap, cpu: usize, bytes: usize) -> Vec<core::ptr::NonNull<u8>> {
    run_on(cpu);
    std::iter::from_fn(|| {
        let block = heap.alloc(bytes)?;
        // SAFETY: it was just allocated.
        unsafe { block.as_ptr().write(cpu as u8) };
        Some(block)
    })
    .collect()
}

#[test]
fn memory_comes_from_the_cpus_domain_then_from_all_zones_and_all_of_it_comes_back() {
    let (frames, space, dope) = (Frames::new(), Space::new(VMBLKS, END), dope(VMBLKS));
    let domains = frames.domains();
    let (before, whole) = (free_of(&domains), domains.stats().free_huge);
    // SAFETY: the addresses and the frames are this test's.
    let vmblks = unsafe { Vmblks::new(&domains, &space, space.start(), &dope) }.expect("it fits");
    let heap: Heap = Kmem::new(caches(), vmblks, ());

    // A CPU's blocks come from its own domain.
    for (cpu, other) in [(0, 1), (1, 0)] {
        run_on(cpu);
        let there = free_of(&domains);
        let block = heap.alloc(2048).expect("memory");
        let now = free_of(&domains);
        assert!(now[cpu] < there[cpu] && now[other] == there[other], "{there:?} {now:?}");
        // SAFETY: it was allocated so.
        unsafe { heap.free(block, 2048) };
    }

    // One CPU can have the frames of all zones, in each size in turn, and the other one gives them back.
    let slabs = |blocks: usize, bytes: usize| blocks * bytes / PAGE;
    for bytes in [4096, 256, 1024] {
        let blocks = take_all(&heap, 0, bytes);
        let had = slabs(blocks.len(), bytes);
        let free = before.iter().sum::<usize>();
        // Of 1024 pages four are descriptors, and the caches of the other CPU may have kept some.
        assert!(had > free - free / 100, "{bytes} B: {had} pages of {free} frames");
        assert_eq!(free_of(&domains), [0, 0]);
        run_on(1);
        // SAFETY: they were allocated so.
        blocks.into_iter().for_each(|block| unsafe { heap.free(block, bytes) });
        heap.flush();
        assert_eq!((free_of(&domains), domains.stats().free_huge), (before, whole), "{bytes} B");
        assert_eq!(space.mapped(), 0);
    }
}
