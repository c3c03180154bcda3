//! Where a block is looked for.
//!
//! ```text
//!   below a row's order                                rows, huge frames, pairs
//!
//!   the slot's row                   one write         the slot's child                        one write
//!   holes: of its child,                               children of its tree that are in use in part
//!     of rich children of its tree,                    its other children
//!     then of the most used tree                       the same in the most used tree that may have some
//!   a free row: of its child,
//!     of a child in use in part,
//!     of a free child
//!   any hole at all
//! ```
//!
//! Huge frames stay whole because holes are filled up before a free row is broken, and free rows of huge frames that are in
//! use before a free huge frame is. A single hole is left alone until nothing else is free: it is not worth a search
//! (`hints.rs`, invariant 2).
//!
//! A row of which the last frame is freed stays open, and counts as a free row: it may be broken again at once. Who needs
//! whole rows closes those that it takes.
//!
//! # Progress
//! Lock-free. A search visits each tree a bounded number of times: when it leaves a tree, the tree's hint says that there is
//! nothing, or another call has changed something there.

use core::ops::Range;

use woodlot_frame::Geometry;

use crate::OneWrite;
use crate::child::{self, FREE, OPEN, Part};
use crate::row::{self, Rows};

/// A block: its huge frame, and where in it.
pub(crate) struct Found {
    pub(crate) child: usize,
    /// Its offset in frames.
    pub(crate) offset: usize,
}

