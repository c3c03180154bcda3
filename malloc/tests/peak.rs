//! Memory that one size had is the next one's: a program that frees all it has gets no huge frame more for another size.

mod memory;

use std::ptr::NonNull;

use memory::resident;
use woodlot_malloc::{alloc, free};

const PAGE: usize = 4096;
/// Eight huge frames, and some pages of a ninth one.
const BYTES: usize = (16 << 20) + (64 << 10);
/// What the caches keep of the first size, and some more.
const KEPT: usize = 300;

/// Allocates all bytes in blocks of a size, counts the pages, and frees them, the last one first.
fn peak(bytes: usize, blocks: &mut Vec<NonNull<u8>>) -> usize {
    for _ in 0..BYTES / bytes {
        let block = alloc(bytes).expect("there is memory");
        // SAFETY: the block has so many bytes.
        unsafe { block.cast::<usize>().write(1) };
        blocks.push(block);
    }
    let pages = resident() / PAGE;
    // SAFETY: each was allocated, and nobody uses it.
    blocks.drain(..).rev().for_each(|block| unsafe { free(block) });
    pages
}

#[test]
fn another_size_takes_no_huge_frame_more() {
    let mut blocks = Vec::with_capacity(BYTES / 256);
    blocks.resize(BYTES / 256, NonNull::dangling());
    blocks.clear();
    let first = peak(256, &mut blocks);
    let second = peak(PAGE, &mut blocks);
    assert!(second < first + KEPT, "{first} pages, then {second}");
}
