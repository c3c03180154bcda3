//! The one-write engine: a lock-free page-frame allocator in which no CPU keeps frames to itself between calls.
//!
//! ```text
//!   slots     ┌ row, child, count ┐ …                per CPU and class: where it allocates, no frames
//!             └──────┬────────────┘
//!   trees     ○ ○ ○ ○│○ ○ ○ ○ ○ ○ …                  hints: which orders there are not, which classes
//!   hints     · · · ·│· · · · · · …                  the same for each child
//!   ──────────────── │ ────────────────────          above: hints, which heal; below: the truth
//!   states    ┌──┬──┬▼─┬──┬──┬──┬──┬──┐ …            two bits for each row, a word for two huge frames:
//!             │F │T │O │F │F │F │F │F │              free, taken, open, offline
//!             └──┴──┴──┴──┴──┴──┴──┴──┘
//!   rows      ░░░ ░░░ ▒█▒ ░░░ ░░░ ░░░ …              a word for each 64 frames; of an open row
//!                                                    1 is a frame that is free
//! ```
//!
//! Blocks below the order of a row (64 frames) are bits of a row that is *open*: one compare-and-swap takes them, one frees
//! them. Larger blocks up to two huge frames are states of rows: one compare-and-swap of a word takes all of its rows, and
//! one frees them. Only the opening and closing of rows takes more writes; and a pair of huge frames of more than 16 rows each, which has two words.
//!
//! **A row that is not open has no bits.** So a call that comes late, and has seen a row open that has been closed meanwhile
//! and is a part of somebody's huge frame, finds nothing there: an allocation is decided by its one write, and is never
//! undone. And a block of whole rows can be freed in parts of any order: its row becomes an open one by one write, with bits
//! that say already that nothing is free.
//!
//! ```
//! use woodlot_frame::{Base4K, FrameAllocator, Init, Order, Owned, Request, Slot, ZoneConfig};
//! use woodlot_onewrite::OneWrite;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let zone = Owned::<OneWrite<Base4K>>::new(&ZoneConfig::new(1 << 18, 2), Init::Free)?;
//! let block = zone.alloc(Request::movable(Order(9), Slot(0)))?;
//! zone.free(block, Order(8), Slot(1))?;
//! assert_eq!(zone.stats().free_huge, 511);
//! # Ok(())
//! # }
//! ```
//!
//! # What it cannot do
//! * *Count in the time of its trees*: [`stats`](woodlot_frame::FrameAllocator::stats) looks at every huge frame.
//!
//! # Progress
//! Lock-free throughout. No frame is held for a slot. While no call is in flight, an allocation finds whatever is free. A call
//! in flight hides frames that it does not allocate: the rest of a row that it opens, or of rows of one huge frame that have room
//! for 16 of its blocks; the rows that it closes, a part of the block that it takes; a huge frame of more than 16 rows while it takes a pair and the
//! second one is not to be had; the range that it brings online, or fails to take offline or to isolate; a huge frame that it reclaims; and what has
//! become free in a tree, or in a huge frame, since it looked there, until it has looked again.
//!
//! # Crash
//! Rows, their states and flags are durable. What was allocated stays so. A call that was under way has happened or not, but one
//! that opened rows may leave these allocated, a row or as many as have room for 16 of its blocks; one that closed rows, a part of its
//! block; one of a pair of two words a half of its block; and one that brought huge frames online, or claimed isolated ones, some
//! of these. One that took huge frames offline may leave some of them offline, and others allocated; one that reclaimed one allocated
//! and, if it was hard, those before it offline.
#![no_std]
#![deny(missing_docs)]
#![cfg_attr(coverage_nightly, feature(coverage_attribute))]

mod batch;
mod child;
mod contract;
mod count;
mod flags;
mod hints;
mod init;
mod isolate;
mod lower;
#[cfg(all(test, any(woodlot_loom, woodlot_explore)))]
mod models;
mod ones;
#[cfg(not(any(woodlot_loom, woodlot_shuttle, woodlot_explore)))]
mod raw;
mod reclaim;
mod row;
mod search;
mod slots;
mod words;

/// The example of this crate's README, compiled and run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use core::marker::PhantomData;

use woodlot_frame::atomics::{AtomicU16, AtomicU64};
use woodlot_frame::{Geometry, Init, InitError, Region, ZoneConfig};

