//! The blocks of a pool that move, found by handle and by frame.
//!
//! ```text
//!   handle ──► places[handle]      where the block lies, and who is at it
//!   frame  ──► owners[frame]       the handle of the block that begins there, plus 1; 0 where none does
//!   huge   ──► counts[huge]        frames of such blocks
//! ```
//!
//! 1. What owners says is a hint until the place says the same: the place alone decides. So a handle that is used again for
//!    another block is not taken for the old one.
//!
//! 2. A count is that of blocks that are not just beginning, ending or moving. What is in use besides does not move.
//!
//! The tables are memory only where they are written: 12 bytes for each frame at most, and 4 for each huge frame.

use std::io;
use std::sync::{Mutex, PoisonError};

use woodlot_frame::atomics::{AtomicU32, Ordering};
use woodlot_frame::{Base4K, FrameId, Geometry, HugeId, Order};

use crate::place::{Lies, Place, Stays};
use crate::zeroed::{Zero, Zeroed};

/// The handle of the block that begins at a frame, plus 1.
struct Owner(AtomicU32);

/// Frames of a huge frame.
struct Count(AtomicU32);

// SAFETY: zero is a place: a word that is not live.
unsafe impl Zero for Place {}
// SAFETY: zero is an owner: none.
unsafe impl Zero for Owner {}
// SAFETY: zero is a count.
unsafe impl Zero for Count {}

/// The tables.
pub(crate) struct Movables {
    places: Zeroed<Place>,
    owners: Zeroed<Owner>,
    counts: Zeroed<Count>,
    handles: Mutex<Handles>,
}

/// Handles without a block: those that were given back, and those from `next` on.
#[derive(Default)]
struct Handles {
    free: Vec<u32>,
    next: u32,
}

impl Movables {
    /// Bytes of the tables for so many frames.
    pub(crate) const fn bytes(frames: usize) -> usize {
        let counts = frames.div_ceil(Base4K::HUGE_FRAMES) * size_of::<Count>();
        frames * (size_of::<Place>() + size_of::<Owner>()) + counts
    }

    /// For so many frames, in fewer than 2^32 - 1 of which blocks begin.
    pub(crate) fn new(frames: usize) -> io::Result<Movables> {
        Ok(Movables {
            places: Zeroed::new(frames)?,
            owners: Zeroed::new(frames)?,
            counts: Zeroed::new(frames.div_ceil(Base4K::HUGE_FRAMES))?,
            handles: Mutex::default(),
        })
    }

    /// A handle for a block, which is the caller's.
    pub(crate) fn begin(&self, lies: Lies) -> u32 {
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = handles.free.pop().unwrap_or(handles.next);
        handles.next = handles.next.max(handle + 1);
        drop(handles);
        self.own(lies.first, handle + 1);
        self.place(handle).begin(lies);
        self.count(lies, true);
        handle
    }

