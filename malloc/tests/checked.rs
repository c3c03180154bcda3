//! The checking profile under this very program: each wrong free by Rust's interface is found at the call, and changes nothing.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicUsize, Ordering};

use woodlot_malloc::{Misuse, Woodlot, on_misuse};

#[global_allocator]
static HEAP: Woodlot = Woodlot;

/// What was told of last, in numbers: the hook may not allocate.
static KIND: AtomicUsize = AtomicUsize::new(0);
static AT: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn hear(misuse: Misuse) {
    let (kind, at) = misuse.numbered();
    KIND.store(kind as usize, Ordering::Relaxed);
    AT.store(at.addr(), Ordering::Relaxed);
    COUNT.fetch_add(1, Ordering::Relaxed);
}

/// One wrong call of this kind was told of since the last time.
#[track_caller]
fn heard(kind: usize, at: *mut u8) {
    let told = (COUNT.swap(0, Ordering::Relaxed), KIND.load(Ordering::Relaxed));
    assert_eq!((told, AT.load(Ordering::Relaxed)), ((1, kind), at.addr()));
}

#[test]
fn each_wrong_free_is_found_at_the_call() {
    on_misuse(hear);
    let [foreign, interior, wrong_size, twice] = [1, 2, 3, 4];
    let mut local = [0u64; 8];
    for bytes in [1, 16, 24, 100, 900, 3000, 4096, 5000, 30_000, 100_000, 5 << 20] {
        for align in [8, 64, 4096, 16 << 10, 8 << 20] {
            let layout = Layout::from_size_align(bytes, align).expect("a layout");
            let larger = Layout::from_size_align(2 * bytes + 9000, align).expect("a layout");
            // SAFETY: what is wrong frees nothing, and the block is freed once.
            unsafe {
                let block = HEAP.alloc(layout);
                assert!(!block.is_null());
                block.write_bytes(7, bytes);
                HEAP.dealloc((&raw mut local).cast(), layout);
                heard(foreign, (&raw mut local).cast());
                HEAP.dealloc(block.wrapping_add(8), layout);
                heard(interior, block.wrapping_add(8));
                HEAP.dealloc(block, larger);
                heard(wrong_size, block);
                let mut all = (0..bytes).map(|at| block.add(at).read());
                assert!(all.all(|byte| byte == 7), "a wrong free has written to the block");
                HEAP.dealloc(block, layout);
                HEAP.dealloc(block, layout);
                // The pages of a span are gone.
                let is_span = bytes > 32 << 10 || align > 4096;
                heard(if is_span { foreign } else { twice }, block);
                assert!(HEAP.realloc(block, layout, 10).is_null());
                heard(if is_span { foreign } else { twice }, block);
            }
        }
    }
    // What was made longer or shorter is freed by what it is now, at any alignment.
    let lengths =
        [1, 17, 100, 120, 900, 3000, 4096, 5000, 7500, 8192, 30_000, 32_768, 100_000, 5_242_880];
    for align in (0..24).map(|log| 1 << log) {
        for (old, new) in lengths.iter().flat_map(|&old| lengths.map(|new| (old, new))) {
            let [old, new] =
                [old, new].map(|bytes| Layout::from_size_align(bytes, align).expect("a layout"));
            // SAFETY: the block is freed once, with the layout that it has then.
            unsafe {
                let block = HEAP.realloc(HEAP.alloc(old), old, new.size());
                assert!(!block.is_null() && block.addr().is_multiple_of(align));
                HEAP.dealloc(block, new);
            }
        }
    }
    // And all of it goes on.
    let words: Vec<_> = (0..100_000).map(|n: u32| n.to_string()).collect();
    assert_eq!(words.iter().map(String::len).sum::<usize>(), 488_890);
    drop(words);
    woodlot_malloc::trim(0);
    assert_eq!(COUNT.load(Ordering::Relaxed), 0, "a right call was told of");
}
