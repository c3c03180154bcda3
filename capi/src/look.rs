//! What can be known about a zone without stopping it.

use core::ffi::c_int;

use woodlot_frame::{
    ClassStats, FrameAllocator, FrameId, FreeBlocks, Geometry, HugeId, Order, Stats,
};

use crate::alloc::order;
use crate::error::Error;
use crate::memory::{check, write};
use crate::types::{Blocks, ClassCounts, Count, Counts, Huge, Map, ORDERS, Run};
use crate::zone::{Zone, on_zone};

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_is_available(zone: *const Zone, block_order: u32) -> c_int {
    on_zone!(zone, engine => engine.is_available(order(block_order)).into())
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_is_free(
    zone: *const Zone,
    frame: usize,
    block_order: u32,
) -> c_int {
    on_zone!(zone, engine => engine.is_free(FrameId(frame), order(block_order)).into())
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_free_frames(zone: *const Zone) -> Count {
    on_zone!(zone, engine => Count { count: engine.free_frames(), error: 0 })
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_free_in_huge(zone: *const Zone, huge: usize) -> Count {
    on_zone!(zone, engine => Count { count: engine.free_in_huge(HugeId(huge)), error: 0 })
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_free_map(zone: *const Zone, frame: usize) -> Map {
    on_zone!(zone, engine => Map { map: engine.free_map(FrameId(frame)), error: 0 })
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_next_free_run(zone: *const Zone, from: usize, end: usize) -> Run {
    let frames = FrameId(from)..FrameId(end);
    match on_zone!(zone, engine => engine.free_runs(frames).next()) {
        Some(run) => run.into(),
        None => Error::NoMore.into(),
    }
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_next_free_huge(zone: *const Zone, from: usize) -> Huge {
    found(on_zone!(zone, engine => free_huge(engine, from, usize::MAX).next()))
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_last_free_huge(zone: *const Zone, before: usize) -> Huge {
    found(on_zone!(zone, engine => free_huge(engine, 0, before).next_back()))
}

fn found(huge: Option<usize>) -> Huge {
    huge.map_or_else(|| Error::NoMore.into(), |huge| Huge { huge, error: 0 })
}

/// The free huge frames of the zone among those from `from` to `end`.
fn free_huge<A: FrameAllocator>(
    allocator: &A,
    from: usize,
    end: usize,
) -> impl DoubleEndedIterator<Item = usize> {
    let zone = allocator.zone().huge_range::<A::Geometry>();
    let all = A::Geometry::HUGE_FRAMES;
    let range = zone.start.0.max(from)..zone.end.0.min(end);
    range.filter(move |&huge| allocator.free_in_huge(HugeId(huge)) == all)
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_stats(zone: *const Zone, out: *mut Counts) -> c_int {
    if let Err(error) = check(out) {
        return error.into();
    }
    // The headers have no isolation.
    let Stats {
        free_frames,
        free_huge,
        offline_huge,
        isolated_huge: _,
        isolated_frames: _,
        classes,
    } = on_zone!(zone, engine => engine.stats());
    let class = |of: ClassStats| {
        let ClassStats { trees, free_frames, free_huge } = of;
        ClassCounts { trees, free_frames, free_huge }
    };
    let classes = classes.map(class);
    // SAFETY: as the caller promises.
    let written = unsafe { write(out, Counts { free_frames, free_huge, offline_huge, classes }) };
    written.map_or_else(c_int::from, |()| 0)
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_free_blocks(zone: *const Zone, out: *mut Blocks) -> c_int {
    if let Err(error) = check(out) {
        return error.into();
    }
    let blocks = on_zone!(zone, engine => FreeBlocks::of(engine));
    let mut counts = [0; ORDERS];
    for (count, order) in counts.iter_mut().zip(0..) {
        *count = blocks.count(Order(order));
    }
    // SAFETY: as the caller promises.
    let written = unsafe { write(out, Blocks { counts, largest_run: blocks.largest_run }) };
    written.map_or_else(c_int::from, |()| 0)
}
