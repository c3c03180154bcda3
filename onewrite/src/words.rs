//! Access to the words that calls share.
//!
//! Every access to a row, to states, flags, a hint or a tree is sequentially consistent, except while the zone is made. So is every
//! access to the zone's words that say of which orders there is nothing, and how many children are isolated. The other words of slots
//! are relaxed: where a slot allocates, and its count, decide nothing. So every execution is an interleaving of the accesses, and what
//! the explorer shows holds on every machine. The hints need it: who frees changes the bits and then *loads* the hint,
//! who sets the hint then *loads* the bits. On x86-64 such a load is an ordinary load.
//!
//! loom takes sequentially consistent loads for acquire loads, and would see stale values that no machine shows. Under
//! loom a load is therefore an addition of zero, which reads the newest value.

use woodlot_frame::atomics::{AtomicU16, AtomicU64, Ordering::SeqCst};
use woodlot_frame::{Class, FlagsWord};

/// Where a tree's word says of which classes its children are.
pub(crate) const CLASSES: u32 = 16;

/// What a tree's word says of a child of this class.
pub(crate) const fn of_class(class: Class) -> u64 {
    1 << (CLASSES + class.0 as u32)
}

/// Huge frames of a word of flags.
pub(crate) const LANE: usize = 32;

/// A word of flags. In a set of huge frames the lowest bit stands for the first of the word.
pub(crate) type Flags = FlagsWord<{ LANE as u32 }>;

/// A child as a set of its word of flags.
#[inline(always)]
pub(crate) const fn one(child: usize) -> u64 {
    1 << (child % LANE)
}

macro_rules! access {
    ($($load:ident, $atomic:ident, $int:ty;)*) => { $(
        #[inline(always)]
        pub(crate) fn $load(word: Option<&$atomic>) -> $int {
            #[cfg(not(woodlot_loom))]
            let value = word.map_or(0, |word| word.load(SeqCst));
            #[cfg(woodlot_loom)]
            let value = word.map_or(0, |word| word.fetch_add(0, SeqCst));
            value
        }
    )* };
}

access! {
    load, AtomicU64, u64;
    load_hint, AtomicU16, u16;
}

/// Writes `to` if the word holds `from`.
#[inline(always)]
pub(crate) fn swap(word: &AtomicU64, from: u64, to: u64) -> Result<(), u64> {
    word.compare_exchange(from, to, SeqCst, SeqCst).map(drop)
}
