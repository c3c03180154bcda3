//! Compaction: huge frames won back by moving few frames, beside allocations and frees.
//!
//! ```text
//!   Daemon       above a threshold of FMFI, or asked: picks regions, goes on step by step       daemon, asks, thread
//!     Index      chunks with their holes and scores, from the engine's counters                 index
//!     Fmfi       how fragmented the free memory is, from two counters                           fmfi
//!     Compaction a run: isolates a huge frame, moves its blocks out, one a step                 compaction, source
//!       Plan     who gives and who receives, and the fewest moves that can do it                plan, target
//!       Relocate what the owner of the frames does: says what a block is, copies, remaps        relocate
//! ```
//!
//! After *Physical memory anti-fragmentation mechanisms in the FreeBSD kernel* (Novković), section III-A, and LLFree (USENIX
//! ATC 2023), section 5.6.
//!
//! # Who owns what
//!
//! 1. A huge frame is emptied by one compaction alone: the one that [isolated](woodlot_frame::FrameAllocator::isolate) it.
//! 2. The block that receives belongs to compaction until [`Relocate::relocate`] succeeds; then it belongs to the owner, and
//!    the block that gave belongs to compaction, which frees it. Where it fails, compaction frees the block that was to
//!    receive, and the owner keeps what it had.
//! 3. Nobody else's block is ever freed: what its owner freed meanwhile is said to be [gone](Refusal::Gone), and is left alone.
//!
//! Nothing here uses a heap, blocks or panics, but for the feature `std`, which adds a thread.
#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(coverage_nightly, feature(coverage_attribute))]
#![warn(missing_docs)]

mod asks;
mod compaction;
mod daemon;
mod fmfi;
mod index;
mod plan;
mod relocate;
mod report;
mod source;
mod target;
#[cfg(feature = "std")]
mod thread;

pub use asks::{Asks, Patience, Ticket, alloc_or_ask};
pub use compaction::{Compaction, Setup, Step};
pub use daemon::{Counters, Daemon, Event, Settings};
pub use fmfi::Fmfi;
pub use index::{Chunk, Index, IndexError};
pub use plan::Candidate;
pub use relocate::{Block, Lookup, Refusal, Relocate};
pub use report::{Report, Stop};
pub use target::{Manner, PlanError, Target};
#[cfg(feature = "std")]
pub use thread::{Background, Unfinished};

/// The example of this crate's README, compiled and run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
