//! Domains: the memory of a machine, from its map, as zones behind one allocator.
//!
//! ```text
//!   Map       what firmware says: ranges of frames, each in a domain           map
//!   Setup     the map, the slots and where they are, the distances            setup
//!   Domains   a zone for each domain, without its holes; one FrameAllocator    domains, zone, index, turns
//!             giant frames of 1 GiB: runs of whole huge frames              giant
//!   Policy    from which domain memory comes; runs of frames, of many pages    policy, range, batch
//!   OneDomain one of them as an allocator: a daemon of compaction for each      one, huge
//!   Room      memory that is added and removed while all of it is in use       hotplug, added
//!   NumaStats what each domain was asked for, and gave                         tally
//! ```
//!
//! After *Physical memory anti-fragmentation mechanisms in the FreeBSD kernel* (Novković).
#![no_std]
#![cfg_attr(coverage_nightly, feature(coverage_attribute))]
#![warn(missing_docs)]

mod added;
mod batch;
mod chunk;
mod domains;
mod giant;
mod hotplug;
mod huge;
mod index;
mod map;
mod one;
mod policy;
mod range;
mod setup;
mod tally;
mod turns;
mod zone;
mod zones;

pub use added::Room;
pub use batch::RunsError;
pub use domains::Domains;
pub use hotplug::{AddError, Metadata, RemoveError, Removed};
pub use map::{DomainId, MAX_DOMAINS, Map, MapError, Present};
pub use one::OneDomain;
pub use policy::{DomainSet, Policy, Rounds};
pub use setup::{Setup, SetupError};
pub use tally::NumaStats;
pub use turns::{DistanceError, Distances};

/// The example of this crate's README, compiled and run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
