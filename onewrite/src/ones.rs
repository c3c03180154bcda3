//! Counting bits: what a recovery spends most of its time on.

use woodlot_frame::atomics::{AtomicU64, Ordering::Relaxed};

/// Counts the bits of words that are 1.
///
/// Eight words are added up place by place, in binary, to what came before, and only of the last carry the bits are counted
/// (Harley and Seal). A processor that counts the bits of a word by a dozen instructions, as x86-64 does without an extension, has half as much to do.
#[derive(Default)]
pub(crate) struct Ones {
    /// How many bits at each place are 1, in binary, from the lowest digit.
    digits: [u64; 3],
    /// All others.
    counted: usize,
}

impl Ones {
    /// Counts these words. Nobody writes to them meanwhile.
    #[inline(always)]
    pub(crate) fn add(&mut self, words: &[AtomicU64]) {
        let (eights, rest) = words.as_chunks();
        for words in eights {
            self.add_eight(words.each_ref().map(|word| word.load(Relaxed)));
        }
        let rest = rest.iter().map(|word| word.load(Relaxed).count_ones() as usize);
        self.counted += rest.sum::<usize>();
    }

    #[inline(always)]
    fn add_eight(&mut self, [a, b, c, d, e, f, g, h]: [u64; 8]) {
        // The sum of three bits at each place: its digit, and what it carries.
        let sum = |a: u64, b: u64, c: u64| (a ^ b ^ c, a & b | (a ^ b) & c);
        let [ones, twos, fours] = self.digits;
        let (ones, first) = sum(ones, a, b);
        let (ones, second) = sum(ones, c, d);
        let (twos, low) = sum(twos, first, second);
        let (ones, first) = sum(ones, e, f);
        let (ones, second) = sum(ones, g, h);
        let (twos, high) = sum(twos, first, second);
        let (fours, eights) = sum(fours, low, high);
        self.digits = [ones, twos, fours];
        self.counted += 8 * eights.count_ones() as usize;
    }

    /// How many there were.
    pub(crate) fn count(self) -> usize {
        let digits = self.digits.into_iter().zip(0..);
        self.counted + digits.map(|(digit, n)| (digit.count_ones() as usize) << n).sum::<usize>()
    }
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;

    #[test]
    fn every_bit_is_counted_once() {
        let mut seed = 1u64;
        for len in 0..60 {
            let words: [AtomicU64; 60] = core::array::from_fn(|n| {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                // From no bit to every one.
                AtomicU64::new(match n % 4 {
                    0 => seed,
                    1 => seed & seed >> 9,
                    2 => seed | seed >> 9,
                    _ => 0u64.wrapping_sub(seed & 1),
                })
            });
            let expected = words[..len].iter().map(|word| word.load(Relaxed).count_ones() as usize);
            let mut ones = Ones::default();
            // Two calls, of which the second goes on with the digits of the first.
            let (first, second) = words[..len].split_at(len / 3);
            [first, second].into_iter().for_each(|words| ones.add(words));
            assert_eq!(ones.count(), expected.sum::<usize>(), "{len} words");
        }
        let mut ones = Ones::default();
        (0..100).for_each(|_| ones.add(&[const { AtomicU64::new(!0) }; 8]));
        assert_eq!(ones.count(), 100 * 8 * 64);
    }
}
