//! The heap over real memory: every byte is written and read again, and every frame returns.

mod common;

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicUsize, Ordering};

use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use woodlot_frame::{
    Base4K, Base16K, ClassPolicy, Construct, FrameAllocator, Order, Request, Slot,
};
use woodlot_kernel::{Checked, Heap, Hooks, Marks, Misuse, NotStarted};
use woodlot_llfree::LLFree;
use woodlot_nbbs::Nbbs4;

use common::{Arena, Threads};

type Of<'a, A, H = ()> = Heap<'a, A, Threads, 8, H>;

/// Frames for the descriptors of so many.
fn descriptors(frames: usize) -> usize {
    frames / 256
}

fn heap<A: Construct>(arena: &Arena<A>) -> Of<'_, A> {
    let heap = Heap::new(Threads, ());
    // SAFETY: every frame is mapped there, and only the heap uses the zone.
    unsafe { heap.start(&*arena.zone, arena.base()) }.expect("it starts once");
    heap
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("a layout")
}

/// Allocates, checks the place, and writes all of it.
fn filled<A: FrameAllocator>(heap: &Of<'_, A>, layout: Layout, value: u8) -> *mut u8 {
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
fn emptied<A: FrameAllocator>(heap: &Of<'_, A>, start: *mut u8, layout: Layout, value: u8) {
    // SAFETY: it was handed out with this layout, and is used no more.
    unsafe {
        let bytes = std::slice::from_raw_parts(start, layout.size());
        assert!(bytes.iter().all(|&byte| byte == value), "somebody else wrote into {layout:?}");
        heap.dealloc(start, layout);
    }
}

fn every_size_and_alignment<A: Construct>() {
    let arena = Arena::<A>::new(if cfg!(miri) { 4096 } else { 65536 });
    let before = arena.free();
    let heap = heap(&arena);
    let sizes = [1, 8, 16, 17, 100, 1000, 1024, 1025, 4095, 4096, 4097, 3 << 12, (5 << 12) + 7];
    let aligns = (0..=15).map(|shift| 1usize << shift);
    let layouts: std::vec::Vec<_> = sizes
        .into_iter()
        .flat_map(|size| aligns.clone().map(move |align| layout(size, align)))
        .collect();
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
    assert_eq!(arena.free(), before - descriptors(before));
    drop(heap);
    assert_eq!(arena.free(), before, "the descriptors' frames return with the heap");
}

#[test]
fn sizes_and_alignments_of_every_engine() {
    every_size_and_alignment::<LLFree<Base4K>>();
    every_size_and_alignment::<Nbbs4<Base4K>>();
}

#[test]
fn every_frame_is_had_and_returns() {
    for size in [16, 64, 100, 512, 1024, 4096, 12288] {
        let frames = if cfg!(miri) { 32 } else { 1024 };
        let arena = Arena::<LLFree<Base4K>>::new(frames);
        let heap = heap(&arena);
        let there = arena.free();
        let layout = layout(size, 8);
        let mut got = std::vec::Vec::new();
        loop {
            let start = filled(&heap, layout, got.len() as u8);
            if start.is_null() {
                break;
            }
            got.push(start);
        }
        // Blocks of 112 bytes serve 100. Of each block of four frames one is left when three were asked for.
        let least = if size <= 4096 { there * 4096 / size * 8 / 10 } else { there / 4 - 1 };
        assert!(got.len() >= least, "{} of {size} bytes", got.len());
        assert!(size != 4096 || (got.len(), arena.free()) == (there, 0));
        for (n, &start) in got.iter().enumerate() {
            emptied(&heap, start, layout, n as u8);
        }
        heap.trim();
        assert_eq!(arena.free(), there, "of {size} bytes");
        drop(heap);
        assert_eq!((arena.free(), arena.zone.stats().free_huge), (frames, frames / 512));
    }
}

#[test]
fn exactly_as_many_frames_as_it_takes() {
    let arena = Arena::<LLFree<Base4K>>::new(2048);
    let heap = heap(&arena);
    let there = arena.free();
    for (size, frames) in [(4097, 2), (20_000, 5), (1 << 20, 256), (5 << 20, 1280)] {
        let layout = layout(size, 16);
        let start = filled(&heap, layout, 1);
        assert_eq!(arena.free(), there - frames, "for {size} bytes");
        emptied(&heap, start, layout, 1);
        assert_eq!(arena.free(), there);
    }
}

#[test]
fn what_cannot_be_served_is_refused_and_changes_nothing() {
    let arena = Arena::<LLFree<Base4K>>::new(1024);
    let heap = heap(&arena);
    let there = arena.free();
    for wrong in [
        layout(5 << 20, 8),
        layout(isize::MAX as usize, 1),
        layout(isize::MAX as usize - 4095, 4096),
        layout(1, 1 << 40),
        layout(64, 1 << 62),
    ] {
        assert!(filled(&heap, wrong, 0).is_null(), "{wrong:?}");
        assert!(heap.allocate(wrong).is_err());
        heap.trim();
        assert_eq!(arena.free(), there);
    }
    // SAFETY: nobody uses memory of it.
    assert_eq!(unsafe { heap.start(&*arena.zone, arena.base()) }, Err(NotStarted::Already));
}

#[test]
fn a_heap_that_is_not_started_has_nothing() {
    let heap = Of::<LLFree<Base4K>>::new(Threads, ());
    assert!(filled(&heap, layout(8, 8), 0).is_null());
    assert!(filled(&heap, layout(8192, 8), 0).is_null());
    assert!(heap.allocate(layout(8, 8)).is_err());
    heap.trim();

    // A zone without a frame that is free, then one that has them: the same heap starts.
    let arena = Arena::<LLFree<Base4K>>::new(64);
    let all: std::vec::Vec<_> =
        std::iter::from_fn(|| arena.zone.alloc(Request::movable(Order(0), Slot(0))).ok()).collect();
    let heap = Of::<LLFree<Base4K>>::new(Threads, ());
    // SAFETY: every frame is mapped there, and only the heap uses what it gets.
    let start = || unsafe { heap.start(&*arena.zone, arena.base()) };
    assert_eq!(start(), Err(NotStarted::NoMemory));
    all.into_iter().for_each(|frame| arena.zone.free(frame, Order(0), Slot(0)).expect("taken"));
    assert_eq!(start(), Ok(()));
    emptied(&heap, filled(&heap, layout(8, 8), 3), layout(8, 8), 3);
}

#[test]
fn zones_of_other_frames_are_refused() {
    let arena = Arena::<LLFree<Base16K>>::new(64);
    let heap = Of::<LLFree<Base16K>>::new(Threads, ());
    // SAFETY: nobody uses memory of it.
    assert_eq!(unsafe { heap.start(&*arena.zone, arena.base()) }, Err(NotStarted::Frames));
    let arena = Arena::<LLFree<Base4K>>::new(64);
    let heap = Of::<LLFree<Base4K>>::new(Threads, ());
    let null = std::ptr::null_mut::<u8>().wrapping_sub(common::START * 4096);
    // SAFETY: as above.
    assert_eq!(unsafe { heap.start(&*arena.zone, null) }, Err(NotStarted::Null));
    assert_eq!(arena.free(), 64);
}

#[test]
fn memory_is_no_more_aligned_than_the_base() {
    let arena = Arena::<LLFree<Base4K>>::new(1024);
    let heap = Of::<LLFree<Base4K>>::new(Threads, ());
    let base = arena.base().wrapping_add(4096);
    // SAFETY: the last frame, which would not be mapped, is taken.
    unsafe {
        let last =
            Request::movable(Order(0), Slot(0)).at(woodlot_frame::FrameId(common::START + 1023));
        arena.zone.alloc(last).expect("it is free");
        heap.start(&*arena.zone, base).expect("it starts");
    }
    for refused in [layout(1, 8192), layout(8192, 8192), layout(1 << 20, 1 << 20)] {
        assert!(heap.allocate(refused).is_err(), "{refused:?}");
    }
    for served in [layout(1, 4096), layout(64, 64), layout(3 << 12, 4096)] {
        let memory = heap.allocate(served).expect("there is memory");
        assert!(memory.as_ptr().addr().is_multiple_of(served.align()), "{served:?}");
    }
}

#[test]
fn a_zone_of_one_class_serves_a_heap() {
    let arena = Arena::<LLFree<Base4K>>::with_classes(1024, ClassPolicy::SINGLE);
    let heap = heap(&arena);
    for layout in [layout(10, 8), layout(5000, 8), layout(2 << 20, 4096)] {
        let start = filled(&heap, layout, 1);
        assert!(!start.is_null(), "{layout:?}");
        emptied(&heap, start, layout, 1);
    }
    drop(heap);
    assert_eq!(arena.free(), 1024);
}

#[test]
fn memory_grows_in_place_where_it_has_room() {
    let arena = Arena::<LLFree<Base4K>>::new(1024);
    let heap = heap(&arena);
    let small = layout(10, 2);
    let start = filled(&heap, small, 7);
    // SAFETY: it was handed out with the layout that is named, and is used by its new address only.
    unsafe {
        assert_eq!(heap.realloc(start, small, 16), start);
        let moved = heap.realloc(start, layout(16, 2), 9000);
        assert_ne!(moved, start);
        assert_eq!(std::slice::from_raw_parts(moved, 10), [7; 10]);
        assert_eq!(heap.realloc(moved, layout(9000, 2), 12288), moved);
        assert!(heap.realloc(moved, layout(12288, 2), 5 << 20).is_null(), "and it stays as it was");
        let back = heap.realloc(moved, layout(12288, 2), 10);
        emptied(&heap, back, small, 7);
    }
    drop(heap);
    assert_eq!(arena.free(), 1024);
}

#[test]
fn collections_of_others() {
    let arena = Arena::<LLFree<Base4K>>::new(1024);
    let heap = heap(&arena);
    let mut numbers = Vec::new_in(&heap);
    numbers.extend(0..50_000u64);
    let boxed = Box::new_in([3u8; 300], &heap);
    let empty = Vec::<u8, _>::new_in(&heap);
    assert_eq!(numbers.iter().sum::<u64>(), 50_000 * 49_999 / 2);
    assert_eq!(boxed.len() + empty.len(), 300);
    assert_eq!(heap.allocate(layout(0, 64)).map(|memory| memory.len()), Ok(0));
    drop((numbers, boxed, empty));
    drop(heap);
    assert_eq!(arena.free(), 1024);
}

/// Counts what a heap says.
#[derive(Default)]
struct Ears {
    misuse: AtomicUsize,
    told: AtomicUsize,
}

impl Hooks for &Ears {
    fn misuse(&self, misuse: Misuse) {
        assert!(matches!(misuse, Misuse::DoubleFree(_) | Misuse::Foreign(_)));
        self.misuse.fetch_add(1, Ordering::Relaxed);
    }

    fn reclaim(&self, _: usize) -> bool {
        self.told.fetch_add(1, Ordering::Relaxed);
        false
    }
}

#[test]
fn the_hooks_hear_of_short_memory_and_wrong_frees() {
    let (arena, ears) = (Arena::<LLFree<Base4K>>::new(1024), Ears::default());
    let heap = Of::<LLFree<Base4K>, &Ears>::new(Threads, &ears);
    let told = || [&ears.misuse, &ears.told].map(|count| count.load(Ordering::Relaxed));
    // SAFETY: every frame is mapped there; the second free is the heap's to find.
    unsafe {
        heap.start(&*arena.zone, arena.base()).expect("it starts");
        assert!(heap.alloc(layout(5 << 20, 8)).is_null());
        assert_eq!(told(), [0, 1]);
        let span = heap.alloc(layout(8192, 8));
        heap.dealloc(span, layout(8192, 8));
        heap.dealloc(span, layout(8192, 8));
        assert_eq!(told(), [1, 1]);
    }
}

/// With marks a heap finds each wrong free of a layout at the call, and nothing else changes.
#[test]
fn a_heap_with_marks_finds_each_wrong_free() {
    const FRAMES: usize = 1024;
    let (arena, told) = (Arena::<LLFree<Base4K>>::new(FRAMES), Told::default());
    let marks: std::vec::Vec<_> = (0..FRAMES).map(|_| Marks::default()).collect();
    let heap = Of::<LLFree<Base4K>, _>::new(Threads, Checked::new(&told, &marks));
    let before = arena.free() - descriptors(FRAMES);
    let heard = || std::mem::take(&mut *told.0.lock().expect("nobody has panicked"));
    // SAFETY: every frame is mapped there; the wrong frees are the heap's to find.
    unsafe {
        heap.start(&*arena.zone, arena.base()).expect("it starts");
        for bytes in [8, 100, 1000, 3000, 4096, 8192] {
            let (right, wrong) = (layout(bytes, 8), layout(3 * bytes, 8));
            let [block, other] = [0, 1].map(|_| heap.alloc(right));
            heap.dealloc(block, wrong);
            heap.dealloc(block.wrapping_add(4), right);
            assert_eq!(heard(), [Misuse::WrongSize(block), Misuse::Interior(block.add(4))]);
            heap.dealloc(block, right);
            assert_eq!(heard(), []);
            heap.dealloc(block, right);
            let is_span = bytes > 4096;
            let twice = if is_span { Misuse::Foreign(block) } else { Misuse::DoubleFree(block) };
            assert_eq!(heard(), [twice], "{bytes}");
            let again = heap.alloc(right);
            assert_ne!(again, other, "a list was destroyed");
            heap.dealloc(again, right);
            heap.dealloc(other, right);
            assert_eq!(heard(), []);
        }
    }
    heap.trim();
    assert_eq!(arena.free(), before, "frames are lost");
}

/// What a heap with marks has told.
#[derive(Default)]
struct Told(std::sync::Mutex<std::vec::Vec<Misuse>>);

impl Hooks for &Told {
    fn misuse(&self, misuse: Misuse) {
        self.0.lock().expect("nobody has panicked").push(misuse);
    }
}

/// Blocks of one size cross from CPU to CPU, and every frame returns when the CPUs have gone.
#[test]
fn cpus_share_memory_and_every_frame_returns() {
    const CPUS: usize = if cfg!(miri) { 3 } else { 8 };
    let rounds = if cfg!(miri) { 12 } else { 4000 };
    let arena = Arena::<LLFree<Base4K>>::new(2048);
    let heap = heap(&arena);
    let heap = &heap;
    let boxes: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];
    let layouts = [layout(40, 8), layout(64, 64), layout(700, 4), layout(9000, 8)];
    let swap = |index: usize, new: usize| {
        let size = layouts[index % layouts.len()];
        let old = boxes[index].swap(new, Ordering::AcqRel) as *mut u8;
        if !old.is_null() {
            emptied(heap, old, size, index as u8);
        }
    };
    std::thread::scope(|scope| {
        for cpu in 0..CPUS {
            scope.spawn(move || {
                Threads::be(cpu);
                for round in 0..rounds {
                    let index = (round * 31 + cpu * 7) % 64;
                    let size = layouts[index % layouts.len()];
                    swap(index, filled(heap, size, index as u8).expose_provenance());
                }
                assert!(heap.kmem().flush_cpu(cpu), "a CPU does not reach itself");
            });
        }
    });
    (0..64).for_each(|index| swap(index, 0));
    heap.trim();
    assert_eq!(arena.free(), 2048 - descriptors(2048));
}

/// What a CPU keeps, and what the lists between CPUs and pages have, goes back by clocks when nobody uses it.
#[test]
fn clocks_give_back_what_nobody_uses() {
    let arena = Arena::<LLFree<Base4K>>::new(2048);
    let heap = heap(&arena);
    let all = 2048 - descriptors(2048);
    Threads::be(3);
    (0..3).for_each(|_| emptied(&heap, filled(&heap, layout(700, 4), 1), layout(700, 4), 1));
    heap.flush_unused();
    assert!(arena.free() < all, "a CPU keeps nothing");
    Threads::be(0);
    (0..3).for_each(|_| heap.flush_unused());
    assert!(arena.free() < all, "another CPU's clock takes it");
    Threads::be(3);
    heap.flush_unused();
    assert!(arena.free() < all, "it is not between CPUs and pages first");
    Threads::be(0);
    heap.flush_unused();
    assert!(arena.free() < all, "what has just come goes");
    heap.flush_unused();
    assert_eq!(arena.free(), all, "what nobody uses stays");
}
