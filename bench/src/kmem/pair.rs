//! *pair*: the best case of the paper's section 4.2. A block is allocated and freed, again and again.

use std::sync::Barrier;

use super::case::{Case, Interface, Metric, Reading, Setup, no_memory};
use super::heap::{Bytes, Heap, Known};
use crate::Failure;
use crate::clock::{Tally, opaque_address};
use crate::patterns::on_threads;

/// So many pairs; fewer if there is no memory.
#[inline(never)]
pub(super) fn pairs<H: Heap, B: Bytes>(heap: &H, bytes: B, pairs: usize) -> usize {
    for done in 0..pairs {
        let block = opaque_address(heap.alloc(bytes.get()));
        if block.is_null() {
            return done;
        }
        // SAFETY: the block was just allocated.
        unsafe { heap.free(block, bytes.get()) };
    }
    pairs
}

/// A loop over a size that the compiler knows, where it is one of the paper's; else one over any size.
pub(super) fn run<H: Heap>(heap: &H, (bytes, interface): (usize, Interface), n: usize) -> usize {
    match (interface, bytes) {
        (Interface::Standard, _) => pairs(heap, bytes, n),
        (_, 16) => pairs(heap, Known::<16>, n),
        (_, 32) => pairs(heap, Known::<32>, n),
        (_, 64) => pairs(heap, Known::<64>, n),
        (_, 128) => pairs(heap, Known::<128>, n),
        (_, 256) => pairs(heap, Known::<256>, n),
        (_, 512) => pairs(heap, Known::<512>, n),
        (_, 1024) => pairs(heap, Known::<1024>, n),
        (_, 2048) => pairs(heap, Known::<2048>, n),
        _ => pairs(heap, Known::<4096>, n),
    }
}

/// Every thread makes its share of so many pairs, all at once, by what it has got for that: so many, fewer if it cannot. One
/// more goes before, which fills caches. `None`, if a thread has got nothing, or could not make that one.
pub(super) fn in_shares<W: FnMut(usize) -> usize>(
    threads: usize,
    pairs: usize,
    get: impl Fn(usize) -> Option<W> + Sync,
) -> Option<Tally> {
    let calls = pairs.div_ceil(threads);
    let barrier = Barrier::new(threads);
    let tallies = on_threads(0..threads, |cpu, _| {
        let work = get(cpu).map(|mut work| (work(1), work));
        barrier.wait();
        let (1, mut work) = work? else { return None };
        let mut tally = Tally::default();
        tally.time(|| work(calls));
        Some(tally)
    });
    tallies.into_iter().try_fold(Tally::default(), |sum, one| Some(sum.and(one?)))
}

/// Every thread makes its share of the pairs.
pub(super) fn sample<H: Heap>(
    heap: &H,
    case: Case,
    setup: &Setup,
) -> Result<Vec<Reading>, Failure> {
    let (Some(bytes), Some(interface)) = (case.bytes, case.interface) else {
        return Ok(Vec::new());
    };
    let all = in_shares(case.threads, setup.operations, |cpu| {
        heap.enter(cpu);
        Some(move |pairs| run(heap, (bytes, interface), pairs))
    });
    let calls = setup.operations.next_multiple_of(case.threads) as u64;
    let all = all.filter(|all| all.operations == calls).ok_or_else(|| no_memory(H::NAME, bytes))?;
    Ok(vec![Reading::of(Metric::Pair, None, all)])
}
