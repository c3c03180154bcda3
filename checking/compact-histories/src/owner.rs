//! Who owns frames: blocks with content, in a memory of words, which everybody uses at once.
//!
//! ```text
//!   block   version │ phase │ pinned │ order │ first frame       one word; of a free and a move exactly one changes it
//!   of      for each frame, the block that it belongs to
//!   words   for each frame, what was written to it
//! ```

use fastrand::Rng;
use woodlot_compact::{Block, Lookup, Refusal, Relocate};
use woodlot_frame::atomics::{AtomicU32, AtomicU64, Ordering::SeqCst};
use woodlot_frame::{Class, FrameId, Order};

use crate::defect::Defect;

/// What is being done with a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Nothing,
    Live,
    Moving,
    Ending,
}

/// The word of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Word {
    version: u32,
    phase: Phase,
    pinned: bool,
    order: u8,
    first: u16,
}

impl Word {
    fn pack(self) -> u64 {
        u64::from(self.version) << 32
            | (self.phase as u64) << 28
            | u64::from(self.pinned) << 24
            | u64::from(self.order) << 16
            | u64::from(self.first)
    }

    fn unpack(word: u64) -> Word {
        let phase = [Phase::Nothing, Phase::Live, Phase::Moving, Phase::Ending];
        Word {
            version: (word >> 32) as u32,
            phase: phase[(word >> 28 & 3) as usize],
            pinned: word >> 24 & 1 != 0,
            order: (word >> 16) as u8,
            first: word as u16,
        }
    }

    fn frames(self) -> std::ops::Range<usize> {
        self.first.into()..usize::from(self.first) + (1 << self.order)
    }
}

/// All blocks.
pub struct Owner {
    blocks: Vec<AtomicU64>,
    of: Vec<AtomicU32>,
    words: Vec<AtomicU64>,
    defect: Defect,
}

/// The frame is one that a compaction has won and keeps.
const KEPT: u32 = u32::MAX;

fn content(id: usize, offset: usize) -> u64 {
    (id as u64 + 1) << 32 | offset as u64
}

impl Owner {
    pub fn new(blocks: usize, frames: usize, defect: Defect) -> Owner {
        let word = |_| AtomicU64::new(0);
        Owner {
            blocks: (0..blocks).map(word).collect(),
            of: (0..frames).map(|_| AtomicU32::new(0)).collect(),
            words: (0..frames).map(word).collect(),
            defect,
        }
    }

    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    fn load(&self, id: usize) -> Word {
        Word::unpack(self.blocks[id].load(SeqCst))
    }

    /// Changes the word of a block if it is still this one.
    fn swap(&self, id: usize, from: Word, to: Word) -> bool {
        let to = Word { version: from.version.wrapping_add(1), ..to };
        self.blocks[id].compare_exchange(from.pack(), to.pack(), SeqCst, SeqCst).is_ok()
    }

    fn own(&self, id: usize, frames: std::ops::Range<usize>) {
        self.mark(id as u32 + 1, frames);
    }

    fn mark(&self, of: u32, frames: std::ops::Range<usize>) {
        for frame in frames {
            let other = self.of[frame].swap(of, SeqCst);
            assert_eq!(other, 0, "frame {frame} was handed out twice");
        }
    }

    /// A compaction has won these frames, and keeps them until they are [disowned](Self::disown).
    pub fn keep(&self, frames: std::ops::Range<usize>) {
        self.mark(KEPT, frames);
    }

    pub fn disown(&self, frames: std::ops::Range<usize>) {
        frames.for_each(|frame| self.of[frame].store(0, SeqCst));
    }

    /// The block with this number is one of the caller's that is not there: it is from now on.
    pub fn begin(&self, id: usize, first: FrameId, order: Order) {
        let word = self.load(id);
        let new = Word {
            phase: Phase::Live,
            order: order.0,
            first: first.0 as u16,
            pinned: false,
            ..word
        };
        self.own(id, new.frames());
        for (offset, frame) in new.frames().enumerate() {
            self.words[frame].store(content(id, offset), SeqCst);
        }
        assert!(self.swap(id, word, new), "block {id} was begun twice");
    }

    pub fn is_there(&self, id: usize) -> bool {
        self.load(id).phase != Phase::Nothing
    }

