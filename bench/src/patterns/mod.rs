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
//! | *linux-scalability* | every thread allocates a burst of blocks and frees it, again and again, without waiting for the others (Marotta et al., section III) | pairs |
//! | *thread-test* | the same, with one burst divided among all threads (there) | pairs |
//! | *constant-occupancy* | every thread holds blocks of [`LEVELS`] orders, from the one named up, as much memory of each; in turn it frees half of what it holds of an order and allocates as much | pairs |
//! | *cached-allocation* | what *repeat* does, at the sizes of the other three | pairs |
//! | *init* | a zone is initialised on metadata that has been used before; a random half of its frames is allocated (of its huge frames, above 256 GiB); it is recovered (5.7) | initialisation; recovery, each a call |
//!
//! Where the memory has more blocks than [`MOST_BLOCKS`], *bulk*, *batch*, *random* and
//! *exit-storm* use only so many of them: in a large zone they measure a corner of it. *near-full*
//! and *full* fill the whole zone, whatever its size, but *near-full* frees and allocates only so
//! many different blocks.
//!
//! Before anything else, so much of the zone as [`Setup::fill`] says is allocated in blocks of the order
//! that is measured: the first ones *in a row*, or ones chosen *at random* after all were allocated.
//! What a pattern then calls all memory, or half of it, is what is left.
//!
//! In *remote*, a thread that is done with its part of a round waits for the other, outside the
//! time taken; both halves run at the same time as long as they take equally long.

mod bursts;
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

/// Blocks in a burst where nothing else is said: at 2 MiB, eight threads of them are 8 GiB.
pub const BURST: usize = 512;

/// How many orders a thread holds blocks of in *constant-occupancy*: sizes from one to sixteen times
/// the smallest, as far as there are such orders.
pub const LEVELS: u8 = 5;

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
    /// Every thread allocates a burst and frees it
    LinuxScalability,
    /// The same with one burst divided among the threads
    ThreadTest,
    /// Threads hold blocks of several orders and free and allocate bursts of them
    ConstantOccupancy,
    /// A block is allocated and freed, at the sizes of these three
    CachedAllocation,
    /// A zone is initialised and recovered
    Init,
}

impl Pattern {
    /// The orders that are measured where none is named: for the four benchmarks of Marotta et al.
    /// 4 KiB, 128 KiB and 2 MiB.
    pub const fn orders(self) -> &'static [u8] {
        match self {
            Pattern::LinuxScalability
            | Pattern::ThreadTest
            | Pattern::ConstantOccupancy
            | Pattern::CachedAllocation => &[0, 5, 9],
            _ => &[0],
        }
    }

    /// How full a zone is before, in percent, where nothing else is said.
    pub const fn fills(self) -> &'static [f64] {
        match self {
            Pattern::NearFull => &[90.0, 99.0, 99.8],
            _ => &[0.0],
        }
    }
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
            Pattern::LinuxScalability => "linux-scalability",
            Pattern::ThreadTest => "thread-test",
            Pattern::ConstantOccupancy => "constant-occupancy",
            Pattern::CachedAllocation => "cached-allocation",
            Pattern::Init => "init",
        })
    }
}

/// Where the blocks lie that are allocated before.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Any block is as likely as any other
    #[default]
    Random,
    /// The first ones that the allocator hands out
    Row,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Placement::Random => "at random",
            Placement::Row => "in a row",
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
    /// How full the zone is before, in thousandths.
    pub fill: usize,
    /// Where that lies.
    pub placement: Placement,
    /// For the patterns with bursts: how many blocks of this order one has.
    pub burst: usize,
    /// What random choices follow from.
    pub seed: u64,
    /// How many operations a repetition does at least.
    pub operations: usize,
}

