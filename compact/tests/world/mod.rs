//! A program that owns frames: a fake memory of words, and for each block what its words must say.
#![allow(dead_code, reason = "each test needs a part of it")]

use std::collections::BTreeMap;

use woodlot_compact::{Block, Lookup, Refusal, Relocate};
use woodlot_frame::{
    Base4K, Class, FrameAllocator, FrameId, Geometry, HugeId, Init, Order, Owned, Request, Slot,
    ZoneConfig,
};
use woodlot_llfree::LLFree;

pub type Zone = Owned<LLFree<'static, Base4K>>;

/// Frames of a huge frame.
pub const HUGE: usize = Base4K::HUGE_FRAMES;
/// The slot of the program; compaction has the next one, and its rival the one behind.
pub const SLOT: Slot = Slot(0);
pub const COMPACT: Slot = Slot(1);
pub const RIVAL: Slot = Slot(2);

pub fn zone(huge: usize) -> Zone {
    Owned::new(&ZoneConfig::new(huge * HUGE, 3), Init::Free).expect("such zones can be")
}

/// A block of the program.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    pub block: Block,
    pub pinned: bool,
}

/// What moves are to come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mood {
    /// They succeed.
    Kind,
    /// So many of a hundred fail, half-way.
    Moody(u32),
}

/// What the program owns.
pub struct Owner {
    pub blocks: BTreeMap<u64, Held>,
    /// The block that each frame belongs to.
    of: Vec<Option<u64>>,
    /// The memory: a word for each frame.
    words: Vec<u64>,
    next: u64,
    pub mood: Mood,
    pub random: fastrand::Rng,
    /// It knows which huge frames have something pinned.
    pub tells_pinned: bool,
    /// The next frame that is to be moved is freed by its owner while it is.
    pub frees_what_moves: Option<u64>,
    /// What it says of a frame instead, out of its mind.
    pub lies: Option<fn(FrameId) -> Lookup>,
    pub lookups: usize,
    pub copies: usize,
}

fn word(id: u64, offset: usize) -> u64 {
    id << 16 | offset as u64
}

impl Owner {
    pub fn new(frames: usize, seed: u64) -> Owner {
        Owner {
            blocks: BTreeMap::new(),
            of: vec![None; frames],
            words: vec![0; frames],
            next: 1,
            mood: Mood::Kind,
            random: fastrand::Rng::with_seed(seed),
            tells_pinned: false,
            frees_what_moves: None,
            lies: None,
            lookups: 0,
            copies: 0,
        }
    }

    /// Takes what was allocated, and writes to it.
    pub fn take(&mut self, first: FrameId, order: Order, pinned: bool) -> u64 {
        let id = self.next;
        self.next += 1;
        let class = if order.0 >= 9 { Class::HUGE } else { Class::MOVABLE };
        for offset in 0..order.frames() {
            let frame = first.0 + offset;
            assert_eq!(self.of[frame], None, "frame {frame} was handed out twice");
            (self.of[frame], self.words[frame]) = (Some(id), word(id, offset));
        }
        self.blocks.insert(id, Held { block: Block { first, order, class }, pinned });
        id
    }

    pub fn alloc(&mut self, zone: &Zone, order: Order, pinned: bool) -> Option<u64> {
        let class = match (order.0, pinned) {
            (9.., _) => Class::HUGE,
            (_, true) => Class::IMMOVABLE,
            _ => Class::MOVABLE,
        };
        let first = zone.alloc(Request::new(order, class, SLOT)).ok()?;
        Some(self.take(first, order, pinned))
    }

    pub fn alloc_at(&mut self, zone: &Zone, first: usize, order: u8, pinned: bool) -> u64 {
        let request = Request::movable(Order(order), SLOT).at(FrameId(first));
        self.take(zone.alloc(request).expect("it is free"), Order(order), pinned)
    }

