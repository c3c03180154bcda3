//! A thread of a scenario: it runs its operations, and says before each what it owns and does.

use std::vec::Vec;

use woodlot_frame::{FrameAllocator, Geometry, HugeId};

use super::world::{Cells, World};
use super::{Block, Op, Script, std};

/// What an operation under way may have done to the cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Doing {
    /// Allocates some block of this order.
    Taking(u32),
    /// Allocates or frees this block.
    Block(Block),
}

/// What a thread says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct State {
    /// Without what it is giving away.
    pub(super) owned: Vec<Block>,
    pub(super) doing: Option<Doing>,
    /// Which of the blocks that are freed again and again it has freed.
    pub(super) freed: Vec<Block>,
}

/// A thread that runs.
pub(super) struct Thread<'a, G: Geometry, F: Cells> {
    world: &'a World<G, F>,
    number: usize,
    script: &'a Script,
    state: State,
    /// What each allocation found.
    got: Vec<Option<Block>>,
}

impl<'a, G: Geometry, F: Cells> Thread<'a, G, F> {
    pub(super) fn new(world: &'a World<G, F>, number: usize) -> Self {
        let script = &world.scenario.threads[number];
        let state = State { owned: script.owns.to_vec(), doing: None, freed: Vec::new() };
        Thread { world, number, script, state, got: Vec::new() }
    }

    /// Runs the script; returns what the thread says at the end.
    pub(super) fn run(mut self) -> State {
        for (step, &op) in self.script.ops.iter().enumerate() {
            self.perform(step, op);
        }
        self.say(self.script.ops.len(), None);
        self.state
    }

    fn perform(&mut self, step: usize, op: Op) {
        let zone = &self.world.zone;
        match op {
            Op::Alloc(order, from) | Op::Find(order, from) => {
                self.say(step, Some(Doing::Taking(order)));
                let found = zone.find(order, from).map(|(node, _)| Block::of(node));
                let must = matches!(op, Op::Find(..));
                assert!(
                    found.is_some() || !must,
                    "out of memory, yet a block of order {order} is free"
                );
                self.take(found);
            }
            Op::At(at, order) => {
                let block = Block(at, order);
                self.say(step, Some(Doing::Block(block)));
                let taken = zone.claim(block.node(), 0);
                self.take(taken.then_some(block));
            }
            Op::FreeGot(number) => {
                if let Some(block) = self.got[number].take() {
                    self.pause(step);
                    self.free(step, block, Self::free_block);
                }
            }
            Op::FreeHalf(number) => {
                if let Some(Block(at, order)) = self.got[number] {
                    self.say(step, None);
                    let freed = zone.give(Block(at, order - 1).node(), 0);
                    assert!(!freed, "half of an owned block was freed");
                    if order - 1 == G::HUGE_ORDER {
                        let huge = HugeId(at >> G::HUGE_ORDER);
                        assert!(
                            zone.online(huge, 1).is_err(),
                            "half of an owned block was offline"
                        );
                    }
                }
            }
            Op::Free(at, order) => self.free(step, Block(at, order), Self::free_block),
            Op::FreeLate(at, order) => self.free(step, Block(at, order), Self::free_late),
            Op::Settle => {
                self.say(step, None);
                zone.settle();
            }
            Op::FreeAgain(at, order) => {
                let block = Block(at, order);
                self.say(step, Some(Doing::Block(block)));
                if self.free_block(block) {
                    self.state.freed.push(block);
                }
            }
            Op::Offline(huge) => {
                let block = Block(huge << G::HUGE_ORDER, G::HUGE_ORDER);
                self.say(step, Some(Doing::Block(block)));
                let taken = zone.offline(HugeId(huge), 1).is_ok();
                self.take(taken.then_some(block));
            }
            Op::Online(huge) => {
                let block = Block(huge << G::HUGE_ORDER, G::HUGE_ORDER);
                if self.state.owned.contains(&block) {
                    self.pause(step);
                    self.disown(block);
                    self.say(step, Some(Doing::Block(block)));
                    zone.online(HugeId(huge), 1).expect("it was taken out");
                }
            }
        }
    }

    fn free_block(&self, block: Block) -> bool {
        self.world.zone.forest.free(block.node(), 0)
    }

    fn free_late(&self, block: Block) -> bool {
        self.world.zone.free_later(block.node(), 0)
    }

    fn take(&mut self, block: Option<Block>) {
        if let Some(block) = block {
            self.state.owned.push(block);
            self.world.hand_over(block, None, Some(self.number));
        }
        self.got.push(block);
    }

    fn free(&mut self, step: usize, block: Block, free: fn(&Self, Block) -> bool) {
        self.disown(block);
        self.say(step, Some(Doing::Block(block)));
        assert!(free(self, block), "{block:?} is allocated, yet its free is refused");
    }

    fn disown(&mut self, block: Block) {
        let at = self.state.owned.iter().position(|&mine| mine == block);
        self.state.owned.remove(at.expect("the thread's to free"));
        self.world.hand_over(block, Some(self.number), None);
    }

    /// Says what it owns and is about to do. All that follows depends on what the explorer is told
    /// here, so that it may forget how the thread came to be here.
    fn say(&mut self, step: usize, doing: Option<Doing>) {
        self.state.doing = doing;
        #[cfg(woodlot_explore)]
        {
            let pack = |block: &Block| (block.0 as u64) << 8 | u64::from(block.1) | 1 << 63;
            let doing = doing.map_or(0, |doing| match doing {
                Doing::Taking(order) => 1 + u64::from(order),
                Doing::Block(block) => pack(&block),
            });
            let mut all = std::vec![step as u64, doing];
            all.extend(self.state.owned.iter().map(pack));
            all.push(0);
            all.extend(self.got.iter().map(|got| got.as_ref().map_or(1, pack)));
            all.push(0);
            all.extend(self.state.freed.iter().map(pack));
            woodlot_explore::settle(&all);
            woodlot_explore::note(self.state.clone());
        }
        let _ = step;
    }

    /// Owns what it owns for the length of a step, so that it is seen to.
    fn pause(&mut self, step: usize) {
        self.say(step, None);
        #[cfg(woodlot_explore)]
        self.world.pause.load(woodlot_frame::atomics::Ordering::Relaxed);
    }
}
