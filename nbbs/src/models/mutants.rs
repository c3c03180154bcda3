//! Seeded defects, on which a scenario that holds for the engine must fail: steps left out or in the
//! wrong order under the explorer, orderings that are too weak under loom.

use super::driver;

macro_rules! mutants {
    ($($(#[$doc:meta])* $name:ident = $scenario:expr => $what:literal;)*) => {
        $($(#[$doc])* #[test] fn $name() {
            driver::bites(&$scenario.named(stringify!($name)), $what);
        })*
    };
}

#[cfg(woodlot_explore)]
mod logic;
#[cfg(loom)]
mod orderings;
