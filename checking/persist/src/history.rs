//! Random calls of one thread, and the calls of all of them as the judge has to know them.

use std::iter;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::recorder::mark;
use fastrand::Rng;
use woodlot_frame::{
    AllocError, Batch, Class, FrameId, Geometry, HugeId, Order, RangeRequest, Reclaim, Request,
    Slot, blocks,
};

use crate::judge::Call;
use crate::subject::Subject;

/// The entries of a record that lie in its first page.
const PAGE: usize = 255;

/// What a thread says before it synchronises the zone; and then this and one more.
pub const SYNC: usize = 1 << 40;

/// A block that a thread owns.
pub type Block = (FrameId, Order);

/// What the threads of a history share.
#[derive(Default)]
pub struct Books {
    calls: Mutex<Vec<Call>>,
    /// Blocks that one thread has left for another one to free.
    left: Mutex<Vec<Block>>,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Books {
    pub fn into_calls(self) -> Vec<Call> {
        self.calls.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread of a history.
pub struct Hand<'h, A> {
    zone: &'h A,
    books: &'h Books,
    rng: Rng,
    slot: Slot,
    owned: Vec<Block>,
    offline: Vec<(HugeId, usize)>,
    /// A part of a block that was freed, and is to be taken again so that the block can be joined.
    again: Option<Block>,
    /// What synchronises the zone, if that does something.
    sync: Option<&'h (dyn Fn() + Sync)>,
}

impl<'h, A: Subject> Hand<'h, A> {
    pub fn new(zone: &'h A, books: &'h Books, number: usize, seed: u64, owned: Vec<Block>) -> Self {
        let mut rng = Rng::with_seed(seed);
        let slot = if A::INTENTS { number } else { rng.usize(..zone.zone().slots) };
        let slot = Slot(slot);
        Self { zone, books, rng, slot, owned, offline: Vec::new(), again: None, sync: None }
    }

    /// As well as its calls, the thread synchronises the zone at times.
    pub fn on_a_file(self, sync: &'h (dyn Fn() + Sync)) -> Self {
        Self { sync: Some(sync), ..self }
    }

    /// Frees so many blocks, and then makes so many calls.
    ///
    /// # Errors
    /// A free was refused.
    pub fn run(mut self, frees: usize, calls: usize) -> Result<(), String> {
        for _ in 0..frees {
            self.free_part()?;
        }
        for _ in 0..calls {
            // With intents a slot has one call at a time.
            if !A::INTENTS && self.rng.u8(..8) == 0 {
                self.slot = Slot(self.rng.usize(..self.zone.zone().slots));
            }
            if let Some(block) = self.again.take() {
                self.claim(block);
                continue;
            }
            if let Some(sync) = self.sync
                && self.rng.u8(..12) == 0
            {
                mark(SYNC);
                sync();
                mark(SYNC + 1);
            }
            match self.rng.u8(..32) {
                0..9 => self.alloc(),
                9..11 => self.alloc_batch(),
                11 => self.alloc_range(),
                12 => {
                    let at = self.any_block();
                    self.claim(at);
                }
                13..19 => self.free()?,
                19..24 => self.free_part()?,
                24 => self.free_batch()?,
                25 => self.free_range()?,
                26 => self.leave(),
                27 => self.free_left()?,
                28 => self.offline(),
                29 => self.online()?,
                30 => self.reclaim(),
                _ => self.drain(),
            }
        }
        Ok(())
    }

    /// The frames of a block, from the first of the zone.
    fn range(&self, (frame, order): Block) -> Range<usize> {
        let first = frame.0 - self.zone.zone().start.0;
        first..first + order.frames()
    }

    fn call<T>(&self, call: Call, make: impl FnOnce() -> T, then: impl FnOnce(&mut Call, &T)) -> T {
        let number = {
            let mut calls = locked(&self.books.calls);
            calls.push(call);
            calls.len() - 1
        };
        mark(2 * number);
        let answer = make();
        then(&mut locked(&self.books.calls)[number], &answer);
        mark(2 * number + 1);
        answer
    }

    fn class(&mut self) -> Class {
        let classes: Vec<Class> = self.zone.classes().all().collect();
        self.rng.choice(classes).unwrap_or(Class::MOVABLE)
    }

    fn order(&mut self) -> Order {
        Order(if self.rng.bool() {
            self.rng.u8(..3)
        } else {
            self.rng.u8(..=Self::MAX_ORDER as u8)
        })
    }

    /// The largest order.
    const MAX_ORDER: u32 = <A::Geometry as Geometry>::MAX_ORDER;

    fn any_block(&mut self) -> Block {
        let (order, zone) = (self.order(), self.zone.zone().range());
        let frame = self.rng.usize(zone.start.0..zone.end.0) & !(order.frames() - 1);
        let frame = FrameId(frame);
        let fits = self.zone.zone().contains(frame, order);
        if fits { (frame, order) } else { (FrameId(zone.start.0), Order(0)) }
    }

    fn alloc(&mut self) {
        let (order, class) = (self.order(), self.class());
        let request = Request::new(order, class, self.slot);
        self.alloc_as(request, order);
    }

    fn claim(&mut self, (frame, order): Block) {
        let request = Request::new(order, self.class(), self.slot).at(frame);
        self.alloc_as(request, order);
    }

    fn alloc_as(&mut self, request: Request, order: Order) {
        let call = Call {
            text: format!("alloc({order}, {:?}, slot {})", request.place, self.slot.0),
            one_write: A::one_write(order),
            stray: A::stray(order),
            atomic: A::INTENTS,
            ..Call::default()
        };
        let took = |call: &mut Call, answer: &Result<FrameId, AllocError>| {
            call.took.extend(answer.iter().map(|&frame| self.range((frame, order))));
        };
        if let Ok(frame) = self.call(call, || self.zone.alloc(request), took) {
            self.owned.push((frame, order));
        }
    }

    fn alloc_batch(&mut self) {
        let mut order = Order(if self.rng.u8(..4) > 0 { 0 } else { self.order().0 });
        // Of larger blocks as many as a small zone has.
        let mut counts = match order.0 {
            0 if self.rng.u8(..8) == 0 => 1..300,
            0 => 1..90,
            1..4 => 1..12,
            _ => 1..4,
        };
        if A::INTENTS && self.zone.batch_room(Order(1)) > PAGE && self.rng.u8(..4) == 0 {
            // More than a page of a record names.
            (order, counts) = (Order(1), PAGE + 1..PAGE + 60);
        }
        let count = self.rng.usize(counts);
        let batch = if self.rng.bool() { Batch::All } else { Batch::UpTo };
        let request = Request::new(order, self.class(), self.slot);
        let mut out = vec![FrameId(0); count];
        let call = Call {
            text: format!("alloc_batch({order}, {batch:?} {count}, slot {})", self.slot.0),
            stray: count * order.frames() + A::beside(order),
            atomic: A::INTENTS,
            ..Call::default()
        };
        let make = || {
            let taken = self.zone.alloc_batch(request, batch, &mut out).unwrap_or(0);
            out.truncate(taken);
            out
        };
        let taken = self.call(call, make, |call, taken| {
            call.took.extend(taken.iter().map(|&frame| self.range((frame, order))));
        });
        self.owned.extend(taken.into_iter().map(|frame| (frame, order)));
    }

    fn alloc_range(&mut self) {
        let frames = self.rng.usize(1..3 * <A::Geometry as Geometry>::HUGE_FRAMES);
        let request = RangeRequest::new(frames, self.class(), self.slot);
        let call = Call {
            text: format!("alloc_range({frames}, slot {})", self.slot.0),
            stray: frames + A::beside(Order::BASE),
            atomic: A::INTENTS,
            ..Call::default()
        };
        let start = self.zone.zone().start.0;
        let run = self.call(
            call,
            || self.zone.alloc_range(request),
            |call, answer| {
                let frames = answer.iter().map(|run| run.start.0 - start..run.end.0 - start);
                call.took.extend(frames);
            },
        );
        self.owned.extend(run.into_iter().flat_map(blocks::<A::Geometry>));
    }

    fn pick(&mut self) -> Option<Block> {
        let pick = self.rng.usize(..self.owned.len().max(1));
        (pick < self.owned.len()).then(|| self.owned.swap_remove(pick))
    }

    /// The largest block that the thread owns and that this one is a part of.
    fn merged(&mut self, (mut frame, mut order): Block) -> Block {
        while u32::from(order.0) < Self::MAX_ORDER {
            let buddy = (FrameId(frame.0 ^ order.frames()), order);
            let Some(at) = self.owned.iter().position(|&other| other == buddy) else {
                break;
            };
            self.owned.swap_remove(at);
            (frame, order) = (FrameId(frame.0 & buddy.0.0), Order(order.0 + 1));
        }
        (frame, order)
    }

    fn free(&mut self) -> Result<(), String> {
        let Some(mut block) = self.pick() else { return Ok(()) };
        if self.rng.bool() {
            block = self.merged(block);
        }
        self.free_block(block)
    }

    fn free_block(&mut self, (frame, order): Block) -> Result<(), String> {
        let slot = self.slot;
        let call = Call {
            text: format!("free({frame}, {order}, slot {})", slot.0),
            gave: vec![self.range((frame, order))],
            one_write: A::one_write(order),
            atomic: A::INTENTS,
            ..Call::default()
        };
        let text = call.text.clone();
        let freed = self.call(call, || self.zone.free(frame, order, slot), |_, _| {});
        freed.map_err(|why| format!("{text}: {why}"))
    }

    fn free_part(&mut self) -> Result<(), String> {
        let Some(block) = self.pick() else { return Ok(()) };
        let (frame, order) = self.merged(block);
        let part = Order(self.rng.u8(..=order.0.min(8)));
        let at =
            FrameId(frame.0 + self.rng.usize(..order.frames() / part.frames()) * part.frames());
        // What is left, in the largest blocks.
        let (mut rest, mut left) = (frame, order);
        while left > part {
            left = Order(left.0 - 1);
            let upper = FrameId(rest.0 + left.frames());
            let other = if at.0 < upper.0 { upper } else { std::mem::replace(&mut rest, upper) };
            self.owned.push((other, left));
        }
        self.again = (left < order && self.rng.u8(..3) == 0).then_some((at, part));
        self.free_block((at, part))
    }

    fn free_batch(&mut self) -> Result<(), String> {
        let order = self.owned.last().map_or(Order(0), |&(_, order)| order);
        // A longer one is refused: the tests of `llfree` see to that.
        let room = self.zone.batch_room(order);
        let long = A::INTENTS && room > PAGE && self.rng.bool();
        let most = if long { room } else { self.rng.usize(1..80).min(room) };
        let mut frames = Vec::new();
        self.owned.retain(|&(frame, its)| {
            let goes = its == order && frames.len() < most;
            if goes {
                frames.push(frame);
            }
            !goes
        });
        let slot = self.slot;
        let call = Call {
            text: format!("free_batch({} of {order}, slot {})", frames.len(), slot.0),
            gave: frames.iter().map(|&frame| self.range((frame, order))).collect(),
            atomic: A::INTENTS,
            ..Call::default()
        };
        let make = || self.zone.free_batch(&frames, order, slot);
        self.call(call, make, |_, _| {}).map_err(|why| format!("free_batch: {why}"))
    }

    /// Frees the longest run of a block that the thread owns and of what it owns behind it.
    fn free_range(&mut self) -> Result<(), String> {
        let Some((start, order)) = self.pick() else { return Ok(()) };
        let mut end = FrameId(start.0 + order.frames());
        while let Some(next) = self.owned.iter().position(|&(frame, _)| frame == end) {
            end = FrameId(end.0 + self.owned.swap_remove(next).1.frames());
        }
        let first = self.zone.zone().start.0;
        let call = Call {
            text: format!("free_range({start}..{end}, slot {})", self.slot.0),
            gave: iter::once(start.0 - first..end.0 - first).collect(),
            atomic: A::INTENTS,
            ..Call::default()
        };
        let make = || self.zone.free_range(start..end, self.slot);
        self.call(call, make, |_, _| {}).map_err(|why| format!("free_range: {why}"))
    }

    fn leave(&mut self) {
        if let Some(block) = self.pick() {
            // A huge frame in halves: two threads may free its parts at once.
            let (frame, order) = block;
            if order.0 > 0 && self.rng.bool() {
                let half = Order(order.0 - 1);
                self.owned.push((FrameId(frame.0 + half.frames()), half));
                locked(&self.books.left).push((frame, half));
            } else {
                locked(&self.books.left).push(block);
            }
        }
    }

    fn free_left(&mut self) -> Result<(), String> {
        let block = locked(&self.books.left).pop();
        block.map_or(Ok(()), |block| self.free_block(block))
    }

    fn offline(&mut self) {
        let huge = self.zone.zone().huge_range::<A::Geometry>();
        if huge.is_empty() {
            return;
        }
        let (first, count) = (self.rng.usize(huge.start.0..huge.end.0), self.rng.usize(1..3));
        let run = self.huge_frames(HugeId(first), count);
        let call = Call {
            text: format!("offline({first}, {count})"),
            tried: run.clone(),
            ..Call::default()
        };
        let make = || self.zone.offline(HugeId(first), count);
        let done = self.call(call, make, |call, answer| {
            if answer.is_ok() {
                call.outside = std::mem::take(&mut call.tried);
            }
        });
        if done.is_ok() {
            self.offline.push((HugeId(first), count));
        }
    }

    fn reclaim(&mut self) {
        let mode = if self.rng.bool() { Reclaim::Hard } else { Reclaim::Soft };
        let most = self.rng.usize(1..6);
        let huge = self.zone.zone().huge_range::<A::Geometry>();
        let all = self.huge_frames(huge.start, huge.end.0.saturating_sub(huge.start.0));
        let call = Call {
            text: format!("reclaim({mode:?}, {most})"),
            tried: if A::tries(mode) { all } else { Vec::new() },
            ..Call::default()
        };
        let make = || {
            let mut out = vec![HugeId(0); most];
            let count = self.zone.reclaim(mode, &mut out);
            out.truncate(count);
            out
        };
        let taken = self.call(call, make, |call, taken| {
            if mode == Reclaim::Hard {
                let frames = taken.iter().flat_map(|&huge| self.huge_frames(huge, 1));
                call.reclaimed = frames.collect();
            }
        });
        if mode == Reclaim::Hard {
            self.offline.extend(taken.into_iter().map(|huge| (huge, 1)));
        }
    }

    /// The frames of huge frames that lie in the zone.
    fn huge_frames(&self, first: HugeId, count: usize) -> Vec<Range<usize>> {
        let zone = self.zone.zone();
        let huge = (first.0..first.0 + count)
            .map(|huge| (HugeId(huge).first::<A::Geometry>(), Order::huge::<A::Geometry>()));
        huge.filter(|&(frame, order)| zone.contains(frame, order)).map(|b| self.range(b)).collect()
    }

    fn online(&mut self) -> Result<(), String> {
        let Some((first, count)) = self.offline.pop() else { return Ok(()) };
        let call = Call {
            text: format!("online({first}, {count})"),
            gave: self.huge_frames(first, count),
            ..Call::default()
        };
        let make = || self.zone.online(first, count);
        self.call(call, make, |_, _| {}).map_err(|why| format!("online: {why}"))
    }

    fn drain(&mut self) {
        let slot = Slot(self.rng.usize(..self.zone.zone().slots));
        let call = Call { text: format!("drain(slot {})", slot.0), ..Call::default() };
        // The slot exists.
        let _ = self.call(call, || self.zone.drain(slot), |_, _| {});
    }
}
