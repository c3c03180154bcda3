//! Reclaim: huge frames whose memory goes to somebody else, and comes back.
//!
//! ```text
//!   free ── hard ──▶ offline, reclaimed ── give ──▶ free
//!   free ── soft ──▶ free, reclaimed    ── alloc ──▶ in use, reclaimed ── set_backed ──▶ in use
//! ```
//!
//! After HyperAlloc's two ways to shrink a guest (Wrenger et al., EuroSys 2025).

use crate::{AllocError, FrameAllocator, FrameId, HugeId, OfflineError, Request};

/// What is known of the memory of a huge frame. That it is backed and may hold anything is the default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HugeFlags {
    /// Its memory was given away: nothing may be read or written before memory is put there again.
    pub reclaimed: bool,
    /// Every byte is zero; or will be, once memory is put there, if it is reclaimed as well.
    pub zeroed: bool,
}

impl HugeFlags {
    /// It has memory, which may hold anything.
    pub const BACKED: HugeFlags = HugeFlags { reclaimed: false, zeroed: false };
    /// Its memory was given away.
    pub const RECLAIMED: HugeFlags = HugeFlags { reclaimed: true, zeroed: false };
    /// It has memory, all of it zero.
    pub const ZEROED: HugeFlags = HugeFlags { reclaimed: false, zeroed: true };

    /// Of two huge frames: reclaimed if one is, zeroed if both are.
    #[must_use]
    pub const fn together_with(self, other: HugeFlags) -> HugeFlags {
        HugeFlags {
            reclaimed: self.reclaimed | other.reclaimed,
            zeroed: self.zeroed & other.zeroed,
        }
    }
}

/// Which free huge frames an allocation takes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prefer {
    /// Those that are not reclaimed.
    Backed,
    /// Those that are zeroed, and not reclaimed.
    Zeroed,
}

/// What becomes of a huge frame that is reclaimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reclaim {
    /// It stays free. Who allocates it sees by its flags that memory must be put there first.
    Soft,
    /// It is offline: nobody can allocate it before it is given back.
    Hard,
}

/// How many huge frames have a flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Flagged {
    /// Reclaimed, whatever they are: free, offline, or in use by somebody who has put no memory there.
    pub reclaimed: usize,
    /// Reclaimed, and free as a whole.
    pub free_reclaimed: usize,
    /// Zeroed, and free as a whole.
    pub free_zeroed: usize,
}

/// An allocator that knows of each huge frame whether it has memory, and whether that is zero.
///
/// The flags of a huge frame belong to its owner: an allocator never changes *reclaimed* by itself, and forgets that a huge frame
/// is *zeroed* before anybody else may write there: an allocation, `offline` and a claim forget it; `online` keeps the flags.
pub trait Reclaiming: FrameAllocator {
    /// What is known of the memory of a huge frame; that it is [`BACKED`](HugeFlags::BACKED) of one that does not
    /// lie wholly in the zone. Who owns a frame in it, or has it offline, is told what is so. To others it is a hint.
    ///
    /// # Progress
    /// Wait-free: a load.
    fn flags(&self, huge: HugeId) -> HugeFlags;

    /// Sets the flags of a huge frame that the caller has for itself: it has allocated the huge frame as a whole, or
    /// taken it offline. An owner that has filled it with zeros says so before it frees it, and writes there no more.
    ///
    /// # Errors
    /// * [`OfflineError::OutOfRange`]: it does not lie wholly in the zone.
    /// * [`OfflineError::InUse`]: it is neither offline nor allocated as a whole. An engine may say so as well of one that is
    ///   allocated, and that somebody has [isolated](FrameAllocator::isolate); and may not notice that it is allocated in blocks which leave
    ///   nothing of it free.
    ///
    /// # Progress
    /// Lock-free.
    ///
    /// # Crash
    /// *reclaimed* is as durable as an allocation when this returns. *zeroed* does not survive a recovery.
    fn set_flags(&self, huge: HugeId, flags: HugeFlags) -> Result<(), OfflineError>;

