//! The Non-Blocking Buddy System: a lock-free page-frame allocator without lists.
//!
//! After *A Non-blocking Buddy System for Scalable Memory Allocation on Multi-core Machines*
//! (Marotta, Ianni, Scarselli, Pellegrini, Quaglia; poster extended abstract).
//!
//! ```text
//!   slots    ┌ hint, count, late ┐ …                  per CPU
//!            └──────┬────────────┘                    where to look
//!                   ▼                                 and where not
//!   roots    ●────────────●────────────● …            blocks of the largest order
//!           ╱ ╲          ╱ ╲          ╱ ╲             climbs and releases
//!          ●   ●        ●   ●        ●   ●            implicit binary trees
//!         ╱ ╲ ╱ ╲      ╱ ╲ ╱ ╲      ╱ ╲ ╱ ╲           five bits a node
//!   frames ░ ▓ ░ ░      ▓ ▓ ▓ ▓      ░ ░ ░ ░
//! ```
//!
//! The zone is a forest of static binary trees, one for each block of the largest order. A node says
//! whether it is allocated as a block, and for each of its halves whether something in the half is in use.
//!
//! To allocate, one compare-and-swap occupies a free node, and every node above is told. If one of the
//! nodes above is a block already, the allocation is undone, and the search goes on behind that block. To
//! free, the node is cleared, and the nodes above are told what became free, as far as nothing else in them
//! is in use. Blocks split and merge by themselves. There are no lists, and nothing is moved.
//!
//! There are two [forms](Form) of one implementation. In [`Nbbs1`] a climb writes every level, and a base
//! frame costs two bytes. In [`Nbbs4`] a word holds four levels, a climb writes one word for each, and a
//! base frame costs little more than one byte.
//!
//! ```
//! use woodlot_frame::{Base4K, FrameAllocator, Init, Order, Owned, Request, Slot, ZoneConfig};
//! use woodlot_nbbs::Nbbs4;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let zone = Owned::<Nbbs4<Base4K>>::new(&ZoneConfig::new(1 << 18, 2), Init::Free)?;
//! let block = zone.alloc(Request::movable(Order(5), Slot(0)))?;
//! zone.free(block, Order(5), Slot(1))?;
//! assert_eq!(zone.stats().free_huge, 512);
//! # Ok(())
//! # }
//! ```
//!
//! # What it cannot do
//! * *Free a block in parts.* What takes a block is one field of one node. To keep a part of it, fields of
//!   several nodes would have to change at once.
//! * *Begin with everything allocated* ([`Init::Allocated`]): without the sizes of the blocks nobody could
//!   free them. Holes are claimed by exact frame, or taken offline.
//! * *Keep classes apart.* Blocks lie where the search finds room.
//!
//! Exact frames, offline and online, recovery and exact exhaustion are there.
//!
//! # Progress
//! Lock-free throughout. No frame is held for a slot. A slot may put off the release of the block that it
//! freed last; any call that needs that release does it.
//!
//! # Crash
//! All cells are durable. Exactly the blocks that were allocated survive. A call that was under way has
//! either happened or not.
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
#[cfg(all(test, any(woodlot_loom, woodlot_explore)))]
mod models;
#[cfg(not(any(woodlot_loom, woodlot_shuttle, woodlot_explore)))]
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
    /// The words of the slots: volatile.
    pub slots: &'a [AtomicU64],
    /// The notes about the roots, a byte for each: volatile.
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
    /// What is wrong with the configuration; [`InitError::Short`], which gives numbers of atomics instead of
    /// bytes, if there are too few atomics; [`InitError::Unsupported`] for [`Init::Allocated`]. After an error
    /// nothing has been written.
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
