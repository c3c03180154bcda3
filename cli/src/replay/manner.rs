//! What takes the place of calls that an engine cannot make.
//!
//! | an engine that cannot | is asked instead |
//! |---|---|
//! | allocate frames by their number | at the start for everything; what nobody owns then is freed |
//! | free a part of a block | to free the block when its last part is freed; what is owned at the start is claimed frame by frame |
//! | allocate more than a base frame | for as many base frames, wherever they lie |
//! | keep classes apart | the same: it takes no notice of the class |
//! | find what other slots hold | the same: the failures are counted |
//!
//! So every engine is under the same load, as nearly as it can be: no engine holds less memory than the trace
//! does. One that frees blocks as a whole holds more.

use std::sync::atomic::{AtomicU32, Ordering};

use woodlot_frame::{Construct, FrameId, Unsupported};

use super::plan::Plan;

/// How an engine frees what the trace allocated as one block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blocks {
    /// In parts, as the trace does.
    InParts,
    /// As a whole, with its last part.
    Whole,
    /// Frame by frame: it was allocated so.
    Frames,
}

/// How a trace is replayed on an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Manner {
    /// Are the frames that are owned at the start claimed by their numbers?
    pub exact: bool,
    /// How blocks are freed.
    pub blocks: Blocks,
    /// Are classes kept apart?
    pub classes: bool,
    /// Is memory found that other slots hold?
    pub finds_all: bool,
}

impl Manner {
    /// For an engine that can do everything but what it declares, and perhaps blocks.
    pub fn of<A: woodlot_frame::FrameAllocator + Construct>(base_frames: bool) -> Manner {
        let Unsupported { exact_frame, partial_free, classes, exact_exhaustion, .. } =
            A::UNSUPPORTED;
        let blocks = match (base_frames, partial_free) {
            (true, _) => Blocks::Frames,
            (false, true) => Blocks::Whole,
            (false, false) => Blocks::InParts,
        };
        Manner { exact: !exact_frame, blocks, classes: !classes, finds_all: !exact_exhaustion }
    }

    /// What is not as in the trace, in words.
    pub fn remarks(self) -> Vec<&'static str> {
        let start = "cannot allocate frames by number: at the start it allocates everything and frees what nobody owns";
        let blocks = match self.blocks {
            Blocks::InParts => None,
            Blocks::Whole => Some(
                "cannot free parts of a block: the whole block stays allocated until its last part is freed",
            ),
            Blocks::Frames => Some(
                "has base frames only: a larger block is as many of them, wherever they lie; what failed in Linux is not tried",
            ),
        };
        let classes = "takes no notice of what memory is for (movable or not)";
        let slots = "fails on a CPU that has nothing left, though others have free frames";
        let remarks = [
            (!self.exact).then_some(start),
            blocks,
            (!self.classes).then_some(classes),
            (!self.finds_all).then_some(slots),
        ];
        remarks.into_iter().flatten().collect()
    }
}

/// What is left of blocks that an engine does not free in parts. Who asks has seen that the block is
/// allocated, which orders what it reads here.
pub struct Remains {
    /// With [`Blocks::Whole`]: how many frames of each block the trace has not freed.
    left: Vec<AtomicU32>,
    /// With [`Blocks::Frames`]: where each block begins among the frames.
    starts: Vec<usize>,
    frames: Vec<AtomicU32>,
}

impl Remains {
    /// Nothing is allocated yet.
    pub fn new(plan: &Plan, blocks: Blocks) -> Remains {
        let sizes = || plan.orders.iter().map(|&order| 1usize << order);
        let mut remains = Remains { left: Vec::new(), starts: Vec::new(), frames: Vec::new() };
        match blocks {
            Blocks::InParts => {}
            Blocks::Whole => {
                remains.left = sizes().map(|size| AtomicU32::new(size as u32)).collect()
            }
            Blocks::Frames => {
                let begin = |end: &mut usize, size| Some(std::mem::replace(end, *end + size));
                remains.starts = sizes().scan(0, begin).collect();
                remains.frames = (0..sizes().sum()).map(|_| AtomicU32::new(0)).collect();
            }
        }
        remains
    }

    /// The trace frees so many frames of a block; true where they are the last ones.
    pub fn free(&self, block: u32, frames: u32) -> bool {
        // The thread that frees the block has seen what the others did to it.
        self.left[block as usize].fetch_sub(frames, Ordering::AcqRel) == frames
    }

    /// Where a frame of a block is.
    pub fn frame(&self, block: u32, offset: u32) -> usize {
        let at = self.starts[block as usize] + offset as usize;
        self.frames[at].load(Ordering::Relaxed) as usize
    }

    /// Where the frames of a block are from now on.
    pub fn set_frames(&self, block: u32, frames: &[FrameId]) {
        let own = &self.frames[self.starts[block as usize]..];
        own.iter()
            .zip(frames)
            .for_each(|(own, frame)| own.store(frame.0 as u32, Ordering::Relaxed));
    }
}
