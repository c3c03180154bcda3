//! Trees that change while searches heal the index.

use super::Op::{Credit, Search};
use super::*;

type Small = Tiny<2, 2>;

const INDEX: Machine<Small> = Machine::INDEX;

models! {
    /// A tree leaves its place and comes back, while a search clears the bit.
    set_and_clear = Scenario::new(INDEX, &[], &[
        thread!(at 0: Credit(0, -8, -2), Credit(0, 8, 2)),
        thread!(at 0: Search),
    ]);
    set_and_clear_by_two = Scenario::new(INDEX, &[(0, Credit(0, -4, -1))], &[
        thread!(at 0: Credit(0, -2, 0), Credit(0, 2, 0)),
        thread!(at 0: Search),
        thread!(at 0: Search),
    ]).large_for_loom();
    /// Two trees at one place: the mask's bit is cleared when both are gone.
    mask = Scenario::new(INDEX, &[], &[
        thread!(at 0: Credit(0, -4, -1), Credit(0, 4, 1)),
        thread!(at 0: Credit(1, -4, -1), Credit(1, 4, 1)),
        thread!(at 0: Search),
    ]).trees(2);
}
