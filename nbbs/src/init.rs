//! How a zone is made: the forest that covers it, the frames outside, and recovery.
//!
//! ```text
//!   base       start                              end
//!   ├── root ──┼── root ──┼── root ──┼── root ─────┼──┤
//!   ▓▓▓▓▓▓▓▓▓▓▓                                    ▓▓▓     outside: occupied for ever
//! ```
//!
//! The forest begins with the first frame of the zone, rounded down to a block of the largest order, so
//! that buddies are found by their numbers. Frames of the forest that lie outside the zone are occupied, in
//! the largest blocks that fit. No free reaches them, because every free is checked against the zone.
//!
//! # Recovery
//! The tree *is* the state, and all of it is durable. A recovery accepts any bytes, and believes occupied
//! fields from the roots down. A block within a larger block had not been allocated, and goes. A block that
//! reaches across an end of the zone goes, and its halves are looked at. Everything else follows.

use core::ops::Range;

use woodlot_frame::{Geometry, InitError, Order, ZoneConfig};

use crate::field::{BITS, Branch, OFFLINE, State, is_block, mask, pattern};
use crate::forest::Forest;
use crate::form::Form;
use crate::shape::{Cell, Node, Shape};

/// The most slots.
const MAX_SLOTS: usize = 1 << 16;
/// The most frames: cells of two for each frame can be counted.
const MAX_FRAMES: usize = 1 << (usize::BITS - 8);

/// The forest over a zone.
#[derive(Clone, Copy)]
pub(crate) struct Ground {
    /// The number of the forest's first frame.
    pub(crate) base: usize,
    pub(crate) roots: usize,
    /// Where the zone begins and ends in it.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Ground {
    /// # Errors
    /// What is wrong with the zone.
    pub(crate) fn of<G: Geometry>(zone: &ZoneConfig) -> Result<Self, InitError> {
        zone.check(MAX_FRAMES, MAX_SLOTS)?;
        let start = zone.start.0 & (G::MAX_FRAMES - 1);
        let end = start + zone.frames;
        Ok(Ground { base: zone.start.0 - start, roots: end.div_ceil(G::MAX_FRAMES), start, end })
    }

    /// Is all of the node outside the zone?
    fn outside(&self, node: Node) -> bool {
        node.end() <= self.start || node.start() >= self.end
    }

    fn inside(&self, node: Node) -> bool {
        node.start() >= self.start && node.end() <= self.end
    }
}

impl<G: Geometry, F: Form> Forest<'_, G, F> {
    /// Everything free but what is outside. Nobody else uses the forest yet.
    pub(crate) fn start_free(&self, ground: &Ground) {
        self.cells.iter().for_each(|atom| F::store(atom, 0));
        self.occupy(0..ground.start);
        self.occupy(ground.end..self.shape.frames());
    }

    /// Occupies frames in the largest blocks that fit.
    fn occupy(&self, range: Range<usize>) {
        let mut at = range.start;
        while at < range.end {
            let fits = (range.end - at).ilog2().min(G::MAX_ORDER);
            let node = Node::around(at, at.trailing_zeros().min(fits));
            // The node is free, so it is taken.
            let _ = self.take(node, 0);
            at = node.end();
        }
    }

    /// Makes the forest consistent, whatever it holds. Nobody else uses it yet.
    pub(crate) fn recover(&self, ground: &Ground) {
        for index in 0..self.shape.roots {
            self.rebuild(ground, Node { order: G::MAX_ORDER, index });
        }
    }

    /// Rebuilds what a node stands for; is anything of it in use?
    fn rebuild(&self, ground: &Ground, node: Node) -> bool {
        if ground.outside(node) {
            self.put_block(node, 0);
            return true;
        }
        if ground.inside(node)
            && let Some(flags) = self.claimed(node)
        {
            let huge = Order(node.order as u8) == Order::huge::<G>();
            self.put_block(node, if huge { flags } else { 0 });
            return true;
        }
        let place = Shape::<G, F>::place(node);
        if node.order == 0 {
            self.put(node, 0);
            return false;
        }
        let [left, right] = node.halves();
        let [left, right] = [self.rebuild(ground, left), self.rebuild(ground, right)];
        // Where the halves are cells of their own, the node has branches.
        if place.size == 0 {
            let branches = [left, right].into_iter().enumerate().fold(0, |field, (side, used)| {
                let state = if used { State::Occupied } else { State::Free };
                Branch::new(0, side).with(field, state)
            });
            self.put(node, branches << (place.first as u32 * BITS));
        }
        left || right
    }

    /// Do the node's fields say that it is a block? If so, its flags. A single occupied field is a
    /// block whatever its size says: better lost than handed out twice.
    fn claimed(&self, node: Node) -> Option<u64> {
        let place = Shape::<G, F>::place(node);
        let fields = self.load(place.cell) & mask(place.first, place.size);
        let single = fields >> (place.first as u32 * BITS);
        if place.size == 0 {
            return is_block(single).then_some(single & OFFLINE);
        }
        [0, OFFLINE].into_iter().find(|&flags| fields == pattern(place.first, place.size, flags))
    }

    /// Writes a node's fields.
    fn put(&self, node: Node, fields: u64) {
        let place = Shape::<G, F>::place(node);
        let others = self.load(place.cell) & !mask(place.first, place.size);
        self.set(place.cell, others | fields);
    }

    fn put_block(&self, node: Node, flags: u64) {
        let place = Shape::<G, F>::place(node);
        self.put(node, pattern(place.first, place.size, flags));
        for group in 0..place.cell.group {
            for number in Shape::<G, F>::below(node, group) {
                self.set(Cell { group, number }, 0);
            }
        }
    }

    fn set(&self, cell: Cell, value: u64) {
        let atom = self.cells.get(self.shape.index(cell)).into_iter();
        atom.for_each(|atom| F::store(atom, value));
    }
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use woodlot_frame::{Base4K, FrameId};

    #[test]
    fn the_largest_zone_and_the_most_slots() {
        let of = |start, frames, slots| {
            let zone = ZoneConfig::new(frames, slots).starting_at(FrameId(start));
            Ground::of::<Base4K>(&zone).map(|ground| ground.roots)
        };
        let roots = MAX_FRAMES >> Base4K::MAX_ORDER;
        assert_eq!(of(0, MAX_FRAMES, MAX_SLOTS), Ok(roots));
        assert_eq!(of(0, MAX_FRAMES + 1, 1), Err(InitError::ZoneTooLarge));
        assert_eq!(of(usize::MAX, 1, 1), Err(InitError::ZoneTooLarge));
        assert_eq!(of(0, 1, MAX_SLOTS + 1), Err(InitError::TooManySlots));
    }
}
