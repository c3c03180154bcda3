//! The scenarios, as tables: one test each.

use super::frames::Block;
use super::machine::Machine;
use super::{ClassPolicy, Op, Scenario, Script, Tiny, driver};

/// Two classes, each of which may turn to the other.
const TWO: ClassPolicy = match ClassPolicy::new(&[(1, &[0, 1]), (1, &[1, 0])]) {
    Some(policy) => policy,
    None => ClassPolicy::SINGLE,
};

/// A test for each scenario.
macro_rules! models {
    ($($(#[$doc:meta])* $name:ident = $scenario:expr;)*) => {
        $($(#[$doc])* #[test] fn $name() {
            driver::check(&$scenario.named(stringify!($name)));
        })*
    };
}

/// A thread: where it works, what it owns, what it does.
macro_rules! thread {
    (at $at:literal: $($op:expr),+) => { thread!(at $at owns []: $($op),+) };
    (at $at:literal owns [$($block:expr),*]: $($op:expr),+) => {
        Script { at: $at, owns: &[$($block),*], ops: &[$($op),+] }
    };
}

mod children;
mod index;
mod intents;
mod isolation;
mod lower;
mod mistakes;
mod pockets;
mod reclaim;
mod reservations;
mod runs;
mod several_rows;
mod whole_rows;
mod whole_zone;