    /// Ends a handle, which nobody else has, and says where its block lies: it is the caller's.
    pub(crate) fn end(&self, handle: u32) -> Lies {
        let lies = self.place(handle).end().expect("a handle ends once");
        self.own(lies.first, 0);
        self.count(lies, false);
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).free.push(handle);
        lies
    }

    #[inline]
    pub(crate) fn place(&self, handle: u32) -> &Place {
        &self.places[handle as usize]
    }

    /// The block that a frame belongs to, at this moment.
    pub(crate) fn block_of(&self, frame: FrameId) -> Option<Lies> {
        let has = |lies: &Lies| frame.0 >> lies.order.0 == lies.first.0 >> lies.order.0;
        Order::all::<Base4K>().find_map(|order| {
            let first = frame.0 >> order.0 << order.0;
            let handle = self.owners.get(first)?.0.load(Ordering::Relaxed).checked_sub(1)?;
            self.place(handle).lies().filter(|lies| lies.first.0 == first && has(lies))
        })
    }

    /// Moves the block that lies somewhere to another place, by its frames alone.
    pub(crate) fn relocate(
        &self,
        from: Lies,
        to: FrameId,
        copy: impl FnOnce(),
    ) -> Result<(), Stays> {
        let owner =
            self.owners.get(from.first.0).map_or(0, |Owner(handle)| handle.load(Ordering::Relaxed));
        let handle = owner.checked_sub(1).ok_or(Stays::NotMovable)?;
        // Whoever finds the block at its new place finds its owner there.
        self.own(to, owner);
        let moved = self.place(handle).relocate(from, to, copy);
        self.own(if moved.is_ok() { from.first } else { to }, 0);
        if moved.is_ok() {
            self.count(Lies { first: to, ..from }, true);
            self.count(from, false);
        }
        moved
    }

    /// How many frames of a huge frame are those of blocks that move.
    pub(crate) fn frames_in(&self, huge: HugeId) -> usize {
        self.counts.get(huge.0).map_or(0, |Count(frames)| frames.load(Ordering::Relaxed) as usize)
    }

    /// A block lies there from now on, or no more.
    fn count(&self, lies: Lies, lives: bool) {
        let Lies { first, order } = lies;
        let frames = order.frames().min(Base4K::HUGE_FRAMES) as u32;
        let last = FrameId(first.0 + order.frames() - 1);
        for huge in first.huge::<Base4K>().0..=last.huge::<Base4K>().0 {
            let Count(count) = &self.counts[huge];
            match lives {
                true => count.fetch_add(frames, Ordering::Relaxed),
                false => count.fetch_sub(frames, Ordering::Relaxed),
            };
        }
    }

    fn own(&self, frame: FrameId, owner: u32) {
        self.owners[frame.0].0.store(owner, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_of_a_block_finds_it() {
        let movables = Movables::new(64).expect("addresses");
        let lies = Lies { first: FrameId(24), order: Order(3) };
        let (other, single) = (Lies { first: FrameId(32), order: Order(4) }, FrameId(20));
        let handle = movables.begin(lies);
        movables.begin(other);
        movables.begin(Lies { first: single, order: Order::BASE });
        let found = |frame| movables.block_of(FrameId(frame));
        for (frames, block) in [
            (16..20, None),
            (21..24, None),
            (24..32, Some(lies)),
            (32..48, Some(other)),
            (48..70, None),
        ] {
            frames.for_each(|frame| assert_eq!(found(frame), block, "{frame}"));
        }
        assert_eq!(found(20).map(|block| block.order), Some(Order::BASE));
        movables.relocate(lies, FrameId(48), || ()).expect("nobody is at it");
        assert_eq!((found(25), found(55).map(|block| block.first)), (None, Some(FrameId(48))));
        movables.end(handle);
        assert_eq!(found(50), None);
    }

    #[test]
    fn each_huge_frame_counts_what_moves() {
        const HUGE: usize = Base4K::HUGE_FRAMES;
        let movables = Movables::new(8 * HUGE - 1).expect("addresses");
        let counts = || (0..9).map(|huge| movables.frames_in(HugeId(huge))).collect::<Vec<_>>();
        let (small, large) = (
            Lies { first: FrameId(HUGE - 8), order: Order(3) },
            Lies { first: FrameId(2 * HUGE), order: Order(10) },
        );
        let handles = [small, large].map(|lies| movables.begin(lies));
        assert_eq!(counts(), [8, 0, HUGE, HUGE, 0, 0, 0, 0, 0]);
        movables.relocate(small, FrameId(8 * HUGE - 8), || ()).expect("nobody is at it");
        movables.relocate(large, FrameId(4 * HUGE), || ()).expect("nobody is at it");
        movables.relocate(large, FrameId(0), || ()).expect_err("it is not there any more");
        assert_eq!(counts(), [0, 0, 0, 0, HUGE, HUGE, 0, 8, 0]);
        handles.into_iter().for_each(|handle| _ = movables.end(handle));
        assert_eq!(counts(), [0; 9]);
    }
}
