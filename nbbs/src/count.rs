//! Counts of the tree, node by node: how much is free, how much is offline, whether a node is in use.
//!
//! Counting descends only where a node is in use in part. So it takes time in proportion to the blocks in
//! use, and none for the nodes below a block. A count beside other calls may see a part of what they do.

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

impl Tally {
    /// All of a node that is of one kind.
    fn of(node: Node, kind: Kind) -> Tally {
        let frames = 1 << node.order;
        match kind {
            Kind::Free => Tally { free: frames, offline: 0 },
            Kind::Block { offline: true } => Tally { free: 0, offline: frames },
            Kind::Block { offline: false } | Kind::Parts => Tally::default(),
        }
    }
}

impl<G: Geometry, F: Form> Forest<'_, G, F> {
    /// Calls `each` with the largest nodes inside of one, wherever that lies, that are of one kind.
    fn walk(&self, node: Node, each: &mut impl FnMut(Node, Kind)) {
        match self.kind_within(node) {
            Kind::Parts => self.walk_halves(node, each),
            kind => each(node, kind),
        }
    }

    fn walk_halves(&self, node: Node, each: &mut impl FnMut(Node, Kind)) {
        if node.order == 0 {
            return;
        }
        for half in node.halves() {
            match self.kind(half) {
                Kind::Parts => self.walk_halves(half, each),
                kind => each(half, kind),
            }
        }
    }

    /// Counts a node.
    pub(crate) fn tally(&self, node: Node) -> Tally {
        let mut tally = Tally::default();
        self.walk(node, &mut |part, kind| tally = tally + Tally::of(part, kind));
        tally
    }

    /// Which frames of a node of at most 64 are free: bit *i* stands for the *i*-th.
    pub(crate) fn free_map(&self, node: Node) -> u64 {
        let mut map = 0;
        self.walk(node, &mut |part, kind| {
            if kind == Kind::Free {
                map |= (!0 >> (64 - (1u32 << part.order))) << (part.start() - node.start());
            }
        });
        map
    }

    /// Counts the forest.
    pub(crate) fn tally_all(&self) -> Tally {
        let roots = 0..self.shape.roots;
        let roots = roots.map(|index| self.tally(Node { order: G::MAX_ORDER, index }));
        roots.fold(Tally::default(), Tally::add)
    }
}
