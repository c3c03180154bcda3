//! Who owns what, and what every call said: the judge of a history while it runs.
//!
//! ```text
//!   owners   [ 0 0 3 3 3 3 0 0 X X … ]      one byte for each frame: nobody, thread 2, offline
//!   written  [ 0 0 1 1 1 1 0 1 1 1 … ]      has somebody had it since it was last filled with zeros?
//!   calls    ├── alloc ──┤  ├─ free ─┤      begin and end in the order in which they happened
//!                ├─── alloc ───┤
//! ```
//!
//! A frame changes its owner to nobody before the call that frees it, and to the thread after the
//! call that allocated it: so whoever is given a frame must find nobody there.

use std::ops::Range;

use woodlot_frame::{FrameId, Geometry, HugeId, Order, ZoneConfig};
use woodlot_suite::State;

/// A block by its first frame and its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block(pub FrameId, pub Order);

impl Block {
    /// Its frames, by number.
    pub fn range(self) -> Range<usize> {
        self.0.0..self.0.0 + self.1.frames()
    }

    /// The block of the same order that it makes one of the next order with.
    pub fn buddy(self) -> Block {
        Block(FrameId(self.0.0 ^ self.1.frames()), self.1)
    }
}

/// What a call said that it could not have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Any block of an order.
    Memory(Order),
    /// These frames.
    Frames(Range<usize>),
    /// Any run of so many frames that begins at a multiple of an order's block size, in a window of the zone.
    Run {
        /// How many frames.
        frames: usize,
        /// The order.
        align: Order,
        /// The window.
        window: Range<usize>,
    },
}

/// What a call may take for a while and let go of again, besides the blocks that it is answered with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passing {
    /// Nothing: the call only looks.
    Looks,
    /// Blocks of an order, and how many.
    Blocks(Order, usize),
    /// A run of so many neighbouring frames, at most.
    Run(usize),
}

impl Passing {
    /// The call changes something, and takes nothing.
    pub const NOTHING: Passing = Passing::Blocks(Order::BASE, 0);
}

/// A call of the history.
#[derive(Clone, Debug)]
pub struct Call {
    /// When it began: calls and answers are counted together.
    pub begin: usize,
    /// When it was answered.
    pub end: usize,
    /// What it may have taken for a while.
    pub passing: Passing,
    /// What was allocated by it.
    pub gained: Vec<Block>,
    /// What was freed by it.
    pub released: Vec<Block>,
    /// What it could not have.
    pub refused: Option<Refusal>,
}

/// The number of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallId(usize);

/// What is wrong with a history, in words.
pub type Judged<T = ()> = Result<T, String>;

const NOBODY: u8 = 0;
const OFFLINE: u8 = u8::MAX;

/// The books of one history.
#[derive(Debug, Default)]
pub struct Ledger {
    first: usize,
    owners: Vec<u8>,
    blocks: Vec<Vec<Block>>,
    offline: Vec<Vec<HugeId>>,
    /// For each frame: has somebody had it since it was last filled with zeros?
    written: Vec<bool>,
    calling: Vec<bool>,
    moment: usize,
    /// Every call so far.
    pub calls: Vec<Call>,
    /// How many threads have come to their end.
    pub ended: usize,
}

impl Ledger {
    /// For a zone of which nobody owns anything, and so many threads.
    pub fn new(config: &ZoneConfig, threads: usize) -> Self {
        Self {
            first: config.start.0,
            owners: vec![NOBODY; config.frames],
            blocks: vec![Vec::new(); threads],
            offline: vec![Vec::new(); threads],
            written: vec![true; config.frames],
            calling: vec![false; threads],
            ..Self::default()
        }
    }

    fn change(&mut self, frames: Range<usize>, from: u8, to: u8) -> Judged {
        for frame in frames {
            let entry = frame.checked_sub(self.first).and_then(|at| self.owners.get_mut(at));
            let Some(owner) = entry else {
                return Err(format!("{} is no frame of the zone", FrameId(frame)));
            };
            if *owner != from {
                let (is, due) = (Self::name(*owner), Self::name(from));
                let frame = FrameId(frame);
                let to = Self::name(to);
                return Err(format!("frame {frame} is {is}, not {due}, as it becomes {to}"));
            }
            *owner = to;
            if to != NOBODY {
                self.written[frame - self.first] = true;
            }
        }
        Ok(())
    }

