//! What the adapters have.

use core::alloc::{GlobalAlloc, Layout};
use core::fmt::{Display, Formatter, Result as Fmt};
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError as NoMemory, Allocator};
use woodlot_frame::{AllocError, Base4K, Class, FreeError, Slot};
use woodlot_heap::{AlreadyStarted, Heap};
use woodlot_llfree::LLFree;
use woodlot_nbbs::Nbbs4;
use woodlot_ostd::{Config, Frames, GlobalFrameAllocator, Paddr, Refused, Storage};
use woodlot_x86_64::{BadZone, Frames as Pages, Refused as PageRefused};
use x86_64::structures::paging::{PhysFrame, Size1GiB, Size2MiB, Size4KiB};

/// The heap over an engine.
macro_rules! heap {
    ($module:ident: $engine:ty) => {
        mod $module {
            use super::*;

            type Zone = $engine;
            type Of = Heap<'static, Zone>;

            // SAFETY of all: the functions are never called.
            symbols! { cold $module:
                new(cpu: fn() -> usize) -> Of = Heap::new(cpu);
                start(heap: &Of, zone: &'static Zone, base: *mut u8) -> Result<(), AlreadyStarted> =
                    // SAFETY: as above.
                    unsafe { heap.start(zone, base) };
                trim(heap: &Of) -> usize = heap.trim();
                dropped(heap: Of) -> () = drop(heap);
                // SAFETY: as above.
                alloc(heap: &Of, layout: Layout) -> *mut u8 = unsafe { heap.alloc(layout) };
                dealloc(heap: &Of, start: *mut u8, layout: Layout) -> () =
                    // SAFETY: as above.
                    unsafe { heap.dealloc(start, layout) };
                realloc(heap: &Of, start: *mut u8, layout: Layout, size: usize) -> *mut u8 =
                    // SAFETY: as above.
                    unsafe { heap.realloc(start, layout, size) };
                allocate(heap: &Of, layout: Layout) -> Result<NonNull<[u8]>, NoMemory> =
                    heap.allocate(layout);
                deallocate(heap: &Of, start: NonNull<u8>, layout: Layout) -> () =
                    // SAFETY: as above.
                    unsafe { heap.deallocate(start, layout) };
            }
        }
    };
}

heap! { heap_llfree: LLFree<'static, Base4K> }
heap! { heap_nbbs: Nbbs4<'static, Base4K> }

type Zone = LLFree<'static, Base4K>;

symbols! { cold ostd:
    new(config: Config, storage: &'static Storage<64>) -> Frames = Frames::new(config, storage);
    lines(config: &Config) -> usize = config.lines();
    try_alloc(frames: &Frames, layout: Layout) -> Result<Paddr, Refused> = frames.try_alloc(layout);
    try_dealloc(frames: &Frames, addr: Paddr, size: usize) -> Result<(), Refused> =
        frames.try_dealloc(addr, size);
    try_add(frames: &Frames, addr: Paddr, size: usize) -> Result<(), Refused> =
        frames.try_add(addr, size);
    alloc(frames: &Frames, layout: Layout) -> Option<Paddr> = frames.alloc(layout);
    dealloc(frames: &Frames, addr: Paddr, size: usize) -> () = frames.dealloc(addr, size);
    add_free_memory(frames: &Frames, addr: Paddr, size: usize) -> () =
        frames.add_free_memory(addr, size);
    free_bytes(frames: &Frames) -> usize = frames.free_bytes();
    message(value: &Refused, f: &mut Formatter<'_>) -> Fmt = value.fmt(f);
}

symbols! { cold pages:
    pages(zone: &'static Zone, slot: Slot, class: Class) -> Result<Pages<'static, Zone>, BadZone> =
        // SAFETY: never called.
        unsafe { Pages::new(zone, slot, class) };
    take_refused(pages: &mut Pages<'static, Zone>) -> Option<PageRefused> = pages.take_refused();
    alloc_4k(pages: &Pages<'static, Zone>) -> Result<PhysFrame<Size4KiB>, AllocError> =
        pages.alloc();
    alloc_2m(pages: &Pages<'static, Zone>) -> Result<PhysFrame<Size2MiB>, AllocError> =
        pages.alloc();
    alloc_1g(pages: &Pages<'static, Zone>) -> Result<PhysFrame<Size1GiB>, AllocError> =
        pages.alloc();
    free_4k(pages: &Pages<'static, Zone>, frame: PhysFrame<Size4KiB>) -> Result<(), FreeError> =
        pages.free(frame);
    free_1g(pages: &Pages<'static, Zone>, frame: PhysFrame<Size1GiB>) -> Result<(), FreeError> =
        pages.free(frame);
    page_message(value: &PageRefused, f: &mut Formatter<'_>) -> Fmt = value.fmt(f);
    zone_message(value: &BadZone, f: &mut Formatter<'_>) -> Fmt = value.fmt(f);
}
