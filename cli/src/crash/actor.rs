//! Who allocates and frees: blocks of every order and class, at exact frames, in batches and runs, in parts and joined, and
//! logs each of them.

use clap::ValueEnum;
use woodlot_bench::random::Random;
use woodlot_frame::atomics::Ordering;
use woodlot_frame::{
    Base4K, Batch, Class, FrameAllocator, FrameId, FreeError, Geometry, Order, RangeRequest,
    Request, Slot, blocks,
};

use super::log::{Finding, Log, Owner, Seat, Wrong};

/// The geometry of the zone.
pub type G = Base4K;

/// With intents: the writes of the longest batch, of more than a page of a record.
pub const RECORD_ROOM: usize = 511;

/// A mistake that a process makes on purpose, to see that it is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Defect {
    /// It frees a block that it has just freed.
    FreeTwice,
    /// It uses a frame that it was not given.
    Claim,
    /// It forgets a block: the log says that nobody owns it, long before it would be freed.
    Forget,
    /// It makes calls by slots of others, where each has its own for the intents.
    ShareSlots,
    /// A new process uses the slot of one that was killed, whatever its record names.
    ReuseSlots,
    /// Who recovers does not free what the intents name.
    Unresolved,
}

impl Defect {
    /// One call in so many. What is forgotten is told from what the killed may lose only by its amount: with one-write that
    /// is two huge frames for each, so that one call in 64 is not told for certain where few calls lie between two kills.
    fn one_in(self) -> usize {
        if self == Defect::Forget { 8 } else { 64 }
    }

    /// Is it one only where slots have intents?
    pub fn is_of_intents(self) -> bool {
        matches!(self, Defect::ShareSlots | Defect::ReuseSlots | Defect::Unresolved)
    }
}

/// A block: its first frame, and its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Block {
    first: usize,
    order: u8,
}

impl Block {
    fn frames(self) -> std::ops::Range<usize> {
        self.first..self.first + (1 << self.order)
    }
}

/// A process at its seat.
pub struct Actor<'a, A> {
    pub zone: &'a A,
    pub log: Log<'a>,
    pub seat: Seat<'a>,
    pub me: u32,
    /// The slot that it uses most: the only one, with intents.
    pub slot: usize,
    /// Does the slot's record name its last operation? Then the log need know no more of an allocation.
    pub intents: bool,
    /// How many frames it owns at most, about.
    pub quota: usize,
    pub defect: Option<Defect>,
    pub random: Random,
    held: Vec<Block>,
    owned: usize,
    /// What it freed last.
    freed: Option<Block>,
}

type Done = Result<(), Finding>;

impl<'a, A: FrameAllocator<Geometry = G>> Actor<'a, A> {
    pub fn new(
        zone: &'a A,
        log: Log<'a>,
        seat: Seat<'a>,
        (me, slot): (u32, usize),
        quota: usize,
        random: Random,
    ) -> Self {
        let (held, owned, freed) = (Vec::new(), 0, None);
        let (intents, defect) = (false, None);
        Actor { zone, log, seat, me, slot, intents, quota, defect, random, held, owned, freed }
    }

    /// Makes a call.
    ///
    /// # Errors
    /// What is wrong with the zone.
    pub fn step(&mut self) -> Done {
        if let Some(defect) = self.defect
            && self.random.below(defect.one_in()) == 0
        {
            self.err(defect);
        }
        let fill = self.owned < self.quota && self.random.below(5) < 3;
        match self.held.is_empty() || fill {
            true => self.allocate(),
            false => self.free(),
        }
    }

    fn slot(&mut self) -> Slot {
        let own = self.intents && self.defect != Some(Defect::ShareSlots);
        let other = !own && self.random.below(4) == 0;
        Slot(if other { self.random.below(self.zone.zone().slots) } else { self.slot })
    }

    /// Small blocks are the more likely ones.
    fn order(&mut self) -> u8 {
        let orders = G::MAX_ORDER as usize + 1;
        self.random.below(orders).min(self.random.below(orders)) as u8
    }

    fn request(&mut self, order: u8) -> Request {
        let class = self.random.below(self.zone.classes().count()) as u8;
        Request::new(Order(order), Class(class), self.slot())
    }

    fn allocate(&mut self) -> Done {
        let order = self.order();
        let request = self.request(order);
        match self.random.below(10) {
            0 => {
                let zone = self.zone.zone();
                let frame = zone.start.0 + self.random.below(zone.frames);
                let request = request.at(FrameId(frame & !((1 << order) - 1)));
                self.allocate_one(request)
            }
            1 => self.allocate_batch(request),
            2 => self.allocate_run(request),
            _ => self.allocate_one(request),
        }
    }

