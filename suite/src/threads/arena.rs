//! A zone that threads share, with an owner word for every frame beside it.
//!
//! ```text
//!   owners  [ 0 0 3 3 3 3 T T 0 O O … ]     one atomic word per frame
//!             nobody  thread 3  in transit  offline
//! ```
//!
//! The words know nothing of the allocator. Whoever is given a frame swaps its number in and must
//! find nobody there; whoever gives one back swaps itself out and must find itself. So two owners
//! of one frame are seen at the latest when the second is given it, or the first gives it back.

use std::panic::resume_unwind;
use std::sync::{Barrier, Mutex};

use woodlot_frame::atomics::{AtomicU32, AtomicU64, Ordering};
use woodlot_frame::{
    AllocError, Batch, Claim, Class, FrameId, HugeId, Init, Order, Place, RangeRequest, Request,
    Slot, ZoneConfig,
};

use crate::engine::{Allocator, Engine, Zone};
use crate::judge::Judged;
use crate::model::{Model, State};
use crate::settings::{replay_line, seed};
use crate::validate::{self, History};

/// A block that a thread owns.
pub type Block = (FrameId, Order);

const NOBODY: u32 = 0;
const IN_TRANSIT: u32 = u32::MAX;
const OFFLINE: u32 = u32::MAX - 1;

/// A zone, the owners of its frames, and a stack of blocks on their way from one thread to another.
pub struct Arena {
    engine: Engine,
    zone: Box<dyn Zone>,
    config: ZoneConfig,
    owners: Vec<AtomicU32>,
    transit: Mutex<Vec<Block>>,
    calls: AtomicU64,
    refused: AtomicU64,
    /// Refusals while more than half of the zone was free: legal, but worth knowing.
    spurious: AtomicU64,
}

impl Arena {
    /// A new zone of which nobody owns anything.
    pub fn new(engine: Engine, config: &ZoneConfig) -> Self {
        let zone = engine.zone(config, Init::Free).expect("the zone is legal");
        let owners = (0..config.frames).map(|_| AtomicU32::new(NOBODY)).collect();
        let transit = Mutex::new(Vec::new());
        let [calls, refused, spurious] = [0; 3].map(AtomicU64::new);
        Self { engine, zone, config: *config, owners, transit, calls, refused, spurious }
    }

    /// The engine.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// The allocator.
    pub fn allocator(&self) -> &dyn Allocator {
        self.zone.allocator()
    }

    /// The zone.
    pub fn config(&self) -> &ZoneConfig {
        &self.config
    }

    fn change(&self, (frame, order): Block, from: u32, to: u32) {
        let first = frame.0 - self.config.start.0;
        for (n, owner) in self.owners[first..first + order.frames()].iter().enumerate() {
            let was = owner.swap(to, Ordering::AcqRel);
            assert!(
                was == from,
                "{}: frame {} of the block at {frame} of {order} has owner {was}, not {from}, as \
                 it goes to {to}",
                self.engine.name,
                FrameId(frame.0 + n)
            );
        }
    }

    fn own(&self, me: u32, frame: FrameId, order: Order) -> Block {
        let legal = frame.is_aligned(order) && self.config.contains(frame, order);
        assert!(legal, "{}: {frame} of {order} is no block of the zone", self.engine.name);
        self.change((frame, order), NOBODY, me);
        (frame, order)
    }

