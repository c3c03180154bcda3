//! Hints: where there is nothing, so that a search need not look, and how much a tree is used.
//!
//! ```text
//!   a byte for each child       bits 0–5   no row of it that is in use in part has a block of this order
//!                               bit  6     rich: it has holes worth a visit
//!   a word for each tree        bits 0–12  none of its children has a block of this order: below a row's order, of a row
//!                                          in use in part; from there on, of whole rows, open or not
//!                               bit 14     a slot allocates here
//!                               bit 15     rich: one of its children is
//!                               bits 16–30 unbroken: no child in use in part has whole rows of this order, from a row's
//!                                          to below a huge frame's
//!                               bits 32–63 how much of it is used, about
//! ```
//!
//! # Invariants
//! 1. *A hint that says none is right when no call is in flight.* Who sets it has looked, sets it, looks again, and takes
//!    it back where that was wrong. Who frees changes the bits, then loads the hint, and takes it back. Of the
//!    two one sees what the other has written, since all these accesses are sequentially consistent (`words.rs`). The
//!    same holds between a child's byte and its tree's word.
//! 2. *Rich, unbroken, and the use decide only where is looked first.* A hole in a full child is not worth a search: it waits
//!    until it has company, a 32nd of the child.
//!
//! The use is a sample, by position: for single frames the allocated frame [`SAMPLE`](Rows::SAMPLE) of each open row; for whole rows
//! the row [`row_sample`] of each child whose number is 3 modulo 8, which stands for all rows of the eight. What is
//! allocated at a position is freed there, so the sum does not drift.

use woodlot_frame::Geometry;
use woodlot_frame::atomics::Ordering::SeqCst;

use crate::OneWrite;
use crate::child::{self, OPEN, Part, TAKEN};
use crate::row::{self, Rows};
use crate::words::{load, load_byte};

/// A tree's bit: one of its children is worth a visit; and a child's.
const RICH: u64 = 1 << 15;
const RICH_CHILD: u8 = 1 << 6;
/// A tree's bit: a slot allocates here.
const IN_USE: u64 = 1 << 14;
/// Where a tree's bits begin that say that no child in use in part has whole rows: one for each order below a huge frame's.
const UNBROKEN: u32 = 16;
/// Where a tree's use begins.
const USE: u32 = 32;
/// A child is rich when a 32nd of it are holes, 16 frames of 512. Fewer, and the holes that frees leave are hunted one by
/// one; more, and free huge frames are broken instead.
const RICH_SHARE: usize = 32;
/// Trees between which a search chooses, at most.
const CANDIDATES: usize = 8;
/// A child is looked at when a block is freed that has a frame of this number modulo 8: one free in eight looks.
const LOOK: usize = 5;
/// The children that stand for their neighbours.
const STANDS_FOR: usize = 8;

/// The row of a child by which the use of whole rows is counted.
const fn row_sample<G: Rows>() -> usize {
    G::ROWS / 2 + G::ROWS / 8
}

/// The bits of `order` and of what would need more, up to `end`.
const fn from_order(order: u32, end: u32) -> u64 {
    (1u64 << end) - (1u64 << order)
}