    fn allocate_one(&mut self, request: Request) -> Done {
        self.seat.begin(request.order.frames());
        if let Ok(frame) = self.zone.alloc(request) {
            self.take(Block { first: frame.0, order: request.order.0 })?;
        }
        self.seat.end();
        Ok(())
    }

    fn allocate_batch(&mut self, request: Request) -> Done {
        let longest = self.longest(request.order.0);
        let count = 1 + self.random.below(longest);
        let mut frames = vec![FrameId(0); count];
        let batch = if self.random.below(2) == 0 { Batch::All } else { Batch::UpTo };
        self.seat.begin(count * request.order.frames());
        if let Ok(count) = self.zone.alloc_batch(request, batch, &mut frames[..count]) {
            for frame in &frames[..count] {
                self.take(Block { first: frame.0, order: request.order.0 })?;
            }
        }
        self.seat.end();
        Ok(())
    }

    /// How many blocks of an order a batch has at most: with intents now and then more than a page of a record names.
    fn longest(&mut self, order: u8) -> usize {
        let rows = 1usize << order.clamp(6, 8) >> 6;
        match order {
            0..=2 if self.intents && self.random.below(4) == 0 => RECORD_ROOM * 4 / 5,
            7 | 8 if self.intents && self.random.below(4) == 0 => RECORD_ROOM * 4 / 5 / rows,
            0..=3 => 32,
            _ => 4,
        }
    }

    fn allocate_run(&mut self, Request { class, slot, .. }: Request) -> Done {
        let count = 1 + self.random.below(3 * G::HUGE_FRAMES);
        self.seat.begin(count);
        if let Ok(run) = self.zone.alloc_range(RangeRequest::new(count, class, slot)) {
            for (first, order) in blocks::<G>(run) {
                self.take(Block { first: first.0, order: order.0 })?;
            }
        }
        self.seat.end();
        Ok(())
    }

    /// Logs that a block is owned.
    fn take(&mut self, block: Block) -> Done {
        for frame in block.frames() {
            let word = self.log.word(frame).swap(Owner::Owned(self.me).word(), Ordering::AcqRel);
            if !matches!(Owner::of(word), Owner::Nobody | Owner::Freeing(_)) {
                return Err(Finding { wrong: Wrong::Overlap, frame, word, by: self.me });
            }
        }
        self.owned += block.frames().len();
        self.held.push(block);
        Ok(())
    }

    fn free(&mut self) -> Done {
        let block = self.held.swap_remove(self.random.below(self.held.len()));
        match self.random.below(8) {
            0..2 => self.free_part(block),
            2 => self.free_batch(block),
            3 => self.free_joined(block),
            4 => self.free_run(block),
            _ => self.give(&[block]),
        }
    }

    /// Frees a part of a block.
    fn free_part(&mut self, block: Block) -> Done {
        let order = self.random.below(usize::from(block.order) + 1) as u8;
        let parts = block.frames().step_by(1 << order);
        let chosen = self.random.below(parts.len());
        let parts = parts.map(|first| Block { first, order });
        for (_, part) in parts.clone().enumerate().filter(|&(at, _)| at != chosen) {
            self.held.push(part);
        }
        parts.skip(chosen).take(1).try_for_each(|part| self.give(&[part]))
    }

    /// Frees it with others of its order.
    fn free_batch(&mut self, block: Block) -> Done {
        let mut blocks = vec![block];
        let (mut at, most) = (0, self.longest(block.order).max(16));
        while at < self.held.len() && blocks.len() < most {
            match self.held[at].order == block.order {
                true => blocks.push(self.held.swap_remove(at)),
                false => at += 1,
            }
        }
        self.give(&blocks)
    }

    /// Frees it with those that lie behind it, as one run.
    fn free_run(&mut self, block: Block) -> Done {
        let (first, mut end) = (block.first, block.frames().end);
        while let Some(next) = self.held.iter().position(|next| next.first == end) {
            end = self.held.swap_remove(next).frames().end;
        }
        let run = FrameId(first)..FrameId(end);
        self.give_by(first..end, |zone, slot| zone.free_range(run, slot))
    }

