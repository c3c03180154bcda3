//! One pair of huge frames of four base frames: split, join, and order H+1.
//!
//! Huge frame 0 is frames 0 to 3, huge frame 1 is frames 4 to 7; order 2 is a huge frame, order 3
//! a pair.

use super::Op::{Alloc, At, Free, FreeGot};
use super::*;

type Pair = Tiny<2, 2>;

const LOWER: Machine<Pair> = Machine::LOWER;

models! {
    /// Different parts of a whole huge frame are freed at once: one of them splits it.
    split_by_two = Scenario::new(LOWER, &[(0, At(0, 2))], &[
        thread!(at 0 owns [Block(0, 1)]: Free(0, 1)),
        thread!(at 0 owns [Block(2, 1)]: Free(2, 0), Free(3, 0)),
    ]);
    /// The same by three, the last of which closes it.
    split_by_three = Scenario::new(LOWER, &[(0, At(0, 2))], &[
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 0 owns [Block(1, 0)]: Free(1, 0)),
        thread!(at 0 owns [Block(2, 1)]: Free(2, 1)),
    ]).large_for_loom();
    /// The parts come together to a whole, which a third thread takes and splits again.
    split_and_alloc_whole = Scenario::new(LOWER, &[(0, At(0, 2))], &[
        thread!(at 0 owns [Block(0, 1)]: Free(0, 1)),
        thread!(at 0 owns [Block(2, 1)]: Free(2, 1)),
        thread!(at 0: Alloc(2), FreeGot(0)),
    ]).large_for_loom();
    split_and_alloc_part = Scenario::new(LOWER, &[(0, At(0, 2))], &[
        thread!(at 0 owns [Block(0, 1)]: Free(0, 1)),
        thread!(at 0 owns [Block(2, 1)]: Free(2, 1), Alloc(2), FreeGot(0)),
        thread!(at 0: Alloc(0), FreeGot(0)),
    ]).large_for_loom();
    /// A part is freed, and a frame of it taken by another.
    split_and_alloc = Scenario::new(LOWER, &[(0, At(0, 2))], &[
        thread!(at 0 owns [Block(0, 1)]: Free(0, 1)),
        thread!(at 0: Alloc(0)),
    ]);
    /// Allocations and frees of one child.
    two_of_one_child = Scenario::new(LOWER, &[], &[
        thread!(at 0: Alloc(0), FreeGot(0)),
        thread!(at 0: Alloc(0), FreeGot(0)),
    ]);
    /// The same until it is whole and after.
    alloc_and_whole = Scenario::new(LOWER, &[], &[
        thread!(at 0: Alloc(0), FreeGot(0), Alloc(1), FreeGot(1)),
        thread!(at 0: Alloc(0), FreeGot(0), Alloc(2), FreeGot(1)),
        thread!(at 0: Alloc(2), FreeGot(0)),
    ]).large_for_loom();
    part_and_whole = Scenario::new(LOWER, &[], &[
        thread!(at 0: Alloc(0), FreeGot(0), Alloc(1)),
        thread!(at 0: Alloc(2), FreeGot(0)),
    ]);
    /// Base frames that were allocated one by one are freed as a whole, beside a neighbour.
    join_beside_neighbour = Scenario::new(LOWER, &[(0, Alloc(1)), (0, Alloc(1))], &[
        thread!(at 0 owns [Block(0, 2)]: Free(0, 2)),
        thread!(at 1: Alloc(0), FreeGot(0), Alloc(2), FreeGot(1)),
        thread!(at 0: Alloc(0), FreeGot(0)),
    ]).large_for_loom();
    join_and_alloc_whole = Scenario::new(LOWER, &[(0, Alloc(1)), (0, Alloc(1))], &[
        thread!(at 0 owns [Block(0, 2)]: Free(0, 2), Alloc(0), FreeGot(0)),
        thread!(at 0: Alloc(2), FreeGot(0)),
        thread!(at 0: At(3, 0), FreeGot(0)),
    ]).large_for_loom();
    /// Two huge frames at once, against halves of them.
    pair_and_halves = Scenario::new(LOWER, &[], &[
        thread!(at 0: Alloc(3), FreeGot(0)),
        thread!(at 0: Alloc(2), FreeGot(0)),
        thread!(at 1: Alloc(0), FreeGot(0), Alloc(2), FreeGot(1)),
    ]);
    /// A pair of which one half is whole and the other was allocated by base frames is freed.
    pair_joined = Scenario::new(LOWER, &[(0, At(0, 2)), (1, Alloc(1)), (1, Alloc(1))], &[
        thread!(at 0 owns [Block(0, 3)]: Free(0, 3)),
        thread!(at 0: Alloc(2), FreeGot(0), Alloc(0)),
        thread!(at 1: Alloc(0), FreeGot(0)),
    ]);
    /// The halves of a pair are freed, split and taken as a pair again.
    pair_split = Scenario::new(LOWER, &[(0, At(0, 3))], &[
        thread!(at 0 owns [Block(0, 2)]: Free(0, 2)),
        thread!(at 1 owns [Block(4, 2)]: Free(4, 1), Free(6, 1)),
        thread!(at 0: Alloc(3), FreeGot(0)),
    ]);
}
