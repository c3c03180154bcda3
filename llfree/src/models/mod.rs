//! Models of the engine: small zones, two or three threads, every interleaving.
//!
//! ```text
//!   scenarios   lower  several_rows  children  reservations  whole_zone    tables of scripts
//!               whole_rows  index  mistakes  runs  reclaim  isolation
//!                  │
//!   script      a thread: what it owns, its operations        ──►  says what it owns and does
//!                  │                   │                                     │
//!   machine     zone calls  │  rights alone  │  index alone                  │
//!                  │                                                         │
//!   drivers     explored: every state, sequentially consistent  ◄── verdict: owners, credits, crash
//!               loomed: memory orderings, three preemptions     ◄── a cell for each frame: data races
//! ```
//!
//! One scenario runs under both checkers, from the same table:
//!
//! * `--cfg woodlot_explore`: every interleaving. In every state no two threads own a frame, every
//!   owned frame is allocated in the durable words, no counter promises more than there is, none that
//!   is not split promises anything, none has all credits and stays open, and a recovery from the
//!   durable words yields what is owned, up to one operation a thread. At the end the counters are
//!   exact, trees know of every child with credits and of its quarters, every tree is findable, and
//!   what is free can be allocated to the last frame, from every slot. From every state every thread
//!   finishes alone.
//! * `--cfg woodlot_loom`: the memory orderings, with up to three preemptions. Who owns a frame writes to a
//!   cell of it, so an edge that is missing between a free and the next allocation of the frame is
//!   a data race.
//!
//! `WOODLOT_FULL=1` lets loom run the larger scenarios with all preemptions, 20 seconds for each, not with
//! one preemption; `LOOM_MAX_PREEMPTIONS` sets the bound for all.
//!
//! That a scenario can fail is shown by `cargo xtask mutants`, which seeds defects into the engine.
extern crate std;

#[cfg(woodlot_explore)]
mod explored;
mod frames;
#[cfg(woodlot_loom)]
mod loomed;
mod machine;
mod scenarios;
mod script;
mod verdict;
mod world;

use frames::Block;
use machine::Machine;
use woodlot_frame::{Class, ClassPolicy, Geometry, Persistence, Reclaim, Volatile};

use crate::state::Phase;

#[cfg(woodlot_explore)]
use explored as driver;
#[cfg(woodlot_loom)]
use loomed as driver;

/// A geometry with huge frames of 2^`H` base frames and trees of `T` huge frames.
#[derive(Clone, Copy, Debug)]
struct Tiny<const H: u32, const T: usize>;

impl<const H: u32, const T: usize> Geometry for Tiny<H, T> {
    const BASE_SHIFT: u32 = 12;
    const HUGE_ORDER: u32 = H;
    const NAME: &'static str = "tiny";
    const TREE_HUGE: usize = T;
}

/// What a thread does next. Blocks are named by their first frame and their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Op {
    /// Allocates a block of this order; may find none.
    Alloc(u32),
    /// The same where there is always one: it must find it.
    AllocSure(u32),
    /// Allocates a block of this order, of another class.
    AllocClass(u32, Class),
    /// The same, but nothing of what was isolated before it begins.
    AllocApart(u32),
    /// Allocates this very block; may be refused.
    At(usize, u32),
    /// Allocates so many blocks of this order, all or none.
    Batch(u32, usize),
    /// Frees this many base frames from this one on in one batch.
    FreeBatch(usize, usize),
    /// Allocates a run of so many frames; may find none.
    Run(usize),
    /// Allocates the run of so many frames that begins with this one; may be refused.
    RunAt(usize, usize),
    /// Frees so many frames from this one on as one run, if the thread has them all.
    FreeRun(usize, usize),
    /// Frees what this thread allocated by its n-th allocation, if that found anything.
    FreeGot(usize),
    /// Frees the first half of that, and keeps the other.
    FreeHalf(usize),
    /// Frees a block that the thread owns.
    Free(usize, u32),
    /// Frees a block that others free as well.
    FreeAgain(usize, u32),
    /// Drains a slot.
    Drain(usize),
    /// Looks at what the record of a slot names, while its thread works: no frame of it is both.
    Look(usize),
    /// Frees what the record of a slot names that nobody works on: what its dead owner has left there, and this thread has
    /// inherited.
    Resolve(usize),
    /// Counts the zone, and makes the approximate count exact.
    Stats,
    /// Takes a huge frame out; may be refused.
    Offline(usize),
    /// Puts a huge frame back that this thread has taken out, if it has.
    Online(usize),
    /// Isolates a huge frame; may be refused.
    Isolate(usize),
    /// Ends the isolation of a huge frame, if this thread has isolated it.
    Unisolate(usize),
    /// Claims a huge frame that this thread has isolated, if it has, as a block; may be refused.
    Claim(usize),
    /// The same, and it is offline then.
    ClaimOffline(usize),
    /// The same of two huge frames by one call, of which this is the first.
    ClaimTwoOffline(usize),
    /// Ends the isolation of a huge frame, whoever has isolated it; may be refused.
    EndAnyones(usize),
    /// Puts a huge frame back, whoever has taken it out; may be refused.
    OnlineAnyones(usize),
    /// Reclaims up to so many huge frames; those that are offline then are the thread's.
    Reclaim(Reclaim, usize),
    /// Gives back what the thread has reclaimed or taken out.
    Give,
    /// Frees a whole huge frame that the thread owns and says is zeroed.
    FreeZeroed(usize),
    /// Asks for news of free huge frames.
    Ask,
    /// Reserves a tree for a slot, as an allocation does that finds none there.
    Reserve(usize),
    /// Takes all the credits of a child, as a slot does that will hold it.
    TakeAll(usize),
    /// Takes so many credits of a child, as an allocation of a certain block does.
    TakeSome(usize, usize),
    /// Gives back the credits that the thread took last.
    GiveBack,
    /// Looks at a child of which the tree may say wrongly that it has credits.
    Heal(usize),
    /// Tells a tree that a child's counter has changed, from so many credits to so many: for the
    /// index alone.
    Credit(usize, usize, usize),
    /// Changes the state of a huge frame: for the index alone.
    Turn(usize, Phase, Phase),
    /// Searches the index for every tree, accepting none.
    Search,
}

