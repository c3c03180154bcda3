//! The tree entry: what the upper level knows about 32 huge frames (LLFree section 3.2.2).
//!
//! ```text
//!   32 bits, 16 entries in a cache line
//!   ┌───────────┬───┬──────────┬─────────┬───────────┐
//!   │ 0 (31–28) │ r │ class, 3 │ huge, 6 │ free, 18  │
//!   └───────────┴───┴──────────┴─────────┴───────────┘
//! ```
//!
//! * `free`: credits for base frames, 0 to 2^(H+5).
//! * `huge`: credits for huge frames that are free as a whole, 0 to 32. Their base frames are part
//!   of `free`.
//! * `class`: what the frames are for; kept while reserved, chosen anew when an entirely free tree
//!   is reserved.
//! * `r` (reserved): some slot's reservation draws from this tree, and holds the credits that were
//!   here then. What others free since then gathers here, until the two are synchronised.
//!
//! Legal values: any with `free` and `huge` in range. Everybody writes, by compare-and-swap only.
//!
//! A credit here is the right to take one from a child of the tree: the sum of `free` here, in
//! reservations and in flight never exceeds that of the children's credits, because a free gives
//! to the child first, and an allocation takes from here first. The same holds for `huge`: a free
//! huge frame is allocated, or opened for base frames, only by whoever holds a huge credit.

use woodlot_frame::{Class, Geometry};

use crate::lower::Gain;

/// One tree entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tree(pub(crate) u32);

const FREE_BITS: u32 = 18;
const HUGE_BITS: u32 = 6;
const CLASS_BITS: u32 = 3;
const HUGE_SHIFT: u32 = FREE_BITS;
const CLASS_SHIFT: u32 = HUGE_SHIFT + HUGE_BITS;
const RESERVED: u32 = 1 << (CLASS_SHIFT + CLASS_BITS);

/// Does the geometry fit the entry?
pub(crate) const fn fits<G: Geometry>() -> bool {
    G::TREE_FRAMES < 1 << FREE_BITS && G::TREE_HUGE < 1 << HUGE_BITS
}

impl Tree {
    pub(crate) const fn new(free: usize, huge: usize, class: Class) -> Tree {
        let class = (class.0 as u32 & ((1 << CLASS_BITS) - 1)) << CLASS_SHIFT;
        Tree(free as u32 | (huge as u32) << HUGE_SHIFT | class)
    }

    pub(crate) const fn free(self) -> usize {
        (self.0 & ((1 << FREE_BITS) - 1)) as usize
    }

    pub(crate) const fn huge(self) -> usize {
        (self.0 >> HUGE_SHIFT & ((1 << HUGE_BITS) - 1)) as usize
    }

    pub(crate) const fn class(self) -> Class {
        Class((self.0 >> CLASS_SHIFT & ((1 << CLASS_BITS) - 1)) as u8)
    }

    pub(crate) const fn is_reserved(self) -> bool {
        self.0 & RESERVED != 0
    }

    /// Is every huge frame of the tree free as a whole? Never so for a tree that is cut off by the
    /// end of the zone.
    pub(crate) const fn is_free<G: Geometry>(self) -> bool {
        self.huge() == G::TREE_HUGE
    }

    /// Free base frames in huge frames that are in part allocated.
    pub(crate) const fn partial<G: Geometry>(self) -> usize {
        self.free().saturating_sub(self.huge() << G::HUGE_ORDER)
    }

    /// The credits, as a gain for whoever takes them.
    pub(crate) const fn credits(self) -> Gain {
        Gain { frames: self.free(), huge: self.huge() }
    }

    /// With more credits. Never more than the tree has room for: a surplus, which only frees of
    /// frames that their callers do not own can bring about, is dropped.
    pub(crate) fn with<G: Geometry>(self, gain: Gain) -> Tree {
        let free = (self.free() + gain.frames).min(G::TREE_FRAMES);
        let huge = (self.huge() + gain.huge).min(G::TREE_HUGE);
        Tree(Tree::new(free, huge, self.class()).0 | self.0 & RESERVED)
    }

    /// With fewer credits; `None` where there are not that many.
    pub(crate) fn without(self, gain: Gain) -> Option<Tree> {
        let free = self.free().checked_sub(gain.frames)?;
        let huge = self.huge().checked_sub(gain.huge)?;
        Some(Tree(Tree::new(free, huge, self.class()).0 | self.0 & RESERVED))
    }

    /// With `price` less; an entirely free tree changes to `class`.
    pub(crate) fn pay<G: Geometry>(self, price: Gain, class: Option<Class>) -> Option<Tree> {
        let class = class.filter(|_| self.is_free::<G>()).unwrap_or(self.class());
        let left = self.without(price)?;
        Some(Tree(Tree::new(left.free(), left.huge(), class).0 | self.0 & RESERVED))
    }

    /// Reserved, all credits taken; an entirely free tree changes to `class`.
    pub(crate) fn reserve<G: Geometry>(self, class: Class) -> Option<Tree> {
        let class = if self.is_free::<G>() { class } else { self.class() };
        (!self.is_reserved()).then_some(Tree(Tree::new(0, 0, class).0 | RESERVED))
    }

    /// Reserved as before, all credits taken.
    pub(crate) fn collect(self) -> Option<Tree> {
        let some = self.is_reserved() && (self.free() > 0 || self.huge() > 0);
        some.then_some(Tree(Tree::new(0, 0, self.class()).0 | RESERVED))
    }

    /// No longer reserved, with the credits that the reservation had left.
    pub(crate) fn unreserve<G: Geometry>(self, left: Gain) -> Tree {
        Tree(self.0 & !RESERVED).with::<G>(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use woodlot_frame::{Base4K, Base16K, Base64K};

    #[test]
    fn every_geometry_fits() {
        assert!(fits::<Base4K>() && fits::<Base16K>() && fits::<Base64K>());
    }

    #[test]
    fn fields_do_not_touch() {
        let tree = Tree::new(16384, 32, Class(7));
        assert_eq!((tree.free(), tree.huge(), tree.class()), (16384, 32, Class(7)));
        assert!(tree.is_free::<Base4K>() && !tree.is_reserved() && tree.partial::<Base4K>() == 0);
        let reserved = tree.reserve::<Base4K>(Class(1)).unwrap();
        assert_eq!((reserved.free(), reserved.huge(), reserved.class()), (0, 0, Class(1)));
        assert_eq!(reserved.reserve::<Base4K>(Class(1)), None);
        assert_eq!(reserved.collect(), None);
        let foreign = reserved.with::<Base4K>(Gain { frames: 3, huge: 0 });
        assert_eq!(foreign.collect(), Some(reserved));
        let left = Gain { frames: 16381, huge: 31 };
        assert_eq!(foreign.unreserve::<Base4K>(left), Tree::new(16384, 31, Class(1)));
        let surplus = Gain { frames: 16382, huge: 33 };
        assert_eq!(foreign.unreserve::<Base4K>(surplus), Tree::new(16384, 32, Class(1)));
        assert_eq!(foreign.without(Gain { frames: 4, huge: 0 }), None);
    }

    #[test]
    fn a_used_tree_keeps_its_class() {
        let tree = Tree::new(16383, 31, Class(2));
        assert_eq!(tree.reserve::<Base4K>(Class(0)).unwrap().class(), Class(2));
        assert_eq!(tree.partial::<Base4K>(), 511);
    }
}
