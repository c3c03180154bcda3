//! Primitives with a seeded defect, on which a scenario that holds for the engine must fail.

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{FrameId, Geometry, Request, Slot};

use super::driver::bites;
use super::frames::Block;
use super::machine::{Machine, lower_alloc, lower_free};
use super::world::World;
use super::{Op, Scenario, Script, Tiny};
use crate::rows::row_count;
use crate::state::{LANE, Phase, Polarity, Run, States};

type Pairs = Tiny<2, 2>;

/// Changes a word; returns it as it was.
fn change(
    word: &AtomicU64,
    ordering: Ordering,
    change: impl Fn(u64) -> Option<u64>,
) -> Option<u64> {
    let mut value = word.load(Ordering::Relaxed);
    loop {
        let next = change(value)?;
        match word.compare_exchange(value, next, ordering, Ordering::Relaxed) {
            Ok(_) => return Some(value),
            Err(now) => value = now,
        }
    }
}

/// Changes the state of a huge frame.
fn turn_state<G: Geometry>(
    world: &World<G>,
    huge: usize,
    ordering: Ordering,
    turn: impl Fn(States, Run) -> Option<States>,
) -> Option<States> {
    let word = &world.words.states[huge / G::TREE_HUGE].0[huge % G::TREE_HUGE / LANE];
    let one = Run::new(huge % G::TREE_HUGE, 1);
    change(word, ordering, |word| turn(States(word), one).map(|next| next.0)).map(States)
}

/// Changes the counter of a child; returns the credits it had.
fn count<G: Geometry>(
    world: &World<G>,
    huge: usize,
    ordering: Ordering,
    change: impl Fn(usize) -> Option<usize>,
) -> Option<usize> {
    let word = &world.words.children[huge];
    let mut value = word.load(Ordering::Relaxed);
    loop {
        let next = change(value as usize)? as u32;
        match word.compare_exchange(value, next, ordering, Ordering::Relaxed) {
            Ok(_) => return Some(value as usize),
            Err(now) => value = now,
        }
    }
}

/// The first row of a huge frame.
fn row<G: Geometry>(world: &World<G>, huge: usize) -> &AtomicU64 {
    &world.words.rows[huge * row_count::<G>()]
}

/// Turns bits of a row, which `fit` chooses; returns which.
fn turn_bits(row: &AtomicU64, ordering: Ordering, fit: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    let before = change(row, ordering, |value| Some(value ^ fit(value)?))?;
    fit(before)
}

/// Claims the first free bit of a row, for which there must be one.
fn claim_base<G: Geometry>(
    world: &World<G>,
    huge: usize,
    polarity: Polarity,
    ordering: Ordering,
) -> Option<FrameId> {
    let first = |value| {
        let free: u64 = polarity.free_in(value) & ((1 << G::HUGE_FRAMES) - 1);
        (free != 0).then_some(free & free.wrapping_neg())
    };
    let bit = turn_bits(row(world, huge), ordering, first).expect("a bit for every credit");
    Some(FrameId(huge << G::HUGE_ORDER | bit.trailing_zeros() as usize))
}

macro_rules! mutants {
    ($($(#[$doc:meta])* $name:ident = $scenario:expr => $what:literal;)*) => {
        $($(#[$doc])* #[test] fn $name() {
            bites(&$scenario.named(stringify!($name)), $what);
        })*
    };
}

#[cfg(woodlot_explore)]
mod logic;
#[cfg(loom)]
mod orderings;
