//! Steps left out or in the wrong order, for the explorer.

use super::driver;
use crate::form::{FourLevels, OneLevel};
use crate::models::Op::{At, Free, FreeAgain, FreeGot};
use crate::models::scenarios::{
    BESIDE_A_NEIGHBOUR, BOTH_HALVES, DELAYED_RELEASE, FAILING_CLIMB, FREE_AND_SEARCH,
    INNER_AND_OUTER, MIXED_ORDERS, thread,
};
use crate::models::wrong::Bug;
use crate::models::{Block, Scenario, Script, Tiny};

/// Two frees of one block.
const FREED_TWICE: Scenario<Tiny<1>, OneLevel> =
    Scenario::new(&[Block(0, 0)], &[thread!(FreeAgain(0, 0)), thread!(FreeAgain(0, 0))]);

/// A free of the wrong size.
const WRONG_SIZE: Scenario<Tiny<3>, FourLevels> = Scenario::new(
    &[Block(0, 2)],
    &[thread!(FreeAgain(0, 1)), thread!(owns [Block(0, 2)]: Free(0, 2))],
);

/// A block of four fields, and one of them.
const INNER_FIELD: Scenario<Tiny<3>, FourLevels> =
    Scenario::new(&[], &[thread!(At(0, 2)), thread!(At(1, 0))]);

/// Two climbs through one branch, and the root.
const TWO_CLIMBS: Scenario<Tiny<2>, OneLevel> =
    Scenario::new(&[], &[thread!(At(0, 0)), thread!(At(1, 0)), thread!(At(0, 3))]);

/// One who frees while another is beside it.
const NEIGHBOURS: Scenario<Tiny<1>, OneLevel> = Scenario::new(
    &[Block(0, 0), Block(1, 0)],
    &[thread!(owns [Block(0, 0)]: Free(0, 0)), thread!(At(2, 1), FreeGot(0), At(0, 2))],
);

/// Without a defect the copy does what the engine does.
#[test]
fn the_copy_without_a_defect_is_right() {
    driver::check(&DELAYED_RELEASE.bug(Bug::None).named("delayed_release (copy)"));
    driver::check(&FAILING_CLIMB.bug(Bug::None).named("failing_climb (copy)"));
    driver::check(&INNER_AND_OUTER.bug(Bug::None).named("inner_and_outer (copy)"));
    driver::check(&BOTH_HALVES.bug(Bug::None).named("both_halves (copy)"));
    driver::check(&MIXED_ORDERS.bug(Bug::None).named("mixed_orders (copy)"));
    driver::check(&BESIDE_A_NEIGHBOUR.bug(Bug::None).named("beside_a_neighbour (copy)"));
    driver::check(&FREE_AND_SEARCH.bug(Bug::None).named("free_and_search (copy)"));
    driver::check(&FREED_TWICE.bug(Bug::None).named("freed_twice (copy)"));
    driver::check(&TWO_CLIMBS.bug(Bug::None).named("two_climbs (copy)"));
    driver::check(&NEIGHBOURS.bug(Bug::None).named("neighbours (copy)"));
}

mutants! {
    /// The coalescent bit is not cleaned.
    climb_does_not_contest = DELAYED_RELEASE.bug(Bug::NotContested) => "is cleared";
    climb_ends_early = TWO_CLIMBS.bug(Bug::ClimbEndsEarly).owners_only() => "both owned";
    climb_ignores_the_block_above =
        INNER_AND_OUTER.bug(Bug::BlockAboveIgnored) => "both owned";
    climb_marks_the_wrong_branch = INNER_AND_OUTER.bug(Bug::WrongBranch) => "is cleared";
    failing_climb_without_undo = INNER_AND_OUTER.bug(Bug::NoUndo) => "is nobody's";
    undo_tells_nobody = FAILING_CLIMB.bug(Bug::UndoTellsNobody) => "with no call under way";
    /// The paper's.
    undo_stops_below = FAILING_CLIMB.bug(Bug::UndoStopsBelow) => "with no call under way";
    release_does_not_look_again = DELAYED_RELEASE.bug(Bug::NoSecondLook) => "is cleared";
    release_does_not_look_when_contested =
        DELAYED_RELEASE.bug(Bug::NoThirdLook) => "is cleared";
    release_without_early_stop = NEIGHBOURS.bug(Bug::NoEarlyStop) => "is cleared";
    release_says_nothing_to_the_owner =
        BOTH_HALVES.bug(Bug::MarkNotContested) => "with no call under way";
    /// The paper's: a delayed release clears the way up from another owner's block, and its memory
    /// is handed out twice.
    shared_marks = DELAYED_RELEASE.bug(Bug::SharedMarks).owners_only() => "both owned";
    branches_cleared_first = DELAYED_RELEASE.bug(Bug::ClearedFirst) => "is cleared";
    a_field_stands_for_its_cell = BESIDE_A_NEIGHBOUR.bug(Bug::FieldForCell) => "is cleared";
    a_block_takes_its_first_field =
        INNER_FIELD.bug(Bug::FirstFieldOnly).owners_only() => "both owned";
    a_free_ignores_the_size = WRONG_SIZE.bug(Bug::SizeIgnored) => "is nobody's";
    a_free_leaves_its_root_spent =
        FREE_AND_SEARCH.bug(Bug::SpentNotTakenBack) => "and those that can be allocated";
    a_root_is_spent_unseen =
        FREE_AND_SEARCH.bug(Bug::SpentUnverified) => "and those that can be allocated";
    a_free_does_not_look = FREED_TWICE.bug(Bug::FreeUnchecked) => "so often";
}
