//! Why a call failed. A call that fails changes nothing.

use core::fmt;

use crate::{Class, FrameId, HugeId, Order, Slot};

/// Why no block was allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AllocError {
    /// No such block or run is free.
    OutOfMemory,
    /// The order is larger than the geometry's largest.
    OrderTooLarge(Order),
    /// The zone has no such slot.
    BadSlot(Slot),
    /// The zone's policy has no such class.
    BadClass(Class),
    /// The block asked for does not lie inside the zone.
    OutOfRange(FrameId),
    /// The frame asked for is not aligned to the order.
    Misaligned(FrameId, Order),
    /// Some frame of the block or run asked for is allocated, offline or isolated: this one, where a run was asked
    /// for, otherwise one of the block that begins here.
    InUse(FrameId),
    /// A run of no frames was asked for.
    NoFrames,
    /// The range asked for begins at this frame and ends before it.
    Reversed(FrameId),
    /// Between this frame, the first of the range asked for that lies in the zone, and the end of both there
    /// is no aligned place of this size, whatever is free.
    NoPlace(FrameId),
    /// The policy names a domain with this number, and the machine knows none.
    NoSuchDomain(u8),
    /// The batch has more blocks than the record of a slot has room to name: see [`Intents`](crate::Intents).
    BatchTooLong,
    /// This engine declares that it cannot do this: see
    /// [`FrameAllocator::UNSUPPORTED`](crate::FrameAllocator::UNSUPPORTED).
    Unsupported,
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory => f.write_str("no block or run of this size is free"),
            Self::OrderTooLarge(order) => write!(f, "{order} is larger than the largest"),
            Self::BadSlot(slot) => write!(f, "the zone has no slot {}", slot.0),
            Self::BadClass(class) => write!(f, "the zone has no class {}", class.0),
            Self::OutOfRange(frame) => write!(f, "the block at frame {frame} is outside the zone"),
            Self::Misaligned(frame, order) => write!(f, "frame {frame} is not aligned to {order}"),
            Self::InUse(frame) => write!(f, "a frame of the block at {frame} is in use"),
            Self::NoFrames => f.write_str("a run of no frames"),
            Self::Reversed(frame) => write!(f, "the range from frame {frame} on ends before it"),
            Self::NoPlace(frame) => {
                write!(f, "the range from frame {frame} on has no place of this size and alignment")
            }
            Self::NoSuchDomain(domain) => write!(f, "the machine has no domain {domain}"),
            Self::BatchTooLong => f.write_str(TOO_LONG),
            Self::Unsupported => f.write_str("this engine cannot do this"),
        }
    }
}

/// What is said of a batch that is too long.
const TOO_LONG: &str = "the batch is longer than the record of a slot has room for";

/// Why nothing was freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FreeError {
    /// Some frame of the block is not allocated: a double free, or a wrong order.
    NotAllocated(FrameId),
    /// The order is larger than the geometry's largest.
    OrderTooLarge(Order),
    /// The zone has no such slot.
    BadSlot(Slot),
    /// The block does not lie inside the zone.
    OutOfRange(FrameId),
    /// The frame is not aligned to the order.
    Misaligned(FrameId, Order),
    /// The block lies in a huge frame that is offline.
    Offline(FrameId),
    /// The range to be freed begins at this frame and ends before it.
    Reversed(FrameId),
    /// The batch has more blocks than the record of a slot has room to name: see [`Intents`](crate::Intents).
    BatchTooLong,
    /// This engine declares that it cannot do this.
    Unsupported,
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAllocated(frame) => {
                write!(f, "a frame of the block at {frame} is not allocated")
            }
            Self::OrderTooLarge(order) => write!(f, "{order} is larger than the largest"),
            Self::BadSlot(slot) => write!(f, "the zone has no slot {}", slot.0),
            Self::OutOfRange(frame) => write!(f, "the block at frame {frame} is outside the zone"),
            Self::Misaligned(frame, order) => write!(f, "frame {frame} is not aligned to {order}"),
            Self::Offline(frame) => write!(f, "the block at frame {frame} is offline"),
            Self::Reversed(frame) => write!(f, "the range from frame {frame} on ends before it"),
            Self::BatchTooLong => f.write_str(TOO_LONG),
            Self::Unsupported => f.write_str("this engine cannot do this"),
        }
    }
}

/// A batch of frees that stopped: the first `freed` blocks are free, the others untouched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreeBatchError {
    /// How many blocks were freed before the one at this position was refused.
    pub freed: usize,
    /// Why it was refused.
    pub cause: FreeError,
}

impl fmt::Display for FreeBatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {} of the batch: {}", self.freed, self.cause)
    }
}

/// Why huge frames were not taken offline or put back online.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OfflineError {
    /// Some huge frame does not lie wholly inside the zone, or none was named.
    OutOfRange,
    /// Offline: this frame is allocated, or its huge frame is offline already, or isolated.
    InUse(FrameId),
    /// Online: the huge frame is not offline.
    NotOffline,
    /// Online, of memory that may be added and removed: another call is just doing that. Nothing is wrong with the request,
    /// and nothing has changed: try again when that call has returned.
    Busy,
    /// This engine declares that it cannot do this.
    Unsupported,
}

