//! *worst*: all of memory in blocks of one size, all freed, then the next size (the paper's section 4.3).
//!
//! Blocks are linked through their first word, as there: so each is touched.

use std::ptr;

use super::case::{Metric, Reading, Setup, no_memory};
use super::heap::{Heap, ticking};
use crate::Failure;
use crate::clock::Tally;
use crate::output::resident_bytes;
use crate::patterns::on_one_thread;

/// A block that leads to the one before.
type Link = *mut u8;

/// Allocates so many blocks behind the last one; the new last one, and how many there are.
#[inline(never)]
pub(super) fn fill<H: Heap>(heap: &H, bytes: usize, count: usize, mut last: Link) -> (Link, usize) {
    for done in 0..count {
        let block = heap.alloc(bytes);
        if block.is_null() {
            return (last, done);
        }
        // SAFETY: the block was just allocated, has 16 bytes or more and is aligned.
        unsafe { block.cast::<Link>().write(last) };
        last = block;
    }
    (last, count)
}

/// Frees up to so many, the last one first; the one that is the last one then, and how many were freed.
#[inline(never)]
pub(super) fn release<H: Heap>(
    heap: &H,
    bytes: usize,
    most: usize,
    mut block: Link,
) -> (Link, usize) {
    let mut freed = 0;
    while !block.is_null() && freed < most {
        // SAFETY: the block is in use and holds the link.
        let next = unsafe { block.cast::<Link>().read() };
        // SAFETY: it was allocated for so many bytes, and is used no more.
        unsafe { heap.free(block, bytes) };
        (block, freed) = (next, freed + 1);
    }
    (block, freed)
}

/// Every size, the smallest first, as many rounds as there are. The first of several rounds gets the memory from the system,
/// and its times do not count: then nobody is asked to give anything back. What a heap does when a clock ticks is in the times.
pub(super) fn sample<H: Heap>(heap: &H, setup: &Setup) -> Result<Vec<Reading>, Failure> {
    on_one_thread(|| {
        heap.enter(0);
        heap.flush();
        let taken = || heap.taken().or_else(resident_bytes);
        let before = taken();
        let mut readings = Vec::new();
        let rounds = (0..setup.rounds)
            .flat_map(|round| setup.bytes.iter().map(move |&bytes| (round, bytes)));
        for (round, bytes) in rounds {
            let count = (setup.memory.bytes() / bytes).max(1);
            let (mut allocs, mut frees) = (Tally::default(), Tally::default());
            let mut last = ptr::null_mut();
            allocs.time(|| {
                ticking(heap, count, |calls| {
                    let (block, done) = fill(heap, bytes, calls, last);
                    last = block;
                    done
                })
            });
            let peak = taken().zip(before).map(|(now, before)| now.saturating_sub(before));
            frees.time(|| {
                ticking(heap, allocs.operations as usize, |calls| {
                    let (block, done) = release(heap, bytes, calls, last);
                    last = block;
                    done
                })
            });
            if allocs.operations != count as u64 || frees.operations != count as u64 {
                return Err(no_memory(H::NAME, bytes));
            }
            if round > 0 || setup.rounds == 1 {
                readings.push(Reading::of(Metric::Alloc, Some(bytes), allocs));
                readings.push(Reading::of(Metric::Free, Some(bytes), frees));
            }
            if let Some(peak) = peak {
                let value = peak as f64 / (count * bytes) as f64;
                let metric = Metric::Peak;
                readings.push(Reading { bytes: Some(bytes), metric, value, wall: None });
            }
        }
        Ok(readings)
    })
}
