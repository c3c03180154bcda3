//! What calls that stopped half-way have hidden in the volatile part, by the durable part.
//!
//! ```text
//!   durable    rows, states                       what is free
//!   volatile   counters, reservations, trees      what can be had
//! ```
//!
//! While no call is under way, the two say the same. A call that never goes on leaves a difference: the credits
//! that it had in its hands, a tree that it had not told of them, or one that it had reserved for nobody. A recovery
//! computes the volatile part anew, and so nothing is hidden after it.

use woodlot_frame::{FrameAllocator, Geometry, Persistence};

use crate::LLFree;
use crate::lower::Start;
use crate::record::End;
use crate::tree::Tree;

/// What is hidden, besides the blocks that a call had allocated and nobody got.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Hidden {
    /// Frames that are free and that nobody can allocate.
    pub frames: usize,
    /// Trees that are not what their words say: their credits are found late, or slots keep away from them.
    pub trees: usize,
    /// Calls of several writes, each of a slot, that were cut off: a recovery takes them back, or brings them to their end,
    /// by the slots' [intents](woodlot_frame::Intents).
    pub cut_off: usize,
}

impl Hidden {
    /// Is the volatile part what the durable part says?
    pub fn is_nothing(&self) -> bool {
        *self == Hidden::default()
    }
}

impl<G: Geometry, P: Persistence> LLFree<'_, G, P> {
    /// What calls have hidden that will never go on, since their process died in the middle. Exact while no call is
    /// under way; otherwise it counts what those calls have in their hands as well.
    ///
    /// # Progress
    /// Linear in the durable part. As [`stats`](FrameAllocator::stats) it makes the approximate count of free frames
    /// good.
    pub fn hidden(&self) -> Hidden {
        let stats = self.stats();
        let durable = self.start_trees(0..self.trees.len(), Start::Inspect);
        Hidden {
            frames: durable.free_frames.saturating_sub(stats.free_frames + stats.isolated_frames),
            trees: (0..self.trees.len()).filter(|&tree| !self.is_true(tree)).count(),
            cut_off: self.last_operations().filter(|last| last.end == End::UnderWay).count(),
        }
    }

    /// Does the entry of a tree say what its children have, and is it reserved for somebody if at all?
    fn is_true(&self, tree: usize) -> bool {
        let entry = self.tree(tree);
        let follow =
            |tree: Tree, huge| tree.follow::<G>(huge % G::TREE_HUGE, 0, self.lower.credits(huge));
        let children = self.children(tree).fold(Tree::new(entry.class()), follow);
        let known = children.children() & !entry.children() == 0;
        let reserved = || self.reservations().any(|word| self.read(word).owns(tree));
        known && children.quarters() == entry.quarters() && (!entry.is_reserved() || reserved())
    }
}
