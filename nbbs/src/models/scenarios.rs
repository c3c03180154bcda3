//! The scenarios, as tables: one test each.
//!
//! In the one-level form orders 0 to 2 (frames 0 to 3) or 0 to 3, one cell a node. In the four-level
//! form orders 0 to 4: cells of frames 0 to 7 and 8 to 15, and the root's; 0 to 5, where a root is
//! two fields of one cell; or 0 to 8: three groups.

use super::Op::{
    Alloc, At, Find, Free, FreeAgain, FreeGot, FreeHalf, FreeLate, Offline, Online, Settle,
};
use super::{Block, Scenario, Script, Tiny, driver};
use crate::form::{FourLevels, OneLevel};

/// A test for each scenario.
macro_rules! models {
    ($($(#[$doc:meta])* $name:ident = $scenario:expr;)*) => {
        $($(#[$doc])* #[test] fn $name() {
            driver::check(&$scenario.named(stringify!($name)));
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

type Three = Scenario<Tiny<1>, OneLevel>;
type Four = Scenario<Tiny<2>, OneLevel>;
type Cells = Scenario<Tiny<3>, FourLevels>;
type Roots = Scenario<Tiny<4>, FourLevels>;
type Groups = Scenario<Tiny<7>, FourLevels>;

models! {
    // ---- One level ----

    two_buddies = Three::new(&[], &[
        thread!(At(0, 0), FreeGot(0)),
        thread!(At(1, 0), FreeGot(0)),
    ]);
    the_same_block = Three::new(&[], &[
        thread!(At(0, 0), FreeGot(0)),
        thread!(At(0, 0), FreeGot(0)),
        thread!(At(0, 0)),
    ]);
    one_frame = Three::new(&[], &[
        thread!(At(0, 0), FreeGot(0)),
        thread!(At(0, 0), FreeGot(0)),
    ]);
    /// A block, its parent and the root.
    inner_and_outer = Three::new(&[], &[
        thread!(At(0, 0), FreeGot(0)),
        thread!(At(0, 1), FreeGot(0)),
        thread!(At(0, 2), FreeGot(0)),
    ]);
    /// Two climbs through one branch, and the root.
    two_climbs = Four::new(&[], &[thread!(At(0, 0)), thread!(At(1, 0)), thread!(At(0, 3))]);
    inner_and_root = Four::new(&[], &[
        thread!(At(0, 0), FreeGot(0)),
        thread!(At(4, 1), FreeGot(0)),
        thread!(At(0, 3), FreeGot(0)),
    ]);
    /// A release in the left half against allocations in it and in the right one, and of both.
    release_left = Three::new(&[Block(0, 0)], &[
        thread!(owns [Block(0, 0)]: Free(0, 0)),
        thread!(At(1, 0), FreeGot(0)),
        thread!(At(2, 1), FreeGot(0), At(0, 2)),
    ]);
    release_right = Three::new(&[Block(3, 0)], &[
        thread!(owns [Block(3, 0)]: Free(3, 0)),
        thread!(At(2, 0), FreeGot(0)),
        thread!(At(0, 1), FreeGot(0), At(0, 2)),
    ]);
    release_left_of_four = Four::new(&[Block(1, 0)], &[
        thread!(owns [Block(1, 0)]: Free(1, 0)),
        thread!(At(2, 1), FreeGot(0)),
        thread!(At(0, 3), FreeGot(0)),
    ]);
    release_right_of_four = Four::new(&[Block(6, 1)], &[
        thread!(owns [Block(6, 1)]: Free(6, 1)),
        thread!(At(7, 0), FreeGot(0)),
        thread!(At(4, 2)),
    ]);
    /// Both halves are freed, and allocated as one.
    releases_meet = Three::new(&[Block(0, 0), Block(1, 0)], &[
        thread!(owns [Block(0, 0)]: Free(0, 0)),
        thread!(owns [Block(1, 0)]: Free(1, 0)),
        thread!(At(0, 1), FreeGot(0), At(0, 2)),
    ]);
    releases_meet_at_the_root = Three::new(&[Block(0, 1), Block(2, 0)], &[
        thread!(owns [Block(0, 1)]: Free(0, 1)),
        thread!(owns [Block(2, 0)]: Free(2, 0)),
        thread!(At(0, 2), FreeGot(0)),
    ]);
    three_releases = Three::new(&[Block(0, 0), Block(1, 0), Block(2, 0)], &[
        thread!(owns [Block(0, 0)]: Free(0, 0)),
        thread!(owns [Block(1, 0)]: Free(1, 0)),
        thread!(owns [Block(2, 0)]: Free(2, 0), At(0, 2)),
    ]);
    /// One who frees while another is beside it.
    neighbours = Three::new(&[Block(0, 0), Block(1, 0)], &[
        thread!(owns [Block(0, 0)]: Free(0, 0)),
        thread!(At(2, 1), FreeGot(0), At(0, 2)),
    ]);
    /// A releaser, one that allocates and frees in its place, and one beside them (`climb.rs`).
    delayed_release = Three::new(&[Block(0, 0)], &[
        thread!(owns [Block(0, 0)]: Free(0, 0)),
        thread!(At(0, 0), FreeGot(0), At(0, 2)),
        thread!(At(1, 0)),
    ]);
    /// An allocation within a block that is freed meanwhile; another one takes its place.
    failing_climb = Three::new(&[Block(0, 2)], &[
        thread!(owns [Block(0, 2)]: Free(0, 2)),
        thread!(At(0, 0), FreeGot(0)),
        thread!(At(1, 0), FreeGot(0)),
    ]);
    /// A climb meets a block that was not there when it began, and that is freed meanwhile.
    block_met_on_the_way = Three::new(&[], &[
        thread!(At(0, 0), FreeGot(0)),
        thread!(At(0, 2), FreeGot(0)),
        thread!(At(1, 0), FreeGot(0)),
    ]);
    failing_climb_of_four = Four::new(&[Block(0, 2)], &[
        thread!(owns [Block(0, 2)]: Free(0, 2)),
        thread!(At(0, 0), FreeGot(0)),
        thread!(At(1, 0), FreeGot(0), At(0, 3)),
    ]);
    search_for_the_last_frame = Three::new(&[Block(0, 0), Block(1, 0), Block(2, 0)], &[
        thread!(owns [Block(1, 0)]: Free(1, 0), Alloc(0, 0)),
        thread!(Alloc(0, 2), FreeGot(0)),
        thread!(Alloc(0, 0)),
    ]);
    /// A search in a zone of which the last block is freed meanwhile.
    free_and_search = Three::new(&[Block(0, 0), Block(1, 0), Block(2, 1)], &[
        thread!(owns [Block(1, 0)]: Free(1, 0)),
        thread!(Alloc(0, 0)),
    ]);
    /// The half is another thread's for a moment, before it finds the block above.
    half_of_a_block_is_freed = Three::new(&[], &[
        thread!(At(0, 1), FreeHalf(0), FreeGot(0)),
        thread!(At(0, 0), FreeGot(0)),
    ]);
    half_of_a_block_is_put_back = Three::new(&[], &[
        thread!(At(0, 2), FreeHalf(0), FreeGot(0)),
        thread!(Offline(0), Online(0)),
    ]);
    /// The other search is about to say that nothing is free, and has not looked again yet.
    search_before_the_second_look = Three::new(&[Block(0, 1), Block(2, 1)], &[
        thread!(owns [Block(0, 1)]: Free(0, 1), Find(0, 0)),
        thread!(Alloc(0, 0)),
    ]);
    free_both_and_search = Three::new(&[Block(0, 0), Block(1, 0), Block(2, 1)], &[
        thread!(owns [Block(0, 0)]: Free(0, 0)),
        thread!(owns [Block(1, 0)]: Free(1, 0)),
        thread!(Alloc(1, 0), Alloc(0, 0)),
    ]);
    search_for_a_half = Three::new(&[Block(2, 1), Block(0, 0)], &[
        thread!(owns [Block(0, 0)]: Free(0, 0), Alloc(1, 0)),
        thread!(Alloc(1, 1), FreeGot(0)),
    ]);
    search_in_two_roots = Three::new(&[Block(1, 0)], &[
        thread!(owns [Block(1, 0)]: Free(1, 0)),
        thread!(Alloc(2, 0), FreeGot(0)),
        thread!(Alloc(2, 4)),
    ]).roots(2);
    freed_twice = Three::new(&[Block(0, 0), Block(1, 0)], &[
        thread!(FreeAgain(0, 0)),
        thread!(FreeAgain(0, 0)),
        thread!(owns [Block(1, 0)]: Free(1, 0), At(2, 1)),
    ]);
    /// A release that is put off is done while its block is allocated again.
    late_release = Three::new(&[Block(0, 0)], &[
        thread!(owns [Block(0, 0)]: FreeLate(0, 0)),
        thread!(Settle),
        thread!(At(0, 0), FreeGot(0), At(0, 2)),
    ]);
    /// The same block, twice: the second free finds its cell put off already, unless that is done.
    late_twice = Three::new(&[Block(0, 0)], &[
        thread!(owns [Block(0, 0)]: FreeLate(0, 0), At(0, 0), FreeLate(0, 0)),
        thread!(Settle),
        thread!(At(1, 0), FreeGot(0)),
    ]);
    /// Two through one slot: the one takes the other's place.
    two_late_releases = Three::new(&[Block(0, 0), Block(2, 0)], &[
        thread!(owns [Block(0, 0)]: FreeLate(0, 0)),
        thread!(owns [Block(2, 0)]: FreeLate(2, 0)),
        thread!(Alloc(2, 0), FreeGot(0)),
    ]);
    late_release_and_searches = Three::new(&[Block(0, 0)], &[
        thread!(owns [Block(0, 0)]: FreeLate(0, 0)),
        thread!(Alloc(2, 0), FreeGot(0)),
        thread!(Alloc(1, 0), FreeGot(0)),
    ]);
    late_release_and_offline = Three::new(&[Block(1, 0)], &[
        thread!(owns [Block(1, 0)]: FreeLate(1, 0)),
        thread!(Offline(0), Online(0)),
        thread!(At(0, 0), FreeGot(0)),
    ]);
    late_release_of_four = Four::new(&[Block(6, 1)], &[
        thread!(owns [Block(6, 1)]: FreeLate(6, 1)),
        thread!(At(7, 0), FreeGot(0)),
        thread!(Alloc(3, 0)),
    ]);
    offline_and_alloc = Three::new(&[], &[
        thread!(Offline(0), Online(0)),
        thread!(At(1, 0), FreeGot(0)),
        thread!(At(0, 2)),
    ]);

    // ---- Four levels ----

    /// Blocks of several orders in one cell, and the root.
    mixed_orders = Cells::new(&[], &[
        thread!(At(0, 2), FreeGot(0)),
        thread!(At(1, 0), FreeGot(0), At(0, 3)),
        thread!(At(0, 4), FreeGot(0)),
    ]);
    both_cells = Cells::new(&[], &[
        thread!(At(0, 0), FreeGot(0)),
        thread!(At(8, 3), FreeGot(0)),
        thread!(At(0, 4), FreeGot(0)),
    ]);
    release_left_cell = Cells::new(&[Block(2, 1)], &[
        thread!(owns [Block(2, 1)]: Free(2, 1)),
        thread!(At(0, 0), FreeGot(0)),
        thread!(At(12, 2), FreeGot(0), At(0, 4)),
    ]);
    release_right_cell = Cells::new(&[Block(8, 3)], &[
        thread!(owns [Block(8, 3)]: Free(8, 3)),
        thread!(At(15, 0), FreeGot(0)),
        thread!(At(0, 1), FreeGot(0), At(0, 4)),
    ]);
    releases_in_one_cell = Cells::new(&[Block(0, 2), Block(4, 0)], &[
        thread!(owns [Block(0, 2)]: Free(0, 2)),
        thread!(owns [Block(4, 0)]: Free(4, 0)),
        thread!(At(0, 3), FreeGot(0), At(0, 4)),
    ]);
    releases_in_both_cells = Cells::new(&[Block(0, 2), Block(9, 0)], &[
        thread!(owns [Block(0, 2)]: Free(0, 2)),
        thread!(owns [Block(9, 0)]: Free(9, 0)),
        thread!(At(0, 4), FreeGot(0)),
    ]);
    delayed_release_of_a_cell = Cells::new(&[Block(0, 1)], &[
        thread!(owns [Block(0, 1)]: Free(0, 1)),
        thread!(At(0, 0), FreeGot(0), At(0, 4)),
        thread!(At(4, 2)),
    ]);
    failing_climb_to_a_field = Cells::new(&[Block(0, 4)], &[
        thread!(owns [Block(0, 4)]: Free(0, 4)),
        thread!(At(0, 0), FreeGot(0)),
        thread!(At(2, 1), FreeGot(0)),
    ]);
    search_in_cells = Cells::new(&[Block(0, 3), Block(8, 2), Block(12, 1)], &[
        thread!(owns [Block(8, 2)]: Free(8, 2), Alloc(1, 0)),
        thread!(Alloc(1, 9), FreeGot(0)),
        thread!(Alloc(2, 0)),
    ]);
    /// The largest order is two fields of a cell, and two roots share it.
    a_root_of_two_fields = Roots::new(&[Block(32, 4)], &[
        thread!(At(0, 5), FreeGot(0)),
        thread!(At(31, 0), FreeGot(0)),
        thread!(At(16, 4), FreeGot(0)),
    ]).roots(2);
    two_roots_in_a_cell = Roots::new(&[Block(0, 5)], &[
        thread!(owns [Block(0, 5)]: Free(0, 5)),
        thread!(Alloc(5, 32), FreeGot(0)),
        thread!(At(40, 3), FreeGot(0)),
    ]).roots(2);
    three_groups = Groups::new(&[], &[
        thread!(At(0, 0), FreeGot(0)),
        thread!(At(0, 4), FreeGot(0)),
        thread!(At(0, 8), FreeGot(0)),
    ]);
    release_through_three_groups = Groups::new(&[Block(0, 0)], &[
        thread!(owns [Block(0, 0)]: Free(0, 0)),
        thread!(At(8, 3), FreeGot(0)),
        thread!(At(0, 7), FreeGot(0), At(0, 8)),
    ]);
    delayed_release_in_three_groups = Groups::new(&[Block(0, 0)], &[
        thread!(owns [Block(0, 0)]: Free(0, 0)),
        thread!(At(1, 0), FreeGot(0), At(0, 8)),
        thread!(At(8, 0)),
    ]);
    /// The same with a neighbour that stays.
    beside_a_neighbour = Groups::new(&[Block(32, 4), Block(0, 0)], &[
        thread!(owns [Block(0, 0)]: Free(0, 0)),
        thread!(At(0, 8), FreeGot(0)),
    ]);
    late_release_of_a_cell = Cells::new(&[Block(0, 1)], &[
        thread!(owns [Block(0, 1)]: FreeLate(0, 1)),
        thread!(At(0, 0), FreeGot(0), At(0, 4)),
        thread!(Settle),
    ]);
    late_releases_in_both_cells = Cells::new(&[Block(0, 2), Block(9, 0)], &[
        thread!(owns [Block(0, 2)]: FreeLate(0, 2)),
        thread!(owns [Block(9, 0)]: FreeLate(9, 0)),
        thread!(Alloc(4, 0), FreeGot(0)),
    ]);
    late_release_through_three_groups = Groups::new(&[Block(0, 0)], &[
        thread!(owns [Block(0, 0)]: FreeLate(0, 0)),
        thread!(At(8, 3), FreeGot(0)),
        thread!(Alloc(8, 0)),
    ]);
    cells_freed_twice = Cells::new(&[Block(0, 1), Block(2, 0)], &[
        thread!(FreeAgain(0, 1)),
        thread!(FreeAgain(0, 1)),
        thread!(owns [Block(2, 0)]: Free(2, 0), At(8, 3)),
    ]);
    half_of_a_block_of_cells_is_freed = Cells::new(&[], &[
        thread!(At(0, 4), FreeHalf(0), FreeGot(0)),
        thread!(At(0, 3), FreeGot(0)),
    ]);
    offline_cells = Cells::new(&[], &[
        thread!(Offline(0), Online(0)),
        thread!(At(1, 0), FreeGot(0)),
        thread!(At(0, 4)),
    ]);
}
