//! The two ways up: an allocation's climb, and a release.
//!
//! After *A Non-blocking Buddy System for Scalable Memory Allocation on Multi-core Machines*
//! (Marotta et al.), section II.
//!
//! ```text
//!   climb, from a block just occupied           release, from a cell just become zero
//!
//!   root  ▲  occupied?  no: the block is mine   root  ▲  zero now?  no: stop
//!         │  yes: undo, and look behind it            │     3  free         (the cell below is zero)
//!   …     │  branch := occupied, or contested   …     │     2  look below: still zero?
//!   block ●  occupied                           cell  ●     1  coalescent   (a mark of mine alone)
//! ```
//!
//! # Where the paper is not followed, and why
//! The paper's release marks all branches up to the first buddy in use, then frees the node, then
//! clears each mark on its way up, if it is still there. A mark there belongs to nobody: a
//! releaser *R* that has found a node free and is about to clear the branch above may be delayed;
//! *B* allocates below and frees again, marking that branch anew; *N* has meanwhile allocated beside
//! *B* and passed it before the mark. *R* sees a mark, takes it for its own, and clears the branch
//! over *N*'s block, whose memory is then handed out a second time (`cargo xtask mutants --only shared_marks`).
//!
//! So here a mark belongs to the one call that made it, which marks a branch only when the cell
//! below has become zero, looks at it again, and clears mark and branch together. Who comes by in
//! between, up or down, *contests* the mark instead of removing it: its owner then looks again. The
//! three phases (mark, free, clear) are those of the paper, a level at a time: what a level frees
//! is the cell below the next.
//!
//! The paper's allocation that fails releases what it took up to where it failed. Here it releases
//! as any other does: what it marked as occupied on its way may be all that is left by then
//! (`undo_stops_below`).
//!
//! # Invariants
//! 1. A field is occupied only by a write that found it zero, and while it is occupied nothing
//!    else is written to it but whether it is offline: it has no branches (`field.rs`).
//! 2. *A mark has one owner.* A branch becomes coalescent or contested only by a call that finds
//!    it occupied, and stays so until this very call clears it. All others only contest.
//! 3. *Nobody's way up is cleared.* From when a climb has passed a branch until the cells below it
//!    are given back by the one who climbed, the branch is not free. It becomes free only by its
//!    mark's owner, who found the cell below zero after the branch had become coalescent, and the
//!    branch still coalescent. The climber had filled the cell before it came to the branch. Was it
//!    there before the branch became coalescent, the owner finds the cell filled. Was it there
//!    after that, it contested. It comes later, then the branch is free when it comes, and it
//!    occupies it. (By induction over the levels the cell below stays filled.)
//! 4. *No two blocks overlap.* Of two blocks, one within the other, the inner one's climb either
//!    passes the outer node before that is occupied; then its field is not zero until the inner one
//!    is freed (3). Or it comes after that, and fails.
//! 5. *What is free is found.* With no call under way and no release put off there are no marks, and a branch is occupied
//!    exactly if the cell below it is not zero: who made that cell zero went on to the branch, and
//!    cleared it, or contested a mark whose owner then looked again.
//!
//! # Progress
//! Lock-free. A swap fails because another call's succeeded. An owner looks again only if its mark
//! was contested, which every call does a bounded number of times. Nobody waits for a mark to go: a
//! call that stops for ever in a release hides the nodes above its mark from allocations as large
//! as they are, and nothing else.
//!
//! # Crash
//! The occupied fields are the truth; branches are recomputed (`init.rs`). Of a block and another
//! one within it the inner one's allocation has not succeeded.

use woodlot_frame::Geometry;

use crate::field::{Branch, State, is_block};
use crate::forest::Forest;
use crate::form::Form;
use crate::shape::{Cell, Node, Shape};

impl<G: Geometry, F: Form> Forest<'_, G, F> {
    /// Makes it known to every node above a cell that something in it is in use.
    ///
    /// # Errors
    /// The block that the cell lies in. What was made known then stays, for a release.
    #[inline(always)]
    pub(crate) fn climb(&self, mut cell: Cell) -> Result<(), Node> {
        while let Some((above, branch)) = Shape::<G, F>::above(cell) {
            self.pass(cell, above, branch)?;
            cell = above;
        }
        Ok(())
    }

    #[inline(always)]
    fn pass(&self, cell: Cell, above: Cell, branch: Branch) -> Result<(), Node> {
        let mut value = self.load(above);
        loop {
            if is_block(branch.field(value)) {
                return Err(Self::block_at(cell, branch.field(value)));
            }
            let next = match branch.state(value) {
                State::Free => State::Occupied,
                State::Coalescent => State::Contested,
                State::Occupied | State::Contested => return Ok(()),
            };
            match self.swap(above, value, branch.with(value, next)) {
                Ok(()) => return Ok(()),
                Err(now) => value = now,
            }
        }
    }

    /// Makes known what became free above a cell that this call has made zero.
    #[inline(always)]
    pub(crate) fn release(&self, mut cell: Cell) {
        while let Some((above, branch)) = Shape::<G, F>::above(cell) {
            if !self.own(above, branch) || self.settle(cell, above, branch) != Some(0) {
                return;
            }
            cell = above;
        }
    }

    /// Marks a branch as coalescent; false where it is free already, or its mark is another's, who
    /// is told to look again.
    #[inline(always)]
    fn own(&self, above: Cell, branch: Branch) -> bool {
        let mut value = self.load(above);
        loop {
            let next = match branch.state(value) {
                State::Occupied => State::Coalescent,
                State::Coalescent => State::Contested,
                State::Free | State::Contested => return false,
            };
            match self.swap(above, value, branch.with(value, next)) {
                Ok(()) => return next == State::Coalescent,
                Err(now) => value = now,
            }
        }
    }

    /// Takes this call's mark away, and the branch with it if the cell below is zero; the value
    /// that the cell above has then, if the branch has become free.
    #[inline(always)]
    fn settle(&self, cell: Cell, above: Cell, branch: Branch) -> Option<u64> {
        let mut zero = self.load(cell) == 0;
        let mut value = self.load(above);
        loop {
            let contested = branch.state(value) == State::Contested;
            let next = match (contested, zero) {
                (true, _) => State::Coalescent,
                (false, true) => State::Free,
                (false, false) => State::Occupied,
            };
            let to = branch.with(value, next);
            match self.swap(above, value, to) {
                Ok(()) if contested => {
                    zero = self.load(cell) == 0;
                    value = to;
                }
                Ok(()) => return zero.then_some(to),
                Err(now) => value = now,
            }
        }
    }
}
