//! One history: a zone, what its threads do, and what must be true of it at the end.

use std::ops::{AddAssign, ControlFlow};
use std::sync::{Arc, Mutex, MutexGuard};

use fastrand::Rng;
use woodlot_frame::{
    AllocError, Batch, Class, FrameAllocator, FrameId, FreeError, Geometry, HugeId, Init,
    OfflineError, Order, Place, Request, Slot,
};
use woodlot_suite::Model;
use woodlot_suite::validate::{self, History};

use crate::exhaustion::Refusals;
use crate::ledger::{Block, Judged, Ledger, Passing, Refusal};
use crate::plan::{Mistake, Op, Plan, Step};
use crate::reclaim::Called;

/// The books of the history that runs, shared by its threads and the scheduler. Nobody is
/// interrupted while the lock is held: it is no place where shuttle could switch.
#[derive(Clone, Default)]
pub struct Books(Arc<Mutex<State>>);

/// What is in the books.
#[derive(Default)]
pub struct State {
    /// Owners and calls.
    pub ledger: Ledger,
    /// What went wrong first.
    pub failure: Option<String>,
    /// What the batch has done so far.
    pub figures: Figures,
}

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// Executions to their end.
    pub schedules: usize,
    /// Calls before all threads had ended.
    pub calls: usize,
    /// Steps, each an access to an atomic word.
    pub steps: usize,
    /// Executions in which a thread was left standing.
    pub stood: usize,
    /// Of these, those in which it stood inside a call.
    pub stood_inside: usize,
    /// Refusals for want of memory.
    pub refusals: Refusals,
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.calls += other.calls;
        self.steps += other.steps;
        self.stood += other.stood;
        self.stood_inside += other.stood_inside;
        self.refusals += other.refusals;
    }
}

impl Books {
    /// Opens them.
    pub fn open(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics with the books")
    }

    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Ledger) -> T) -> T {
        work(&mut self.open().ledger)
    }

    /// Notes what went wrong, if it is the first thing.
    pub fn fail(&self, why: String) {
        self.open().failure.get_or_insert(why);
    }
}

/// A zone that threads work on.
pub struct Zone<'a, A> {
    /// The allocator.
    pub engine: &'a A,
    /// The books.
    pub books: &'a Books,
    /// Judges calls that are wrong whatever the zone holds.
    pub fresh: &'a Model,
}

pub(crate) type Geo<A> = <A as FrameAllocator>::Geometry;

