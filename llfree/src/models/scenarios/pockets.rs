//! The pockets of a slot: a free whose block the next allocation takes.
//!
//! A tree is two huge frames of four base frames; the scripts' numbers are slots.

use super::Op::{Alloc, AllocApart, AllocSure, At, Claim, Drain, Free, Isolate};
use super::*;

type Small = Tiny<2, 2>;

const ZONE: Machine<Small> = Machine::ZONE;

/// Slot 0 has searched for a frame, and all of huge frame 0 is allocated: the next free of a frame of it is kept.
const FULL: &[(usize, Op)] = &[(0, Alloc(0)), (0, At(1, 0)), (0, At(2, 1))];

/// Nothing is free but a frame that is kept.
const KEPT: &[(usize, Op)] =
    &[(0, Alloc(0)), (0, At(1, 0)), (0, At(2, 1)), (0, At(4, 2)), (0, Free(1, 0))];

models! {
    keep_and_take = Scenario::new(ZONE, FULL, &[
        thread!(at 0 owns [Block(1, 0)]: Free(1, 0)),
        thread!(at 0: Alloc(0)),
    ]).large_for_loom();
    /// Two frees on one slot: one of the two blocks is kept.
    keep_two = Scenario::new(ZONE, FULL, &[
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
        thread!(at 0 owns [Block(1, 0)]: Free(1, 0)),
    ]);
    keep_and_drain = Scenario::new(ZONE, FULL, &[
        thread!(at 0 owns [Block(1, 0)]: Free(1, 0)),
        thread!(at 1: Drain(0)),
    ]).slots(2).large_for_loom();
    take_and_drain = Scenario::new(ZONE, KEPT, &[
        thread!(at 0: Alloc(0)),
        thread!(at 1: Drain(0)),
    ]).slots(2).large_for_loom();
    /// What is kept is found by others when nothing else is left.
    kept_and_steal = Scenario::new(ZONE, KEPT, &[
        thread!(at 1: AllocSure(0)),
        thread!(at 1: Drain(1)),
    ]).slots(2).large_for_loom();
    /// While the next free gives it back, it may be in that call's hands.
    kept_and_free = Scenario::new(ZONE, KEPT, &[
        thread!(at 1: Alloc(0)),
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
    ]).slots(2).large_for_loom();
    keep_and_isolate = Scenario::new(ZONE, FULL, &[
        thread!(at 0 owns [Block(1, 0)]: Free(1, 0), AllocApart(0)),
        thread!(at 1: Isolate(0)),
    ]).slots(2).large_for_loom();
    /// A free that begins when the child is isolated: the slot's other calls get nothing of it from its first step on.
    isolated_and_keep = Scenario::new(ZONE, FULL, &[
        thread!(at 0 owns [Block(1, 0)]: Isolate(0), Free(1, 0)),
        thread!(at 0: AllocApart(0)),
    ]).large_for_loom();
    keep_and_claim = Scenario::new(ZONE, FULL, &[
        thread!(at 0 owns [Block(0, 0), Block(1, 0), Block(2, 1)]: Free(0, 0), Free(1, 0), Free(2, 1)),
        thread!(at 1: Isolate(0), Claim(0)),
    ]).slots(2).large_for_loom();
    /// All frames are free, and one is kept: the huge frame is to be had.
    keep_and_whole = Scenario::new(ZONE, FULL, &[
        thread!(at 0 owns [Block(0, 0), Block(1, 0), Block(2, 1)]: Free(1, 0), Free(0, 0), Free(2, 1)),
        thread!(at 1: Alloc(2)),
    ]).slots(2).large_for_loom();
}
