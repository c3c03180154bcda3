//! Memory that the pool may move while its owner lives.
//!
//! # Why a handle, and not the system's pages
//! The contents move under a word that each reader and writer passes, not under an address. What else there is: pages made
//! read-only while they are copied, and mapped anew (`mprotect`, `mmap`), where a writer meets a signal, each block is a
//! mapping of which a process may have 65530, and a call of the system costs more than the copy of a page; or
//! `userfaultfd`, which containers and `vm.unprivileged_userfaultfd` forbid. A handle needs no right and no signal, and
//! costs two atomic operations for each access.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr;

use woodlot_frame::{FrameId, Order};

use crate::error::PoolError;
use crate::frames::Frames;
use crate::mapping::FRAME;
use crate::movables::Movables;
use crate::place::{Lies, Place, Stays};

/// A block that [`Pool::move_block`](crate::Pool::move_block) may move.
///
/// Any thread may read and write it, as with a lock: many readers, or one writer. A reader never waits for a copy, and sees
/// the block as one writer has left it; a writer waits for a copy under way. Dropping it frees it.
pub struct Movable<'p> {
    frames: &'p Frames,
    movables: &'p Movables,
    handle: u32,
}

impl<'p> Movable<'p> {
    pub(crate) fn new(frames: &'p Frames, order: Order) -> Result<Movable<'p>, PoolError> {
        let movables = frames.movables()?;
        let lies = Lies { first: frames.alloc(order)?, order };
        Ok(Movable { frames, movables, handle: movables.begin(lies) })
    }

    #[inline]
    fn place(&self) -> &'p Place {
        self.movables.place(self.handle)
    }

    /// Where the block begins at this moment. It may be elsewhere already when this returns.
    pub fn frame(&self) -> FrameId {
        self.place().lies().expect("it lives").first
    }

    /// Its order.
    pub fn order(&self) -> Order {
        self.place().lies().expect("it lives").order
    }

    /// To read the block. It stays where it is until the guard is gone: a guard that is kept pins it.
    ///
    /// # Progress
    /// Waits for a writer, and some 50 ms at most for one that waits itself; at the end of a move for readers before it, as long
    /// as the mover looks some 200 times. A thread that reads the block already may wait so long for a writer that waits for it.
    #[inline]
    pub fn read(&self) -> Reading<'_> {
        let place = self.place();
        Reading { place, bytes: self.slice(place.read().expect("it lives")) }
    }

    /// To write the block, alone. It stays where it is until the guard is gone.
    ///
    /// # Progress
    /// Waits for all readers and writers, and for a move: as long as it takes to copy the block, and to look some 200 times.
    /// Readers that come later let it pass, except those that have waited for some 50 ms: it starves only where readers that
    /// overlap without end keep their guards for so long.
    #[inline]
    pub fn write(&self) -> Writing<'_> {
        let place = self.place();
        Writing { place, bytes: self.slice(place.write().expect("it lives")) }
    }

    /// The memory of the block where it lies.
    fn slice(&self, lies: Lies) -> *mut [u8] {
        let start = self.frames.address(lies.first);
        ptr::slice_from_raw_parts_mut(start, lies.order.frames() * FRAME)
    }
}

impl Drop for Movable<'_> {
    fn drop(&mut self) {
        let lies = self.movables.end(self.handle);
        self.frames.free(lies.first, lies.order);
    }
}

impl fmt::Debug for Movable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Movable({}, now at frame {})", self.order(), self.frame())
    }
}

/// A block that is being read.
pub struct Reading<'m> {
    place: &'m Place,
    bytes: *mut [u8],
}

// SAFETY: it is a shared reference to bytes.
unsafe impl Send for Reading<'_> {}
// SAFETY: as above.
unsafe impl Sync for Reading<'_> {}

impl Deref for Reading<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the block lies there and has no writer until this reader leaves (invariants 1 and 3 of `place`). All
        // bytes are values.
        unsafe { &*self.bytes }
    }
}

impl Drop for Reading<'_> {
    #[inline]
    fn drop(&mut self) {
        self.place.leave();
    }
}

/// A block that is being written.
pub struct Writing<'m> {
    place: &'m Place,
    bytes: *mut [u8],
}

// SAFETY: it is an exclusive reference to bytes.
unsafe impl Send for Writing<'_> {}
// SAFETY: as above.
unsafe impl Sync for Writing<'_> {}

impl Deref for Writing<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: as for a reader, and there is no other one.
        unsafe { &*self.bytes }
    }
}

impl DerefMut for Writing<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { &mut *self.bytes }
    }
}

impl Drop for Writing<'_> {
    #[inline]
    fn drop(&mut self) {
        self.place.finish();
    }
}

impl Frames {
    /// Moves the block that begins at a frame to another one, which is the caller's. Then the old one is.
    pub(crate) fn relocate(&self, from: Lies, to: FrameId) -> Result<(), Stays> {
        let movables = self.movables_if_any().ok_or(Stays::NotMovable)?;
        let bytes = from.order.frames() * FRAME;
        movables.relocate(from, to, || {
            // SAFETY: the block lies at `from`, nobody writes it meanwhile (invariant 2 of `place`), and `to` is the caller's.
            unsafe { self.address(to).copy_from_nonoverlapping(self.address(from.first), bytes) }
        })
    }
}
