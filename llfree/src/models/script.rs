//! A thread of a scenario: it runs its operations, and says before each what it owns and does.

use std::vec::Vec;

use woodlot_frame::atomics::Ordering;
use woodlot_frame::{
    Batch, Claim, Class, FrameAllocator, FrameId, Geometry, HugeFlags, HugeId, IsolateError, Order,
    Persistence, RangeRequest, Reclaim, Reclaiming, Slot,
};

use super::frames::{Block, Doing, Frames};
use super::machine::Level;
use super::world::World;
use super::{Law, Op, Script, machine, std};
use crate::{News, Operation};

/// What a thread says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct State {
    /// Without what it is giving away.
    pub(super) owned: Frames,
    /// What its last call has done that did something, and the one before was not refused.
    pub(super) last: Option<(Operation, Frames)>,
    pub(super) doing: Vec<Doing>,
    /// Which of the blocks that are freed again and again it has freed.
    pub(super) freed: Vec<Block>,
    /// A huge frame, and how many of its credits it has.
    pub(super) credits: (usize, usize),
    /// Which of the frames are offline.
    pub(super) offline: Frames,
    /// What it has isolated.
    pub(super) isolated: Frames,
    /// What it has reclaimed softly.
    pub(super) softly: Frames,
    /// The news that it has asked for, and how many huge frames were free then.
    pub(super) asked: Option<(News, usize)>,
}

/// A thread that runs.
pub(super) struct Thread<'a, G: Geometry, P: Persistence> {
    world: &'a World<G, P>,
    number: usize,
    script: &'a Script,
    state: State,
    /// What each allocation found.
    got: Vec<Option<Block>>,
    /// Credits that it is giving back.
    returning: (usize, usize),
}

/// A huge frame as a block.
const fn whole<G: Geometry>(huge: usize) -> Block {
    Block(huge << G::HUGE_ORDER, G::HUGE_ORDER)
}

impl Script {
    /// What its thread owns at the beginning.
    pub(super) fn start(&self) -> Frames {
        self.owns.iter().fold(Frames::default(), |all, block| all.or(block.frames()))
    }
}

impl<'a, G: Geometry, P: Persistence> Thread<'a, G, P> {
    pub(super) fn new(
        world: &'a World<G, P>,
        number: usize,
        script: &'a Script,
        owned: Frames,
    ) -> Self {
        let state = State {
            owned,
            last: None,
            doing: Vec::new(),
            freed: Vec::new(),
            credits: (0, 0),
            offline: Frames::default(),
            isolated: Frames::default(),
            softly: Frames::default(),
            asked: None,
        };
        Thread { world, number, script, state, got: Vec::new(), returning: (0, 0) }
    }

    /// Runs the script; returns what the thread says at the end.
    pub(super) fn run(mut self) -> State {
        let ops = self.script.ops;
        for (step, &op) in ops.iter().enumerate() {
            self.perform(step, op);
        }
        self.say(ops.len(), &[]);
        self.state
    }

