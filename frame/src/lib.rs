//! The nouns and the contract of the Woodlot page-frame allocators.
//!
//! A page-frame allocator hands out physical memory in *frames*. This crate says what a frame, an
//! order, a request and a failure are, and what every allocator of the family promises
//! ([`FrameAllocator`]); the engines (LLFree and those that follow) live in crates of their own.
//!
//! ```text
//!   zone    = frames start .. start+len            one allocator manages one zone
//!   tree    = 32 huge frames                       the unit a CPU reserves for itself
//!   huge    = 2^H base frames    (2 MiB: H = 9)    the unit the MMU maps large
//!   frame   = 2^B bytes          (4 KiB: B = 12)   the unit that is counted
//! ```
//!
//! Nothing in here uses a heap, takes a lock, or panics; there are no dependencies. The feature
//! `std` adds [`Owned`], an allocator together with metadata from the heap.
#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(coverage_nightly, feature(coverage_attribute))]

mod allocator;
pub mod atomics;
mod class;
mod error;
mod flags;
mod forward;
mod fragmentation;
mod frame;
mod geometry;
mod isolation;
mod metadata;
#[cfg(all(feature = "std", not(any(woodlot_loom, woodlot_explore))))]
mod owned;
mod persistence;
mod range;
mod reclaim;
mod request;
mod run;
mod stats;

pub use allocator::{Construct, FrameAllocator, Unsupported, alloc_each, free_each};
pub use class::{Class, ClassPolicy, MAX_CLASSES};
pub use error::{
    AllocError, BadSlot, FreeBatchError, FreeError, InitError, IsolateError, OfflineError, Region,
};
pub use flags::FlagsWord;
pub use fragmentation::{FreeBlocks, compaction_cost};
pub use frame::{FrameId, HugeId, Order};
pub use geometry::{Base4K, Base16K, Base64K, Geometry};
pub use isolation::Claim;
pub use metadata::{METADATA_ALIGN, MetadataSize, RawMetadata};
#[cfg(all(feature = "std", not(any(woodlot_loom, woodlot_explore))))]
pub use owned::Owned;
#[cfg(not(any(woodlot_loom, woodlot_shuttle, woodlot_explore)))]
pub use persistence::{Adr, WriteBack};
pub use persistence::{Intents, Persistence, Volatile};
pub use range::{FreeRuns, alloc_run, alloc_within, blocks_in, can_free_run, free_run};
pub use reclaim::{Flagged, HugeFlags, Prefer, Reclaim, Reclaiming};
pub use request::{Batch, Init, Place, RangeRequest, Request, Slot, ZoneConfig};
pub use run::{blocks, row_of};
pub use stats::{ClassStats, Stats};

/// The example of this crate's README, compiled and run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