impl<G: Geometry> OneWrite<'_, G> {
    #[inline(always)]
    pub(crate) fn hint(&self, child: usize) -> u8 {
        load_byte(self.hints.get(child))
    }

    #[inline(always)]
    pub(crate) fn tree(&self, tree: usize) -> u64 {
        load(self.trees.get(tree))
    }

    /// The orders, as bits, for which one hint speaks with that of `order`: what needs as much or more.
    const fn orders_from(order: u32) -> u64 {
        from_order(order, if order < G::ROW_ORDER { G::ROW_ORDER } else { G::MAX_ORDER + 1 })
    }

    // ---- Something is free ----

    /// After some frames of a row have become free singly; `bits` are the row's.
    #[inline(always)]
    pub(crate) fn can_be_had_singly(&self, child: usize, bits: u64) {
        if self.hint(child) & ((1 << G::ROW_ORDER) - 1) != 0 {
            self.not_none(child, row::orders(bits));
        }
    }

    #[cold]
    #[inline(never)]
    fn not_none(&self, child: usize, orders: u64) {
        let Some(hint) = self.hints.get(child) else { return };
        if load_byte(Some(hint)) & orders as u8 != 0 {
            let _ = hint.fetch_and(!(orders as u8), SeqCst);
        }
        self.tree_has(child / G::TREE, orders & from_order(0, G::ROW_ORDER));
    }

    /// After rows of a child have become free.
    #[inline(always)]
    pub(crate) fn can_be_had_whole(&self, child: usize) {
        let unbroken = from_order(UNBROKEN, UNBROKEN + G::HUGE_ORDER - G::ROW_ORDER);
        let said = self.tree(child / G::TREE) & (Self::orders_from(G::ROW_ORDER) | unbroken);
        if said != 0 {
            self.has_whole(child, said);
        }
    }

    /// After a row has become free: its neighbour must be, too, if the tree's word speaks only of more than a row.
    #[inline(always)]
    pub(crate) fn row_can_be_had(&self, row: usize) {
        let single = 1 << G::ROW_ORDER | 1 << UNBROKEN;
        if self.tree(row / G::ROWS / G::TREE) & single != 0
            || G::ROWS == 1
            || self.free_bits(row ^ 1) == G::ALL
        {
            self.can_be_had_whole(row / G::ROWS);
        }
    }

    /// Takes back what a tree's word says, these bits, and is not so of a child.
    #[inline(never)]
    fn has_whole(&self, child: usize, said: u64) {
        let states = self.whole_states(child);
        let free = child::free_run::<G>(states, G::HUGE_ORDER - G::ROW_ORDER).is_some();
        let broken = |order| if free { 0 } else { said >> (UNBROKEN + order - G::ROW_ORDER) };
        let runs = (G::ROW_ORDER..=G::HUGE_ORDER)
            .filter(|&order| (said >> order | broken(order)) & 1 != 0)
            .filter(|order| child::free_run::<G>(states, order - G::ROW_ORDER).is_some());
        let orders = runs.fold(0, |orders, order| orders | 1 << order);
        let pair = free && said >> G::MAX_ORDER & 1 != 0 && self.is_free_pair(child & !1);
        let parts = if free { 0 } else { orders >> G::ROW_ORDER };
        let all = orders | u64::from(pair) << G::MAX_ORDER | parts << UNBROKEN;
        self.tree_has(child / G::TREE, all & said);
    }

    /// Takes back that a tree has no blocks of some orders.
    fn tree_has(&self, tree: usize, orders: u64) {
        if self.tree(tree) & orders != 0 {
            self.trees.get(tree).into_iter().for_each(|word| _ = word.fetch_and(!orders, SeqCst));
            if self.is_rich_tree(tree) {
                self.slots.set_rich(orders & from_order(0, G::ROW_ORDER));
            }
        }
    }

    /// After a free of the block of `order`, below a row's, at `at`: is its child worth a visit now?
    #[inline(always)]
    pub(crate) fn look_for_riches(&self, child: usize, bits: u64, at: usize, order: u32) {
        // A row with one hole is not worth the look, either.
        let several = bits & bits.wrapping_sub(1) != 0;
        if (at & 7 ^ LOOK) >> order == 0 && several && self.hint(child) & RICH_CHILD == 0 {
            self.count_holes(child);
        }
    }

    #[inline(never)]
    fn count_holes(&self, child: usize) {
        if Self::are_worth(self.holes(child)) {
            self.is_rich(child);
        }
    }

    /// The bits of a child's rows that are in use in part.
    fn holes(&self, child: usize) -> impl Iterator<Item = u64> {
        let rows = child * G::ROWS..(child + 1) * G::ROWS;
        rows.map(|row| self.bits(row)).filter(|&bits| bits != 0 && bits != G::ALL)
    }

    /// Are these holes worth a visit?
    fn are_worth(holes: impl Iterator<Item = u64>) -> bool {
        let frames = holes.map(|bits| bits.count_ones() as usize).sum::<usize>();
        frames >= G::HUGE_FRAMES / RICH_SHARE
    }

    #[cold]
    #[inline(never)]
    fn is_rich(&self, child: usize) {
        self.hints.get(child).into_iter().for_each(|hint| _ = hint.fetch_or(RICH_CHILD, SeqCst));
        if self.tree(child / G::TREE) & RICH == 0 {
            let word = self.trees.get(child / G::TREE).into_iter();
            word.for_each(|word| _ = word.fetch_or(RICH, SeqCst));
        }
        self.slots.set_rich(from_order(0, G::ROW_ORDER));
    }

    // ---- Nothing is free ----

    /// Is a child worth looking at for a block of `order`, below a row's?
    #[inline(always)]
    pub(crate) fn may_have(&self, child: usize, order: u32) -> bool {
        self.hint(child) & 1 << order == 0
    }

    /// Is a tree worth looking at for a block of `order`?
    pub(crate) fn tree_may_have(&self, tree: usize, order: u32) -> bool {
        self.tree(tree) & 1 << order == 0
    }

    pub(crate) fn is_rich_tree(&self, tree: usize) -> bool {
        self.tree(tree) & RICH != 0
    }

    pub(crate) fn is_rich_child(&self, child: usize) -> bool {
        self.hint(child) & RICH_CHILD != 0
    }

    /// A search has found no block of `order`, below a row's, in a child.
    pub(crate) fn child_has_none(&self, child: usize, order: u32) {
        let Some(hint) = self.hints.get(child) else { return };
        let _ = hint.fetch_or(Self::orders_from(order) as u8, SeqCst);
        let holes = || self.holes(child);
        if load_byte(Some(hint)) & RICH_CHILD != 0 && !Self::are_worth(holes()) {
            let _ = hint.fetch_and(!RICH_CHILD, SeqCst);
        }
        let found = holes().fold(0, |found, bits| found | row::orders(bits));
        if found & Self::orders_from(order) != 0 {
            self.not_none(child, found);
        }
    }

    /// A search has found no block of `order` in a tree.
    pub(crate) fn tree_has_none(&self, tree: usize, order: u32) {
        let orders = Self::orders_from(order);
        self.trees.get(tree).into_iter().for_each(|word| _ = word.fetch_or(orders, SeqCst));
        if order >= G::ROW_ORDER {
            // Whoever frees rows loads the tree's word afterwards; this looks at all that was freed before.
            let has = |&child: &usize| self.has_rows(child, order);
            self.children_of(tree).filter(has).for_each(|child| self.can_be_had_whole(child));
            return;
        }
        let none = self.children_of(tree).fold(!0, |none, child| none & self.hint(child));
        self.tree_has(tree, orders & !u64::from(none));
    }

    /// Has a child a free block of `order`, at least a row's; or begins a pair with it?
    pub(crate) fn has_rows(&self, child: usize, order: u32) -> bool {
        if order > G::HUGE_ORDER {
            return child.is_multiple_of(2) && self.is_free_pair(child);
        }
        child::free_run::<G>(self.whole_states(child), order - G::ROW_ORDER).is_some()
    }

    /// A search has found no child of a tree rich.
    pub(crate) fn tree_is_poor(&self, tree: usize) {
        let Some(word) = self.trees.get(tree) else { return };
        let _ = word.fetch_and(!RICH, SeqCst);
        if self.children_of(tree).any(|child| self.is_rich_child(child)) {
            let _ = word.fetch_or(RICH, SeqCst);
        }
    }

    // ---- Which tree ----

    /// The children of a tree.
    pub(crate) fn children_of(&self, tree: usize) -> core::ops::Range<usize> {
        let first = tree * G::TREE;
        first..(first + G::TREE).min(self.children.len())
    }

    /// A tree that may have a block of `order`, and that is rich, if that is asked for: of the next few from `from` on the most
    /// used; of those in which a slot allocates only if there is no other. The most used keep what is free in large blocks,
    /// where those with the fewest holes do not.
    pub(crate) fn choose(&self, order: u32, rich: bool, from: usize) -> Option<usize> {
        let must = if rich { RICH } else { 0 };
        let (before, after) = self.trees.split_at_checked(from).unwrap_or_default();
        let words = after.iter().zip(from..).chain(before.iter().zip(0..));
        let words = words.map(|(word, tree)| (tree, load(Some(word))));
        let fit = words.filter(|&(_, word)| word & 1 << order == 0 && word & must == must);
        let unbroken =
            u64::from(order >= G::ROW_ORDER) << (UNBROKEN + order.saturating_sub(G::ROW_ORDER));
        let score = |word: u64| (word & IN_USE == 0, word & unbroken == 0, (word >> USE) as i32);
        let best = |best: Option<(usize, u64)>, next: (usize, u64)| match best {
            Some(best) if score(best.1) >= score(next.1) => Some(best),
            _ => Some(next),
        };
        // A free huge frame is as good as another.
        let few = if order < G::HUGE_ORDER { CANDIDATES } else { 1 };
        fit.take(few).fold(None, best).map(|(tree, _)| tree)
    }

    /// The same of rich trees; where the zone has none, it says so.
    pub(crate) fn choose_rich(&self, order: u32, from: usize) -> Option<usize> {
        self.slots.set_poor(1 << order);
        let found = self.choose(order, true, from);
        if found.is_some() {
            self.slots.set_rich(1 << order);
        }
        found
    }

    /// Are there children of a tree that are in use in part, and have a block of `order`, at least a row's? No is but a hint.
    pub(crate) fn may_be_broken(&self, tree: usize, order: u32) -> bool {
        order < G::HUGE_ORDER && self.tree(tree) & 1 << (UNBROKEN + order - G::ROW_ORDER) == 0
    }

    /// A search has found none.
    pub(crate) fn is_unbroken(&self, tree: usize, order: u32) {
        let bit = 1 << (UNBROKEN + order - G::ROW_ORDER);
        self.trees.get(tree).into_iter().for_each(|word| _ = word.fetch_or(bit, SeqCst));
    }

    /// A slot leaves a tree for another.
    pub(crate) fn moves(&self, from: usize, to: usize) {
        if from != to {
            let word = |tree: usize| self.trees.get(tree).into_iter();
            word(from).for_each(|word| _ = word.fetch_and(!IN_USE, SeqCst));
            word(to).for_each(|word| _ = word.fetch_or(IN_USE, SeqCst));
        }
    }

    fn add_use(&self, tree: usize, samples: i64) {
        if samples != 0 {
            let change = (samples as u64) << USE;
            self.trees.get(tree).into_iter().for_each(|word| _ = word.fetch_add(change, SeqCst));
        }
    }

    /// A block of `order`, below a row's, was allocated or freed.
    #[inline(always)]
    pub(crate) fn count_bits(&self, row: usize, at: usize, order: u32, allocated: bool) {
        if at >> order == G::SAMPLE >> order {
            self.add_use(row / G::ROWS / G::TREE, if allocated { 1 } else { -1 });
        }
    }

    /// Rows were allocated, or freed, which had these states.
    #[inline(always)]
    pub(crate) fn count_rows(&self, child: usize, part: Part, states: u64, allocated: bool) {
        let stands = child % STANDS_FOR == 3 && part.rows().contains(&row_sample::<G>());
        if !stands && (allocated || part.is(states, TAKEN)) {
            return;
        }
        let whole = Self::weight(child, row_sample::<G>());
        if allocated {
            return self.add_use(child / G::TREE, whole);
        }
        let split = part.rows().filter(|&row| child::state(states, row) == OPEN);
        let sampled = stands && child::state(states, row_sample::<G>()) == TAKEN;
        let whole = if sampled { whole } else { 0 };
        self.add_use(child / G::TREE, -whole - split.count() as i64);
    }

    /// A huge frame and the next were allocated.
    pub(crate) fn count_pair(&self, child: usize) {
        let children = [child, child + 1].into_iter();
        children.for_each(|child| self.count_rows(child, Part::whole::<G>(), 0, true));
    }

    /// A row that was taken is open now, with no frame free.
    pub(crate) fn count_split(&self, row: usize) {
        let (child, row) = (row / G::ROWS, row % G::ROWS);
        self.add_use(child / G::TREE, 1 - Self::weight(child, row));
    }

    /// What a row that is taken counts.
    const fn weight(child: usize, row: usize) -> i64 {
        if child % STANDS_FOR == 3 && row == row_sample::<G>() {
            (STANDS_FOR * G::ROWS) as i64
        } else {
            0
        }
    }
}
