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
//! The paper's release marks all branches up to the first buddy in use, then frees the node, then clears
//! each mark on its way up, if the mark is still there. Such a mark belongs to nobody, and a delayed
//! release can clear too much:
//!
//! 1. The release *R* has found a node free, and stops before it clears the branch above.
//! 2. *B* allocates below that branch and frees again. This marks the branch anew.
//! 3. *N* has allocated beside *B* meanwhile, and passed the branch before the mark was made.
//! 4. *R* sees the mark of *B*, takes it for its own, and clears the branch over the block of *N*.
//!
//! The memory of *N* is then handed out a second time (`cargo xtask mutants --only shared_marks`).
//!
//! Here a mark belongs to the one call that made it. A release marks a branch only when the cell below has
//! become zero. It looks at that cell again, and then clears mark and branch together. A call that passes
//! the mark in between, up or down, *contests* the mark and does not remove it. The owner of the mark then
//! looks again. The three phases (mark, free, clear) are those of the paper, one level at a time: the free
//! of one level is the cell below the next.
//!
//! In the paper, an allocation that fails releases what it took up to the place where it failed. Here it
//! releases as every other call does, because its own marks may be all that is left on the way by then
//! (`undo_stops_below`).
//!
//! # Invariants
//! 1. A field becomes occupied only by a write that found it zero. While a field is occupied, nothing else
//!    is written to it but whether it is offline: an occupied field has no branches (`field.rs`).
//! 2. *A mark has one owner.* A branch becomes coalescent or contested only by a call that finds it
//!    occupied. The branch stays so until this very call clears it. All other calls only contest.
//! 3. *Nobody's way up is cleared.* A climb passes a branch. From then on, until the climber gives the
//!    cells below back, the branch is not free. Proof: only the owner of a mark makes a branch free. The
//!    owner found the cell below zero after the branch had become coalescent, and then found the branch
//!    still coalescent. The climber had filled the cell below before it came to the branch. There are three
//!    cases. If the climber came before the branch became coalescent, the owner finds the cell filled. If
//!    it came after that, it contested the mark. If it came later still, the branch was free, and the
//!    climber occupied it. By induction over the levels the cell below stays filled.
//! 4. *No two blocks overlap.* Take two blocks, one within the other. If the inner climb passes the outer
//!    node before that node is occupied, the outer node's field is not zero until the inner block is freed
//!    (3). If the inner climb comes later, it fails.
//! 5. *What is free is found.* If no call is under way and no release is put off, there are no marks, and a
//!    branch is occupied exactly if the cell below is not zero. For the call that made that cell zero went
//!    on to the branch. It cleared the branch, or it contested a mark, whose owner then looked again.
//!
//! # Progress
//! Lock-free. A swap fails because the swap of another call succeeded. An owner looks again only if its
//! mark was contested, and every call contests a bounded number of times. No call waits for a mark to go. A
//! call that stops for ever in a release hides the nodes above its mark from allocations of their own size,
//! and nothing else.
//!
//! # Crash
//! The occupied fields are the truth; a recovery computes the branches anew (`init.rs`). If a block lies
//! within another block, the allocation of the inner one had not succeeded.

use woodlot_frame::Geometry;

use crate::field::{Branch, State, is_block};
use crate::forest::Forest;
use crate::form::Form;
use crate::shape::{Cell, Node, Shape};

impl<G: Geometry, F: Form> Forest<'_, G, F> {
    /// Tells every node above a cell that something in the cell is in use.
    ///
    /// # Errors
    /// The block that the cell lies in. The marks made until then stay, for a release.
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

    /// Tells the nodes above a cell, which this call has made zero, what became free.
    #[inline(always)]
    pub(crate) fn release(&self, mut cell: Cell) {
        while let Some((above, branch)) = Shape::<G, F>::above(cell) {
            if !self.own(above, branch) || self.settle(cell, above, branch) != Some(0) {
                return;
            }
            cell = above;
        }
    }

    /// Marks a branch as coalescent. False if the branch is free already, or if it has another call's mark: that
    /// call is then told to look again.
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

    /// Takes this call's mark away, and the branch with it if the cell below is zero. Returns the value that the
    /// cell above has then, if the branch has become free.
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