    fn name(owner: u8) -> String {
        match owner {
            NOBODY => "nobody's".into(),
            OFFLINE => "offline".into(),
            thread => format!("thread {}'s", thread - 1),
        }
    }

    // ---- Calls ----

    /// A call begins.
    pub fn begin(&mut self, me: usize, passing: Passing) -> CallId {
        let (gained, released) = (Vec::new(), Vec::new());
        let begin = self.moment;
        let end = usize::MAX;
        self.calls.push(Call { begin, end, passing, gained, released, refused: None });
        self.calling[me] = true;
        self.moment += 1;
        CallId(self.calls.len() - 1)
    }

    /// A call begins that frees blocks of the thread.
    ///
    /// # Errors
    /// If they are not the thread's.
    pub fn begin_free(&mut self, me: usize, blocks: &[Block]) -> Judged<CallId> {
        let id = self.begin(me, Passing::NOTHING);
        for block in blocks {
            self.change(block.range(), me as u8 + 1, NOBODY)?;
        }
        self.calls[id.0].released = blocks.to_vec();
        Ok(id)
    }

    fn end(&mut self, me: usize, id: CallId) -> &mut Call {
        let moment = self.moment;
        self.moment += 1;
        self.calling[me] = false;
        let call = &mut self.calls[id.0];
        call.end = moment;
        call
    }

    /// A call ends that needs no judgement.
    pub fn done(&mut self, me: usize, id: CallId) {
        self.end(me, id);
    }

    /// A call ends that could not have what it wanted.
    pub fn refused(&mut self, me: usize, id: CallId, refusal: Refusal) {
        self.end(me, id).refused = Some(refusal);
    }

    /// A call ends that allocated blocks, and perhaps fewer than it wanted.
    ///
    /// # Errors
    /// If somebody owns a frame of them.
    pub fn allocated(
        &mut self,
        me: usize,
        id: CallId,
        blocks: &[Block],
        refusal: Option<Refusal>,
    ) -> Judged {
        for &block in blocks {
            if !block.0.is_aligned(block.1) {
                return Err(format!("handed out {}, which is not aligned to {}", block.0, block.1));
            }
            self.change(block.range(), NOBODY, me as u8 + 1)?;
        }
        self.blocks[me].extend(blocks);
        let call = self.end(me, id);
        call.gained = blocks.to_vec();
        if let Passing::Blocks(_, count) = &mut call.passing {
            *count = 1;
        }
        call.refused = refusal;
        Ok(())
    }

    /// A call ends that took huge frames out, and perhaps fewer than it wanted.
    ///
    /// # Errors
    /// If somebody owns a frame of them.
    pub fn taken_out<G: Geometry>(
        &mut self,
        me: usize,
        id: CallId,
        taken: &[HugeId],
        refused: Option<Refusal>,
    ) -> Judged {
        for &huge in taken {
            let block = Block(huge.first::<G>(), Order::huge::<G>());
            self.change(block.range(), NOBODY, OFFLINE)?;
            self.offline[me].push(huge);
            self.calls[id.0].gained.push(block);
        }
        self.end(me, id).refused = refused;
        Ok(())
    }

    /// A call begins that puts back huge frames.
    ///
    /// # Errors
    /// If one is not offline.
    pub fn begin_online<G: Geometry>(&mut self, me: usize, all: &[HugeId]) -> Judged<CallId> {
        let id = self.begin(me, Passing::NOTHING);
        for huge in all {
            let block = Block(huge.first::<G>(), Order::huge::<G>());
            self.change(block.range(), OFFLINE, NOBODY)?;
            self.calls[id.0].released.push(block);
        }
        Ok(id)
    }

    /// Who has a block has filled it with zeros.
    pub fn wiped(&mut self, block: Block) {
        block.range().for_each(|frame| self.written[frame - self.first] = false);
    }

    /// May a frame of a block of the zone be other than zero?
    pub fn is_written(&self, block: Block) -> bool {
        block.range().any(|frame| self.written[frame - self.first])
    }