    fn perform(&mut self, step: usize, op: Op) {
        let at = self.script.at;
        let zone = &self.world.zone;
        match op {
            Op::Alloc(order) => self.alloc(step, order, Class(0)),
            Op::AllocSure(order) => {
                self.alloc(step, order, Class(0));
                // On weak memory a search may see rows as they were. A whole allocation then gives its
                // credits back, which shows it what came before, and looks again.
                let found = self.got.last().is_some_and(Option::is_some);
                assert!(found || cfg!(woodlot_loom), "nothing found of what is free");
            }
            Op::AllocClass(order, class) => self.alloc(step, order, class),
            Op::AllocApart(order) => {
                self.say(step, &[Doing::Taking(order)]);
                // Behind what the explorer is told: it would forget which they were.
                let isolated = self.world.isolated.load(Ordering::Acquire);
                self.find(order, Class(0));
                if let Some(Some(block)) = self.got.last() {
                    let of_block =
                        |huge: &usize| !block.frames().and(whole::<G>(*huge).frames()).is_empty();
                    let there = (0..64).filter(|huge| isolated >> huge & 1 != 0).find(of_block);
                    assert_eq!(there, None, "{block:?} is of what was isolated before");
                }
            }
            Op::At(frame, order) => {
                self.say(step, &[Doing::TakingAt(Block(frame, order))]);
                // Of the last class: where there are several, a tree that is entirely free turns to it.
                let class = zone.zone.classes.all().next_back().expect("a policy has a class");
                let request = World::<G, P>::request(order, at).class(class).at(FrameId(frame));
                let found = (self.world.scenario.machine.alloc)(&self.world.zone, request);
                self.take(found, order);
            }
            Op::Batch(order, count) => {
                self.say(step, &std::vec![Doing::Taking(order); count]);
                let mut out = std::vec![FrameId(0); count];
                let request = World::<G, P>::request(order, at);
                let taken = zone.alloc_batch(request, Batch::All, &mut out).unwrap_or(0);
                assert!(taken == 0 || taken == count, "all or none");
                self.refused();
                out.iter().take(taken).for_each(|&frame| self.take(Some(frame), order));
                let blocks = out.iter().take(taken).map(|frame| Block(frame.0, order).frames());
                let all = blocks.fold(Frames::default(), Frames::or);
                self.state.last = (taken > 0).then_some((Operation::Alloc, all));
            }
            Op::FreeBatch(first, count) => {
                let frames: Vec<_> = (first..first + count).map(FrameId).collect();
                frames.iter().for_each(|frame| self.disown(Block(frame.0, 0)));
                let giving = |frame: &FrameId| Doing::Giving(Block(frame.0, 0));
                self.say(step, &frames.iter().map(giving).collect::<Vec<_>>());
                let freed = zone.free_batch(&frames, Order::BASE, Slot(at));
                assert_eq!(freed, Ok(()), "they are allocated, yet their free is refused");
                self.freed(first..first + count);
            }
            Op::Run(count) => {
                self.say(step, &std::vec![Doing::Taking(0); count]);
                self.alloc_run(RangeRequest::new(count, Class(0), Slot(at)));
            }
            Op::RunAt(first, count) => {
                let taking = (first..first + count).map(|frame| Doing::TakingAt(Block(frame, 0)));
                self.say(step, &taking.collect::<Vec<_>>());
                let request = RangeRequest::new(count, Class(0), Slot(at));
                self.alloc_run(request.at(FrameId(first)));
            }
            Op::FreeRun(first, count) => {
                let frames = first..first + count;
                if !frames.clone().all(|frame| self.state.owned.has(frame)) {
                    return;
                }
                self.pause(step);
                frames.clone().for_each(|frame| self.disown(Block(frame, 0)));
                let giving = frames.clone().map(|frame| Doing::Giving(Block(frame, 0)));
                self.say(step, &giving.collect::<Vec<_>>());
                let freed = zone.free_range(FrameId(frames.start)..FrameId(frames.end), Slot(at));
                assert_eq!(freed, Ok(()), "they are allocated, yet their free is refused");
                self.freed(frames);
            }
            Op::FreeGot(number) => {
                let Some(block) = self.got[number].take() else {
                    return;
                };
                self.pause(step);
                self.free(step, block);
            }
            Op::FreeHalf(number) => {
                let Some(Block(first, order)) = self.got[number].take() else {
                    return;
                };
                self.pause(step);
                self.free(step, Block(first, order - 1));
            }
            Op::Free(frame, order) => self.free(step, Block(frame, order)),
            Op::FreeAgain(frame, order) => {
                let block = Block(frame, order);
                self.say(step, &[Doing::Giving(block)]);
                if (self.world.scenario.machine.free)(&self.world.zone, block, Slot(at)) {
                    self.state.freed.push(block);
                }
            }
            Op::Drain(slot) => {
                self.say(step, &[]);
                zone.drain(Slot(slot)).expect("a slot of the zone");
            }
            Op::Look(slot) => {
                self.say(step, &[]);
                if let Some(last) = zone.last_operation(Slot(slot)) {
                    for named in zone.frames_of(last) {
                        assert!(named.count > 0 && named.free <= named.count, "{named:?}");
                        assert!(zone.zone().range().contains(&named.start), "{named:?}");
                    }
                }
            }
            Op::Resolve(slot) => {
                self.say(step, &[]);
                let last = zone.last_operation(Slot(slot)).expect("it died behind an operation");
                let named: Vec<_> = zone.frames_of(last).collect();
                for frame in named.iter().flat_map(|run| run.start.0..run.start.0 + run.count) {
                    // Each is this thread's, so nobody else can have allocated or freed it.
                    assert!(!zone.is_free(FrameId(frame), Order::BASE), "{named:?}");
                    self.free(step, Block(frame, 0));
                }
            }
            Op::Stats => {
                self.say(step, &[]);
                _ = zone.stats();
            }
            Op::Offline(huge) => {
                let block = Block(huge << G::HUGE_ORDER, G::HUGE_ORDER);
                self.say(step, &[Doing::TakingAt(block)]);
                if zone.offline(HugeId(huge), 1).is_ok() {
                    self.own_offline(block);
                }
            }
            Op::Online(huge) => {
                let block = Block(huge << G::HUGE_ORDER, G::HUGE_ORDER);
                if !self.state.offline.has(block.0) {
                    return;
                }
                self.pause(step);
                self.disown(block);
                self.say(step, &[Doing::Giving(block)]);
                zone.online(HugeId(huge), 1).expect("it was taken out");
            }
            Op::Isolate(huge) => {
                self.say(step, &[]);
                if zone.isolate(HugeId(huge), 1).is_ok() {
                    self.state.isolated = self.state.isolated.or(whole::<G>(huge).frames());
                    self.say(step, &[]);
                    self.world.isolated.fetch_or(1 << huge, Ordering::AcqRel);
                }
            }
            Op::Unisolate(huge) => {
                if self.ends_isolation(step, huge, 1, &[]) {
                    zone.unisolate(HugeId(huge), 1).expect("this thread has isolated it");
                }
            }
            Op::EndAnyones(huge) => {
                self.say(step, &[]);
                _ = zone.unisolate(HugeId(huge), 1);
            }
            Op::OnlineAnyones(huge) => {
                self.say(step, &[]);
                _ = zone.online(HugeId(huge), 1);
            }
            Op::Claim(huge) => self.claim(step, huge, 1, Claim::Block(Slot(at))),
            Op::ClaimOffline(huge) => self.claim(step, huge, 1, Claim::Offline),
            Op::ClaimTwoOffline(huge) => self.claim(step, huge, 2, Claim::Offline),
            Op::Reclaim(mode, most) => {
                self.say(step, &std::vec![Doing::Taking(G::HUGE_ORDER); most]);
                let mut out = std::vec![HugeId(0); most];
                let count = zone.reclaim(mode, &mut out);
                for &huge in out.iter().take(count) {
                    let block = Block(huge.0 << G::HUGE_ORDER, G::HUGE_ORDER);
                    match mode {
                        Reclaim::Hard => {
                            self.own_offline(block);
                            assert_eq!(zone.flags(huge), HugeFlags::RECLAIMED, "{huge:?}");
                        }
                        Reclaim::Soft => {
                            self.state.softly = self.state.softly.or(block.frames());
                        }
                    }
                }
            }
            Op::Give => {
                let huge = |block: Block| HugeId(block.0 >> G::HUGE_ORDER);
                let first = |frame: &usize| frame.is_multiple_of(G::HUGE_FRAMES);
                let frames = self.state.offline.iter().filter(first);
                let blocks: Vec<_> = frames.map(|frame| Block(frame, G::HUGE_ORDER)).collect();
                if blocks.is_empty() {
                    return;
                }
                self.pause(step);
                blocks.iter().for_each(|&block| self.disown(block));
                let giving: Vec<_> = blocks.iter().map(|&block| Doing::Giving(block)).collect();
                self.say(step, &giving);
                let all: Vec<_> = blocks.into_iter().map(huge).collect();
                zone.give(&all, HugeFlags::ZEROED).expect("they were taken out");
            }
            Op::FreeZeroed(huge) => {
                let block = Block(huge << G::HUGE_ORDER, G::HUGE_ORDER);
                self.disown(block);
                self.say(step, &[Doing::Giving(block)]);
                let said = zone.set_flags(HugeId(huge), HugeFlags::ZEROED);
                assert!(said.is_ok() || self.world.scenario.isolates(), "it is whole");
                let order = Order(G::HUGE_ORDER as u8);
                zone.free(FrameId(block.0), order, Slot(at)).expect("it is allocated");
            }
            Op::Ask => {
                self.say(step, &[]);
                self.state.asked = Some(zone.ask_for_news());
            }
            Op::Reserve(slot) => {
                self.say(step, &[]);
                machine::reserve(zone, Slot(slot));
            }
            Op::TakeAll(huge) => {
                self.say(step, &[]);
                let held = (self.world.scenario.machine.take_all)(&self.world.zone, huge);
                self.state.credits = (huge, held);
            }
            Op::TakeSome(huge, count) => {
                self.say(step, &[]);
                let taken = match self.world.scenario.machine.level {
                    Level::Lower => zone.lower.take(huge, count).is_some(),
                    _ => zone.take_some(huge, count).is_some(),
                };
                self.state.credits = (huge, if taken { count } else { 0 });
            }
            Op::GiveBack => {
                if self.state.credits.1 > 0 {
                    self.pause(step);
                }
                self.returning = std::mem::take(&mut self.state.credits);
                self.say(step, &[]);
                let (huge, held) = std::mem::take(&mut self.returning);
                if held > 0 {
                    (self.world.scenario.machine.give_back)(&self.world.zone, huge, held);
                }
            }
            Op::Heal(huge) => {
                self.say(step, &[]);
                machine::heal(zone, huge);
            }
            Op::Credit(huge, before, after) => {
                self.say(step, &[]);
                machine::credit(zone, huge, before, after);
            }
            Op::Turn(huge, from, to) => {
                self.say(step, &[]);
                assert!(machine::turn(zone, huge, from, to));
            }
            Op::Search => {
                self.say(step, &[]);
                machine::search(zone);
            }
        }
    }

