//! A thread: it makes its calls, and says what it owns.

use std::vec::Vec;

use super::world::{Block, World, sit, wander};
use super::{On, Op, std};

/// What a thread owns.
pub(super) type State = Vec<Block>;

/// Runs the script of a thread. Returns what it owns at the end.
pub(super) fn run(world: &World, number: usize) -> State {
    let script = &world.scenario.threads[number];
    let mut blocks: Vec<Option<Block>> =
        script.owns.iter().map(|&call| world.blocks[call]).collect();
    match script.on {
        On::Cpu(cpu) => sit(cpu),
        On::All => wander(),
    }
    say(&blocks);
    for &op in script.ops {
        if let Op::Free(number) = op {
            // Nobody owns it from now on: the call may give it to another one.
            let mut without = blocks.clone();
            without[number] = None;
            say(&without);
        }
        world.call(op, &mut blocks);
        declare(&blocks);
    }
    blocks.into_iter().flatten().collect()
}

/// The thread owns this.
#[cfg(woodlot_explore)]
fn say(blocks: &[Option<Block>]) {
    woodlot_explore::note(blocks.iter().copied().flatten().collect::<State>());
}

#[cfg(woodlot_loom)]
fn say(_: &[Option<Block>]) {}

/// The thread is between two calls.
#[cfg(woodlot_explore)]
fn declare(blocks: &[Option<Block>]) {
    let owns = blocks.iter().map(|block| block.map_or(0, |block| block.at as u64 + 1));
    let owns: Vec<u64> = owns.chain([super::world::seat() as u64]).collect();
    woodlot_explore::settle(&owns);
    say(blocks);
}

#[cfg(woodlot_loom)]
fn declare(_: &[Option<Block>]) {}
