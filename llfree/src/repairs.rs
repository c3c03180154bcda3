//! What a recovery finds, and what it repairs.

/// What a recovery found in the durable part, and what it changed there.
///
/// A zone whose slots were drained and in which no call was under way needs no repair but the joins. A recovery
/// that follows another one finds nothing to repair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Repairs {
    /// Trees that were looked at.
    pub trees: usize,
    /// Frames that are free, after the recovery.
    pub free_frames: usize,
    /// Huge frames that are free as a whole, after the recovery.
    pub free_huge: usize,
    /// Huge frames that are offline.
    pub offline_huge: usize,
    /// Huge frames that were split although all of their frames were free: they became free as a whole. A free
    /// that was under way leaves one, and so do frames that a slot kept for its next allocations.
    pub closed: usize,
    /// Huge frames that were not split, and some of whose rows had not the free value: they have it now. No
    /// crash leaves one while every write arrives as a whole; damage does.
    pub rows_reset: usize,
    /// Huge frames that the zone cuts off and that were not split: they became split.
    pub cut_open: usize,
    /// Frames outside of the zone that were free: they became allocated.
    pub outside: usize,
    /// Words of states or flags that stood for huge frames that do not exist, or said what no call writes.
    pub states_cleared: usize,
    /// State words whose number of joins became zero. Every free of a split huge frame as a whole counts it up,
    /// so this is no damage.
    pub joins_cleared: usize,
    /// Calls of several writes that were cut off: see [`Intents`](woodlot_frame::Intents).
    pub cut_off: usize,
    /// Frames that such allocations had taken, and such frees were still to free: they became free.
    pub released: usize,
}

impl Repairs {
    /// Did no call stop half-way, and is nothing damaged? Joins are no matter.
    pub fn is_nothing(&self) -> bool {
        let damage = [self.rows_reset, self.cut_open, self.outside, self.states_cleared];
        damage == [0; 4] && [self.closed, self.cut_off] == [0; 2]
    }

    /// The two together.
    #[must_use]
    pub fn and(self, other: Repairs) -> Repairs {
        let (mut sum, other) = (self.counts(), other.counts());
        sum.iter_mut().zip(other).for_each(|(sum, other)| *sum = sum.saturating_add(other));
        Repairs::of(sum)
    }

    /// Every count, in the order of the fields.
    pub(crate) const fn counts(self) -> [usize; COUNTS] {
        [
            self.trees,
            self.free_frames,
            self.free_huge,
            self.offline_huge,
            self.closed,
            self.rows_reset,
            self.cut_open,
            self.outside,
            self.states_cleared,
            self.joins_cleared,
            self.cut_off,
            self.released,
        ]
    }

    pub(crate) const fn of(counts: [usize; COUNTS]) -> Repairs {
        let [trees, free_frames, free_huge, offline_huge, closed, ..] = counts;
        let [.., rows_reset, cut_open, outside, states_cleared, _, _, _] = counts;
        let [.., joins_cleared, cut_off, released] = counts;
        Repairs {
            trees,
            free_frames,
            free_huge,
            offline_huge,
            closed,
            rows_reset,
            cut_open,
            outside,
            states_cleared,
            joins_cleared,
            cut_off,
            released,
        }
    }
}

/// How many counts there are.
pub(crate) const COUNTS: usize = 12;

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;

    #[test]
    fn counts_keep_their_places() {
        let counts = core::array::from_fn(|at| at + 1);
        assert_eq!(Repairs::of(counts).counts(), counts);
        assert_eq!(Repairs::of(counts).and(Repairs::of(counts)).counts(), counts.map(|n| n * 2));
        assert!(!Repairs::of(counts).is_nothing());
        assert!(Repairs { joins_cleared: 1, trees: 1, ..Repairs::default() }.is_nothing());
    }
}
