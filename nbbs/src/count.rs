//! What the tree says: how much of it is free, offline, in use, counted node by node.
//!
//! Counting descends only where a node is in use in part, so that it takes time in proportion to the
//! blocks in use, and none for what is below a block. What other calls do meanwhile may be seen in
//! part.

use core::ops::Add;

use woodlot_frame::Geometry;

use crate::forest::{Forest, Kind};
use crate::form::Form;
use crate::shape::Node;

/// Frames of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) free: usize,
    pub(crate) offline: usize,
}

impl Add for Tally {
    type Output = Tally;

    fn add(self, other: Tally) -> Tally {
        Tally { free: self.free + other.free, offline: self.offline + other.offline }
    }
}

impl<G: Geometry, F: Form> Forest<'_, G, F> {
    /// Counts a node, wherever it lies.
    pub(crate) fn tally(&self, node: Node) -> Tally {
        match self.kind_within(node) {
            Kind::Parts => self.tally_halves(node),
            kind => Self::tally_whole(node, kind),
        }
    }

    fn tally_whole(node: Node, kind: Kind) -> Tally {
        let frames = 1 << node.order;
        match kind {
            Kind::Free => Tally { free: frames, offline: 0 },
            Kind::Block { offline: true } => Tally { free: 0, offline: frames },
            Kind::Block { offline: false } | Kind::Parts => Tally::default(),
        }
    }

    fn tally_halves(&self, node: Node) -> Tally {
        if node.order == 0 {
            return Tally::default();
        }
        let [left, right] = node.halves().map(|half| match self.kind(half) {
            Kind::Parts => self.tally_halves(half),
            kind => Self::tally_whole(half, kind),
        });
        left + right
    }

    /// Counts the forest.
    pub(crate) fn tally_all(&self) -> Tally {
        let roots = 0..self.shape.roots;
        let roots = roots.map(|index| self.tally(Node { order: G::MAX_ORDER, index }));
        roots.fold(Tally::default(), Tally::add)
    }
}
