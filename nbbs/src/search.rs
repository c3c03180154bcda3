//! Where an allocation looks: from a hint on, once round the zone.
//!
//! ```text
//!   slot 0 ●───────────▶            slot 1 ●───────────▶        at first: apart from one another
//!   frames ░░░░▓▓▓▓░░▓░░░░░░░░░░░░░░░░░░░░░▓▓░░▓▓▓▓▓▓▓▓▓░░░░
//!              then: where the slot last found something
//! ```
//!
//! A slot that meets another call at its cell goes [`apart`](Forest::apart). Two slots in one place would
//! stay together, and each write of one slot would take the cache lines away from the other.
//!
//! The search looks at the nodes of the order one after the other (section II a); in the four-level form it
//! looks at all nodes of a cell at once. A free node may still lie in a larger block. The search looks for
//! that block before it writes anything, and goes on behind it.
//!
//! The search passes over a root if it is known that nothing of the order is free there (`spent.rs`). So a
//! zone that is nearly full is searched by the root, not by the node.
//!
//! # Progress
//! Bounded: at most [`ROUNDS`] times round the zone. One round finds everything that was free all the time.
//! The search makes another round only if another call was in its way: what that call held may be free now,
//! and lie behind.

use woodlot_frame::Geometry;

use crate::field::first_free;
use crate::forest::{Forest, Taken};
use crate::form::Form;
use crate::shape::{Node, Shape};

/// How often a search goes round, at most.
const ROUNDS: usize = 3;

/// What came of looking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// This block; and was another call in the way?
    Block(Node, bool),
    /// None; and was another call in the way?
    None(bool),
}

impl<G: Geometry, F: Form> Forest<'_, G, F> {
    /// Takes a free block, looking from this offset on; and was another call in the way?
    #[inline(always)]
    pub(crate) fn search(&self, order: u32, from: usize) -> Option<(Node, bool)> {
        for _ in 0..ROUNDS {
            match self.round(order, from, |node| self.take(node, 0)) {
                Found::Block(node, crowded) => return Some((node, crowded)),
                Found::None(false) => return None,
                Found::None(true) => {}
            }
        }
        None
    }

    /// Looks for a free block from this offset on, and takes none.
    pub(crate) fn look(&self, order: u32, from: usize) -> Found {
        self.round(order, from, |_| Ok(false))
    }

    /// The beginning of another root, three eighths of the zone behind this offset. An odd number of
    /// roots, so that those who go apart again and again come to many places.
    #[cold]
    #[inline(never)]
    pub(crate) fn apart(&self, offset: usize) -> usize {
        let roots = self.shape.roots;
        let step = (roots >> 2) + (roots >> 3);
        let root = (offset >> G::MAX_ORDER) + (step | 1);
        (if root < roots { root } else { root - roots }) << G::MAX_ORDER
    }

    /// Once round the zone.
    #[inline(always)]
    fn round(
        &self,
        order: u32,
        from: usize,
        take: impl Fn(Node) -> Result<bool, Taken> + Copy,
    ) -> Found {
        let from = if from < self.shape.frames() { from } else { 0 };
        let first = from >> G::MAX_ORDER;
        // Nearly always it is in the first root, and from there on.
        if !self.is_spent(first, order) {
            let found = self.scan(order, from, (first + 1) << G::MAX_ORDER, take);
            if let Found::Block(..) = found {
                return found;
            }
        }
        self.roots(order, first, take)
    }

    /// Every root in turn, from the one behind `first` on.
    #[inline(never)]
    fn roots(
        &self,
        order: u32,
        first: usize,
        take: impl Fn(Node) -> Result<bool, Taken> + Copy,
    ) -> Found {
        let mut lost = false;
        for root in (first + 1..self.shape.roots).chain(0..first + 1) {
            if self.is_spent(root, order) {
                continue;
            }
            let (begin, end) = (root << G::MAX_ORDER, (root + 1) << G::MAX_ORDER);
            let found = match self.scan(order, begin, end, take) {
                Found::None(false) => {
                    self.spend(root, order, || self.scan(order, begin, end, take))
                }
                found => found,
            };
            match found {
                Found::Block(..) => return found,
                Found::None(here) => lost |= here,
            }
        }
        Found::None(lost)
    }

    /// Tries the free nodes of an order that begin in this range of offsets.
    #[inline(always)]
    fn scan(
        &self,
        order: u32,
        from: usize,
        to: usize,
        take: impl Fn(Node) -> Result<bool, Taken>,
    ) -> Found {
        let (mut at, mut lost) = (from, false);
        while at < to {
            let mut place = Shape::<G, F>::place(Node::around(at, order));
            let value = self.load(place.cell);
            let Some(first) = first_free(value, place.first, place.size, F::LOG) else {
                // The first node of the next cell.
                at = ((at >> (order - place.size) | ((1 << F::LOG) - 1)) + 1)
                    << (order - place.size);
                continue;
            };
            place.first = first;
            let node = Shape::<G, F>::node(place);
            if node.start() >= to {
                break;
            }
            // Beside something in use there is no larger block in use.
            let above = if value == 0 { self.block_above(place.cell) } else { None };
            match above.map_or_else(|| take(node), |block| Err(Taken::Within(block))) {
                Ok(crowded) => return Found::Block(node, lost || crowded),
                Err(Taken::Within(block)) => {
                    lost |= above.is_none();
                    at = block.end();
                }
                Err(Taken::Used) => {
                    lost = true;
                    at = node.end();
                }
            }
        }
        Found::None(lost)
    }
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use crate::form::OneLevel;
    use woodlot_frame::Base4K;

    #[test]
    fn who_goes_apart_comes_to_the_beginnings_of_many_roots() {
        for roots in [1, 2, 3, 7, 8, 2048] {
            let shape = Shape::<Base4K, OneLevel>::new(roots);
            let forest = Forest { cells: &[], spent: &[], shape };
            let (mut at, mut seen) = (77, [false; 2048]);
            for _ in 0..roots {
                at = forest.apart(at);
                assert_eq!((at % Base4K::MAX_FRAMES, at < shape.frames()), (0, true));
                seen[at / Base4K::MAX_FRAMES] = true;
            }
            let many = seen.iter().filter(|&&seen| seen).count();
            assert!(many > roots / 4, "{many} of {roots} roots");
        }
    }
}