use init::Ground;
use row::Rows;
use slots::Slots;
use words::LANE;

/// A one-write allocator for one zone.
///
/// Made by [`Construct::construct`](woodlot_frame::Construct::construct) from raw memory or by
/// [`from_parts`](Self::from_parts) from atomics; used through
/// [`FrameAllocator`](woodlot_frame::FrameAllocator). A geometry has a huge order of at most 11.
pub struct OneWrite<'a, G: Geometry> {
    zone: ZoneConfig,
    ground: Ground,
    rows: &'a [AtomicU64],
    states: &'a [AtomicU64],
    flags: &'a [AtomicU64],
    trees: &'a [AtomicU64],
    hints: &'a [AtomicU16],
    slots: Slots<'a>,
    geometry: PhantomData<G>,
}

/// The atomics that a zone is made of.
pub struct Parts<'a> {
    /// The bits of single frames: durable.
    pub rows: &'a [AtomicU64],
    /// The states of rows, a word for two huge frames, or one of more than 16 rows: durable.
    pub states: &'a [AtomicU64],
    /// What is known of the memory of huge frames, 32 a word: durable.
    pub flags: &'a [AtomicU64],
    /// The words of the slots: volatile.
    pub slots: &'a [AtomicU64],
    /// A word for each tree: volatile.
    pub trees: &'a [AtomicU64],
    /// A hint for each huge frame: volatile.
    pub hints: &'a [AtomicU16],
}

/// How many atomics there are of each kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lengths {
    /// Words of rows.
    pub rows: usize,
    /// Words of the states of rows.
    pub states: usize,
    /// Words of flags.
    pub flags: usize,
    /// Words of slots.
    pub slots: usize,
    /// Words of trees.
    pub trees: usize,
    /// Hints.
    pub hints: usize,
}

impl Lengths {
    /// What a zone has.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn of<G: Geometry>(zone: &ZoneConfig) -> Result<Lengths, InitError> {
        let Ground { children, .. } = Ground::of::<G>(zone)?;
        Ok(Lengths {
            rows: children * G::ROWS,
            states: children / G::SHARERS,
            flags: children.div_ceil(LANE),
            slots: Slots::words(zone.slots, zone.classes.count()),
            trees: children.div_ceil(G::TREE),
            hints: children,
        })
    }
}

impl<'a, G: Geometry> OneWrite<'a, G> {
    /// Makes an allocator from atomics. Their values mean nothing, except that [`Init::Recover`]
    /// reads the rows, their states and the flags.
    ///
    /// # Errors
    /// What is wrong with the configuration; [`InitError::Short`], which gives numbers of atomics instead of
    /// bytes, if there are too few atomics. After an error nothing has been written.
    pub fn from_parts(zone: &ZoneConfig, parts: Parts<'a>, init: Init) -> Result<Self, InitError> {
        let made = Self::over(zone, parts)?;
        made.start_anew(init);
        Ok(made)
    }

    /// An allocator over atomics; none is written.
    fn over(zone: &ZoneConfig, parts: Parts<'a>) -> Result<Self, InitError> {
        let lengths = Lengths::of::<G>(zone)?;
        Ok(OneWrite {
            zone: *zone,
            ground: Ground::of::<G>(zone)?,
            rows: cut(parts.rows, lengths.rows, Region::Durable)?,
            states: cut(parts.states, lengths.states, Region::Durable)?,
            flags: cut(parts.flags, lengths.flags, Region::Durable)?,
            trees: cut(parts.trees, lengths.trees, Region::Volatile)?,
            hints: cut(parts.hints, lengths.hints, Region::Volatile)?,
            slots: Slots::new(parts.slots, zone.slots, zone.classes.count())
                .ok_or_else(|| short(parts.slots, lengths.slots, Region::Volatile))?,
            geometry: PhantomData,
        })
    }
}

/// The first `needed` of some atomics.
fn cut<T>(atoms: &[T], needed: usize, region: Region) -> Result<&[T], InitError> {
    atoms.get(..needed).ok_or_else(|| short(atoms, needed, region))
}

const fn short<T>(atoms: &[T], needed: usize, region: Region) -> InitError {
    InitError::Short { region, needed, given: atoms.len() }
}