impl<G: Geometry> OneWrite<'_, G> {
    // ---- Below a row's order ----

    /// A block of `order`, below a row's, that the slot's row does not have; and moves the slot there.
    #[cold]
    #[inline(never)]
    pub(crate) fn find_bits(&self, order: u32, slot: usize) -> Option<(usize, usize)> {
        let child = self.slots.row(slot) / G::ROWS;
        let (row, at) = self
            .take_hole(child, order)
            .or_else(|| self.take_in_rich(child, order))
            .or_else(|| self.break_in_child(child, order))
            .or_else(|| self.break_in_trees(child, order))
            .or_else(|| self.take_anywhere(order))?;
        self.move_to(slot, row);
        Some((row, at))
    }

    /// The slot allocates from this row from now on.
    fn move_to(&self, slot: usize, row: usize) {
        let tree = |row| row / G::ROWS / G::TREE;
        self.moves(tree(self.slots.row(slot)), tree(row));
        self.slots.set_row(slot, row);
    }

    /// From a row of a child that is in use in part, unless a hint says that there is none.
    fn take_in_child(&self, child: usize, order: u32) -> Option<(usize, usize)> {
        if !self.may_have(child, order) {
            return None;
        }
        let found = self.take_hole(child, order);
        if found.is_none() {
            self.child_has_none(child, order);
        }
        found
    }

    /// From a row of a child that is in use in part.
    fn take_hole(&self, child: usize, order: u32) -> Option<(usize, usize)> {
        let mut open = child::open_rows(self.states(child));
        while open != 0 {
            let row = child * G::ROWS + (open.trailing_zeros() / 2) as usize;
            if self.bits(row) != G::ALL
                && let Some(at) = self.take_in_row(row, order)
            {
                return Some((row, at));
            }
            open &= open - 1;
        }
        None
    }

    /// From a child with holes that are worth it: of this child's tree, then of others.
    fn take_in_rich(&self, child: usize, order: u32) -> Option<(usize, usize)> {
        if !self.slots.is_rich(order) {
            return None;
        }
        let mut tree = child / G::TREE;
        for _ in 0..=self.trees.len() {
            if self.is_rich_tree(tree) {
                // A larger block finds no use in what makes a child rich, but in the tree.
                let rich = |&child: &usize| order > 0 || self.is_rich_child(child);
                let mut rich = self.children_of(tree).filter(rich);
                if let Some(found) = rich.find_map(|child| self.take_in_child(child, order)) {
                    return Some(found);
                }
                if order > 0 {
                    self.tree_has_none(tree, order);
                }
                self.tree_is_poor(tree);
            }
            tree = self.choose_rich(order, tree)?;
        }
        None
    }

    /// From a free row of a child, open or not.
    fn break_in_child(&self, child: usize, order: u32) -> Option<(usize, usize)> {
        while let Some(part) = child::free_run::<G>(self.whole_states(child), 0) {
            let row = child * G::ROWS + part.first;
            if self.state(row) == OPEN {
                if let Some(at) = self.take_in_row(row, order) {
                    return Some((row, at));
                }
            } else if self.open(row, 0, order) {
                return Some((row, 0));
            }
        }
        None
    }

    /// From a free row of any child: of this child's tree, then of others.
    fn break_in_trees(&self, child: usize, order: u32) -> Option<(usize, usize)> {
        self.in_trees(child, G::ROW_ORDER, |child| self.break_in_child(child, order))
    }

    /// Takes what there is of blocks of `order`, at least a row's: of children of this child's tree that are in use in part,
    /// then of all its children, then of other trees.
    fn in_trees<T>(
        &self,
        mut child: usize,
        order: u32,
        take: impl Fn(usize) -> Option<T>,
    ) -> Option<T> {
        for _ in 0..=self.trees.len() {
            let tree = child / G::TREE;
            if self.tree_may_have(tree, order) {
                let found = self.in_tree(child, order, &take);
                if found.is_some() {
                    return found;
                }
                self.tree_has_none(tree, order);
            }
            child = self.choose(order, false, tree)? * G::TREE;
        }
        None
    }

    /// The same of one tree, from this child on.
    fn in_tree<T>(&self, child: usize, order: u32, take: impl Fn(usize) -> Option<T>) -> Option<T> {
        if self.may_be_broken(child / G::TREE, order) {
            let found = self.broken_from(child).find_map(&take);
            if found.is_some() {
                return found;
            }
            self.is_unbroken(child / G::TREE, order);
        }
        // What is left of a free child is the first to be looked at from now on.
        self.from(child).find_map(|child| take(child).inspect(|_| self.can_be_had_whole(child)))
    }

    /// The children of a child's tree, from that child on and around.
    fn from(&self, child: usize) -> impl Iterator<Item = usize> + Clone + use<G> {
        let Range { start, end } = self.children_of(child / G::TREE);
        (child.max(start)..end).chain(start..child.min(end))
    }

    /// The same, of those of which something is in use.
    fn broken_from(&self, child: usize) -> impl Iterator<Item = usize> {
        self.from(child).filter(|&child| !Part::whole::<G>().is(self.whole_states(child), FREE))
    }

    /// From any row that is in use in part.
    fn take_anywhere(&self, order: u32) -> Option<(usize, usize)> {
        for _ in 0..=self.trees.len() {
            let tree = self.choose(order, false, 0)?;
            let mut children = self.children_of(tree);
            if let Some(found) = children.find_map(|child| self.take_in_child(child, order)) {
                return Some(found);
            }
            self.tree_has_none(tree, order);
        }
        None
    }

    // ---- Whole rows ----

    /// A block of `order`, at least a row's.
    #[inline(always)]
    pub(crate) fn find_rows(&self, order: u32, slot: usize) -> Option<Found> {
        let child = self.slots.child(slot);
        self.take_whole(child, order).or_else(|| self.find_whole(child, order, slot))
    }

    #[cold]
    #[inline(never)]
    fn find_whole(&self, child: usize, order: u32, slot: usize) -> Option<Found> {
        let found = self.in_trees(child, order, |child| self.take_whole(child, order))?;
        self.slots.set_child(slot, found.child);
        Some(found)
    }

    /// From a child, or of the largest order a pair that begins with it.
    #[inline(always)]
    fn take_whole(&self, child: usize, order: u32) -> Option<Found> {
        if order <= G::HUGE_ORDER {
            let part = self.take_rows(child, order - G::ROW_ORDER)?;
            self.count_rows(child, part, 0, true);
            return Some(Found { child, offset: part.first << G::ROW_ORDER });
        }
        if !child.is_multiple_of(2) || !self.take_pair(child) {
            return None;
        }
        self.count_pair(child);
        Some(Found { child, offset: 0 })
    }

    // ---- Whether there is a block ----

    /// Is a block of `order` free? As fast as an allocation.
    pub(crate) fn has(&self, order: u32) -> bool {
        if order < G::ROW_ORDER {
            return self.has(G::ROW_ORDER)
                || self.visit(order, |child| self.has_hole(child, order));
        }
        self.visit(order, |child| self.has_rows(child, order))
    }

    /// Has a child a row with a free block of `order`?
    fn has_hole(&self, child: usize, order: u32) -> bool {
        let mut rows = child * G::ROWS..(child + 1) * G::ROWS;
        // Rows that are not open have no bits.
        self.may_have(child, order) && rows.any(|row| row::blocks(self.bits(row), order) != 0)
    }

    /// Does this hold of a child of a tree that may have a block of `order`?
    fn visit(&self, order: u32, has: impl Fn(usize) -> bool) -> bool {
        for tree in (0..self.trees.len()).filter(|&tree| self.tree_may_have(tree, order)) {
            if self.children_of(tree).any(&has) {
                return true;
            }
            self.tree_has_none(tree, order);
        }
        false
    }
}
