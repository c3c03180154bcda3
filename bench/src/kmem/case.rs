//! What is measured, in which cases, and what a case gives.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::heap::Heap;
use crate::Failure;
use crate::clock::Tally;
use crate::output::resident_bytes;
use crate::size::Size;

/// The benchmarks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Pairs of an allocation and its free, by size known at compile time and at run time (figures 7 and 8)
    Pair,
    /// All of memory in blocks of one size, freed, then of the next size (figure 9)
    Worst,
    /// One thread allocates, another one frees
    ProducerConsumer,
    /// Blocks of random sizes, replaced at random, and handed to another thread (mstress)
    Churn,
    /// The same by threads that end, and leave their blocks to their successors (Larson and Krishnan)
    Larson,
    /// Threads that write to blocks which may share a cache line (Hoard's cache-scratch)
    CacheScratch,
    /// A load that rises and falls: memory taken beside bytes in use, over time (section 3.1)
    Memory,
    /// Blocks that are freed at random: the memory that stays
    Returned,
    /// Memory that is to be zero: new from the system, then used before
    Zeroed,
    /// Preloaded libraries: pair, worst and producer-consumer through the C library's names
    Preload,
    /// A distributed lock manager: which calls miss which layer (section 4.4, tables 2 to 4)
    LockManager,
    /// Memory in slabs over memory asked for, at heavy and at low load (tables 5 and 6)
    Waste,
    /// How near a node's memory is to it: the equations of section 5.5 beside what is counted
    Purity,
    /// Cache lines that go from CPU to CPU for each pair, on 1 to 64 CPUs
    Transfers,
    /// Instructions of a pair, counted by callgrind (section 4.1)
    Instructions,
    /// All of memory used, freed and flushed: what is kept, and what can be had in each size
    Emptied,
    /// Every target of heaps: which are met, and by how much the others are short
    Check,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Every benchmark has a name.
        self.to_possible_value().map_or(Ok(()), |value| f.pad(value.get_name()))
    }
}

/// How a size is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interface {
    /// Known when the program was compiled: the paper's cookie
    Cookie,
    /// Known at run time: the paper's standard interface
    Standard,
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Interface::Cookie => "cookie",
            Interface::Standard => "standard",
        })
    }
}

/// One case of a benchmark.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Case {
    /// Threads that run at once.
    pub threads: usize,
    /// Bytes of a block, where all blocks have as many.
    pub bytes: Option<usize>,
    /// How the size is said, where both ways are measured.
    pub interface: Option<Interface>,
}

/// What the cases have in common.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// How many threads.
    pub threads: Vec<usize>,
    /// Sizes of blocks.
    pub bytes: Vec<usize>,
    /// Operations of a repetition, at least.
    pub operations: usize,
    /// For *worst*, *waste* and *memory*: how many bytes of blocks.
    pub memory: Size,
    /// For *worst*: how often the sizes come one after another. Files of before do not say: once.
    #[serde(default = "once")]
    pub rounds: usize,
    /// For *returned*: seconds of a few calls after everything is free.
    #[serde(default)]
    pub idle: u64,
    /// What random choices follow from.
    pub seed: u64,
}

fn once() -> usize {
    1
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            threads: vec![1],
            bytes: vec![32, 256, 2048],
            operations: 1 << 20,
            memory: Size::mib(64),
            rounds: once(),
            idle: 0,
            seed: 1,
        }
    }
}

impl Setup {
    /// Every case of a benchmark.
    pub fn cases(&self, what: What) -> Vec<Case> {
        let sizes = self.bytes.iter().map(|&bytes| Some(bytes));
        match what {
            What::Pair => self
                .threads
                .iter()
                .flat_map(|&threads| sizes.clone().map(move |bytes| (threads, bytes)))
                .flat_map(|(threads, bytes)| {
                    [Interface::Cookie, Interface::Standard].map(|interface| Case {
                        threads,
                        bytes,
                        interface: Some(interface),
                    })
                })
                .collect(),
            What::ProducerConsumer => {
                sizes.map(|bytes| Case { threads: 2, bytes, interface: None }).collect()
            }
            What::CacheScratch => self
                .threads
                .iter()
                .flat_map(|&threads| sizes.clone().map(move |bytes| (threads, bytes)))
                .map(|(threads, bytes)| Case { threads, bytes, interface: None })
                .collect(),
            What::Churn | What::Larson => self
                .threads
                .iter()
                .map(|&threads| Case { threads, bytes: None, interface: None })
                .collect(),
            _ => vec![Case { threads: 1, bytes: None, interface: None }],
        }
    }
}

/// What a figure is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// An allocation, in ns.
    Alloc,
    /// A free, in ns.
    Free,
    /// An allocation and a free, in ns.
    Pair,
    /// A write to a block, in ns.
    Write,
    /// Memory over bytes asked for, while all of them are in use.
    Peak,
    /// Memory that stays when all of them are free, over bytes that were asked for.
    Kept,
    /// The same after some calls, with nothing to do between them.
    KeptLater,
    /// The same when the heap was asked for what it keeps.
    KeptAsked,
    /// Of the blocks that are written to, those on a line with another thread's.
    Shared,
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Metric::Alloc => "alloc",
            Metric::Free => "free",
            Metric::Pair => "pair",
            Metric::Write => "write",
            Metric::Peak => "peak over payload",
            Metric::Kept => "kept over payload",
            Metric::KeptLater => "kept, later",
            Metric::KeptAsked => "kept, asked for",
            Metric::Shared => "blocks on a shared line",
        })
    }
}

/// A figure of one repetition.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Reading {
    /// Bytes of the blocks, where the case has several sizes.
    pub bytes: Option<usize>,
    /// What it is of.
    pub metric: Metric,
    /// ns of CPU time for each operation, or a ratio.
    pub value: f64,
    /// ns on the wall, as one thread sees them.
    pub wall: Option<f64>,
}

impl Reading {
    /// Of times.
    pub fn of(metric: Metric, bytes: Option<usize>, tally: Tally) -> Reading {
        Reading { bytes, metric, value: tally.cpu(), wall: Some(tally.wall()) }
    }
}

/// Bytes that a heap has taken from below, or that the process has in memory.
///
/// # Errors
/// The system does not say.
pub(super) fn taken<H: Heap>(heap: &H) -> Result<usize, Failure> {
    let unknown = || Failure::Failed("the system does not say what is resident".into());
    heap.taken().or_else(resident_bytes).ok_or_else(unknown)
}

/// A heap had no memory.
pub(super) fn no_memory(name: &str, bytes: usize) -> Failure {
    Failure::Failed(format!("{name}: no memory for {bytes} bytes"))
}
