//! Why a call is refused, without the block that the call named. One register holds such a reason, so calls
//! on the usual paths return in registers. The function that the caller called makes the contract's error
//! of the reason and of its arguments.

use crate::lower::Refusal;
use woodlot_frame::{AllocError, FrameId, FreeError, Order, Request, Slot};

/// Why no block was allocated; as wide as the number of a frame, in whose place it is returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(crate) enum NoBlock {
    OutOfMemory,
    OrderTooLarge,
    BadSlot,
    BadClass,
    BatchTooLong,
}

impl NoBlock {
    /// The error for this request.
    #[cold]
    pub(crate) fn of(self, request: &Request) -> AllocError {
        match self {
            Self::OutOfMemory => AllocError::OutOfMemory,
            Self::OrderTooLarge => AllocError::OrderTooLarge(request.order),
            Self::BadSlot => AllocError::BadSlot(request.slot),
            Self::BadClass => AllocError::BadClass(request.class),
            Self::BatchTooLong => AllocError::BatchTooLong,
        }
    }
}

/// Why nothing was freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotFreed {
    NotAllocated,
    OrderTooLarge,
    BadSlot,
    OutOfRange,
    Misaligned,
    Offline,
}

impl From<Refusal> for NotFreed {
    fn from(refusal: Refusal) -> NotFreed {
        match refusal {
            Refusal::Offline => NotFreed::Offline,
            Refusal::NotAllocated(_) => NotFreed::NotAllocated,
        }
    }
}

impl NotFreed {
    /// The error for a free of this block on this slot.
    #[cold]
    pub(crate) fn of(self, frame: FrameId, order: Order, slot: Slot) -> FreeError {
        match self {
            Self::NotAllocated => FreeError::NotAllocated(frame),
            Self::OrderTooLarge => FreeError::OrderTooLarge(order),
            Self::BadSlot => FreeError::BadSlot(slot),
            Self::OutOfRange => FreeError::OutOfRange(frame),
            Self::Misaligned => FreeError::Misaligned(frame, order),
            Self::Offline => FreeError::Offline(frame),
        }
    }
}