    fn refuse(&self, error: AllocError, request: Request) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        match (error, request.place) {
            (AllocError::OutOfMemory, Place::Within { .. }) => {}
            (AllocError::OutOfMemory, Place::Anywhere) => {
                if self.allocator().free_frames() > self.config.frames / 2 {
                    self.spurious.fetch_add(1, Ordering::Relaxed);
                }
            }
            (AllocError::InUse(_), Place::At(_)) => {}
            (AllocError::Unsupported, Place::At(_) | Place::Within { .. })
                if self.engine.unsupported.exact_frame => {}
            _ => panic!("{}: {error:?} is no answer to {request:?}", self.engine.name),
        }
    }

    /// Allocates for thread `me`; `None` where the allocator said that there is nothing.
    pub fn alloc(&self, me: u32, request: Request) -> Option<Block> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        match self.allocator().alloc(request) {
            Ok(frame) => {
                let asked_for = match request.place {
                    Place::Anywhere => true,
                    Place::At(asked) => asked == frame,
                    Place::Within { start, end } => {
                        start <= frame && frame.0 + request.order.frames() <= end.0
                    }
                };
                assert!(asked_for, "{}: {frame} is no answer to {request:?}", self.engine.name);
                Some(self.own(me, frame, request.order))
            }
            Err(error) => {
                self.refuse(error, request);
                None
            }
        }
    }

    /// Allocates a run for thread `me`, as its largest blocks.
    pub fn alloc_range(&self, me: u32, request: RangeRequest) -> Option<Vec<Block>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        match self.allocator().alloc_range(request) {
            Ok(run) => {
                let fits = run.end.0 - run.start.0 == request.frames
                    && run.start.is_aligned(request.align)
                    && match request.place {
                        Place::Anywhere => true,
                        Place::At(frame) => run.start == frame,
                        Place::Within { start, end } => start <= run.start && run.end <= end,
                    };
                assert!(fits, "{}: {run:?} is no answer to {request:?}", self.engine.name);
                let blocks = self.engine.blocks(run);
                Some(blocks.into_iter().map(|(frame, order)| self.own(me, frame, order)).collect())
            }
            Err(AllocError::OutOfMemory | AllocError::InUse(_)) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                None
            }
            Err(error) => panic!("{}: {error:?} is no answer to {request:?}", self.engine.name),
        }
    }

    /// Frees a run that thread `me` owns, given as its blocks, which must succeed.
    pub fn free_range(&self, me: u32, blocks: &[Block], slot: Slot) {
        let [(first, _), .., (last, order)] = blocks else {
            return blocks.iter().for_each(|&block| self.free(me, block, slot));
        };
        self.calls.fetch_add(1, Ordering::Relaxed);
        blocks.iter().for_each(|&block| self.change(block, me, NOBODY));
        let run = *first..FrameId(last.0 + order.frames());
        if let Err(error) = self.allocator().free_range(run.clone(), slot) {
            panic!("{}: thread {me} owned {run:?}: {error:?}", self.engine.name);
        }
    }

    /// Allocates a batch for thread `me`.
    pub fn alloc_batch(&self, me: u32, request: Request, batch: Batch, n: usize) -> Vec<Block> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mut out = vec![FrameId(0); n];
        match self.allocator().alloc_batch(request, batch, &mut out) {
            Ok(taken) => {
                let legal = (1..=n).contains(&taken) && (batch == Batch::UpTo || taken == n);
                assert!(legal, "{taken} of {n} blocks, {batch:?}");
                out[..taken].iter().map(|&frame| self.own(me, frame, request.order)).collect()
            }
            Err(error) => {
                self.refuse(error, request);
                Vec::new()
            }
        }
    }

    /// Frees what thread `me` owns, which must succeed.
    pub fn free(&self, me: u32, block: Block, slot: Slot) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.change(block, me, NOBODY);
        let (frame, order) = block;
        if let Err(error) = self.allocator().free(frame, order, slot) {
            panic!("{}: thread {me} owned {frame} of {order}: {error:?}", self.engine.name);
        }
    }

    /// Frees blocks of one order as a batch.
    pub fn free_batch(&self, me: u32, blocks: &[Block], slot: Slot) {
        let Some(&(_, order)) = blocks.first() else { return };
        self.calls.fetch_add(1, Ordering::Relaxed);
        blocks.iter().for_each(|&block| self.change(block, me, NOBODY));
        let frames: Vec<_> = blocks.iter().map(|block| block.0).collect();
        if let Err(error) = self.allocator().free_batch(&frames, order, slot) {
            panic!("{}: thread {me} owned all of the batch: {error:?}", self.engine.name);
        }
    }

    /// Says that nobody owns the block any more, without freeing it: for racing calls that the
    /// caller makes itself.
    pub fn disown(&self, me: u32, block: Block) {
        self.change(block, me, NOBODY);
    }

    /// Gives a block to whoever asks next.
    pub fn send(&self, me: u32, block: Block) {
        self.change(block, me, IN_TRANSIT);
        self.transit.lock().expect("no thread panics with it").push(block);
    }

    /// Takes a block that some thread sent.
    pub fn receive(&self, me: u32) -> Option<Block> {
        let block = self.transit.lock().expect("no thread panics with it").pop()?;
        self.change(block, IN_TRANSIT, me);
        Some(block)
    }

    /// Takes a huge frame offline, if it is free.
    pub fn offline(&self, huge: HugeId) -> bool {
        let done = self.allocator().offline(huge, 1).is_ok();
        if done {
            self.change((self.engine.first_of(huge), self.engine.huge_order), NOBODY, OFFLINE);
        }
        done
    }

    /// Puts a huge frame that is offline back.
    pub fn online(&self, huge: HugeId) {
        self.change((self.engine.first_of(huge), self.engine.huge_order), OFFLINE, NOBODY);
        self.allocator().online(huge, 1).expect("the huge frame is offline");
    }

    /// Claims an isolated huge frame for thread `me`, if it is empty.
    pub fn claim_isolated(&self, me: u32, huge: HugeId, claim: Claim) -> bool {
        let done = self.allocator().claim_isolated(huge, 1, claim).is_ok();
        if done {
            let to = if claim == Claim::Offline { OFFLINE } else { me };
            self.change((self.engine.first_of(huge), self.engine.huge_order), NOBODY, to);
        }
        done
    }

    /// Gives a huge frame back that thread `me` has claimed.
    pub fn give_claimed(&self, me: u32, huge: HugeId, claim: Claim) {
        match claim {
            Claim::Offline => self.online(huge),
            Claim::Block(slot) => {
                self.free(me, (self.engine.first_of(huge), self.engine.huge_order), slot);
            }
        }
    }

    /// Runs `threads` threads at once, numbered from 1, and returns all blocks that they still own.
    /// A panic in one ends the test with the replay line.
    pub fn run(
        &self,
        threads: usize,
        work: impl Fn(u32) -> Vec<Block> + Sync,
    ) -> Vec<(u32, Block)> {
        let test = std::thread::current().name().unwrap_or("threads").to_owned();
        let barrier = Barrier::new(threads);
        let mut owned = Vec::new();
        std::thread::scope(|scope| {
            let spawn = |me: u32| {
                let (work, barrier) = (&work, &barrier);
                let thread = std::thread::Builder::new().name(test.clone());
                let started = thread.spawn_scoped(scope, move || {
                    barrier.wait();
                    work(me)
                });
                started.expect("a thread can be started")
            };
            let running: Vec<_> = (1..=threads as u32).map(|me| (me, spawn(me))).collect();
            for (me, thread) in running {
                match thread.join() {
                    Ok(blocks) => owned.extend(blocks.into_iter().map(|block| (me, block))),
                    Err(panic) => {
                        let line = replay_line(seed());
                        eprintln!("{} in {:?}; {line}", self.engine.name, self.config);
                        resume_unwind(panic);
                    }
                }
            }
        });
        owned
    }

    /// What the owner words say, as a model.
    pub fn model(&self) -> Model {
        self.engine.model_of(&self.config, |frame| {
            match self.owners[frame.0 - self.config.start.0].load(Ordering::Acquire) {
                NOBODY => State::Free,
                OFFLINE => State::Offline,
                _ => State::Allocated,
            }
        })
    }

    /// Compares the zone with the owner words, frame by frame. No other thread may be running.
    #[track_caller]
    pub fn validate(&self) {
        self.judge(validate::everything(self.allocator(), &self.model(), History::SharedSlots));
    }

    #[track_caller]
    fn validate_counts(&self) {
        self.judge(validate::counts(self.allocator(), &self.model(), History::SharedSlots));
    }

    /// The counts, where every thread used slots of its own.
    #[track_caller]
    pub fn validate_own_slots(&self) {
        self.judge(validate::counts(self.allocator(), &self.model(), History::OwnSlots));
    }

    #[track_caller]
    fn judge(&self, judged: Judged) {
        if let Err(why) = judged {
            let (name, config, line) = (self.engine.name, self.config, replay_line(seed()));
            panic!("{name}: after all threads stopped: {why}\n  zone: {config:?}\n  {line}");
        }
    }

    /// All threads have stopped: everything must be exact, recover as it is, be freed, and be
    /// allocated again to the last frame.
    #[track_caller]
    pub fn settle(mut self, mut owned: Vec<(u32, Block)>) {
        while let Some(block) = self.receive(1) {
            owned.push((1, block));
        }
        self.validate();
        if !self.engine.unsupported.recovery {
            let config = self.config;
            self.zone.recover(&config).expect("recovery works");
            self.validate();
        }
        let slots = self.config.slots;
        for (n, (me, block)) in owned.into_iter().enumerate() {
            self.free(me, block, Slot(n % slots));
        }
        for huge in self.model().offline_huge_frames().collect::<Vec<_>>() {
            self.online(huge);
        }
        assert_eq!(self.model().free_frames(), self.config.frames, "someone kept frames");
        self.validate_counts();
        self.take_everything();
        let (calls, refused, spurious) = (self.calls, self.refused, self.spurious);
        println!(
            "{}: {calls:?} calls, {refused:?} refused, {spurious:?} of them with half the zone free",
            self.engine.name
        );
    }

    /// Nobody owns anything and no call is in flight: every frame can be had.
    #[track_caller]
    fn take_everything(&self) {
        if self.engine.unsupported.exact_exhaustion {
            for slot in (0..self.config.slots).map(Slot) {
                self.allocator().drain(slot).expect("the slot exists");
            }
        }
        let mut model = self.model();
        for order in self.engine.orders().rev() {
            let possible = model.free_blocks(order).count();
            for n in 0..possible {
                let class = self.config.classes.all().nth(n % self.config.classes.count());
                let slot = Slot(n % self.config.slots);
                let request = Request::new(order, class.unwrap_or(Class::MOVABLE), slot);
                match self.alloc(1, request) {
                    Some((frame, _)) => model.alloc(request, Ok(frame)).expect("nobody had it"),
                    None => panic!("block {n} of {possible} of {order} is not to be had"),
                }
            }
        }
        assert_eq!(model.free_frames(), 0);
        self.validate_counts();
    }
}