    /// Begins to free a block of the caller's: it is the caller's to free then. `None` while it is moved.
    pub fn end(&self, id: usize) -> Option<Block> {
        let word = self.load(id);
        if word.phase != Phase::Live || !self.swap(id, word, Word { phase: Phase::Ending, ..word })
        {
            return None;
        }
        for (offset, frame) in word.frames().enumerate() {
            assert_eq!(
                self.words[frame].load(SeqCst),
                content(id, offset),
                "block {id} has other content"
            );
        }
        self.disown(word.frames());
        Some(Block {
            first: FrameId(word.first.into()),
            order: Order(word.order),
            class: Class::MOVABLE,
        })
    }

    /// It is free.
    pub fn ended(&self, id: usize) {
        let word = self.load(id);
        assert!(
            self.swap(id, word, Word { phase: Phase::Nothing, ..word }),
            "block {id} changes as it ends"
        );
    }

    /// Pins a block, or releases it.
    pub fn pin(&self, id: usize) {
        let word = self.load(id);
        if word.phase == Phase::Live {
            // If it is moved meanwhile it is not pinned.
            self.swap(id, word, Word { pinned: !word.pinned, ..word });
        }
    }

    /// Reads a block of anybody's: it is whole, if it is the same before and after.
    pub fn read(&self, id: usize) {
        let before = self.load(id);
        if !matches!(before.phase, Phase::Live | Phase::Moving) {
            return;
        }
        let frames = before.frames();
        let words: Vec<u64> = frames.map(|frame| self.words[frame].load(SeqCst)).collect();
        if self.load(id) == before {
            let whole = (0..words.len()).all(|offset| words[offset] == content(id, offset));
            assert!(whole, "a reader of block {id} finds other content");
        }
    }

    fn is(&self, defect: Defect) -> bool {
        self.defect == defect
    }
}

/// What a compaction sees of it.
pub struct Side<'a> {
    pub owner: &'a Owner,
    pub random: Rng,
    /// So many moves of a hundred fail half-way.
    pub fails: u32,
}

impl Relocate for Side<'_> {
    fn block_at(&mut self, frame: FrameId) -> Lookup {
        // A frame of nobody's is being freed, or its owner has not noted it yet.
        let id = self.owner.of[frame.0].load(SeqCst);
        if id == KEPT {
            return Lookup::Pinned;
        }
        let Some(id) = id.checked_sub(1) else { return Lookup::Gone };
        let word = self.owner.load(id as usize);
        match word.phase {
            _ if !word.frames().contains(&frame.0) => Lookup::Gone,
            Phase::Live if word.pinned => Lookup::Pinned,
            Phase::Live => Lookup::Movable(Block {
                first: FrameId(word.first.into()),
                order: Order(word.order),
                class: Class::MOVABLE,
            }),
            Phase::Moving => Lookup::Pinned,
            Phase::Nothing | Phase::Ending => Lookup::Gone,
        }
    }

    fn relocate(&mut self, block: Block, to: FrameId) -> Result<(), Refusal> {
        let owner = self.owner;
        let from = block.first.0..block.first.0 + block.order.frames();
        let id = owner.of[from.start].load(SeqCst).checked_sub(1).ok_or(Refusal::Gone)? as usize;
        let word = owner.load(id);
        let is_freed = word.phase == Phase::Ending && owner.is(Defect::MovesWhatIsFreed);
        if word.frames() != from || word.phase != Phase::Live && !is_freed {
            return Err(Refusal::Gone);
        }
        if word.pinned && !owner.is(Defect::MovesWhatIsPinned) {
            return Err(Refusal::Pinned);
        }
        assert!(!word.pinned, "block {id} is pinned");
        let moved = Word { first: to.0 as u16, ..word };
        let moving = Word { phase: Phase::Moving, ..word };
        if !owner.swap(id, word, moving) {
            return Err(Refusal::Gone);
        }
        let moving = Word { version: word.version.wrapping_add(1), ..moving };
        let copy = |count: usize| {
            for offset in 0..count {
                let content = owner.words[from.start + offset].load(SeqCst);
                owner.words[to.0 + offset].store(content, SeqCst);
            }
        };
        if self.random.u32(..100) < self.fails {
            copy(from.len() / 2);
            assert!(owner.swap(id, moving, word), "block {id} changes as it moves");
            return Err(Refusal::Failed);
        }
        if owner.is(Defect::KeepsTheOld) {
            assert!(owner.swap(id, moving, word), "block {id} changes as it moves");
            return Ok(());
        }
        if !owner.is(Defect::MapsBeforeItCopies) {
            copy(from.len());
        }
        owner.own(id, moved.frames());
        owner.disown(from.clone());
        assert!(owner.swap(id, moving, moved), "block {id} changes as it moves");
        if owner.is(Defect::MapsBeforeItCopies) {
            copy(from.len());
        }
        Ok(())
    }
}
