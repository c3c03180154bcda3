//! *zeroed*: memory that is to be zero. All of it at first, which the system has just given and nobody touches; then one
//! block again and again, whose memory was used before.

use super::case::{Metric, Reading, Setup, no_memory};
use super::heap::Heap;
use crate::Failure;
use crate::clock::{Tally, opaque_address};
use crate::patterns::on_one_thread;

/// So many blocks of zeros, which nobody writes to; fewer if there is no memory.
#[inline(never)]
fn fill<H: Heap>(heap: &H, bytes: usize, blocks: &mut Vec<*mut u8>) -> usize {
    while blocks.len() < blocks.capacity() {
        let block = opaque_address(heap.alloc_zeroed(bytes));
        if block.is_null() {
            break;
        }
        blocks.push(block);
    }
    blocks.len()
}

/// So many pairs of one block; fewer if there is no memory.
#[inline(never)]
fn pairs<H: Heap>(heap: &H, bytes: usize, pairs: usize) -> usize {
    for done in 0..pairs {
        let block = opaque_address(heap.alloc_zeroed(bytes));
        if block.is_null() {
            return done;
        }
        // SAFETY: the block was just allocated, and has so many bytes.
        unsafe {
            block.write(1);
            heap.free(block, bytes);
        }
    }
    pairs
}

/// Every size.
pub(super) fn sample<H: Heap>(heap: &H, setup: &Setup) -> Result<Vec<Reading>, Failure> {
    on_one_thread(|| {
        heap.enter(0);
        let mut readings = Vec::new();
        for &bytes in &setup.bytes {
            let count = (setup.memory.bytes() / bytes).max(1);
            let (mut new, mut used) = (Tally::default(), Tally::default());
            let mut blocks = Vec::with_capacity(count);
            heap.flush();
            new.time(|| fill(heap, bytes, &mut blocks));
            // SAFETY: each was allocated for so many bytes.
            blocks.drain(..).for_each(|block| unsafe { heap.free(block, bytes) });
            used.time(|| pairs(heap, bytes, count));
            if new.operations != count as u64 || used.operations != count as u64 {
                return Err(no_memory(H::NAME, bytes));
            }
            readings.push(Reading::of(Metric::Alloc, Some(bytes), new));
            readings.push(Reading::of(Metric::Pair, Some(bytes), used));
        }
        Ok(readings)
    })
}
