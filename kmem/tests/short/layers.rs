//! What each layer does with a few blocks.

use std::ptr::NonNull;

use woodlot_frame::{FrameAllocator, FrameId};
use woodlot_kmem::{Direct, Kmem, Octaves, PAGE, Seen, SizeStats, Sizes};

use crate::LLFree;
use crate::cpus::{Caches, caches, run_on};
use crate::memory::Memory;

type Small<'a> = Kmem<Caches<2>, Direct<'a, LLFree>, Octaves>;

/// Blocks for the tests: 16 in a page, and lists of 64, 8 of which come and go at a time.
const BYTES: usize = 256;
const TARGET: usize = 64;
const LISTS: usize = 8;

fn kmem(memory: &Memory<LLFree>) -> Small<'_> {
    run_on(0);
    Kmem::new(caches::<2>(), memory.pages(), ())
}

fn alloc(kmem: &Small, count: usize) -> Vec<NonNull<u8>> {
    (0..count).map(|_| kmem.alloc(BYTES).expect("there is memory")).collect()
}

fn free(kmem: &Small, blocks: &[NonNull<u8>]) {
    // SAFETY: each was allocated, and nobody uses it.
    blocks.iter().for_each(|&block| unsafe { kmem.free(block, BYTES) });
}

fn stats(kmem: &Small) -> SizeStats {
    let number = Octaves::of(BYTES).expect("it is small").index();
    kmem.stats(number).expect("there is this size")
}

/// Section 3.3.1: each half holds `target` blocks; one more moves a list to the global layer.
#[test]
fn a_cpu_keeps_two_lists() {
    let memory = Memory::new(512, 2);
    let kmem = kmem(&memory);
    let blocks = alloc(&kmem, 2 * TARGET + 1);
    kmem.flush();
    let before = stats(&kmem).global.puts;
    free(&kmem, &blocks[..2 * TARGET]);
    assert_eq!(stats(&kmem).global.puts, before, "both lists have room");
    free(&kmem, &blocks[2 * TARGET..]);
    assert_eq!(stats(&kmem).global.puts, before + 1);
    assert_eq!(stats(&kmem).global_blocks, TARGET);
    let takes = stats(&kmem).global.takes;
    alloc(&kmem, TARGET + 1);
    assert_eq!(stats(&kmem).global.takes, takes, "both lists are used up first");
    alloc(&kmem, 1);
    assert_eq!(stats(&kmem).global.takes, takes + 1);
}

/// Section 3.3.2: lists go from a CPU that frees to one that allocates, and no page is touched.
#[test]
fn lists_go_from_one_cpu_to_another() {
    let memory = Memory::new(512, 2);
    let kmem = kmem(&memory);
    let first = alloc(&kmem, 4 * TARGET);
    free(&kmem, &alloc(&kmem, 4 * TARGET));
    let before = stats(&kmem);
    for _ in 0..10 {
        run_on(0);
        let blocks = alloc(&kmem, 3 * TARGET);
        run_on(1);
        free(&kmem, &blocks);
    }
    let after = stats(&kmem);
    assert_eq!(after.coalesce, before.coalesce, "no page is touched");
    assert_eq!(after.global.take_misses, before.global.take_misses);
    assert_eq!(after.global.put_misses, 0);
    free(&kmem, &first);
}

/// Section 3.3.2: `gbltarget` lists come from the pages at a time; at first fewer, for a size that few ask for.
#[test]
fn a_global_layer_fills_the_more_often_it_is_empty() {
    let memory = Memory::new(512, 2);
    let kmem = kmem(&memory);
    for lists in [1, 2, 4, LISTS, LISTS] {
        let before = stats(&kmem).coalesce;
        alloc(&kmem, lists * TARGET);
        let after = stats(&kmem);
        assert_eq!((after.global_blocks, after.coalesce.free), (0, 0), "{lists}");
        let pages = (after.coalesce.splits - before.splits) as usize;
        assert_eq!(pages, lists * TARGET * BYTES / PAGE, "{lists} lists are not what was made");
    }
}

/// Section 3.3.2: a global layer that is too full gives half of it to the pages.
#[test]
fn a_global_layer_that_is_too_full() {
    let memory = Memory::new(512, 2);
    let kmem = kmem(&memory);
    let blocks = alloc(&kmem, (2 * LISTS + 2) * TARGET + 1);
    kmem.flush();
    free(&kmem, &blocks);
    let SizeStats { global, global_blocks, coalesce, .. } = stats(&kmem);
    assert_eq!((global.put_misses, global_blocks), (1, (LISTS + 1) * TARGET));
    assert!(coalesce.free + coalesce.coalesces as usize * (PAGE / BYTES) >= LISTS * TARGET);
}