impl Setup {
    /// One thread with a slot of its own on a zone of 8 GiB.
    pub fn new(pattern: Pattern, order: Order) -> Setup {
        Setup {
            pattern,
            order,
            threads: 1,
            slots: 1,
            memory: Size::gib(8),
            fill: if pattern == Pattern::NearFull { 990 } else { 0 },
            placement: Placement::Random,
            burst: BURST,
            seed: 1,
            operations: 1 << 20,
        }
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
        if self.pattern == Pattern::NearFull && self.placement != Placement::Random {
            return wrong("is full at random (--placement random)".into());
        }
        if matches!(self.pattern, Pattern::Full | Pattern::Init) && self.fill != 0 {
            return wrong("begins with a zone that is free (--fill 0)".into());
        }
        if self.holes() == 0 {
            let (order, memory, percent) = (self.order, self.memory, self.fill as f64 / 10.0);
            return wrong(format!(
                "no block of {order} is free in {memory} that is {percent} % full"
            ));
        }
        let burst = self.burst;
        if self.pattern == Pattern::ThreadTest && burst < self.threads {
            let threads = self.threads;
            return wrong(format!("a burst of {burst} blocks is too short for {threads} threads"));
        }
        if let Some(least) = self.held().map(|(_, blocks)| blocks).min()
            && least < 2
        {
            let order = self.order;
            return wrong(format!(
                "a burst of {burst} blocks of {order} is less than two of the largest that are held"
            ));
        }
        let (needed, left) = (self.burst_blocks(), self.holes());
        if needed > left {
            return wrong(format!(
                "{} threads with bursts of {burst} blocks need {needed} blocks of {}, and {left} \
                 are free in {}: a smaller --burst, or more --memory",
                self.threads, self.order, self.memory
            ));
        }
        if self.pattern == Pattern::NearFull && self.fill == 0 {
            return wrong("begins with a zone that is in use (a --fill above 0)".into());
        }
        if self.list() < if self.pattern == Pattern::Batch { BATCH } else { 1 } {
            let (memory, threads, order) = (self.memory, self.threads, self.order);
            let fill = if self.fill > 0 { self.before() } else { String::new() };
            return wrong(format!(
                "{memory}{fill} is too little for {threads} threads and blocks of {order}"
            ));
        }
        Ok(())
    }

    /// For [`Pattern::ConstantOccupancy`]: the orders of the blocks that a thread holds, and how
    /// many of each. Nothing for all others.
    fn held(&self) -> impl Iterator<Item = (Order, usize)> + use<> {
        let levels = if self.pattern == Pattern::ConstantOccupancy { LEVELS } else { 0 };
        let (lowest, burst) = (self.order.0, self.burst);
        (0..levels)
            .map(move |level| (Order(lowest + level), burst >> level))
            .filter(|held| held.0.0 <= 10)
    }

    /// Is it one of the patterns with bursts?
    pub(crate) fn has_bursts(&self) -> bool {
        self.burst_blocks() > 0
    }

    /// Every order that is asked for.
    fn orders(&self) -> impl Iterator<Item = Order> + use<> {
        std::iter::once(self.order).chain(self.held().map(|(order, _)| order))
    }

    /// How much memory all bursts have at once, in blocks of the lowest order.
    fn burst_blocks(&self) -> usize {
        self.threads.saturating_mul(match self.pattern {
            Pattern::LinuxScalability => self.burst,
            Pattern::ThreadTest => self.burst / self.threads,
            _ => self.held().count().saturating_mul(self.burst),
        })
    }

    /// How full the zone is before, in words that follow others.
    pub(crate) fn before(&self) -> String {
        let percent = self.fill as f64 / 10.0;
        match self.pattern {
            Pattern::NearFull => format!(" {percent} %"),
            _ if self.fill > 0 => format!(" {percent} % {}", self.placement),
            _ => String::new(),
        }
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
            Pattern::LinuxScalability => return self.burst,
            Pattern::ThreadTest => return self.burst / self.threads,
            Pattern::ConstantOccupancy => return self.held().map(|(_, blocks)| blocks).sum(),
            Pattern::Random => self.holes(),
            Pattern::NearFull => self.occupied(),
            // Read by the other thread while this one writes another one like it.
            Pattern::Remote => (self.holes() / 4).min(8192 * self.threads),
            _ => self.holes() / 2,
        };
        let list = all.min(MOST_BLOCKS) / self.threads;
        if self.pattern == Pattern::Batch { list / BATCH * BATCH } else { list }
    }

    /// How many blocks are free in a zone as full as this.
    fn holes(&self) -> usize {
        self.blocks() * (1000 - self.fill.min(1000)) / 1000
    }

    /// How many are not.
    fn occupied(&self) -> usize {
        self.blocks() - self.holes()
    }

    /// Is that how many blocks were to be allocated?
    fn all_allocated(&self, allocated: usize, blocks: usize) -> Result<(), Failure> {
        let pattern = self.pattern;
        match allocated == blocks {
            true => Ok(()),
            false => Err(Failure::Failed(format!(
                "{pattern}: only {allocated} of {blocks} blocks could be allocated"
            ))),
        }
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
    let unserved = |order| Failure::Failed(format!("{engine}: does not serve {order}"));
    if let Some(order) = setup.orders().find(|&order| !engine.serves(order)) {
        return Err(unserved(order));
    }
    let runner = engine.visit(setup.order, Prepare { engine, setup });
    runner.unwrap_or_else(|| Err(unserved(setup.order)))
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
