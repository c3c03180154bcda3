//! What a heap takes before a program has much in it, and how it goes on when the first segment is used up.

mod memory;

use memory::resident;
use woodlot_malloc::{alloc, free};

const PAGE: usize = 4096;
/// Pages for the first block: its slab, and what describes 1 GiB. There are 21; 26 more where that is 4 GiB.
const LITTLE: usize = 32;

/// Blocks of 4 MiB, half a GiB more than the first segment has.
const LARGE: usize = 4 << 20;
const COUNT: usize = 384;

#[test]
fn a_heap_begins_with_little_and_goes_on() {
    let before = resident();
    let first = alloc(16).expect("there is memory");
    let taken = (resident() - before) / PAGE;
    assert!(taken < LITTLE, "{taken} pages for one block");
    let mut blocks: Vec<_> =
        (0..COUNT).map(|_| alloc(LARGE).expect("there are addresses")).collect();
    blocks.sort_unstable();
    let apart = blocks.windows(2).all(|two| two[1].addr().get() - two[0].addr().get() >= LARGE);
    assert!(apart, "blocks lie in each other");
    blocks.push(first);
    // SAFETY: each was allocated, and nobody uses it.
    blocks.into_iter().for_each(|block| unsafe { free(block) });
}
