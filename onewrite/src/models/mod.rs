//! Models of the lower half and its hints: two to four huge frames of two rows, or two of 32; two or three threads.
//!
//! ```text
//!   scenarios   tables of scripts
//!      │
//!   script      a thread: what it owns, its calls          ──►  says what it owns and does
//!      │                   │                                            │
//!   engine      the calls of the contract                               │
//!      │                                                                │
//!   drivers     explored: every state, sequentially consistent ◄── verdict: owners, hints, crash
//!               loomed: memory orderings, three preemptions    ◄── a cell for each frame: data races
//! ```
//!
//! * `--cfg woodlot_explore`: every interleaving of two threads, and of three as many states as there is time for. In every state no two threads own a frame, what is owned is not free, and
//!   a recovery from rows, their states and flags finds it allocated, and besides no more than a row or a block for each call
//!   under way; what a thread has isolated is so, and no other's; what is owned is not zeroed, and what was reclaimed softly is told to one. At the end exactly what nobody owns is free, and of every order all blocks that are free can be allocated: no hint is
//!   wrong. From every state every thread finishes alone.
//! * `--cfg woodlot_loom`: preemptions up to three. Who owns a frame writes to a cell of it, so an edge that is
//!   missing between a free and the next allocation of the frame is a data race.
//!
//! That a scenario can fail is shown by `cargo xtask mutants`, which seeds defects into the engine.
extern crate std;

#[cfg(woodlot_explore)]
mod explored;
#[cfg(woodlot_loom)]
mod loomed;
mod scenarios;
mod script;
mod verdict;
mod world;

use woodlot_frame::{Class, Geometry, Reclaim};

#[cfg(woodlot_explore)]
use explored as driver;
#[cfg(woodlot_loom)]
use loomed as driver;

/// Huge frames of 2^`H` frames, trees of four huge frames.
#[derive(Clone, Copy, Debug)]
struct Model<const H: u32>;

impl<const H: u32> Geometry for Model<H> {
    const BASE_SHIFT: u32 = 12;
    const HUGE_ORDER: u32 = H;
    const NAME: &'static str = "model";
    const TREE_HUGE: usize = 4;
}

/// Huge frames of two rows.
type TwoRows = Model<7>;

/// Huge frames of 32 rows, of which a pair has two words.
type Wide = Model<11>;

/// A block by its first frame and its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Block(usize, u8);

impl Block {
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
    /// Allocates a block of this order; may find none.
    Alloc(u8),
    /// The same, and finds one: more are free than others can take.
    Find(u8),
    /// Allocates this very block; may be refused.
    At(usize, u8),
    /// Allocates a block of this order, and nothing of what was isolated before it begins; may find none.
    AllocApart(u8),
    /// Allocates a block of this class and order; may find none.
    AllocAs(Class, u8),
    /// Frees what this thread allocated by its n-th allocation, if that found anything.
    FreeGot(usize),
    /// Frees the first part, of this order, of what this thread allocated by its n-th allocation, and keeps the rest.
    FreePart(usize, u8),
    /// Frees a block that the thread owns.
    Free(usize, u8),
    /// The same, and may be refused, since a wrong free may have named a part of it.
    TryFree(usize, u8),
    /// Frees a block that others free as well.
    FreeAgain(usize, u8),
    /// Frees a block that is not this thread's, and that another call may be allocating or bringing online; may be
    /// refused.
    Stray(usize, u8),
    /// Takes a huge frame out; may be refused.
    Offline(usize),
    /// The same of so many from this one on, all or none.
    OfflineRun(usize, usize),
    /// Puts a huge frame back, if this thread has taken it out.
    Online(usize),
    /// The same of so many huge frames; may be refused if others bring back some of them.
    OnlineRun(usize, usize),
    /// Puts so many huge frames back, one of which nobody has taken out: is refused.
    OnlineRefused(usize, usize),
    /// Puts a huge frame back, whoever has taken it out; may be refused.
    OnlineAnyones(usize),
    /// Isolates a huge frame; may be refused.
    Isolate(usize),
    /// The same of so many from this one on, all or none.
    IsolateRun(usize, usize),
    /// Ends the isolation of a huge frame, if this thread has isolated it.
    Unisolate(usize),
    /// The same of so many, all or none; may be refused.
    UnisolateRun(usize, usize),
    /// Claims so many huge frames from this one on that this thread has isolated, if it has, as blocks; may be refused.
    Claim(usize, usize),
    /// The same, offline.
    ClaimOffline(usize, usize),
    /// Claims a huge frame that another thread has isolated, or not, and of which a frame is allocated: is refused.
    ClaimRefused(usize),
    /// Ends the isolation of a huge frame, whoever has isolated it; may be refused.
    EndAnyones(usize),
    /// Says of a huge frame that the thread owns that it is zeroed, and frees it.
    FreeZeroed(usize),
    /// Reclaims up to so many huge frames; those of a hard reclaim are this thread's then, as so many allocations.
    Reclaim(Reclaim, usize),
    /// Gives back what this thread has reclaimed, from its n-th allocation on, zeroed.
    Give(usize),
}

/// One thread.
#[derive(Clone, Copy)]
struct Script {
    /// What it owns at the beginning.
    owns: &'static [Block],
    /// What it has isolated at the beginning.
    isolated: &'static [usize],
    /// Huge frames that it says are zeroed at the beginning.
    zeroed: &'static [usize],
    ops: &'static [Op],
}

/// A model: a zone, and what threads do in it.
#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    frames: usize,
    /// Slots, which the threads share if they are fewer.
    slots: usize,
    /// Has it more states than can be explored?
    #[cfg_attr(woodlot_loom, expect(dead_code, reason = "loom is cut off by the clock"))]
    in_part: bool,
    /// May its threads die in a free, and leave hints that hide nothing of others? They allocate before they free.
    #[cfg_attr(woodlot_loom, expect(dead_code, reason = "for the explorer"))]
    dies: bool,
    /// Blocks that are allocated at the beginning. What no thread owns of them stays so.
    setup: &'static [Block],
    threads: &'static [Script],
}
