//! The scenarios, as tables: one test each.
//!
//! Rows are frames 0 to 63, 64 to 127 and so on. Order 5 is half of a row, 6 a row, 7 a huge frame, 8 a pair.

use super::Op::{Alloc, At, Find, Free, FreeAgain, FreeGot, FreePart, Offline, Online, Stray};
use super::{Block, Scenario, Script, driver};

/// A test for each scenario.
macro_rules! models {
    ($($(#[$doc:meta])* $name:ident = $frames:literal, $setup:expr, $threads:expr;)*) => {
        $($(#[$doc])* #[test] fn $name() {
            let (name, frames) = (stringify!($name), $frames);
            driver::check(&Scenario { name, frames, setup: &$setup, threads: &$threads });
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

    open_and_open = 128, [], [thread!(Find(5), FreeGot(0)), thread!(Find(5), FreeGot(0))];
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
