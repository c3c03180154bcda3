//! *purity*: how much of a CPU's memory is near it, computed and counted (the paper's section 5.5).
//!
//! The paper's model of a machine whose memory is not equally near to all CPUs: of the blocks that are freed a share `p_f`
//! is near the CPU that frees them; what comes from the coalescing layer is all near; of the blocks that a CPU handles a
//! share `r` passes on to the next layer, at either layer. Its equations (5) and (6) give what share is near in the
//! caches of CPUs, `p_e`, and in the global layer, `p_g`. Where the two layers pass on different shares `r1` and `r2`, the
//! same balance (equations 1 and 2) gives
//!
//! ```text
//!   p_e = (r1·r2 + p_f·(1 + r2)) / (1 + r2 + r1·r2)          p_g = (p_e + r2) / (1 + r2)
//! ```
//!
//! Here the allocator runs with four CPUs on two nodes, all played by one thread, over pages that are near the CPU that
//! asked for them first. A CPU allocates a random number of blocks, and frees as many from a stock of blocks in use, of
//! which a share `p_f` is near. Then the flows are counted: `r1` is the blocks that arrive from the global layer for each
//! block allocated, `r2` the lists that the global layer has from below for each list that it gives.
//!
//! Equation (2) takes what CPUs give to the global layer to be as near to the CPU that gets it as to the one that gave it.
//! That is so with a global layer for each node. With one for `n` nodes alike, what a CPU gets of it comes from each node
//! as often, and is near once in `n` times, whatever was near to those who gave it:
//!
//! ```text
//!   p_g = (1/n + r2) / (1 + r2)          p_e = (r1·p_g + p_f) / (1 + r1)
//! ```
//!
//! Both are computed. The model also assumes that caches mix what they have. They are stacks, so that what a CPU allocates
//! next is what it has freed last: what is allocated and what leaves to the global layer are both counted, and the
//! equations speak of both together. And it assumes that the coalescing layer hands out memory that is near; a slab that
//! somebody else has begun is not, and nobody counts that from outside.
//!
//! The last row has a pool for each node ([`Nodes`]), where frees go by address.

use std::ptr::NonNull;

use serde::{Deserialize, Serialize};
use woodlot_kmem::{Direct, Guarded, Kmem, Nodes, Octaves};

use super::case::{Setup, no_memory};
use super::frames::{Threads, Zone, pages};
use super::near::{Flow, Flows, Homes, Watched};
use crate::Failure;
use crate::random::Random;

const NODES: usize = 2;
/// Two CPUs on each node.
const CPUS: usize = 4;
/// Bytes of a block, and blocks of a list.
const BYTES: usize = 256;
/// Frames of a pool.
const FRAMES: usize = 1 << 13;
/// Blocks in use.
const STOCK: usize = 1 << 13;
/// Shares of what is freed that are near.
const FREED: [f64; 4] = [1.0, 0.9, 0.75, 0.5];
/// The most blocks that a CPU allocates before it frees as many.
const BURSTS: [usize; 3] = [64, 256, 1024];

/// Computed and counted purity of one load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PurityRow {
    /// Is there a pool for each node?
    pub pools: bool,
    /// The most blocks of a burst.
    pub burst: usize,
    /// The share of what was freed that was near: `p_f`.
    pub freed: f64,
    /// What passed on from the caches, and from the global layer: `r1`, `r2`. Nobody looks into separate pools.
    pub rates: Option<[f64; 2]>,
    /// `p_e` and `p_g` by the paper's equations.
    pub paper: [f64; 2],
    /// The same with one global layer for all nodes.
    pub computed: [f64; 2],
    /// The share near of what was allocated.
    pub allocated: f64,
    /// Of that and what left to the global layer, together: `p_e`.
    pub caches: Option<f64>,
    /// Of what arrived from the global layer, if anything did: `p_g`.
    pub global: Option<f64>,
}

/// `p_e` and `p_g` with one global layer for so many nodes.
fn shared_layer(nodes: usize, freed: f64, [r1, r2]: [f64; 2]) -> [f64; 2] {
    let global = (1.0 / nodes as f64 + r2) / (1.0 + r2);
    [(r1 * global + freed) / (1.0 + r1), global]
}

/// `p_e` and `p_g` by the paper's equations, for shares `r1` and `r2` that pass on.
fn paper(freed: f64, [r1, r2]: [f64; 2]) -> [f64; 2] {
    let caches = (r1 * r2 + freed * (1.0 + r2)) / (1.0 + r2 + r1 * r2);
    [caches, (caches + r2) / (1.0 + r2)]
}

/// What the bursts use: one pool, or one for each node.
trait Pool {
    fn enter(&self, cpu: usize);
    fn alloc(&self) -> Option<NonNull<u8>>;
    /// # Safety
    /// The block was allocated here, and is used no more.
    unsafe fn free(&self, block: NonNull<u8>);
    fn home(&self, block: NonNull<u8>) -> usize;
}

