//! Flags of huge frames, reclaim, and news, beside calls that take and free huge frames.
//!
//! A tree is two huge frames of four base frames; the scripts' numbers are slots.

use woodlot_frame::Reclaim::{Hard, Soft};

use super::Op::{
    Alloc, Ask, At, Drain, Free, FreeGot, FreeHalf, FreeZeroed, Give, Offline, Online, Reclaim,
};
use super::*;

type Small = Tiny<2, 2>;

const ZONE: Machine<Small> = Machine::ZONE;

models! {
    /// Free huge frames are marked while others are taken.
    soft_and_alloc = Scenario::new(ZONE, &[], &[
        thread!(at 0: Reclaim(Soft, 2)),
        thread!(at 0: Alloc(2), FreeGot(0)),
    ]).large_for_loom();
    soft_and_open = Scenario::new(ZONE, &[(0, At(0, 2))], &[
        thread!(at 0: Reclaim(Soft, 2)),
        thread!(at 0: Alloc(0)),
    ]).large_for_loom();
    soft_and_free = Scenario::new(ZONE, &[(0, At(0, 2))], &[
        thread!(at 0: Reclaim(Soft, 2)),
        thread!(at 0 owns [Block(0, 2)]: Free(0, 2)),
    ]);
    soft_twice = Scenario::new(ZONE, &[], &[
        thread!(at 0: Reclaim(Soft, 2)),
        thread!(at 0: Reclaim(Soft, 1)),
    ]).large_for_loom();
    /// Each is taken out once, and comes back.
    hard_twice = Scenario::new(ZONE, &[], &[
        thread!(at 0: Reclaim(Hard, 2), Give),
        thread!(at 0: Reclaim(Hard, 1)),
    ]).large_for_loom();
    hard_and_soft = Scenario::new(ZONE, &[], &[
        thread!(at 0: Reclaim(Hard, 1)),
        thread!(at 0: Reclaim(Soft, 2)),
    ]).large_for_loom();
    hard_and_alloc = Scenario::new(ZONE, &[(0, Alloc(2))], &[
        thread!(at 0: Reclaim(Hard, 1), Give),
        thread!(at 0: Alloc(2), FreeGot(0)),
    ]).large_for_loom();
    hard_and_open = Scenario::new(ZONE, &[(0, At(0, 2))], &[
        thread!(at 0: Reclaim(Hard, 1), Give),
        thread!(at 0: Alloc(0)),
    ]).large_for_loom();
    /// What is wanted comes back by a free, or by the last of its base frames.
    hard_and_free = Scenario::new(ZONE, &[(0, At(0, 3))], &[
        thread!(at 0: Reclaim(Hard, 1), Give),
        thread!(at 0 owns [Block(0, 3)]: Free(0, 3)),
    ]);
    hard_and_close = Scenario::new(ZONE, &[(0, Alloc(0)), (0, Drain(0)), (0, At(4, 2))], &[
        thread!(at 0: Reclaim(Hard, 1), Give),
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
    ]);
    /// A huge frame that is zeroed is taken as a whole, and opened; and zeroed by its owner, and freed in parts.
    zeroed_and_alloc = Scenario::new(ZONE, &[(0, At(0, 3)), (0, FreeZeroed(0))], &[
        thread!(at 0: Alloc(2), FreeGot(0)),
        thread!(at 0: Alloc(0)),
    ]).large_for_loom();
    zeroed_and_exact = Scenario::new(ZONE, &[(0, At(0, 3)), (0, FreeZeroed(0))], &[
        thread!(at 0: At(0, 2), FreeHalf(0)),
        thread!(at 0: At(1, 0)),
    ]).large_for_loom();
    /// The flags of two neighbours are set and forgotten at the same time.
    zeroed_neighbours = Scenario::new(ZONE, &[(0, At(0, 3)), (0, FreeZeroed(0))], &[
        thread!(at 0: At(0, 2)),
        thread!(at 0 owns [Block(4, 2)]: FreeZeroed(1), At(4, 2)),
    ]);
    /// Who asks counts what is free, or is told.
    news_and_free = Scenario::new(ZONE, &[(0, At(0, 2))], &[
        thread!(at 0: Ask),
        thread!(at 0 owns [Block(0, 2)]: Free(0, 2)),
    ]);
    news_and_close = Scenario::new(ZONE, &[(0, Alloc(0)), (0, Drain(0))], &[
        thread!(at 0: Ask),
        thread!(at 0 owns [Block(0, 0)]: Free(0, 0)),
    ]);
    news_and_drain = Scenario::new(ZONE, &[(0, Alloc(0)), (0, Free(0, 0))], &[
        thread!(at 0: Ask),
        thread!(at 0: Drain(0)),
    ]);
    news_and_join = Scenario::new(ZONE, &[(0, At(0, 1)), (0, At(2, 1)), (0, Drain(0))], &[
        thread!(at 0: Ask),
        thread!(at 0 owns [Block(0, 2)]: Free(0, 2)),
    ]);
    news_and_online = Scenario::new(ZONE, &[], &[
        thread!(at 0: Ask),
        thread!(at 0: Offline(0), Online(0)),
    ]);
    news_and_give = Scenario::new(ZONE, &[], &[
        thread!(at 0: Ask),
        thread!(at 0: Reclaim(Hard, 2), Give),
    ]).large_for_loom();
    news_and_soft = Scenario::new(ZONE, &[], &[
        thread!(at 0: Ask),
        thread!(at 0: Reclaim(Soft, 2)),
    ]).large_for_loom();
    /// Two ask, one of them again, while two huge frames become free.
    news_twice = Scenario::new(ZONE, &[(0, At(0, 2)), (0, At(4, 2))], &[
        thread!(at 0: Ask, Ask),
        thread!(at 0 owns [Block(0, 2)]: Free(0, 2)),
        thread!(at 1 owns [Block(4, 2)]: Free(4, 2)),
    ]).slots(2).large_for_loom();
    news_for_two = Scenario::new(ZONE, &[(0, At(0, 2))], &[
        thread!(at 0: Ask),
        thread!(at 0: Ask),
        thread!(at 0 owns [Block(0, 2)]: Free(0, 2)),
    ]).large_for_loom();
}
