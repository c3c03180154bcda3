//! The ways of asking an allocator for blocks.
//!
//! | | what a repetition does | what is timed |
//! |---|---|---|
//! | *bulk* | every thread allocates its share of half the memory, all wait, every thread frees its share in the order of allocation (LLFree section 5.1) | allocations; frees |
//! | *batch* | the same, 64 blocks a call | allocations; frees, for each block |
//! | *random* | all memory is allocated and freed in random order (5.1) | frees |
//! | *repeat* | every thread allocates a block and frees it, again and again (5.1) | pairs |
//! | *remote* | one thread of each two allocates, the other frees what it allocated, both at once, on slots of their own | allocations; frees |
//! | *exit-storm* | half the memory is allocated by all threads; then all at once free all of it, runs of [`STORM_RUN`] blocks dealt to them in turn whoever allocated them | frees |
//! | *near-full* | the zone is filled and blocks chosen at random are freed until it is 90, 99 or 99.8 % full; then a random one of the others is freed and one is allocated, again and again | pairs (a free and an allocation) |
//! | *full* | the zone is filled; then every thread asks again and again | allocations that fail |
//! | *init* | a zone is initialised on metadata that has been used before; a random half of its frames is allocated (of its huge frames, above 256 GiB); it is recovered (5.7) | initialisation; recovery, each a call |
//!
//! Where the memory has more blocks than [`MOST_BLOCKS`], *bulk*, *batch*, *random* and
//! *exit-storm* use only so many of them: in a large zone they measure a corner of it. *near-full*
//! and *full* fill the whole zone, whatever its size, but *near-full* frees and allocates only so
//! many different blocks.
//!
//! In *remote*, a thread that is done with its part of a round waits for the other, outside the
//! time taken; both halves run at the same time as long as they take equally long.

mod init;
mod loops;
mod prepared;
mod shared;
#[cfg(test)]
mod tests;
mod threads;

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use woodlot_frame::{Base4K, Construct, FrameAllocator, Order, Slot};

use crate::Failure;
use crate::clock::Tally;
use crate::contender::{Contender, Contract};
use crate::engine::{Engine, Visit};
use crate::size::Size;

pub use loops::BATCH;
pub use prepared::Prepared;
pub use shared::STORM_RUN;
pub use threads::{on_one_thread, on_threads};

/// The most blocks that are held in arrays at once: 16 GiB of base frames, 32 MiB of array.
pub const MOST_BLOCKS: usize = 1 << 22;

/// A way of asking for blocks.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Half the memory is allocated and then freed
    Bulk,
    /// The same, 64 blocks a call
    Batch,
    /// All memory is freed in random order
    Random,
    /// A block is allocated and freed, again and again
    Repeat,
    /// One thread allocates, another one frees
    Remote,
    /// All threads free everything at once
    ExitStorm,
    /// A block is freed and one allocated in a zone that is 90, 99 or 99.8 % full
    NearFull,
    /// A full zone is asked for a block
    Full,
    /// A zone is initialised and recovered
    Init,
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Pattern::Bulk => "bulk",
            Pattern::Batch => "batch",
            Pattern::Random => "random",
            Pattern::Repeat => "repeat",
            Pattern::Remote => "remote",
            Pattern::ExitStorm => "exit-storm",
            Pattern::NearFull => "near-full",
            Pattern::Full => "full",
            Pattern::Init => "init",
        })
    }
}

/// What an operation of a figure is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// An allocation.
    Alloc,
    /// A free.
    Free,
    /// An allocation and a free.
    Pair,
    /// An allocation that fails because memory is exhausted.
    FailingAlloc,
    /// Initialising a zone.
    Init,
    /// Recovering a zone.
    Recover,
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Metric::Alloc => "alloc",
            Metric::Free => "free",
            Metric::Pair => "pair",
            Metric::FailingAlloc => "failing alloc",
            Metric::Init => "init",
            Metric::Recover => "recover",
        })
    }
}

/// What to run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Setup {
    /// The way of asking.
    pub pattern: Pattern,
    /// The size of the blocks.
    pub order: Order,
    /// How many threads.
    pub threads: usize,
    /// How many slots the zone has; thread *t* uses slot *t* modulo this.
    pub slots: usize,
    /// How much memory the zone manages.
    pub memory: Size,
    /// For [`Pattern::NearFull`]: how full the zone is, in thousandths.
    pub fill: usize,
    /// What random choices follow from.
    pub seed: u64,
    /// How many operations a repetition does at least.
    pub operations: usize,
}

