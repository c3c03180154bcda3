//! Runs of frames in a whole zone: claimed block by block, given back where one was lost, freed as one.
//!
//! A tree is two huge frames of four base frames; the scripts' numbers are slots.

use super::Op::{Alloc, At, Free, FreeRun, Run, RunAt};
use super::*;

type Small = Tiny<2, 2>;

const ZONE: Machine<Small> = Machine::ZONE;

models! {
    /// The last block of one run lies in the other: one of them gives back what it has.
    run_and_run = Scenario::new(ZONE, &[(0, At(0, 0)), (0, At(4, 2))], &[
        thread!(at 0: RunAt(1, 2)),
        thread!(at 0: RunAt(2, 2)),
    ]).large_for_loom();
    /// A run loses its second block, and its first one goes back to a huge frame that is being used.
    run_and_exact = Scenario::new(ZONE, &[(0, At(0, 0)), (0, At(4, 2))], &[
        thread!(at 0: RunAt(1, 3)),
        thread!(at 0: At(3, 0)),
    ]).large_for_loom();
    /// The same while another slot allocates from what it gives back.
    run_and_alloc = Scenario::new(ZONE, &[(0, At(2, 0)), (0, At(4, 2))], &[
        thread!(at 0: RunAt(0, 2)),
        thread!(at 1: Alloc(0)),
    ]).slots(2).large_for_loom();
    /// There is one run: it is found, or a frame of it is taken first.
    run_anywhere_and_exact = Scenario::new(ZONE, &[(0, At(0, 0)), (0, At(4, 2))], &[
        thread!(at 0: Run(3)),
        thread!(at 0: At(3, 0)),
    ]).large_for_loom();
    /// What stands in the way of a run is freed.
    run_and_free = Scenario::new(ZONE, &[(0, At(2, 0))], &[
        thread!(at 0: RunAt(1, 3)),
        thread!(at 0 owns [Block(2, 0)]: Free(2, 0)),
    ]).large_for_loom();
    /// A run is allocated and freed beside a frame of the same huge frame.
    run_there_and_back = Scenario::new(ZONE, &[(0, At(3, 0)), (0, At(4, 2))], &[
        thread!(at 0: RunAt(0, 2), FreeRun(0, 2)),
        thread!(at 0: At(2, 0)),
    ]).large_for_loom();
    /// A part of a huge frame that was allocated whole is freed as a run while its other part is freed: what
    /// the one looks at, the other splits.
    free_run_and_free = Scenario::new(ZONE, &[(0, At(0, 2))], &[
        thread!(at 0 owns [Block(0, 1)]: FreeRun(0, 2)),
        thread!(at 1 owns [Block(2, 1)]: Free(2, 1)),
    ]).slots(2).large_for_loom();
    /// A run of two blocks between others' frames, one of which is freed.
    free_run_of_two_and_free = Scenario::new(
        ZONE,
        &[(0, At(0, 1)), (0, At(2, 1)), (0, At(4, 2))],
        &[
            thread!(at 0 owns [Block(1, 0), Block(2, 0)]: FreeRun(1, 2)),
            thread!(at 1 owns [Block(3, 0)]: Free(3, 0)),
        ],
    ).slots(2).large_for_loom();
}
