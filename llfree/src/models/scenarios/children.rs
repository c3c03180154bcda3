//! The counters of children and what their trees know of them; opening and closing.
//!
//! A tree is two huge frames of four base frames.

use super::Op::{
    Alloc, At, Drain, Free, FreeGot, FreeHalf, GiveBack, Heal, Offline, Online, TakeAll, TakeSome,
};
use super::*;

type Small = Tiny<2, 2>;

const LOWER: Machine<Small> = Machine::LOWER;
const ZONE: Machine<Small> = Machine::ZONE;

models! {
    /// All credits of a child are taken while others come: the tree knows of those at the end.
    take_and_free = Scenario::new(ZONE, &[(0, At(0, 1)), (0, At(2, 0))], &[
        thread!(at 0: TakeAll(0), GiveBack),
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
    ]);
    take_and_free_for_good = Scenario::new(ZONE, &[(0, At(0, 1)), (0, At(2, 0))], &[
        thread!(at 0: At(3, 0)),
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
    ]);
    /// Most changes of the counter are within a quarter, so the tree is not told of them.
    take_and_free_in_a_quarter = Scenario::new(EIGHT, &[(0, At(0, 2)), (0, At(4, 1)), (0, At(6, 0))], &[
        thread!(at 0: TakeAll(0), GiveBack),
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
    ]);
    take_and_frees_in_a_quarter = Scenario::new(EIGHT, &[(0, At(0, 2)), (0, At(4, 1)), (0, At(6, 0))], &[
        thread!(at 0: At(7, 0)),
        thread!(at 0 owns [Block(0, 1)]: Free(0, 0), Free(1, 0)),
    ]);
    /// The huge frame is freed, taken whole and split again, under the other polarity, before its credits
    /// are taken, as a slot does that will hold it.
    take_and_turn = Scenario::new(ZONE, &[(0, At(0, 0))], &[
        thread!(at 0: TakeAll(0), GiveBack),
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0), At(0, 2), FreeHalf(0)),
    ]).large_for_loom();
    take_twice_and_free = Scenario::new(LOWER, &[(0, At(0, 1)), (0, At(2, 0))], &[
        thread!(at 0: TakeAll(0), GiveBack),
        thread!(at 0: TakeAll(0), GiveBack),
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
    ]);
    take_some_and_free = Scenario::new(ZONE, &[(0, At(0, 0)), (0, At(2, 0))], &[
        thread!(at 0: TakeSome(0, 1), GiveBack),
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
    ]);
    take_some_and_frees = Scenario::new(LOWER, &[(0, At(0, 0)), (0, At(2, 0))], &[
        thread!(at 0: TakeSome(0, 1), GiveBack),
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 0 owns [Block(2, 0)]: Free(2, 0)),
    ]);
    /// The tree says that a child has credits, which has none, and is put right.
    heal = Scenario::new(ZONE, STALE, &[
        thread!(at 0: Heal(0)),
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
    ]);
    heal_twice = Scenario::new(ZONE, STALE, &[
        thread!(at 0: Heal(0)),
        thread!(at 0: Heal(0)),
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
    ]).large_for_loom();
    heal_and_take = Scenario::new(ZONE, &[(0, At(0, 1)), (0, At(2, 0))], &[
        thread!(at 0: TakeAll(0), GiveBack),
        thread!(at 0: Heal(0)),
        thread!(at 0: Heal(0)),
    ]).large_for_loom();
    /// Nobody but an allocation looks: it heals, finds nothing there, and goes on.
    heal_by_alloc = Scenario::new(ZONE, STALE, &[
        thread!(at 0: Alloc(0)),
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
    ]).large_for_loom();
    /// The last credits come back in parts: whoever brings the last ones closes the huge frame.
    close_by_two = Scenario::new(ZONE, &[(0, At(0, 0)), (0, At(2, 0))], &[
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 0 owns [Block(2, 0)]: Free(2, 0)),
    ]);
    close_by_three = Scenario::new(LOWER, &[(0, At(0, 0)), (0, At(1, 0)), (0, At(2, 0))], &[
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 0 owns [Block(1, 0)]: Free(1, 0)),
        thread!(at 0 owns [Block(2, 0)]: Free(2, 0)),
    ]);
    close_by_two_and_alloc = Scenario::new(LOWER, &[(0, At(0, 0)), (0, At(2, 0))], &[
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 0 owns [Block(2, 0)]: Free(2, 0)),
        thread!(at 0: Alloc(0), FreeGot(0)),
    ]).large_for_loom();
    close_and_alloc_whole = Scenario::new(ZONE, &[(0, At(0, 0)), (0, At(4, 2))], &[
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 0: At(0, 2), FreeGot(0)),
    ]);
    /// An order of two huge frames waits for the close of one.
    close_and_alloc_pair = Scenario::new(ZONE, &[(0, At(0, 0))], &[
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 0: At(0, 3), FreeGot(0)),
    ]);
    close_and_alloc = Scenario::new(ZONE, &[(0, At(0, 0)), (0, At(4, 2))], &[
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 0: Alloc(0)),
    ]).large_for_loom();
    close_and_exact = Scenario::new(ZONE, &[(0, At(0, 0))], &[
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 0: At(2, 0), FreeGot(0)),
    ]).large_for_loom();
    close_and_take = Scenario::new(ZONE, &[(0, At(0, 0))], &[
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 0: TakeAll(0), GiveBack),
    ]);
    close_and_takes = Scenario::new(LOWER, &[(0, At(0, 0))], &[
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 0: TakeAll(0), GiveBack),
        thread!(at 0: TakeSome(0, 1), GiveBack),
    ]);
    close_and_offline = Scenario::new(ZONE, &[(0, At(0, 0))], &[
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 0: Offline(0), Online(0)),
    ]);
    /// What a slot holds and what others have freed makes up a whole huge frame when the slot lets
    /// go of it.
    close_by_drain = Scenario::new(ZONE, &[(0, Alloc(1))], &[
        thread!(at 1 owns [Block(0, 1)]: Free(0, 1)),
        thread!(at 1: Drain(0)),
    ]).slots(2);
    /// A slot that needs a huge frame lets go of the child that has become free in its hand.
    let_go = Scenario::new(ZONE, &[(0, Alloc(0)), (0, At(4, 2))], &[
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 0: Alloc(2), FreeGot(0)),
    ]).large_for_loom();
    let_go_and_drain = Scenario::new(ZONE, &[(0, Alloc(0)), (0, Free(0, 0)), (0, At(4, 2))], &[
        thread!(at 0: Alloc(2)),
        thread!(at 0: Drain(0)),
    ]).large_for_loom();
    /// A huge frame is opened by one, and taken as a whole or opened by another.
    open_twice = Scenario::new(ZONE, &[(0, At(4, 2))], &[
        thread!(at 0: At(0, 0), FreeGot(0)),
        thread!(at 0: At(1, 0)),
    ]).large_for_loom();
    open_and_whole = Scenario::new(ZONE, &[(0, At(4, 2))], &[
        thread!(at 0: At(0, 0), FreeGot(0)),
        thread!(at 0: At(0, 2), FreeGot(0)),
    ]).large_for_loom();
    open_and_offline = Scenario::new(ZONE, &[(0, At(4, 2))], &[
        thread!(at 0: At(0, 0), FreeGot(0)),
        thread!(at 0: Offline(0), Online(0)),
    ]);
    open_and_pair = Scenario::new(ZONE, &[], &[
        thread!(at 0: At(4, 1), FreeGot(0)),
        thread!(at 0: At(0, 3)),
    ]).large_for_loom();
    /// A whole huge frame is freed in parts, and waited for by an order of two.
    partial_frees_and_pair = Scenario::new(LOWER, &[(0, At(0, 2))], &[
        thread!(at 0 owns [Block(0, 1)]: Free(0, 1)),
        thread!(at 0 owns [Block(2, 1)]: Free(2, 1)),
        thread!(at 0: Alloc(3), FreeGot(0)),
    ]).large_for_loom();
    /// Huge frames are freed into a tree that is being given up.
    free_whole_and_drain = Scenario::new(ZONE, &[(0, Alloc(2)), (0, Alloc(2))], &[
        thread!(at 1 owns [Block(0, 2)]: Free(0, 2)),
        thread!(at 1: Drain(0)),
    ]).slots(2);
    free_pair_and_drain = Scenario::new(ZONE, &[(0, Alloc(3))], &[
        thread!(at 1 owns [Block(0, 3)]: Free(0, 3)),
        thread!(at 1: Drain(0)),
    ]).slots(2);
    free_wholes_and_drain = Scenario::new(ZONE, &[(0, Alloc(2)), (0, Alloc(2))], &[
        thread!(at 1 owns [Block(0, 2)]: Free(0, 2)),
        thread!(at 1 owns [Block(4, 2)]: Free(4, 2)),
        thread!(at 0: Drain(0)),
    ]).slots(2).large_for_loom();
    /// The last base frame closes its huge frame in a tree that is being given up.
    close_and_unreserve = Scenario::new(ZONE, &[(0, At(0, 0)), (0, Alloc(2))], &[
        thread!(at 1 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 1: Drain(0)),
    ]).slots(2);
    /// The second huge frame freed in a row reserves the tree.
    reserve_on_free_of_huge = Scenario::new(HUGE, &[(0, At(0, 2)), (0, At(4, 2)), (0, At(8, 2)), (0, At(12, 2))], &[
        thread!(at 0 owns [Block(0, 2), Block(4, 2)]: Free(0, 2), Free(4, 2)),
        thread!(at 1: Drain(0)),
    ]).slots(2);
    reserve_on_free_of_huge_by_two = Scenario::new(HUGE, &[(0, At(0, 2)), (0, At(4, 2)), (0, At(8, 2)), (0, At(12, 2))], &[
        thread!(at 0 owns [Block(0, 2), Block(4, 2)]: Free(0, 2), Free(4, 2)),
        thread!(at 1 owns [Block(8, 2), Block(12, 2)]: Free(8, 2), Free(12, 2)),
    ]).slots(2).large_for_loom();
}

/// Huge frames of eight base frames: a quarter is two.
const EIGHT: Machine<Tiny<3, 2>> = Machine::ZONE;

/// Huge frame 0 has no credits, but the tree says so.
const STALE: &[(usize, Op)] = &[(0, At(0, 1)), (0, At(2, 1)), (0, Op::Credit(0, 1, 1))];

/// Trees of four huge frames, so that some are neither full nor free.
const HUGE: Machine<Tiny<2, 4>> = Machine::RESERVING;