    /// Says of a huge frame that it is no longer reclaimed: there is memory now. The caller owns a frame in it, or
    /// has it offline. If several owners put memory there at the same time, each may say so.
    ///
    /// # Errors
    /// [`OfflineError::OutOfRange`]: it does not lie wholly in the zone.
    ///
    /// # Progress
    /// Wait-free: one read-modify-write.
    ///
    /// # Crash
    /// As durable as an allocation when this returns.
    fn set_backed(&self, huge: HugeId) -> Result<(), OfflineError>;

    /// Allocates as [`alloc`](FrameAllocator::alloc). Of huge frames it takes one that is preferred, or a pair of
    /// such, if there is one in the slot's tree or in one of a few others. Returns what is known of the memory, for a
    /// pair of both: *reclaimed* if one is, *zeroed* if both are. A block of base frames is allocated as always, and the
    /// flags are those of its huge frame.
    ///
    /// *zeroed* is told to nobody else: from now on the owner may write there. A huge frame from far away may be
    /// zeroed although it is not said to be.
    ///
    /// # Errors
    /// As [`alloc`](FrameAllocator::alloc). What is not preferred is allocated before memory is exhausted.
    ///
    /// # Progress
    /// As [`alloc`](FrameAllocator::alloc).
    ///
    /// # Crash
    /// As [`alloc`](FrameAllocator::alloc).
    fn alloc_preferring(
        &self,
        request: Request,
        prefer: Prefer,
    ) -> Result<(FrameId, HugeFlags), AllocError>;

    /// Reclaims as many free huge frames as `out` has room for, or as there are; returns how many, and writes them to
    /// the beginning of `out`. Their flags are [`RECLAIMED`](HugeFlags::RECLAIMED) then. Those of trees that are
    /// entirely free come first: no slot has begun to allocate there.
    ///
    /// [`Hard`](Reclaim::Hard) takes them offline. Those that are reclaimed already come last, and all that is free is found, whatever
    /// slots hold. [`Soft`](Reclaim::Soft) takes those that are free as a whole and not reclaimed yet. They cannot be had for a moment, so
    /// an allocation beside it may find no memory.
    ///
    /// The caller may give their memory away when this has returned. Where the reclaim was soft, somebody may have
    /// allocated one by then: that owner sees the flag, and both must agree on whose the memory is (a hypervisor locks
    /// the huge frame, and looks whether memory was put there again). One that was allocated, got memory and was freed during
    /// the call may be named twice.
    ///
    /// # Progress
    /// Lock-free; linear in the huge frames.
    ///
    /// # Crash
    /// A crash, or the end of a process, inside this call leaves huge frames offline or allocated that are in no list: what a hard
    /// reclaim has taken so far, or a few of a soft one. When this has returned, what it did is as durable as an allocation.
    fn reclaim(&self, mode: Reclaim, out: &mut [HugeId]) -> usize;

    /// Gives huge frames back that the caller has offline: they are free again, with these flags. Any order will do.
    ///
    /// # Errors
    /// * [`OfflineError::OutOfRange`]: one does not lie wholly in the zone. Nothing has changed.
    /// * [`OfflineError::NotOffline`]: one is not offline. Nothing has changed, unless one is named twice, or another call
    ///   brings it back meanwhile. Those before it are given back then, and perhaps some behind it.
    ///
    /// # Progress
    /// Lock-free.
    ///
    /// # Crash
    /// A crash inside this call leaves some given back, and the others offline, but for a few that may be allocated: nobody's.
    fn give(&self, frames: &[HugeId], flags: HugeFlags) -> Result<(), OfflineError>;

    /// How many huge frames have flags.
    ///
    /// # Progress
    /// Wait-free; linear in the huge frames.
    fn flagged(&self) -> Flagged;
}
