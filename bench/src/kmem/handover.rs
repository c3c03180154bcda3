//! *producer-consumer*: one thread allocates, another one frees what it allocated, both at once.
//!
//! ```text
//!   round n    producer: allocates list n          consumer: frees list n - 1        both wait for each other
//! ```
//!
//! Lists change hands between rounds, outside the time taken. The producer writes a word into each block, and the
//! consumer looks whether it is there.

use std::sync::Barrier;

use super::case::{Case, Metric, Reading, Setup, no_memory};
use super::heap::Heap;
use crate::Failure;
use crate::clock::Tally;
use crate::patterns::on_threads;

/// Blocks of a list.
const LIST: usize = 4096;

/// A list of blocks, as addresses: it goes from thread to thread.
struct Blocks(Vec<*mut u8>);

// SAFETY: the blocks belong to whoever has the list.
unsafe impl Send for Blocks {}

#[inline(never)]
fn produce<H: Heap>(heap: &H, bytes: usize, list: &mut Blocks) -> usize {
    for (mark, place) in list.0.iter_mut().enumerate() {
        *place = heap.alloc(bytes);
        if place.is_null() {
            return mark;
        }
        // SAFETY: the block was just allocated, and has 16 bytes or more.
        unsafe { place.cast::<usize>().write(mark) };
    }
    list.0.len()
}

/// Frees all blocks; how many were as the producer left them.
#[inline(never)]
fn consume<H: Heap>(heap: &H, bytes: usize, list: &mut Blocks) -> usize {
    let mut whole = 0;
    for (mark, block) in list.0.iter_mut().enumerate().filter(|(_, block)| !block.is_null()) {
        // SAFETY: the block is in use.
        whole += usize::from(unsafe { block.cast::<usize>().read() } == mark);
        // SAFETY: it was allocated for so many bytes, and is used no more.
        unsafe { heap.free(*block, bytes) };
        *block = std::ptr::null_mut();
    }
    whole
}

/// Rounds until as many blocks went over as there are to be operations.
pub(super) fn sample<H: Heap>(
    heap: &H,
    case: Case,
    setup: &Setup,
) -> Result<Vec<Reading>, Failure> {
    let Some(bytes) = case.bytes else { return Ok(Vec::new()) };
    let rounds = setup.operations.div_ceil(LIST);
    let barrier = Barrier::new(2);
    let lists = [(); 2].map(|()| std::sync::Mutex::new(Blocks(vec![std::ptr::null_mut(); LIST])));
    // In round n one thread has list n % 2, and the other one has the other list.
    let tallies = on_threads(0..2, |cpu, _| {
        heap.enter(cpu);
        let mut tally = Tally::default();
        for round in 0..=rounds {
            let mut list = lists[(round + cpu) % 2].lock().expect("the other one does not panic");
            match (cpu, round) {
                (0, last) if last == rounds => {}
                (0, _) => tally.time(|| produce(heap, bytes, &mut list)),
                (_, 0) => {}
                _ => tally.time(|| consume(heap, bytes, &mut list)),
            }
            drop(list);
            barrier.wait();
        }
        tally
    });
    if tallies.iter().any(|tally| tally.operations != (rounds * LIST) as u64) {
        return Err(no_memory(H::NAME, bytes));
    }
    let [alloc, free] = [tallies[0], tallies[1]];
    let both = Reading {
        bytes: None,
        metric: Metric::Pair,
        value: alloc.cpu() + free.cpu(),
        wall: Some(alloc.wall().max(free.wall())),
    };
    Ok(vec![Reading::of(Metric::Alloc, None, alloc), Reading::of(Metric::Free, None, free), both])
}
