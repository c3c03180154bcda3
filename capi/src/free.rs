//! Frees.

use core::ffi::c_int;

use woodlot_frame::{FrameAllocator, FrameId, FreeError, Slot};

use crate::alloc::order;
use crate::error::of_free;
use crate::memory::array;
use crate::types::{Batch, Block};
use crate::zone::{Zone, on_zone};

#[inline]
fn status(answer: Result<(), FreeError>) -> c_int {
    match answer {
        Ok(()) => 0,
        Err(error) => of_free(error).0.into(),
    }
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_free(
    zone: *const Zone,
    frame: usize,
    block_order: u32,
    slot: usize,
) -> c_int {
    on_zone!(zone, engine => free(engine, frame, block_order, slot))
}

/// One for each engine, entered by a jump, as for allocations.
#[inline(never)]
extern "C" fn free<A: FrameAllocator>(
    allocator: &A,
    frame: usize,
    block_order: u32,
    slot: usize,
) -> c_int {
    status(allocator.free(FrameId(frame), order(block_order), Slot(slot)))
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_free_range(
    zone: *const Zone,
    start: usize,
    end: usize,
    slot: usize,
) -> Block {
    let frames = FrameId(start)..FrameId(end);
    on_zone!(zone, engine => engine.free_range(frames, Slot(slot)).into())
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_free_batch(
    zone: *const Zone,
    frames: *const usize,
    count: usize,
    block_order: u32,
    slot: usize,
) -> Batch {
    // SAFETY: as the caller promises; a frame number is a `size_t`.
    let frames = match unsafe { array(frames.cast::<FrameId>(), count) } {
        Ok(frames) => frames,
        Err(error) => return error.into(),
    };
    match on_zone!(zone, engine => engine.free_batch(frames, order(block_order), Slot(slot))) {
        Ok(()) => Batch { count, frame: 0, error: 0 },
        Err(stopped) => {
            let (error, frame) = of_free(stopped.cause);
            Batch { count: stopped.freed, frame, error: error.into() }
        }
    }
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_can_free(
    zone: *const Zone,
    frame: usize,
    block_order: u32,
    slot: usize,
) -> c_int {
    let (frame, order, slot) = (FrameId(frame), order(block_order), Slot(slot));
    on_zone!(zone, engine => status(engine.can_free(frame, order, slot)))
}
