//! *memory*: a load that rises and falls, with other sizes each time, and what the heap has taken meanwhile.
//!
//! ```text
//!   bytes in use   /\      /\      /\      /\
//!                 /  \    /  \    /  \    /  \
//!                /    \__/    \__/    \__/    \__ all freed
//!   sizes        16–128  256–1024  1024–4096  16–4096
//! ```
//!
//! That is the cyclical load which the allocator of the paper is for (section 3.1): data entry by day, backups at night,
//! with memory that has to be had in another size, or for something else. Which block is freed is random; a sixteenth of
//! the bytes stays from each day to the next. At every step the bytes in use are noted, and the memory that the heap has
//! taken: of a heap that is asked its own account, of others the resident memory of a process that does nothing else.
//! Nobody waits between the steps, so that a heap which gives memory back after a while gives little back here; but a clock
//! ticks as always.

use serde::{Deserialize, Serialize};

use super::case::{Setup, no_memory, taken};
use super::churn::sizes;
use super::heap::{Heap, SLICE};
use crate::Failure;
use crate::patterns::on_one_thread;
use crate::random::Random;

/// Sizes of each day's blocks; within, each octave is as likely as another.
const DAYS: [(f64, f64); 4] = [(16.0, 128.0), (256.0, 1024.0), (1024.0, 4096.0), (16.0, 4096.0)];
/// Steps on which the load rises, and steps on which it falls.
const STEPS: usize = 8;
/// Bytes of a block, at least, on average: the first day's are 54.
const LEAST: usize = 32;
/// Sizes that are chosen at a time.
const CHOICES: usize = 4096;

/// One moment.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Moment {
    /// Bytes of the blocks in use.
    pub payload: usize,
    /// Bytes that the heap has taken.
    pub taken: usize,
}

/// Blocks in use, in memory that was touched before.
struct Used<'a, H> {
    heap: &'a H,
    blocks: Vec<(*mut u8, usize)>,
    bytes: usize,
}

impl<H: Heap> Used<'_, H> {
    /// Allocates until so many bytes are in use.
    fn rise(&mut self, to: usize, sizes: &[usize]) -> Result<(), Failure> {
        let mut sizes = sizes.iter().cycle();
        while self.bytes < to && self.blocks.len() < self.blocks.capacity() {
            let Some(&bytes) = sizes.next() else { break };
            let block = self.heap.alloc(bytes);
            if block.is_null() {
                return Err(no_memory(H::NAME, bytes));
            }
            // SAFETY: the block was just allocated: both of its ends are touched, so that its pages are.
            unsafe {
                block.write(1);
                block.add(bytes - 1).write(1);
            }
            self.blocks.push((block, bytes));
            self.bytes += bytes;
            self.tick();
        }
        Ok(())
    }

    /// Frees random blocks until no more than so many bytes are in use.
    fn fall(&mut self, to: usize, random: &mut Random) {
        while self.bytes > to && !self.blocks.is_empty() {
            let (block, bytes) = self.blocks.swap_remove(random.below(self.blocks.len()));
            // SAFETY: the block is in use, was allocated for so many bytes, and is used no more.
            unsafe { self.heap.free(block, bytes) };
            self.bytes -= bytes;
            self.tick();
        }
    }

    fn tick(&self) {
        if self.blocks.len().is_multiple_of(SLICE) {
            self.heap.tick();
        }
    }
}

/// Every step; last everything is free, and then the heap has been asked to give back what it keeps.
///
/// # Errors
/// The heap had no memory, or the system does not say how much is resident.
pub(super) fn moments<H: Heap>(heap: &H, setup: &Setup) -> Result<Vec<Moment>, Failure> {
    on_one_thread(|| {
        heap.enter(0);
        let (most, mut random) = (setup.memory.bytes(), Random::new(setup.seed));
        let mut blocks = vec![(std::ptr::dangling_mut(), 1); most.div_ceil(LEAST)];
        blocks.clear();
        let mut used = Used { heap, blocks, bytes: 0 };
        let mut moments = Vec::with_capacity(2 * STEPS * DAYS.len() + 2);
        heap.flush();
        let before = taken(heap)?;
        let mut note = |payload| {
            moments.push(Moment { payload, taken: taken(heap)?.saturating_sub(before) });
            Ok::<(), Failure>(())
        };
        for day in DAYS {
            for step in 1..=STEPS {
                let sizes = sizes(&mut random, CHOICES, day);
                used.rise(most / STEPS * step, &sizes)?;
                note(used.bytes)?;
            }
            for step in (0..STEPS).rev() {
                used.fall((most / STEPS * step).max(most / 16), &mut random);
                note(used.bytes)?;
            }
        }
        used.fall(0, &mut random);
        note(0)?;
        heap.flush();
        note(0)?;
        Ok(moments)
    })
}