    /// Has anybody a frame of a block of the zone?
    pub fn is_owned(&self, block: Block) -> bool {
        block.range().any(|frame| self.owners[frame - self.first] != NOBODY)
    }

    // ---- What threads own ----

    /// One of the thread's blocks, chosen by a number.
    pub fn block(&self, me: usize, pick: usize) -> Option<Block> {
        let blocks = &self.blocks[me];
        blocks.get(pick.checked_rem(blocks.len())?).copied()
    }

    /// Takes a block from the thread's list, to be freed.
    pub fn take_block(&mut self, me: usize, pick: usize) -> Option<Block> {
        let at = pick.checked_rem(self.blocks[me].len())?;
        Some(self.blocks[me].swap_remove(at))
    }

    /// Takes this very block from the thread's list.
    pub fn take_this(&mut self, me: usize, block: Block) -> bool {
        let at = self.blocks[me].iter().position(|&other| other == block);
        at.map(|at| self.blocks[me].swap_remove(at)).is_some()
    }

    /// Puts a block in the thread's list that it owns already.
    pub fn keep(&mut self, me: usize, block: Block) {
        self.blocks[me].push(block);
    }

    /// Takes blocks of the order of one of them from the thread's list.
    pub fn take_alike(&mut self, me: usize, pick: usize, most: usize) -> Vec<Block> {
        let Some(like) = self.block(me, pick) else { return Vec::new() };
        let mut taken = Vec::new();
        self.blocks[me].retain(|&block| {
            let take = block.1 == like.1 && taken.len() < most;
            taken.extend(take.then_some(block));
            !take
        });
        taken
    }

    /// Takes blocks from the thread's list that follow one another without a gap: the lowest that reach to
    /// one of them.
    pub fn take_neighbours(&mut self, me: usize, pick: usize, most: usize) -> Vec<Block> {
        let Some(Block(mut next, _)) = self.block(me, pick) else { return Vec::new() };
        while let Some(before) = self.blocks[me].iter().find(|b| b.range().end == next.0) {
            next = before.0;
        }
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some(at) = self.blocks[me].iter().position(|block| block.0 == next)
        {
            let block = self.blocks[me].swap_remove(at);
            next = FrameId(block.range().end);
            taken.push(block);
        }
        taken
    }

    /// Makes one of another thread's blocks this thread's, to be freed.
    ///
    /// # Errors
    /// If it is not the other thread's.
    pub fn hand_over(&mut self, me: usize, pick: usize) -> Judged<Option<Block>> {
        let giver = pick % self.blocks.len();
        let taken = self.take_block(giver, pick / self.blocks.len());
        if let Some(block) = taken {
            self.change(block.range(), giver as u8 + 1, me as u8 + 1)?;
        }
        Ok(taken)
    }

    /// Gives a thread frames that were allocated when the zone was made.
    ///
    /// # Errors
    /// If somebody owns a frame of them.
    pub fn endow(&mut self, me: usize, block: Block) -> Judged {
        let id = self.begin(me, Passing::NOTHING);
        self.allocated(me, id, &[block], None)
    }

    /// One of the huge frames that the thread has taken out.
    pub fn out(&self, me: usize, pick: usize) -> Option<HugeId> {
        let out = &self.offline[me];
        out.get(pick.checked_rem(out.len())?).copied()
    }

    /// Takes a huge frame that the thread has taken out from its list.
    pub fn take_out(&mut self, me: usize, pick: usize) -> Option<HugeId> {
        let at = pick.checked_rem(self.offline[me].len())?;
        Some(self.offline[me].swap_remove(at))
    }

    /// How many frames nobody owns.
    pub fn free_frames(&self) -> usize {
        self.owners.iter().filter(|&&owner| owner == NOBODY).count()
    }

    /// What a frame of the zone is.
    pub fn state(&self, frame: FrameId) -> State {
        match self.owners[frame.0 - self.first] {
            NOBODY => State::Free,
            OFFLINE => State::Offline,
            _ => State::Allocated,
        }
    }

    /// Is the thread inside a call?
    pub fn is_calling(&self, me: usize) -> bool {
        self.calling.get(me).is_some_and(|&calling| calling)
    }
}
