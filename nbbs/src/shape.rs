//! The shape of the forest: which cell and which fields a node has, and what is above a cell.
//!
//! ```text
//!   order 10   ──────────────── roots ────────────────      group 2    cells of the top group
//!        9,8   … derived in the four-level form …
//!          7   ┌──────┴──────┐                              group 1    two cells under each field
//!        6…4
//!          3   ┌───┴───┐                                    group 0    … of the group above
//!        2,1,0 ░░░░░░░░░
//! ```
//!
//! A *group* is as many levels as a cell holds: one order in the one-level form; orders 0–3, 4–7 and 8–11
//! in the four-level form. The cells of a group are an array. The groups follow one another from the lowest
//! up, and hold no pointers. A node is named by its order and by its index among the nodes of that order,
//! counted from the first frame of the forest.
//!
//! The largest order may lie anywhere in the top group. The nodes above the roots are then never used, and
//! a cell of the top group holds several roots.
//!
//! Invariants:
//! 1. Below the top group every cell has all its fields. (A group is only followed by another one
//!    if the roots lie above it.)
//! 2. Cell *w* of a group hangs at branch *w* mod 2 of field *w*/2 of the group above: a field's
//!    node has order *o*, and the topmost nodes of its two cells order *o*-1.

use core::marker::PhantomData;

use woodlot_frame::Geometry;

use crate::field::Branch;
use crate::form::Form;

/// The most groups: orders 0 to 13, one level each.
const GROUPS: usize = 14;

/// A cell: its group, and its number in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cell {
    pub(crate) group: u32,
    pub(crate) number: usize,
}

/// The fields of a node: `1 << size` of them, from `first` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) cell: Cell,
    pub(crate) first: usize,
    pub(crate) size: u32,
}

/// A node by its order and its index among those of its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Node {
    pub(crate) order: u32,
    pub(crate) index: usize,
}

impl Node {
    /// The node of `order` that a frame lies in, by the frame's offset in the forest.
    #[inline(always)]
    pub(crate) fn around(offset: usize, order: u32) -> Self {
        Node { order, index: offset >> order }
    }

    /// The offset of its first frame.
    #[inline(always)]
    pub(crate) fn start(self) -> usize {
        self.index << self.order
    }

    /// The offset of the frame behind its last.
    #[inline(always)]
    pub(crate) fn end(self) -> usize {
        (self.index + 1) << self.order
    }

    /// Its two halves.
    pub(crate) fn halves(self) -> [Node; 2] {
        let half = |side| Node { order: self.order - 1, index: 2 * self.index + side };
        [half(0), half(1)]
    }
}

/// The shape of a forest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape<G, F> {
    /// Blocks of the largest order.
    pub(crate) roots: usize,
    /// Where each group begins, and at `TOP + 1` where the last one ends.
    begins: [usize; GROUPS + 1],
    kind: PhantomData<(G, F)>,
}

impl<G: Geometry, F: Form> Shape<G, F> {
    /// The group that the roots are in.
    pub(crate) const TOP: u32 = G::MAX_ORDER / F::LEVELS;

    /// A forest of so many roots, at most 2^(usize::BITS - 8) frames.
    pub(crate) fn new(roots: usize) -> Self {
        const { assert!((Self::TOP as usize) < GROUPS) };
        let mut begins = [0; GROUPS + 1];
        let mut cells = 0;
        for (group, begin) in begins.iter_mut().enumerate() {
            *begin = cells;
            if group as u32 <= Self::TOP {
                let nodes = roots << (G::MAX_ORDER - group as u32 * F::LEVELS);
                cells += nodes.div_ceil(1 << F::LOG);
            }
        }
        Shape { roots, begins, kind: PhantomData }
    }

    /// All cells.
    pub(crate) fn cells(&self) -> usize {
        self.begin(Self::TOP + 1)
    }

    /// The frames that the roots stand for.
    #[inline(always)]
    pub(crate) fn frames(&self) -> usize {
        self.roots << G::MAX_ORDER
    }

    #[inline(always)]
    fn begin(&self, group: u32) -> usize {
        self.begins.get(group as usize).copied().unwrap_or(usize::MAX)
    }

    /// The index of a cell among all.
    #[inline(always)]
    pub(crate) fn index(&self, cell: Cell) -> usize {
        self.begin(cell.group).wrapping_add(cell.number)
    }

