//! The flags word: what is known of the memory behind sixteen huge frames.
//!
//! ```text
//!   64 bits in four lanes of 16; bit i of the lower two is for huge frame i of the state word beside it
//!   ┌──────────┬──────────┬──────────┬─────────────┐
//!   │ 0        │ 0        │ zeroed   │ reclaimed   │
//!   └──────────┴──────────┴──────────┴─────────────┘
//! ```
//!
//! Invariants:
//!
//! 1. *reclaimed* is set only by a caller that has the huge frame for itself: offline, or allocated as a whole.
//!    It is cleared only by such a caller, or by one that owns a frame in it. A huge frame in which a frame is owned
//!    does not become free, so nobody sets the flag meanwhile.
//! 2. *zeroed* is set only by a caller that has the huge frame for itself. Whoever takes a huge frame out of *free* or
//!    splits it clears the flag before anybody else gets a frame of it. So of a free huge frame the flag is true.
//!
//! Every writer changes the whole word by one read-modify-write, because its neighbours have other owners. The word
//! lies in the cache line of the states: a swap that makes a huge frame free publishes the flags set before, and a
//! write-back of the state takes them along.

use crate::state::{LANE, Run};

/// What is known of the memory of a huge frame. That it is backed and may hold anything is the default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HugeFlags {
    /// Its memory was given away: nothing may be read or written before memory is put there again.
    pub reclaimed: bool,
    /// Every byte is zero; or will be, once memory is put there, if it is reclaimed as well.
    pub zeroed: bool,
}

impl HugeFlags {
    /// It has memory, which may hold anything.
    pub const BACKED: HugeFlags = HugeFlags { reclaimed: false, zeroed: false };
    /// Its memory was given away.
    pub const RECLAIMED: HugeFlags = HugeFlags { reclaimed: true, zeroed: false };
    /// It has memory, all of it zero.
    pub const ZEROED: HugeFlags = HugeFlags { reclaimed: false, zeroed: true };
}

/// Which free huge frames an allocation takes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prefer {
    /// Those that are not reclaimed.
    Backed,
    /// Those that are zeroed, and not reclaimed.
    Zeroed,
}

/// How many huge frames have a flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Flagged {
    /// Reclaimed, whatever they are: free, offline, or in use by somebody who has put no memory there.
    pub reclaimed: usize,
    /// Reclaimed, and free as a whole.
    pub free_reclaimed: usize,
    /// Zeroed, and free as a whole.
    pub free_zeroed: usize,
}

/// One flags word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flags(pub(crate) u64);

const ZEROED: u32 = LANE as u32;

impl Flags {
    /// Of a run: is any of it reclaimed, and is all of it zeroed?
    pub(crate) const fn of(self, run: Run) -> HugeFlags {
        HugeFlags {
            reclaimed: self.0 & run.bits() != 0,
            zeroed: self.0 >> ZEROED & run.bits() == run.bits(),
        }
    }

    /// With these flags of every one of a run.
    pub(crate) const fn with(self, run: Run, flags: HugeFlags) -> Flags {
        let reclaimed = if flags.reclaimed { run.bits() } else { 0 };
        let zeroed = if flags.zeroed { run.bits() << ZEROED } else { 0 };
        Flags(self.0 & !Self::all(run) | reclaimed | zeroed)
    }

    /// Both flags of a run.
    const fn all(run: Run) -> u64 {
        run.bits() | run.bits() << ZEROED
    }

    /// Is one of a run zeroed?
    #[inline(always)]
    pub(crate) const fn has_zeroed(self, run: Run) -> bool {
        self.0 & run.bits() << ZEROED != 0
    }

    /// The mask that leaves every flag but *zeroed* of a run.
    pub(crate) const fn but_zeroed(run: Run) -> u64 {
        !(run.bits() << ZEROED)
    }

    /// Those that are reclaimed.
    pub(crate) const fn reclaimed(self) -> Run {
        Run::of(self.0)
    }

    /// Those that are zeroed.
    pub(crate) const fn zeroed(self) -> Run {
        Run::of(self.0 >> ZEROED)
    }

    /// Those that an allocation takes first.
    pub(crate) const fn preferred(self, prefer: Prefer) -> Run {
        let zeroed = match prefer {
            Prefer::Backed => !0,
            Prefer::Zeroed => self.0 >> ZEROED,
        };
        Run::of(!self.0 & zeroed)
    }

    /// With nothing but the flags that outlive a crash, of huge frames that exist. What was owned may have been
    /// written to.
    pub(crate) const fn recovered(self, existing: Run) -> Flags {
        Flags(self.0 & existing.bits())
    }

    /// Does it say something that no caller has written?
    pub(crate) const fn is_damaged(self, existing: Run) -> bool {
        self.0 & !Self::all(existing) != 0
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;

    const BOTH: HugeFlags = HugeFlags { reclaimed: true, zeroed: true };

    #[test]
    fn flags_touch_those_of_no_other_huge_frame() {
        let all = [HugeFlags::BACKED, HugeFlags::RECLAIMED, HugeFlags::ZEROED, BOTH];
        for (background, flags) in all.into_iter().flat_map(|a| all.map(|b| (a, b))) {
            let (whole, one, other) = (Run::new(0, 16), Run::new(21, 1), Run::new(6, 1));
            let word = Flags(0).with(whole, background).with(one, flags);
            assert_eq!((word.of(one), word.of(other)), (flags, background));
            assert_eq!(word.with(one, background), Flags(0).with(whole, background));
            assert_eq!(word.has_zeroed(one), flags.zeroed);
            let cleared = Flags(word.0 & Flags::but_zeroed(one));
            assert_eq!(cleared.of(one), HugeFlags { zeroed: false, ..flags });
            assert_eq!(cleared.of(other), background);
        }
    }

    #[test]
    fn a_pair_is_reclaimed_if_one_is_and_zeroed_if_both_are() {
        let (pair, half) = (Run::new(2, 2), Run::new(2, 1));
        for flags in [HugeFlags::RECLAIMED, HugeFlags::ZEROED, BOTH] {
            let word = Flags(0).with(half, flags);
            assert_eq!(word.of(pair), HugeFlags { zeroed: false, ..flags });
            assert_eq!(word.has_zeroed(pair), flags.zeroed);
        }
        assert_eq!(Flags(0).with(pair, BOTH).of(pair), BOTH);
    }

    #[test]
    fn what_is_preferred() {
        let word = Flags(0).with(Run::new(1, 1), HugeFlags::RECLAIMED);
        let word = word.with(Run::new(2, 1), HugeFlags::ZEROED).with(Run::new(3, 1), BOTH);
        assert_eq!(word.preferred(Prefer::Backed).bits(), 0xffff & !0b1010);
        assert_eq!(word.preferred(Prefer::Zeroed).bits(), 0b0100);
        assert_eq!((word.reclaimed().bits(), word.zeroed().bits()), (0b1010, 0b1100));
    }

    #[test]
    fn only_that_memory_is_gone_outlives_a_crash() {
        let (existing, gone) = (Run::new(0, 4), Run::new(4, 1));
        let word = Flags(0).with(Run::new(1, 2), BOTH);
        assert_eq!(word.recovered(existing), Flags(0b0110));
        assert!(!word.is_damaged(existing));
        for damage in [word.with(gone, HugeFlags::RECLAIMED), word.with(gone, HugeFlags::ZEROED)] {
            assert!(damage.is_damaged(existing));
            assert_eq!(damage.recovered(existing), Flags(0b0110));
        }
        assert!(Flags(1 << 32).is_damaged(Run::new(0, 16)));
    }
}
