//! An allocator and its judge in lock step, for tests in which one call follows another.

use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::ops::Range;

use fastrand::Rng;
use woodlot_frame::{
    AllocError, BadSlot, Batch, Claim, Class, FrameId, FreeBatchError, FreeError, HugeId, Init,
    IsolateError, OfflineError, Order, RangeRequest, Request, Slot, ZoneConfig,
};

use crate::engine::{Allocator, Engine, Zone};
use crate::judge::Judged;
use crate::model::Model;
use crate::settings::{replay_line, seed};
use crate::validate::{self, History};

/// One call and its answer, kept for the message of a failure.
#[derive(Clone, Copy)]
enum Call {
    Alloc(Request, Result<FrameId, AllocError>),
    AllocBatch(Request, Batch, usize, Result<usize, AllocError>),
    Free(FrameId, Order, Slot, Result<(), FreeError>),
    FreeBatch(usize, Order, Slot, Result<(), FreeBatchError>),
    AllocRange(RangeRequest, Result<(FrameId, FrameId), AllocError>),
    FreeRange(FrameId, FrameId, Slot, Result<(), FreeError>),
    Drain(Slot, Result<(), BadSlot>),
    Offline(HugeId, usize, Result<(), OfflineError>),
    Online(HugeId, usize, Result<(), OfflineError>),
    Isolate(HugeId, usize, Result<(), IsolateError>),
    Unisolate(HugeId, usize, Result<(), IsolateError>),
    ClaimIsolated(HugeId, usize, Claim, Result<(), IsolateError>),
    Recover,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::Alloc(request, answer) => write!(f, "alloc({request:?}) -> {answer:?}"),
            Call::AllocBatch(request, batch, wanted, answer) => {
                write!(f, "alloc_batch({request:?}, {batch:?}, {wanted} blocks) -> {answer:?}")
            }
            Call::Free(frame, order, slot, answer) => {
                write!(f, "free({frame}, {order}, {slot:?}) -> {answer:?}")
            }
            Call::FreeBatch(blocks, order, slot, answer) => {
                write!(f, "free_batch({blocks} blocks, {order}, {slot:?}) -> {answer:?}")
            }
            Call::AllocRange(request, answer) => {
                write!(f, "alloc_range({request:?}) -> {answer:?}")
            }
            Call::FreeRange(start, end, slot, answer) => {
                write!(f, "free_range({start}..{end}, {slot:?}) -> {answer:?}")
            }
            Call::Drain(slot, answer) => write!(f, "drain({slot:?}) -> {answer:?}"),
            Call::Offline(first, count, answer) => {
                write!(f, "offline({first}, {count}) -> {answer:?}")
            }
            Call::Online(first, count, answer) => {
                write!(f, "online({first}, {count}) -> {answer:?}")
            }
            Call::Isolate(first, count, answer) => {
                write!(f, "isolate({first}, {count}) -> {answer:?}")
            }
            Call::Unisolate(first, count, answer) => {
                write!(f, "unisolate({first}, {count}) -> {answer:?}")
            }
            Call::ClaimIsolated(first, count, claim, answer) => {
                write!(f, "claim_isolated({first}, {count}, {claim:?}) -> {answer:?}")
            }
            Call::Recover => f.write_str("recover()"),
        }
    }
}

/// An engine that names each batch in a record has room for the longest: a batch beyond it is refused.
const RECORD_ROOM: usize = 4095;

/// The calls that a failure shows.
const SHOWN: usize = 12;

/// An allocator whose every answer is judged: a wrong one panics with the zone, the step, the
/// calls that led there and a line that replays them.
pub struct Checked {
    engine: Engine,
    zone: Box<dyn Zone>,
    /// The judge.
    pub model: Model,
    seed: u64,
    step: usize,
    recent: VecDeque<Call>,
}

impl Checked {
    /// A new zone. Panics if the engine refuses it.
    pub fn new(engine: Engine, config: &ZoneConfig, init: Init) -> Self {
        Self::seeded(engine, config, init, seed())
    }

