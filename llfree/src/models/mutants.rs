//! Primitives with a seeded defect, on which a scenario that holds for the engine must fail.

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{FrameId, Geometry, Request, Slot};

use super::driver::bites;
use super::frames::Block;
use super::machine::{Machine, lower_alloc, lower_free};
use super::world::World;
use super::{Op, Scenario, Script, Tiny};
use crate::child::{Child, Pair, Polarity};
use crate::rows::row_count;

type Pairs = Tiny<2, 2>;

/// Changes a child.
fn change<G: Geometry>(
    world: &World<G>,
    huge: usize,
    ordering: Ordering,
    change: impl Fn(Child) -> Option<Child>,
) -> Option<Child> {
    let word = &world.words.long[1][huge / 2];
    let mut pair = Pair(word.load(Ordering::Relaxed));
    loop {
        let child = pair.child(huge & 1);
        let next = pair.with(huge & 1, change(child)?);
        match word.compare_exchange(pair.0, next.0, ordering, Ordering::Relaxed) {
            Ok(_) => return Some(child),
            Err(now) => pair = Pair(now),
        }
    }
}

/// The first row of a huge frame.
fn row<G: Geometry>(world: &World<G>, huge: usize) -> &AtomicU64 {
    &world.words.long[0][huge * row_count::<G>()]
}

/// Turns bits of a row, which `fit` chooses; returns which.
fn turn(row: &AtomicU64, ordering: Ordering, fit: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    let mut value = row.load(Ordering::Relaxed);
    loop {
        let bits = fit(value)?;
        match row.compare_exchange(value, value ^ bits, ordering, Ordering::Relaxed) {
            Ok(_) => return Some(bits),
            Err(now) => value = now,
        }
    }
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
    let bit = turn(row(world, huge), ordering, first).expect("a bit for every credit");
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