    /// Frees it together with its neighbours, as the largest block that is owned, however it was allocated.
    fn free_joined(&mut self, block: Block) -> Done {
        let around = |order: u8| Block { first: block.first & !((1 << order) - 1), order };
        let zone = self.zone.zone();
        let mine = |block: &Block| {
            let owned = Owner::Owned(self.me).word();
            zone.contains(FrameId(block.first), Order(block.order))
                && block.frames().all(|frame| self.log.word(frame).load(Ordering::Acquire) == owned)
        };
        let larger = (block.order + 1..=G::MAX_ORDER as u8).map(around).take_while(mine).last();
        let joined = larger.unwrap_or(block);
        self.held.retain(|part| !joined.frames().contains(&part.first));
        self.give(&[joined])
    }

    /// Frees blocks of one order that are owned.
    fn give(&mut self, blocks: &[Block]) -> Done {
        let [Block { order, .. }, ..] = *blocks else { return Ok(()) };
        let frames = blocks.iter().flat_map(|block| block.frames());
        self.give_by(frames, |zone, slot| match *blocks {
            [Block { first, order }] => zone.free(FrameId(first), Order(order), slot),
            _ => {
                let firsts: Vec<FrameId> =
                    blocks.iter().map(|block| FrameId(block.first)).collect();
                let freed = zone.free_batch(&firsts, Order(order), slot);
                freed.map_err(|error| error.cause)
            }
        })?;
        self.freed = blocks.first().copied();
        Ok(())
    }

    /// Frees frames that are owned by one call.
    fn give_by(
        &mut self,
        frames: impl Iterator<Item = usize> + Clone,
        call: impl FnOnce(&A, Slot) -> Result<(), FreeError>,
    ) -> Done {
        let slot = self.slot();
        let frames = || frames.clone();
        self.seat.begin(frames().count());
        let (owned, freeing) = (Owner::Owned(self.me), Owner::Freeing(self.me));
        for frame in frames() {
            let taken = |word| Finding { wrong: Wrong::Taken, frame, word, by: self.me };
            self.log.change(frame, owned, freeing).map_err(taken)?;
        }
        let first = frames().next().unwrap_or_default();
        call(self.zone, slot).map_err(|error| self.refused(error, first))?;
        for frame in frames() {
            // Who has allocated it meanwhile has written its own.
            let _ = self.log.change(frame, freeing, Owner::Nobody);
        }
        self.owned -= frames().count();
        self.seat.end();
        Ok(())
    }

    fn refused(&self, error: FreeError, first: usize) -> Finding {
        let frame = match error {
            FreeError::NotAllocated(frame) | FreeError::OutOfRange(frame) => frame.0,
            _ => first,
        };
        let word = Owner::Freeing(self.me).word();
        Finding { wrong: Wrong::Refused, frame, word, by: self.me }
    }

    /// Frees what processes own that are dead, a maximal block after the other, as one that has inherited it.
    ///
    /// # Errors
    /// What is wrong with the zone.
    pub fn bury(&mut self, is_dead: impl Fn(u32) -> bool) -> Done {
        let mut heirs = Vec::new();
        for (frame, owner) in self.log.owners() {
            if let Owner::Owned(id) = owner
                && is_dead(id)
                && self.log.change(frame, owner, Owner::Owned(self.me)).is_ok()
            {
                heirs.push(frame);
            }
        }
        self.give_frames(&heirs)
    }

    /// Frees frames that are owned, by rising numbers, in their largest blocks.
    pub fn give_frames(&mut self, frames: &[usize]) -> Done {
        for run in frames.chunk_by(|a, b| a + 1 == *b) {
            let (mut first, end) = (run[0], run[0] + run.len());
            while first < end {
                let aligned = first.trailing_zeros().min((end - first).ilog2());
                let order = aligned.min(G::MAX_ORDER) as u8;
                self.owned += 1 << order;
                self.give(&[Block { first, order }])?;
                first += 1 << order;
            }
        }
        Ok(())
    }

    fn err(&mut self, defect: Defect) {
        match defect {
            Defect::FreeTwice => {
                if let Some(Block { first, order }) = self.freed {
                    let _ = self.zone.free(FrameId(first), Order(order), Slot(self.slot));
                }
            }
            Defect::Claim => {
                let zone = self.zone.zone();
                let frame = zone.start.0 + self.random.below(zone.frames);
                let _ = self.log.change(frame, Owner::Nobody, Owner::Owned(self.me));
            }
            Defect::Forget => {
                if let Some(block) = self.held.pop() {
                    self.owned -= block.frames().len();
                    for frame in block.frames() {
                        let _ = self.log.change(frame, Owner::Owned(self.me), Owner::Nobody);
                    }
                }
            }
            // What it does wrong is in each of its calls, or is not its own.
            Defect::ShareSlots | Defect::ReuseSlots | Defect::Unresolved => {}
        }
    }
}
