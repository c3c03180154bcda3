//! *cache-scratch*: do blocks of different threads lie on one cache line? (Berger et al., Hoard, ASPLOS 2000.)
//!
//! ```text
//!   one thread    allocates a block for each of the others, one after another
//!   each thread   frees its block; again and again: allocates one ─► all wait ─► writes to it ─► all wait ─► frees it
//! ```
//!
//! The blocks that were allocated together lie together. A heap that gives a thread the very block that it has freed has
//! the threads write to a line that they share, and each write waits for the line. What is timed are the writes; beside
//! them the blocks are counted whose first word lies on a line with another thread's: that does not depend on how many
//! CPUs there are.

use std::sync::{Barrier, Mutex};

use super::case::{Case, Metric, Reading, Setup, no_memory};
use super::heap::Heap;
use crate::Failure;
use crate::clock::Tally;
use crate::dispersion::LINE;
use crate::patterns::{on_one_thread, on_threads};

/// Blocks that each thread writes to, one after another.
const ROUNDS: usize = 16;

/// A block on its way to a thread.
struct Given(*mut u8);

// SAFETY: a block belongs to whoever has it.
unsafe impl Send for Given {}

/// Adds to the first word of a block, so many times.
#[inline(never)]
fn scratch(block: *mut u8, writes: usize) -> usize {
    let word = block.cast::<u64>();
    for _ in 0..writes {
        // SAFETY: the block is this thread's, has 16 bytes or more and is aligned.
        unsafe { word.write_volatile(word.read_volatile().wrapping_add(1)) };
    }
    writes
}

/// What a thread has found.
#[derive(Default)]
struct Found {
    tally: Tally,
    shared: usize,
    refused: bool,
}

/// A block for each thread, and [`ROUNDS`] of its own.
pub(super) fn sample<H: Heap>(
    heap: &H,
    case: Case,
    setup: &Setup,
) -> Result<Vec<Reading>, Failure> {
    let Some(bytes) = case.bytes else { return Ok(Vec::new()) };
    let writes = setup.operations.div_ceil(case.threads * ROUNDS);
    let given: Vec<Given> = on_one_thread(|| {
        heap.enter(0);
        (0..case.threads).map(|_| Given(heap.alloc(bytes))).collect()
    });
    let (barrier, lines) = (Barrier::new(case.threads), Mutex::new(vec![0; case.threads]));
    let free = |block: *mut u8| {
        if !block.is_null() {
            // SAFETY: the block was allocated for so many bytes, and is used no more.
            unsafe { heap.free(block, bytes) };
        }
    };
    let found = on_threads(given, |cpu, Given(block)| {
        heap.enter(cpu);
        let mut found = Found { refused: block.is_null(), ..Found::default() };
        free(block);
        for _ in 0..ROUNDS {
            let block = heap.alloc(bytes);
            let line = block.addr() / LINE;
            lines.lock().expect("nobody panics")[cpu] = line;
            barrier.wait();
            let on_line = |lines: &[usize]| lines.iter().filter(|&&other| other == line).count();
            found.shared += usize::from(on_line(&lines.lock().expect("nobody panics")) > 1);
            found.refused |= block.is_null();
            if !block.is_null() {
                found.tally.time(|| scratch(block, writes));
            }
            barrier.wait();
            free(block);
        }
        found
    });
    if found.iter().any(|found| found.refused) {
        return Err(no_memory(H::NAME, bytes));
    }
    let shared: usize = found.iter().map(|found| found.shared).sum();
    let all = found.into_iter().fold(Tally::default(), |all, found| all.and(found.tally));
    let value = shared as f64 / (ROUNDS * case.threads) as f64;
    let shared = Reading { bytes: None, metric: Metric::Shared, value, wall: None };
    Ok(vec![Reading::of(Metric::Write, None, all), shared])
}