    /// A new zone for a test whose choices all follow from `seed`.
    pub fn seeded(engine: Engine, config: &ZoneConfig, init: Init, seed: u64) -> Self {
        let config = &config.with_record_room(RECORD_ROOM);
        let zone = match engine.zone(config, init) {
            Ok(zone) => zone,
            Err(error) => {
                let line = replay_line(seed);
                panic!("{}: no zone {config:?} in mode {init:?}: {error}\n{line}", engine.name)
            }
        };
        let model = engine.model(config, init);
        Self { engine, zone, model, seed, step: 0, recent: VecDeque::new() }
    }

    /// How many calls were judged.
    pub fn calls(&self) -> usize {
        self.step
    }

    /// The engine.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// The allocator, for calls that change nothing.
    pub fn allocator(&self) -> &dyn Allocator {
        self.zone.allocator()
    }

    /// Ends the test with all that is known.
    #[track_caller]
    pub fn fail(&self, why: &str) -> ! {
        let calls: String = self.recent.iter().map(|call| format!("\n    {call}")).collect();
        panic!(
            "{}: {why}\n  zone: {:?}\n  step {} of seed {}; the calls before:{calls}\n  {}",
            self.engine.name,
            self.model.config(),
            self.step,
            self.seed,
            replay_line(self.seed)
        );
    }

    #[track_caller]
    fn judge(&mut self, call: Call, judged: Judged) {
        self.step += 1;
        if self.recent.len() == SHOWN {
            self.recent.pop_front();
        }
        self.recent.push_back(call);
        if let Err(why) = judged {
            self.fail(&why);
        }
    }

    #[track_caller]
    fn must<T, E: Debug>(&self, what: &str, result: Result<T, E>) -> T {
        result.unwrap_or_else(|error| self.fail(&format!("{what} failed: {error:?}")))
    }

    // ---- The calls of the contract, judged ----

    /// [`FrameAllocator::alloc`](woodlot_frame::FrameAllocator::alloc).
    ///
    /// An engine that does not promise to find what other slots hold may be out of memory too
    /// early, but not once every slot has been drained.
    #[track_caller]
    pub fn alloc(&mut self, request: Request) -> Result<FrameId, AllocError> {
        let mut answer = self.allocator().alloc(request);
        let early = answer == Err(AllocError::OutOfMemory)
            && self.engine.unsupported.exact_exhaustion
            && self.model.has_free_block(request.order);
        if early {
            (0..self.model.config().slots).for_each(|slot| {
                let _ = self.allocator().drain(Slot(slot));
            });
            answer = self.allocator().alloc(request);
        }
        let judged = self.model.alloc(request, answer);
        self.judge(Call::Alloc(request, answer), judged);
        answer
    }

    /// [`FrameAllocator::alloc_batch`](woodlot_frame::FrameAllocator::alloc_batch).
    #[track_caller]
    pub fn alloc_batch(
        &mut self,
        request: Request,
        batch: Batch,
        wanted: usize,
    ) -> Result<Vec<FrameId>, AllocError> {
        let mut out = vec![FrameId(usize::MAX); wanted];
        let answer = self.allocator().alloc_batch(request, batch, &mut out);
        let judged = self.model.alloc_batch(request, batch, &out, answer);
        self.judge(Call::AllocBatch(request, batch, wanted, answer), judged);
        out.truncate(answer?);
        Ok(out)
    }

    /// [`FrameAllocator::alloc_range`](woodlot_frame::FrameAllocator::alloc_range).
    #[track_caller]
    pub fn alloc_range(&mut self, request: RangeRequest) -> Result<Range<FrameId>, AllocError> {
        let answer = self.allocator().alloc_range(request);
        let judged = self.model.alloc_range(request, &answer);
        let ends = answer.clone().map(|run| (run.start, run.end));
        self.judge(Call::AllocRange(request, ends), judged);
        answer
    }