impl<A: Called> Zone<'_, A> {
    // ---- Before ----

    /// Fills the zone until about so much is left as the plan says, in blocks of all sizes that go to
    /// the threads and, first of all, to nobody: thread 0.
    ///
    /// # Errors
    /// What went wrong.
    pub fn prepare(&self, plan: &Plan, seed: u64) -> Judged {
        let mut rng = Rng::with_seed(!seed);
        let people = plan.threads.len() + 1;
        let order = |rng: &mut Rng| Order(rng.u8(0..=Order::max::<Geo<A>>().0));
        if plan.init == Init::Allocated {
            let mut frame = plan.config.start;
            while frame < plan.config.end() {
                let wanted = order(&mut rng);
                let fits =
                    |order: &Order| frame.is_aligned(*order) && plan.config.contains(frame, *order);
                let order = (0..=wanted.0).rev().map(Order).find(fits).unwrap_or_default();
                let block = Block(frame, order);
                self.books.with(|ledger| ledger.endow(rng.usize(0..people), block))?;
                frame.0 += order.frames();
            }
            while self.free_frames() < plan.leave_free
                && let Some(block) = self.books.with(|ledger| ledger.take_block(0, rng.usize(..)))
            {
                self.free(0, block, Slot(0))?;
            }
        } else {
            let classes = plan.config.classes.count() as u8;
            let mut largest = Order::max::<Geo<A>>();
            while self.free_frames() > plan.leave_free {
                let order = order(&mut rng).min(largest);
                let class = Class(rng.u8(0..classes));
                let slot = Slot(rng.usize(0..plan.config.slots));
                let before = self.free_frames();
                self.alloc(rng.usize(0..people), Request::new(order, class, slot))?;
                if self.free_frames() == before {
                    largest = Order(order.0.saturating_sub(1));
                }
            }
        }
        Ok(())
    }

    fn free_frames(&self) -> usize {
        self.books.with(|ledger| ledger.free_frames())
    }

    // ---- Calls ----

    /// What a thread does, up to the first thing that goes wrong.
    pub fn work(&self, me: usize, steps: &[Step]) {
        let ended = steps.iter().try_for_each(|step| match self.step(me, *step) {
            Ok(()) => ControlFlow::Continue(()),
            Err(why) => ControlFlow::Break(format!("thread {me}, {step:?}: {why}")),
        });
        match ended {
            ControlFlow::Continue(()) => self.books.with(|ledger| ledger.ended += 1),
            ControlFlow::Break(why) => self.books.fail(why),
        }
    }

    fn step(&self, me: usize, Step { slot, op }: Step) -> Judged {
        match op {
            Op::Alloc(request) => self.alloc(me, request),
            Op::Batch(request, batch, wanted) => self.alloc_batch(me, request, batch, wanted),
            Op::Free { pick, remote } => {
                let block = self.books.with(|ledger| match remote {
                    true => ledger.hand_over(me, pick),
                    false => Ok(ledger.take_block(me, pick)),
                })?;
                block.map_or(Ok(()), |block| self.free(me, block, slot))
            }
            Op::FreePart { pick, part } => self.free_part(me, pick, part, slot),
            Op::FreeMerged { pick } => {
                let both = self.books.with(|ledger| {
                    let block = ledger.block(me, pick).filter(|b| b.1 < Order::max::<Geo<A>>())?;
                    let merged = ledger.take_this(me, block.buddy());
                    merged.then(|| {
                        ledger.take_this(me, block);
                        Block(block.0.min(block.buddy().0), Order(block.1.0 + 1))
                    })
                });
                both.map_or(Ok(()), |block| self.free(me, block, slot))
            }
            Op::FreeBatch { pick, most } => self.free_batch(me, pick, most, slot),
            Op::Run(request) => self.alloc_range(me, request),
            Op::FreeRange { pick, most } => self.free_range(me, pick, most, slot),
            Op::Drain => {
                let id = self.books.with(|ledger| ledger.begin(me, Passing::NOTHING));
                let answer = self.engine.drain(slot);
                self.books.with(|ledger| ledger.done(me, id));
                answer.map_err(|error| format!("{error:?}"))
            }
            Op::Offline(first, count) => self.offline(me, first, count),
            Op::Online { pick } => {
                let huge = self.books.with(|ledger| ledger.take_out(me, pick));
                huge.map_or(Ok(()), |huge| self.online(me, huge))
            }
            Op::Preferring(request, prefer) => self.alloc_preferring(me, request, prefer),
            Op::Reclaim(mode, most) => self.reclaim(me, mode, most),
            Op::Give { pick, most } => self.give(me, pick, most),
            Op::FreeZeroed { pick } => self.free_zeroed(me, pick, slot),
            Op::Look { pick } => self.look(me, pick),
            Op::Wrong { pick, how } => self.wrong(me, pick, how, slot),
        }
    }

    pub(crate) fn alloc(&self, me: usize, request: Request) -> Judged {
        let order = request.order;
        let id = self.books.with(|ledger| ledger.begin(me, Passing::Blocks(order, 1)));
        let answer = self.engine.alloc(request);
        let refusal = match (answer, request.place) {
            (Err(AllocError::OutOfMemory), Place::Anywhere) => Some(Refusal::Memory(order)),
            (Err(AllocError::OutOfMemory), Place::Within { start, end }) => {
                Some(self.no_run(order.frames(), order, start..end))
            }
            (Err(AllocError::InUse(frame)), Place::At(asked)) if frame == asked => {
                Some(Refusal::Frames(Block(frame, order).range()))
            }
            _ => None,
        };
        self.books.with(|ledger| match (answer, refusal) {
            (_, Some(refusal)) => {
                ledger.refused(me, id, refusal);
                Ok(())
            }
            // In a fresh zone, too, what is allocated must lie where it was asked for, and what is refused
            // must be wrong.
            (Ok(frame), None) => {
                self.fresh.clone().alloc(request, answer)?;
                ledger.allocated(me, id, &[Block(frame, order)], None)
            }
            (Err(_), None) => {
                ledger.done(me, id);
                self.fresh.clone().alloc(request, answer)
            }
        })
    }

    fn alloc_batch(&self, me: usize, request: Request, batch: Batch, wanted: usize) -> Judged {
        let order = request.order;
        let at_once = if batch == Batch::All { wanted } else { 1 };
        let id = self.books.with(|ledger| ledger.begin(me, Passing::Blocks(order, at_once)));
        let mut out = vec![FrameId(0); wanted];
        let answer = self.engine.alloc_batch(request, batch, &mut out);
        self.books.with(|ledger| match answer {
            Ok(taken)
                if taken == wanted || batch == Batch::UpTo && (1..wanted).contains(&taken) =>
            {
                let blocks: Vec<_> = out[..taken].iter().map(|&f| Block(f, order)).collect();
                let refused = (taken < wanted).then_some(Refusal::Memory(order));
                ledger.allocated(me, id, &blocks, refused)
            }
            Err(AllocError::OutOfMemory) => {
                ledger.refused(me, id, Refusal::Memory(order));
                Ok(())
            }
            _ => Err(format!("answered {answer:?}")),
        })
    }

    pub(crate) fn free(&self, me: usize, block: Block, slot: Slot) -> Judged {
        let id = self.books.with(|ledger| ledger.begin_free(me, &[block]))?;
        let answer = self.engine.free(block.0, block.1, slot);
        self.books.with(|ledger| ledger.done(me, id));
        let (frame, order) = (block.0, block.1);
        answer.map_err(|error| format!("{error:?}, but {frame} of {order} was thread {me}'s"))
    }

    fn free_part(&self, me: usize, pick: usize, part: usize, slot: Slot) -> Judged {
        let part = self.books.with(|ledger| {
            let whole = ledger.take_block(me, pick)?;
            let order = Order((part % (usize::from(whole.1.0) + 1)) as u8);
            let part = FrameId(whole.0.0 + (part & (whole.1.frames() - 1) & !(order.frames() - 1)));
            // The halves that it does not lie in stay.
            for half in (order.0..whole.1.0).map(Order) {
                let around = Block(FrameId(part.0 & !(half.frames() - 1)), half);
                ledger.keep(me, around.buddy());
            }
            Some(Block(part, order))
        });
        part.map_or(Ok(()), |part| self.free(me, part, slot))
    }

    fn free_batch(&self, me: usize, pick: usize, most: usize, slot: Slot) -> Judged {
        let blocks = self.books.with(|ledger| ledger.take_alike(me, pick, most));
        let Some(&Block(_, order)) = blocks.first() else { return Ok(()) };
        let id = self.books.with(|ledger| ledger.begin_free(me, &blocks))?;
        let frames: Vec<_> = blocks.iter().map(|block| block.0).collect();
        let answer = self.engine.free_batch(&frames, order, slot);
        self.books.with(|ledger| ledger.done(me, id));
        answer.map_err(|error| format!("{error:?}, but all of {frames:?} were thread {me}'s"))
    }

    fn offline(&self, me: usize, first: HugeId, count: usize) -> Judged {
        let order = Order::huge::<Geo<A>>();
        let id = self.books.with(|ledger| ledger.begin(me, Passing::Blocks(order, count)));
        let answer = self.engine.offline(first, count);
        self.books.with(|ledger| match answer {
            Ok(()) => {
                let all: Vec<_> = (first.0..first.0 + count).map(HugeId).collect();
                ledger.taken_out::<Geo<A>>(me, id, &all, None)
            }
            Err(OfflineError::InUse(frame)) => {
                let huge = frame.huge::<Geo<A>>();
                if huge < first || huge.0 >= first.0 + count {
                    return Err(format!("names {frame}, which was not to become offline"));
                }
                let frames = Block(huge.first::<Geo<A>>(), order).range();
                ledger.refused(me, id, Refusal::Frames(frames));
                Ok(())
            }
            Err(error) => {
                ledger.done(me, id);
                self.fresh.clone().offline(first, count, Err(error))
            }
        })
    }

    fn online(&self, me: usize, huge: HugeId) -> Judged {
        let id = self.books.with(|ledger| ledger.begin_online::<Geo<A>>(me, &[huge]))?;
        let answer = self.engine.online(huge, 1);
        self.books.with(|ledger| ledger.done(me, id));
        answer.map_err(|error| format!("{error:?}, but thread {me} has taken {huge} out"))
    }

    /// Whatever others do, some things are certain.
    fn look(&self, me: usize, pick: usize) -> Judged {
        let id = self.books.with(|ledger| ledger.begin(me, Passing::Looks));
        let (engine, frames) = (self.engine, self.engine.zone().frames);
        // Out of the others' reach meanwhile.
        let owned = self.books.with(|ledger| ledger.take_block(me, pick));
        let found = match owned {
            Some(Block(frame, order)) if engine.is_free(frame, order) => {
                Err(format!("{frame} of {order} is thread {me}'s, and is said to be free"))
            }
            Some(block) if self.is_said_to_be_zero(block) => {
                Err(format!("{} of {} is thread {me}'s, and is said to be zero", block.0, block.1))
            }
            _ if engine.free_frames() > frames => Err("too many frames are free".into()),
            _ if engine.is_available(Order(Order::max::<Geo<A>>().0 + 1)) => {
                Err("an order too large is available".into())
            }
            _ => {
                engine.stats();
                Ok(())
            }
        };
        self.books.with(|ledger| {
            owned.into_iter().for_each(|block| ledger.keep(me, block));
            ledger.done(me, id);
        });
        found
    }

    // ---- Wrong calls ----

    fn wrong(&self, me: usize, pick: usize, how: Mistake, slot: Slot) -> Judged {
        if let Some(huge) = how.offline() {
            self.offline(me, huge, 1)?;
        }
        let passing = match how {
            Mistake::OwnedRun(frames) => Passing::Run(frames),
            _ => Passing::NOTHING,
        };
        let id = self.books.with(|ledger| ledger.begin(me, passing));
        // Out of the others' reach meanwhile.
        let owned = self.books.with(|ledger| ledger.take_block(me, pick));
        let judged = self.mistake((me, owned), pick, how, slot);
        self.books.with(|ledger| {
            owned.into_iter().for_each(|block| ledger.keep(me, block));
            ledger.done(me, id);
        });
        judged
    }

    fn mistake(
        &self,
        (me, owned): (usize, Option<Block>),
        pick: usize,
        how: Mistake,
        slot: Slot,
    ) -> Judged {
        let (engine, mut fresh) = (self.engine, self.fresh.clone());
        let config = engine.zone();
        let request = Request::new(Order(0), Class(0), slot);
        let too_large = Order(Order::max::<Geo<A>>().0 + 1);
        match (how, owned) {
            (Mistake::Slot, Some(Block(frame, order))) => {
                let slot = Slot(config.slots);
                fresh.alloc(
                    Request { slot, ..request },
                    engine.alloc(Request { slot, ..request }),
                )?;
                fresh.drain(slot, engine.drain(slot))?;
                refused(engine.free(frame, order, slot), FreeError::BadSlot(slot))
            }
            (Mistake::Class, _) => {
                let request = request.class(Class(config.classes.count() as u8));
                fresh.alloc(request, engine.alloc(request))
            }
            (Mistake::Order, _) => {
                let request = Request { order: too_large, ..request };
                fresh.alloc(request, engine.alloc(request))?;
                let first = FrameId(0);
                fresh.free(first, too_large, slot, engine.free(first, too_large, slot))
            }
            (Mistake::Misaligned, Some(Block(frame, order))) if order.0 > 0 => {
                let frame = FrameId(frame.0 + 1);
                let answer = engine.free(frame, order, slot);
                match answer {
                    Err(FreeError::Misaligned(..) | FreeError::OutOfRange(_)) => Ok(()),
                    _ => Err(format!("answered {answer:?} to a misaligned free")),
                }
            }
            (Mistake::OutOfRange, _) => {
                let end = config.end();
                let request = request.at(end);
                if !A::UNSUPPORTED.exact_frame {
                    fresh.alloc(request, engine.alloc(request))?;
                }
                fresh.free(end, Order(0), slot, engine.free(end, Order(0), slot))
            }
            (Mistake::Owned, Some(Block(frame, order))) if !A::UNSUPPORTED.exact_frame => {
                let request = Request { order, ..request }.at(frame);
                refused(engine.alloc(request), AllocError::InUse(frame))
            }
            (Mistake::OfflineOwned, Some(Block(frame, _))) => {
                let huge = frame.huge::<Geo<A>>();
                let answer = engine.offline(huge, 1);
                match answer {
                    Err(OfflineError::InUse(named)) if named.huge::<Geo<A>>() == huge => Ok(()),
                    Err(OfflineError::OutOfRange) => Ok(()),
                    _ => Err(format!("answered {answer:?} to taking out a frame in use")),
                }
            }
            (Mistake::OnlineOwned, Some(Block(frame, _))) => {
                let huge = frame.huge::<Geo<A>>();
                let answer = engine.online(huge, 1);
                match answer {
                    Err(OfflineError::NotOffline | OfflineError::OutOfRange) => Ok(()),
                    _ => Err(format!("answered {answer:?} to putting back a frame in use")),
                }
            }
            (Mistake::FreeOffline(_), _) => {
                let Some(huge) = self.books.with(|ledger| ledger.out(me, pick)) else {
                    return Ok(());
                };
                let frame = huge.first::<Geo<A>>();
                let order = Order((pick % (Geo::<A>::HUGE_ORDER as usize + 1)) as u8);
                refused(engine.free(frame, order, slot), FreeError::Offline(frame))
            }
            (Mistake::Part, Some(Block(frame, order)))
                if A::UNSUPPORTED.partial_free && order.0 > 0 =>
            {
                refused(engine.free(frame, Order(order.0 - 1), slot), FreeError::Unsupported)
            }
            (how, owned) => self.mistaken_run((me, owned), pick, how, slot),
        }
    }

    // ---- Afterwards ----

    /// All threads have ended: everything must be exact, be given back, and be had again.
    ///
    /// # Errors
    /// What is wrong.
    pub fn settle(&self, plan: &Plan) -> Judged {
        let history = if plan.counts_are_kept { History::OwnSlots } else { History::SharedSlots };
        let small = plan.config.frames <= SMALL;
        let validate = if small { validate::everything } else { validate::counts };
        validate(self.engine, &self.model(), history)
            .map_err(|why| format!("when all threads had ended: {why}"))?;
        self.judge_flags()?;
        let slots = plan.config.slots;
        for owner in 0..=plan.threads.len() {
            let mut slot = (0..slots).map(Slot).cycle();
            while let Some(block) = self.books.with(|ledger| ledger.take_block(owner, 0)) {
                self.free(owner, block, slot.next().unwrap_or_default())?;
            }
            while let Some(huge) = self.books.with(|ledger| ledger.take_out(owner, 0)) {
                self.online(owner, huge)?;
            }
        }
        validate::counts(self.engine, &self.model(), history)
            .map_err(|why| format!("when everything was freed: {why}"))?;
        self.take_everything(plan)
            .map_err(|why| format!("when everything was allocated again: {why}"))
    }

    /// Allocates the whole zone, in the largest orders that it has.
    fn take_everything(&self, plan: &Plan) -> Judged {
        let classes: Vec<_> = plan.config.classes.all().collect();
        for order in Order::all::<Geo<A>>().rev() {
            for n in 0..self.model().free_blocks(order).count() {
                let slot = Slot(n % plan.config.slots);
                let request = Request::new(order, classes[n % classes.len()], slot);
                self.alloc(0, request)?;
            }
        }
        match (self.free_frames(), self.engine.stats().free_frames) {
            (0, 0) => Ok(()),
            (left, said) => Err(format!("{left} frames are left; the statistics say {said}")),
        }
    }

    fn model(&self) -> Model {
        self.books.with(|ledger| {
            let zone = self.engine.zone();
            let huge = Order::huge::<Geo<A>>();
            Model::from_states(zone, huge, A::UNSUPPORTED, |frame| ledger.state(frame))
        })
    }
}

/// Zones of so many frames are compared frame by frame.
const SMALL: usize = 64;

/// Must have been refused so.
pub(crate) fn refused<T: std::fmt::Debug, E: PartialEq + std::fmt::Debug>(
    answer: Result<T, E>,
    due: E,
) -> Judged {
    match answer {
        Err(error) if error == due => Ok(()),
        answer => Err(format!("answered {answer:?}, not {due:?}")),
    }
}
