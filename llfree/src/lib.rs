//! LLFree: a lock- and log-free page-frame allocator that keeps huge frames whole.
//!
//! After *LLFree: Scalable and Optionally-Persistent Page-Frame Allocation* (Wrenger et al.,
//! USENIX ATC 2023, sections 3 and 4.2.1 and figure 14).
//!
//! ```text
//!   slots   ┌ reservation: tree 7, child 3, credits ┐ …      per CPU and class
//!           └──────────────┬────────────────────────┘
//!   index   trees by class and level of use  ┊  hints        per 64 trees
//!           ───────────────┼──────────────────────────
//!   trees   │ class, reserved, which children have credits │ … per 32 huge frames
//!   ═══════════════════════╪══════════════════════════ upper level above, lower level below ═══
//!   children│ credits │ …                                    per huge frame
//!   states  │ free, whole, split; polarity │ × 16 …          per huge frame
//!   rows    │ 64 frames │ × 8 …                              per base frame
//! ```
//!
//! The *lower level* hands out memory: bits stand for base frames, states for huge frames. Only bits and
//! states survive a crash. The *upper level* decides where a block is taken from, so that CPUs keep apart
//! and huge frames stay whole. Every start computes the upper level and the counters of the children anew.
//!
//! A **credit** is the right to take one free base frame of a child that is split. A huge frame that is
//! free as a whole is taken by its state alone. An allocation takes credits before it touches a bit. A free
//! gives credits back after it has released the bit. So a counter never promises what is not there. The
//! trees and the index only follow.
//!
//! # Progress
//! Lock-free throughout: a swap fails only because another call succeeded, and every search is bounded. A
//! call that stops half-way hides at most what it holds: the block that it was taking or giving, and the
//! credits of one child. An allocation that would fail looks at every tree first, whatever reservations and
//! the index say of the tree.
//!
//! # Crash
//! See [`Init::Recover`](woodlot_frame::Init::Recover). Exactly what the bits and the states say survives.
//! A call that was under way has either happened or not, except for orders 7 to H-1, which change several
//! words. What it takes until a write survives is the type parameter [`Persistence`]. With
//! [`Intents`](woodlot_frame::Intents) a record of each slot names what is in doubt, and every call has
//! happened or not, but for one write that is named ([`LLFree::last_operations`]). A batch that a record has no room
//! for ([`LLFree::batch_room`]) is refused.
#![no_std]
#![deny(missing_docs)]
#![cfg_attr(coverage_nightly, feature(coverage_attribute))]

mod allocate;
mod batch;
mod children;
mod exact;
mod flags;
mod free;
mod hidden;
mod index;
mod init;
mod intents;
mod isolate;
mod line;
mod lower;
#[cfg(all(test, any(woodlot_loom, woodlot_explore)))]
mod models;
mod news;
mod part;
mod pockets;
#[cfg(not(any(woodlot_loom, woodlot_shuttle, woodlot_explore)))]
mod raw;
mod reclaim;
mod record;
#[cfg(not(any(woodlot_loom, woodlot_shuttle, woodlot_explore)))]
mod recovery;
mod refusal;
mod repairs;
mod reservation;
mod resolve;
mod row;
mod rows;
mod state;
mod stats;
mod tree;
mod tuning;
mod upper;

pub use hidden::Hidden;
pub use init::Parts;
pub use intents::{LastOperation, NamedFrames};
pub use line::Line;
pub use lower::TreeStates;
pub use news::News;
pub use record::{End, Operation, RecordLine};
#[cfg(not(any(woodlot_loom, woodlot_shuttle, woodlot_explore)))]
pub use recovery::{
    DURABLE_VERSION, HugeUse, HugeView, Recovery, SlotView, VOLATILE_VERSION, View,
};
pub use repairs::Repairs;
pub use tuning::Tuning;

/// The example of this crate's README, compiled and run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use core::marker::PhantomData;
use woodlot_frame::atomics::AtomicU64;
use woodlot_frame::{FrameId, Geometry, MAX_CLASSES, Order, Persistence, Volatile, ZoneConfig};

use init::SLOT_WORDS;

/// An LLFree allocator for one zone.
///
/// Made by [`Construct::construct`](woodlot_frame::Construct::construct) from raw memory or by
/// [`from_parts`](Self::from_parts) from words; used through
/// [`FrameAllocator`](woodlot_frame::FrameAllocator).
///
/// `P` says how writes to the durable part become persistent. With [`Volatile`] nothing is written back;
/// [`with_persistence`](Self::with_persistence) takes another model. Where the processor cannot do what the model
/// needs, `construct` refuses with [`InitError::Unsupported`](woodlot_frame::InitError::Unsupported).
pub struct LLFree<'a, G: Geometry, P = Volatile> {
    zone: ZoneConfig,
    tuning: Tuning,
    /// The frame that the metadata begins with: the zone's first, rounded down to a pair of huge
    /// frames.
    base: usize,
    lower: lower::Lower<'a, G, P>,
    trees: &'a [Line<AtomicU64>],
    index: index::Index<'a, G>,
    /// For each class, where the index has the trees that it may fill up.
    filled: [index::Places; MAX_CLASSES],
    /// How many trees the slots begin apart that ask for huge frames.
    home_distance: usize,
    slots: &'a [[AtomicU64; SLOT_WORDS]],
    totals: &'a [AtomicU64],
    /// The records of the slots, of so many lines each.
    records: &'a [record::RecordLine],
    record_lines: usize,
    geometry: PhantomData<G>,
}

impl<G: Geometry, P: Persistence> LLFree<'_, G, P> {
    /// Where a frame of the zone lies: the index of its huge frame, and its offset in it.
    #[inline]
    fn locate(&self, frame: FrameId) -> (usize, usize) {
        let index = frame.0 - self.base;
        (index >> G::HUGE_ORDER, index & (G::HUGE_FRAMES - 1))
    }

    /// The frame at an offset in a huge frame.
    #[inline]
    fn frame(&self, huge: usize, offset: usize) -> FrameId {
        FrameId(self.base + (huge << G::HUGE_ORDER | offset))
    }

    /// Is this an order of the geometry?
    #[inline]
    fn is_order(order: Order) -> bool {
        (order.0 as u32) <= G::MAX_ORDER
    }
}
