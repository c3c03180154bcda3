//! Models of the allocator: two CPUs, a few pages of one node or two, a few objects, every interleaving.
//!
//! ```text
//!   scenarios   cpus, nodes, objects, vmblk: tables of scripts      lock: alone
//!      │
//!   script      a thread on its CPU: what it owns, its calls    ──►  says what it owns
//!      │                                                                  │
//!   world       Kmem over a few pages, and the CPUs; zone: a few frames   │
//!      │                                                                  │
//!   drivers     explored: every state, sequentially consistent  ◄── judged: owners; at the end, all pages
//!               loomed: memory orderings, three preemptions     ◄── a cell for each block: data races
//! ```
//!
//! One scenario runs under both checkers, from the same table:
//!
//! * `--cfg woodlot_explore`: every interleaving. What a lock protects, the caches of the CPUs and the words of free blocks
//!   are parts of the states (`protected`, `word`). In every state no two threads own a block.
//! * `--cfg woodlot_loom`: the memory orderings, with up to three preemptions. Who owns a block writes to a cell of it, so an
//!   edge that is missing between a free and the next allocation of the block is a data race; and so is one between two who
//!   are at what a lock protects, or in the caches of one CPU.
//!
//! At the end of each execution everything is freed and flushed: every page is back, nothing is on its way, and all of
//! memory can be had in every size.
//!
//! That a scenario can fail is shown by `cargo xtask mutants`.
extern crate std;

#[cfg(woodlot_explore)]
mod explored;
#[cfg(woodlot_loom)]
mod loomed;
mod scenarios;
mod script;
mod world;
mod zone;

#[cfg(woodlot_explore)]
use explored as driver;
#[cfg(woodlot_loom)]
use loomed as driver;

/// What a thread does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Op {
    /// Allocates so many bytes; may find none.
    Alloc(usize),
    /// The same where there is always enough: it must find it.
    AllocSure(usize),
    /// Frees what its n-th allocation got, if it got anything.
    Free(usize),
    /// Flushes the caches of a CPU.
    FlushCpu(usize),
    /// Flushes everything.
    Flush,
}

/// Where a thread runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum On {
    /// On this CPU.
    Cpu(usize),
    /// On one after the other: it is moved whenever it can be.
    All,
}

/// One thread.
#[derive(Clone, Copy)]
struct Script {
    on: On,
    /// The calls of the setup whose blocks it owns. They are its first allocations.
    owns: &'static [usize],
    ops: &'static [Op],
}

/// A model: pages, and what threads do with them.
#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    pages: usize,
    /// What happens before the threads start, by CPU 0.
    setup: &'static [Op],
    threads: &'static [Script],
}
