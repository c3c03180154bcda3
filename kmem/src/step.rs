//! What a free looks at of a size: whether a block begins at the address, and how many blocks a list has.
//!
//! ```text
//!   63                                  8 7        0
//!   │ multiplier                          │ target  │        the word is 2^63 / bytes, and a little more
//! ```
//!
//! 1. Twice an offset of a slab times the word, modulo 2^64, is less than the word where one of its blocks begins, and
//!    nowhere else, whatever *target* is.
//! 2. The word of no size is 0, for which no offset is one of a block.
//!
//! The little more adds up from block to block. Behind the last one it is more than the word, so that what is left of a slab
//! there is no block either; and less than twice the word, by which the products of two neighbouring bytes differ.
//!
//! A remainder by multiplication: Granlund and Montgomery (1994); Lemire, Kaser and Kurz (2019).

/// The word.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Step(u64);

const TARGET_BITS: u32 = 8;
const TARGET: u64 = (1 << TARGET_BITS) - 1;

impl Step {
    /// That of no size.
    pub(crate) const NONE: Step = Step(0);

    /// That of slabs which have so many blocks of so many bytes. A list has `target` of them.
    pub(crate) const fn new(bytes: usize, blocks: usize, target: usize) -> Step {
        assert!(target as u64 <= TARGET);
        let (bytes, blocks) = (bytes as u128, blocks as u128);
        // So much more that it adds up to the word in a quarter of a block less than there are.
        let exact = (1 << 63) / bytes;
        let multiplier = exact + 2 * exact / (bytes * (4 * blocks - 1));
        Step(multiplier as u64 & !TARGET | target as u64)
    }

    /// The word itself: for those who look by code of their own.
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The target.
    #[inline(always)]
    pub(crate) const fn target(self) -> usize {
        (self.0 & TARGET) as usize
    }

    /// Does a block begin at this offset of its slab?
    #[inline(always)]
    pub(crate) const fn is_block(self, offset: usize) -> bool {
        (2 * offset as u64).wrapping_mul(self.0) < self.0
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use crate::size::{PAGE, Size};

    /// Of slabs of any size that one could be made of, and whatever the target.
    #[test]
    fn blocks_begin_where_they_do() {
        let bytes = (16..=1024).step_by(16).chain((1024..=32 << 10).step_by(512));
        for size in bytes.map(Size::new) {
            for target in [0, 1, size.target, 255] {
                let step = Step::new(size.bytes, size.blocks, target);
                assert_eq!(step.target(), target);
                for offset in 0..size.pages() * PAGE {
                    let begins = offset % size.bytes == 0 && offset / size.bytes < size.blocks;
                    assert_eq!(step.is_block(offset), begins, "{size:?} {offset}");
                }
            }
        }
        assert!(!(0..PAGE).any(|offset| Step::NONE.is_block(offset)));
    }
}
