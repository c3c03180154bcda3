//! What each domain was asked for, and gave: the counters of Linux's `numastat`.
//!
//! ```text
//!   a slot    of the nearest domain, from its first zone: one counter of its line
//!             all else: a line for each domain
//! ```
//!
//! Each slot has lines of its own, and counts by a load and a store. Counts are lost where two calls use one slot at the
//! same time. All counts are frames, and wrap around.

use core::ops::AddAssign;

use woodlot_frame::atomics::{AtomicU64, Ordering};

/// Frames that a domain gave, or did not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NumaStats {
    /// From this domain, and first asked of it.
    pub hit: u64,
    /// From this domain, since one that was to give first had none.
    pub miss: u64,
    /// From another domain, since this one, which was to give first, had none.
    pub foreign: u64,
    /// Of the hits, those of a policy that takes the domains in turn.
    pub interleave_hit: u64,
    /// From this domain, for a slot at home here.
    pub local_node: u64,
    /// From this domain, for a slot at home elsewhere.
    pub other_node: u64,
}

impl AddAssign for NumaStats {
    fn add_assign(&mut self, more: NumaStats) {
        let add = |sum: &mut u64, more: u64| *sum = sum.wrapping_add(more);
        add(&mut self.hit, more.hit);
        add(&mut self.miss, more.miss);
        add(&mut self.foreign, more.foreign);
        add(&mut self.interleave_hit, more.interleave_hit);
        add(&mut self.local_node, more.local_node);
        add(&mut self.other_node, more.other_node);
    }
}

/// A counter that one call at a time adds to.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline(always)]
    pub(crate) fn add(&self, frames: usize) {
        let sum = self.0.load(Ordering::Relaxed).wrapping_add(frames as u64);
        self.0.store(sum, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one slot counts of one domain, in a cache line.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Tally {
    pub(crate) hit: Counter,
    pub(crate) miss: Counter,
    pub(crate) foreign: Counter,
    pub(crate) interleave_hit: Counter,
    pub(crate) local_node: Counter,
    pub(crate) other_node: Counter,
}

#[cfg(not(woodlot_shuttle))]
const _: () = assert!(size_of::<Tally>() == 64);

impl Tally {
    pub(crate) fn get(&self) -> NumaStats {
        NumaStats {
            hit: self.hit.get(),
            miss: self.miss.get(),
            foreign: self.foreign.get(),
            interleave_hit: self.interleave_hit.get(),
            local_node: self.local_node.get(),
            other_node: self.other_node.get(),
        }
    }
}
