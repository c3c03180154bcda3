//! The field of a node: five status bits, and what a block says of itself.
//!
//! ```text
//!   bit   7        6 5     4       3       2       1       0
//!       offline   size   right   right   left    left   occupied
//!                        coal.   occ.    coal.   occ.
//!                       └── branch 1 ──┘└── branch 0 ──┘
//! ```
//!
//! Bits 0 to 4 are the paper's (section II, figure 1). A field is eight bits wide in both forms, so
//! that the other three are there anyway; they hold nothing that an allocation waits for:
//!
//! * *size*: in the four-level form, log2 of the number of neighbouring fields that a block takes.
//!   It is in each of them, so that a free of another order than the allocation's is told apart.
//! * *offline*: the block is taken out ([`FrameAllocator::offline`]).
//!
//! # Legal values
//!
//! | field | says | written by |
//! |---|---|---|
//! | 0 | the node and all below it are free | whoever frees the last of it |
//! | occupied, size, maybe offline | the node is (part of) a block, or an allocation tries to make it one; what lies below means nothing | `Forest::take`, `Forest::mark`, recovery |
//! | branches | parts of what lies below are in use | climbs and releases |
//!
//! A field never has *occupied* and a branch at once. A branch is two bits, *occupied* and
//! *coalescent*:
//!
//! | occ. | coal. | name | says | next |
//! |---|---|---|---|---|
//! | 0 | 0 | *free* | nothing is in use below | climb → occupied |
//! | 1 | 0 | *occupied* | something below may be in use | release → coalescent |
//! | 1 | 1 | *coalescent* | one release looks whether all below is free | that release → free or occupied; a climb, another release → contested |
//! | 0 | 1 | *contested* | the same, and somebody came by meanwhile | that release → coalescent, and it looks again |
//!
//! The paper's allocation cleans the coalescent bit of a branch that it climbs through. Here it
//! cleans the branch's *occupied* bit and leaves *coalescent* alone, and so does a release that
//! finds the branch coalescent: then the mark stays with the one call that made it, which the proof
//! needs (`climb.rs`). In all other respects a contested branch is an occupied one.
//!
//! [`FrameAllocator::offline`]: woodlot_frame::FrameAllocator::offline

/// Bits of a field.
pub(crate) const BITS: u32 = 8;
/// The node is a block, or part of one.
pub(crate) const OCCUPIED: u64 = 1;
/// The block is offline.
pub(crate) const OFFLINE: u64 = 1 << 7;
/// Where a block's size begins.
const SIZE_SHIFT: u32 = 5;
const SIZE: u64 = 3 << SIZE_SHIFT;
/// A one in each field of a cell.
const EVERY: u64 = 0x0101_0101_0101_0101;

/// The bits of a branch.
const BRANCH: u64 = 0b11;
const BRANCH_OCCUPIED: u64 = 0b01;
const BRANCH_COALESCENT: u64 = 0b10;

const _: () = assert!(OCCUPIED | 0b1111 << 1 | SIZE | OFFLINE == 0xFF);

/// What a branch says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Free,
    Occupied,
    Coalescent,
    Contested,
}

impl State {
    const fn bits(self) -> u64 {
        match self {
            State::Free => 0,
            State::Occupied => BRANCH_OCCUPIED,
            State::Coalescent => BRANCH_OCCUPIED | BRANCH_COALESCENT,
            State::Contested => BRANCH_COALESCENT,
        }
    }
}

/// A branch of the value of a cell, by the position of its two bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Branch(u32);

impl Branch {
    /// Branch `side` (0: left, 1: right) of the field at this position.
    #[inline(always)]
    pub(crate) fn new(field: usize, side: usize) -> Self {
        Branch(field as u32 * BITS + 1 + 2 * side as u32)
    }

    #[inline(always)]
    pub(crate) fn state(self, value: u64) -> State {
        match value >> self.0 & BRANCH {
            0 => State::Free,
            BRANCH_OCCUPIED => State::Occupied,
            BRANCH_COALESCENT => State::Contested,
            _ => State::Coalescent,
        }
    }

    /// The value with this branch in another state.
    #[inline(always)]
    pub(crate) fn with(self, value: u64, state: State) -> u64 {
        value & !(BRANCH << self.0) | state.bits() << self.0
    }