impl fmt::Display for OfflineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange => f.write_str("not whole huge frames of the zone"),
            Self::InUse(frame) => write!(f, "frame {frame} is allocated, offline or isolated"),
            Self::NotOffline => f.write_str("some huge frame is not offline"),
            Self::Busy => f.write_str("another call adds or removes memory"),
            Self::Unsupported => f.write_str("this engine cannot do this"),
        }
    }
}

/// Why huge frames were not isolated, or their isolation did not end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum IsolateError {
    /// Some huge frame does not lie wholly inside the zone, or none was named.
    OutOfRange,
    /// Isolate: this huge frame is isolated already.
    Isolated(HugeId),
    /// Isolate: this huge frame is offline.
    Offline(HugeId),
    /// This huge frame is not isolated.
    NotIsolated(HugeId),
    /// Claim: this frame is allocated still, or its free is under way.
    InUse(FrameId),
    /// The zone has no such slot.
    BadSlot(Slot),
    /// This engine declares that it cannot do this.
    Unsupported,
}

impl fmt::Display for IsolateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange => f.write_str("not whole huge frames of the zone"),
            Self::Isolated(huge) => write!(f, "{huge} is isolated already"),
            Self::Offline(huge) => write!(f, "{huge} is offline"),
            Self::NotIsolated(huge) => write!(f, "{huge} is not isolated"),
            Self::InUse(frame) => write!(f, "frame {frame} is still in use"),
            Self::BadSlot(slot) => write!(f, "the zone has no slot {}", slot.0),
            Self::Unsupported => f.write_str("this engine cannot do this"),
        }
    }
}

/// The zone has no such slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadSlot(pub Slot);

impl fmt::Display for BadSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the zone has no slot {}", self.0.0)
    }
}

/// One of the two parts of an allocator's metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Region {
    /// What must outlive a crash.
    Durable,
    /// What is recomputed.
    Volatile,
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Durable => "durable",
            Self::Volatile => "volatile",
        })
    }
}

/// Why an allocator was not made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InitError {
    /// The zone has no frames.
    EmptyZone,
    /// The zone reaches past the end of the number space, or past what the engine's words can name.
    ZoneTooLarge,
    /// The zone has no slots.
    NoSlots,
    /// The zone has more slots than the engine can keep.
    TooManySlots,
    /// The policy has more classes than the engine can keep.
    TooManyClasses,
    /// No record of a slot has room for so many writes: see [`ZoneConfig::record_room`](crate::ZoneConfig::record_room).
    RecordRoom(usize),
    /// The metadata is smaller than the engine needs.
    Short {
        /// Which part.
        region: Region,
        /// The bytes it must have.
        needed: usize,
        /// The bytes it has.
        given: usize,
    },
    /// The metadata does not begin at a multiple of [`METADATA_ALIGN`](crate::METADATA_ALIGN), or
    /// begins at address zero.
    Misaligned(Region),
    /// The two parts of the metadata share memory.
    Overlap,
    /// The heap has no memory for the metadata (`Owned`, the only one who asks it).
    OutOfMemory {
        /// The bytes that were asked for.
        bytes: usize,
    },
    /// This engine cannot start in the mode asked for, or this processor not with the persistence asked for.
    Unsupported,
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyZone => f.write_str("the zone has no frames"),
            Self::ZoneTooLarge => f.write_str("the zone is larger than the engine can name"),
            Self::NoSlots => f.write_str("the zone has no slots"),
            Self::TooManySlots => f.write_str("more slots than the engine can keep"),
            Self::TooManyClasses => f.write_str("more classes than the engine can keep"),
            Self::RecordRoom(room) => write!(f, "no record of a slot has room for {room} writes"),
            Self::Short { region, needed, given } => {
                write!(f, "the {region} metadata has {given} bytes and needs {needed}")
            }
            Self::Misaligned(region) => write!(f, "the {region} metadata is misaligned"),
            Self::Overlap => f.write_str("the durable and the volatile metadata overlap"),
            Self::OutOfMemory { bytes } => write!(f, "no {bytes} bytes to be had for the metadata"),
            Self::Unsupported => {
                f.write_str("this engine or this processor cannot start in this mode")
            }
        }
    }
}

