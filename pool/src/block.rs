//! Memory that its owner gives back by dropping it.

use std::fmt;
use std::mem;
use std::ops::{Deref, DerefMut, Range};
use std::slice;

use woodlot_frame::{FrameId, Order};

use crate::frames::Frames;
use crate::mapping::FRAME;

/// A block of 2^order frames, 4 KiB each, aligned to its size in memory.
///
/// It is a slice of bytes, whose contents are what they were: bytes of an earlier owner, or zero. Any thread may drop
/// the block, which frees it. A block that is forgotten loses its frames to the pool, and nothing else.
pub struct Block<'p> {
    frames: &'p Frames,
    /// The number of its first frame, and its order in the lowest four bits: a handle of two words is passed in
    /// registers, which saves half of the time that it takes to allocate and free a block.
    number: usize,
}

/// The bits of an order.
const ORDER_BITS: u32 = 4;

impl<'p> Block<'p> {
    /// `first` and `order` are a block of `frames` that has no other owner.
    #[inline]
    pub(crate) fn new(frames: &'p Frames, first: FrameId, order: Order) -> Block<'p> {
        Block { frames, number: first.0 << ORDER_BITS | usize::from(order.0) }
    }

    pub(crate) fn is_of(&self, frames: &Frames, order: Order) -> bool {
        std::ptr::eq(self.frames, frames) && self.order() == order
    }

    /// The number of its first frame: the pool's first byte is in frame 0.
    #[inline]
    pub fn frame(&self) -> FrameId {
        FrameId(self.number >> ORDER_BITS)
    }

    /// Its order.
    #[inline]
    pub fn order(&self) -> Order {
        Order((self.number % (1 << ORDER_BITS)) as u8)
    }

    /// Gives up the handle and keeps the memory: [`Pool::adopt`](crate::Pool::adopt) makes the handle again.
    #[must_use = "the frames are lost to the pool if nobody knows their number"]
    pub fn into_frame(self) -> FrameId {
        let first = self.frame();
        mem::forget(self);
        first
    }

    /// Keeps the memory for as long as the pool lives.
    pub fn leak(self) -> &'p mut [u8] {
        let (start, len) = (self.frames.address(self.frame()), self.len());
        mem::forget(self);
        // SAFETY: the block was the caller's alone, and nobody frees it any more.
        unsafe { slice::from_raw_parts_mut(start, len) }
    }
}

impl Deref for Block<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let len = self.order().frames() * FRAME;
        // SAFETY: the frames lie in the mapping, and are this handle's alone. All bytes are values, which the system
        // or an owner has written.
        unsafe { slice::from_raw_parts(self.frames.address(self.frame()), len) }
    }
}

impl DerefMut for Block<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let len = self.order().frames() * FRAME;
        // SAFETY: as for `deref`, and `&mut self` shows that nobody else reads.
        unsafe { slice::from_raw_parts_mut(self.frames.address(self.frame()), len) }
    }
}

impl Drop for Block<'_> {
    #[inline]
    fn drop(&mut self) {
        self.frames.free(self.frame(), self.order());
    }
}

impl fmt::Debug for Block<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({} at frame {})", self.order(), self.frame())
    }
}

/// A run of neighbouring frames, of any number. It is to a [`Block`] what a vector is to an array.
pub struct Run<'p> {
    frames: &'p Frames,
    range: Range<FrameId>,
}

impl<'p> Run<'p> {
    /// `range` is a run of `frames` that has no other owner.
    pub(crate) fn new(frames: &'p Frames, range: Range<FrameId>) -> Run<'p> {
        Run { frames, range }
    }

    /// The numbers of its frames.
    pub fn range(&self) -> Range<FrameId> {
        self.range.clone()
    }

    fn bytes(&self) -> usize {
        (self.range.end.0 - self.range.start.0) * FRAME
    }
}

impl Deref for Run<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: as for a block.
        unsafe { slice::from_raw_parts(self.frames.address(self.range.start), self.bytes()) }
    }
}

impl DerefMut for Run<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for a block.
        unsafe { slice::from_raw_parts_mut(self.frames.address(self.range.start), self.bytes()) }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.frames.free_run(self.range.clone());
    }
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Run(frames {} to {})", self.range.start, self.range.end)
    }
}
