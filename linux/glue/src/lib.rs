//! One engine per zone behind a C interface: what `mm/woodlot_rs.h` declares. The feature says which.
//!
//! ```text
//!   memory of a zone   │ engine │ durable metadata │ volatile metadata │     each from a cache line on
//!                      ▲
//!                      └─ the handle that every function but the first three takes
//! ```
//!
//! The functions for single frames are apart from those for blocks, so that the kernel's most
//! frequent calls pass no order. Numbers of frames are the kernel's PFNs. Nothing here locks,
//! allocates or panics; the kernel's per-CPU and accounting work stays in C.
#![no_std]

use core::ffi::c_char;
use core::mem::size_of;
use core::panic::PanicInfo;
use core::ptr;

use woodlot_frame::{
    AllocError, Base4K, Batch, Class, ClassPolicy, Construct, FrameAllocator, FrameId, FreeBlocks,
    FreeError, Geometry, Init, METADATA_ALIGN, MetadataSize, Order, RawMetadata, Request, Slot,
    ZoneConfig,
};
#[cfg(feature = "llfree")]
use woodlot_llfree::LLFree as Engine;
#[cfg(feature = "onewrite")]
use woodlot_onewrite::OneWrite as Engine;

type Zone = Engine<'static, Base4K>;

/// The engine's name, with a zero behind it.
static NAME: [u8; Zone::NAME.len() + 1] = {
    let mut name = [0; Zone::NAME.len() + 1];
    name.split_at_mut(Zone::NAME.len()).0.copy_from_slice(Zone::NAME.as_bytes());
    name
};

/// "No frame": what an allocation returns that failed.
const NONE: usize = usize::MAX;

/// The orders of the kernel: 0 to `MAX_PAGE_ORDER`.
const ORDERS: usize = Base4K::MAX_ORDER as usize + 1;

/// The classes in the order of `enum woodlot_rs_class`.
const CLASSES: [Class; 4] = [Class::MOVABLE, Class::IMMOVABLE, Class::HUGE, Class::LONG_LIVED];

const _: () = {
    let mut number = 0;
    while number < CLASSES.len() {
        assert!(CLASSES[number].0 as usize == number);
        number += 1;
    }
    assert!(CLASSES.len() == ClassPolicy::SHIPPED.count());
};

/// Counts of a zone; `struct woodlot_rs_stats`.
#[repr(C)]
pub struct ZoneStats {
    /// Free base frames.
    pub free_frames: usize,
    /// Free huge frames.
    pub free_huge: usize,
    /// By class: trees, free base frames, free huge frames.
    pub classes: [[usize; 3]; CLASSES.len()],
}

/// Where the parts of a zone's memory begin, and how long all of them are.
struct Layout {
    size: MetadataSize,
    durable: usize,
    volatile: usize,
    end: usize,
}

fn config(start: usize, frames: usize, slots: usize) -> ZoneConfig {
    ZoneConfig::new(frames, slots).starting_at(FrameId(start))
}

fn layout(config: &ZoneConfig) -> Option<Layout> {
    let size = Zone::metadata_size(config).ok()?;
    let durable = size_of::<Zone>().next_multiple_of(METADATA_ALIGN);
    let volatile = durable.checked_add(size.durable)?.checked_next_multiple_of(METADATA_ALIGN)?;
    let end = volatile.checked_add(size.volatile)?;
    Some(Layout { size, durable, volatile, end })
}

/// The name of the engine.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_rs_engine() -> *const c_char {
    NAME.as_ptr().cast()
}

/// How many bytes a zone's memory takes; 0 where there can be no such zone.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_rs_size(start: usize, frames: usize, slots: usize) -> usize {
    layout(&config(start, frames, slots)).map_or(0, |layout| layout.end)
}

/// Makes the allocator of a zone in `memory`, which is its handle from then on. Every frame is
/// allocated at first.
///
/// # Safety
/// `memory` must be as long as [`woodlot_rs_size`] says for the same zone, initialised, aligned to
/// a cache line, and the zone's alone for ever.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_rs_init(
    memory: *mut u8,
    start: usize,
    frames: usize,
    slots: usize,
) -> bool {
    // SAFETY: as the caller promises.
    let zone = unsafe { zone_in(memory, &config(start, frames, slots)) };
    // SAFETY: the layout begins with room for the allocator, at a cache line.
    zone.map(|zone| unsafe { ptr::write(memory.cast(), zone) }).is_some()
}