impl core::error::Error for AllocError {}
impl core::error::Error for FreeError {}
impl core::error::Error for FreeBatchError {}
impl core::error::Error for OfflineError {}
impl core::error::Error for IsolateError {}
impl core::error::Error for BadSlot {}
impl core::error::Error for InitError {}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;
    use super::*;
    use crate::HugeId;
    use std::string::ToString;

    const FRAME: FrameId = FrameId(0x20);

    #[test]
    fn messages_of_allocations() {
        for (error, message) in [
            (AllocError::OutOfMemory, "no block or run of this size is free"),
            (AllocError::OrderTooLarge(Order(11)), "order 11 is larger than the largest"),
            (AllocError::BadSlot(Slot(7)), "the zone has no slot 7"),
            (AllocError::BadClass(Class(9)), "the zone has no class 9"),
            (AllocError::BadClass(Class::IMMOVABLE), "the zone has no class 1"),
            (AllocError::BadClass(Class::MOVABLE), "the zone has no class 0"),
            (AllocError::BadClass(Class::HUGE), "the zone has no class 2"),
            (AllocError::BadClass(Class::LONG_LIVED), "the zone has no class 3"),
            (AllocError::OutOfRange(FRAME), "the block at frame 0x20 is outside the zone"),
            (AllocError::Misaligned(FRAME, Order(6)), "frame 0x20 is not aligned to order 6"),
            (AllocError::InUse(FRAME), "a frame of the block at 0x20 is in use"),
            (AllocError::NoFrames, "a run of no frames"),
            (AllocError::Reversed(FRAME), "the range from frame 0x20 on ends before it"),
            (
                AllocError::NoPlace(FRAME),
                "the range from frame 0x20 on has no place of this size and alignment",
            ),
            (AllocError::NoSuchDomain(7), "the machine has no domain 7"),
            (
                AllocError::BatchTooLong,
                "the batch is longer than the record of a slot has room for",
            ),
            (AllocError::Unsupported, "this engine cannot do this"),
        ] {
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn messages_of_frees() {
        for (error, message) in [
            (FreeError::NotAllocated(FRAME), "a frame of the block at 0x20 is not allocated"),
            (FreeError::OrderTooLarge(Order(11)), "order 11 is larger than the largest"),
            (FreeError::BadSlot(Slot(7)), "the zone has no slot 7"),
            (FreeError::OutOfRange(FRAME), "the block at frame 0x20 is outside the zone"),
            (FreeError::Misaligned(FRAME, Order(6)), "frame 0x20 is not aligned to order 6"),
            (FreeError::Offline(FRAME), "the block at frame 0x20 is offline"),
            (FreeError::Reversed(FRAME), "the range from frame 0x20 on ends before it"),
            (FreeError::BatchTooLong, "the batch is longer than the record of a slot has room for"),
            (FreeError::Unsupported, "this engine cannot do this"),
        ] {
            assert_eq!(error.to_string(), message);
        }
        let batch = FreeBatchError { freed: 3, cause: FreeError::Unsupported };
        assert_eq!(batch.to_string(), "block 3 of the batch: this engine cannot do this");
        assert_eq!(BadSlot(Slot(7)).to_string(), "the zone has no slot 7");
    }

    #[test]
    fn messages_of_huge_frames() {
        for (error, message) in [
            (OfflineError::OutOfRange, "not whole huge frames of the zone"),
            (OfflineError::InUse(FRAME), "frame 0x20 is allocated, offline or isolated"),
            (OfflineError::NotOffline, "some huge frame is not offline"),
            (OfflineError::Busy, "another call adds or removes memory"),
            (OfflineError::Unsupported, "this engine cannot do this"),
        ] {
            assert_eq!(error.to_string(), message);
        }
        assert_eq!(HugeId(0x1f).to_string(), "huge frame 0x1f");
        for (error, message) in [
            (IsolateError::OutOfRange, "not whole huge frames of the zone"),
            (IsolateError::Isolated(HugeId(7)), "huge frame 0x7 is isolated already"),
            (IsolateError::Offline(HugeId(7)), "huge frame 0x7 is offline"),
            (IsolateError::NotIsolated(HugeId(7)), "huge frame 0x7 is not isolated"),
            (IsolateError::InUse(FRAME), "frame 0x20 is still in use"),
            (IsolateError::BadSlot(Slot(7)), "the zone has no slot 7"),
            (IsolateError::Unsupported, "this engine cannot do this"),
        ] {
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn messages_of_initialisation() {
        let short = InitError::Short { region: Region::Volatile, needed: 128, given: 64 };
        for (error, message) in [
            (InitError::EmptyZone, "the zone has no frames"),
            (InitError::ZoneTooLarge, "the zone is larger than the engine can name"),
            (InitError::NoSlots, "the zone has no slots"),
            (InitError::TooManySlots, "more slots than the engine can keep"),
            (InitError::TooManyClasses, "more classes than the engine can keep"),
            (InitError::RecordRoom(0), "no record of a slot has room for 0 writes"),
            (short, "the volatile metadata has 64 bytes and needs 128"),
            (InitError::Misaligned(Region::Durable), "the durable metadata is misaligned"),
            (InitError::Overlap, "the durable and the volatile metadata overlap"),
            (InitError::OutOfMemory { bytes: 7 }, "no 7 bytes to be had for the metadata"),
            (InitError::Unsupported, "this engine or this processor cannot start in this mode"),
        ] {
            assert_eq!(error.to_string(), message);
        }
    }
}