    /// [`FrameAllocator::free_range`](woodlot_frame::FrameAllocator::free_range).
    #[track_caller]
    pub fn free_range(&mut self, frames: Range<FrameId>, slot: Slot) -> Result<(), FreeError> {
        let answer = self.allocator().free_range(frames.clone(), slot);
        let judged = self.model.free_range(frames.clone(), slot, answer);
        self.judge(Call::FreeRange(frames.start, frames.end, slot, answer), judged);
        answer
    }

    /// [`FrameAllocator::free`](woodlot_frame::FrameAllocator::free), after
    /// [`FrameAllocator::can_free`](woodlot_frame::FrameAllocator::can_free), which must say the same.
    #[track_caller]
    pub fn free(&mut self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        let could = self.allocator().can_free(frame, order, slot);
        if let Err(why) = self.model.can_free(frame, order, slot, could) {
            self.fail(&why);
        }
        let answer = self.allocator().free(frame, order, slot);
        let judged = self.model.free(frame, order, slot, answer);
        self.judge(Call::Free(frame, order, slot, answer), judged);
        answer
    }

    /// [`FrameAllocator::free_batch`](woodlot_frame::FrameAllocator::free_batch).
    #[track_caller]
    pub fn free_batch(
        &mut self,
        frames: &[FrameId],
        order: Order,
        slot: Slot,
    ) -> Result<(), FreeBatchError> {
        let answer = self.allocator().free_batch(frames, order, slot);
        let judged = self.model.free_batch(frames, order, slot, answer);
        self.judge(Call::FreeBatch(frames.len(), order, slot, answer), judged);
        answer
    }

    /// [`FrameAllocator::drain`](woodlot_frame::FrameAllocator::drain).
    #[track_caller]
    pub fn drain(&mut self, slot: Slot) -> Result<(), BadSlot> {
        let answer = self.allocator().drain(slot);
        let judged = self.model.drain(slot, answer);
        self.judge(Call::Drain(slot, answer), judged);
        answer
    }

    /// [`FrameAllocator::offline`](woodlot_frame::FrameAllocator::offline).
    #[track_caller]
    pub fn offline(&mut self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        let answer = self.allocator().offline(first, count);
        let judged = self.model.offline(first, count, answer);
        self.judge(Call::Offline(first, count, answer), judged);
        answer
    }

    /// [`FrameAllocator::online`](woodlot_frame::FrameAllocator::online).
    #[track_caller]
    pub fn online(&mut self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        let answer = self.allocator().online(first, count);
        let judged = self.model.online(first, count, answer);
        self.judge(Call::Online(first, count, answer), judged);
        answer
    }

    /// [`FrameAllocator::isolate`](woodlot_frame::FrameAllocator::isolate).
    #[track_caller]
    pub fn isolate(&mut self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        let answer = self.allocator().isolate(first, count);
        let judged = self.model.isolate(first, count, answer);
        self.judge(Call::Isolate(first, count, answer), judged);
        answer
    }

    /// [`FrameAllocator::unisolate`](woodlot_frame::FrameAllocator::unisolate).
    #[track_caller]
    pub fn unisolate(&mut self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        let answer = self.allocator().unisolate(first, count);
        let judged = self.model.unisolate(first, count, answer);
        self.judge(Call::Unisolate(first, count, answer), judged);
        answer
    }

    /// [`FrameAllocator::claim_isolated`](woodlot_frame::FrameAllocator::claim_isolated).
    #[track_caller]
    pub fn claim_isolated(
        &mut self,
        first: HugeId,
        count: usize,
        claim: Claim,
    ) -> Result<(), IsolateError> {
        let answer = self.allocator().claim_isolated(first, count, claim);
        let judged = self.model.claim_isolated(first, count, claim, answer);
        self.judge(Call::ClaimIsolated(first, count, claim, answer), judged);
        answer
    }

