//! The forest: cells and their shape, and blocks in them.
//!
//! One atomic write takes a block: it occupies the block's fields. A climb to the root then tells every
//! node above. One atomic write frees a block, and a release then tells the nodes above what became free.
//! `climb.rs` has both ways up, and the proof.
//!
//! Invariants:
//! 1. Every cell of the shape exists. Everything beyond the cells is occupied.
//! 2. An occupied field belongs to the call that wrote it until the climb of that call has ended well, and
//!    then to the caller. Nobody else clears it.

use woodlot_frame::Geometry;
use woodlot_frame::atomics::AtomicU8;

use crate::field::{OFFLINE, is_block, mask, pattern, size};
use crate::form::Form;
use crate::shape::{Cell, Node, Shape};

/// Why a block was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    /// Something is in use in the node itself.
    Used,
    /// The node lies in this block.
    Within(Node),
}

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Free, with all that is below it (unless it lies in a block).
    Free,
    /// A block, or in one.
    Block {
        /// That is taken out.
        offline: bool,
    },
    /// In use in part.
    Parts,
}

/// The cells of a zone.
pub(crate) struct Forest<'a, G: Geometry, F: Form> {
    pub(crate) cells: &'a [F::Atom],
    /// A byte for each root (`spent.rs`).
    pub(crate) spent: &'a [AtomicU8],
    pub(crate) shape: Shape<G, F>,
}

impl<G: Geometry, F: Form> Forest<'_, G, F> {
    #[inline(always)]
    pub(crate) fn load(&self, cell: Cell) -> u64 {
        self.cells.get(self.shape.index(cell)).map_or(u64::MAX, F::load)
    }

    #[inline(always)]
    pub(crate) fn swap(&self, cell: Cell, from: u64, to: u64) -> Result<(), u64> {
        match self.cells.get(self.shape.index(cell)) {
            Some(atom) => F::swap(atom, from, to),
            None => Err(u64::MAX),
        }
    }

    /// Takes the block that a node stands for; `flags` go into its fields. Returns whether another call was at the
    /// same cell at the same time.
    ///
    /// # Progress
    /// Lock-free: a swap fails only because another call changed the cell.
    #[inline(always)]
    pub(crate) fn take(&self, node: Node, flags: u64) -> Result<bool, Taken> {
        let place = Shape::<G, F>::place(node);
        let (mut value, mut crowded) = (self.load(place.cell), false);
        loop {
            if value & mask(place.first, place.size) != 0 {
                return Err(Taken::Used);
            }
            let next = value | pattern(place.first, place.size, flags);
            match self.swap(place.cell, value, next) {
                Ok(()) => break,
                Err(now) => (value, crowded) = (now, true),
            }
        }
        match self.climb(place.cell) {
            Ok(()) => Ok(crowded),
            Err(block) => {
                self.free(node, flags);
                Err(Taken::Within(block))
            }
        }
    }

    /// Frees the block that a node stands for; false where there is no such block with these
    /// flags, and nothing is changed.
    ///
    /// # Progress
    /// Lock-free.
    #[inline(always)]
    pub(crate) fn free(&self, node: Node, flags: u64) -> bool {
        let left = self.clear(node, flags);
        if left == Some(0) {
            self.release(Shape::<G, F>::place(node).cell);
        }
        if left.is_some() {
            self.unspend(node);
        }
        left.is_some()
    }

    /// Clears the fields of the block that a node stands for. Returns the value that its cell has then, or `None`
    /// if there is no such block with these flags. If the value is zero, the caller must release the cell.
    #[inline(always)]
    pub(crate) fn clear(&self, node: Node, flags: u64) -> Option<u64> {
        let place = Shape::<G, F>::place(node);
        let mask = mask(place.first, place.size);
        let mut value = self.load(place.cell);
        while value & mask == pattern(place.first, place.size, flags) {
            match self.swap(place.cell, value, value & !mask) {
                Ok(()) => return Some(value & !mask),
                Err(now) => value = now,
            }
        }
        None
    }

    /// Is a node a block with these flags, by its own fields?
    pub(crate) fn is_block(&self, node: Node, flags: u64) -> bool {
        let place = Shape::<G, F>::place(node);
        let fields = self.load(place.cell) & mask(place.first, place.size);
        fields == pattern(place.first, place.size, flags)
    }

    /// Changes the flags of a block; false where there is no such block with the old ones.
    pub(crate) fn mark(&self, node: Node, from: u64, to: u64) -> bool {
        let place = Shape::<G, F>::place(node);
        let mask = mask(place.first, place.size);
        let mut value = self.load(place.cell);
        while value & mask == pattern(place.first, place.size, from) {
            let next = value & !mask | pattern(place.first, place.size, to);
            match self.swap(place.cell, value, next) {
                Ok(()) => return true,
                Err(now) => value = now,
            }
        }
        false
    }

    /// The block that all of a cell lies in, if there is one above it. This only reads, so that an allocation that
    /// must fail leaves no marks. It stops where something beside the cell is in use, because then there is no
    /// such block.
    #[inline(always)]
    pub(crate) fn block_above(&self, mut cell: Cell) -> Option<Node> {
        while let Some((above, branch)) = Shape::<G, F>::above(cell) {
            let value = self.load(above);
            if is_block(branch.field(value)) {
                return Some(Self::block_at(cell, branch.field(value)));
            }
            if value != 0 {
                return None;
            }
            cell = above;
        }
        None
    }

    /// The block that the field above a cell is part of.
    #[inline(always)]
    pub(crate) fn block_at(cell: Cell, field: u64) -> Node {
        let owner = Shape::<G, F>::owner(cell);
        let levels = size(field);
        Node { order: owner.order + levels, index: owner.index >> levels }
    }

    /// What a node is, as far as its own fields say.
    pub(crate) fn kind(&self, node: Node) -> Kind {
        let place = Shape::<G, F>::place(node);
        let fields = self.load(place.cell) & mask(place.first, place.size);
        let first = fields >> (place.first as u32 * crate::field::BITS);
        match () {
            () if fields == 0 => Kind::Free,
            () if is_block(first) && size(first) >= place.size => {
                Kind::Block { offline: first & OFFLINE != 0 }
            }
            () => Kind::Parts,
        }
    }

    /// The same, also if it lies in a block above.
    pub(crate) fn kind_within(&self, node: Node) -> Kind {
        match self.field_over(Shape::<G, F>::place(node).cell) {
            Some(field) => Kind::Block { offline: field & OFFLINE != 0 },
            None => self.kind(node),
        }
    }

    /// Does a node lie in a block? An occupied node that lies in a block is no block: an allocation is there for a
    /// moment, until it finds the block above. A block that a caller owns or has taken out lies in no other
    /// (`climb.rs`, invariant 3).
    #[inline(always)]
    pub(crate) fn lies_in_block(&self, node: Node) -> bool {
        self.field_over(Shape::<G, F>::place(node).cell).is_some()
    }

    /// A field of the block that all of a cell lies in, whatever is in use beside the cell. If there are several
    /// such blocks, it is the largest: the others are occupied for a moment only.
    #[inline(always)]
    fn field_over(&self, mut cell: Cell) -> Option<u64> {
        let mut largest = None;
        while let Some((above, branch)) = Shape::<G, F>::above(cell) {
            let field = branch.field(self.load(above));
            if is_block(field) {
                largest = Some(field);
            }
            cell = above;
        }
        largest
    }
}
