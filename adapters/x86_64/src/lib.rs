#![doc = include_str!("../README.md")]
#![no_std]
#![deny(missing_docs)]

mod space;

use core::fmt;

use woodlot_frame::{
    AllocError, Base4K, Class, FrameAllocator, FrameId, FreeError, Geometry, Order, RangeRequest,
    Request, Slot,
};
use x86_64::structures::paging::{self, PageSize, PhysFrame, Size1GiB, Size2MiB, Size4KiB};
use x86_64::{PhysAddr, structures::paging::FrameDeallocator};

#[cfg(target_arch = "x86_64")]
pub use space::ByCalls;
pub use space::{KernelSpace, Shootdown};

/// The frames of a zone, for one CPU, as the `x86_64` crate wants them: page tables, and the frames to be
/// mapped.
///
/// The value is a reference and a few words: make one for each CPU, or for each call.
#[derive(Debug)]
pub struct Frames<'a, A> {
    zone: &'a A,
    slot: Slot,
    class: Class,
    refused: Option<Refused>,
}

/// A free that the zone refused. Nothing was freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The first frame of what was to be freed.
    pub frame: FrameId,
    /// How many base frames.
    pub frames: usize,
    /// Why it was refused.
    pub cause: FreeError,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} frames from {} on were not freed: {}", self.frames, self.frame, self.cause)
    }
}

impl core::error::Error for Refused {}

/// Why there is no adapter for a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BadZone {
    /// The zone has this frame, whose address has more than the 52 bits of a physical address.
    TooHigh(FrameId),
    /// The zone has no such slot.
    BadSlot(Slot),
    /// The zone has no such class.
    BadClass(Class),
}

impl fmt::Display for BadZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooHigh(frame) => {
                write!(f, "the zone reaches to frame {frame}, beyond 52 bits of address")
            }
            Self::BadSlot(slot) => write!(f, "the zone has no slot {}", slot.0),
            Self::BadClass(class) => write!(f, "the zone has no class {}", class.0),
        }
    }
}

impl core::error::Error for BadZone {}

/// The frame after the last that a physical address can name.
const END: usize = 1 << (52 - Base4K::BASE_SHIFT);

impl<'a, A: FrameAllocator<Geometry = Base4K>> Frames<'a, A> {
    /// Frames of `zone`, allocated and freed through `slot`, of a class:
    /// [`Class::IMMOVABLE`] for page tables and what devices use, [`Class::MOVABLE`] for what is only reached
    /// through page tables that the kernel can rewrite.
    ///
    /// # Errors
    /// [`BadZone`] says what the zone does not have, or has too much of.
    ///
    /// # Safety
    /// The frames that the zone hands out are memory that nobody else uses: the `x86_64` crate builds page
    /// tables in them.
    pub unsafe fn new(zone: &'a A, slot: Slot, class: Class) -> Result<Self, BadZone> {
        let config = zone.zone();
        if config.end().0 > END {
            return Err(BadZone::TooHigh(FrameId(config.end().0 - 1)));
        }
        if slot.0 >= config.slots {
            return Err(BadZone::BadSlot(slot));
        }
        if !config.classes.has(class) {
            return Err(BadZone::BadClass(class));
        }
        Ok(Frames { zone, slot, class, refused: None })
    }

    /// The last free that was refused, which the `x86_64` crate's trait cannot say. It is forgotten then.
    pub fn take_refused(&mut self) -> Option<Refused> {
        self.refused.take()
    }

    /// Allocates a frame of 4 KiB, 2 MiB or 1 GiB.
    ///
    /// # Errors
    /// [`AllocError::OutOfMemory`] or [`AllocError::NoPlace`] where no such frame is free.
    ///
    /// # Progress
    /// As the zone's `alloc`; for 1 GiB as `alloc_range`, which looks at every huge frame of the zone.
    pub fn alloc<S: PageSize>(&self) -> Result<PhysFrame<S>, AllocError> {
        let order = order::<S>();
        let frame = match order <= Order::max::<Base4K>() {
            true => self.zone.alloc(Request::new(order, self.class, self.slot))?,
            false => {
                let run = RangeRequest::new(order.frames(), self.class, self.slot);
                self.zone.alloc_range(run.aligned(order))?.start
            }
        };
        // The zone ends below 2^52, so nothing is cut off.
        let address = PhysAddr::new_truncate(frame.address::<Base4K>());
        Ok(PhysFrame::containing_address(address))
    }

    /// Frees a frame of 4 KiB, 2 MiB or 1 GiB, or the part of a larger one.
    ///
    /// # Errors
    /// As [`FrameAllocator::free_range`]. Nothing is freed then.
    pub fn free<S: PageSize>(&self, frame: PhysFrame<S>) -> Result<(), FreeError> {
        let start = FrameId::containing::<Base4K>(frame.start_address().as_u64());
        let end = FrameId(start.0.saturating_add(order::<S>().frames()));
        self.zone.free_range(start..end, self.slot)
    }

    /// Frees, and keeps the error.
    fn free_or_keep<S: PageSize>(&mut self, frame: PhysFrame<S>) {
        if let Err(cause) = self.free(frame) {
            let start = FrameId::containing::<Base4K>(frame.start_address().as_u64());
            self.refused = Some(Refused { frame: start, frames: order::<S>().frames(), cause });
        }
    }
}

/// The order of a page size.
fn order<S: PageSize>() -> Order {
    Order::containing((S::SIZE >> Base4K::BASE_SHIFT) as usize)
}

/// The traits of the `x86_64` crate for a page size.
macro_rules! frames_of {
    ($size:ty) => {
        // SAFETY: the zone hands a frame out once until it is freed; that the frame is memory which
        // nobody else uses is promised to `Frames::new`.
        unsafe impl<A> paging::FrameAllocator<$size> for Frames<'_, A>
        where
            A: FrameAllocator<Geometry = Base4K>,
        {
            fn allocate_frame(&mut self) -> Option<PhysFrame<$size>> {
                self.alloc().ok()
            }
        }

        impl<A: FrameAllocator<Geometry = Base4K>> FrameDeallocator<$size> for Frames<'_, A> {
            unsafe fn deallocate_frame(&mut self, frame: PhysFrame<$size>) {
                self.free_or_keep(frame);
            }
        }
    };
}

frames_of!(Size4KiB);
frames_of!(Size2MiB);
frames_of!(Size1GiB);
