//! Whole zones with intents: each thread has a slot of its own, whose record names what it writes. What a crash leaves in
//! any state is resolved, and nothing is allocated then that is neither somebody's nor named.

use super::Op::{Alloc, At, Batch, Free, FreeBatch, FreeGot, FreeRun, Look, Resolve, RunAt};
use super::*;
use woodlot_frame::{Intents, Volatile};

type Small = Tiny<2, 2>;
type Rows = Tiny<8, 2>;

const ZONE: Machine<Small, Intents<Volatile>> = Machine::ZONE;
const ROWS: Machine<Rows, Intents<Volatile>> = Machine::ZONE;

models! {
    /// Two slots take frames of one huge frame, and give them back.
    named_frames = Scenario::new(ZONE, &[(0, At(4, 2))], &[
        thread!(at 0: Alloc(0), FreeGot(0)),
        thread!(at 1: At(1, 0)),
    ]).slots(2).large_for_loom();
    /// A block of two rows meets a frame in its second row: it is taken back row by row, or the frame is not had.
    named_rows = Scenario::new(ROWS, &[(0, At(0, 7)), (0, At(256, 8))], &[
        thread!(at 0: At(128, 7)),
        thread!(at 1: At(192, 0)),
    ]).slots(2).large_for_loom();
    /// A block of two rows is freed beside a frame of its huge frame.
    named_free_of_rows = Scenario::new(ROWS, &[(0, At(0, 7)), (0, At(128, 0)), (0, At(256, 8))], &[
        thread!(at 0 owns [Block(0, 7)]: Free(0, 7)),
        thread!(at 1 owns [Block(128, 0)]: Free(128, 0)),
    ]).slots(2).large_for_loom();
    /// A batch for which there is not enough gives back what it has, while a frame comes back.
    named_batch_and_free = Scenario::new(ZONE, &[(0, At(0, 0)), (0, At(4, 2))], &[
        thread!(at 0: Batch(0, 4)),
        thread!(at 1 owns [Block(0, 0)]: Free(0, 0)),
    ]).slots(2).large_for_loom();
    /// A batch is freed, of frames in two huge frames, beside an allocation.
    named_free_of_batch = Scenario::new(
        ZONE,
        &[(0, At(2, 0)), (0, At(3, 0)), (0, At(4, 0)), (0, At(6, 1))],
        &[
            thread!(at 0 owns [Block(2, 0), Block(3, 0), Block(4, 0)]: FreeBatch(2, 3)),
            thread!(at 1: At(5, 0)),
        ],
    ).slots(2).large_for_loom();
    /// A run of two blocks loses the second one, or not.
    named_run = Scenario::new(ZONE, &[(0, At(0, 0)), (0, At(4, 2))], &[
        thread!(at 0: RunAt(1, 3)),
        thread!(at 1: At(3, 0)),
    ]).slots(2).large_for_loom();
    /// A run of two blocks is freed between others' frames, one of which is freed too.
    named_free_of_run = Scenario::new(ZONE, &[(0, At(0, 1)), (0, At(2, 1)), (0, At(4, 2))], &[
        thread!(at 0 owns [Block(1, 0), Block(2, 0)]: FreeRun(1, 2)),
        thread!(at 1 owns [Block(3, 0)]: Free(3, 0)),
    ]).slots(2).large_for_loom();
    /// A record is read while its slot works.
    record_is_read = Scenario::new(ZONE, &[(0, At(4, 2))], &[
        thread!(at 0: Batch(0, 2), FreeGot(0)),
        thread!(at 1: Look(0)),
    ]).slots(2).large_for_loom();
    /// What a dead slot has left is freed by what its record names, on a slot of its own, while others work there.
    dead_slot_is_resolved = Scenario::new(ZONE, &[(0, At(4, 2)), (2, At(0, 0))], &[
        thread!(at 1 owns [Block(0, 0)]: Resolve(2)),
        thread!(at 0: At(1, 0), FreeGot(0)),
    ]).slots(3).large_for_loom();
}