    /// Forgets a block, which is the caller's to free then.
    pub fn let_go(&mut self, id: u64) -> Block {
        let Held { block, .. } = self.blocks.remove(&id).expect("it is owned");
        let frames = block.first.0..block.first.0 + block.order.frames();
        frames.for_each(|frame| self.of[frame] = None);
        block
    }

    pub fn free(&mut self, zone: &Zone, id: u64) {
        let block = self.let_go(id);
        zone.free(block.first, block.order, SLOT).expect("it was owned");
    }

    pub fn any(&mut self) -> Option<u64> {
        let chosen = self.random.usize(..self.blocks.len().max(1));
        self.blocks.keys().nth(chosen).copied()
    }

    /// Every word of every block says what it must.
    pub fn check(&self) {
        for (&id, held) in &self.blocks {
            for offset in 0..held.block.order.frames() {
                let frame = held.block.first.0 + offset;
                assert_eq!(self.of[frame], Some(id), "frame {frame} is another's");
                assert_eq!(self.words[frame], word(id, offset), "frame {frame} has other content");
            }
        }
    }

    /// What the allocator says to be in use is what is owned, and nothing is isolated.
    pub fn check_all(&self, zone: &Zone) {
        self.check();
        for (frame, of) in self.of.iter().enumerate() {
            let free = zone.is_free(FrameId(frame), Order::BASE);
            assert_eq!(free, of.is_none(), "frame {frame}, {of:?}");
        }
        let huge = zone.zone().huge_range::<Base4K>();
        (huge.start.0..huge.end.0)
            .for_each(|huge| assert!(!zone.is_isolated(HugeId(huge)), "{huge} is isolated"));
        let owned: usize = self.blocks.values().map(|held| held.block.order.frames()).sum();
        let stats = zone.stats();
        assert_eq!(stats.free_frames, self.of.len() - owned);
        assert_eq!((stats.isolated_huge, stats.isolated_frames), (0, 0));
    }

    /// Frames in use in a huge frame.
    pub fn used(&self, huge: usize) -> usize {
        self.of[huge * HUGE..][..HUGE].iter().flatten().count()
    }
}

impl Relocate for Owner {
    fn block_at(&mut self, frame: FrameId) -> Lookup {
        self.lookups += 1;
        if let Some(lies) = self.lies {
            return lies(frame);
        }
        match self.of[frame.0].map(|id| self.blocks[&id]) {
            Some(Held { block, pinned: false }) => Lookup::Movable(block),
            Some(_) | None => Lookup::Pinned,
        }
    }

    fn relocate(&mut self, block: Block, to: FrameId) -> Result<(), Refusal> {
        let Some(id) = self.of[block.first.0] else { return Err(Refusal::Gone) };
        let held = self.blocks[&id];
        assert_eq!(held.block, block, "the block is another one than was looked up");
        let frames = block.order.frames();
        assert!(self.of[to.0..][..frames].iter().all(Option::is_none), "{to} is in use");
        if held.pinned {
            return Err(Refusal::Pinned);
        }
        if self.frees_what_moves == Some(id) {
            return Err(Refusal::Gone);
        }
        if let Mood::Moody(percent) = self.mood
            && self.random.u32(..100) < percent
        {
            // Half of it was copied.
            self.words[to.0..][..frames / 2].fill(u64::MAX);
            return Err(Refusal::Failed);
        }
        self.copies += frames;
        let from = block.first.0;
        self.words.copy_within(from..from + frames, to.0);
        // Who reads the old block from now on finds nothing there.
        self.words[from..from + frames].fill(0);
        self.of[from..from + frames].fill(None);
        self.of[to.0..][..frames].fill(Some(id));
        self.blocks.insert(id, Held { block: Block { first: to, ..block }, ..held });
        Ok(())
    }

    fn has_pinned(&mut self, huge: HugeId) -> bool {
        let frames = &self.of[huge.0 * HUGE..][..HUGE];
        self.tells_pinned && frames.iter().flatten().any(|id| self.blocks[id].pinned)
    }
}
