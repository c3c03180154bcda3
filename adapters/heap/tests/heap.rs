//! The heap over real memory: every byte is written and read again, and every frame returns.

use std::alloc::{GlobalAlloc, Layout, alloc_zeroed, dealloc};
use std::sync::atomic::{AtomicUsize, Ordering};

use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use woodlot_frame::{
    Base4K, Base16K, Base64K, ClassPolicy, Construct, FrameAllocator, FrameId, Geometry, Init,
    Owned, ZoneConfig,
};
use woodlot_heap::{AlreadyStarted, Heap};
use woodlot_llfree::LLFree;
use woodlot_nbbs::Nbbs4;

/// The first frame of every zone here: not zero, so that a wrong base is found.
const START: usize = 4096;

/// A zone with memory behind its frames.
struct Arena<A> {
    zone: Owned<A>,
    memory: *mut u8,
    layout: Layout,
}

impl<A: Construct> Arena<A> {
    fn new(frames: usize) -> Self {
        Self::with_classes(frames, ClassPolicy::SHIPPED)
    }

    fn with_classes(frames: usize, classes: ClassPolicy) -> Self {
        let config = ZoneConfig { classes, ..ZoneConfig::new(frames, 4) };
        let config = config.starting_at(FrameId(START));
        let zone = Owned::new(&config, Init::Free).expect("the zone is made");
        let bytes = frames * A::Geometry::BASE_BYTES;
        let layout = Layout::from_size_align(bytes, 2 << 20).expect("a layout");
        // SAFETY: the layout has a size above zero.
        let memory = unsafe { alloc_zeroed(layout) };
        assert!(!memory.is_null());
        Self { zone, memory, layout }
    }

    fn heap(&self) -> Heap<'_, A> {
        let heap = Heap::new(cpu);
        let base = self.memory.wrapping_sub(START * A::Geometry::BASE_BYTES);
        // SAFETY: every frame is mapped there, and only the heap uses the zone.
        unsafe { heap.start(&*self.zone, base) }.expect("it starts once");
        heap
    }

    fn free(&self) -> usize {
        self.zone.stats().free_frames
    }
}

impl<A> Drop for Arena<A> {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and the heap is gone.
        unsafe { dealloc(self.memory, self.layout) };
    }
}

/// The "CPU" of a thread.
fn cpu() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static CPU: usize = THREADS.fetch_add(1, Ordering::Relaxed));
    CPU.with(|&cpu| cpu)
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("a layout")
}

/// Allocates, checks the place, and writes all of it.
fn filled<A: FrameAllocator>(heap: &Heap<'_, A>, layout: Layout, value: u8) -> *mut u8 {
    // SAFETY: the size is not zero, and what is handed out may be written.
    unsafe {
        let start = heap.alloc(layout);
        if !start.is_null() {
            assert!(start.addr().is_multiple_of(layout.align()), "{layout:?} at {start:p}");
            start.write_bytes(value, layout.size());
        }
        start
    }
}

/// Checks that nobody else wrote there, and frees.
fn emptied<A: FrameAllocator>(heap: &Heap<'_, A>, start: *mut u8, layout: Layout, value: u8) {
    // SAFETY: it was handed out with this layout, and is used no more.
    unsafe {
        let bytes = std::slice::from_raw_parts(start, layout.size());
        assert!(bytes.iter().all(|&byte| byte == value), "somebody else wrote into {layout:?}");
        heap.dealloc(start, layout);
    }
}

fn every_size_and_alignment<A: Construct>() {
    let arena = Arena::<A>::new((256 << 20) / A::Geometry::BASE_BYTES);
    let (heap, before) = (arena.heap(), arena.free());
    let base = A::Geometry::BASE_BYTES;
    let sizes = [1, 8, 63, 64, 65, 100, 1000, base / 4, base / 4 + 1, base - 1, base, base + 1];
    let sizes = sizes.into_iter().chain([3 * base, 5 * base + 7, 700 * 1024]);
    let aligns = (0..=A::Geometry::BASE_SHIFT + 3).map(|shift| 1usize << shift);
    let layouts: std::vec::Vec<_> =
        sizes.flat_map(|size| aligns.clone().map(move |align| layout(size, align))).collect();
    let starts: std::vec::Vec<_> = layouts
        .iter()
        .zip((0..=u8::MAX).cycle())
        .map(|(&layout, n)| filled(&heap, layout, n))
        .collect();
    for ((&layout, start), n) in layouts.iter().zip(starts).zip((0..=u8::MAX).cycle()) {
        assert!(!start.is_null(), "{layout:?}");
        emptied(&heap, start, layout, n);
    }
    heap.trim();
    assert_eq!(arena.free(), before);
}

