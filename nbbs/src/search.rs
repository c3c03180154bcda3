//! Where an allocation looks: from a hint on, once round the zone.
//!
//! ```text
//!   slot 0 ●───────────▶            slot 1 ●───────────▶        at first: apart from one another
//!   frames ░░░░▓▓▓▓░░▓░░░░░░░░░░░░░░░░░░░░░▓▓░░▓▓▓▓▓▓▓▓▓░░░░
//!              then: where the slot last found something
//! ```
//!
//! The nodes of an order are looked at one after the other (section II a), in the four-level form all
//! those of a cell at once. One that is free may still lie in a larger block: that is looked up
//! before anything is written, and the search goes on behind that block.
//!
//! # Progress
//! Bounded: at most [`ROUNDS`] times round. One round finds whatever was free all the time. Only if
//! another call was in the way of this one are there more, because what it held may be free now and
//! lie behind.

use woodlot_frame::Geometry;

use crate::field::first_free;
use crate::forest::{Forest, Taken};
use crate::form::Form;
use crate::shape::{Node, Shape};

/// How often a search goes round, at most.
const ROUNDS: usize = 3;

/// What came of a part of a round.
enum Found {
    Block(Node),
    /// None; and was another call in the way?
    None(bool),
}

impl<G: Geometry, F: Form> Forest<'_, G, F> {
    /// Takes a free block, looking from this offset on.
    #[inline(always)]
    pub(crate) fn search(&self, order: u32, from: usize) -> Option<Node> {
        let from = if from < self.shape.frames() { from } else { 0 };
        for _ in 0..ROUNDS {
            let mut lost = false;
            for (from, to) in [(from, self.shape.frames()), (0, from)] {
                match self.scan(order, from, to, |node| self.take(node, 0)) {
                    Found::Block(node) => return Some(node),
                    Found::None(here) => lost |= here,
                }
            }
            if !lost {
                return None;
            }
        }
        None
    }

    /// Is there a free block, looking from this offset on?
    pub(crate) fn has(&self, order: u32, from: usize) -> bool {
        let from = if from < self.shape.frames() { from } else { 0 };
        let parts = [(from, self.shape.frames()), (0, from)];
        parts
            .into_iter()
            .any(|(from, to)| matches!(self.scan(order, from, to, |_| Ok(())), Found::Block(_)))
    }

    /// Tries the free nodes of an order that begin in this range of offsets.
    #[inline(always)]
    fn scan(
        &self,
        order: u32,
        from: usize,
        to: usize,
        take: impl Fn(Node) -> Result<(), Taken>,
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
                Ok(()) => return Found::Block(node),
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
