//! *waste*: memory in slabs, and how much of it nobody asked for (the paper's tables 5 and 6).
//!
//! Blocks have sizes from 16 to 4096 bytes by a power law: the density falls as 1 / size, so that each octave is as likely
//! as another. They are allocated until so many bytes were asked for, and then replaced at random, [`TURNS`] times each:
//! that is heavy load. Then a random three quarters are freed: low load. The caches are flushed before memory is counted.

use serde::{Deserialize, Serialize};
use woodlot_kmem::{PAGE, Sizes};

use super::case::{Setup, no_memory};
use super::churn::sizes;
use super::frames::Frames;
use crate::Failure;
use crate::random::Random;

/// How often a block is replaced.
const TURNS: usize = 4;

/// How much is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// All that was allocated.
    Heavy,
    /// A quarter of it.
    Low,
}

/// Memory of one size.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct WasteRow {
    /// When.
    pub load: Load,
    /// Bytes of a block.
    pub bytes: usize,
    /// Bytes that were asked for.
    pub asked: usize,
    /// Bytes of the blocks in use.
    pub blocks: usize,
    /// Bytes of the slabs.
    pub slabs: usize,
}

/// Blocks in use.
struct Blocks<'a, S: Sizes> {
    heap: &'a Frames<S>,
    blocks: Vec<(*mut u8, usize)>,
}

impl<S: Sizes> Blocks<'_, S> {
    fn add(&mut self, bytes: usize) -> Result<(), Failure> {
        let block = self.heap.alloc(bytes);
        if block.is_null() {
            return Err(no_memory("waste", bytes));
        }
        self.blocks.push((block, bytes));
        Ok(())
    }

    fn remove(&mut self, at: usize) {
        let (block, bytes) = self.blocks.swap_remove(at);
        // SAFETY: the block is in use, and was allocated for so many bytes.
        unsafe { self.heap.free(block, bytes) };
    }

    /// Memory of every size.
    fn rows(&self, load: Load) -> Vec<WasteRow> {
        self.heap.flush();
        let row = |(index, stats): (usize, woodlot_kmem::SizeStats)| {
            let of = |bytes: usize| S::of(bytes).is_some_and(|id| id.index() == index);
            let blocks: Vec<_> =
                self.blocks.iter().map(|block| block.1).filter(|&bytes| of(bytes)).collect();
            WasteRow {
                load,
                bytes: stats.bytes,
                asked: blocks.iter().sum(),
                blocks: blocks.len() * stats.bytes,
                slabs: stats.pages * PAGE,
            }
        };
        self.heap.stats().into_iter().enumerate().map(row).collect()
    }
}

/// A row for each size at heavy load, then at low load.
///
/// # Errors
/// There was no memory.
pub fn waste<S: Sizes>(setup: &Setup) -> Result<Vec<WasteRow>, Failure> {
    let mut random = Random::new(setup.seed);
    let payload = setup.memory.bytes();
    let heap = Frames::<S>::new(4 * setup.memory.frames(), 1)?;
    let mut used = Blocks { heap: &heap, blocks: Vec::new() };
    let mut asked = 0;
    while asked < payload {
        let bytes = sizes(&mut random, 1, (16.0, PAGE as f64))[0];
        used.add(bytes)?;
        asked += bytes;
    }
    let count = used.blocks.len();
    for _ in 0..TURNS * count {
        used.remove(random.below(count));
        used.add(sizes(&mut random, 1, (16.0, PAGE as f64))[0])?;
    }
    let mut rows = used.rows(Load::Heavy);
    while used.blocks.len() > count / 4 {
        used.remove(random.below(used.blocks.len()));
    }
    rows.extend(used.rows(Load::Low));
    Ok(rows)
}
