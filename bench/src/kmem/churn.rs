//! *churn*: threads that replace their blocks and hand them on, as mimalloc's *mstress* does.
//!
//! Each thread has [`SLOTS`] blocks of random sizes. Again and again it frees one at random and allocates another one.
//! Then each thread's blocks become the next thread's, so that blocks are freed by threads that did not allocate them.
//! Sizes are 16 to 1024 bytes, each octave as likely as another. The choice of a block and of a size is in the time.

use std::sync::{Barrier, Mutex};

use super::case::{Case, Metric, Reading, Setup, no_memory};
use super::heap::Heap;
use crate::Failure;
use crate::clock::Tally;
use crate::patterns::on_threads;
use crate::random::Random;

/// Blocks of a thread.
pub(super) const SLOTS: usize = 1024;
/// How often blocks go to the next thread.
const HANDS: usize = 4;
/// Sizes that blocks have, in random order.
pub(super) const SIZES: usize = 4096;

/// Blocks, and their bytes.
pub(super) struct Blocks(Vec<(*mut u8, usize)>);

// SAFETY: the blocks belong to whoever has the list.
unsafe impl Send for Blocks {}

impl Blocks {
    /// None yet; a list for each thread.
    pub(super) fn lists(threads: usize) -> Vec<Mutex<Blocks>> {
        let none = || Mutex::new(Blocks(vec![(std::ptr::null_mut(), 0); SLOTS]));
        (0..threads).map(|_| none()).collect()
    }

    /// Frees all.
    pub(super) fn free<H: Heap>(&mut self, heap: &H) {
        for (block, bytes) in self.0.drain(..).filter(|(block, _)| !block.is_null()) {
            // SAFETY: the block is in use, was allocated for so many bytes, and is used no more.
            unsafe { heap.free(block, bytes) };
        }
    }
}

/// Log-uniform sizes from `least` to `most`.
pub(super) fn sizes(random: &mut Random, count: usize, (least, most): (f64, f64)) -> Vec<usize> {
    let size = |random: &mut Random| {
        let part = random.below(1 << 32) as f64 / (1u64 << 32) as f64;
        (least * (most / least).powf(part)).round() as usize
    };
    (0..count).map(|_| size(random)).collect()
}

/// Replaces random blocks by blocks of random ones of [`SIZES`] sizes; fewer times if there is no memory.
#[inline(never)]
pub(super) fn replace<H: Heap>(
    heap: &H,
    (blocks, sizes): (&mut Blocks, &[usize]),
    random: &mut Random,
    operations: usize,
) -> usize {
    for done in 0..operations {
        let bits = random.bits() as usize;
        let (block, bytes) = &mut blocks.0[bits % SLOTS];
        if !block.is_null() {
            // SAFETY: the block is in use, was allocated for so many bytes, and is used no more.
            unsafe { heap.free(*block, *bytes) };
        }
        *bytes = sizes[(bits >> 32) % SIZES];
        *block = heap.alloc(*bytes);
        if block.is_null() {
            return done;
        }
        // SAFETY: the block was just allocated.
        unsafe { block.write(1) };
    }
    operations
}

/// Rounds of replacing, with another thread's blocks each time.
pub(super) fn sample<H: Heap>(
    heap: &H,
    case: Case,
    setup: &Setup,
) -> Result<Vec<Reading>, Failure> {
    let mut random = Random::new(setup.seed);
    let sizes = sizes(&mut random, SIZES, (16.0, 1024.0));
    let calls = setup.operations.div_ceil(case.threads * HANDS);
    let lists = Blocks::lists(case.threads);
    let barrier = Barrier::new(case.threads);
    let tallies = on_threads(0..case.threads, |cpu, _| {
        heap.enter(cpu);
        let (mut random, mut tally) = (Random::new(setup.seed + cpu as u64), Tally::default());
        for hand in 0..HANDS {
            let mut blocks = lists[(cpu + hand) % case.threads].lock().expect("nobody panics");
            // The blocks that a list has at first are allocated outside the time.
            let first = if hand == 0 { 8 * SLOTS } else { 0 };
            replace(heap, (&mut blocks, &sizes), &mut random, first);
            barrier.wait();
            tally.time(|| replace(heap, (&mut blocks, &sizes), &mut random, calls));
            drop(blocks);
            barrier.wait();
        }
        lists[cpu].lock().expect("nobody panics").free(heap);
        tally
    });
    let all = tallies.into_iter().fold(Tally::default(), Tally::and);
    if all.operations != (calls * HANDS * case.threads) as u64 {
        return Err(no_memory(H::NAME, 1024));
    }
    Ok(vec![Reading::of(Metric::Pair, None, all)])
}
