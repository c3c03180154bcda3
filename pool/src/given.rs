//! Sets of units.

use std::ops::Range;

/// A set of units: those that are offline, because the pool has more units than its cap allows.
pub(crate) struct Given {
    words: Vec<u64>,
}

impl Given {
    /// Of `units` units, these are given.
    pub(crate) fn new(units: usize, given: Range<usize>) -> Given {
        let mut new = Given { words: vec![0; units.div_ceil(64)] };
        new.insert(given);
        new
    }

    pub(crate) fn has(&self, unit: usize) -> bool {
        self.words.get(unit / 64).is_some_and(|word| word >> (unit % 64) & 1 == 1)
    }

    pub(crate) fn insert(&mut self, units: Range<usize>) {
        units.for_each(|unit| self.words[unit / 64] |= 1 << (unit % 64));
    }

    pub(crate) fn remove(&mut self, units: Range<usize>) {
        units.for_each(|unit| self.words[unit / 64] &= !(1 << (unit % 64)));
    }

    /// How many of `units` are given back.
    pub(crate) fn count(&self, units: Range<usize>) -> usize {
        units.filter(|&unit| self.has(unit)).count()
    }

    /// Those of `units` that are given back, in runs.
    pub(crate) fn runs(&self, units: Range<usize>) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for unit in units.filter(|&unit| self.has(unit)) {
            match runs.last_mut() {
                Some(run) if run.end == unit => run.end += 1,
                _ => runs.push(unit..unit + 1),
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_and_given() {
        let mut given = Given::new(130, 1..130);
        assert!(!given.has(0) && given.has(129) && !given.has(130) && !given.has(1000));
        given.remove(0..70);
        assert_eq!(given.count(0..1000), 60);
        given.insert(3..5);
        assert_eq!(given.runs(4..80), [4..5, 70..80]);
        given.remove(0..130);
        assert_eq!(given.runs(0..1000), []);
    }
}