    /// Has this thread isolated so many huge frames? From now on it has not.
    fn ends_isolation(&mut self, step: usize, huge: usize, count: usize, doing: &[Doing]) -> bool {
        let run = huge..huge + count;
        let frames = run.clone().map(whole::<G>).map(Block::frames);
        let frames = frames.fold(Frames::default(), Frames::or);
        let mine = frames.but(self.state.isolated).is_empty();
        if mine {
            let bits = run.fold(0, |bits, huge| bits | 1 << huge);
            self.world.isolated.fetch_and(!bits, Ordering::AcqRel);
            self.state.isolated = self.state.isolated.but(frames);
            self.say(step, doing);
        }
        mine
    }

    fn claim(&mut self, step: usize, huge: usize, count: usize, claim: Claim) {
        let run = huge..huge + count;
        let blocks: Vec<_> = run.clone().map(whole::<G>).collect();
        let doing: Vec<_> = blocks.iter().map(|&block| Doing::TakingAt(block)).collect();
        if !self.ends_isolation(step, huge, count, &doing) {
            return;
        }
        self.refused();
        match self.world.zone.claim_isolated(HugeId(huge), count, claim) {
            Ok(()) if claim == Claim::Offline => {
                blocks.iter().for_each(|&block| self.own_offline(block));
            }
            Ok(()) => {
                blocks.iter().for_each(|&block| self.own(block));
                let all = blocks.iter().map(|block| block.frames());
                let all = all.fold(Frames::default(), Frames::or);
                self.state.last = Some((Operation::Alloc, all));
            }
            Err(IsolateError::InUse(frame)) => {
                let is_of = |block: &Block| block.range().contains(&frame.0);
                assert!(blocks.iter().any(is_of), "{frame:?} is not of {blocks:?}");
                let isolated = |all: Frames, block: &Block| all.or(block.frames());
                self.state.isolated = blocks.iter().fold(self.state.isolated, isolated);
            }
            Err(error) => {
                let gone = run.clone().any(|huge| error == IsolateError::NotIsolated(HugeId(huge)));
                let fits = gone && self.world.scenario.law != Law::Kept;
                assert!(fits, "{error:?}, but this thread has isolated it");
            }
        }
    }

