//! A thread: it makes its calls, and says what it owns.

use std::vec::Vec;

use super::world::{Block, sit, wander};
use super::{On, Op, Scenario, std};

/// What a thread owns.
pub(super) type State = Vec<Block>;

/// What the threads of a scenario share.
pub(super) trait Shared {
    /// As it is after the setup.
    fn new(scenario: &Scenario) -> Self;

    fn scenario(&self) -> &Scenario;

    /// What the setup has allocated.
    fn blocks(&self) -> &[Option<Block>];

    /// A block of so many bytes, if there is one.
    fn alloc(&self, bytes: usize) -> Option<Block>;

    /// Gives a block of the caller's back.
    fn free(&self, block: Block);

    /// Empties the caches of a CPU.
    fn flush_cpu(&self, cpu: usize);

    /// Empties all caches.
    fn flush(&self);

    /// Makes the calls of the setup; returns what its allocations have got.
    fn set_up(&self) -> Vec<Option<Block>> {
        sit(0);
        let mut blocks = Vec::new();
        self.scenario().setup.iter().for_each(|&op| self.call(op, &mut blocks));
        blocks
    }

    /// Makes a call; `blocks` are what the allocations of this thread have got.
    fn call(&self, op: Op, blocks: &mut Vec<Option<Block>>) {
        match op {
            Op::Alloc(bytes) => blocks.push(self.alloc(bytes)),
            Op::AllocSure(bytes) => {
                let block = self.alloc(bytes);
                assert!(block.is_some(), "there is memory");
                blocks.push(block);
            }
            Op::Free(number) => {
                if let Some(block) = blocks[number].take() {
                    self.free(block);
                }
            }
            Op::FlushCpu(cpu) => self.flush_cpu(cpu),
            Op::Flush => self.flush(),
        }
    }

    /// All threads have ended, and had these blocks: everything comes back, and can be had again.
    fn settle<'b>(&self, blocks: impl Iterator<Item = &'b Block>);
}

/// Runs the script of a thread. Returns what it owns at the end.
pub(super) fn run(world: &impl Shared, number: usize) -> State {
    let script = &world.scenario().threads[number];
    let mut blocks: Vec<Option<Block>> =
        script.owns.iter().map(|&call| world.blocks()[call]).collect();
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
