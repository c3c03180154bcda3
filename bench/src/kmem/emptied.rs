//! *emptied*: all of memory is used, freed and flushed; what is kept then, and what can be had.
//!
//! ```text
//!   every CPU allocates blocks of random sizes until there are no more
//!   random CPUs free random ones until none is left ─► every CPU and every layer is flushed      what is kept is counted
//!   one CPU allocates all of memory in one size ─► frees it, all is flushed ─► the next CPU, the next size     the same
//! ```
//!
//! One thread plays the CPUs, which cannot reach each other: who is asked for memory flushes only what is its own. The sizes of the last step are powers of two, which fill a frame: so nothing but what is kept
//! is missing from all of memory.

use serde::{Deserialize, Serialize};
use woodlot_kmem::{PAGE, Quarters};

use super::case::{Setup, no_memory};
use super::churn::sizes;
use super::frames::{Frames, Threads};
use super::worst::{fill, release};
use crate::Failure;
use crate::random::Random;

/// CPUs, unless somebody says how many.
pub const EMPTIED_CPUS: usize = 4;
/// Sizes that are chosen at a time.
const CHOICES: usize = 4096;

/// What was counted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Emptied {
    /// How many CPUs.
    pub cpus: usize,
    /// Frames of the memory.
    pub frames: usize,
    /// Frames that are not free when all blocks are, and when everything was flushed.
    pub kept: [usize; 2],
    /// Huge frames that are free then,
    pub free_huge: usize,
    /// of so many that the free frames could make.
    pub huge: usize,
    /// Bytes of a block, and bytes of all blocks that could be had.
    pub again: Vec<(usize, usize)>,
}

impl Emptied {
    /// Frames that are kept for each CPU in the end.
    pub fn kept_each(&self) -> f64 {
        self.kept[1] as f64 / self.cpus as f64
    }

    /// Percent of the huge frames that could be free.
    pub fn huge_percent(&self) -> f64 {
        100.0 * self.free_huge as f64 / self.huge.max(1) as f64
    }

    /// Percent of memory that could be had in the size with the least of it, when so many frames for each CPU are left
    /// out.
    pub fn again_percent(&self, left_out: usize) -> f64 {
        let memory = (self.frames - (left_out * self.cpus).min(self.frames)) * PAGE;
        let least = self.again.iter().map(|&(_, had)| had).min().unwrap_or(0);
        100.0 * least as f64 / memory.max(1) as f64
    }
}

/// Counts.
///
/// # Errors
/// There is no memory.
pub fn emptied(setup: &Setup) -> Result<Emptied, Failure> {
    let cpus = setup.threads.last().copied().unwrap_or(EMPTIED_CPUS);
    let frames = setup.memory.frames();
    let heap = Frames::<Quarters>::new(frames, cpus)?;
    let mut random = Random::new(setup.seed);
    let choices = sizes(&mut random, CHOICES, (16.0, PAGE as f64));
    let mut blocks = Vec::new();
    for (at, &bytes) in choices.iter().cycle().enumerate() {
        Threads::enter(at % cpus);
        let block = heap.alloc(bytes);
        if block.is_null() {
            break;
        }
        blocks.push((block, bytes));
    }
    if blocks.len() < cpus {
        return Err(no_memory("emptied", PAGE));
    }
    while !blocks.is_empty() {
        Threads::enter(random.below(cpus));
        let (block, bytes) = blocks.swap_remove(random.below(blocks.len()));
        // SAFETY: the block is in use, was allocated for so many bytes, and is used no more.
        unsafe { heap.free(block, bytes) };
    }
    let taken = || heap.taken() / PAGE;
    let cached = taken();
    heap.flush();
    let kept = [cached, taken()];
    let (free_huge, huge) = heap.huge(frames - kept[1]);
    let again = setup.bytes.iter().enumerate().map(|(at, &bytes)| {
        Threads::enter(at % cpus);
        let (last, had) = fill(&heap, bytes, usize::MAX, std::ptr::null_mut());
        let (_, freed) = release(&heap, bytes, usize::MAX, last);
        heap.flush();
        (bytes, freed.min(had) * bytes)
    });
    let again = again.collect();
    Ok(Emptied { cpus, frames, kept, free_huge, huge, again })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size::Size;

    #[test]
    fn memory_that_is_free_is_there_for_all_sizes() {
        let (memory, bytes) = (Size::mib(8), vec![16, 4096]);
        let setup = Setup { threads: vec![3], memory, bytes, ..Setup::default() };
        let found = emptied(&setup).unwrap();
        assert_eq!((found.cpus, found.frames, found.huge), (3, 2048, 4));
        assert!(found.kept[0] > 0, "caches keep blocks: {found:?}");
        assert_eq!((found.kept[1], found.free_huge), (0, 4), "{found:?}");
        assert_eq!(found.again, [(16, 8 << 20), (4096, 8 << 20)]);
    }

    #[test]
    fn what_is_kept_is_held_against_what_could_be_had() {
        let (kept, again) = ([90, 8], vec![(16, 1024 * PAGE), (32, 1000 * PAGE)]);
        let found = Emptied { cpus: 2, frames: 1024, kept, free_huge: 1, huge: 2, again };
        assert_eq!((found.kept_each(), found.huge_percent()), (4.0, 50.0));
        assert_eq!(found.again_percent(12), 100.0);
        assert!(found.again_percent(4) < 99.0);
    }
}