    fn alloc(&mut self, step: usize, order: u32, class: Class) {
        self.say(step, &[Doing::Taking(order)]);
        self.find(order, class);
    }

    fn find(&mut self, order: u32, class: Class) {
        let request = World::<G, P>::request(order, self.script.at).class(class);
        let found = (self.world.scenario.machine.alloc)(&self.world.zone, request);
        self.take(found, order);
    }

    /// A run as single frames: as good as any other blocks that it consists of.
    fn alloc_run(&mut self, request: RangeRequest) {
        self.refused();
        if let Ok(run) = self.world.zone.alloc_range(request) {
            assert_eq!(run.end.0 - run.start.0, request.frames, "as long as it was asked for");
            (run.start.0..run.end.0).for_each(|frame| self.own(Block(frame, 0)));
            self.state.last = Some((Operation::Alloc, Frames::of(run.start.0..run.end.0)));
        }
    }

    fn take(&mut self, found: Option<FrameId>, order: u32) {
        let block = found.map(|frame| Block(frame.0, order));
        self.refused();
        if let Some(block) = block {
            self.own(block);
            self.state.last = Some((Operation::Alloc, block.frames()));
        }
        self.got.push(block);
    }

    fn free(&mut self, step: usize, block: Block) {
        self.disown(block);
        self.say(step, &[Doing::Giving(block)]);
        let freed =
            (self.world.scenario.machine.free)(&self.world.zone, block, Slot(self.script.at));
        assert!(freed, "{block:?} is allocated, yet its free is refused");
        self.freed(block.range());
    }