/// The allocator of a zone with its metadata in place. Not inlined: with more copies of it in one
/// function the compiler would call `memcpy` by a pointer, which a kernel's mitigations forbid.
///
/// # Safety
/// As for [`woodlot_rs_init`].
#[inline(never)]
unsafe fn zone_in(memory: *mut u8, config: &ZoneConfig) -> Option<Zone> {
    let layout = layout(config)?;
    // SAFETY: the layout of the same zone lies within the memory.
    let (durable, volatile) = unsafe { (memory.add(layout.durable), memory.add(layout.volatile)) };
    let metadata = RawMetadata {
        durable: (durable, layout.size.durable),
        volatile: (volatile, layout.size.volatile),
    };
    // SAFETY: the caller gives the memory to the zone for ever, initialised.
    unsafe { Zone::construct(config, metadata, Init::Allocated) }.ok()
}

/// The frame, or "none".
#[inline(always)]
fn number(allocated: Result<FrameId, AllocError>) -> usize {
    allocated.map_or(NONE, |frame| frame.0)
}

/// What was wrong with a free, as a number that `mm/woodlot.c` has a text for; 0 if nothing.
#[inline(always)]
fn cause(freed: Result<(), FreeError>) -> u32 {
    match freed {
        Ok(()) => 0,
        Err(FreeError::NotAllocated(_)) => 1,
        Err(FreeError::OutOfRange(_)) => 2,
        Err(FreeError::Misaligned(..)) => 3,
        Err(_) => 4,
    }
}

/// Allocates one base frame.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_rs_alloc_page(zone: &Zone, class: u8, slot: usize) -> usize {
    number(zone.alloc(Request::new(Order::BASE, Class(class), Slot(slot))))
}

/// Allocates a block.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_rs_alloc(zone: &Zone, order: u8, class: u8, slot: usize) -> usize {
    number(zone.alloc(Request::new(Order(order), Class(class), Slot(slot))))
}

/// Allocates this very block, if it is free.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_rs_alloc_at(zone: &Zone, frame: usize, order: u8, slot: usize) -> bool {
    zone.alloc(Request::movable(Order(order), Slot(slot)).at(FrameId(frame))).is_ok()
}

/// Allocates up to `count` base frames; returns how many there were.
///
/// # Safety
/// `frames` must be an array of `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_rs_alloc_pages(
    zone: &Zone,
    class: u8,
    slot: usize,
    frames: *mut FrameId,
    count: usize,
) -> usize {
    // SAFETY: as the caller promises; a frame is a number.
    let frames = unsafe { core::slice::from_raw_parts_mut(frames, count) };
    let request = Request::new(Order::BASE, Class(class), Slot(slot));
    zone.alloc_batch(request, Batch::UpTo, frames).unwrap_or(0)
}

/// Frees one base frame; returns what was wrong.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_rs_free_page(zone: &Zone, frame: usize, slot: usize) -> u32 {
    cause(zone.free(FrameId(frame), Order::BASE, Slot(slot)))
}

/// Frees a block; returns what was wrong.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_rs_free(zone: &Zone, frame: usize, order: u8, slot: usize) -> u32 {
    cause(zone.free(FrameId(frame), Order(order), Slot(slot)))
}

/// Frees base frames in this order, up to the first that is refused; returns how many.
///
/// # Safety
/// `frames` must be an array of `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_rs_free_pages(
    zone: &Zone,
    frames: *const FrameId,
    count: usize,
    slot: usize,
) -> usize {
    // SAFETY: as the caller promises; a frame is a number.
    let frames = unsafe { core::slice::from_raw_parts(frames, count) };
    zone.free_batch(frames, Order::BASE, Slot(slot)).map_or_else(|error| error.freed, |()| count)
}

/// Is a block of `order` free?
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_rs_is_available(zone: &Zone, order: u8) -> bool {
    zone.is_available(Order(order))
}

/// Is every frame of this block free?
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_rs_is_free(zone: &Zone, frame: usize, order: u8) -> bool {
    zone.is_free(FrameId(frame), Order(order))
}

/// How many frames of the huge frame around `frame` are free?
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_rs_free_in_huge(zone: &Zone, frame: usize) -> usize {
    zone.free_in_huge(FrameId(frame).huge::<Base4K>())
}

/// Counts the zone.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_rs_stats(zone: &Zone, out: &mut ZoneStats) {
    let stats = zone.stats();
    (out.free_frames, out.free_huge) = (stats.free_frames, stats.free_huge);
    for (row, class) in out.classes.iter_mut().zip(&stats.classes) {
        *row = [class.trees, class.free_frames, class.free_huge];
    }
}

/// Counts the free blocks of each order: what `/proc/buddyinfo` shows.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_rs_free_blocks(zone: &Zone, out: &mut [usize; ORDERS]) {
    let blocks = FreeBlocks::of(zone);
    for (order, count) in Order::all::<Base4K>().zip(out) {
        *count = blocks.count(order);
    }
}

unsafe extern "Rust" {
    fn woodlot_panicked(info: &PanicInfo) -> !;
}

/// Nothing panics: `build` refuses an object that refers to the function called here.
#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    // SAFETY: never linked, never called.
    unsafe { woodlot_panicked(info) }
}
