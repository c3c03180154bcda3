//! Isolation beside calls that allocate and free, and beside other isolators.
//!
//! A tree is two huge frames of four base frames; the scripts' numbers are slots.

use woodlot_frame::Reclaim::Hard;

use super::super::Law;
use super::Op::{
    Alloc, AllocApart, At, Claim, ClaimOffline, ClaimTwoOffline, Drain, EndAnyones, Free, FreeGot,
    FreeRun, FreeZeroed, Give, Isolate, Offline, Online, OnlineAnyones, Reclaim, Unisolate,
};
use super::*;

type Small = Tiny<2, 2>;

const ZONE: Machine<Small> = Machine::ZONE;

models! {
    /// The slot holds the child, or takes hold of it while it is isolated: its next call gets nothing there.
    isolate_and_held = Scenario::new(ZONE, &[(0, Alloc(0))], &[
        thread!(at 0: Isolate(0)),
        thread!(at 0: AllocApart(0), AllocApart(0)),
    ]).large_for_loom();
    isolate_and_open = Scenario::new(ZONE, &[], &[
        thread!(at 0: Isolate(0)),
        thread!(at 0: Alloc(0), AllocApart(0)),
    ]).large_for_loom();
    isolate_and_next = Scenario::new(ZONE, &[(0, At(0, 1)), (0, At(4, 0)), (0, Drain(0))], &[
        thread!(at 0: Isolate(0)),
        thread!(at 0: Alloc(0), AllocApart(0)),
    ]).large_for_loom();
    isolate_and_borrow = Scenario::new(ZONE, &[(0, Alloc(0)), (0, Drain(0)), (0, At(4, 2)), (0, Alloc(0))], &[
        thread!(at 0: Isolate(0)),
        thread!(at 1: Alloc(0), AllocApart(0)),
    ]).slots(2).large_for_loom();
    isolate_and_whole = Scenario::new(ZONE, &[], &[
        thread!(at 0: Isolate(0), Unisolate(0)),
        thread!(at 0: Alloc(2), FreeGot(0)),
    ]).large_for_loom();
    isolate_and_exact = Scenario::new(ZONE, &[(0, At(0, 0))], &[
        thread!(at 0: Isolate(0), Unisolate(0)),
        thread!(at 0: At(1, 0), At(4, 2)),
    ]).large_for_loom();
    isolate_and_drain = Scenario::new(ZONE, &[(0, Alloc(0))], &[
        thread!(at 0: Isolate(0), Unisolate(0)),
        thread!(at 0: Drain(0)),
    ]);
    /// The last frames come back: one by one, as a whole, in parts, by a join, as a half of a pair.
    isolate_and_close = Scenario::new(ZONE, &[(0, At(0, 0))], &[
        thread!(at 0: Isolate(0), Claim(0)),
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
    ]);
    isolate_and_free = Scenario::new(ZONE, &[(0, At(0, 2))], &[
        thread!(at 0: Isolate(0), Claim(0)),
        thread!(at 0 owns [Block(0, 2)]: Free(0, 2)),
    ]);
    isolate_and_parts = Scenario::new(ZONE, &[(0, At(0, 2))], &[
        thread!(at 0: Isolate(0), ClaimOffline(0)),
        thread!(at 0 owns [Block(0, 2)]: Free(0, 1), Free(2, 1)),
    ]).large_for_loom();
    isolate_and_join = Scenario::new(ZONE, &[(0, At(0, 1)), (0, At(2, 1))], &[
        thread!(at 0: Isolate(0), Claim(0), Unisolate(0)),
        thread!(at 0 owns [Block(0, 2)]: Free(0, 2)),
    ]).large_for_loom();
    isolate_and_pair = Scenario::new(ZONE, &[(0, At(0, 3))], &[
        thread!(at 0: Isolate(1), Claim(1), Unisolate(1)),
        thread!(at 0 owns [Block(0, 3)]: Free(0, 3)),
    ]).large_for_loom();
    /// Frees in a row, by which a slot takes hold of a child.
    isolate_and_gather = Scenario::new(Machine::<Small>::RESERVING, &[(0, At(0, 2)), (0, Alloc(0))], &[
        thread!(at 0: Isolate(0)),
        thread!(at 0 owns [Block(0, 2)]: Free(0, 0), Free(1, 0), AllocApart(0)),
    ]).large_for_loom();
    /// Frees that begin when the child is isolated: the slot's other calls get nothing of it from their first step on.
    isolated_and_gather = Scenario::new(Machine::<Small>::RESERVING, &[(0, At(0, 2)), (0, Alloc(0))], &[
        thread!(at 0 owns [Block(0, 2)]: Isolate(0), Free(0, 0), Free(1, 0)),
        thread!(at 0: AllocApart(0)),
    ]).large_for_loom();
    /// The owner says that its huge frame is zeroed, and it is isolated: what is allocated later is not said to be.
    isolate_and_zeroed = Scenario::new(ZONE, &[(0, At(0, 3))], &[
        thread!(at 0: Isolate(0), Unisolate(0)),
        thread!(at 0 owns [Block(0, 2)]: FreeZeroed(0), At(0, 0)),
    ]).large_for_loom();
    /// One of two isolators wins, and what it claims is its own.
    isolate_twice = Scenario::new(ZONE, &[], &[
        thread!(at 0: Isolate(0), Claim(0)),
        thread!(at 0: Isolate(0), ClaimOffline(0)),
    ]).large_for_loom();
    isolate_and_offline = Scenario::new(ZONE, &[], &[
        thread!(at 0: Isolate(0), Unisolate(0)),
        thread!(at 0: Offline(0), Online(0)),
    ]).large_for_loom();
    isolate_and_reclaim = Scenario::new(ZONE, &[(0, At(4, 2))], &[
        thread!(at 0: Isolate(0), Unisolate(0)),
        thread!(at 0: Reclaim(Hard, 1), Give),
    ]).large_for_loom();
    /// A claim beside a caller that ends its isolation, and one that begins another: no credit is lost or doubled, and
    /// what one has claimed nobody else has.
    claim_and_end = Scenario::new(ZONE, &[], &[
        thread!(at 0: Isolate(0), Claim(0)),
        thread!(at 0: EndAnyones(0), Alloc(0)),
    ]).law(Law::EndedByOthers).large_for_loom();
    /// Of two the second is not isolated any more: the first is put back, and isolated again, and a slot that took hold of it in
    /// between has nothing of it.
    claim_two_and_end = Scenario::new(ZONE, &[], &[
        thread!(at 0: Isolate(0), Isolate(1), ClaimTwoOffline(0)),
        thread!(at 0: EndAnyones(1), Alloc(0)),
    ]).law(Law::EndedByOthers).large_for_loom();
    claim_and_isolate_again = Scenario::new(ZONE, &[], &[
        thread!(at 0: Isolate(0), Claim(0)),
        thread!(at 0: EndAnyones(0), Isolate(0)),
    ]).law(Law::EndedByOthers).large_for_loom();
    claim_and_online = Scenario::new(ZONE, &[], &[
        thread!(at 0: Isolate(0), ClaimOffline(0)),
        thread!(at 0: EndAnyones(0), OnlineAnyones(0), Isolate(0)),
    ]).law(Law::FreedByOthers).large_for_loom();
    claim_and_claim_again = Scenario::new(ZONE, &[], &[
        thread!(at 0: Isolate(0), ClaimOffline(0)),
        thread!(at 0: OnlineAnyones(0), Isolate(0), ClaimOffline(0)),
    ]).law(Law::FreedByOthers).large_for_loom();
    /// Who brings it online looks for a claim before another one has claimed it anew, and makes it free after that.
    claim_and_late_online = Scenario::new(ZONE, &[(0, Offline(0))], &[
        thread!(at 0: OnlineAnyones(0), Isolate(0), ClaimOffline(0)),
        thread!(at 0: OnlineAnyones(0), Alloc(0)),
    ]).law(Law::FreedByOthers).large_for_loom();
    /// An isolator looks at the mark of a claim, and goes on when the huge frame was freed, isolated and claimed anew.
    claim_and_late_isolator = Scenario::new(ZONE, &[], &[
        thread!(at 0: Isolate(0), Claim(0), FreeRun(0, 4), Isolate(0), Claim(0)),
        thread!(at 0: Isolate(0)),
    ]).large_for_loom();
}
