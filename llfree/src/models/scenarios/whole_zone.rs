//! Whole zones: huge frames, classes, exact frames, batches, offline and online.
//!
//! A tree is two huge frames of four base frames; the scripts' numbers are slots.

use super::super::Class;
use super::Op::{
    Alloc, AllocClass, At, Batch, Drain, Free, FreeBatch, FreeGot, FreeHalf, Offline, Online,
    Reserve, Stats,
};
use super::*;

type Small = Tiny<2, 2>;

const ZONE: Machine<Small> = Machine::ZONE;

models! {
    /// A slot that has its tree: huge frames and base frames from it.
    huge_and_base = Scenario::new(ZONE, &[(0, Alloc(1))], &[
        thread!(at 0: Alloc(2), FreeGot(0)),
        thread!(at 0: Alloc(0)),
    ]);
    huge_and_free = Scenario::new(ZONE, &[(0, Alloc(0)), (0, Alloc(0)), (0, Alloc(1))], &[
        thread!(at 0 owns [Block(0, 2)]: Free(0, 1), Free(2, 1)),
        thread!(at 0: Alloc(2), FreeGot(0)),
    ]).large_for_loom();
    pair_and_free = Scenario::new(ZONE, &[(0, Alloc(2))], &[
        thread!(at 0 owns [Block(0, 2)]: Free(0, 2)),
        thread!(at 0: Alloc(3)),
    ]);
    /// A whole huge frame is freed in parts through different slots.
    partial_frees = Scenario::new(ZONE, &[(0, Alloc(2))], &[
        thread!(at 0 owns [Block(0, 1)]: Free(0, 1)),
        thread!(at 1 owns [Block(2, 1)]: Free(2, 1)),
    ]).slots(2);
    partial_frees_and_drain = Scenario::new(ZONE, &[(0, Alloc(2))], &[
        thread!(at 1 owns [Block(0, 1)]: Free(0, 1)),
        thread!(at 1: Drain(0)),
    ]).slots(2);
    partial_frees_by_two_and_drain = Scenario::new(ZONE, &[(0, Alloc(2))], &[
        thread!(at 0 owns [Block(0, 1)]: Free(0, 1)),
        thread!(at 1 owns [Block(2, 1)]: Free(2, 1), Drain(0)),
    ]).slots(2).large_for_loom();
    drain_and_partial_frees_by_two = Scenario::new(ZONE, &[(0, Alloc(2))], &[
        thread!(at 0 owns [Block(0, 1)]: Free(0, 1)),
        thread!(at 1 owns [Block(2, 1)]: Drain(0), Free(2, 1)),
    ]).slots(2).large_for_loom();
    /// What calls on slots of their own count, beside somebody who adds it all up and corrects the total.
    stats_and_free = Scenario::new(ZONE, &[(0, Alloc(1))], &[
        thread!(at 0 owns [Block(0, 1)]: Free(0, 0), Free(1, 0)),
        thread!(at 1: Stats),
    ]).slots(2);
    stats_and_two = Scenario::new(ZONE, &[(0, Alloc(1))], &[
        thread!(at 0 owns [Block(0, 1)]: Free(0, 1)),
        thread!(at 1: Alloc(0)),
        thread!(at 1: Stats),
    ]).slots(2).large_for_loom();
    stats_twice = Scenario::new(ZONE, &[(0, Alloc(0))], &[
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 0: Stats),
        thread!(at 1: Stats),
    ]).slots(2).large_for_loom();
    /// Two classes on one slot, each with a reservation of its own, and one tree, which is entirely free.
    two_classes = Scenario::new(ZONE, &[], &[
        thread!(at 0: Reserve(0)),
        thread!(at 0: AllocClass(0, Class(1))),
    ]).classes(TWO).large_for_loom();
    /// The same with one huge frame left in it.
    two_classes_huge = Scenario::new(ZONE, &[(0, At(4, 2))], &[
        thread!(at 0: Alloc(2)),
        thread!(at 0: AllocClass(2, Class(1))),
    ]).classes(TWO).large_for_loom();
    class_and_reserve = Scenario::new(ZONE, &[], &[
        thread!(at 0: At(0, 2)),
        thread!(at 0: Reserve(0), Drain(0)),
    ]).classes(TWO);
    /// A tree that was entirely free changes its class while a huge frame of it comes back.
    class_and_free = Scenario::new(ZONE, &[], &[
        thread!(at 0: At(0, 2)),
        thread!(at 0: At(4, 2), FreeGot(0)),
    ]).classes(TWO);
    /// This very frame, which a slot holds with its whole tree.
    exact_and_drain = Scenario::new(ZONE, &[(0, Alloc(0))], &[
        thread!(at 1: At(2, 0)),
        thread!(at 1: Drain(0)),
    ]).slots(2).large_for_loom();
    exact_and_reserve = Scenario::new(ZONE, &[], &[
        thread!(at 0: At(1, 0)),
        thread!(at 0: Reserve(0)),
    ]);
    exact_and_alloc = Scenario::new(ZONE, &[(0, Alloc(2))], &[
        thread!(at 1: At(4, 0)),
        thread!(at 0: Alloc(0)),
    ]).slots(2).large_for_loom();
    exact_and_alloc_whole = Scenario::new(ZONE, &[(0, Alloc(2))], &[
        thread!(at 1: At(4, 2)),
        thread!(at 0: Alloc(0)),
    ]).slots(2).large_for_loom();
    exact_and_alloc_base = Scenario::new(ZONE, &[(0, Alloc(2)), (0, At(4, 1))], &[
        thread!(at 1: At(6, 0)),
        thread!(at 0: Alloc(0)),
    ]).slots(2).large_for_loom();
    exact_and_exact = Scenario::new(ZONE, &[], &[
        thread!(at 0: At(0, 1)),
        thread!(at 0: At(1, 0)),
    ]).large_for_loom();
    exact_and_exact_again = Scenario::new(Machine::<Small>::LOWER, &[], &[
        thread!(at 0: At(0, 1), FreeGot(0)),
        thread!(at 0: At(1, 0), FreeGot(0)),
    ]);
    exact_and_free = Scenario::new(ZONE, &[(0, Alloc(1)), (0, Drain(0))], &[
        thread!(at 1: At(0, 1)),
        thread!(at 0 owns [Block(0, 1)]: Free(0, 0), Free(1, 0)),
    ]).slots(2);
    /// The huge frame is freed, taken whole and split again, under the other polarity, before a credit of
    /// it is taken.
    exact_and_turn = Scenario::new(ZONE, &[(0, At(0, 0))], &[
        thread!(at 0: At(3, 0)),
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0), At(0, 2), FreeHalf(0)),
    ]).large_for_loom();
    exact_pair_and_half = Scenario::new(ZONE, &[], &[
        thread!(at 0: At(0, 3), FreeGot(0)),
        thread!(at 0: At(0, 2), FreeGot(0)),
    ]);
    batch_and_free = Scenario::new(ZONE, &[(0, Alloc(0))], &[
        thread!(at 0: Batch(0, 2)),
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
    ]);
    batch_and_drain = Scenario::new(ZONE, &[(0, Alloc(0))], &[
        thread!(at 0: Batch(0, 2)),
        thread!(at 1: Drain(0)),
    ]).slots(2).large_for_loom();
    batch_and_batch = Scenario::new(ZONE, &[(0, Alloc(0)), (0, At(4, 2))], &[
        thread!(at 0: Batch(0, 2)),
        thread!(at 0: Batch(0, 2)),
    ]).large_for_loom();
    batches = Scenario::new(ZONE, &[(0, Alloc(0)), (0, At(4, 2))], &[
        thread!(at 0: Batch(0, 2)),
        thread!(at 1: Batch(0, 2)),
    ]).slots(2).large_for_loom();
    /// Two batches split a whole huge frame between them.
    batches_of_frees = Scenario::new(ZONE, &[(0, Alloc(2))], &[
        thread!(at 0 owns [Block(0, 1)]: FreeBatch(0, 2)),
        thread!(at 1 owns [Block(2, 1)]: FreeBatch(2, 2)),
    ]).slots(2);
    batch_of_frees_and_alloc = Scenario::new(ZONE, &[(0, Alloc(1))], &[
        thread!(at 0 owns [Block(0, 1)]: FreeBatch(0, 2)),
        thread!(at 0: Alloc(0), FreeGot(0)),
    ]);
    /// A huge frame is taken out while base frames come back to it.
    offline_and_free = Scenario::new(ZONE, &[(0, Alloc(0)), (0, Drain(0))], &[
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 0: Offline(0), Online(0)),
    ]);
    /// Of a tree that a slot has reserved.
    offline_and_drain = Scenario::new(ZONE, &[(0, Alloc(0))], &[
        thread!(at 0: Offline(1), Online(1)),
        thread!(at 0: Drain(0)),
    ]);
    offline_and_reserve = Scenario::new(ZONE, &[], &[
        thread!(at 0: Offline(1), Online(1)),
        thread!(at 0: Reserve(0)),
    ]);
    /// The only huge frame with anything free is taken out, while an allocation opens it or takes it
    /// whole.
    offline_and_alloc = Scenario::new(ZONE, &[(0, Alloc(2))], &[
        thread!(at 0: Offline(1), Online(1)),
        thread!(at 0: Alloc(0)),
    ]).large_for_loom();
    offline_and_alloc_whole = Scenario::new(ZONE, &[(0, Alloc(2))], &[
        thread!(at 0: Offline(1), Online(1)),
        thread!(at 0: Alloc(2), FreeGot(0)),
    ]).large_for_loom();
    /// The same where nobody has reserved the tree.
    offline_and_search = Scenario::new(ZONE, &[(0, At(0, 2))], &[
        thread!(at 0: Offline(1), Online(1)),
        thread!(at 0: Alloc(0)),
    ]).large_for_loom();
    offline_twice = Scenario::new(ZONE, &[], &[
        thread!(at 0: Offline(0), Online(0)),
        thread!(at 0: Offline(0), Online(0)),
    ]);
    offline_and_exact = Scenario::new(ZONE, &[], &[
        thread!(at 0: Offline(0), Online(0)),
        thread!(at 0: At(1, 0)),
    ]);
}
