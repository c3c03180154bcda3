//! Isolation: huge frames that nobody allocates from until they are empty, and what is still in use there.
//!
//! ```text
//!   any use ── isolate ──▶ isolated ── its frames are freed, or moved ──▶ isolated, empty
//!                             │                                              │
//!                             └── unisolate ──▶ free for all                 └── claim ──▶ a block, or offline
//! ```

use crate::{FrameAllocator, FrameId, FreeError, Geometry, HugeId, Order, Slot};

/// What an isolated huge frame that is empty is taken as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// As a block of the order of a huge frame, which the caller has allocated through this slot. It is freed like
    /// any other, also in parts.
    Block(Slot),
    /// Offline: [`online`](FrameAllocator::online) brings it back.
    Offline,
}

/// How many frames of a huge frame are allocated, by the maps of their words: what
/// [`FrameAllocator::frames_in_use`] does unless an engine knows better.
pub(crate) fn count_used<A: FrameAllocator + ?Sized>(allocator: &A, huge: HugeId) -> usize {
    let first = huge.first::<A::Geometry>().0;
    let frames = A::Geometry::HUGE_FRAMES;
    // A huge frame can be less than a word.
    let mask = if frames < 64 { ((1u64 << frames) - 1) << (first & 63) } else { !0 };
    let words = (0..frames).step_by(64).map(|offset| FrameId(first.saturating_add(offset)));
    words.map(|word| (allocator.used_map(word) & mask).count_ones() as usize).sum()
}

/// Which of the 64 frames around `frame` are allocated, by what a free of them would say: what
/// [`FrameAllocator::used_map`] does unless an engine knows better.
pub(crate) fn used_map<A: FrameAllocator + ?Sized>(allocator: &A, frame: FrameId) -> u64 {
    let is_used = |&bit: &usize| {
        // A block of which an engine frees no part is in use, too.
        !matches!(
            allocator.can_free(FrameId(frame.0 & !63 | bit), Order::BASE, Slot(0)),
            Err(FreeError::NotAllocated(_) | FreeError::Offline(_) | FreeError::OutOfRange(_))
        )
    };
    (0..64).filter(is_used).fold(0, |map, bit| map | 1 << bit)
}