#[test]
fn sizes_and_alignments_of_every_geometry_and_engine() {
    every_size_and_alignment::<LLFree<Base4K>>();
    every_size_and_alignment::<LLFree<Base16K>>();
    every_size_and_alignment::<LLFree<Base64K>>();
    every_size_and_alignment::<Nbbs4<Base4K>>();
}

#[test]
fn every_frame_is_had_and_returns() {
    for size in [1, 64, 65, 512, 1024, 4096, 12288] {
        let arena = Arena::<LLFree<Base4K>>::new(1024);
        let heap = arena.heap();
        let layout = layout(size, 8);
        let mut got = std::vec::Vec::new();
        loop {
            let start = filled(&heap, layout, got.len() as u8);
            if start.is_null() {
                break;
            }
            got.push(start);
        }
        let per_frame = if size > 1024 { 1 } else { 4096 / size.next_power_of_two().max(64) - 1 };
        // Of each block of four frames one is left when three were asked for: none lie together.
        let blocks = 1024 / size.div_ceil(4096).next_power_of_two();
        assert_eq!(got.len(), blocks * per_frame, "of {size} bytes");
        for (n, &start) in got.iter().enumerate() {
            emptied(&heap, start, layout, n as u8);
        }
        heap.trim();
        assert_eq!((arena.free(), arena.zone.stats().free_huge), (1024, 2), "of {size} bytes");
    }
}

#[test]
fn exactly_as_many_frames_as_it_takes() {
    let arena = Arena::<LLFree<Base4K>>::new(2048);
    let heap = arena.heap();
    for (size, frames) in [(4096, 1), (20_000, 5), (1 << 20, 256), (5 << 20, 1280)] {
        let layout = layout(size, 16);
        let start = filled(&heap, layout, 1);
        assert_eq!(arena.free(), 2048 - frames, "for {size} bytes");
        emptied(&heap, start, layout, 1);
        assert_eq!(arena.free(), 2048);
    }
    // No block of order 1 is free, but two frames that lie together are.
    let frames: std::vec::Vec<_> = (0..2048).map(|_| filled(&heap, layout(4096, 1), 2)).collect();
    let mut sorted = frames.clone();
    sorted.sort();
    for &start in &sorted[5..7] {
        emptied(&heap, start, layout(4096, 1), 2);
    }
    assert_eq!(filled(&heap, layout(8192, 1), 3), sorted[5]);
    assert!(filled(&heap, layout(1, 1), 3).is_null());
}

#[test]
fn what_cannot_be_served_is_refused_and_changes_nothing() {
    let arena = Arena::<LLFree<Base4K>>::new(1024);
    let heap = arena.heap();
    for wrong in [
        layout(5 << 20, 8),
        layout(isize::MAX as usize, 1),
        layout(isize::MAX as usize - 4095, 4096),
        layout(1, 1 << 40),
        layout(64, 1 << 62),
    ] {
        assert!(filled(&heap, wrong, 0).is_null(), "{wrong:?}");
        assert!(heap.allocate(wrong).is_err());
        assert_eq!(arena.free(), 1024);
    }
    // SAFETY: nobody uses memory of it.
    assert_eq!(unsafe { heap.start(&*arena.zone, arena.memory) }, Err(AlreadyStarted));

    let unstarted = Heap::<LLFree<Base4K>>::new(|| 0);
    assert!(filled(&unstarted, layout(8, 8), 0).is_null());
    assert!(unstarted.allocate(layout(8, 8)).is_err());
    assert_eq!(unstarted.trim(), 0);
}

#[test]
fn memory_is_no_more_aligned_than_the_base() {
    let arena = Arena::<LLFree<Base4K>>::new(1024);
    let heap = Heap::new(cpu);
    let base = arena.memory.wrapping_sub((START - 1) * 4096);
    // SAFETY: what is handed out is not written to.
    unsafe { heap.start(&*arena.zone, base) }.expect("it starts");
    for refused in [layout(1, 8192), layout(8192, 8192), layout(1 << 20, 1 << 20)] {
        assert!(heap.allocate(refused).is_err(), "{refused:?}");
    }
    assert_eq!(arena.free(), 1024);
    for served in [layout(1, 4096), layout(64, 64), layout(3 << 12, 4096)] {
        let memory = heap.allocate(served).expect("there is memory");
        assert!(memory.as_ptr().addr().is_multiple_of(served.align()), "{served:?}");
    }
}

