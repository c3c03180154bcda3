//! Whole zones of one or two trees of eight frames: reserve, hold, drain, steal.
//!
//! A tree is two huge frames of four base frames; the scripts' numbers are slots.

use super::Op::{Alloc, AllocSure, At, Drain, Free, FreeGot, Reserve};
use super::*;

type Small = Tiny<2, 2>;

const ZONE: Machine<Small> = Machine::ZONE;
const RESERVING: Machine<Small> = Machine::RESERVING;

models! {
    /// Two calls on one slot that has no tree: both reserve, the second gives up what the first
    /// has installed.
    reserve_twice = Scenario::new(ZONE, &[], &[
        thread!(at 0: Reserve(0)),
        thread!(at 0: Reserve(0)),
    ]).trees(2);
    /// The same for one tree: one of them may find nothing to reserve.
    reserve_one_tree = Scenario::new(ZONE, &[], &[
        thread!(at 0: Reserve(0)),
        thread!(at 0: Reserve(1)),
        thread!(at 0: Drain(0)),
    ]).slots(2);
    reserve_and_free = Scenario::new(ZONE, &[(0, Alloc(0)), (0, Drain(0))], &[
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 0: Reserve(0)),
        thread!(at 1: Drain(0)),
    ]).slots(2);
    /// A tree that is being reserved, or given up, is in no reservation for a moment: what is free in it is
    /// found.
    alloc_while_reserving = Scenario::new(ZONE, &[], &[
        thread!(at 0: Reserve(0)),
        thread!(at 1: AllocSure(2)),
    ]).slots(2);
    alloc_while_draining = Scenario::new(ZONE, &[(0, Alloc(2))], &[
        thread!(at 0: Drain(0)),
        thread!(at 1: AllocSure(2)),
    ]).slots(2);
    alloc_part_while_reserving = Scenario::new(ZONE, &[], &[
        thread!(at 0: Reserve(0)),
        thread!(at 1: AllocSure(0)),
    ]).slots(2);
    /// The same by whole allocations.
    alloc_twice = Scenario::new(ZONE, &[], &[
        thread!(at 0: Alloc(0)),
        thread!(at 0: Alloc(0)),
    ]).trees(2).large_for_loom();
    /// The usual case on one slot.
    fast_path = Scenario::new(Machine::<Tiny<3, 2>>::ZONE, &[(0, Alloc(0))], &[
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 0: Alloc(0)),
        thread!(at 0: Alloc(0)),
    ]).large_for_loom();
    fast_path_of_two = Scenario::new(ZONE, &[(0, Alloc(0))], &[
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 0: Alloc(0), FreeGot(0)),
    ]);
    alloc_and_drain = Scenario::new(ZONE, &[(0, Alloc(0))], &[
        thread!(at 0: Alloc(0)),
        thread!(at 1: Drain(0)),
    ]).slots(2);
    /// What is freed goes to the reservation, unless that is drained.
    repay_or_drain = Scenario::new(ZONE, &[(0, Alloc(1))], &[
        thread!(at 0 owns [Block(0, 1)]: Free(0, 0), Free(1, 0)),
        thread!(at 1: Drain(0)),
    ]).slots(2);
    /// A slot without a tree takes from the other's, which holds all there is.
    steal = Scenario::new(ZONE, &[(0, Alloc(0))], &[
        thread!(at 0: Alloc(0)),
        thread!(at 1: Alloc(0)),
    ]).slots(2);
    steal_and_free = Scenario::new(ZONE, &[(0, Alloc(0))], &[
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 1: Alloc(0)),
    ]).slots(2);
    /// Frees by another slot gather in the child; the slot that has the tree finds them there.
    others_free = Scenario::new(ZONE, &[(0, Alloc(2)), (0, Alloc(1)), (0, Alloc(1))], &[
        thread!(at 1 owns [Block(4, 0), Block(5, 0)]: Free(4, 0), Free(5, 0)),
        thread!(at 0: Alloc(0)),
    ]).slots(2);
    /// The same without the allocation, against a drain.
    others_free_and_drain = Scenario::new(ZONE, &[(0, Alloc(2)), (0, Alloc(1)), (0, Alloc(1))], &[
        thread!(at 1 owns [Block(4, 0)]: Free(4, 0)),
        thread!(at 0 owns [Block(5, 0)]: Free(5, 0)),
        thread!(at 1: Drain(0)),
    ]).slots(2).large_for_loom();
    others_free_and_move = Scenario::new(ZONE, &[(0, Alloc(0)), (0, Alloc(1))], &[
        thread!(at 1 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 0: Reserve(0)),
    ]).slots(2).trees(2);
    /// The child held is used up: another is held, unless the reservation is drained.
    refill_and_drain = Scenario::new(ZONE, &[(0, Alloc(1)), (0, Alloc(1))], &[
        thread!(at 0: Alloc(0)),
        thread!(at 1: Drain(0)),
    ]).slots(2);
    /// The next child is in part allocated, so no huge frame has to be opened.
    refill_partial_and_drain =
        Scenario::new(ZONE, &[(0, At(0, 0)), (0, At(4, 0)), (0, Alloc(0)), (0, Alloc(1))], &[
            thread!(at 0: Alloc(0)),
            thread!(at 1: Drain(0)),
        ]).slots(2).large_for_loom();
    refill_and_free =
        Scenario::new(ZONE, &[(0, At(0, 0)), (0, At(4, 0)), (0, Alloc(0)), (0, Alloc(1))], &[
            thread!(at 0: Alloc(0)),
            thread!(at 1 owns [Block(4, 0)]: Free(4, 0)),
        ]).slots(2);
    refill_twice =
        Scenario::new(ZONE, &[(0, At(0, 0)), (0, At(4, 0)), (0, Alloc(0)), (0, Alloc(1))], &[
            thread!(at 0: Alloc(0)),
            thread!(at 0: Alloc(0)),
        ]).large_for_loom();
    /// A slot without a tree borrows a child from another slot's tree.
    borrow_and_drain = Scenario::new(ZONE, &[(0, At(0, 0)), (0, At(4, 0)), (0, Alloc(0))], &[
        thread!(at 1: Alloc(0)),
        thread!(at 1: Drain(0)),
    ]).slots(2).large_for_loom();
    borrow_and_free = Scenario::new(ZONE, &[(0, At(0, 0)), (0, At(4, 0)), (0, Alloc(0))], &[
        thread!(at 1: Alloc(0)),
        thread!(at 0 owns [Block(4, 0)]: Free(4, 0)),
    ]).slots(2);
    /// What is borrowed is given back to the lender's tree.
    guest_and_drain =
        Scenario::new(ZONE, &[(0, At(0, 0)), (0, At(4, 0)), (0, Alloc(0)), (1, Alloc(0))], &[
            thread!(at 0: Drain(1)),
            thread!(at 1: Alloc(0), FreeGot(0)),
        ]).slots(2);
    guest_and_lender =
        Scenario::new(ZONE, &[(0, At(0, 0)), (0, At(4, 0)), (0, Alloc(0)), (1, Alloc(0))], &[
            thread!(at 0: Drain(1)),
            thread!(at 1 owns [Block(4, 0)]: Free(4, 0)),
            thread!(at 1: Drain(0)),
        ]).slots(2).large_for_loom();
    /// The second free in a row reserves the tree.
    reserve_on_free = Scenario::new(RESERVING, &[(0, Alloc(1)), (0, Drain(0))], &[
        thread!(at 1 owns [Block(0, 0), Block(1, 0)]: Free(0, 0), Free(1, 0)),
        thread!(at 0: Alloc(0)),
    ]).slots(2).large_for_loom();
    reserve_on_free_and_drain = Scenario::new(RESERVING, &[(0, Alloc(1)), (0, Drain(0))], &[
        thread!(at 1 owns [Block(0, 0), Block(1, 0)]: Free(0, 0), Free(1, 0)),
        thread!(at 0: Drain(1), Drain(1)),
    ]).slots(2);
    /// The second free in a row into a child of the own tree makes the slot hold that child.
    follow_frees = Scenario::new(RESERVING, &[(0, Alloc(2)), (0, Alloc(0))], &[
        thread!(at 0 owns [Block(0, 2)]: Free(0, 0), Free(1, 0), Free(2, 0)),
        thread!(at 1: Drain(0)),
    ]).slots(2);
    follow_frees_and_alloc = Scenario::new(RESERVING, &[(0, Alloc(2)), (0, Alloc(0))], &[
        thread!(at 0 owns [Block(0, 2)]: Free(0, 0), Free(1, 0)),
        thread!(at 0: Alloc(0)),
    ]).slots(2);
    /// The slot's child is used up, joined, and opened again with the other polarity.
    used_up = Scenario::new(ZONE, &[(0, Alloc(1)), (0, Alloc(1)), (1, Free(0, 2)), (1, At(0, 1))], &[
        thread!(at 0 owns [Block(0, 1)]: Free(0, 0), Alloc(0), FreeGot(0)),
    ]).slots(2);
    /// One frame is left in another slot's tree.
    last_frame = Scenario::new(ZONE, &[(0, Alloc(2)), (0, Alloc(1)), (0, Alloc(0))], &[
        thread!(at 0: Alloc(0), FreeGot(0)),
        thread!(at 1: Alloc(0)),
    ]).slots(2);
}
