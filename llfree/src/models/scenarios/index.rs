//! Trees that change while searches heal the index.
//!
//! What a tree is depends on two words, its entry and its states: the scripts change each apart.

use super::Op::{Credit, Drain, Reserve, Search, Turn};
use super::*;
use crate::state::Phase::{Free, Offline, Split, Whole};

type Small = Tiny<2, 2>;
/// Trees whose states are in two words: huge frames 0 to 15, and 16 to 31.
type Wide = Tiny<1, 32>;

const INDEX: Machine<Small> = Machine::INDEX;
const WIDE: Machine<Wide> = Machine::INDEX;

models! {
    /// The children of a tree lose all their credits and get them back, while a search clears the
    /// bit.
    set_and_clear = Scenario::new(INDEX, &[(0, Credit(0, 0, 3)), (0, Search)], &[
        thread!(at 0: Credit(0, 3, 0), Credit(0, 0, 3)),
        thread!(at 0: Search),
    ]);
    set_and_clear_by_two = Scenario::new(INDEX, &[(0, Credit(0, 0, 3)), (0, Search)], &[
        thread!(at 0: Credit(0, 3, 1), Credit(0, 1, 3)),
        thread!(at 0: Search),
        thread!(at 0: Search),
    ]);
    /// The same for huge frames.
    take_and_give = Scenario::new(INDEX, &[(0, Turn(1, Free, Whole)), (0, Search)], &[
        thread!(at 0: Turn(0, Free, Whole), Turn(0, Whole, Free)),
        thread!(at 0: Search),
    ]);
    /// The leaf is empty, and its bit in the mask still set.
    give_and_search = Scenario::new(INDEX, &[(0, Turn(0, Free, Whole)), (0, Turn(1, Free, Whole)), (0, Search)], &[
        thread!(at 0: Turn(0, Whole, Free)),
        thread!(at 0: Search),
    ]);
    take_and_give_by_two = Scenario::new(INDEX, &[], &[
        thread!(at 0: Turn(0, Free, Whole), Turn(0, Whole, Free)),
        thread!(at 0: Turn(1, Free, Offline), Turn(1, Offline, Free)),
        thread!(at 0: Search),
    ]).large_for_loom();
    /// The two words change at once.
    states_and_entry = Scenario::new(INDEX, &[(0, Turn(0, Free, Whole)), (0, Search)], &[
        thread!(at 0: Turn(0, Whole, Free)),
        thread!(at 0: Credit(1, 0, 3), Credit(1, 3, 0)),
    ]);
    states_and_entry_and_search = Scenario::new(INDEX, &[(0, Turn(0, Free, Whole)), (0, Search)], &[
        thread!(at 0: Turn(0, Whole, Free)),
        thread!(at 0: Credit(1, 0, 3)),
        thread!(at 0: Search),
    ]).large_for_loom();
    /// Two trees at one place: the mask's bit is cleared when both are gone.
    mask = Scenario::new(INDEX, &[(0, Turn(1, Free, Whole)), (0, Turn(3, Free, Whole)), (0, Search)], &[
        thread!(at 0: Turn(0, Free, Whole), Turn(0, Whole, Free)),
        thread!(at 0: Turn(2, Free, Whole), Turn(2, Whole, Free)),
        thread!(at 0: Search),
    ]).trees(2).large_for_loom();
    /// A huge frame is freed into a reserved tree, while that is given up: one of the two must see
    /// the other, and make the tree findable.
    unreserve_and_give =
        Scenario::new(INDEX, &[(0, Turn(0, Free, Whole)), (0, Reserve(0)), (0, Turn(1, Free, Whole)), (0, Search)], &[
            thread!(at 0: Turn(0, Whole, Free)),
            thread!(at 0: Drain(0)),
        ]);
    unreserve_and_give_two =
        Scenario::new(INDEX, &[(0, Turn(0, Free, Whole)), (0, Reserve(0)), (0, Turn(1, Free, Whole)), (0, Search)], &[
            thread!(at 0: Turn(0, Whole, Free)),
            thread!(at 0: Turn(1, Whole, Free), Turn(1, Free, Whole)),
            thread!(at 0: Drain(0)),
        ]).large_for_loom();
    /// The same by a close.
    unreserve_and_close =
        Scenario::new(INDEX, &[(0, Turn(0, Free, Split)), (0, Reserve(0)), (0, Turn(1, Free, Whole)), (0, Search)], &[
            thread!(at 0: Turn(0, Split, Free)),
            thread!(at 0: Drain(0)),
        ]);
    /// A tree gets credits to lend while it is reserved.
    reserve_and_credit = Scenario::new(INDEX, &[(0, Turn(1, Free, Whole)), (0, Search)], &[
        thread!(at 0: Reserve(0)),
        thread!(at 0: Credit(1, 0, 3)),
    ]);
    /// A reserved tree has nothing to lend, and has again, while a search clears the bit.
    lend_and_search =
        Scenario::new(INDEX, &[(0, Turn(1, Free, Whole)), (0, Credit(1, 0, 3)), (0, Reserve(0)), (0, Search)], &[
            thread!(at 0: Credit(1, 3, 0), Credit(1, 0, 3)),
            thread!(at 0: Search),
        ]);
    /// A reserved tree gets and loses credits while it is given up.
    unreserve_and_credit =
        Scenario::new(INDEX, &[(0, Reserve(0)), (0, Turn(0, Free, Whole)), (0, Turn(1, Free, Whole)), (0, Search)], &[
            thread!(at 0: Credit(0, 0, 3)),
            thread!(at 0: Drain(0)),
        ]);
    unreserve_and_search =
        Scenario::new(INDEX, &[(0, Turn(0, Free, Whole)), (0, Reserve(0)), (0, Turn(1, Free, Whole)), (0, Search)], &[
            thread!(at 0: Turn(0, Whole, Free)),
            thread!(at 0: Drain(0)),
            thread!(at 0: Search),
        ]);
    reserve_and_give = Scenario::new(INDEX, &[(0, Turn(0, Free, Whole)), (0, Search)], &[
        thread!(at 0: Turn(0, Whole, Free)),
        thread!(at 0: Reserve(0), Drain(0)),
    ]);
    /// A tree of which nothing was free, whose two state words begin to have free huge frames at
    /// once.
    two_words = Scenario::new(WIDE, ALL_WHOLE, &[
        thread!(at 0: Turn(0, Whole, Free)),
        thread!(at 0: Turn(16, Whole, Free)),
    ]);
    /// The same while a search clears what it does not find.
    two_words_and_search = Scenario::new(WIDE, ALL_WHOLE, &[
        thread!(at 0: Turn(0, Whole, Free)),
        thread!(at 0: Turn(16, Whole, Free)),
        thread!(at 0: Search),
    ]);
    /// One word ceases to have some when the other begins.
    two_words_in_turn = Scenario::new(WIDE, ALL_BUT_ONE, &[
        thread!(at 0: Turn(0, Free, Whole), Turn(0, Whole, Free)),
        thread!(at 0: Turn(16, Whole, Free)),
    ]);
    two_words_and_unreserve = Scenario::new(WIDE, RESERVED, &[
        thread!(at 0: Turn(0, Whole, Free)),
        thread!(at 0: Turn(16, Whole, Free)),
        thread!(at 0: Drain(0)),
    ]);
}

const TAKE: (usize, Op) = (0, Op::Alloc(1));

/// Every huge frame is allocated as a whole.
const ALL_WHOLE: &[(usize, Op)] = &{
    let mut ops = [TAKE; 34];
    ops[32] = (0, Drain(0));
    ops[33] = (0, Search);
    ops
};

/// All but the first.
const ALL_BUT_ONE: &[(usize, Op)] = &{
    let mut ops = [TAKE; 34];
    ops[32] = (0, Turn(0, Whole, Free));
    ops[33] = (0, Drain(0));
    ops
};

/// Every one, of a tree that is reserved.
const RESERVED: &[(usize, Op)] = &{
    let mut ops = [TAKE; 33];
    ops[32] = (0, Search);
    ops
};
