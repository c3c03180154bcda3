//! What must hold of a forest: in every state, and when every call has returned.

use std::vec::Vec;

use woodlot_frame::{FrameAllocator, Geometry, Order};

use super::script::{Doing, State};
use super::world::{Cells, World};
use super::{Block, Op, std};
use crate::field::{self, Branch, is_block};
use crate::forest::Kind;
use crate::shape::{Cell, Node, Shape};

/// The threads' calls are under way, or have all returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum When {
    #[cfg_attr(woodlot_loom, expect(dead_code, reason = "for the explorer"))]
    UnderWay,
    Returned,
}

impl<G: Geometry, F: Cells> World<G, F> {
    /// Judges the forest with these threads.
    pub(super) fn judge(&self, states: &[&State], when: When) {
        let owned = self.judge_owners(states);
        for &block in &owned {
            self.judge_way_up(block);
        }
        let contested = self.contested();
        if when == When::Returned {
            self.judge_freed(states, &contested);
            let free = self.frames() - owned.iter().map(|block| 1 << block.1).sum::<usize>();
            let gone: Vec<_> = states.iter().flat_map(|state| state.freed.clone()).collect();
            let kept = contested.iter().filter(|block| !gone.contains(block));
            let free = free - kept.map(|block| 1 << block.1).sum::<usize>();
            let found = self.zone.forest.tally_all().free;
            assert_eq!(found, free, "free frames by the tree and by their owners");
            self.zone.settle();
            self.judge_branches();
        }
        if cfg!(woodlot_explore) {
            self.judge_crash(&owned, states, &contested);
        }
    }

    fn frames(&self) -> usize {
        self.scenario.roots << G::MAX_ORDER
    }

    /// Blocks that several threads free.
    fn contested(&self) -> Vec<Block> {
        let ops = self.scenario.threads.iter().flat_map(|script| script.ops);
        let mut blocks: Vec<_> = ops
            .filter_map(|op| match *op {
                Op::FreeAgain(at, order) => Some(Block(at, order)),
                _ => None,
            })
            .collect();
        blocks.dedup();
        blocks
    }

    /// No frame has two owners. Returns all that is owned.
    fn judge_owners(&self, states: &[&State]) -> Vec<Block> {
        let contested = self.contested();
        let mut owned: Vec<Block> =
            self.background.iter().filter(|block| !contested.contains(block)).copied().collect();
        for block in states.iter().flat_map(|state| &state.owned) {
            let other = owned.iter().find(|other| other.meets(*block));
            assert!(other.is_none(), "{block:?} and {other:?} are both owned");
            owned.push(*block);
        }
        owned
    }

    /// The block is there, and every node above knows of it.
    fn judge_way_up(&self, block: Block) {
        let kind = self.zone.forest.kind(block.node());
        assert!(matches!(kind, Kind::Block { .. }), "{block:?} is owned, and is {kind:?}");
        let mut cell = Shape::<G, F>::place(block.node()).cell;
        while let Some((above, branch)) = Shape::<G, F>::above(cell) {
            let value = self.zone.forest.load(above);
            assert!(!is_block(branch.field(value)), "{block:?} is owned, and lies in a block");
            let state = branch.state(value);
            assert!(state != field::State::Free, "the way up from {block:?} is cleared");
            cell = above;
        }
    }

    /// With slots settled, there are no marks, and every branch says what is below it.
    fn judge_branches(&self) {
        let shape = &self.zone.forest.shape;
        let below_top = (0..Shape::<G, F>::TOP).flat_map(|group| {
            let roots = (0..shape.roots).map(|index| Node { order: G::MAX_ORDER, index });
            roots.flat_map(move |root| {
                Shape::<G, F>::below(root, group).map(move |number| Cell { group, number })
            })
        });
        for cell in below_top {
            let (above, branch): (Cell, Branch) =
                Shape::<G, F>::above(cell).expect("below the top");
            let state = branch.state(self.zone.forest.load(above));
            let due = match self.zone.forest.load(cell) {
                0 => field::State::Free,
                _ => field::State::Occupied,
            };
            assert_eq!(state, due, "the branch above {cell:?}, with no call under way");
        }
    }

    /// Of several frees of one block one succeeded.
    fn judge_freed(&self, states: &[&State], contested: &[Block]) {
        for block in contested {
            let freed = states.iter().flat_map(|state| &state.freed);
            let times = freed.filter(|freed| *freed == block).count();
            assert_eq!(times, 1, "so often was {block:?} freed");
        }
    }

    /// What a recovery finds is what is owned, up to one operation of each thread. Only for the
    /// explorer, which forgets the recovery afterwards.
    fn judge_crash(&self, owned: &[Block], states: &[&State], contested: &[Block]) {
        let recovered = self.after_a_crash();
        self.judge_branches();
        let free = recovered.forest.tally_all().free;
        assert_eq!(recovered.free_frames(), free, "free frames by the count and by the tree");
        assert_eq!(recovered.is_available(Order(0)), free > 0, "of {free} frames one is available");
        let mut found = Vec::new();
        for index in 0..self.scenario.roots {
            self.blocks(Node { order: G::MAX_ORDER, index }, &mut found);
        }
        let lost = owned.iter().find(|block| !found.contains(block));
        assert!(lost.is_none(), "{lost:?} is owned, and not recovered");
        let mut doing: Vec<_> = states.iter().filter_map(|state| state.doing).collect();
        for block in found {
            if owned.contains(&block) || contested.contains(&block) {
                continue;
            }
            let exactly = doing.iter().position(|doing| *doing == Doing::Block(block));
            let taking = || doing.iter().position(|doing| *doing == Doing::Taking(block.1));
            let by = exactly.or_else(taking);
            doing.swap_remove(by.unwrap_or_else(|| panic!("{block:?} is nobody's, and recovered")));
        }
    }

    /// The blocks in a node.
    fn blocks(&self, node: Node, found: &mut Vec<Block>) {
        match self.zone.forest.kind(node) {
            Kind::Free => {}
            Kind::Block { .. } => found.push(Block::of(node)),
            Kind::Parts => node.halves().into_iter().for_each(|half| self.blocks(half, found)),
        }
    }

    /// Allocates blocks of `order` until there are no more, and looks that this is so. Only for the
    /// explorer, which forgets it afterwards.
    #[cfg(woodlot_explore)]
    pub(super) fn exhaust(&self, order: u32) {
        let forest = &self.zone.forest;
        let nodes = (0..self.frames() >> order).map(|index| Node { order, index });
        let free = nodes.filter(|&node| forest.tally(node).free == 1 << order).count();
        let taken = std::iter::from_fn(|| self.zone.find(order, 0)).take(free + 1).count();
        assert_eq!(taken, free, "free blocks of order {order}, and those that can be allocated");
    }
}