impl Setup {
    /// One thread with a slot of its own on a zone of 8 GiB.
    pub fn new(pattern: Pattern, order: Order) -> Setup {
        let (memory, operations) = (Size::gib(8), 1 << 20);
        Setup { pattern, order, threads: 1, slots: 1, memory, fill: 990, seed: 1, operations }
    }

    /// Can this be run at all?
    ///
    /// # Errors
    /// What makes no sense.
    pub fn check(&self) -> Result<(), Failure> {
        let wrong = |what: String| Err(Failure::Usage(format!("{}: {what}", self.pattern)));
        if self.threads == 0 || self.slots == 0 {
            return wrong("at least one thread and one slot".into());
        }
        if self.pattern == Pattern::Remote && !self.threads.is_multiple_of(2) {
            return wrong("threads in twos (--threads 2): one allocates, the other frees".into());
        }
        if self.pattern == Pattern::Remote && self.slots < self.threads {
            return wrong("a slot for each thread, for a free to be remote".into());
        }
        if self.pattern == Pattern::Init && self.threads != 1 {
            return wrong("one thread".into());
        }
        if self.order.0 > 10 {
            return wrong("orders 0 to 10".into());
        }
        if self.list() < if self.pattern == Pattern::Batch { BATCH } else { 1 } {
            let threads = self.threads;
            return wrong(format!("{} is too little for {threads} threads", self.memory));
        }
        if self.pattern == Pattern::NearFull && self.holes() == 0 {
            return wrong(format!("{} has too few blocks to leave one free", self.memory));
        }
        Ok(())
    }

    /// The slot of a thread.
    fn slot(&self, thread: usize) -> Slot {
        Slot(thread % self.slots)
    }

    /// The blocks of the zone.
    fn blocks(&self) -> usize {
        self.memory.frames() >> self.order.0
    }

    /// How many blocks each thread's array holds.
    fn list(&self) -> usize {
        let all = match self.pattern {
            Pattern::Random => self.blocks(),
            Pattern::NearFull => self.blocks() - self.holes(),
            // Read by the other thread while this one writes another one like it.
            Pattern::Remote => (self.blocks() / 4).min(8192 * self.threads),
            _ => self.blocks() / 2,
        };
        let list = all.min(MOST_BLOCKS) / self.threads;
        if self.pattern == Pattern::Batch { list / BATCH * BATCH } else { list }
    }

    /// How many blocks are free in a zone as full as this.
    fn holes(&self) -> usize {
        self.blocks() * (1000 - self.fill.min(1000)) / 1000
    }

    /// How often lists are worked through in a repetition.
    fn rounds(&self) -> usize {
        self.operations.div_ceil(self.list() * self.threads).max(1)
    }
}

/// Figures of one repetition.
pub type Sample = Vec<(Metric, Tally)>;

/// A contender that is ready to be measured, whichever it is.
pub trait Runner {
    /// Does one repetition.
    ///
    /// # Errors
    /// When the contender refused what it must not refuse.
    fn sample(&mut self) -> Result<Sample, Failure>;
}

/// Makes a contender ready.
///
/// # Errors
/// Why it cannot do this.
pub fn prepare(engine: Engine, setup: &Setup) -> Result<Box<dyn Runner>, Failure> {
    setup.check()?;
    let runner = engine.visit(setup.order, Prepare { engine, setup });
    let order = setup.order;
    runner.unwrap_or_else(|| Err(Failure::Failed(format!("{engine}: does not serve {order}"))))
}

struct Prepare<'a> {
    engine: Engine,
    setup: &'a Setup,
}

impl Visit for Prepare<'_> {
    type Output = Result<Box<dyn Runner>, Failure>;

    fn contract<A>(self) -> Self::Output
    where
        A: Construct + FrameAllocator<Geometry = Base4K> + Send + 'static,
    {
        match self.setup.pattern {
            Pattern::Init => Ok(Box::new(init::Starting::<A>::new(self.setup)?)),
            _ => Ok(Box::new(Prepared::<Contract<A>>::new(*self.setup)?)),
        }
    }

    fn foreign<C: Contender + 'static>(self) -> Self::Output {
        match self.setup.pattern {
            Pattern::Init => {
                let engine = self.engine;
                Err(Failure::Failed(format!("{engine}: is not made from raw metadata")))
            }
            _ => Ok(Box::new(Prepared::<C>::new(*self.setup)?)),
        }
    }
}
