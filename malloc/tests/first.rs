//! What a heap takes before a program has much in it, and how it goes on when the first segment is used up.

use woodlot_malloc::{alloc, free};

/// Pages of the process that have memory.
fn resident() -> usize {
    let said = std::fs::read_to_string("/proc/self/statm").expect("it is Linux");
    let pages = said.split_whitespace().nth(1).and_then(|pages| pages.parse().ok());
    pages.expect("the second number")
}

/// Pages for the first block: its slab, and what describes 1 GiB. There were 108 where that was 4 GiB, and there are 82.
const LITTLE: usize = 95;

/// Blocks of 4 MiB, half a GiB more than the first segment has.
const LARGE: usize = 4 << 20;
const COUNT: usize = 384;

#[test]
fn a_heap_begins_with_little_and_goes_on() {
    let before = resident();
    let first = alloc(16).expect("there is memory");
    let taken = resident() - before;
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
