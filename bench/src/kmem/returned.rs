//! *returned*: blocks are freed at random; what stays of their memory.
//!
//! All of memory is allocated in blocks of one size, both ends of each are touched, and they are freed in random order: so
//! each page, and each larger piece of memory that a heap gives back at once, is in use nearly to the end. Then, if the setup
//! says so, the program goes on for some seconds with a few calls each tenth of one, in which a heap can give back what it
//! did not at once. Last it is asked for what it keeps. Meanwhile a clock ticks, for heaps that do something then.

use std::time::Duration;

use super::case::{Metric, Reading, Setup, no_memory, taken};
use super::heap::{Heap, ticking};
use crate::Failure;
use crate::clock::Tally;
use crate::patterns::on_one_thread;
use crate::random::Random;

/// Between calls of a program that has nothing to do.
const TICK: Duration = Duration::from_millis(100);
/// Ticks of a second.
const TICKS: u64 = 10;
/// Blocks that it allocates and frees at each tick, and their bytes.
const CALLS: usize = 300;
const BYTES: usize = 100;

/// Allocates so many blocks, both ends of which are touched; fewer if there is no memory.
#[inline(never)]
fn fill<H: Heap>(heap: &H, bytes: usize, count: usize, blocks: &mut Vec<*mut u8>) -> usize {
    for done in 0..count {
        let block = heap.alloc(bytes);
        if block.is_null() {
            return done;
        }
        // SAFETY: the block was just allocated, and has so many bytes.
        unsafe {
            block.write(1);
            block.add(bytes - 1).write(1);
        }
        blocks.push(block);
    }
    count
}

/// Frees them.
#[inline(never)]
fn release<H: Heap>(heap: &H, bytes: usize, blocks: impl Iterator<Item = *mut u8>) -> usize {
    let mut freed = 0;
    for block in blocks {
        // SAFETY: the block was allocated for so many bytes, and is used no more.
        unsafe { heap.free(block, bytes) };
        freed += 1;
    }
    freed
}

/// Allocates so many blocks, while a clock ticks; fewer if there is no memory.
fn fill_all<H: Heap>(heap: &H, bytes: usize, count: usize, blocks: &mut Vec<*mut u8>) -> usize {
    ticking(heap, count, |calls| fill(heap, bytes, calls, blocks))
}

/// Frees all of them.
fn release_all<H: Heap>(heap: &H, bytes: usize, blocks: &mut Vec<*mut u8>) -> usize {
    let (count, mut blocks) = (blocks.len(), blocks.drain(..));
    ticking(heap, count, |calls| release(heap, bytes, blocks.by_ref().take(calls)))
}

/// Every size. A heap is asked for what it keeps before the next one.
pub(super) fn sample<H: Heap>(heap: &H, setup: &Setup) -> Result<Vec<Reading>, Failure> {
    on_one_thread(|| {
        heap.enter(0);
        let mut readings = Vec::new();
        heap.flush();
        for &bytes in &setup.bytes {
            let count = (setup.memory.bytes() / bytes).max(1);
            let mut random = Random::new(setup.seed);
            // Touched before anything is measured.
            let mut blocks = vec![std::ptr::dangling_mut(); count.max(CALLS)];
            blocks.clear();
            let (before, mut allocs, mut frees) =
                (taken(heap)?, Tally::default(), Tally::default());
            allocs.time(|| fill_all(heap, bytes, count, &mut blocks));
            random.shuffle(&mut blocks);
            frees.time(|| release_all(heap, bytes, &mut blocks));
            if frees.operations != count as u64 {
                return Err(no_memory(H::NAME, bytes));
            }
            readings.push(Reading::of(Metric::Alloc, Some(bytes), allocs));
            readings.push(Reading::of(Metric::Free, Some(bytes), frees));
            let mut note = |metric| {
                let value = taken(heap)?.saturating_sub(before) as f64 / (count * bytes) as f64;
                readings.push(Reading { bytes: Some(bytes), metric, value, wall: None });
                Ok::<(), Failure>(())
            };
            note(Metric::Kept)?;
            for _ in 0..TICKS * setup.idle {
                std::thread::sleep(TICK);
                fill_all(heap, BYTES, CALLS, &mut blocks);
                release_all(heap, BYTES, &mut blocks);
            }
            if setup.idle > 0 {
                note(Metric::KeptLater)?;
            }
            heap.flush();
            note(Metric::KeptAsked)?;
        }
        Ok(readings)
    })
}
