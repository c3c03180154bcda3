//! Allocations.

use woodlot_frame::{
    AllocError, Batch as Mode, Class, FrameAllocator, FrameId, Order, Place as Where, RangeRequest,
    Request, Slot,
};

use crate::error::{Error, of_alloc};
use crate::memory::array_mut;
use crate::types::{Batch, Block, Place, Run};
use crate::zone::{Zone, on_zone};

/// An order; what does not fit is an order that every call refuses.
#[inline]
pub(crate) fn order(number: u32) -> Order {
    Order(number.min(u8::MAX.into()) as u8)
}

/// A class; what does not fit is a class that no zone has.
#[inline]
fn class(number: u32) -> Class {
    Class(number.min(u8::MAX.into()) as u8)
}

impl Place {
    /// # Errors
    /// [`Error::BadPlace`].
    fn read(self) -> Result<Where, Error> {
        match self.kind {
            0 => Ok(Where::Anywhere),
            1 => Ok(Where::At(FrameId(self.start))),
            2 => Ok(Where::within(FrameId(self.start)..FrameId(self.end))),
            _ => Err(Error::BadPlace),
        }
    }
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_alloc(
    zone: *const Zone,
    block_order: u32,
    block_class: u32,
    slot: usize,
) -> Block {
    on_zone!(zone, engine => alloc(engine, block_order, block_class, slot))
}

/// One for each engine, entered by a jump: so the call itself keeps nothing on the stack.
#[inline(never)]
extern "C" fn alloc<A: FrameAllocator>(
    allocator: &A,
    block_order: u32,
    block_class: u32,
    slot: usize,
) -> Block {
    let request = Request::new(order(block_order), class(block_class), Slot(slot));
    allocator.alloc(request).into()
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_alloc_placed(
    zone: *const Zone,
    block_order: u32,
    block_class: u32,
    slot: usize,
    place: Place,
) -> Block {
    let place = match place.read() {
        Ok(place) => place,
        Err(error) => return error.into(),
    };
    let (order, class, slot) = (order(block_order), class(block_class), Slot(slot));
    let request = Request { order, class, slot, place };
    on_zone!(zone, engine => engine.alloc(request).into())
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_alloc_range(
    zone: *const Zone,
    frames: usize,
    align: u32,
    run_class: u32,
    slot: usize,
    place: Place,
) -> Run {
    let place = match place.read() {
        Ok(place) => place,
        Err(error) => return error.into(),
    };
    let (align, class, slot) = (order(align), class(run_class), Slot(slot));
    let request = RangeRequest { frames, align, class, slot, place };
    match on_zone!(zone, engine => engine.alloc_range(request)) {
        Ok(run) => run.into(),
        Err(error) => Run::about(of_alloc(error)),
    }
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_alloc_batch(
    zone: *const Zone,
    block_order: u32,
    block_class: u32,
    slot: usize,
    place: Place,
    mode: u32,
    frames: *mut usize,
    wanted: usize,
) -> Batch {
    let read = || {
        let mode = match mode {
            0 => Mode::All,
            1 => Mode::UpTo,
            _ => return Err(Error::BadMode),
        };
        let (order, class, slot) = (order(block_order), class(block_class), Slot(slot));
        let request = Request { order, class, slot, place: place.read()? };
        // SAFETY: as the caller promises; a frame number is a `size_t`.
        let out = unsafe { array_mut(frames.cast::<FrameId>(), wanted) }?;
        Ok((request, mode, out))
    };
    let (request, mode, out) = match read() {
        Ok(read) => read,
        Err(error) => return error.into(),
    };
    let answer: Result<usize, AllocError> =
        on_zone!(zone, engine => engine.alloc_batch(request, mode, out));
    match answer {
        Ok(count) => Batch { count, frame: 0, error: 0 },
        Err(error) => {
            let (error, frame) = of_alloc(error);
            Batch { count: 0, frame, error: error.into() }
        }
    }
}
