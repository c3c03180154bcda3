//! The Non-Blocking Buddy System: a lock-free page-frame allocator without lists.
//!
//! After *A Non-blocking Buddy System for Scalable Memory Allocation on Multi-core Machines*
//! (Marotta, Ianni, Scarselli, Pellegrini, Quaglia; poster extended abstract).
//!
//! ```text
//!   slots    ┌ hint, count, late ┐ …                  per CPU                slots.rs, deferred.rs
//!            └──────┬────────────┘                    where to look          search.rs
//!                   ▼                                 and where not          spent.rs
//!   roots    ●────────────●────────────● …            blocks of the largest order
//!           ╱ ╲          ╱ ╲          ╱ ╲             climbs and releases    climb.rs
//!          ●   ●        ●   ●        ●   ●            implicit binary trees  shape.rs
//!         ╱ ╲ ╱ ╲      ╱ ╲ ╱ ╲      ╱ ╲ ╱ ╲           five bits a node       field.rs
//!   frames ░ ▓ ░ ░      ▓ ▓ ▓ ▓      ░ ░ ░ ░
//! ```
//!
//! The zone is a forest of static binary trees, one for each block of the largest order. A node says
//! whether it is allocated as a block, and of each of its halves whether something in it is in use.
//! To allocate, a free node is occupied by one compare-and-swap and made known to every node above;
//! if one of those is a block already, the allocation is undone and goes on behind that. To free, the
//! node is cleared, and what has become free is made known upwards, as far as nothing else is in use.
//! Splitting and merging happen by themselves; there are no lists and nothing is moved.
//!
//! There are two [forms](Form): [`Nbbs1`], in which a climb writes every level and a base frame costs
//! two bytes, and [`Nbbs4`], in which a word holds four levels, a climb writes one word for each and a
//! base frame costs little more than one byte. They are one implementation.
//!
//! ```
//! use woodlot_frame::{Base4K, FrameAllocator, Init, Order, Owned, Request, Slot, ZoneConfig};
//! use woodlot_nbbs::Nbbs4;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let zone = Owned::<Nbbs4<Base4K>>::new(&ZoneConfig::new(1 << 18, 2), Init::Free)?;
//! let block = zone.alloc(Request::new(Order(5), Slot(0)))?;
//! zone.free(block, Order(5), Slot(1))?;
//! assert_eq!(zone.stats().free_huge, 512);
//! # Ok(())
//! # }
//! ```
//!
//! # What it cannot do
//! Partial frees, zones that begin allocated, classes: `contract.rs` says why. Exact frames,
//! offline and online, recovery and exact exhaustion are there.
//!
//! # Progress
//! Lock-free throughout; see `climb.rs` for allocations and frees. No frame is held for a slot; what
//! a slot puts off, anybody does who needs it (`deferred.rs`).
//!
//! # Crash
//! All cells are durable. What survives is exactly the blocks that were allocated; a call that was
//! under way has either happened or not.
#![no_std]
#![deny(missing_docs)]
#![cfg_attr(coverage_nightly, feature(coverage_attribute))]

mod climb;
mod contract;
mod count;
mod deferred;
mod field;
mod forest;
mod form;
mod init;
#[cfg(all(test, any(loom, woodlot_explore)))]
mod models;
#[cfg(not(any(loom, shuttle, woodlot_explore)))]
mod raw;
mod search;
mod shape;
mod slots;
mod spent;

pub use form::{Form, FourLevels, OneLevel};

/// The example of this crate's README, compiled and run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use woodlot_frame::atomics::{AtomicU8, AtomicU64};
use woodlot_frame::{Geometry, Init, InitError, Region, ZoneConfig};

use forest::Forest;
use init::Ground;
use shape::Shape;
use slots::Slots;

/// One node a byte.
pub type Nbbs1<'a, G> = Nbbs<'a, G, OneLevel>;

/// Four levels a word.
pub type Nbbs4<'a, G> = Nbbs<'a, G, FourLevels>;

/// A Non-Blocking Buddy System for one zone.
///
/// Made by [`Construct::construct`](woodlot_frame::Construct::construct) from raw memory or by
/// [`from_parts`](Self::from_parts) from atomics; used through
/// [`FrameAllocator`](woodlot_frame::FrameAllocator).
pub struct Nbbs<'a, G: Geometry, F: Form> {
    zone: ZoneConfig,
    /// The number of the forest's first frame.
    base: usize,
    forest: Forest<'a, G, F>,
    slots: Slots<'a>,
}

/// The atomics that a zone is made of.
pub struct Parts<'a, F: Form> {
    /// The cells of the trees: durable.
    pub cells: &'a [F::Atom],
    /// What the slots have: volatile.
    pub slots: &'a [AtomicU64],
    /// What is known of the roots: volatile.
    pub spent: &'a [AtomicU8],
}

impl<F: Form> Parts<'_, F> {
    /// How many cells, words of slots and bytes of roots a zone has.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn lengths<G: Geometry>(zone: &ZoneConfig) -> Result<[usize; 3], InitError> {
        let shape = Shape::<G, F>::new(Ground::of::<G>(zone)?.roots);
        Ok([shape.cells(), Slots::words(zone.slots), shape.roots])
    }
}

impl<'a, G: Geometry, F: Form> Nbbs<'a, G, F> {
    /// Makes an allocator from atomics. Their values mean nothing, except that [`Init::Recover`]
    /// reads the cells.
    ///
    /// # Errors
    /// What is wrong with the configuration, [`InitError::Short`] with lengths for sizes where there
    /// are too few atomics, [`InitError::Unsupported`] for [`Init::Allocated`]. Nothing is written
    /// then.
    pub fn from_parts(
        zone: &ZoneConfig,
        parts: Parts<'a, F>,
        init: Init,
    ) -> Result<Self, InitError> {
        let ground = Ground::of::<G>(zone)?;
        let shape = Shape::new(ground.roots);
        let words = Slots::words(zone.slots);
        let cells = cut(parts.cells, shape.cells(), Region::Durable)?;
        let slots = Slots(cut(parts.slots, words, Region::Volatile)?);
        let spent = cut(parts.spent, shape.roots, Region::Volatile)?;
        let forest = Forest { cells, spent, shape };
        if init == Init::Allocated {
            return Err(InitError::Unsupported);
        }
        forest.start_spent();
        let free = if init == Init::Recover {
            forest.recover(&ground);
            forest.tally_all().free
        } else {
            forest.start_free(&ground);
            zone.frames
        };
        slots.start(shape.frames(), free);
        Ok(Nbbs { zone: *zone, base: ground.base, forest, slots })
    }
}

/// The first `needed` of some atomics.
fn cut<T>(atoms: &[T], needed: usize, region: Region) -> Result<&[T], InitError> {
    atoms.get(..needed).ok_or(InitError::Short { region, needed, given: atoms.len() })
}
