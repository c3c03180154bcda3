//! Scripts by chance, for the explorer: what nobody thought of writing down.
//!
//! `WOODLOT_SEED` sets the first seed and `WOODLOT_FULL=1` ten times as many scripts. A scenario with
//! too many states is explored as far as that goes.

use std::boxed::Box;
use std::println;
use std::vec::Vec;

use woodlot_frame::Geometry;

use super::Op::{Alloc, At, Free, FreeGot, FreeLate};
use super::explored::explore;
use super::world::Cells;
use super::{Block, Op, Scenario, Script, Tiny, std};
use crate::form::{FourLevels, OneLevel};

/// Scripts of each kind.
const SCRIPTS: u64 = 12;
/// States of each at most.
const STATES: usize = 50_000;

/// Numbers by chance (SplitMix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ mixed >> 31) % bound as u64) as usize
    }

    /// A block of any order; small ones and the first frames are more likely.
    fn block<G: Geometry>(&mut self) -> Block {
        let order = self.below(G::MAX_ORDER as usize + 1) as u32;
        let within = if self.below(2) == 0 { 2.min(G::MAX_ORDER) } else { G::MAX_ORDER };
        Block::of(Block(self.below(1 << within), order.min(within)).node())
    }

    fn script<G: Geometry>(&mut self, owns: Option<Block>) -> Script {
        let block = self.block::<G>();
        let free = if self.below(2) == 0 { Free } else { FreeLate };
        let mut ops: Vec<Op> = owns.iter().map(|own| free(own.0, own.1)).collect();
        let take = if self.below(4) == 0 { Alloc(block.1, block.0) } else { At(block.0, block.1) };
        match self.below(3) {
            0 if owns.is_some() => {}
            1 => ops.push(take),
            _ => ops.extend([take, FreeGot(0)]),
        }
        let owns: Vec<Block> = owns.into_iter().collect();
        Script { owns: owns.leak(), ops: ops.leak() }
    }

    fn scenario<G: Geometry, F: Cells>(&mut self) -> Scenario<G, F> {
        let mut setup: Vec<Block> = Vec::new();
        for _ in 0..self.below(4) {
            let block = self.block::<G>();
            if setup.iter().all(|other| !other.meets(block)) {
                setup.push(block);
            }
        }
        let threads: Vec<Script> =
            (0..3).map(|thread| self.script::<G>(setup.get(thread).copied())).collect();
        Scenario::new(setup.leak(), threads.leak())
    }
}

fn scripts<G: Geometry, F: Cells>() {
    let variable = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = variable("WOODLOT_SEED").unwrap_or(1);
    let count = if variable("WOODLOT_FULL") == Some(1) { 10 * SCRIPTS } else { SCRIPTS };
    let (mut states, mut complete) = (0, 0);
    for seed in first..first + count {
        let scenario: &Scenario<G, F> = Box::leak(Box::new(Chance(seed).scenario()));
        match explore(scenario, STATES) {
            Ok(report) => {
                states += report.states;
                complete += u64::from(report.complete);
            }
            Err(failure) => panic!(
                "seed {seed}: {:?} {:?}: {failure}",
                scenario.setup,
                scenario.threads.iter().map(|thread| thread.ops).collect::<Vec<_>>()
            ),
        }
    }
    println!("model {}: {count} scripts by chance, {complete} complete, {states} states", F::NAME);
}

#[test]
fn scripts_by_chance() {
    scripts::<Tiny<1>, OneLevel>();
}

#[test]
fn scripts_by_chance_in_three_levels() {
    scripts::<Tiny<2>, OneLevel>();
}

#[test]
fn scripts_by_chance_in_words() {
    scripts::<Tiny<3>, FourLevels>();
}

#[test]
fn scripts_by_chance_in_three_groups() {
    scripts::<Tiny<7>, FourLevels>();
}
