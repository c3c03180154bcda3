//! A compaction, step by step.
//!
//! ```text
//!   isolate ─► pick ─► survey ─► move … move ─► won ─► pick … ─► claim ─► done      one thing each step
//!      │        │         └─ a frame does not move ──► given up ─► pick …
//!      └────────┴───────────── claim, in vain ────────► release ─► done
//! ```
//!
//! A range is isolated as a whole before anything moves, 64 huge frames a step; otherwise one huge frame at a time is. A range that is
//! to be kept is claimed so, too, when it is empty.
//!
//! # Invariants
//! 1. A huge frame is surveyed and emptied only while this compaction has it isolated. So no frame of it is handed out
//!    meanwhile, and of two compactions one at the most empties it.
//! 2. Each candidate with `isolated` is isolated by this compaction, and no other huge frame is.
//! 3. Between two steps compaction owns no block but the huge frames of candidates with `kept`. Those of a range lie before `claimed`,
//!    and become the caller's when all of it is; until then compaction frees them where it cannot have the rest.
//!
//! *Progress*: a step takes one row of 64 frames, one block, or 64 candidates. It waits for nobody but the owner's calls.

use core::ops::Range;

use woodlot_frame::{
    AllocError, Claim, FrameAllocator, FrameId, Geometry, HugeId, Order, Request, Slot,
};

use crate::plan::{Candidate, Role, arrange, fewest, possible};
use crate::relocate::{Block, Lookup, Refusal, Relocate};
use crate::report::{Report, Stop};
use crate::source::{Phase, Row, Source};
use crate::target::{Manner, PlanError, Target};

/// Orders below that of a huge frame, of any geometry.
const ORDERS: usize = 12;
/// Candidates that a step looks at, isolates, claims or gives back. Shuttle's histories have few, and one a step.
const PICKS: usize = if cfg!(woodlot_shuttle) { 1 } else { 64 };
/// Huge frames that a step asks for room.
const RECEIVERS: usize = 8;
/// How often moves out of one huge frame may fail.
const FAILURES: u32 = 4;
/// How often the frames of a huge frame are gone through again: for its smaller blocks, and for frames that were being freed.
const ROUNDS: u32 = 4;

/// What a compaction is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    /// What it is to win.
    pub target: Target,
    /// Who gives and receives.
    pub manner: Manner,
    /// The slot of its allocations and frees: best one that nobody else uses.
    pub slot: Slot,
    /// What is won is the caller's: each huge frame a block of that order, allocated through `slot`, which is freed like any other.
    /// Of a range or a block all is kept or nothing. [`Compaction::kept`] lists it.
    pub keep: bool,
    /// What one huge frame may cost, in base frames: those of which more is in use are not emptied. All of a range or a block is,
    /// at whatever price.
    pub price: usize,
}

impl Setup {
    /// So many huge frames, with the fewest moves, free for everybody, at whatever price.
    pub const fn huge(count: usize, slot: Slot) -> Setup {
        let (target, manner) = (Target::Huge(count), Manner::Matching);
        Setup { target, manner, slot, keep: false, price: usize::MAX }
    }
}

/// What a step did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It looked at something, or made ready.
    Looked,
    /// A block moved: these frames are in use now instead.
    Moved(Block, FrameId),
    /// A block was not moved.
    Refused(Block, Refusal),
    /// A huge frame is empty. Others of a range that a block reached into are, too, since that moved.
    Won(HugeId),
    /// A huge frame cannot be emptied.
    GaveUp(HugeId),
    /// Nothing is left to do.
    Done(Stop),
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The range is isolated, up to this candidate so far.
    Isolate(usize),
    Pick,
    Empty(Source),
    /// The range, which is empty, is claimed, up to `claimed` so far.
    Claim,
    /// The range is given back, up to this candidate so far.
    Release(Stop, usize),
    Done(Stop),
}