fn node_of(cpu: usize) -> usize {
    cpu * NODES / CPUS
}

type Caches = Guarded<Threads, CPUS>;
type Frames = Direct<'static, Zone>;

/// One pool for all nodes, watched.
struct Shared {
    kmem: Kmem<Watched<Caches>, Homes<Frames>, Octaves>,
    flows: &'static Flows,
}

impl Pool for Shared {
    fn enter(&self, cpu: usize) {
        Threads::enter(cpu);
        self.flows.enter(node_of(cpu));
    }

    fn alloc(&self) -> Option<NonNull<u8>> {
        let block = self.kmem.alloc(BYTES)?;
        self.flows.allocated(block);
        Some(block)
    }

    unsafe fn free(&self, block: NonNull<u8>) {
        self.flows.free(block);
        // SAFETY: as the caller says.
        unsafe { self.kmem.free(block, BYTES) };
        self.flows.freed();
    }

    fn home(&self, block: NonNull<u8>) -> usize {
        self.flows.home(block)
    }
}

/// A pool for each node.
struct Separate(Nodes<Kmem<Caches, Frames, Octaves>, NODES>);

impl Pool for Separate {
    fn enter(&self, cpu: usize) {
        Threads::enter(cpu);
    }

    fn alloc(&self) -> Option<NonNull<u8>> {
        self.0.alloc(BYTES, node_of(Threads::here()))
    }

    unsafe fn free(&self, block: NonNull<u8>) {
        // SAFETY: as the caller says.
        unsafe { self.0.free(block, BYTES) };
    }

    fn home(&self, block: NonNull<u8>) -> usize {
        self.0.node_of(block.as_ptr()).unwrap_or(usize::MAX)
    }
}

/// Blocks in use, by the node that they are near, and what the load has seen.
struct Load<'a, P> {
    pool: &'a P,
    random: Random,
    stock: [Vec<NonNull<u8>>; NODES],
    allocated: Flow,
    freed: Flow,
}

impl<P: Pool> Load<'_, P> {
    fn alloc(&mut self, cpu: usize) -> Result<(), Failure> {
        let block = self.pool.alloc().ok_or_else(|| no_memory("purity", BYTES))?;
        let home = self.pool.home(block);
        self.allocated.add(home == node_of(cpu));
        self.stock[home.min(NODES - 1)].push(block);
        Ok(())
    }

    /// Frees one that is near, or one that is not; if there is none, any.
    fn free(&mut self, cpu: usize, near: bool) {
        let wanted = if near { node_of(cpu) } else { NODES - 1 - node_of(cpu) };
        let home = if self.stock[wanted].is_empty() { NODES - 1 - wanted } else { wanted };
        let stock = &mut self.stock[home];
        if !stock.is_empty() {
            let block = stock.swap_remove(self.random.below(stock.len()));
            self.freed.add(home == node_of(cpu));
            // SAFETY: the block is in use, and is used no more.
            unsafe { self.pool.free(block) };
        }
    }

    /// Bursts of any CPU, until so many blocks were allocated.
    fn run(&mut self, (burst, near): (usize, f64), blocks: usize) -> Result<(), Failure> {
        let mut done = 0;
        while done < blocks {
            let (cpu, count) = (self.random.below(CPUS), 1 + self.random.below(burst));
            self.pool.enter(cpu);
            for _ in 0..count {
                self.alloc(cpu)?;
            }
            for _ in 0..count {
                let near = (self.random.below(1 << 20) as f64) < near * f64::from(1 << 20);
                self.free(cpu, near);
            }
            done += count;
        }
        Ok(())
    }

    /// Frees everything.
    fn end(&mut self) {
        self.pool.enter(0);
        for block in self.stock.iter_mut().flat_map(std::mem::take) {
            // SAFETY: as above.
            unsafe { self.pool.free(block) };
        }
    }
}

/// Runs a load twice as long as is counted, over a stock that is near those who have it.
fn load<'a, P: Pool>(
    pool: &'a P,
    load: (usize, f64),
    setup: &Setup,
    reset: impl Fn(),
) -> Result<Load<'a, P>, Failure> {
    let random = Random::new(setup.seed);
    let stock = std::array::from_fn(|_| Vec::new());
    let (allocated, freed) = (Flow::default(), Flow::default());
    let mut run = Load { pool, random, stock, allocated, freed };
    for block in 0..STOCK {
        let cpu = block * CPUS / STOCK;
        pool.enter(cpu);
        run.alloc(cpu)?;
    }
    run.run(load, setup.operations)?;
    (run.allocated, run.freed) = (Flow::default(), Flow::default());
    reset();
    run.run(load, setup.operations)?;
    Ok(run)
}