    /// Forgets what is volatile and recovers, as at a restart; nothing else may change, but that nothing is isolated.
    #[track_caller]
    pub fn recover(&mut self) {
        let config = *self.model.config();
        let answer = self.zone.recover(&config);
        self.model.forget_isolation();
        self.judge(Call::Recover, answer.map_err(|error| format!("no recovery: {error}")));
    }

    // ---- Longer steps ----

    /// Allocates a block that must be there.
    #[track_caller]
    pub fn take(&mut self, order: Order, slot: Slot) -> FrameId {
        let answer = self.alloc(Request::movable(order, slot));
        self.must("an allocation", answer)
    }

    /// Allocates this very block, which must be free.
    #[track_caller]
    pub fn claim(&mut self, frame: FrameId, order: Order, slot: Slot) {
        let answer = self.alloc(Request::movable(order, slot).at(frame));
        self.must("a claim", answer);
    }

    /// Frees a block that must be allocated.
    #[track_caller]
    pub fn give(&mut self, frame: FrameId, order: Order, slot: Slot) {
        let answer = self.free(frame, order, slot);
        self.must("a free", answer);
    }

    /// Allocates blocks until there are no more (which the model confirms).
    #[track_caller]
    pub fn fill(&mut self, order: Order, class: Class, slot: Slot) -> Vec<FrameId> {
        let request = Request::new(order, class, slot);
        std::iter::from_fn(|| self.alloc(request).ok()).collect()
    }

    /// Fills the zone from the largest order down to single frames: nothing is left then.
    #[track_caller]
    pub fn fill_all(&mut self, slot: Slot) -> Vec<(FrameId, Order)> {
        let mut blocks = Vec::new();
        for order in self.engine.orders().rev() {
            let filled = self.fill(order, Class::MOVABLE, slot);
            blocks.extend(filled.into_iter().map(|frame| (frame, order)));
        }
        if self.model.free_frames() != 0 {
            self.fail("frames were left over");
        }
        blocks
    }

    /// Frees blocks in random order through random slots.
    #[track_caller]
    pub fn give_all(&mut self, mut blocks: Vec<(FrameId, Order)>, rng: &mut Rng) {
        rng.shuffle(&mut blocks);
        for (frame, order) in blocks {
            let slot = Slot(rng.usize(..self.model.config().slots));
            self.give(frame, order, slot);
        }
    }

    /// Frees everything that is allocated, in the largest blocks that fit, or as they were allocated
    /// where an engine cannot free in parts.
    #[track_caller]
    pub fn give_rest(&mut self, slot: Slot) {
        let (mut from, most) = (self.model.config().start, self.model.max_order());
        while let Some((frame, order)) = self.model.next_allocated(from, most) {
            self.give(frame, order, slot);
            from = FrameId(frame.0 + order.frames());
        }
    }

    /// Compares the counts with the model's.
    #[track_caller]
    pub fn validate_counts(&self) {
        if let Err(why) = validate::counts(self.allocator(), &self.model, History::Sequential) {
            self.fail(&why);
        }
    }

    /// Compares what calls have changed since the last comparison frame by frame, and all counts.
    #[track_caller]
    pub fn validate_touched(&mut self) {
        if let Err(why) = validate::touched(self.allocator(), &self.model, History::Sequential) {
            self.fail(&why);
        }
        self.model.compared();
    }

    /// Compares everything with the model, frame by frame.
    #[track_caller]
    pub fn validate(&self) {
        if let Err(why) = validate::everything(self.allocator(), &self.model, History::Sequential) {
            self.fail(&why);
        }
    }

    /// Compares the map of free blocks too.
    #[track_caller]
    pub fn validate_free_blocks(&self) {
        if let Err(why) = validate::free_blocks(self.allocator(), &self.model) {
            self.fail(&why);
        }
    }
}

impl Drop for Checked {
    /// Where the engine itself panicked, nothing has told yet how to replay it.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let line = replay_line(self.seed);
            eprintln!("{} stopped after step {}; {line}", self.engine.name, self.step);
        }
    }
}
