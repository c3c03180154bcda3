//! Isolation: huge frames that nobody allocates from until they are empty, and what is still in use there.
//!
//! ```text
//!   any use ── isolate ──▶ isolated ── its frames are freed, or moved ──▶ isolated, empty
//!                             │                                              │
//!                             └── unisolate ──▶ free for all                 └── claim ──▶ a block, or offline
//! ```

use crate::Slot;

/// What an isolated huge frame that is empty is taken as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// As a block of the order of a huge frame, which the caller has allocated through this slot. It is freed like
    /// any other, also in parts.
    Block(Slot),
    /// Offline: [`online`](crate::FrameAllocator::online) brings it back.
    Offline,
}
