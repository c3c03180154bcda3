//! The two forms: how many levels of the tree a word holds.
//!
//! ```text
//!   OneLevel      a byte: one node                                       a climb writes every level
//!
//!   FourLevels    a word of 64 bits:                  a                  derived from its fields
//!                                             b               c          derived
//!                                         d       e       f       g      derived
//!                                       │ 0 │ 1 │ 2 │ 3 │ 4 │ 5 │ 6 │ 7 │ one field each
//!                                                                        a climb writes every fourth
//! ```
//!
//! A *cell* is one such byte or word. Everything else is the same for both: the fields
//! (`field.rs`), the shape (`shape.rs`), climbs and releases (`climb.rs`).
//!
//! The derived nodes of a four-level cell follow from the fields below them. A derived node is free if
//! those fields are all zero, a block or a part of one if they are occupied, and in use in part otherwise.
//! To allocate a derived node is to occupy all of these fields in one atomic write, each with the size of
//! the block.
//!
//! # Memory ordering
//! Every access to a cell, to the byte of a root (`spent.rs`) and to what a slot has put off
//! (`deferred.rs`) is sequentially consistent, except while the zone is made. Hints and counts are relaxed,
//! because nothing follows from them. So every execution of the protocol is an interleaving of its
//! accesses: the C++ memory model promises that to programs that use nothing else. What the exhaustive
//! explorer shows therefore holds on every machine.
//!
//! The protocol needs this order. A climb writes one cell and then *reads* the next. A release writes that
//! next cell and then reads the first (`climb.rs`, invariant 3). On x86 such a load is an ordinary load,
//! and a swap is a swap in any case. On Arm they are `ldar` and `casal`.
//!
//! loom takes sequentially consistent loads for acquire loads, and would see stale values that no machine
//! shows. Under loom a load is therefore an addition of zero, which reads the newest value, as every
//! read-modify-write does.

use woodlot_frame::atomics::{
    AtomicU8, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

pub(crate) mod sealed {
    pub trait Sealed {}
    impl Sealed for super::OneLevel {}
    impl Sealed for super::FourLevels {}
}

/// One of the two forms.
pub trait Form: sealed::Sealed + Copy + Send + Sync + 'static {
    /// A cell in memory.
    type Atom: Send + Sync;
    /// The engine's name in this form.
    const NAME: &'static str;
    /// How many levels of the tree a cell holds.
    const LEVELS: u32;
    /// log2 of the fields in a cell.
    const LOG: u32 = Self::LEVELS - 1;

    #[doc(hidden)]
    fn load(atom: &Self::Atom) -> u64;

    /// Writes `to` if the cell holds `from`.
    #[doc(hidden)]
    fn swap(atom: &Self::Atom, from: u64, to: u64) -> Result<(), u64>;

    /// Writes. The caller has the cell alone, because the zone is just being made.
    #[doc(hidden)]
    fn store(atom: &Self::Atom, value: u64);
}

/// One node a byte: two bytes for each base frame.
#[derive(Clone, Copy, Debug)]
pub struct OneLevel;

/// Four levels a word: little more than one byte for each base frame.
#[derive(Clone, Copy, Debug)]
pub struct FourLevels;

macro_rules! form {
    ($form:ident, $atom:ident, $int:ty, $levels:literal, $name:literal) => {
        impl Form for $form {
            type Atom = $atom;
            const NAME: &'static str = $name;
            const LEVELS: u32 = $levels;

            #[inline(always)]
            fn load(atom: &$atom) -> u64 {
                #[cfg(not(woodlot_loom))]
                let value = atom.load(SeqCst);
                #[cfg(woodlot_loom)]
                let value = atom.fetch_add(0, SeqCst);
                u64::from(value)
            }

            #[inline(always)]
            fn swap(atom: &$atom, from: u64, to: u64) -> Result<(), u64> {
                let swapped = atom.compare_exchange(from as $int, to as $int, SeqCst, SeqCst);
                swapped.map(|_| ()).map_err(u64::from)
            }

            fn store(atom: &$atom, value: u64) {
                atom.store(value as $int, Relaxed);
            }
        }
    };
}

form!(OneLevel, AtomicU8, u8, 1, "nbbs");
form!(FourLevels, AtomicU64, u64, 4, "nbbs-4level");