/// Section 3.3.3: a page with few free blocks is allocated from before one with many.
#[test]
fn the_fullest_slab_comes_first() {
    let memory = Memory::new(512, 2);
    let kmem = kmem(&memory);
    let mut blocks = alloc(&kmem, 3 * PAGE / BYTES);
    kmem.flush();
    blocks.sort_unstable();
    let (empty, rest) = blocks.split_at(PAGE / BYTES);
    let (full, middle) = rest.split_at(PAGE / BYTES);
    free(&kmem, &empty[1..]);
    free(&kmem, &full[5..6]);
    free(&kmem, &middle[..8]);
    kmem.flush();
    assert_eq!(stats(&kmem).coalesce.free, PAGE / BYTES - 1 + 1 + 8);
    // The list of the CPU has what was taken last first.
    let again = alloc(&kmem, TARGET);
    let page = |block: NonNull<u8>| block.addr().get() / PAGE;
    assert!(again[..15].iter().all(|&block| page(block) == page(empty[0])));
    assert!(again[15..23].iter().all(|&block| page(block) == page(middle[0])));
    assert_eq!(again[23], full[5], "the only free block of its page");
}

/// Blocks of new pages, and new pages themselves, are handed out as they lie: memory is gone through upwards, whatever the
/// layers have taken at a time.
#[test]
fn new_blocks_come_in_the_order_of_their_addresses() {
    for bytes in [BYTES, PAGE, 16] {
        let memory = Memory::new(2048, 2);
        let kmem = kmem(&memory);
        let mut blocks = (0..4 * LISTS * TARGET / (1 + bytes / PAGE * 3))
            .map(|_| kmem.alloc(bytes).expect("there is memory").addr().get());
        let first = blocks.next().expect("there are some");
        for (at, block) in blocks.enumerate() {
            assert_eq!(block, first + (at + 1) * bytes, "block {} of {bytes} bytes", at + 1);
        }
    }
}

/// Pages of a list of blocks that are pages.
const PAGES: usize = 32;

/// Frames that the zone has given away.
fn used(memory: &Memory<LLFree>) -> usize {
    memory.zone.zone().frames - memory.zone.stats().free_frames
}

fn alloc_pages(kmem: &Small, count: usize) -> Vec<NonNull<u8>> {
    (0..count).map(|_| kmem.alloc(PAGE).expect("there is memory")).collect()
}

/// Pages that nobody has asked for are few, however often the global layer has none.
#[test]
fn one_list_of_pages_comes_at_a_time() {
    let memory = Memory::new(2048, 2);
    let kmem = kmem(&memory);
    for lists in 1..=20 {
        alloc_pages(&kmem, PAGES);
        assert_eq!(used(&memory), lists * PAGES);
    }
}

fn free_pages(kmem: &Small, pages: &[NonNull<u8>]) {
    // SAFETY: each was allocated, and nobody uses it.
    pages.iter().for_each(|&page| unsafe { kmem.free(page, PAGE) });
}

/// Lists of pages in the global layer.
fn lists_of_pages(kmem: &Small) -> usize {
    let number = Octaves::of(PAGE).expect("it is a size").index();
    kmem.stats(number).expect("there is this size").global_blocks / PAGES
}

/// Section 3.3.2: of pages the global layer has 30 lists, too. When it has more, 15 go: those that were freed first.
#[test]
fn a_global_layer_with_too_many_pages() {
    let memory = Memory::new(2048, 2);
    let kmem = kmem(&memory);
    let pages = alloc_pages(&kmem, (2 + 31) * PAGES);
    let all = used(&memory);
    free_pages(&kmem, &pages[..(2 + 30) * PAGES]);
    assert_eq!((lists_of_pages(&kmem), used(&memory)), (30, all));
    free_pages(&kmem, &pages[(2 + 30) * PAGES..]);
    assert_eq!((lists_of_pages(&kmem), used(&memory)), (16, all - 15 * PAGES));
    let is_free = |page: &NonNull<u8>| {
        let frame = (page.addr().get() - memory.frame(0).addr().get()) / PAGE;
        memory.zone.free_map(FrameId(frame / 64 * 64)) >> (frame % 64) & 1 == 1
    };
    assert!(pages[..15 * PAGES].iter().all(is_free), "others than the first went");
}

