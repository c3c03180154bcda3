//! Memory that is short, comes to an end, and comes back.

use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock};

#[cfg(not(miri))]
use woodlot_frame::Construct;
use woodlot_frame::FrameAllocator;
use woodlot_kmem::{Direct, Hooks, Kmem, Misuse, Octaves, PAGE, Sizes};

use crate::LLFree;
use crate::cpus::{Caches, caches, run_on};
use crate::memory::Memory;
#[cfg(not(miri))]
use crate::on_all;

/// Allocates blocks until there are no more.
fn all_of<Z: FrameAllocator, S: Sizes, H: Hooks>(
    kmem: &Kmem<Caches<2>, Direct<'_, Z>, S, H>,
    bytes: usize,
) -> Vec<NonNull<u8>> {
    std::iter::from_fn(|| kmem.alloc(bytes)).collect()
}

/// The paper's worst case (section 4.2): all of memory in one size, freed, then in the next size.
#[cfg(not(miri))]
fn all_of_memory_in_each_size<Z: Construct + FrameAllocator, S: Sizes>() {
    let frames = 512;
    let memory = Memory::<Z>::new(frames, 2);
    let kmem: Kmem<_, _, S> = Kmem::new(caches::<2>(), memory.pages(), ());
    // Smaller blocks would be too many for a short test.
    let sizes = S::all().map(S::size).enumerate().filter(|(_, size)| size.bytes >= 64);
    for (number, size) in sizes {
        run_on(0);
        let mut blocks = all_of(&kmem, size.bytes);
        assert_eq!(blocks.len(), frames / size.pages() * size.blocks, "{size:?}");
        fastrand::Rng::with_seed(7).shuffle(&mut blocks);
        // Half of it is freed by another CPU.
        for (at, &block) in blocks.iter().enumerate() {
            run_on(at % 2);
            // SAFETY: each was allocated, and nobody uses it.
            unsafe { kmem.free(block, size.bytes) };
        }
        blocks.sort_unstable();
        assert!(
            blocks.is_sorted_by(|one, next| next.addr().get() - one.addr().get() >= size.bytes)
        );
        let stats = kmem.stats(number).expect("there is this size");
        assert_eq!(stats.coalesce.splits as usize, frames / size.pages(), "each page once");
    }
    // The last size is given up as the others are: by who asks next.
    let all = kmem.alloc(frames / 2 * PAGE).expect("half of memory in one piece");
    // SAFETY: as above.
    unsafe { kmem.free(all, frames / 2 * PAGE) };
    kmem.flush();
    assert!(memory.is_whole());
}

#[cfg(not(miri))]
on_all!(all_of_memory_in_each_size);

type All = Kmem<Caches<2>, Direct<'static, LLFree>, Octaves, Reclaimer>;

/// Frees what it has of the memory, when asked.
#[derive(Default)]
struct Reclaimer {
    kmem: OnceLock<&'static All>,
    spare: Mutex<Vec<(usize, usize)>>,
    asked: Mutex<Vec<usize>>,
}

impl Hooks for Reclaimer {
    fn misuse(&self, misuse: Misuse) {
        panic!("{misuse}");
    }

    fn reclaim(&self, pages: usize) -> bool {
        self.asked.lock().expect("not poisoned").push(pages);
        let spare = std::mem::take(&mut *self.spare.lock().expect("not poisoned"));
        let kmem = self.kmem.get().expect("it was set");
        for &(at, bytes) in &spare {
            let block = std::ptr::with_exposed_provenance_mut(at);
            // SAFETY: it was allocated, and nobody uses it.
            unsafe { kmem.free(NonNull::new(block).expect("not null"), bytes) };
        }
        !spare.is_empty()
    }
}

/// All of a small memory in blocks of one size, for good.
fn full_of(bytes: usize) -> (&'static All, Vec<NonNull<u8>>) {
    let memory = Box::leak(Box::new(Memory::<LLFree>::new(if cfg!(miri) { 8 } else { 512 }, 2)));
    let kmem: All = Kmem::new(caches::<2>(), memory.pages(), Reclaimer::default());
    let kmem: &'static All = Box::leak(Box::new(kmem));
    assert!(kmem.hooks().kmem.set(kmem).is_ok());
    run_on(0);
    let blocks = all_of(kmem, bytes);
    kmem.hooks().asked.lock().expect("not poisoned").clear();
    (kmem, blocks)
}

