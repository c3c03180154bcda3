//! Random numbers for choosing frames: small, fast, repeatable.

/// SplitMix64: any seed will do, and every one of them gives a sequence of its own.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not zero. Some are likelier than others by less than
    /// `bound` in 2^64.
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// Any order is as likely as any other.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// `count` different numbers below `bound`, in random order; all of them where there are not
    /// so many.
    pub fn distinct(&mut self, count: usize, bound: usize) -> Vec<usize> {
        if count >= bound / 2 {
            let mut all: Vec<usize> = (0..bound).collect();
            self.shuffle(&mut all);
            all.truncate(count);
            return all;
        }
        let mut taken = vec![0u64; bound.div_ceil(64)];
        let mut numbers = Vec::with_capacity(count);
        while numbers.len() < count {
            let number = self.below(bound);
            let (word, bit) = (number / 64, 1 << (number % 64));
            if taken[word] & bit == 0 {
                taken[word] |= bit;
                numbers.push(number);
            }
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_loses_nothing() {
        let mut items: Vec<usize> = (0..1000).collect();
        Random::new(7).shuffle(&mut items);
        assert_ne!(items[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        items.sort_unstable();
        assert!(items.iter().enumerate().all(|(i, &item)| i == item));
    }

    #[test]
    fn distinct_numbers_are_distinct_and_below_the_bound() {
        for (count, bound, expected) in [(10, 1000, 10), (600, 1000, 600), (5, 3, 3), (0, 9, 0)] {
            let mut numbers = Random::new(1).distinct(count, bound);
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), expected);
            assert!(numbers.iter().all(|&number| number < bound));
        }
    }
}