/// What the global layer has of pages goes down before another size takes pages, and before a span does, so that neither takes more memory
/// for that.
#[test]
fn pages_of_the_global_layer_are_had_by_others_first() {
    let memory = Memory::new(2048, 2);
    let kmem = kmem(&memory);
    for is_span in [false, true] {
        free_pages(&kmem, &alloc_pages(&kmem, (2 + 30) * PAGES));
        let most = used(&memory);
        for left in (0..30).rev() {
            // Until the slabs are asked, or the pages.
            let before = stats(&kmem).global.take_misses;
            while !is_span && stats(&kmem).global.take_misses == before {
                alloc(&kmem, 1);
            }
            assert!(!is_span || kmem.alloc(9 * PAGE).is_some());
            assert_eq!(lists_of_pages(&kmem), left, "is a span: {is_span}");
            assert!(used(&memory) <= most, "{} frames, not {most}", used(&memory));
        }
    }
}

/// None of them where slabs have blocks, and as many as a span has pages.
#[test]
fn pages_of_the_global_layer_stay_that_nobody_needs() {
    let memory = Memory::new(4096, 2);
    let kmem = kmem(&memory);
    let blocks = alloc(&kmem, 2 * LISTS * TARGET);
    let halves: Vec<_> = blocks.into_iter().step_by(2).collect();
    free(&kmem, &halves);
    kmem.flush();
    free_pages(&kmem, &alloc_pages(&kmem, (2 + 30) * PAGES));
    alloc(&kmem, LISTS * TARGET);
    assert_eq!((stats(&kmem).coalesce.free, lists_of_pages(&kmem)), (0, 30));
    alloc(&kmem, 1);
    assert_eq!(lists_of_pages(&kmem), 29, "8 lists are a list of pages");
    assert!(kmem.alloc(512 * PAGE).is_some());
    assert_eq!(lists_of_pages(&kmem), 13, "512 pages are 16 lists");
}

/// A frame number that is aligned says nothing of the address, where frame 0 is not aligned.
#[test]
fn frames_that_are_less_aligned_than_asked() {
    let memory = Memory::starting_at(1, 512, 2);
    let kmem = kmem(&memory);
    assert_eq!(kmem.alloc_aligned(100, 2 * PAGE), None);
    assert!(kmem.alloc_aligned(100, PAGE).is_some_and(|block| block.addr().get() % PAGE == 0));
}

/// Blocks of a CPU's caches.
fn cached(kmem: &Small, blocks: usize) -> usize {
    let stats = stats(kmem);
    blocks - stats.global_blocks - stats.coalesce.free
}

/// The global layer gives its blocks back, and CPUs keep theirs.
#[test]
fn the_global_layer_is_flushed_alone() {
    let memory = Memory::new(512, 2);
    let kmem = kmem(&memory);
    let blocks = alloc(&kmem, 8 * TARGET);
    free(&kmem, &blocks);
    let kept = cached(&kmem, stats(&kmem).pages * 16);
    assert!(kept > 0 && stats(&kmem).global_blocks > 0, "{kept} blocks in caches");
    kmem.flush_global();
    let after = stats(&kmem);
    assert_eq!((after.global_blocks, cached(&kmem, after.pages * 16)), (0, kept));
    kmem.flush_cpu(0);
    kmem.flush_global();
    assert_eq!((stats(&kmem).pages, memory.is_whole()), (0, true));
}

/// A clock flushes what its CPU has not used between two looks, and the global layer likewise.
#[test]
fn what_nobody_has_used_goes_down_a_layer() {
    let memory = Memory::new(512, 2);
    let kmem = kmem(&memory);
    let (mut caches, mut global) = (Seen::new(), Seen::new());
    let blocks = alloc(&kmem, 2 * TARGET);
    let (pages, other) = (stats(&kmem).pages, kmem.alloc(64).expect("there is memory"));
    let all = pages * 16;
    free(&kmem, &blocks);
    assert!(kmem.flush_unused(0, &mut caches));
    assert_eq!(cached(&kmem, all), 2 * TARGET, "what was just freed goes");
    // SAFETY: it was allocated, and nobody uses it.
    unsafe { kmem.free(other, 64) };
    let block = alloc(&kmem, 1);
    assert!(kmem.flush_unused(0, &mut caches));
    assert_eq!(cached(&kmem, all), 2 * TARGET, "what is used goes");
    free(&kmem, &block);
    assert!(kmem.flush_unused(0, &mut caches));
    kmem.flush_unused_global(&mut global);
    assert!(kmem.flush_unused(0, &mut caches));
    assert_eq!(cached(&kmem, all), 0, "what nobody uses stays");
    assert!(stats(&kmem).global_blocks > 0);
    kmem.flush_unused_global(&mut global);
    assert!(stats(&kmem).global_blocks > 0, "what has just come goes");
    kmem.flush_unused_global(&mut global);
    assert_eq!(stats(&kmem).global_blocks, 0, "what nobody uses stays");
    assert!(memory.is_whole());
    assert!(!kmem.flush_unused(1, &mut caches), "another CPU is not seen");
}
