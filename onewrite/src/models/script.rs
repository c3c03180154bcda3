//! A thread of a scenario: it runs its operations, and says before each what it owns and does.

use std::vec::Vec;

use woodlot_frame::atomics::Ordering;
use woodlot_frame::{
    Claim, FrameAllocator, FrameId, Geometry, HugeFlags, HugeId, IsolateError, Order, Place,
    Reclaim, Reclaiming, Request, Slot,
};

use super::world::World;
use super::{Block, Op, Script, std};
#[cfg(woodlot_explore)]
use crate::row::Rows;

/// What a call under way may have done to the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Doing {
    /// Allocates some block of this order.
    Taking(u8),
    /// Allocates or frees this block.
    Block(Block),
    /// Takes so many huge frames.
    Huge(usize),
}

impl Doing {
    /// Frames of the block, or of the rows that are opened for it: one, or as many as have room for 16 blocks.
    #[cfg(woodlot_explore)]
    pub(super) fn frames<G: Geometry>(self) -> usize {
        let row = G::ROW_FRAMES;
        match self {
            Doing::Taking(order) if 1 << order < row => (16 << order).clamp(row, G::HUGE_FRAMES),
            Doing::Taking(order) | Doing::Block(Block(_, order)) => row.max(1 << order),
            Doing::Huge(count) => count * G::HUGE_FRAMES,
        }
    }
}

/// What a thread says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct State {
    /// Without what it is giving away.
    pub(super) owned: Vec<Block>,
    pub(super) doing: Option<Doing>,
    /// What it has isolated.
    pub(super) isolated: Vec<usize>,
    /// Which of the blocks that are freed, or brought online, again and again it has freed.
    pub(super) freed: Vec<Block>,
    /// What it has reclaimed softly.
    pub(super) softly: Vec<usize>,
}

/// A huge frame as a block.
pub(super) const fn whole<G: Geometry>(huge: usize) -> Block {
    Block(huge << G::HUGE_ORDER, G::HUGE_ORDER as u8)
}

/// A thread that runs.
pub(super) struct Thread<'a, G: Geometry> {
    world: &'a World<G>,
    number: usize,
    script: &'a Script,
    state: State,
    /// What each allocation found.
    got: Vec<Option<Block>>,
}