fn shared((burst, near): (usize, f64), setup: &Setup) -> Result<PurityRow, Failure> {
    // Zones and what watches them stay until the program ends, as other heaps that are measured do.
    let flows: &'static Flows = Box::leak(Box::new(Flows::new()));
    let watched = Watched { caches: Guarded::new(Threads), flows };
    let kmem = Kmem::new(watched, Homes { pages: pages(FRAMES, CPUS)?.1, flows }, ());
    let pool = Shared { kmem, flows };
    let before = std::cell::Cell::new([0, 0]);
    let lists = || {
        let mut all = (0..).map_while(|size| pool.kmem.stats(size));
        let stats = all.find(|stats| stats.bytes == BYTES);
        // Each miss brings so many lists.
        stats.map_or([0, 0], |stats| {
            [stats.global.takes, stats.global.take_misses * stats.lists as u64]
        })
    };
    let mut run = load(&pool, (burst, near), setup, || {
        flows.reset();
        before.set(lists());
    })?;
    let (counts, [takes, made]) = (flows.counts(), before.get());
    let [takes, made] = [lists()[0] - takes, lists()[1] - made];
    run.end();
    let share = |part: u64, all: u64| part as f64 / all.max(1) as f64;
    let rates = [share(counts.arrived.all, counts.allocated.all), share(made, takes)];
    let gone = counts.allocated.all + counts.left.all;
    let near_gone = counts.allocated.purity() * counts.allocated.all as f64
        + counts.left.purity() * counts.left.all as f64;
    let freed = counts.freed.purity();
    Ok(PurityRow {
        pools: false,
        burst,
        freed,
        rates: Some(rates),
        paper: paper(freed, rates),
        computed: shared_layer(NODES, freed, rates),
        allocated: counts.allocated.purity(),
        caches: Some(near_gone / gone.max(1) as f64),
        global: (counts.arrived.all > 0).then(|| counts.arrived.purity()),
    })
}

fn separate((burst, near): (usize, f64), setup: &Setup) -> Result<PurityRow, Failure> {
    let pools: [Frames; NODES] = [pages(FRAMES, CPUS)?.1, pages(FRAMES, CPUS)?.1];
    let pool = Separate(Nodes::new(pools.map(|pages| Kmem::new(Guarded::new(Threads), pages, ()))));
    let mut run = load(&pool, (burst, near), setup, || {})?;
    let (freed, allocated) = (run.freed.purity(), run.allocated.purity());
    run.end();
    Ok(PurityRow {
        pools: true,
        burst,
        freed,
        rates: None,
        // Whatever a CPU frees goes to the pool that it came from: that is `p_f` = 1.
        paper: paper(1.0, [0.0; 2]),
        computed: shared_layer(1, 1.0, [0.0; 2]),
        allocated,
        caches: None,
        global: None,
    })
}

/// A row for each burst and share; and one with a pool for each node.
///
/// # Errors
/// There was no memory.
pub fn purity(setup: &Setup) -> Result<Vec<PurityRow>, Failure> {
    let loads = BURSTS.iter().flat_map(|&burst| FREED.map(|near| (burst, near)));
    let mut rows: Vec<PurityRow> =
        loads.map(|load| shared(load, setup)).collect::<Result<_, Failure>>()?;
    rows.push(separate((BURSTS[1], 0.5), setup)?);
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Equations (5) and (6) of the paper are those of here where both layers pass on the same share.
    #[test]
    fn with_one_rate_the_equations_are_the_papers() {
        for r in [0.0, 0.1, 0.5, 1.0] {
            for freed in [0.0, 0.3, 1.0] {
                let [caches, global] = paper(freed, [r, r]);
                let below = r * r + r + 1.0;
                assert!((caches - (r * r + freed * r + freed) / below).abs() < 1e-12);
                assert!((global - (r * r + r + freed) / below).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn caches_are_as_pure_as_what_is_freed_and_pools_are_pure() {
        let setup = Setup { operations: 20_000, ..Setup::default() };
        let mixed = shared((256, 0.5), &setup).unwrap();
        assert!((mixed.freed - 0.5).abs() < 0.05, "{mixed:?}");
        let [r1, _] = mixed.rates.unwrap();
        assert!((0.0..=1.0).contains(&r1) && r1 > 0.0, "{mixed:?}");
        // What comes in goes out: equation (1), whatever mixes.
        let balance = (r1 * mixed.global.unwrap() + mixed.freed) / (r1 + 1.0);
        assert!((mixed.caches.unwrap() - balance).abs() < 0.02, "{mixed:?} {balance}");
        assert!(mixed.allocated < 0.8, "{mixed:?}");
        let pure = shared((256, 1.0), &setup).unwrap();
        assert!(pure.freed > 0.99 && pure.allocated > mixed.allocated, "{pure:?}");
        // What the nodes share is near to each of them half of the time, however pure what they give.
        assert!((pure.caches.unwrap() - pure.computed[0]).abs() < 0.06, "{pure:?}");
        let pools = separate((256, 0.5), &setup).unwrap();
        assert!((pools.freed - 0.5).abs() < 0.05 && pools.allocated == 1.0, "{pools:?}");
    }
}
