//! The heap as the allocator of this very program, against a naive model.

use std::alloc::{GlobalAlloc, Layout};
use std::collections::BTreeMap;
use std::thread;

use woodlot_malloc::Woodlot;

#[global_allocator]
static HEAP: Woodlot = Woodlot;

/// A block in use: its layout, and the byte that it is filled with.
struct Used {
    layout: Layout,
    byte: u8,
}

/// Blocks in use by address: the judge.
#[derive(Default)]
struct Model(BTreeMap<usize, Used>);

impl Model {
    /// A new block must overlap no other, and be aligned.
    fn insert(&mut self, block: *mut u8, layout: Layout, byte: u8) {
        assert!(!block.is_null() && block.addr().is_multiple_of(layout.align()), "{layout:?}");
        let end = block.addr() + layout.size();
        if let Some((before, used)) = self.0.range(..end).next_back() {
            assert!(before + used.layout.size() <= block.addr(), "{layout:?} overlaps");
        }
        // SAFETY: the block has so many bytes.
        unsafe { block.write_bytes(byte, layout.size()) };
        self.0.insert(block.expose_provenance(), Used { layout, byte });
    }

    /// Any block in use, which must hold what was written.
    fn remove(&mut self, random: &mut fastrand::Rng) -> Option<(*mut u8, Used)> {
        let at = random.usize(..self.0.len().max(1));
        let address = *self.0.keys().nth(at)?;
        let used = self.0.remove(&address)?;
        let block = std::ptr::with_exposed_provenance_mut::<u8>(address);
        check(block, used.layout.size(), used.byte);
        Some((block, used))
    }
}

fn check(block: *const u8, bytes: usize, byte: u8) {
    // SAFETY: the block is in use and has so many bytes.
    let held = unsafe { std::slice::from_raw_parts(block, bytes) };
    assert!(held.iter().all(|&held| held == byte), "a block of {bytes} bytes has changed");
}

fn layout(random: &mut fastrand::Rng) -> Layout {
    let bytes = match random.u8(..) {
        0 => random.usize(1..10 << 20),
        1..30 => random.usize(1..100_000),
        _ => random.usize(1..700),
    };
    let log = if random.u8(..) < 20 { random.u32(..22) } else { random.u32(..6) };
    Layout::from_size_align(bytes, 1 << log).expect("a layout")
}

fn history(seed: u64, steps: usize) {
    let (mut random, mut model) = (fastrand::Rng::with_seed(seed), Model::default());
    for step in 0..steps {
        let (layout, byte) = (layout(&mut random), step as u8);
        match random.u8(..8) {
            0..3 => {
                // SAFETY: no layout is empty.
                model.insert(unsafe { HEAP.alloc(layout) }, layout, byte);
            }
            3 => {
                // SAFETY: as above.
                let block = unsafe { HEAP.alloc_zeroed(layout) };
                check(block, layout.size(), 0);
                model.insert(block, layout, byte);
            }
            4..7 => {
                if let Some((block, used)) = model.remove(&mut random) {
                    // SAFETY: the block is in use with this layout.
                    unsafe { HEAP.dealloc(block, used.layout) };
                }
            }
            _ => {
                if let Some((block, used)) = model.remove(&mut random) {
                    let new = Layout::from_size_align(layout.size(), used.layout.align());
                    let new = new.expect("a layout");
                    // SAFETY: as above.
                    let moved = unsafe { HEAP.realloc(block, used.layout, new.size()) };
                    check(moved, new.size().min(used.layout.size()), used.byte);
                    model.insert(moved, new, byte);
                }
            }
        }
    }
    while let Some((block, used)) = model.remove(&mut random) {
        // SAFETY: the block is in use with this layout.
        unsafe { HEAP.dealloc(block, used.layout) };
    }
}

#[test]
fn histories_against_a_model() {
    thread::scope(|scope| {
        (0..3).for_each(|seed| drop(scope.spawn(move || history(seed, 6000))));
    });
}

#[test]
fn what_is_too_large_is_refused() {
    for bytes in [isize::MAX as usize - 4095, (isize::MAX / 2) as usize, 1 << 46] {
        let layout = Layout::from_size_align(bytes, 1).expect("a layout");
        // SAFETY: the layout is not empty.
        assert!(unsafe { HEAP.alloc(layout) }.is_null(), "{bytes}");
    }
}

#[cfg(feature = "allocator-api2")]
#[test]
fn a_vector_of_allocator_api2() {
    use allocator_api2::vec::Vec;
    let mut numbers = Vec::new_in(Woodlot);
    (0..100_000u64).for_each(|number| numbers.push(number));
    numbers.truncate(10);
    numbers.shrink_to_fit();
    assert_eq!(numbers.iter().sum::<u64>(), 45);
}

#[test]
fn more_than_a_segment() {
    // Addresses alone: nothing is touched, but for what describes them.
    let layout = Layout::from_size_align(4 << 20, 4096).expect("a layout");
    // SAFETY: each block is freed with its layout.
    unsafe {
        let blocks: Vec<_> = (0..1100).map(|_| HEAP.alloc(layout)).collect();
        assert!(blocks.iter().all(|block| !block.is_null()));
        let (first, last) = (blocks.iter().min(), blocks.iter().max());
        let apart = first.zip(last).map_or(0, |(first, last)| last.addr() - first.addr());
        assert!(apart > 4 << 30, "{apart}");
        blocks.into_iter().for_each(|block| HEAP.dealloc(block, layout));
    }
}
