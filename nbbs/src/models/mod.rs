//! Models of both ways up: small forests, two or three threads, every interleaving.
//!
//! ```text
//!   scenarios   tables of scripts, each for one form
//!      │
//!   script      a thread: what it owns, its operations      ──►  says what it owns and does
//!      │                   │                                            │
//!   engine      the forest                                              │
//!      │                                                                │
//!   drivers     explored: every state, sequentially consistent ◄── verdict: owners, ways up, crash
//!               loomed: memory orderings, three preemptions    ◄── a cell for each frame: data races
//! ```
//!
//! One scenario runs under both checkers, from the same table:
//!
//! * `--cfg woodlot_explore`: every interleaving. In every state no two threads own a frame, the way
//!   up from every owned block is marked (`climb.rs`, invariant 3), and a recovery from the cells
//!   yields what is owned, up to one operation a thread. At the end every free block of every order can
//!   be allocated; and there are no marks, and every branch says what is below it, once slots are
//!   settled. From every state every thread finishes alone.
//! * `--cfg woodlot_loom`: preemptions up to three. Who owns a frame writes to a cell of it, so an edge that is
//!   missing between a free and the next allocation of the frame is a data race.
//!
//! `random` has scripts by chance, for the explorer. That a scenario can fail is shown by
//! `cargo xtask mutants`, which seeds defects into the engine.
extern crate std;

#[cfg(woodlot_explore)]
mod explored;
#[cfg(woodlot_loom)]
mod loomed;
#[cfg(woodlot_explore)]
mod random;
mod scenarios;
mod script;
mod verdict;
mod world;

use woodlot_frame::Geometry;

use crate::form::Form;
use crate::shape::Node;

#[cfg(woodlot_explore)]
use explored as driver;
#[cfg(woodlot_loom)]
use loomed as driver;

/// A geometry with the largest order `H + 1`.
#[derive(Clone, Copy, Debug)]
struct Tiny<const H: u32>;

impl<const H: u32> Geometry for Tiny<H> {
    const BASE_SHIFT: u32 = 12;
    const HUGE_ORDER: u32 = H;
    const NAME: &'static str = "tiny";
}

/// A block by the offset of its first frame and its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Block(usize, u32);

impl Block {
    fn of(node: Node) -> Block {
        Block(node.start(), node.order)
    }

    fn node(self) -> Node {
        Node::around(self.0, self.1)
    }

    fn range(self) -> std::ops::Range<usize> {
        self.0..self.0 + (1 << self.1)
    }

    fn meets(self, other: Block) -> bool {
        self.range().start < other.range().end && other.range().start < self.range().end
    }
}

/// What a thread does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Op {
    /// Allocates a block of this order, looking from this offset on; may find none.
    Alloc(u32, usize),
    /// The same, and finds one: more are free than others can take.
    Find(u32, usize),
    /// Allocates this very block; may be refused.
    At(usize, u32),
    /// Frees what this thread allocated by its n-th allocation, if that found anything.
    FreeGot(usize),
    /// Frees the first half of what this thread allocated by its n-th allocation, and puts it back, if
    /// it is a huge frame: is refused.
    FreeHalf(usize),
    /// Frees a block that the thread owns.
    Free(usize, u32),
    /// The same, and puts the release off.
    FreeLate(usize, u32),
    /// Releases what is put off.
    Settle,
    /// Frees a block that others free as well.
    FreeAgain(usize, u32),
    /// Takes a huge frame out; may be refused.
    Offline(usize),
    /// Puts a huge frame back, if this thread has taken it out.
    Online(usize),
}

/// One thread.
#[derive(Clone, Copy)]
struct Script {
    /// What it owns at the beginning.
    owns: &'static [Block],
    ops: &'static [Op],
}

/// A model: a forest, and what threads do in it.
#[derive(Clone, Copy)]
struct Scenario<G: Geometry, F: Form> {
    name: &'static str,
    roots: usize,
    /// Blocks that are in use at the beginning.
    setup: &'static [Block],
    threads: &'static [Script],
    kind: core::marker::PhantomData<(G, F)>,
}

impl<G: Geometry, F: Form> Scenario<G, F> {
    const fn new(setup: &'static [Block], threads: &'static [Script]) -> Self {
        let kind = core::marker::PhantomData;
        Scenario { name: "", roots: 1, setup, threads, kind }
    }

    const fn named(self, name: &'static str) -> Self {
        Scenario { name, ..self }
    }

    const fn roots(self, roots: usize) -> Self {
        Scenario { roots, ..self }
    }
}
