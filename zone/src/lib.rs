//! Zones that survive: an LLFree allocator in memory that outlives its owner, behind a page that says what lies there.
//!
//! After *LLFree: Scalable and Optionally-Persistent Page-Frame Allocation* (Wrenger et al., USENIX ATC 2023),
//! sections 3.2.3 and 5.7.
//!
//! ```text
//!   0           4096
//!   │ zone page │ rows, states │ totals, slots, index, trees, children │
//!   │ what      │ durable      │ volatile: computed anew by a recovery │
//! ```
//!
//! The memory is whatever the caller maps: persistent memory, a file, memory that processes share. No word of it is
//! a pointer, so each process may map it elsewhere. All words are little-endian.
//!
//! | | |
//! |---|---|
//! | [`Zone::format`] | makes a zone |
//! | [`Zone::open`] | opens a zone that nobody uses: as it was closed, or recovered, with a [report](Repairs) |
//! | [`Opening`] | the same by several threads |
//! | [`Zone::attach`] | joins who uses a zone |
//! | [`Zone::sync`], [`Zone::close`] | make it durable, end its use |
//! | [`Info::read`], [`verify`], [`view`] | look at it without changing it |
//! | [`Owners`], [`Tagged`] | who owns which frames of a shared zone, and what the dead have left |
//! | [`Intents`] | the last operation of each slot is named, so that what a death or crash leaves in doubt is known: see [`LLFree::last_operation`](woodlot_llfree::LLFree::last_operation) |
//!
//! Whether a medium loses what was written is its [`Medium`]'s to say. On [`Shared`] and [`Eadr`] memory nothing is
//! lost, and on [`Adr`] memory nothing of a call that has returned; a [`File`] is durable up to its last
//! synchronisation.
//!
//! [`LLFree::last_operations`]: woodlot_llfree::LLFree::last_operations
//!
//! # Invariants
//! 1. The magic number is there only if the rest of the constant page is, and the durable part is set up.
//! 2. Every state but *closed* is recovered, whatever else the memory holds; a recovery accepts any bytes.
//! 3. *Closed* counts only with a seal of the same generation and with the volatile part's checksum.
#![no_std]
#![deny(missing_docs)]
#![cfg_attr(coverage_nightly, feature(coverage_attribute))]

#[cfg(target_endian = "big")]
compile_error!("the words of a zone are little-endian, and those of this machine are not");

mod checksum;
mod error;
mod field;
mod layout;
mod medium;
mod open;
mod owners;
mod page;
mod phase;
mod state;
mod verify;
mod zone;

pub use checksum::of_words as checksum;
pub use error::ZoneError;
pub use field::{Field, MAGIC};
pub use layout::{Layout, Memory, PAGE};
pub use medium::{Adr, Eadr, File, Intents, Medium, NotDurable, Persistence, Shared};
pub use open::{Cause, Check, Opened, Opening};
pub use owners::{Member, Owners, OwnersError, Sweeper, Swept, Tagged};
pub use page::{Info, erase};
pub use phase::Phase;
pub use verify::{Verdict, in_use, verify, view};
pub use woodlot_llfree::{
    End, Hidden, HugeUse, HugeView, LastOperation, NamedFrames, Operation, Repairs, SlotView, View,
};
pub use zone::{Closed, Zone};

/// The example of this crate's README, compiled and run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
