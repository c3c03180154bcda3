//! Heaps: `woodlot-kmem` beside the system's `malloc` and others, by the benchmarks of the paper that it is from (McKenney
//! and Slingwine, USENIX 1993) and by two of today's.
//!
//! ```text
//!   measure ──► contender ──► pair, worst, handover, churn ──► heap      compiled for each heap
//!      │            └──► frames, malloc, system, and what a program adds
//!      └─► floor                                             locks, waste ──► frames: they count
//! ```
//!
//! | | what a repetition does | what is timed |
//! |---|---|---|
//! | *pair* | every thread allocates a block and frees it, again and again (figures 7 and 8) | pairs |
//! | *worst* | all of memory is allocated in blocks of one size, linked and freed; then in the next size (figure 9) | allocations, with a write to each; frees |
//! | *producer-consumer* | one thread allocates lists of blocks, the other one frees them, both at once | allocations; frees; both |
//! | *churn* | each thread replaces random ones of its blocks of random sizes, which then become another thread's (larson) | pairs |
//! | *lock-manager* | nodes of a distributed lock manager send each other requests (section 4.4, tables 2 and 3) | nothing: calls that miss a layer are counted |
//! | *waste* | blocks of random sizes are replaced at random, then most are freed (tables 5 and 6) | nothing: memory is counted |
//! | *instructions* | *pair* under callgrind (section 4.1) | instructions of a pair |
//!
//! Times are as everywhere in this crate: CPU time of the threads, contenders by turns, a first repetition that does not
//! count.
//!
//! *Peak over payload* is what a heap has taken while all blocks are in use, over their bytes: of `kmem` the frames that
//! its zone has handed out; of others by how much the resident memory of the process has grown since the contender's
//! turn began. What a contender kept from before its turn does not count, so it is low for one that keeps much: the
//! first repetition's is shown, which begins with no contender's blocks but its own.

mod case;
mod churn;
mod contender;
mod count;
mod floor;
mod frames;
mod handover;
pub mod heap;
mod locks;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod malloc;
mod measure;
mod output;
mod pair;
#[cfg(unix)]
mod system;
#[cfg(test)]
mod tests;
mod waste;
mod worst;

pub use case::{Case, Interface, Metric, Reading, Setup, What};
pub use contender::{Contender, Contenders, add, all};
pub use count::{OneBlock, VERB, count, make_pairs};
pub use frames::MOST_CPUS;
pub use locks::{LockRow, lock_manager};
pub use measure::{Kept, Line, measure};
pub use output::{describe, describe_locks, describe_waste, document};
pub use waste::{Load, WasteRow, waste};