/// The page of a block.
fn page_of(block: NonNull<u8>) -> usize {
    block.addr().get() / PAGE
}

/// These blocks are freed when memory is short.
fn spare(kmem: &All, blocks: &[NonNull<u8>], bytes: usize) {
    let spare = blocks.iter().map(|block| (block.as_ptr().expose_provenance(), bytes));
    kmem.hooks().spare.lock().expect("not poisoned").extend(spare);
}

#[test]
fn the_last_block_goes_to_whoever_asks() {
    for bytes in [16, 256, 4096] {
        let (kmem, blocks) = full_of(bytes);
        for (freed_on, asked_on) in [(0, 0), (0, 1), (1, 0)] {
            run_on(freed_on);
            // SAFETY: it was allocated, and nobody uses it.
            unsafe { kmem.free(blocks[3], bytes) };
            run_on(asked_on);
            assert_eq!(kmem.alloc(bytes), Some(blocks[3]), "{bytes} bytes");
            assert_eq!(kmem.alloc(bytes), None);
        }
    }
}

#[test]
fn a_page_of_small_blocks_becomes_one_of_another_size() {
    let (kmem, mut blocks) = full_of(16);
    blocks.sort_unstable();
    let page = blocks[0];
    for (at, &block) in blocks[..256].iter().enumerate() {
        run_on(at % 2);
        // SAFETY: it was allocated, and nobody uses it.
        unsafe { kmem.free(block, 16) };
    }
    run_on(0);
    assert_eq!(kmem.alloc(8192), None, "there is one page");
    assert_eq!(kmem.alloc(2048).map(page_of), Some(page_of(page)));
}

#[test]
fn memory_is_reclaimed_when_there_is_none() {
    // What is freed lies in a cache of the very CPU that asks; in pages of another size; in a span.
    for (spared, asked) in [(256, 256), (2048, 512), (4096, 16), (4096, 3 * 4096)] {
        let (kmem, mut blocks) = full_of(spared);
        blocks.sort_unstable();
        assert_eq!(kmem.alloc(asked), None);
        spare(kmem, &blocks[..4096 / spared * asked.div_ceil(4096)], spared);
        let page = kmem.alloc(asked).map(page_of);
        assert_eq!(page, Some(page_of(blocks[0])), "{asked} bytes after {spared}");
        let asked_for = kmem.hooks().asked.lock().expect("not poisoned").clone();
        assert_eq!(asked_for, [asked.div_ceil(4096); 2], "once without success, once with");
    }
}

/// Pages are a run, where they are in no block of an order.
#[test]
fn pages_that_no_block_contains() {
    let (kmem, mut blocks) = full_of(4096);
    blocks.sort_unstable();
    for pages in [3, 5] {
        let freed = &blocks[1..=pages];
        // SAFETY: they were allocated, and nobody uses them.
        freed.iter().for_each(|&block| unsafe { kmem.free(block, PAGE) });
        assert_eq!(kmem.alloc(pages * PAGE), Some(freed[0]), "{pages} pages");
        // SAFETY: as above.
        unsafe { kmem.free(freed[0], pages * PAGE) };
        let mut again = all_of(kmem, PAGE);
        again.sort_unstable();
        assert_eq!(again, freed);
    }
}

/// A CPU for which there is no cache uses the layers below.
#[test]
fn a_cpu_without_a_cache() {
    let memory = Memory::<LLFree>::new(512, 1);
    let kmem: Kmem<_, _, Octaves> = Kmem::new(caches::<1>(), memory.pages(), ());
    run_on(5);
    let blocks: Vec<_> = (0..100).map(|_| kmem.alloc(64).expect("there is memory")).collect();
    for &block in &blocks {
        // SAFETY: each was allocated, and nobody uses it.
        unsafe { kmem.free(block, 64) };
    }
    assert!(!kmem.flush_cpu(5), "there is nothing to be reached");
    kmem.flush();
    assert!(memory.is_whole());
}
