//! A bit for each stack.
//!
//! A bit of those in use that a call sets is that call's: what else is known of the stack changes only by its owner's hand.
//! Setting acquires what clearing has released. So the other bits, which share words with those of other owners, need no
//! order of their own.

use core::ops::Range;

use woodlot_frame::atomics::{AtomicU64, Ordering};

/// As many bits as there are stacks.
pub(crate) struct Bits<'a>(pub(crate) &'a [AtomicU64]);

/// The word and the mask of a bit.
const fn place(bit: usize) -> (usize, u64) {
    (bit / 64, 1 << (bit % 64))
}

/// The words that some bits lie in, and which bits of each.
fn masks(Range { start, end }: Range<usize>) -> impl Iterator<Item = (usize, u64)> + Clone {
    let words = start / 64..end.div_ceil(64);
    words.filter(move |_| start < end).map(move |word| {
        let (from, to) = (start.max(word * 64), end.min(word * 64 + 64));
        (word, (u64::MAX >> (64 - (to - from))) << (from % 64))
    })
}

impl Bits<'_> {
    /// All are clear, but for those behind the first `count`.
    pub(crate) fn reset(&self, count: usize) {
        for (word, bits) in self.0.iter().enumerate() {
            let left = count.saturating_sub(word * 64);
            bits.store(if left < 64 { u64::MAX << left } else { 0 }, Ordering::Relaxed);
        }
    }

    pub(crate) fn has(&self, bit: usize) -> bool {
        let (word, mask) = place(bit);
        self.0.get(word).is_some_and(|word| word.load(Ordering::Relaxed) & mask != 0)
    }

    /// The caller owns the stack.
    pub(crate) fn insert(&self, bit: usize) {
        let (word, mask) = place(bit);
        self.0.get(word).into_iter().for_each(|word| {
            word.fetch_or(mask, Ordering::Relaxed);
        });
    }

    /// The caller owns the stack. Was it there?
    pub(crate) fn remove(&self, bit: usize) -> bool {
        let (word, mask) = place(bit);
        self.0.get(word).is_some_and(|word| word.fetch_and(!mask, Ordering::Relaxed) & mask != 0)
    }

    /// Sets the lowest bit that is clear, from a word on, and then from the first one on.
    pub(crate) fn take_first(&self, from: usize) -> Option<usize> {
        let words = (from..self.0.len()).chain(0..from.min(self.0.len()));
        words.filter_map(|word| Some((word, self.0.get(word)?))).find_map(|(number, word)| {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != u64::MAX {
                let free = bits.trailing_ones();
                bits = word.fetch_or(1 << free, Ordering::Acquire);
                if bits & 1 << free == 0 {
                    return Some(number * 64 + free as usize);
                }
            }
            None
        })
    }

    /// Sets bits, if all of them are clear.
    pub(crate) fn take_all(&self, bits: Range<usize>) -> bool {
        let refused = masks(bits.clone()).find(|&(word, mask)| {
            let taken = self.0.get(word).is_some_and(|word| {
                let take = |bits: u64| (bits & mask == 0).then_some(bits | mask);
                word.fetch_update(Ordering::Acquire, Ordering::Relaxed, take).is_ok()
            });
            !taken
        });
        if let Some((word, _)) = refused {
            self.give(bits.start..(word * 64).max(bits.start));
        }
        refused.is_none()
    }

    /// Clears bits that the caller has set: others may have what they stand for.
    pub(crate) fn give(&self, bits: Range<usize>) {
        for (word, mask) in masks(bits) {
            self.0.get(word).into_iter().for_each(|word| {
                word.fetch_and(!mask, Ordering::Release);
            });
        }
    }

    /// How many of the first `count` are set.
    pub(crate) fn count(&self, count: usize) -> usize {
        let set = |(word, mask): (usize, u64)| {
            self.0.get(word).map_or(0, |word| word.load(Ordering::Relaxed) & mask).count_ones()
        };
        masks(0..count).map(|place| set(place) as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> [AtomicU64; 3] {
        [const { AtomicU64::new(7) }; 3]
    }

    #[test]
    fn each_is_taken_once_from_the_hint_on() {
        let words = words();
        let bits = Bits(&words);
        bits.reset(130);
        assert_eq!(bits.take_first(1), Some(64));
        (65..130).for_each(|bit| assert_eq!(bits.take_first(1), Some(bit)));
        (0..64).for_each(|bit| assert_eq!(bits.take_first(2), Some(bit)));
        assert_eq!((bits.take_first(0), bits.take_first(9)), (None, None));
        assert_eq!(bits.count(130), 130);
        bits.give(77..78);
        assert_eq!(bits.take_first(2), Some(77));
    }

    #[test]
    fn all_or_none() {
        let words = words();
        let bits = Bits(&words);
        for taken in [60, 63, 64, 127, 128, 129] {
            bits.reset(192);
            bits.insert(taken);
            assert!(!bits.take_all(60..130), "{taken} is taken");
            assert_eq!(bits.count(192), 1, "{taken}: nothing else is");
            assert!(bits.remove(taken) && !bits.remove(taken));
            assert!(bits.take_all(60..130));
            assert_eq!(bits.count(192), 70);
            bits.give(60..130);
            assert_eq!(bits.count(192), 0);
        }
    }
}
