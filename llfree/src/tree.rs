//! The tree entry: what the upper level knows about 32 huge frames (LLFree section 3.2.2).
//!
//! ```text
//!   64 bits, in a cache line of its own
//!   ┌──────────────┬────────────┬───┬──────────┬──────────────────────┐
//!   │ quarters, 16 │ 0 (47–36)  │ r │ class, 3 │ children, 32         │
//!   └──────────────┴────────────┴───┴──────────┴──────────────────────┘
//! ```
//!
//! * `children`: which children have credits in their counters.
//! * `class`: what the frames are for. The class is chosen anew when an entirely free tree is reserved, or
//!   when a block of one is claimed by its number.
//! * `r` (reserved): the reservation of some slot draws from this tree. Other slots keep away as long as
//!   there are other trees.
//! * `quarters`: the credits in the counters, in quarters of a huge frame, each child's rounded down.
//!   Modulo 2^16, because the number may be below zero for a moment.
//!
//! Legal values: any. Every writer uses compare-and-swap.
//!
//! Nothing here is a right to anything. The rights are the credits of the children and the states of the
//! huge frames. The paper counts the free frames of a tree exactly, and an allocation takes from that
//! counter first; a free then writes three words. Here the entry follows the children. It changes when a
//! child's counter begins or ceases to be zero, or passes a quarter. When no call is under way, the
//! quarters are exact, and every child with credits is known. A child without credits may be said to have
//! some, until a call looks there. This saves the third write of nearly every free. It also saves the
//! paper's split counters: what others free into a reserved tree is in the counters of its children, where
//! the slot that has reserved the tree looks anyway.

use woodlot_frame::{Class, Geometry};

/// One tree entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tree(pub(crate) u64);

const CLASS_SHIFT: u32 = 32;
const CLASS: u64 = 7 << CLASS_SHIFT;
const RESERVED: u64 = 1 << 35;
const QUARTERS_SHIFT: u32 = 48;

/// Does the geometry fit the entry?
pub(crate) const fn fits<G: Geometry>() -> bool {
    G::TREE_HUGE <= 32
}

/// The whole quarters of a huge frame that `credits` are.
#[inline]
pub(crate) const fn quarters<G: Geometry>(credits: usize) -> u64 {
    ((credits << 2) >> G::HUGE_ORDER) as u64
}

impl Tree {
    /// Not reserved, no child with credits.
    pub(crate) const fn new(class: Class) -> Tree {
        Tree(class_bits(class))
    }

    /// After the counter of child `index` went from `before` to `after` credits.
    pub(crate) const fn follow<G: Geometry>(
        self,
        index: usize,
        before: usize,
        after: usize,
    ) -> Tree {
        let gain = quarters::<G>(after).wrapping_sub(quarters::<G>(before));
        let counted = self.0.wrapping_add(gain << QUARTERS_SHIFT);
        Tree(match after {
            0 => counted & !(1 << index),
            _ => counted | 1 << index,
        })
    }

    /// With child `index` known to have credits.
    pub(crate) const fn with_child(self, index: usize) -> Tree {
        Tree(self.0 | 1 << index)
    }

    /// The children with credits, one bit each.
    #[inline]
    pub(crate) const fn children(self) -> u32 {
        self.0 as u32
    }

    /// The credits in the counters, in quarters of a huge frame.
    pub(crate) const fn quarters(self) -> usize {
        let quarters = (self.0 >> QUARTERS_SHIFT) as i16;
        if quarters < 0 { 0 } else { quarters as usize }
    }

    pub(crate) const fn class(self) -> Class {
        Class((self.0 >> CLASS_SHIFT & 7) as u8)
    }

    #[inline]
    pub(crate) const fn is_reserved(self) -> bool {
        self.0 & RESERVED != 0
    }

    /// Of another class.
    pub(crate) const fn of(self, class: Class) -> Tree {
        Tree(self.0 & !CLASS | class_bits(class))
    }

    /// Reserved; `None` if it is already.
    pub(crate) const fn reserve(self) -> Option<Tree> {
        if self.is_reserved() { None } else { Some(Tree(self.0 | RESERVED)) }
    }

    /// No longer reserved.
    pub(crate) const fn unreserve(self) -> Tree {
        Tree(self.0 & !RESERVED)
    }
}

const fn class_bits(class: Class) -> u64 {
    (class.0 as u64) << CLASS_SHIFT & CLASS
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use woodlot_frame::{Base4K, Base16K, Base64K};

    #[test]
    fn every_geometry_fits() {
        assert_eq!([fits::<Base4K>(), fits::<Base16K>(), fits::<Base64K>()], [true; 3]);
    }

    #[test]
    fn fields_do_not_touch() {
        let mut tree = Tree::new(Class(7)).reserve().unwrap();
        for child in 0..32 {
            tree = tree.follow::<Base4K>(child, 0, 511);
        }
        assert_eq!((tree.children(), tree.quarters(), tree.class()), (!0, 32 * 3, Class(7)));
        assert_eq!(tree.reserve(), None);
        let tree = tree.of(Class(1)).unreserve();
        assert_eq!((tree.children(), tree.quarters(), tree.class()), (!0, 32 * 3, Class(1)));
        let none = (0..32).fold(tree, |tree, child| tree.follow::<Base4K>(child, 511, 0));
        assert_eq!(none, Tree::new(Class(1)));
    }

    #[test]
    fn a_count_below_zero_comes_back() {
        let early = Tree::new(Class(0)).follow::<Base4K>(3, 256, 0);
        assert_eq!((early.quarters(), early.children()), (0, 0));
        let late = early.follow::<Base4K>(3, 0, 256);
        assert_eq!((late.quarters(), late.children()), (0, 1 << 3));
        assert_eq!(late.follow::<Base4K>(3, 256, 384).quarters(), 1);
    }
}