#[test]
fn a_zone_of_one_class_serves_a_heap() {
    let arena = Arena::<LLFree<Base4K>>::with_classes(1024, ClassPolicy::SINGLE);
    let heap = arena.heap();
    for layout in [layout(10, 8), layout(5000, 8), layout(3 << 20, 4096)] {
        let start = filled(&heap, layout, 1);
        assert!(!start.is_null(), "{layout:?}");
        emptied(&heap, start, layout, 1);
    }
    heap.trim();
    assert_eq!(arena.free(), 1024);
}

/// More aligned than a block can be: the run is had all the same, or refused, and comes back as it was.
#[test]
fn whole_blocks_are_no_larger_than_there_are() {
    let arena = Arena::<Nbbs4<Base4K>>::new(4096);
    let heap = arena.heap();
    for layout in [layout(4096, 8 << 20), layout(5 << 20, 4096), layout(3 << 12, 4 << 20)] {
        let start = filled(&heap, layout, 1);
        if !start.is_null() {
            emptied(&heap, start, layout, 1);
        }
        assert_eq!(arena.free(), 4096, "{layout:?}");
    }
}

#[test]
fn memory_grows_in_place_where_it_has_room() {
    let arena = Arena::<LLFree<Base4K>>::new(1024);
    let heap = arena.heap();
    let small = layout(10, 2);
    let start = filled(&heap, small, 7);
    // SAFETY: it was handed out with the layout that is named, and is used by its new address only.
    unsafe {
        assert_eq!(heap.realloc(start, small, 64), start);
        let moved = heap.realloc(start, layout(64, 2), 9000);
        assert_ne!(moved, start);
        assert_eq!(std::slice::from_raw_parts(moved, 10), [7; 10]);
        assert!(heap.realloc(moved, layout(9000, 2), 5 << 20).is_null(), "and it stays as it was");
        let back = heap.realloc(moved, layout(9000, 2), 10);
        emptied(&heap, back, small, 7);
    }
    heap.trim();
    assert_eq!(arena.free(), 1024);
}

#[test]
fn collections_of_others() {
    let arena = Arena::<LLFree<Base4K>>::new(1024);
    let heap = arena.heap();
    let mut numbers = Vec::new_in(&heap);
    numbers.extend(0..50_000u64);
    let boxed = Box::new_in([3u8; 300], &heap);
    let empty = Vec::<u8, _>::new_in(&heap);
    assert_eq!(numbers.iter().sum::<u64>(), 50_000 * 49_999 / 2);
    assert_eq!(boxed.len() + empty.len(), 300);
    assert_eq!(heap.allocate(layout(0, 64)).map(|memory| memory.len()), Ok(0));
    assert_eq!(heap.allocate(layout(65, 1)).map(|memory| memory.len()), Ok(128));
    drop((numbers, boxed, empty));
    drop(heap);
    assert_eq!(arena.free(), 1023, "the piece that nobody freed keeps its frame");
}

/// Pieces of one size cross from thread to thread: many more calls at once than places.
#[test]
fn threads_share_slabs_and_every_frame_returns() {
    const THREADS: usize = if cfg!(miri) { 3 } else { 12 };
    let rounds = if cfg!(miri) { 12 } else { 4000 };
    let arena = Arena::<LLFree<Base4K>>::new(2048);
    let heap = arena.heap();
    let heap = &heap;
    let boxes: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];
    let large = if cfg!(miri) { 4097 } else { 9000 };
    let layouts = [layout(40, 8), layout(64, 64), layout(700, 4), layout(large, 8)];
    let swap = |index: usize, new: usize| {
        let size = layouts[index % layouts.len()];
        let old = boxes[index].swap(new, Ordering::AcqRel) as *mut u8;
        if !old.is_null() {
            emptied(heap, old, size, index as u8);
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for round in 0..rounds {
                    let index = (round * 31 + thread * 7) % 64;
                    let size = layouts[index % layouts.len()];
                    swap(index, filled(heap, size, index as u8).expose_provenance());
                    if round % 512 == 0 {
                        heap.trim();
                    }
                }
            });
        }
    });
    (0..64).for_each(|index| swap(index, 0));
    heap.trim();
    assert_eq!((arena.free(), arena.zone.stats().free_huge), (2048, 4));
}

/// While all threads only allocate, slabs are filled: calls at once open one slab each, not one a call.
#[test]
fn threads_fill_slabs_up() {
    const THREADS: usize = 4;
    let arena = Arena::<LLFree<Base4K>>::new(2048);
    let heap = arena.heap();
    let each = if cfg!(miri) { 63 } else { 63 * 200 };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                (0..each).for_each(|_| assert!(!filled(&heap, layout(64, 8), 1).is_null()))
            });
        }
    });
    let used = 2048 - arena.free();
    let needed = THREADS * each / 63;
    assert!(used >= needed && used <= needed + 8 + THREADS, "{used} frames for {needed}");
}
