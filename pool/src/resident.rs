//! Which units are resident.

use std::ops::Deref;

use woodlot_frame::atomics::{AtomicU64, Ordering};

/// A bit for each unit. How many are set is counted, not kept: a count could disagree with the bits after a death.
pub(crate) enum Resident {
    /// Of a pool that one process has.
    Own(Box<[AtomicU64]>),
    /// In the memory that processes share, for as long as the pool lives.
    Shared(&'static [AtomicU64]),
}

impl Resident {
    /// None of so many units.
    pub(crate) fn none(units: usize) -> Resident {
        Resident::Own((0..units.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline]
    pub(crate) fn has(&self, unit: usize) -> bool {
        let word = self.get(unit / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (unit % 64) & 1 == 1)
    }

    pub(crate) fn insert(&self, unit: usize) {
        self[unit / 64].fetch_or(1 << (unit % 64), Ordering::Relaxed);
    }

    /// Was it there?
    pub(crate) fn remove(&self, unit: usize) -> bool {
        let bit = 1 << (unit % 64);
        self[unit / 64].fetch_and(!bit, Ordering::Relaxed) & bit != 0
    }

    pub(crate) fn count(&self) -> usize {
        count(self)
    }
}

/// How many bits are set.
pub(crate) fn count(words: &[AtomicU64]) -> usize {
    words.iter().map(|word| word.load(Ordering::Relaxed).count_ones() as usize).sum()
}

impl Deref for Resident {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        match self {
            Resident::Own(words) => words,
            Resident::Shared(words) => words,
        }
    }
}