    /// Where a node is.
    #[inline(always)]
    pub(crate) fn place(node: Node) -> Place {
        let (group, size) = (node.order / F::LEVELS, node.order % F::LEVELS);
        let field = node.index << size;
        let cell = Cell { group, number: field >> F::LOG };
        Place { cell, first: field & ((1 << F::LOG) - 1), size }
    }

    /// The node that a place stands for.
    #[inline(always)]
    pub(crate) fn node(place: Place) -> Node {
        let order = place.cell.group * F::LEVELS + place.size;
        let index = (place.cell.number << F::LOG | place.first) >> place.size;
        Node { order, index }
    }

    /// The cell that a cell hangs in, and the branch of it; `None` in the top group.
    #[inline(always)]
    pub(crate) fn above(cell: Cell) -> Option<(Cell, Branch)> {
        if cell.group >= Self::TOP {
            return None;
        }
        let (side, field) = (cell.number & 1, cell.number >> 1);
        let above = Cell { group: cell.group + 1, number: field >> F::LOG };
        Some((above, Branch::new(field & ((1 << F::LOG) - 1), side)))
    }

    /// The node of the field that a cell hangs under.
    #[inline(always)]
    pub(crate) fn owner(cell: Cell) -> Node {
        Node { order: (cell.group + 1) * F::LEVELS, index: cell.number >> 1 }
    }

    /// The cells of a group below a node, all of whose frames they stand for.
    pub(crate) fn below(node: Node, group: u32) -> core::ops::Range<usize> {
        let shift = group * F::LEVELS + F::LOG;
        node.start() >> shift..node.end() >> shift
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use crate::form::{FourLevels, OneLevel};
    use woodlot_frame::{Base4K, Base16K, Base64K};

    fn every_node_has_a_place<G: Geometry, F: Form>() {
        let shape = Shape::<G, F>::new(3);
        let mut taken = [0u64; 8192];
        for order in (0..=G::MAX_ORDER).step_by(F::LEVELS as usize) {
            for index in 0..shape.frames() >> order {
                let place = Shape::<G, F>::place(Node { order, index });
                assert_eq!(Shape::<G, F>::node(place), Node { order, index });
                let cell = shape.index(place.cell);
                assert!(cell < shape.cells());
                let bit = (cell << F::LOG) + place.first;
                let word = &mut taken[bit / 64];
                assert_eq!(*word >> (bit % 64) & 1, 0, "two nodes in one field");
                *word |= 1 << (bit % 64);
            }
        }
    }

    #[test]
    fn no_two_nodes_share_a_field() {
        every_node_has_a_place::<Base4K, OneLevel>();
        every_node_has_a_place::<Base4K, FourLevels>();
        every_node_has_a_place::<Base16K, OneLevel>();
        every_node_has_a_place::<Base16K, FourLevels>();
        every_node_has_a_place::<Base64K, OneLevel>();
        every_node_has_a_place::<Base64K, FourLevels>();
    }

    fn the_way_up_is_that_of_the_orders<G: Geometry, F: Form>() {
        for offset in [0, 1, 77, (3 << G::MAX_ORDER) - 1] {
            let mut at = Shape::<G, F>::place(Node::around(offset, 0)).cell;
            while let Some((above, _)) = Shape::<G, F>::above(at) {
                let owner = Shape::<G, F>::owner(at);
                assert_eq!(owner, Node::around(offset, owner.order));
                assert_eq!(Shape::<G, F>::place(owner).cell, above);
                assert!(Shape::<G, F>::below(owner, at.group).contains(&at.number));
                at = above;
            }
            assert_eq!(at, Shape::<G, F>::place(Node::around(offset, G::MAX_ORDER)).cell);
        }
    }

    #[test]
    fn every_climb_ends_at_the_root() {
        the_way_up_is_that_of_the_orders::<Base4K, OneLevel>();
        the_way_up_is_that_of_the_orders::<Base4K, FourLevels>();
        the_way_up_is_that_of_the_orders::<Base16K, OneLevel>();
        the_way_up_is_that_of_the_orders::<Base16K, FourLevels>();
        the_way_up_is_that_of_the_orders::<Base64K, FourLevels>();
    }
}