    fn freed(&mut self, frames: std::ops::Range<usize>) {
        self.state.last = Some((Operation::Free, Frames::of(frames)));
    }

    /// What the record of a slot says then is not told.
    fn refused(&mut self) {
        self.state.last = None;
    }

    fn own(&mut self, block: Block) {
        self.state.owned = self.state.owned.or(block.frames());
        self.world.hand_over(block, None, Some(self.number));
    }

    fn own_offline(&mut self, block: Block) {
        self.own(block);
        self.state.offline = self.state.offline.or(block.frames());
    }

    fn disown(&mut self, block: Block) {
        assert!(block.frames().but(self.state.owned).is_empty(), "not this thread's to free");
        self.state.owned = self.state.owned.but(block.frames());
        self.state.offline = self.state.offline.but(block.frames());
        self.world.hand_over(block, Some(self.number), None);
    }

    /// Says what it owns and is about to do. All that follows depends on what the explorer is told
    /// here, so that it may forget how the thread came to be here.
    fn say(&mut self, step: usize, doing: &[Doing]) {
        self.state.doing = doing.to_vec();
        #[cfg(woodlot_explore)]
        {
            let pack = |block: &Block| (block.0 as u64) << 8 | u64::from(block.1) | 1 << 63;
            let mut all = std::vec![step as u64];
            all.extend(self.state.owned.0);
            let last = self.state.last.map(|(operation, frames)| (operation as u64, frames.0));
            all.extend(
                last.into_iter()
                    .flat_map(|(operation, frames)| std::iter::once(operation).chain(frames)),
            );
            all.extend(self.got.iter().map(|got| got.as_ref().map_or(0, pack)));
            all.push(self.got.len() as u64);
            all.extend(self.state.offline.0);
            all.extend(self.state.isolated.0);
            all.extend(self.state.softly.0);
            let asked = self.state.asked.map(|(News(number), free)| [number, free as u64]);
            all.extend(asked.unwrap_or_default());
            all.extend(self.state.freed.iter().map(pack));
            let credits = [self.state.credits, self.returning];
            all.extend(credits.iter().flat_map(|&(huge, count)| [huge as u64, count as u64]));
            all.extend(doing.iter().map(|doing| match *doing {
                Doing::Taking(order) => u64::from(order),
                Doing::TakingAt(block) | Doing::Giving(block) => pack(&block),
            }));
            woodlot_explore::settle(&all);
            woodlot_explore::note(self.state.clone());
        }
        let _ = step;
    }

    /// Owns what it owns for the length of a step, so that it is seen to.
    fn pause(&mut self, step: usize) {
        self.say(step, &[]);
        #[cfg(woodlot_explore)]
        self.world.pause.load(Ordering::Relaxed);
        let _ = step;
    }
}