/// A compaction under way. Who drops it before it is done leaves its huge frames isolated, and those of a range that it has claimed
/// allocated: [`cancel`](Self::cancel) gives them back.
#[derive(Debug)]
pub struct Compaction<'m> {
    memory: &'m mut [Candidate],
    /// How many candidates there are.
    len: usize,
    /// Where the target begins; all candidates come before it, if it is no range.
    targets: usize,
    /// All or nothing: the target is this range, which is empty otherwise.
    whole: bool,
    range: Range<HugeId>,
    /// Huge frames that are still to be won.
    goal: usize,
    slot: Slot,
    keep: bool,
    price: usize,
    state: State,
    /// Candidates from here on have given.
    give: usize,
    /// Those of the range are claimed up to here.
    claimed: usize,
    /// The first candidate that may have room for a block, by order.
    receive: [usize; ORDERS],
    /// Free frames of those that may receive.
    room: usize,
    /// How often the range was claimed in vain.
    claims: u32,
    report: Report,
}

impl<'m> Compaction<'m> {
    /// Plans a compaction among the huge frames of `regions`, which do not overlap. Nothing is isolated or moved yet.
    ///
    /// `memory` is for the candidates: one for each huge frame of the regions, and of the target, if that is a range, suffices. O(n
    /// log n) in their number.
    ///
    /// # Errors
    /// Why there is nothing to begin. That a number of huge frames cannot be won is no error, but shows in the report.
    pub fn plan<A: FrameAllocator, R: Relocate>(
        setup: Setup,
        mut memory: &'m mut [Candidate],
        allocator: &A,
        relocate: &mut R,
        regions: impl Iterator<Item = Range<HugeId>> + Clone,
    ) -> Result<Compaction<'m>, PlanError> {
        relocate.prepare();
        Self::plan_in(setup, &mut memory, allocator, relocate, regions)
    }

    /// The same for an owner who is prepared. The memory is taken at the end, so that it is still there after an error, or a panic of
    /// the owner's.
    pub(crate) fn plan_in<A: FrameAllocator, R: Relocate>(
        setup: Setup,
        memory: &mut &'m mut [Candidate],
        allocator: &A,
        relocate: &mut R,
        regions: impl Iterator<Item = Range<HugeId>> + Clone,
    ) -> Result<Compaction<'m>, PlanError> {
        let Setup { target, manner, slot, keep, price } = setup;
        let all = allocator.zone().huge_range::<A::Geometry>();
        let (goal, range) = match target {
            Target::Huge(count) => (count, None),
            Target::Range(range) => (usize::MAX, Some(range)),
            Target::Block(order) => {
                (usize::MAX, Some(cheapest(order, allocator, relocate, regions.clone())?))
            }
        };
        if let Some(range) = &range
            && (range.is_empty() || range.start < all.start || range.end > all.end)
        {
            return Err(PlanError::NoTarget);
        }
        let whole = range.is_some();
        let range = range.unwrap_or(all.start..all.start);
        let outside = regions.flat_map(|region| region.start.0..region.end.0).map(HugeId);
        let outside = outside.filter(|huge| !range.contains(huge));
        let mut report = Report::default();
        let (mut len, mut room, mut needed) = (0, 0, 0);
        let mut add = |candidate| {
            memory.get_mut(needed).into_iter().for_each(|place| *place = candidate);
            needed += 1;
        };
        for huge in outside {
            let free = allocator.free_in_huge(huge);
            let is_free = free == A::Geometry::HUGE_FRAMES;
            if free == 0 || is_free && !whole {
                continue;
            }
            let pinned = relocate.has_pinned(huge);
            report.pinned += usize::from(pinned);
            let role = if pinned { Role::Pinned } else { Role::Either };
            room += free;
            len += 1;
            add(Candidate { huge, free: free as u16, role, ..Candidate::EMPTY });
        }
        let targets = len;
        for huge in (range.start.0..range.end.0).map(HugeId) {
            let free = allocator.free_in_huge(huge) as u16;
            len += 1;
            add(Candidate { huge, free, role: Role::Target, ..Candidate::EMPTY });
        }
        if len > memory.len() {
            return Err(PlanError::Memory(len));
        }
        let candidates = memory.get_mut(..len).unwrap_or_default();
        report.possible =
            if whole { range.end.0 - range.start.0 } else { possible::<A::Geometry>(candidates) };
        arrange(candidates, manner);
        let state = if whole { State::Isolate(targets) } else { State::Pick };
        let receive = [0; ORDERS];
        Ok(Compaction {
            memory: core::mem::take(memory),
            len,
            targets,
            whole,
            range,
            goal,
            slot,
            keep,
            price,
            state,
            give: len,
            claimed: targets,
            receive,
            room,
            claims: 0,
            report,
        })
    }

    /// What it has done so far.
    pub fn report<G: Geometry>(&self) -> Report {
        let winners = || self.candidates().iter().filter(|one| one.won);
        let won = winners().count();
        // What is emptied of a range was no choice.
        let fewest = match self.whole {
            true => winners().map(Candidate::held::<G>).sum(),
            false => fewest::<G>(self.candidates(), won),
        };
        Report { won, fewest, ..self.report }
    }

    /// The huge frames that are the caller's: what was won so far, if that was to be kept.
    pub fn kept(&self) -> impl Iterator<Item = HugeId> + '_ {
        let is_whole = !self.whole || matches!(self.state, State::Done(_));
        self.candidates().iter().filter(move |one| one.kept && is_whole).map(|one| one.huge)
    }

    /// The memory of the candidates, for the next one. What was kept is the caller's.
    pub fn into_memory(self) -> &'m mut [Candidate] {
        self.memory
    }

    /// Ends it between two steps: gives back the huge frames that it has not won. Linear in those of the target.
    pub fn cancel<A: FrameAllocator>(&mut self, allocator: &A) {
        if let State::Empty(source) = self.state {
            self.release(source.place, allocator);
        }
        let stop = match self.state {
            State::Done(_) => return,
            State::Release(stop, _) => stop,
            _ => Stop::Cancelled,
        };
        if self.whole {
            (self.targets..self.len).for_each(|place| self.release(place, allocator));
        }
        self.end(stop);
    }

    /// Goes on until it is done, or has moved about `moves` base frames: at the most one block more. True when it is done.
    pub fn run<A: FrameAllocator, R: Relocate>(
        &mut self,
        moves: usize,
        allocator: &A,
        relocate: &mut R,
    ) -> bool {
        let before = self.report.moves;
        while self.report.moves - before < moves {
            if let Step::Done(_) = self.step(allocator, relocate) {
                return true;
            }
        }
        false
    }

    /// Does the next thing: see the head of this file. If a call of the owner panics, the compaction is cancelled.
    pub fn step<A: FrameAllocator, R: Relocate>(
        &mut self,
        allocator: &A,
        relocate: &mut R,
    ) -> Step {
        let unwinding = Unwinding { work: self, allocator };
        let step = unwinding.work.advance(allocator, relocate);
        core::mem::forget(unwinding);
        step
    }

    fn advance<A: FrameAllocator, R: Relocate>(&mut self, allocator: &A, relocate: &mut R) -> Step {
        match self.state {
            State::Isolate(next) => self.isolate(next, allocator),
            State::Pick => self.pick(allocator),
            State::Empty(source) => self.empty(source, allocator, relocate),
            State::Claim => self.claim(allocator),
            State::Release(stop, next) => self.release_range(stop, next, allocator),
            State::Done(stop) => Step::Done(stop),
        }
    }

    fn candidates(&self) -> &[Candidate] {
        self.memory.get(..self.len).unwrap_or_default()
    }

    fn end(&mut self, stop: Stop) -> Step {
        (self.state, self.report.stop) = (State::Done(stop), Some(stop));
        Step::Done(stop)
    }

    /// No more is to be won, for this reason.
    fn stop(&mut self, stop: Stop) -> Step {
        if !self.whole {
            return self.end(stop);
        }
        let claims = self.keep && stop == Stop::Won;
        self.state = if claims { State::Claim } else { State::Release(stop, self.targets) };
        Step::Looked
    }

    /// Claims some more of the range. An allocation that began before the isolation may have got a frame since the range was found
    /// empty: then what is not claimed yet is gone through again.
    fn claim<A: FrameAllocator>(&mut self, allocator: &A) -> Step {
        let end = self.len.min(self.claimed + PICKS);
        while self.claimed < end {
            if !self.take(self.claimed, allocator) {
                self.claims += 1;
                self.give = self.len;
                self.state = State::Pick;
                return if self.claims > ROUNDS { self.stop(Stop::Blocked) } else { Step::Looked };
            }
            self.claimed += 1;
        }
        if end == self.len { self.end(Stop::Won) } else { Step::Looked }
    }

    /// Claims a huge frame that looks empty, if it is to be kept. False where some frame of it is not free yet.
    fn keeps<A: FrameAllocator>(&mut self, place: usize, allocator: &A) -> bool {
        self.whole || !self.keep || self.take(place, allocator)
    }

    /// Claims a huge frame that is isolated. False where some frame of it is not free yet.
    fn take<A: FrameAllocator>(&mut self, place: usize, allocator: &A) -> bool {
        let claim = Claim::Block(self.slot);
        let Some(one) = self.memory.get_mut(place) else { return false };
        let claimed = allocator.claim_isolated(one.huge, 1, claim).is_ok();
        (one.isolated, one.kept) = (one.isolated && !claimed, claimed);
        claimed
    }

    /// Isolates some more of the range: all of it or nothing.
    fn isolate<A: FrameAllocator>(&mut self, next: usize, allocator: &A) -> Step {
        let end = self.len.min(next + PICKS);
        for one in self.memory.get_mut(next..end).unwrap_or_default() {
            if allocator.isolate(one.huge, 1).is_err() {
                self.report.taken += 1;
                return self.stop(Stop::Taken);
            }
            one.isolated = true;
        }
        self.state = if end < self.len { State::Isolate(end) } else { State::Pick };
        Step::Looked
    }

    /// Gives some more of the range back.
    fn release_range<A: FrameAllocator>(&mut self, stop: Stop, next: usize, allocator: &A) -> Step {
        let end = self.len.min(next + PICKS);
        (next..end).for_each(|place| self.release(place, allocator));
        if end == self.len {
            return self.end(stop);
        }
        self.state = State::Release(stop, end);
        Step::Looked
    }

    /// Gives a candidate back to everybody, by invariants 2 and 3 this compaction's to give.
    fn release<A: FrameAllocator>(&mut self, place: usize, allocator: &A) {
        let Some(one) = self.memory.get_mut(place) else { return };
        if one.isolated {
            // What came late to a range may be found by nobody before.
            one.won = one.won && allocator.frames_in_use(one.huge) == 0;
            let _ = allocator.unisolate(one.huge, 1);
        }
        if one.kept {
            let huge = Order::huge::<A::Geometry>();
            let _ = allocator.free(one.huge.first::<A::Geometry>(), huge, self.slot);
        }
        (one.isolated, one.kept) = (false, false);
    }

    /// The next huge frame to empty.
    fn pick<A: FrameAllocator>(&mut self, allocator: &A) -> Step {
        for _ in 0..PICKS {
            let end = if self.whole { self.claimed } else { 0 };
            if self.goal == 0 || self.whole && self.give == end {
                return self.stop(Stop::Won);
            }
            if self.give == end {
                return self.stop(Stop::NoSource);
            }
            let place = self.give - 1;
            let Some(&one) = self.memory.get(place) else { return self.stop(Stop::NoSource) };
            let receives = if self.whole { 0 } else { usize::from(one.free) };
            let room = self.room.saturating_sub(receives);
            let used = allocator.frames_in_use(one.huge);
            // What compaction itself has filled lies below.
            let has_received = self.receive.iter().any(|&finger| finger >= place);
            let filled = !self.whole && !has_received && used > one.used::<A::Geometry>();
            let dear = !self.whole && one.role == Role::Either && used > self.price;
            self.report.dear += usize::from(dear);
            if one.role == Role::Pinned || used == 0 || filled || dear {
                if used == 0 && !one.won {
                    // Its owners have emptied it: it is no longer one that could be.
                    self.begins::<A::Geometry>(place, 0);
                }
                (self.give, self.room) = (place, room);
                continue;
            }
            if used > room {
                // In either manner nobody below has room either: for that, as many frames as a huge frame has must be free elsewhere
                // and in it, which would do for this one.
                return self.stop(Stop::NoRoom);
            }
            (self.give, self.room) = (place, room);
            if !one.isolated && allocator.isolate(one.huge, 1).is_err() {
                self.report.taken += 1;
                continue;
            }
            let used = allocator.frames_in_use(one.huge);
            self.begins::<A::Geometry>(place, used);
            self.memory.get_mut(place).into_iter().for_each(|one| one.isolated = true);
            self.state = State::Empty(Source::new::<A::Geometry>(place, one.huge));
            return Step::Looked;
        }
        Step::Looked
    }

    /// A huge frame's turn comes.
    fn begins<G: Geometry>(&mut self, place: usize, used: usize) {
        self.memory.get_mut(place).into_iter().for_each(|one| one.begins::<G>(used));
    }

    /// The next frame, or row of frames, of a huge frame.
    fn empty<A: FrameAllocator, R: Relocate>(
        &mut self,
        mut source: Source,
        allocator: &A,
        relocate: &mut R,
    ) -> Step {
        loop {
            let frame = match source.row(allocator) {
                Row::Used(frame) => frame,
                Row::Free(next) => {
                    source.next = next;
                    self.state = State::Empty(source);
                    return Step::Looked;
                }
                Row::End => return self.round_ends(source, allocator),
            };
            match (self.look_up::<A::Geometry, R>(source, frame, relocate), source.phase) {
                (Lookup::Pinned, _) => return self.give_up(source, Stop::Blocked, allocator),
                (Lookup::Gone, phase) => {
                    self.report.gone += usize::from(phase == Phase::Move);
                    source.next = FrameId(frame.0 + 1);
                }
                (Lookup::Movable(block), Phase::Move) if block.order >= source.least => {
                    return self.move_block(source, block, allocator, relocate);
                }
                (Lookup::Movable(block), phase) => {
                    if phase == Phase::Survey {
                        source.least = source.least.max(block.order);
                    }
                    source.next = FrameId(block.first.0.saturating_add(block.order.frames()));
                }
            }
            // What is left of a row belongs to this step; the next row to the next one.
            if source.next.0 & !63 != frame.0 & !63 {
                self.state = State::Empty(source);
                return Step::Looked;
            }
        }
    }

    /// What the owner says of a frame, as far as it can be: nothing outside of what is isolated is ever moved.
    fn look_up<G: Geometry, R: Relocate>(
        &self,
        source: Source,
        frame: FrameId,
        relocate: &mut R,
    ) -> Lookup {
        // What is claimed of the range is isolated no more.
        let own = match self.whole && self.claimed == self.targets {
            true => self.range.clone(),
            false => source.huge..HugeId(source.huge.0 + 1),
        };
        let own = own.start.first::<G>()..own.end.first::<G>();
        match relocate.block_at(frame) {
            Lookup::Movable(block) if !block.has(frame) => Lookup::Gone,
            Lookup::Movable(block) if !block.is_in(&own) => Lookup::Pinned,
            answer => answer,
        }
    }

    /// All frames of a huge frame were looked at.
    fn round_ends<A: FrameAllocator>(&mut self, mut source: Source, allocator: &A) -> Step {
        if source.phase == Phase::Survey {
            source.again::<A::Geometry>(Phase::Move);
        } else if allocator.frames_in_use(source.huge) == 0 && self.keeps(source.place, allocator) {
            if !self.whole && !self.keep {
                self.release(source.place, allocator);
            }
            self.goal = self.goal.saturating_sub(1);
            self.memory.get_mut(source.place).into_iter().for_each(|one| one.won = true);
            self.state = State::Pick;
            return Step::Won(source.huge);
        } else if source.rounds < ROUNDS {
            source.rounds += 1;
            source.least = Order::BASE;
            source.again::<A::Geometry>(Phase::Move);
        } else {
            return self.give_up(source, Stop::Blocked, allocator);
        }
        self.state = State::Empty(source);
        Step::Looked
    }

    /// A huge frame cannot be emptied: the end, where it is part of a range, or where nobody has room for a single frame.
    fn give_up<A: FrameAllocator>(&mut self, source: Source, why: Stop, allocator: &A) -> Step {
        self.report.blocked += usize::from(why == Stop::Blocked);
        let nowhere = self.receive.first().is_some_and(|&finger| finger >= source.place);
        if self.whole {
            let _ = self.stop(why);
            return Step::GaveUp(source.huge);
        }
        self.release(source.place, allocator);
        self.state = State::Pick;
        if why == Stop::NoRoom && nowhere {
            let _ = self.stop(why);
        }
        Step::GaveUp(source.huge)
    }

    /// Moves a block, or finds out that it stays.
    fn move_block<A: FrameAllocator, R: Relocate>(
        &mut self,
        mut source: Source,
        block: Block,
        allocator: &A,
        relocate: &mut R,
    ) -> Step {
        source.next = block.first.max(source.huge.first::<A::Geometry>());
        self.state = State::Empty(source);
        let to = match self.allocate(source.place, block, allocator) {
            Ok(Some(to)) => to,
            // The next step asks further.
            Ok(None) => return Step::Looked,
            Err(stop) => return self.give_up(source, stop, allocator),
        };
        let (outcome, freed) = match relocate.relocate(block, to) {
            Ok(()) => (None, block.first),
            Err(refusal) => (Some(refusal), to),
        };
        // By rule 2 of the crate's head that block is compaction's, so that the free succeeds.
        let _ = allocator.free(freed, block.order, self.slot);
        let frames = block.order.frames();
        source.next = FrameId(block.first.0.saturating_add(frames));
        match outcome {
            None => {
                self.report.moves += frames;
                self.report.blocks += 1;
                self.room = self.room.saturating_sub(frames);
                self.empties::<A::Geometry>(source.huge, block);
            }
            Some(Refusal::Gone) => self.report.gone += 1,
            Some(Refusal::Failed) => {
                self.report.failed += 1;
                source.failures += 1;
            }
            Some(Refusal::Pinned) => {}
        }
        self.state = State::Empty(source);
        if outcome == Some(Refusal::Pinned) || source.failures > FAILURES {
            let _ = self.give_up(source, Stop::Blocked, allocator);
        }
        outcome.map_or(Step::Moved(block, to), |refusal| Step::Refused(block, refusal))
    }

    /// A block of several huge frames has left a range: the others are empty now, too. Linear in the range, which costs less than such a move.
    fn empties<G: Geometry>(&mut self, source: HugeId, block: Block) {
        if block.order <= Order::huge::<G>() {
            return;
        }
        let last = FrameId(block.first.0.saturating_add(block.order.frames() - 1));
        let left = block.first.huge::<G>()..=last.huge::<G>();
        let targets = self.memory.get_mut(self.targets..self.len).unwrap_or_default();
        for one in targets.iter_mut().filter(|one| one.huge != source && left.contains(&one.huge)) {
            one.begins::<G>(G::HUGE_FRAMES);
            one.won = true;
        }
    }

    /// A block that receives. `None`: those that were asked have no room.
    fn allocate<A: FrameAllocator>(
        &mut self,
        source: usize,
        block: Block,
        allocator: &A,
    ) -> Result<Option<FrameId>, Stop> {
        let request = Request::new(block.order, block.class, self.slot);
        let Some(finger) = self.receive.get_mut(usize::from(block.order.0)) else {
            return allocator.alloc(request).map(Some).map_err(|_| Stop::NoRoom);
        };
        if block.order >= Order::huge::<A::Geometry>() {
            // Not from the target: all of that is isolated.
            return allocator.alloc(request).map(Some).map_err(|_| Stop::NoRoom);
        }
        for _ in 0..RECEIVERS {
            let place = *finger;
            if place >= source.min(self.targets) {
                return Err(Stop::NoRoom);
            }
            let Some(one) = self.memory.get(place) else { return Err(Stop::NoRoom) };
            // What became free meanwhile is not broken up again.
            let is_free = allocator.free_in_huge(one.huge) == A::Geometry::HUGE_FRAMES;
            if self.whole || !is_free {
                let first = one.huge.first::<A::Geometry>();
                let frames = first..FrameId(first.0.saturating_add(A::Geometry::HUGE_FRAMES));
                match allocator.alloc(request.within(frames)) {
                    Ok(to) => return Ok(Some(to)),
                    Err(AllocError::OutOfMemory) => {}
                    Err(_) => return Err(Stop::Blocked),
                }
            }
            *finger += 1;
        }
        Ok(None)
    }
}