impl<'a, G: Geometry> Thread<'a, G> {
    pub(super) fn new(world: &'a World<G>, number: usize) -> Self {
        let script = &world.scenario.threads[number];
        let state = State {
            owned: script.owns.to_vec(),
            doing: None,
            isolated: script.isolated.to_vec(),
            freed: Vec::new(),
            softly: Vec::new(),
        };
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
        match op {
            Op::Alloc(order) | Op::Find(order) => {
                let found = self.alloc(step, Request::movable(Order(order), self.slot()));
                let must = matches!(op, Op::Find(_));
                assert!(found || !must, "out of memory, yet a block of order {order} is free");
            }
            Op::At(at, order) => {
                let request = Request::movable(Order(order), self.slot()).at(FrameId(at));
                self.alloc(step, request);
            }
            Op::AllocApart(order) => {
                self.say(step, Some(Doing::Taking(order)));
                // Behind what the explorer is told: it would forget which they were.
                let isolated = self.world.isolated.load(Ordering::SeqCst);
                let request = Request::movable(Order(order), self.slot());
                let found = self.world.zone.alloc(request).ok();
                let block = found.map(|frame| Block(frame.0, order));
                let of_block =
                    |&huge: &usize| block.is_some_and(|block| block.meets(whole::<G>(huge)));
                let there = (0..64).filter(|huge| isolated >> huge & 1 != 0).find(of_block);
                assert_eq!(there, None, "{block:?} is of what was isolated before");
                self.take(block);
            }
            Op::AllocAs(class, order) => {
                self.alloc(step, Request::new(Order(order), class, self.slot()));
            }
            Op::FreeGot(number) => {
                if let Some(block) = self.got[number].take() {
                    self.free(step, block);
                }
            }
            Op::FreePart(number, order) => {
                if let Some(Block(at, whole)) = self.got[number].take() {
                    let own = self.state.owned.iter().position(|&mine| mine == Block(at, whole));
                    self.state.owned.remove(own.expect("it is this thread's"));
                    let halves = (order..whole).map(|half| Block(at + (1 << half), half));
                    self.state.owned.extend(halves);
                    self.state.owned.push(Block(at, order));
                    self.free(step, Block(at, order));
                }
            }
            Op::Free(at, order) => self.free(step, Block(at, order)),
            Op::TryFree(at, order) => {
                let block = Block(at, order);
                self.disown(block);
                self.say(step, Some(Doing::Block(block)));
                if self.world.zone.free(FrameId(at), Order(order), self.slot()).is_err() {
                    self.state.owned.push(block);
                    self.world.hand_over(block, None, Some(self.number));
                }
            }
            Op::FreeAgain(at, order) => {
                self.say(step, Some(Doing::Block(Block(at, order))));
                let freed = self.world.zone.free(FrameId(at), Order(order), self.slot());
                if freed.is_ok() {
                    self.state.freed.push(Block(at, order));
                }
            }
            Op::Stray(at, order) => {
                self.say(step, Some(Doing::Block(Block(at, order))));
                let _ = self.world.zone.free(FrameId(at), Order(order), self.slot());
            }
            Op::Offline(huge) => self.offline(step, huge, 1),
            Op::OfflineRun(huge, count) => self.offline(step, huge, count),
            Op::Online(huge) => {
                if self.state.owned.contains(&whole::<G>(huge)) {
                    self.disown(whole::<G>(huge));
                    self.say(step, Some(Doing::Block(whole::<G>(huge))));
                    self.world.zone.online(HugeId(huge), 1).expect("it was taken out");
                }
            }
            Op::OnlineRun(huge, count) => {
                let run = huge..huge + count;
                if run.clone().all(|huge| self.state.owned.contains(&whole::<G>(huge))) {
                    run.clone().for_each(|huge| self.disown(whole::<G>(huge)));
                    self.say(step, Some(Doing::Huge(count)));
                    let anyones = self.world.anyones();
                    let (others, own): (Vec<_>, Vec<_>) =
                        run.map(whole::<G>).partition(|block| anyones.contains(block));
                    match self.world.zone.online(HugeId(huge), count) {
                        Ok(()) => self.state.freed.extend(others),
                        Err(error) => {
                            assert!(!others.is_empty(), "{error:?}, but this thread has them out");
                            // What nobody else brings back is out still.
                            self.state.owned.extend(own);
                        }
                    }
                }
            }
            Op::OnlineRefused(huge, count) => {
                self.say(step, None);
                let answer = self.world.zone.online(HugeId(huge), count);
                assert!(answer.is_err(), "some huge frame is not offline, yet all come online");
            }
            Op::OnlineAnyones(huge) => {
                self.say(step, Some(Doing::Huge(1)));
                if self.world.zone.online(HugeId(huge), 1).is_ok() {
                    self.state.freed.push(whole::<G>(huge));
                }
            }
            Op::Isolate(huge) => self.isolate(step, huge, 1),
            Op::IsolateRun(huge, count) => self.isolate(step, huge, count),
            Op::Unisolate(huge) => {
                if self.ends_isolation(step, huge, 1, None) {
                    let ended = self.world.zone.unisolate(HugeId(huge), 1);
                    assert!(ended.is_ok(), "{ended:?}, but this thread has isolated it");
                }
            }
            Op::UnisolateRun(huge, count) => {
                if self.ends_isolation(step, huge, count, None)
                    && self.world.zone.unisolate(HugeId(huge), count).is_err()
                {
                    self.state.isolated.extend(huge..huge + count);
                }
            }
            Op::ClaimRefused(huge) => {
                self.say(step, None);
                let answer =
                    self.world.zone.claim_isolated(HugeId(huge), 1, Claim::Block(self.slot()));
                assert!(answer.is_err(), "a frame is allocated, yet its huge frame is claimed");
            }
            Op::EndAnyones(huge) => {
                self.say(step, None);
                let _ = self.world.zone.unisolate(HugeId(huge), 1);
            }
            Op::FreeZeroed(huge) => {
                self.disown(whole::<G>(huge));
                self.say(step, Some(Doing::Block(whole::<G>(huge))));
                let zone = &self.world.zone;
                zone.set_flags(HugeId(huge), HugeFlags::ZEROED)
                    .expect("it is allocated as a whole");
                let Block(at, order) = whole::<G>(huge);
                zone.free(FrameId(at), Order(order), self.slot()).expect("it is allocated");
            }
            Op::Reclaim(mode, most) => {
                self.say(step, Some(Doing::Huge(most)));
                let mut out = std::vec![HugeId(0); most];
                let count = self.world.zone.reclaim(mode, &mut out);
                for (number, huge) in out.into_iter().enumerate() {
                    match mode {
                        Reclaim::Hard => self.take((number < count).then_some(whole::<G>(huge.0))),
                        Reclaim::Soft if number < count => self.state.softly.push(huge.0),
                        Reclaim::Soft => {}
                    }
                }
            }
            Op::Give(from) => {
                let back: Vec<_> = self.got[from..].iter().copied().flatten().collect();
                back.iter().for_each(|&block| self.disown(block));
                self.say(step, Some(Doing::Huge(back.len())));
                let of = |block: Block| HugeId(block.0 >> G::HUGE_ORDER);
                let back: Vec<_> = back.into_iter().map(of).collect();
                self.world.zone.give(&back, HugeFlags::ZEROED).expect("they are offline");
                // Only now: what is said before the call tells which they are.
                self.got[from..].fill(None);
            }
            Op::Claim(huge, count) => self.claim(step, huge, count, Claim::Block(self.slot())),
            Op::ClaimOffline(huge, count) => self.claim(step, huge, count, Claim::Offline),
        }
    }

