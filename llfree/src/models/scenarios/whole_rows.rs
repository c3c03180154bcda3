//! Whole zones whose huge frames have several rows: a block of two rows, through the contract's calls.
//!
//! A tree is two huge frames of four rows; the scripts' numbers are slots.

use super::super::Law;
use super::Op::{Alloc, At, Free, FreeAgain, FreeGot};
use super::*;

type Rows = Tiny<8, 2>;

const ZONE: Machine<Rows> = Machine::ZONE;

models! {
    /// Of the slot's last two rows one is lost for a moment, after the block was paid for: undo, and
    /// the credits go back.
    lost_row = Scenario::new(ZONE, LAST_RUN, &[
        thread!(at 0: Alloc(7)),
        thread!(at 1: At(192, 0), FreeGot(0)),
    ]).slots(2).large_for_loom();
    /// A block is paid for whose row is full by then; there is room in another one.
    lost_frame = Scenario::new(Machine::<Tiny<7, 2>>::ZONE, ALL_BUT_ONE, &[
        thread!(at 0: Alloc(0)),
        thread!(at 1 owns [Block(0, 0)]: Free(0, 0), At(127, 0)),
    ]).slots(2).large_for_loom();
    /// Rows that are just being claimed are freed by others, and one is lost: of the credits that were paid
    /// some are another's by then.
    free_of_a_claim_held = Scenario::new(ZONE, LAST_RUN, &[
        thread!(at 0: Alloc(7)),
        thread!(at 1: At(192, 0), FreeAgain(128, 6)),
    ]).slots(2).law(Law::FreedByOthers).large_for_loom();
    /// The same of a child that a search has come upon.
    free_of_a_claim_found = Scenario::new(ZONE, &[(0, At(0, 7)), (0, At(256, 8))], &[
        thread!(at 0: Alloc(7)),
        thread!(at 1: FreeAgain(128, 6), At(192, 0)),
    ]).slots(2).law(Law::FreedByOthers).large_for_loom();
    /// Two frees of the same rows, the larger of which is late: a frame that it has released is another's by
    /// then.
    free_of_a_free = Scenario::new(ZONE, &[(0, At(0, 7)), (0, At(256, 8))], &[
        thread!(at 0: FreeAgain(0, 7)),
        thread!(at 1: FreeAgain(64, 6), At(0, 0)),
    ]).slots(2).law(Law::FreedByOthers).large_for_loom();
}

/// Slot 0 holds the last two rows of huge frame 0, of which one frame more is free; there is no other.
const LAST_RUN: &[(usize, Op)] = &[(0, Alloc(7)), (0, At(256, 8)), (1, Free(0, 0))];

/// Slot 0 holds the last free frame of huge frame 0, which is of two rows.
const ALL_BUT_ONE: &[(usize, Op)] = &[
    (0, Alloc(6)),
    (0, Alloc(5)),
    (0, Alloc(4)),
    (0, Alloc(3)),
    (0, Alloc(2)),
    (0, Alloc(1)),
    (0, Alloc(0)),
];