/// A step under way: dropped only where the owner's call panics, so that nothing stays isolated.
struct Unwinding<'a, 'm, A: FrameAllocator> {
    work: &'a mut Compaction<'m>,
    allocator: &'a A,
}

impl<A: FrameAllocator> Drop for Unwinding<'_, '_, A> {
    fn drop(&mut self) {
        // A panic ends a schedule of shuttle, and whoever calls the allocator then panics again.
        if !cfg!(woodlot_shuttle) {
            self.work.cancel(self.allocator);
        }
    }
}

/// The aligned place for a block that the fewest frames are in use of.
pub(crate) fn cheapest<A: FrameAllocator, R: Relocate>(
    order: Order,
    allocator: &A,
    relocate: &mut R,
    regions: impl Iterator<Item = Range<HugeId>> + Clone,
) -> Result<Range<HugeId>, PlanError> {
    let huge_order = Order::huge::<A::Geometry>();
    let count = Order(order.0.saturating_sub(huge_order.0)).frames();
    if order < huge_order || count == 0 {
        return Err(PlanError::NoTarget);
    }
    let free = |huges: Range<usize>| huges.map(|huge| allocator.free_in_huge(HugeId(huge))).sum();
    let all: usize = regions.clone().map(|region| free(region.start.0..region.end.0)).sum();
    let frames = count.saturating_mul(A::Geometry::HUGE_FRAMES);
    let there = allocator.zone().huge_range::<A::Geometry>();
    let mut best = None;
    for region in regions {
        let region = region.start.max(there.start)..region.end.min(there.end);
        // A power of two.
        let mut start = region.start.0.saturating_add(count - 1) & !(count - 1);
        while let Some(end) = start.checked_add(count).filter(|&end| end <= region.end.0) {
            let own: usize = free(start..end);
            let used = frames.saturating_sub(own);
            let cheaper = best.as_ref().is_none_or(|&(cost, _)| used < cost);
            let has_room = used <= all.saturating_sub(own);
            if cheaper && has_room && !(start..end).any(|huge| relocate.has_pinned(HugeId(huge))) {
                best = Some((used, HugeId(start)..HugeId(end)));
            }
            start = end;
        }
    }
    best.map(|(_, range)| range).ok_or(PlanError::NoPlace)
}