    fn offline(&mut self, step: usize, huge: usize, count: usize) {
        self.say(step, Some(Doing::Huge(count)));
        let taken = self.world.zone.offline(HugeId(huge), count).is_ok();
        (huge..huge + count).for_each(|huge| self.take(taken.then_some(whole::<G>(huge))));
    }

    fn isolate(&mut self, step: usize, huge: usize, count: usize) {
        self.say(step, None);
        if self.world.zone.isolate(HugeId(huge), count).is_ok() {
            let run = huge..huge + count;
            self.state.isolated.extend(run.clone());
            self.say(step, None);
            let bits = run.fold(0, |bits, huge| bits | 1 << huge);
            self.world.isolated.fetch_or(bits, Ordering::SeqCst);
        }
    }

    /// Has this thread isolated so many huge frames? From now on it has not.
    fn ends_isolation(
        &mut self,
        step: usize,
        huge: usize,
        count: usize,
        doing: Option<Doing>,
    ) -> bool {
        let run = huge..huge + count;
        let mine = run.clone().all(|huge| self.state.isolated.contains(&huge));
        if mine {
            let bits = run.clone().fold(0, |bits, huge| bits | 1 << huge);
            self.state.isolated.retain(|huge| !run.contains(huge));
            self.say(step, doing);
            self.world.isolated.fetch_and(!bits, Ordering::SeqCst);
        }
        mine
    }

    fn claim(&mut self, step: usize, huge: usize, count: usize, claim: Claim) {
        if !self.ends_isolation(step, huge, count, Some(Doing::Huge(count))) {
            self.got.extend([None].repeat(count));
            return;
        }
        let mut run = huge..huge + count;
        match self.world.zone.claim_isolated(HugeId(huge), count, claim) {
            Ok(()) => run.for_each(|huge| self.take(Some(whole::<G>(huge)))),
            Err(IsolateError::InUse(frame)) => {
                let is_of = |huge: usize| whole::<G>(huge).range().contains(&frame.0);
                assert!(run.clone().any(is_of), "{frame:?} is of another huge frame");
                self.state.isolated.extend(run);
                self.got.extend([None].repeat(count));
            }
            Err(error) => {
                let gone = run.any(|huge| error == IsolateError::NotIsolated(HugeId(huge)));
                let fits = gone && self.world.is_ended_by_others();
                assert!(fits, "{error:?}, but this thread has isolated it");
            }
        }
    }

    fn slot(&self) -> Slot {
        Slot(self.number % self.world.scenario.slots)
    }

    fn alloc(&mut self, step: usize, request: Request) -> bool {
        let Request { order, place, .. } = request;
        let doing = match place {
            Place::At(frame) => Doing::Block(Block(frame.0, order.0)),
            _ => Doing::Taking(order.0),
        };
        self.say(step, Some(doing));
        let found = self.world.zone.alloc(request).ok();
        self.take(found.map(|frame| Block(frame.0, order.0)));
        found.is_some()
    }

    fn take(&mut self, block: Option<Block>) {
        if let Some(block) = block {
            self.state.owned.push(block);
            self.world.hand_over(block, None, Some(self.number));
        }
        self.got.push(block);
    }

    fn free(&mut self, step: usize, block: Block) {
        self.disown(block);
        self.say(step, Some(Doing::Block(block)));
        let freed = self.world.zone.free(FrameId(block.0), Order(block.1), self.slot());
        assert!(freed.is_ok(), "{block:?} is allocated, yet its free is refused");
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
                Doing::Huge(count) => (count as u64) << 32,
            });
            let mut all = std::vec![step as u64, doing];
            all.extend(self.state.owned.iter().map(pack));
            all.push(0);
            all.extend(self.got.iter().map(|got| got.as_ref().map_or(1, pack)));
            all.push(0);
            all.extend(self.state.freed.iter().map(pack));
            all.push(0);
            all.extend(self.state.isolated.iter().map(|&huge| huge as u64));
            all.push(u64::MAX);
            all.extend(self.state.softly.iter().map(|&huge| huge as u64));
            woodlot_explore::settle(&all);
            woodlot_explore::note(self.state.clone());
        }
        let _ = step;
    }
}