    /// The field that the branch belongs to.
    #[inline(always)]
    pub(crate) fn field(self, value: u64) -> u64 {
        value >> (self.0 & !(BITS - 1)) & 0xFF
    }
}

/// Is this the field of a block?
#[inline(always)]
pub(crate) fn is_block(field: u64) -> bool {
    field & OCCUPIED != 0
}

/// How many levels above its lowest nodes a block lies.
#[inline(always)]
pub(crate) fn size(field: u64) -> u32 {
    ((field & SIZE) >> SIZE_SHIFT) as u32
}

/// The fields that a block takes, `size` levels above the lowest nodes, from field `first` on.
#[inline(always)]
pub(crate) fn mask(first: usize, size: u32) -> u64 {
    (u64::MAX >> (64 - (BITS << size))) << (first as u32 * BITS)
}

/// What such a block writes into its fields.
#[inline(always)]
pub(crate) fn pattern(first: usize, size: u32, flags: u64) -> u64 {
    let field = OCCUPIED | u64::from(size) << SIZE_SHIFT | flags;
    (EVERY * field) & mask(first, size)
}

/// The first of a cell's `1 << log` fields, from `from` on, at which a block of this size would
/// find all of its fields free.
#[inline(always)]
pub(crate) fn first_free(value: u64, from: usize, size: u32, log: u32) -> Option<usize> {
    if log == 0 {
        return (value == 0).then_some(0);
    }
    // The highest bit of each field that is not zero.
    let used = (((value & (EVERY * 0x7F)) + EVERY * 0x7F) | value) & (EVERY * 0x80);
    // Halves of a block are folded onto its first field: those at whose multiples it may begin.
    let (mut used, mut at) = (used >> 7, EVERY);
    if size > 0 {
        used |= used >> 8;
        at &= 0x0001_0001_0001_0001;
    }
    if size > 1 {
        used |= used >> 16;
        at &= 0x0000_0001_0000_0001;
    }
    if size > 2 {
        used |= used >> 32;
        at &= 1;
    }
    let free = !used & at & (u64::MAX << (from as u32 * BITS));
    (free != 0).then(|| (free.trailing_zeros() / BITS) as usize)
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;

    #[test]
    fn free_fields_are_found_as_naively() {
        let fields = [0u64, 0xE1, 1, 0x1E, 0x80, 0, 0, 0x61];
        for seed in 0..4096usize {
            let value = (0..8).fold(0, |value, at| {
                let field = if seed >> at & 1 == 0 { 0 } else { fields[(seed + at) % 8] };
                value | field << (at as u32 * BITS)
            });
            for size in 0..=3 {
                for from in 0..8 {
                    let naive = (from..8)
                        .filter(|at| at % (1 << size) == 0)
                        .find(|&at| value & mask(at, size) == 0);
                    assert_eq!(first_free(value, from, size, 3), naive, "{value:#x} {from} {size}");
                }
            }
        }
    }

    #[test]
    fn states_do_not_touch_what_is_beside_them() {
        let states = [State::Free, State::Occupied, State::Coalescent, State::Contested];
        for field in 0..8 {
            for side in 0..2 {
                let branch = Branch::new(field, side);
                for value in [0, u64::MAX, 0x0123_4567_89AB_CDEF] {
                    for state in states {
                        let next = branch.with(value, state);
                        assert_eq!(branch.state(next), state);
                        assert_eq!((next ^ value).count_ones() as usize, {
                            let changed = branch.state(value).bits() ^ state.bits();
                            changed.count_ones() as usize
                        });
                    }
                }
            }
        }
    }

    #[test]
    fn patterns_fill_their_fields() {
        for size in 0..=3 {
            for first in (0..8).step_by(1 << size) {
                let (mask, block) = (mask(first, size), pattern(first, size, OFFLINE));
                assert_eq!(mask.count_ones(), BITS << size);
                assert_eq!(block & !mask, 0);
                for at in first..first + (1 << size) {
                    let field = block >> (at as u32 * BITS) & 0xFF;
                    assert_eq!((is_block(field), self::size(field)), (true, size));
                }
            }
        }
    }
}
