//! Why there is no arena, why there is no stack, and what is wrong with a free.

use core::fmt;

use woodlot_frame::{AllocError, Slot};

/// Why there is no arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArenaError {
    /// The frames of the allocator are not of 4 KiB.
    FrameSize,
    /// The first address is not a multiple of a huge frame's bytes.
    Misaligned,
    /// There are fewer words than [`Shape::words`](crate::Shape::words) says.
    TooFewWords,
}

impl fmt::Display for ArenaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ArenaError::FrameSize => "the frames are not of 4 KiB",
            ArenaError::Misaligned => "the first address is not a multiple of 2 MiB",
            ArenaError::TooFewWords => "there are too few words for so many stacks",
        })
    }
}

impl core::error::Error for ArenaError {}

/// Why there is no stack. Nothing is lost then, unless it is [`Stuck`](StackError::Stuck): a huge frame that was got for it
/// stays with the arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StackError {
    /// All stacks of the arena are in use.
    AllInUse,
    /// What the allocator says: there are not as many frames as a stack needs.
    Frames(AllocError),
    /// The address space could not map the frames.
    NotMapped,
    /// The address space could not map the frames, and some of them stay mapped. The stack is nobody's for ever: it counts as
    /// one in use. So are its frames: single ones, or a part of a huge frame, which stays with the arena.
    Stuck,
}

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StackError::AllInUse => f.write_str("all stacks are in use"),
            StackError::Frames(error) => write!(f, "no frames for a stack: {error}"),
            StackError::NotMapped => f.write_str("the frames of a stack could not be mapped"),
            StackError::Stuck => f.write_str(
                "the frames of a stack could not be mapped, and some of them stay mapped",
            ),
        }
    }
}

impl core::error::Error for StackError {}

/// What is wrong with a free. Nothing has changed then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreeError {
    /// The address is not the lowest one of a stack of the arena.
    NotAStack,
    /// The stack is not in use.
    NotInUse,
    /// The zone has no such slot.
    BadSlot(Slot),
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FreeError::NotAStack => f.write_str("no stack of the arena begins there"),
            FreeError::NotInUse => f.write_str("the stack is not in use"),
            FreeError::BadSlot(slot) => write!(f, "the zone has no slot {}", slot.0),
        }
    }
}

impl core::error::Error for FreeError {}
