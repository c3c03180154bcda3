//! The scenarios, as tables: one test each.
//!
//! Rows are frames 0 to 63, 64 to 127 and so on. Order 5 is half of a row, 6 a row, 7 a huge frame, 8 a pair; of wide ones 11 and 12.

use woodlot_frame::Class;
use woodlot_frame::Reclaim::{Hard, Soft};

use super::Op::{
    Alloc, AllocApart, AllocAs, At, Claim, ClaimOffline, ClaimRefused, EndAnyones, Find, Free,
    FreeAgain, FreeGot, FreePart, FreeZeroed, Give, Isolate, IsolateRun, Offline, OfflineRun,
    Online, OnlineAnyones, OnlineRefused, OnlineRun, Reclaim, Stray, TryFree, Unisolate,
    UnisolateRun,
};
use super::{Block, Scenario, Script, TwoRows, Wide, driver};

/// A test for each scenario. Of one that has too many states, some are explored `in_part`; those of huge frames of 32 rows are `wide`.
macro_rules! models {
    ($($(#[$doc:meta])* $name:ident = $frames:literal, $setup:expr, $threads:expr
        $(, slots $slots:literal)? $(=> $part:ident)?;)*) => {
        $($(#[$doc])* #[test] fn $name() {
            let (name, frames, threads) = (stringify!($name), $frames, &$threads);
            let slots = [$($slots,)? threads.len()][0];
            let is = |what| [$(stringify!($part),)?].contains(&what);
            let (in_part, dies) = (is("in_part"), is("dies"));
            let check = if is("wide") { driver::check::<Wide> } else { driver::check::<TwoRows> };
            check(&Scenario { name, frames, slots, setup: &$setup, threads, in_part, dies });
        })*
    };
}

/// A thread: what it owns, or has isolated, or says is zeroed; what it does.
macro_rules! thread {
    (owns [$($block:expr),*]: $($op:expr),+) => {
        Script { owns: &[$($block),*], ..thread!($($op),+) }
    };
    (owns [$($block:expr),*] zeroed [$($huge:literal),*]: $($op:expr),+) => {
        Script { zeroed: &[$($huge),*], ..thread!(owns [$($block),*]: $($op),+) }
    };
    (isolated [$($huge:literal),*]: $($op:expr),+) => {
        Script { isolated: &[$($huge),*], ..thread!($($op),+) }
    };
    ($($op:expr),+) => { Script { owns: &[], isolated: &[], zeroed: &[], ops: &[$($op),+] } };
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
    ] => in_part;
    late_for_a_row = 128, [Block(0, 5), Block(64, 6)], [
        thread!(owns [Block(0, 5)]: Free(0, 5), At(0, 5)),
        thread!(At(0, 6)),
    ];
    two_late = 128, [Block(0, 5), Block(64, 6)], [
        thread!(owns [Block(0, 5)]: Free(0, 5), Alloc(5)),
        thread!(Alloc(5)),
        thread!(Alloc(6)),
    ];

    // ---- Who frees dies ----

    /// After a search has found that there is nothing. Survivors have slots of their own.
    frees_a_hole_and_dies = 128, [Block(0, 5), Block(64, 5), Block(32, 5), Block(96, 5)], [
        thread!(owns [Block(0, 5)]: Alloc(5), Free(0, 5)),
    ], slots 4 => dies;
    frees_a_row_and_dies = 256, [Block(0, 6), Block(64, 6), Block(128, 7)], [
        thread!(owns [Block(0, 6)]: Alloc(6), Free(0, 6)),
    ], slots 4 => dies;
    frees_huge_frame_and_dies = 512, [Block(0, 7), Block(128, 7), Block(256, 8)], [
        thread!(owns [Block(0, 7)]: Alloc(7), Free(0, 7)),
    ], slots 4 => dies;
    two_free_and_die = 128, [Block(0, 5), Block(64, 5), Block(96, 5), Block(32, 5)], [
        thread!(owns [Block(0, 5)]: Free(0, 5)),
        thread!(owns [Block(32, 5)]: Alloc(5), Free(32, 5)),
    ], slots 4 => dies;
    two_free_rows_and_die = 256, [Block(0, 6), Block(64, 6), Block(128, 6), Block(192, 6)], [
        thread!(owns [Block(0, 6)]: Alloc(6), Free(0, 6)),
        thread!(owns [Block(128, 6)]: Alloc(6), Free(128, 6)),
    ], slots 4 => dies;

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
    wide_pairs = 4096, [], [
        thread!(Alloc(12), FreeGot(0)),
        thread!(At(2048, 11), FreeGot(0)),
    ] => wide;
    wide_pair_at_once = 4096, [Block(0, 12)], [
        thread!(owns [Block(0, 12)]: Free(0, 12), Alloc(12), FreeGot(0)),
        thread!(At(2048, 11), FreeGot(0)),
    ] => wide;
    wide_pair_freed_twice = 4096, [Block(0, 12)], [
        thread!(FreeAgain(0, 12)),
        thread!(FreeAgain(0, 12)),
    ] => wide;
    wide_pair_is_freed = 4096, [Block(0, 12)], [
        thread!(owns [Block(0, 12)]: Free(0, 12)),
        thread!(Alloc(12), FreeGot(0)),
    ] => wide;
    wide_pair_is_freed_in_halves_and_sought = 4096, [Block(0, 11), Block(2048, 11)], [
        thread!(owns [Block(0, 11), Block(2048, 11)]: Free(0, 11), Free(2048, 11)),
        thread!(Alloc(12)),
    ] => wide;
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
    /// All or none. What is refused gives back what it has taken itself, and nobody else's.
    refused_offline_beside_another = 256, [Block(128, 6)], [
        thread!(OfflineRun(0, 2)),
        thread!(OnlineRefused(0, 1), Offline(0), Online(0)),
    ];
    offline_of_two = 256, [], [
        thread!(OfflineRun(0, 2), OnlineRun(0, 2)),
        thread!(At(128, 5), FreeGot(0)),
    ];
    two_take_both_offline = 4096, [], [
        thread!(OfflineRun(0, 2), OnlineRun(0, 2)),
        thread!(OfflineRun(0, 2), OnlineRun(0, 2)),
    ] => wide;
    two_take_a_pair_offline = 256, [], [
        thread!(OfflineRun(0, 2), OnlineRun(0, 2)),
        thread!(OfflineRun(0, 2), OnlineRun(0, 2)),
    ] => in_part;
    /// Who has taken a huge frame out brings it back, whatever call has brought it back before.
    online_of_two_beside_offline_and_back = 4096, [], [
        thread!(OfflineRun(0, 2), OnlineRun(0, 2)),
        thread!(Offline(0), Online(0)),
    ] => wide;
    online_of_a_pair_beside_offline_and_back = 256, [], [
        thread!(OfflineRun(0, 2), OnlineRun(0, 2)),
        thread!(Offline(0), Online(0)),
    ] => in_part;
    /// One of the two does.
    two_bring_one_online = 128, [], [
        thread!(Offline(0), OnlineRun(0, 1)),
        thread!(OnlineAnyones(0)),
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
    wrong_free_beside_a_wide_pair = 4096, [], [
        thread!(At(0, 12)),
        thread!(Stray(0, 0)),
        thread!(At(2048, 11)),
    ] => wide;
    wrong_free_beside_a_free_of_a_wide_pair = 4096, [Block(0, 12)], [
        thread!(owns [Block(0, 12)]: TryFree(0, 12)),
        thread!(Stray(2048, 0)),
    ] => wide;
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
        thread!(Alloc(0)),
        thread!(Alloc(0), Alloc(5)),
    ], slots 1 => in_part;
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
    /// One half is told, while the other is taken.
    pair_is_freed_beside_its_first = 256, [Block(0, 8)], [
        thread!(owns [Block(0, 8)]: Free(0, 8)),
        thread!(Alloc(7), At(0, 7)),
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

    // ---- Classes ----

    /// Whoever breaks a huge frame writes its class beside what others write in its hint.
    class_and_class = 128, [], [
        thread!(AllocAs(Class::IMMOVABLE, 6)),
        thread!(AllocAs(Class::LONG_LIVED, 6)),
    ];
    class_beside_isolate = 128, [], [
        thread!(Isolate(0)),
        thread!(AllocAs(Class::IMMOVABLE, 5)),
    ];
    class_beside_a_free = 128, [Block(0, 7)], [
        thread!(owns [Block(0, 5)]: Free(0, 5)),
        thread!(AllocAs(Class::IMMOVABLE, 5)),
    ];
    class_beside_frees = 128, [Block(0, 7)], [
        thread!(owns [Block(0, 5), Block(32, 5)]: Free(0, 5), Free(32, 5)),
        thread!(AllocAs(Class::IMMOVABLE, 5)),
    ] => in_part;

    // ---- Isolation ----

    /// The slot has a row, or takes hold of one while its huge frame is isolated, the only one: its next call gets nothing.
    isolate_beside_bits = 128, [], [
        thread!(Isolate(0)),
        thread!(Alloc(0), AllocApart(0)),
    ];
    /// The only hole, which the slot has freed, and the rows behind its own.
    isolate_beside_holes = 256, [Block(0, 7), Block(128, 7)], [
        thread!(Isolate(0)),
        thread!(owns [Block(0, 0), Block(64, 0)]:
            Free(0, 0), AllocApart(0), Free(64, 0), AllocApart(0)),
    ];
    isolate_beside_parts_of_rows = 128, [], [
        thread!(Isolate(0)),
        thread!(Alloc(5), AllocApart(5), FreeGot(0)),
    ];
    isolate_beside_rows = 128, [], [
        thread!(Isolate(0)),
        thread!(Alloc(6), AllocApart(6), FreeGot(0)),
    ];
    isolate_beside_huge_frames = 512, [], [
        thread!(Isolate(3)),
        thread!(AllocApart(7), AllocApart(7), FreeGot(1)),
    ];
    /// Its rows are open.
    isolate_beside_a_closing = 256, [Block(0, 5), Block(128, 7)], [
        thread!(Isolate(0), Claim(0, 1)),
        thread!(owns [Block(0, 5)]: Free(0, 5), AllocApart(7)),
    ];
    isolate_beside_pairs = 512, [Block(0, 8)], [
        thread!(Isolate(1)),
        thread!(owns [Block(0, 8)]: Free(0, 8), AllocApart(8), AllocApart(8)),
    ];
    isolate_beside_exact_blocks = 256, [], [
        thread!(Isolate(0), Unisolate(0)),
        thread!(At(1, 0), At(64, 6), FreeGot(0)),
    ];
    isolate_beside_exact_pair = 256, [], [
        thread!(Isolate(1), Claim(1, 1)),
        thread!(At(0, 8), FreeGot(0)),
    ];
    /// What is empty is claimed, and given back.
    isolate_beside_frees = 128, [Block(0, 5), Block(64, 6)], [
        thread!(Isolate(0), Claim(0, 1), FreeGot(0)),
        thread!(owns [Block(0, 5), Block(64, 6)]: Free(0, 5), Free(64, 6)),
    ];
    isolate_beside_frees_and_searches = 128, [Block(0, 6), Block(64, 5)], [
        thread!(Isolate(0), Unisolate(0)),
        thread!(owns [Block(0, 6), Block(64, 5)]: Free(0, 6), Free(64, 5)),
        thread!(Alloc(5)),
    ];
    /// One of two isolators wins, and what it claims is its own.
    two_isolators = 128, [], [
        thread!(Isolate(0), Claim(0, 1), FreeGot(0)),
        thread!(Isolate(0), ClaimOffline(0, 1), Online(0)),
    ];
    isolate_beside_offline = 128, [], [thread!(Isolate(0)), thread!(Offline(0))];
    isolate_beside_offline_and_back = 128, [], [
        thread!(Isolate(0), Unisolate(0)),
        thread!(Offline(0), Online(0)),
    ];
    /// Of all or none, an isolator beside.
    isolate_beside_offline_of_two = 256, [], [
        thread!(Isolate(1), Unisolate(1)),
        thread!(OfflineRun(0, 2), OnlineRun(0, 2)),
    ];
    isolate_of_two_beside_offline_of_two = 256, [], [
        thread!(IsolateRun(0, 2), ClaimOffline(0, 2)),
        thread!(OfflineRun(0, 2)),
    ];
    isolate_beside_a_refused_offline = 256, [Block(128, 6)], [
        thread!(Isolate(0), Unisolate(0)),
        thread!(OfflineRun(0, 2)),
        thread!(OnlineRefused(0, 1), Offline(0)),
    ];
    claim_beside_offline = 128, [], [
        thread!(Isolate(0), ClaimOffline(0, 1)),
        thread!(Offline(0), Online(0)),
    ];
    claim_beside_a_late_call = 128, [], [
        thread!(Isolate(0), Claim(0, 1)),
        thread!(At(0, 5), FreeGot(0), At(64, 6)),
    ];
    claim_beside_a_late_row = 128, [Block(64, 6)], [
        thread!(owns [Block(64, 6)]: Isolate(0), Free(64, 6), ClaimOffline(0, 1)),
        thread!(Alloc(6), FreeGot(0), Alloc(7)),
    ];
    /// All or none.
    claim_of_two = 256, [Block(128, 6)], [
        thread!(Isolate(0), Isolate(1), Claim(0, 2), Unisolate(0)),
        thread!(owns [Block(128, 6)]: Free(128, 6), At(0, 8)),
    ];
    /// A claim beside a caller that ends its isolation, and one that begins another: what one has claimed nobody else has.
    claim_beside_an_end = 128, [], [
        thread!(Isolate(0), Claim(0, 1)),
        thread!(EndAnyones(0), At(0, 5)),
    ];
    claim_of_two_beside_an_end = 256, [], [
        thread!(Isolate(0), Isolate(1), ClaimOffline(0, 2)),
        thread!(EndAnyones(1), At(0, 7)),
    ];
    claim_beside_another = 128, [], [
        thread!(Isolate(0), Claim(0, 1)),
        thread!(EndAnyones(0), Isolate(0), Claim(0, 1)),
    ];
    /// A claim of what is not isolated yet, or whose isolation ends, is refused; it keeps nothing isolated, and nothing from being so.
    refused_isolate_beside_a_refused_claim = 256, [Block(0, 6)], [
        thread!(IsolateRun(0, 2)),
        thread!(isolated [1]: ClaimRefused(0)),
    ];
    refused_end_beside_a_refused_claim = 256, [Block(128, 6)], [
        thread!(isolated [0, 1]: UnisolateRun(0, 2)),
        thread!(ClaimRefused(1), Isolate(0)),
    ];
    /// What stays offline is not isolated.
    isolate_beside_refused_online = 256, [], [
        thread!(Isolate(0)),
        thread!(Offline(0), OnlineRefused(0, 2)),
    ];
    isolate_beside_two_onlines = 256, [], [
        thread!(Offline(0), Offline(1), OnlineRun(0, 2)),
        thread!(OnlineAnyones(1)),
        thread!(Isolate(0)),
    ];
    /// What a search says of a huge frame that is isolated is taken back when that ends.
    search_beside_an_end = 128, [Block(64, 6)], [
        thread!(isolated [0]: Unisolate(0)),
        thread!(Alloc(5)),
    ];
    search_of_rows_beside_an_end = 128, [Block(64, 5)], [
        thread!(isolated [0]: Unisolate(0)),
        thread!(Alloc(6)),
    ];
    search_of_pairs_beside_an_end = 256, [], [
        thread!(isolated [1]: Unisolate(1)),
        thread!(Alloc(8)),
    ];
    two_ends_of_a_pair = 256, [], [
        thread!(isolated [0]: Alloc(8), Unisolate(0)),
        thread!(isolated [1]: Unisolate(1)),
    ];
    frees_beside_an_end = 128, [Block(0, 7)], [
        thread!(isolated [0]: Alloc(5), Unisolate(0)),
        thread!(owns [Block(0, 5), Block(64, 6)]: Free(0, 5), Free(64, 6)),
    ];
    free_beside_an_end = 128, [Block(0, 7)], [
        thread!(isolated [0]: Alloc(5), Unisolate(0)),
        thread!(owns [Block(0, 5)]: Free(0, 5)),
    ];
    free_and_search_beside_an_end = 128, [Block(0, 7)], [
        thread!(isolated [0]: Unisolate(0)),
        thread!(owns [Block(0, 5)]: Free(0, 5)),
        thread!(Alloc(5)),
    ];
    row_and_search_beside_an_end = 128, [Block(0, 7)], [
        thread!(isolated [0]: Unisolate(0)),
        thread!(owns [Block(64, 6)]: Free(64, 6)),
        thread!(Alloc(6)),
    ];

    // ---- Flags and reclaim ----

    zeroed_beside_a_row = 128, [Block(0, 7)], [
        thread!(owns [Block(0, 7)]: FreeZeroed(0)),
        thread!(Alloc(6)),
    ];
    zeroed_beside_an_opening = 128, [Block(0, 7)], [
        thread!(owns [Block(0, 7)]: FreeZeroed(0)),
        thread!(Alloc(5)),
    ];
    /// One opens the row, and another one has a part of it.
    zeroed_and_opened = 128, [Block(0, 7)], [
        thread!(owns [Block(0, 7)]: FreeZeroed(0), At(0, 5)),
        thread!(At(32, 5)),
    ];
    zeroed_and_shared = 128, [Block(0, 7)], [
        thread!(owns [Block(0, 7)]: FreeZeroed(0)),
        thread!(At(32, 5), FreeGot(0)),
        thread!(At(64, 6), At(0, 5)),
    ];
    /// Two free parts of one row, and one of them has its part again, before the other has opened the row.
    zeroed_in_parts = 128, [Block(0, 7)], [
        thread!(owns [Block(0, 5)] zeroed [0]: Free(0, 5)),
        thread!(owns [Block(32, 5)]: Free(32, 5), At(32, 5)),
    ];
    zeroed_and_huge = 128, [Block(0, 7)], [
        thread!(owns [Block(0, 7)]: FreeZeroed(0), Alloc(7), FreeGot(0)),
        thread!(Alloc(7), FreePart(0, 5)),
    ];
    zeroed_pair = 256, [Block(0, 7), Block(128, 7)], [
        thread!(owns [Block(0, 7)]: FreeZeroed(0), Alloc(8)),
        thread!(owns [Block(128, 7)]: FreeZeroed(1), Alloc(7)),
    ];
    zeroed_beside_an_offline = 128, [Block(0, 7)], [
        thread!(owns [Block(0, 7)]: FreeZeroed(0), At(0, 6)),
        thread!(Offline(0), Online(0)),
    ];
    zeroed_beside_a_claim = 128, [Block(0, 7)], [
        thread!(owns [Block(0, 7)]: FreeZeroed(0)),
        thread!(isolated [0]: Claim(0, 1)),
    ];
    soft_and_huge = 256, [], [thread!(Reclaim(Soft, 2)), thread!(Alloc(7), FreeGot(0))];
    soft_and_open = 128, [], [thread!(Reclaim(Soft, 1)), thread!(Alloc(5), FreeGot(0))];
    soft_and_free = 128, [Block(0, 7)], [
        thread!(Reclaim(Soft, 1)),
        thread!(owns [Block(0, 7)]: FreeZeroed(0)),
    ];
    soft_twice = 256, [], [thread!(Reclaim(Soft, 2)), thread!(Reclaim(Soft, 1))];
    soft_and_hard = 256, [], [thread!(Reclaim(Soft, 2)), thread!(Reclaim(Hard, 1))];
    hard_twice = 256, [Block(0, 7)], [thread!(Reclaim(Hard, 1), Give(0)), thread!(Reclaim(Hard, 1))];
    hard_both = 256, [], [thread!(Reclaim(Hard, 2)), thread!(Reclaim(Hard, 1), Give(0))];
    hard_and_huge = 256, [Block(0, 7)], [
        thread!(Reclaim(Hard, 1), Give(0)),
        thread!(Alloc(7), FreeGot(0)),
    ];
    hard_and_open = 128, [], [thread!(Reclaim(Hard, 1), Give(0)), thread!(At(0, 5))];
    hard_and_free = 128, [Block(0, 5), Block(32, 5)], [
        thread!(Reclaim(Hard, 1)),
        thread!(owns [Block(0, 5), Block(32, 5)]: Free(0, 5), Free(32, 5)),
    ];
    hard_and_isolation = 128, [], [
        thread!(Reclaim(Hard, 1), Give(0)),
        thread!(Isolate(0), Unisolate(0)),
    ];
}

/// A row of which all is free is open, in a word of states of which all rows are in the zone; the last row is cut, in the next word.
#[cfg(woodlot_explore)]
#[test]
fn a_recovery_is_cut_off() {
    let setup = &[Block(0, 0), Block(128, 6), Block(192, 0), Block(320, 0)];
    let (name, threads) = ("a_recovery_is_cut_off", &[]);
    let scenario =
        Scenario { name, frames: 368, slots: 1, setup, threads, in_part: false, dies: false };
    driver::check_recovery(&scenario, setup[0]);
}
