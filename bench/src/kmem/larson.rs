//! *larson*: a server whose threads end and leave their blocks to others (Larson and Krishnan, ISMM 1998).
//!
//! ```text
//!   generation 0   thread ─► replaces blocks of list 0 ─► ends          thread ─► list 1 ─► ends
//!   generation 1   thread ─► replaces blocks of list 1 ─► ends          thread ─► list 0 ─► ends
//! ```
//!
//! Each thread replaces random ones of its blocks, and ends. Its successor is another thread, on the next CPU. So blocks
//! are freed where they were not allocated, and what a heap keeps for a thread has to come back when that ends. Sizes are
//! 16 to 1000 bytes, each as likely as another. The choice of a block and of a size is in the time; the end of a thread is
//! not, but what its successor has to fetch is.

use std::sync::Barrier;

use super::case::{Case, Metric, Reading, Setup, no_memory};
use super::churn::{Blocks, SIZES, SLOTS, replace};
use super::heap::Heap;
use crate::Failure;
use crate::clock::Tally;
use crate::patterns::on_threads;
use crate::random::Random;

/// Threads one after another, on each CPU.
pub(super) const GENERATIONS: usize = 8;
/// Bytes of the largest block.
const MOST: usize = 1000;

/// Every generation.
pub(super) fn sample<H: Heap>(
    heap: &H,
    case: Case,
    setup: &Setup,
) -> Result<Vec<Reading>, Failure> {
    let mut random = Random::new(setup.seed);
    let sizes: Vec<usize> = (0..SIZES).map(|_| 16 + random.below(MOST - 15)).collect();
    let calls = setup.operations.div_ceil(case.threads * GENERATIONS);
    let lists = Blocks::lists(case.threads);
    let mut all = Tally::default();
    for generation in 0..GENERATIONS {
        let barrier = Barrier::new(case.threads);
        let tallies = on_threads(0..case.threads, |cpu, _| {
            heap.enter(cpu);
            let seed = setup.seed + (generation * case.threads + cpu) as u64;
            let (mut random, mut tally) = (Random::new(seed), Tally::default());
            let mut blocks =
                lists[(cpu + generation) % case.threads].lock().expect("nobody panics");
            // The blocks that a list has at first are allocated outside the time.
            let first = if generation == 0 { 8 * SLOTS } else { 0 };
            replace(heap, (&mut blocks, &sizes), &mut random, first);
            barrier.wait();
            tally.time(|| replace(heap, (&mut blocks, &sizes), &mut random, calls));
            tally
        });
        all = tallies.into_iter().fold(all, Tally::and);
    }
    on_threads(0..case.threads, |cpu, _| {
        heap.enter(cpu);
        lists[cpu].lock().expect("nobody panics").free(heap);
    });
    if all.operations != (calls * GENERATIONS * case.threads) as u64 {
        return Err(no_memory(H::NAME, MOST));
    }
    Ok(vec![Reading::of(Metric::Pair, None, all)])
}
