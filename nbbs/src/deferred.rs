//! Releases that are put off: a slot that frees what it allocated last is about to allocate again.
//!
//! ```text
//!   root  ▲ occupied     free: the cell becomes zero; the slot keeps   settle: the release, by
//!   …     │ occupied           the cell, the way up stays as it is     whoever wants all that is free
//!   cell  ● 0            alloc: finds the cell, and its way up marked
//! ```
//!
//! In a tree that is otherwise empty, an allocation and its free would write every cell up to the root, and
//! clear them all again. Here the pair writes the block's own cell twice. The free leaves the branches
//! above as they are, and the slot keeps the cell. The next allocation climbs through branches that say
//! *occupied* already.
//!
//! To all other calls this is a release that has not begun yet. Until it has ended, it hides the nodes
//! above from allocations of their own size, and nothing else. A slot keeps one cell at most. A call that
//! does not find what it looks for *settles*: it takes the cells of all slots, releases them, and looks
//! again. A search looks again even if there was nothing to settle, because another call may have settled
//! between the first look and the look at the slots.
//!
//! Any call may settle any cell, in use or not. A release looks for itself whether the cell is zero, and
//! does not ask who made it zero (`climb.rs`, invariant 3). While a call settles, it hides what its
//! releases hide, also if it stops there.
//!
//! # Invariants
//! 1. *What is put off is done.* A call that makes a cell zero releases it, or leaves it with a slot. A
//!    call that takes a cell from a slot releases it. A call that finds its cell with the slot already has
//!    nothing to do: it loads the slot's word after the cell became zero, so the call that takes the cell
//!    away later finds it zero, or in use by another call.
//! 2. *What is free is found* (`climb.rs`, 5), once all slots are settled.

use woodlot_frame::Geometry;

use crate::Nbbs;
use crate::forest::Forest;
use crate::form::Form;
use crate::search::Found;
use crate::shape::{Cell, Node, Shape};

impl<G: Geometry, F: Form> Nbbs<'_, G, F> {
    /// Takes a free block, looking from this offset on; and was another call in the way?
    #[inline(always)]
    pub(crate) fn find(&self, order: u32, from: usize) -> Option<(Node, bool)> {
        self.forest.search(order, from).or_else(|| self.find_settled(order, from))
    }

    /// The same after all slots are settled.
    #[cold]
    #[inline(never)]
    fn find_settled(&self, order: u32, from: usize) -> Option<(Node, bool)> {
        self.settle();
        self.forest.search(order, from)
    }

    /// Takes this very block. It looks first whether the block lies in another one, to leave no marks then. It does
    /// not try again where there was nothing to settle: a block that another call is just releasing is in use.
    pub(crate) fn claim(&self, node: Node, flags: u64) -> bool {
        let above = self.forest.block_above(Shape::<G, F>::place(node).cell);
        let take = || self.forest.take(node, flags).is_ok();
        above.is_none() && (take() || self.settle() && take())
    }

    /// Frees a block; false if there is no such block. If the slot has allocated that block last, its release is
    /// put off.
    #[inline(always)]
    pub(crate) fn give(&self, node: Node, slot: usize) -> bool {
        !self.forest.lies_in_block(node)
            && match self.slots.hint(slot) == node.start() {
                true => self.free_later(node, slot),
                false => self.forest.free(node, 0),
            }
    }

    #[inline(always)]
    pub(crate) fn free_later(&self, node: Node, slot: usize) -> bool {
        let cell = Shape::<G, F>::place(node).cell;
        let left = self.forest.clear(node, 0);
        if left == Some(0) {
            self.put_off(cell, slot);
        }
        if left.is_some() {
            self.forest.unspend(node);
        }
        left.is_some()
    }

    /// The slot keeps a cell that this call has made zero.
    #[inline(always)]
    pub(crate) fn put_off(&self, cell: Cell, slot: usize) {
        if self.slots.late(slot) != Some(cell)
            && let Some(before) = self.slots.swap_late(slot, Some(cell))
        {
            self.forest.release_late(before);
        }
    }

    /// Releases what a slot has put off; was there anything?
    pub(crate) fn settle_slot(&self, slot: usize) -> bool {
        let late = self.slots.late(slot).and_then(|_| self.slots.swap_late(slot, None));
        if let Some(cell) = late {
            self.forest.release_late(cell);
        }
        late.is_some()
    }

    /// Releases what all slots have put off; was there anything?
    #[cold]
    #[inline(never)]
    pub(crate) fn settle(&self) -> bool {
        (0..self.zone.slots).filter(|&slot| self.settle_slot(slot)).count() > 0
    }

    /// Does `is` hold now, or after all slots are settled?
    pub(crate) fn now_or_settled(&self, is: impl Fn() -> bool) -> bool {
        is() || {
            self.settle();
            is()
        }
    }

    /// Is there a free block, looking from this offset on?
    pub(crate) fn has(&self, order: u32, from: usize) -> bool {
        self.now_or_settled(|| matches!(self.forest.look(order, from), Found::Block(..)))
    }
}

impl<G: Geometry, F: Form> Forest<'_, G, F> {
    /// A release that was put off: of a cell that may be in use again.
    #[inline(never)]
    pub(crate) fn release_late(&self, cell: Cell) {
        self.release(cell);
        self.unspend(Shape::<G, F>::owner(cell));
    }
}