/// One thread.
#[derive(Clone, Copy)]
struct Script {
    /// The slot that it uses; at the lower level the huge frame that it allocates from.
    at: usize,
    /// What it owns at the beginning: blocks that the setup has allocated.
    owns: &'static [Block],
    ops: &'static [Op],
}

/// Do the threads break the contract? What is judged then is what it promises all the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Law {
    /// Nobody does, or what was freed twice is told apart at once.
    Kept,
    /// A frame is freed by several threads, and the polarity turns meanwhile: until they have
    /// returned, a child may promise more than its bits hold.
    FreedTwice,
    /// Isolations are ended by who did not begin them: whose one is nobody can say, and its isolator may find that it is
    /// gone.
    EndedByOthers,
    /// A frame is freed, or comes online, that others have, and may allocate meanwhile: only the counters are judged, at the end.
    FreedByOthers,
}

/// A model: a zone, and what threads do in it.
#[derive(Clone, Copy)]
struct Scenario<G: Geometry, P: Persistence = Volatile> {
    name: &'static str,
    machine: Machine<G, P>,
    frames: usize,
    slots: usize,
    classes: ClassPolicy,
    /// With intents: the room of a record.
    room: usize,
    /// What happens before the threads start, by slot 0 or on another slot.
    setup: &'static [(usize, Op)],
    threads: &'static [Script],
    /// What the threads may do to each other.
    law: Law,
    /// Does loom run it every day with the full bound, or with one preemption?
    #[cfg_attr(not(woodlot_loom), expect(dead_code, reason = "for loom"))]
    loom: bool,
}

impl Op {
    /// Does it count frames into or out of the balance of its thread's slot?
    fn counts(&self) -> bool {
        use Op::{
            Alloc, AllocApart, AllocClass, AllocSure, At, Batch, Claim, Free, FreeAgain, FreeBatch,
            FreeGot, FreeRun, FreeZeroed,
        };
        matches!(
            self,
            Alloc(_)
                | AllocSure(_)
                | AllocClass(..)
                | AllocApart(_)
                | Claim(_)
                | At(..)
                | Batch(..)
                | Free(..)
                | FreeAgain(..)
                | FreeBatch(..)
                | FreeGot(_)
                | FreeRun(..)
                | FreeZeroed(_)
                | Op::FreeHalf(_)
                | Op::Run(_)
                | Op::RunAt(..)
        )
    }
}

impl<G: Geometry, P: Persistence> Scenario<G, P> {
    /// Is something isolated?
    fn isolates(&self) -> bool {
        let mut ops = self.threads.iter().flat_map(|script| script.ops);
        ops.any(|op| matches!(op, Op::Isolate(_)))
    }

    /// Is the approximate count exact at the end? Each slot's balance is written by one thread only, and
    /// nobody corrects the total meanwhile.
    fn counts_exactly(&self) -> bool {
        if self.threads.iter().any(|script| script.ops.contains(&Op::Stats)) {
            return false;
        }
        let counts = |script: &&Script| script.ops.iter().any(Op::counts);
        let mut slots = self.threads.iter().filter(counts).map(|script| script.at);
        let mut seen = 0u64;
        slots.all(|slot| {
            let first = seen >> slot & 1 == 0;
            seen |= 1 << slot;
            first
        })
    }

    /// One tree, one slot, one class.
    const fn new(
        machine: Machine<G, P>,
        setup: &'static [(usize, Op)],
        threads: &'static [Script],
    ) -> Self {
        Scenario {
            name: "",
            machine,
            frames: G::TREE_FRAMES,
            slots: 1,
            classes: ClassPolicy::SINGLE,
            room: 3,
            setup,
            threads,
            law: Law::Kept,
            loom: true,
        }
    }

    const fn named(self, name: &'static str) -> Self {
        Scenario { name, ..self }
    }

    const fn trees(self, trees: usize) -> Self {
        Scenario { frames: trees * G::TREE_FRAMES, ..self }
    }

    const fn slots(self, slots: usize) -> Self {
        Scenario { slots, ..self }
    }

    const fn classes(self, classes: ClassPolicy) -> Self {
        Scenario { classes, ..self }
    }

    const fn law(self, law: Law) -> Self {
        Scenario { law, ..self }
    }

    /// Too many executions for every day.
    const fn large_for_loom(self) -> Self {
        Scenario { loom: false, ..self }
    }
}

#[cfg(woodlot_loom)]
fn full() -> bool {
    std::env::var_os("WOODLOT_FULL").is_some_and(|value| value == "1")
}
