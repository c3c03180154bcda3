//! Frees of what is not allocated, at the same time as right ones.

use super::super::Law;
use super::Op::{Alloc, At, FreeAgain, FreeGot};
use super::*;

type Pair = Tiny<2, 2>;
type Rows = Tiny<8, 2>;

const LOWER: Machine<Pair> = Machine::LOWER;
const ZONE: Machine<Pair> = Machine::ZONE;
const ROWS: Machine<Rows> = Machine::LOWER;

models! {
    /// Of two frees of one frame exactly one succeeds.
    double_free = Scenario::new(LOWER, &[(0, At(0, 1))], &[
        thread!(at 0: FreeAgain(0, 0)),
        thread!(at 0: FreeAgain(0, 0)),
    ]);
    double_free_split = Scenario::new(LOWER, &[(0, At(0, 2))], &[
        thread!(at 0: FreeAgain(0, 0)),
        thread!(at 0: FreeAgain(0, 0)),
        thread!(at 0: FreeAgain(0, 1)),
    ]);
    double_free_whole = Scenario::new(LOWER, &[(0, At(0, 2))], &[
        thread!(at 0: FreeAgain(0, 2)),
        thread!(at 0: FreeAgain(0, 0)),
        thread!(at 0: FreeAgain(0, 2)),
    ]).law(Law::FreedTwice);
    double_free_joined = Scenario::new(LOWER, &[(0, Alloc(1)), (0, Alloc(1))], &[
        thread!(at 0: FreeAgain(0, 2)),
        thread!(at 0: FreeAgain(0, 0)),
        thread!(at 0: FreeAgain(0, 2)),
    ]).law(Law::FreedTwice);
    /// The same by the calls of a zone, into a tree that nobody has reserved.
    double_free_joined_unreserved = Scenario::new(ZONE, &[(0, At(8, 1)), (0, At(10, 1))], &[
        thread!(at 0: FreeAgain(8, 2)),
        thread!(at 0: FreeAgain(8, 0)),
    ]).trees(2).law(Law::FreedTwice);
    /// Two parts of what a third thread frees as a whole.
    double_free_of_parts = Scenario::new(LOWER, &[(0, Alloc(1)), (0, Alloc(1))], &[
        thread!(at 0: FreeAgain(0, 2)),
        thread!(at 0: FreeAgain(0, 0)),
        thread!(at 0: FreeAgain(1, 0)),
    ]).law(Law::FreedTwice).large_for_loom();
    double_free_rows = Scenario::new(ROWS, &[(0, At(0, 7))], &[
        thread!(at 0: FreeAgain(0, 7)),
        thread!(at 0: FreeAgain(0, 7)),
        thread!(at 0: FreeAgain(64, 0)),
    ]);
    double_free_zone = Scenario::new(ZONE, &[(0, Alloc(1))], &[
        thread!(at 0: FreeAgain(0, 0)),
        thread!(at 1: FreeAgain(0, 0)),
    ]).slots(2);
    /// A free of what another call is just allocating.
    wrong_free_and_alloc = Scenario::new(ZONE, &[(0, Alloc(1))], &[
        thread!(at 0: Alloc(0)),
        thread!(at 1: FreeAgain(2, 0)),
    ]).slots(2).law(Law::FreedByOthers).large_for_loom();
    double_free_and_alloc_zone = Scenario::new(ZONE, &[(0, Alloc(1))], &[
        thread!(at 0: Alloc(0)),
        thread!(at 1: FreeAgain(0, 0), FreeAgain(0, 0)),
    ]).slots(2).law(Law::FreedByOthers).large_for_loom();
    /// The same racing with allocations: who owns what is outside the guarantee, the counters are
    /// not.
    double_free_and_alloc = Scenario::new(LOWER, &[(0, At(0, 0)), (0, At(1, 0))], &[
        thread!(at 0: FreeAgain(0, 0)),
        thread!(at 0: FreeAgain(0, 0)),
        thread!(at 0: Alloc(1), Alloc(0)),
    ]).law(Law::FreedByOthers);
    double_free_and_alloc_whole = Scenario::new(LOWER, &[(0, At(0, 2))], &[
        thread!(at 0: FreeAgain(0, 2)),
        thread!(at 0: FreeAgain(0, 1)),
        thread!(at 0: Alloc(2)),
    ]).law(Law::FreedByOthers);
    double_free_of_rows_and_alloc = Scenario::new(ROWS, &[(0, At(0, 7))], &[
        thread!(at 0: FreeAgain(0, 7)),
        thread!(at 0: FreeAgain(0, 7)),
        thread!(at 0: Alloc(0), FreeGot(0)),
    ]).law(Law::FreedByOthers);
    /// A free of rows that are just being claimed.
    free_of_a_claim = Scenario::new(ROWS, &[(0, At(0, 0))], &[
        thread!(at 0: Alloc(7)),
        thread!(at 0: FreeAgain(128, 7)),
        thread!(at 0: Alloc(0)),
    ]).law(Law::FreedByOthers);
}
