//! The scenarios, as tables: one test each.
//!
//! Rows are frames 0 to 63, 64 to 127 and so on. Order 5 is half of a row, 6 a row, 7 a huge frame, 8 a pair.

use super::Op::{
    Alloc, At, Find, Free, FreeAgain, FreeGot, FreePart, Offline, Online, Stray, TryFree,
};
use super::{Block, Scenario, Script, driver};

/// A test for each scenario.
macro_rules! models {
    ($($(#[$doc:meta])* $name:ident = $frames:literal, $setup:expr, $threads:expr
        $(, slots $slots:literal)?;)*) => {
        $($(#[$doc])* #[test] fn $name() {
            let (name, frames, threads) = (stringify!($name), $frames, &$threads);
            let slots = [$($slots,)? threads.len()][0];
            driver::check(&Scenario { name, frames, slots, setup: &$setup, threads });
        })*
    };
}

/// A thread: what it owns, what it does.
macro_rules! thread {
    (owns [$($block:expr),*]: $($op:expr),+) => {
        Script { owns: &[$($block),*], ops: &[$($op),+] }
    };
    ($($op:expr),+) => { Script { owns: &[], ops: &[$($op),+] } };
}

models! {
    // ---- A row opens and closes ----

    open_and_open = 128, [], [thread!(Find(0), FreeGot(0)), thread!(Find(0), FreeGot(0))];
    /// Of two huge frames a call hides one while it opens its rows, not the other.
    open_and_open_runs = 256, [], [thread!(Find(5), FreeGot(0)), thread!(Find(5))];
    open_run_and_row = 128, [], [thread!(Alloc(5)), thread!(Alloc(6), FreeGot(0))];
    open_run_and_its_rows = 128, [], [thread!(Alloc(5), FreeGot(0)), thread!(At(64, 0), At(64, 6))];
    open_and_row = 128, [Block(64, 6)], [
        thread!(Alloc(0), FreeGot(0)),
        thread!(Alloc(6), FreeGot(0)),
    ];
    open_and_huge = 128, [], [thread!(Alloc(0), FreeGot(0)), thread!(Alloc(7), FreeGot(0))];
    open_and_this_row = 128, [Block(64, 6)], [
        thread!(At(0, 5), FreeGot(0)),
        thread!(At(32, 5)),
        thread!(At(0, 6), FreeGot(0)),
    ];
    row_empties = 128, [Block(0, 5), Block(64, 6)], [
        thread!(owns [Block(0, 5)]: Free(0, 5)),
        thread!(Alloc(6), FreeGot(0)),
        thread!(At(32, 5), FreeGot(0)),
    ];
    huge_frame_empties = 128, [Block(0, 5), Block(96, 5)], [
        thread!(owns [Block(0, 5)]: Free(0, 5)),
        thread!(owns [Block(96, 5)]: Free(96, 5)),
        thread!(Alloc(7)),
    ];
    run_closes = 128, [Block(0, 5), Block(64, 5)], [
        thread!(owns [Block(0, 5)]: Free(0, 5), Alloc(7)),
        thread!(owns [Block(64, 5)]: Free(64, 5), At(96, 5)),
    ];
    two_close_a_run = 128, [Block(0, 5), Block(64, 5)], [
        thread!(owns [Block(0, 5), Block(64, 5)]: Free(0, 5), Free(64, 5), At(0, 7), FreeGot(0)),
        thread!(At(0, 7), At(64, 6)),
    ];
    run_closes_beside_an_opening = 128, [Block(0, 5), Block(64, 6)], [
        thread!(owns [Block(0, 5)]: Free(0, 5), Alloc(7)),
        thread!(owns [Block(64, 6)]: Free(64, 6), At(64, 5)),
    ];
    /// Whoever looks at a row that was closed, and is a part of somebody's block, comes too late.
    late_for_a_row_in_parts = 128, [Block(0, 5), Block(64, 6)], [
        thread!(owns [Block(0, 5)]: Free(0, 5), Alloc(5), FreeGot(0)),
        thread!(At(0, 6), FreePart(0, 5), FreeGot(0)),
    ];
    late_for_a_row = 128, [Block(0, 5), Block(64, 6)], [
        thread!(owns [Block(0, 5)]: Free(0, 5), At(0, 5)),
        thread!(At(0, 6)),
    ];
    two_late = 128, [Block(0, 5), Block(64, 6)], [
        thread!(owns [Block(0, 5)]: Free(0, 5), Alloc(5)),
        thread!(Alloc(5)),
        thread!(Alloc(6)),
    ];

    // ---- Parts and wholes ----

    parts_of_a_row = 128, [Block(0, 7)], [
        thread!(owns [Block(0, 5)]: Free(0, 5)),
        thread!(owns [Block(32, 5)]: Free(32, 5)),
        thread!(Alloc(5), FreeGot(0)),
    ];
    parts_of_a_huge_frame = 128, [Block(0, 7)], [
        thread!(owns [Block(0, 0)]: Free(0, 0)),
        thread!(owns [Block(64, 6)]: Free(64, 6), Alloc(7)),
    ];
    parts_freed_together = 128, [Block(0, 5), Block(32, 5), Block(64, 6)], [
        thread!(owns [Block(0, 7)]: Free(0, 7)),
        thread!(Alloc(5), FreeGot(0)),
        thread!(Alloc(7)),
    ];
    pairs = 256, [], [
        thread!(Alloc(8), FreeGot(0)),
        thread!(At(128, 7), FreeGot(0)),
        thread!(At(0, 5)),
    ];
    /// By the look at the slot's huge frame, which a free of a pair has left there.
    pair_at_once = 256, [Block(0, 8)], [
        thread!(owns [Block(0, 8)]: Free(0, 8), Alloc(8), FreeGot(0)),
        thread!(At(128, 7), FreeGot(0)),
    ];
    pair_at_once_and_parts = 256, [Block(0, 8)], [
        thread!(owns [Block(0, 8)]: Free(0, 8), Alloc(8)),
        thread!(At(160, 5), FreeGot(0)),
    ];
    next_huge_frame = 384, [], [
        thread!(Alloc(7), Alloc(7), FreeGot(1)),
        thread!(At(128, 7), FreeGot(0)),
    ];
    next_pair = 512, [Block(0, 7)], [
        thread!(Alloc(8), FreeGot(0), Alloc(8)),
        thread!(At(384, 7), FreeGot(0), At(256, 6)),
    ];
    pair_freed_twice = 256, [Block(0, 8)], [
        thread!(FreeAgain(0, 8)),
        thread!(FreeAgain(0, 8)),
    ];
    pair_is_freed = 256, [Block(0, 8)], [
        thread!(owns [Block(0, 8)]: Free(0, 8)),
        thread!(Alloc(8)),
    ];
    freed_twice = 128, [Block(0, 5), Block(64, 6)], [
        thread!(FreeAgain(0, 5)),
        thread!(FreeAgain(0, 5)),
        thread!(At(64, 0)),
    ];
    row_freed_twice = 128, [Block(0, 6), Block(64, 6)], [
        thread!(FreeAgain(0, 6)),
        thread!(FreeAgain(0, 6)),
    ];
    offline = 128, [], [
        thread!(Offline(0), Online(0)),
        thread!(At(1, 0), FreeGot(0)),
        thread!(Alloc(7)),
    ];
    /// A wrong free loses no frames but those that it names.
    wrong_free_beside_online = 128, [], [
        thread!(Offline(0), Online(0)),
        thread!(Stray(0, 0)),
    ];
    wrong_free_beside_a_pair = 256, [], [
        thread!(At(0, 8)),
        thread!(At(128, 7), FreeGot(0)),
        thread!(Stray(0, 0)),
    ];
    wrong_free_beside_a_free_of_a_pair = 256, [Block(0, 8)], [
        thread!(owns [Block(0, 8)]: TryFree(0, 8)),
        thread!(Stray(128, 0)),
    ];
    wrong_free_beside_an_opening = 128, [], [
        thread!(Alloc(5), FreeGot(0)),
        thread!(Stray(64, 0)),
    ];
    wrong_free_beside_a_closing = 128, [Block(0, 5), Block(64, 5)], [
        thread!(owns [Block(0, 5), Block(64, 5)]: Free(0, 5), Free(64, 5), At(0, 7)),
        thread!(Stray(96, 0)),
    ];

    // ---- Two calls of one slot ----

    one_slot_for_frames = 256, [Block(64, 6)], [
        thread!(Alloc(0), FreeGot(0)),
        thread!(Alloc(0), Alloc(5)),
    ], slots 1;
    one_slot_for_rows = 256, [Block(64, 6)], [
        thread!(Alloc(6), FreeGot(0), Alloc(6)),
        thread!(Alloc(6), FreeGot(0)),
    ], slots 1;
    one_slot_for_huge_frames = 384, [], [
        thread!(Alloc(7), Alloc(7)),
        thread!(Alloc(7), FreeGot(0)),
    ], slots 1;
    one_slot_for_pairs = 512, [], [
        thread!(Alloc(8), FreeGot(0), Alloc(8)),
        thread!(Alloc(8), FreeGot(0)),
    ], slots 1;

    // ---- Hints ----

    frame_is_freed_while_sought = 128, [Block(0, 7)], [
        thread!(owns [Block(0, 0)]: Free(0, 0)),
        thread!(Alloc(0)),
    ];
    half_row_is_freed_while_sought = 128, [Block(0, 5), Block(32, 0), Block(64, 6)], [
        thread!(owns [Block(0, 5)]: Free(0, 5)),
        thread!(Alloc(5)),
    ];
    pair_is_freed_while_sought = 256, [Block(0, 7), Block(128, 7)], [
        thread!(owns [Block(0, 7), Block(128, 7)]: Free(0, 7), Free(128, 7)),
        thread!(Alloc(8)),
    ];
    frame_is_freed_and_sought = 128, [Block(0, 7)], [
        thread!(owns [Block(0, 0)]: Free(0, 0)),
        thread!(Alloc(0)),
        thread!(Alloc(0)),
    ];
    half_row_is_freed_and_sought = 128, [Block(0, 5), Block(32, 0), Block(64, 6)], [
        thread!(owns [Block(0, 5)]: Free(0, 5)),
        thread!(Alloc(5)),
        thread!(Alloc(5)),
    ];
    row_is_freed_and_sought = 128, [Block(0, 7)], [
        thread!(owns [Block(64, 6)]: Free(64, 6)),
        thread!(Alloc(6)),
        thread!(Alloc(7)),
    ];
    pair_is_freed_in_halves_and_sought = 256, [Block(0, 7), Block(128, 7)], [
        thread!(owns [Block(0, 7)]: Free(0, 7)),
        thread!(owns [Block(128, 7)]: Free(128, 7)),
        thread!(Alloc(8)),
    ];
}
