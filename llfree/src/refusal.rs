//! Why a call is refused, without what it named: a register holds it, so the calls of the usual paths
//! return in registers. The contract's errors are made of it and of the caller's own arguments, where
//! the call came in.

use woodlot_frame::{AllocError, FrameId, FreeError, Order, Request, Slot};

/// Why no block was allocated; as wide as the number of a frame, in whose place it is returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(crate) enum NoBlock {
    OutOfMemory,
    OrderTooLarge,
    BadSlot,
    BadClass,
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
