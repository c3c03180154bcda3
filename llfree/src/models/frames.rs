//! Blocks, sets of frames, and what an operation under way may have done to them.

use std::vec::Vec;

use super::std;

const WORDS: usize = 8;

/// A set of the first 512 frames of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Frames(pub(super) [u64; WORDS]);

/// An aligned block, by its first frame and its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Block(pub(super) usize, pub(super) u32);

/// What an operation under way may have done to the durable words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Doing {
    /// Allocates some block of this order.
    Taking(u32),
    /// Allocates this block.
    TakingAt(Block),
    /// Frees this block.
    Giving(Block),
}

impl Block {
    /// The block of `order` that this frame lies in.
    pub(super) fn around(frame: usize, order: u32) -> Block {
        Block(frame >> order << order, order)
    }

    pub(super) fn range(self) -> std::ops::Range<usize> {
        self.0..self.0 + (1 << self.1)
    }

    pub(super) fn frames(self) -> Frames {
        Frames::of(self.range())
    }
}

impl Frames {
    pub(super) fn of(frames: std::ops::Range<usize>) -> Frames {
        let mut all = Frames::default();
        frames.for_each(|frame| all.insert(frame));
        all
    }

    pub(super) fn insert(&mut self, frame: usize) {
        self.0[frame / 64] |= 1 << (frame % 64);
    }

    pub(super) fn has(&self, frame: usize) -> bool {
        self.0[frame / 64] >> (frame % 64) & 1 != 0
    }

    fn zip(self, other: Frames, f: impl Fn(u64, u64) -> u64) -> Frames {
        Frames(std::array::from_fn(|word| f(self.0[word], other.0[word])))
    }

    pub(super) fn and(self, other: Frames) -> Frames {
        self.zip(other, |a, b| a & b)
    }

    pub(super) fn or(self, other: Frames) -> Frames {
        self.zip(other, |a, b| a | b)
    }

    pub(super) fn but(self, other: Frames) -> Frames {
        self.zip(other, |a, b| a & !b)
    }

    pub(super) fn is_empty(self) -> bool {
        self == Frames::default()
    }

    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        (0..WORDS * 64).filter(move |&frame| self.has(frame))
    }

    /// Are these frames what the operations under way can have taken already, or not given yet: at
    /// most one block each? Of a block of several rows that is no huge frame (`torn`) any rows.
    pub(super) fn explained(
        self,
        doing: &mut Vec<Doing>,
        torn: impl Fn(u32) -> bool + Copy,
    ) -> bool {
        let Some(first) = self.iter().next() else {
            return true;
        };
        for index in 0..doing.len() {
            let block = match doing[index] {
                Doing::Taking(order) => Block::around(first, order),
                Doing::TakingAt(block) | Doing::Giving(block) => block,
            };
            let mut part = self.and(block.frames());
            if torn(block.1) {
                part.0.iter_mut().for_each(|row| *row = if *row == !0 { !0 } else { 0 });
            }
            if part.has(first) && (part == block.frames() || torn(block.1)) {
                let tried = doing.swap_remove(index);
                if self.but(part).explained(doing, torn) {
                    return true;
                }
                doing.push(tried);
                let last = doing.len() - 1;
                doing.swap(index, last);
            }
        }
        false
    }
}

impl std::fmt::Debug for Frames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
