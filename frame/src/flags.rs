//! The flags word: what is known of the memory behind some huge frames, as engines keep it.
//!
//! ```text
//!   64 bits in lanes of LANE; bit i of the lower two is for huge frame i of the word
//!   ┌───────── ─ ─┬──────────┬─────────────┐
//!   │ 0           │ zeroed   │ reclaimed   │
//!   └───────── ─ ─┴──────────┴─────────────┘
//! ```

use crate::{HugeFlags, Prefer};

/// The flags of `LANE` huge frames, at most 32. A set of huge frames of the word has a bit for each, in the lowest lane.
///
/// Whoever changes flags changes the whole word by one read-modify-write, because its neighbours have other owners.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlagsWord<const LANE: u32>(pub u64);

impl<const LANE: u32> FlagsWord<LANE> {
    /// Every huge frame of a word.
    pub const EVERY: u64 = {
        assert!(LANE <= 32, "a word has two lanes at least");
        (1 << LANE) - 1
    };

    /// Of a set: is any of it reclaimed, and is all of it zeroed?
    pub const fn of(self, set: u64) -> HugeFlags {
        HugeFlags { reclaimed: self.0 & set != 0, zeroed: self.zeroed() & set == set }
    }

    /// With these flags of every one of a set.
    #[must_use]
    pub const fn with(self, set: u64, flags: HugeFlags) -> Self {
        let reclaimed = if flags.reclaimed { set } else { 0 };
        let zeroed = if flags.zeroed { set << LANE } else { 0 };
        FlagsWord(self.0 & !Self::both(set) | reclaimed | zeroed)
    }

    /// Both flags of a set.
    const fn both(set: u64) -> u64 {
        set | set << LANE
    }

    /// Is one of a set zeroed?
    #[inline(always)]
    pub const fn has_zeroed(self, set: u64) -> bool {
        self.0 & set << LANE != 0
    }

    /// The mask that leaves every flag but *zeroed* of a set.
    #[inline(always)]
    pub const fn but_zeroed(set: u64) -> u64 {
        !(set << LANE)
    }

    /// The mask that leaves every flag but *reclaimed* of a set.
    pub const fn but_reclaimed(set: u64) -> u64 {
        !set
    }

    /// Those that are reclaimed.
    pub const fn reclaimed(self) -> u64 {
        self.0 & Self::EVERY
    }

    /// Those that are zeroed.
    pub const fn zeroed(self) -> u64 {
        self.0 >> LANE & Self::EVERY
    }

    /// Those that an allocation takes first.
    pub const fn preferred(self, prefer: Prefer) -> u64 {
        let zeroed = match prefer {
            Prefer::Backed => Self::EVERY,
            Prefer::Zeroed => self.zeroed(),
        };
        zeroed & !self.reclaimed()
    }

    /// With nothing but the flags that outlive a crash, of huge frames that exist. What was owned may have been written to.
    #[must_use]
    pub const fn recovered(self, existing: u64) -> Self {
        FlagsWord(self.0 & existing)
    }

    /// Does it say something that no caller has written?
    pub const fn is_damaged(self, existing: u64) -> bool {
        self.0 & !Self::both(existing) != 0
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;

    type Word = FlagsWord<16>;

    const BOTH: HugeFlags = HugeFlags { reclaimed: true, zeroed: true };

    fn flags_touch_those_of_no_other<const LANE: u32>() {
        let all = [HugeFlags::BACKED, HugeFlags::RECLAIMED, HugeFlags::ZEROED, BOTH];
        let (whole, one, other) = (FlagsWord::<LANE>::EVERY, 1 << (LANE - 1), 1 << 6);
        for (background, flags) in all.into_iter().flat_map(|a| all.map(|b| (a, b))) {
            let word = FlagsWord::<LANE>(0).with(whole, background).with(one, flags);
            assert_eq!((word.of(one), word.of(other)), (flags, background));
            assert_eq!(word.with(one, background), FlagsWord(0).with(whole, background));
            assert_eq!(word.has_zeroed(one), flags.zeroed);
            let unzeroed = FlagsWord::<LANE>(word.0 & FlagsWord::<LANE>::but_zeroed(one));
            assert_eq!(unzeroed.of(one), HugeFlags { zeroed: false, ..flags });
            let backed = FlagsWord::<LANE>(word.0 & FlagsWord::<LANE>::but_reclaimed(one));
            assert_eq!(backed.of(one), HugeFlags { reclaimed: false, ..flags });
            assert_eq!([unzeroed, backed].map(|word| word.of(other)), [background; 2]);
        }
    }

    #[test]
    fn flags_touch_those_of_no_other_huge_frame() {
        flags_touch_those_of_no_other::<16>();
        flags_touch_those_of_no_other::<32>();
    }

    #[test]
    fn several_are_reclaimed_if_one_is_and_zeroed_if_all_are() {
        let (pair, half) = (0b1100, 0b0100);
        for flags in [HugeFlags::RECLAIMED, HugeFlags::ZEROED, BOTH] {
            let word = Word::with(FlagsWord(0), half, flags);
            assert_eq!(word.of(pair), HugeFlags { zeroed: false, ..flags });
            assert_eq!(word.has_zeroed(pair), flags.zeroed);
            assert_eq!(word.of(half).together_with(word.of(pair & !half)), word.of(pair));
        }
        assert_eq!(Word::with(FlagsWord(0), pair, BOTH).of(pair), BOTH);
    }

    #[test]
    fn what_is_preferred() {
        let word = Word::with(FlagsWord(0), 0b0010, HugeFlags::RECLAIMED);
        let word = word.with(0b0100, HugeFlags::ZEROED).with(0b1000, BOTH);
        assert_eq!(word.preferred(Prefer::Backed), 0xffff & !0b1010);
        assert_eq!(word.preferred(Prefer::Zeroed), 0b0100);
        assert_eq!((word.reclaimed(), word.zeroed()), (0b1010, 0b1100));
    }

    #[test]
    fn only_that_memory_is_gone_outlives_a_crash() {
        let (existing, gone) = (0b1111, 0b1_0000);
        let word = Word::with(FlagsWord(0), 0b0110, BOTH);
        assert_eq!(word.recovered(existing), FlagsWord(0b0110));
        assert!(!word.is_damaged(existing));
        for damage in [word.with(gone, HugeFlags::RECLAIMED), word.with(gone, HugeFlags::ZEROED)] {
            assert!(damage.is_damaged(existing));
            assert_eq!(damage.recovered(existing), FlagsWord(0b0110));
        }
        assert!(FlagsWord::<16>(1 << 32).is_damaged(0xffff));
    }
}
