//! Heaps: `woodlot-kmem` beside the system's `malloc` and others, by the benchmarks of the paper that it is from (McKenney
//! and Slingwine, USENIX 1993) and by those of today.
//!
//! ```text
//!   measure ──► contender ─┬─► pair, worst, handover, churn, larson, scratch, returned, memory ──► heap     compiled for each
//!      │                   ├─► frames, malloc, system, and what a program adds
//!      └─► floor ─► pair   └─► child: another process of this program, with a library preloaded (libraries)
//!   locks, waste, purity (near), transfers, emptied ──► frames: they count
//!   check (targets) ──► measure, and those that count
//! ```
//!
//! | | what a repetition does | what is timed |
//! |---|---|---|
//! | *pair* | every thread allocates a block and frees it, again and again (figures 7 and 8) | pairs |
//! | *worst* | all of memory is allocated in blocks of one size, linked and freed; then in the next size (figure 9) | allocations, with a write to each; frees |
//! | *producer-consumer* | one thread allocates lists of blocks, the other one frees them, both at once | allocations; frees; both |
//! | *churn* | each thread replaces random ones of its blocks of random sizes, which then become another thread's (mstress) | pairs |
//! | *larson* | the same by threads that end: their successors take over | pairs |
//! | *cache-scratch* | threads write to blocks that may lie on one line | writes; blocks on a shared line are counted |
//! | *memory* | a load rises and falls, in other sizes each time; each heap in a process of its own | nothing: memory taken is noted at each step |
//! | *returned* | all of memory is allocated in blocks of one size, which are freed in random order; each heap in a process of its own | allocations and frees; memory that stays is noted |
//! | *zeroed* | all of memory is allocated as zero, and freed; then one block again and again | allocations of what is new from the system; pairs of what is not |
//! | *preload* | *pair*, *worst* and *producer-consumer* through the C library's names, each library in a process of its own | as there |
//! | *lock-manager* | nodes of a distributed lock manager send each other requests (section 4.4, tables 2 to 4) | nothing: calls that miss a layer are counted |
//! | *waste* | blocks of random sizes are replaced at random, then most are freed (tables 5 and 6) | nothing: memory is counted |
//! | *purity* | four CPUs on two nodes allocate and free what is near and what is not (section 5.5) | nothing: blocks are counted |
//! | *transfers* | up to 64 CPUs make pairs, and every access is seen (section 4.2) | nothing: cache lines that move are counted |
//! | *instructions* | *pair* under callgrind (section 4.1) | instructions of a pair |
//! | *emptied* | all of memory is used, freed and flushed, then had in each size | nothing: frames are counted |
//! | *check* | what the targets are about (`bench/kmem-targets.toml`) | as there |
//!
//! Times are as everywhere in this crate: CPU time of the threads, contenders by turns, a first repetition that does not
//! count. The floor takes part in each repetition, and in each case of *pair* on as many threads: a clock that falls while
//! all CPUs work is seen there.
//!
//! In *worst*, *memory* and *returned* the clock of a kernel ticks for `kmem`, which has no other time to give back what nobody uses
//! (frames says how); that takes its part of what is timed.
//!
//! *Peak over payload* is what a heap has taken while all blocks are in use, over their bytes: of `kmem` the frames that
//! its zone has handed out; of others by how much the resident memory of the process has grown since the contender's
//! turn began. What a contender kept from before its turn does not count, so it is low for one that keeps much: the
//! first repetition's is shown, which begins with no contender's blocks but its own.

mod case;
mod check;
mod child;
mod churn;
mod contender;
mod count;
mod curve;
mod describe;
mod emptied;
mod floor;
mod frames;
mod handover;
pub mod heap;
mod larson;
mod libraries;
mod locks;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod malloc;
mod measure;
mod memory;
mod near;
mod output;
mod pair;
mod preload;
mod purity;
mod returned;
mod scratch;
#[cfg(unix)]
mod system;
mod targets;
#[cfg(test)]
mod tests;
mod transfers;
mod waste;
mod worst;
mod zeroed;

pub use case::{Case, Interface, Metric, Reading, Setup, What};
pub use check::{Checked, Judged, LINKED, check};
pub use child::{Child, SAMPLE_VERB, answer};
pub use contender::{Contender, Contenders, add, all};
pub use count::{Count, OneBlock, VERB, counts, make_pairs};
pub use curve::{Curve, alone, curves};
pub use describe::{
    describe_counts, describe_curves, describe_emptied, describe_purity, describe_transfers,
};
pub use emptied::{EMPTIED_CPUS, Emptied, emptied};
pub use frames::MOST_CPUS;
pub use libraries::Libraries;
pub use locks::{FLUSH, LockRow, lock_manager};
pub use measure::{Kept, Line, measure};
pub use memory::Moment;
pub use output::{describe, describe_locks, describe_waste, document};
pub use preload::{LOOPS, Looped, preload};
pub use purity::{PurityRow, purity};
pub use targets::{Target, load, parse};
pub use transfers::{TransferRow, transfers};
pub use waste::{Load, WasteRow, waste};
