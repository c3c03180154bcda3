//! Huge frames of four rows: an order-7 block is two rows, claimed one after the other.

use super::Op::{Alloc, AllocSure, At, Free, FreeGot};
use super::*;

type Rows = Tiny<8, 2>;

const LOWER: Machine<Rows> = Machine::LOWER;

models! {
    /// Two blocks of two rows, and a single frame that is in the way of one of them.
    two_runs = Scenario::new(LOWER, &[], &[
        thread!(at 0: Alloc(7), FreeGot(0)),
        thread!(at 0: Alloc(7), FreeGot(0)),
    ]);
    two_runs_and_a_frame = Scenario::new(LOWER, &[], &[
        thread!(at 0: Alloc(7)),
        thread!(at 0: Alloc(7)),
        thread!(at 0: Alloc(0), FreeGot(0)),
    ]);
    /// A claim meets, in its second row, a frame that another call takes for a moment: undo.
    undo_by_one = Scenario::new(LOWER, &[(0, At(0, 0))], &[
        thread!(at 0: Alloc(7), FreeGot(0)),
        thread!(at 0: At(192, 0), FreeGot(0)),
    ]);
    undo = Scenario::new(LOWER, &[(0, At(0, 0))], &[
        thread!(at 0: Alloc(7), FreeGot(0)),
        thread!(at 0: At(192, 0), FreeGot(0)),
        thread!(at 0: At(128, 6), FreeGot(0)),
    ]).large_for_loom();
    /// The same while the row in the way is given back for good.
    undo_and_free = Scenario::new(LOWER, &[(0, At(0, 0)), (0, At(192, 0))], &[
        thread!(at 0: Alloc(7), FreeGot(0)),
        thread!(at 0 owns [Block(192, 0)]: Free(192, 0), Alloc(6)),
    ]);
    /// The free frame is another one when a search with its credit comes there.
    bits_move_behind = Scenario::new(LOWER, &[(0, At(0, 7)), (0, At(128, 7)), (0, Free(192, 0))], &[
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0), At(192, 0)),
        thread!(at 0: AllocSure(0)),
    ]);
    /// The last two frames of a huge frame come back in different rows, and a third thread takes it whole.
    close_by_rows = Scenario::new(LOWER, &[(0, At(0, 0)), (0, At(64, 0)), (0, At(256, 8))], &[
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 0 owns [Block(64, 0)]: Free(64, 0)),
        thread!(at 0: Alloc(8)),
    ]);
    /// A block of two rows is freed, as a whole or by its rows, while its rows are taken.
    free_rows = Scenario::new(LOWER, &[(0, At(0, 7)), (0, At(128, 7))], &[
        thread!(at 0 owns [Block(0, 7)]: Free(0, 7)),
        thread!(at 0 owns [Block(128, 7)]: Free(128, 6), Free(192, 6)),
        thread!(at 0: Alloc(7), FreeGot(0)),
    ]);
    /// A huge frame of four rows is split by frees of different rows.
    split_by_rows = Scenario::new(LOWER, &[(0, At(0, 8))], &[
        thread!(at 0 owns [Block(0, 7)]: Free(0, 7)),
        thread!(at 0 owns [Block(128, 7)]: Free(128, 7)),
        thread!(at 0: Alloc(7), FreeGot(0)),
    ]).large_for_loom();
    /// Rows allocated apart are freed as one huge frame, which looks at every row first.
    join_rows = Scenario::new(LOWER, &[(0, At(0, 7)), (0, At(128, 7))], &[
        thread!(at 0 owns [Block(0, 8)]: Free(0, 8)),
        thread!(at 0: Alloc(7), FreeGot(0)),
        thread!(at 0: Alloc(8), FreeGot(0)),
    ]);
}
