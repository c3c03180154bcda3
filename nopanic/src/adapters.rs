//! What the adapters have.

use core::alloc::{GlobalAlloc, Layout};
use core::fmt::{Display, Formatter, Result as Fmt};
use core::ops::Range;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError as NoMemory, Allocator};
use woodlot_frame::{AllocError, Base4K, Class, FreeError, Slot};
#[cfg(target_arch = "x86_64")]
use woodlot_kernel::{Apic, Entry, Table};
use woodlot_kernel::{BadMap, Calls, Cpus, Heap, NotStarted, Report, Trial, zone_from};
use woodlot_llfree::LLFree;
use woodlot_nbbs::Nbbs4;
use woodlot_ostd::{Config, Frames, GlobalFrameAllocator, Paddr, Refused, Storage};
use woodlot_x86_64::{BadZone, Frames as Pages, Refused as PageRefused};
use x86_64::structures::paging::{PhysFrame, Size1GiB, Size2MiB, Size4KiB};

/// The heap over an engine, as a kernel has it: on x86-64 as the example kernel.
macro_rules! heap {
    ($module:ident: $engine:ty) => {
        mod $module {
            use super::*;

            type Zone = $engine;
            type Caught = Trial<8>;
            type Of = Heap<'static, Zone, &'static Calls<Local, 8>, 8, &'static Caught>;

            // SAFETY of all: the functions are never called.
            symbols! { hot $module:
                // SAFETY: as above.
                alloc(heap: &Of, layout: Layout) -> *mut u8 = unsafe { GlobalAlloc::alloc(heap, layout) };
                dealloc(heap: &Of, start: *mut u8, layout: Layout) -> () =
                    // SAFETY: as above.
                    unsafe { heap.dealloc(start, layout) };
                realloc(heap: &Of, start: *mut u8, layout: Layout, size: usize) -> *mut u8 =
                    // SAFETY: as above.
                    unsafe { heap.realloc(start, layout, size) };
                alloc_zeroed(heap: &Of, layout: Layout) -> *mut u8 =
                    // SAFETY: as above.
                    unsafe { heap.alloc_zeroed(layout) };
                allocate(heap: &Of, layout: Layout) -> Result<NonNull<[u8]>, NoMemory> =
                    heap.allocate(layout);
                deallocate(heap: &Of, start: NonNull<u8>, layout: Layout) -> () =
                    // SAFETY: as above.
                    unsafe { heap.deallocate(start, layout) };
                tick(trial: &Caught, heap: &Of) -> () = trial.tick(heap);
            }

            symbols! { cold $module:
                new(cpus: &'static Calls<Local, 8>, trial: &'static Caught) -> Of =
                    Heap::new(cpus, trial);
                start(heap: &Of, zone: &'static Zone, base: *mut u8) -> Result<(), NotStarted> =
                    // SAFETY: as above.
                    unsafe { heap.start(zone, base) };
                trim(heap: &Of) -> () = heap.trim();
                flush_unused(heap: &Of) -> () = heap.flush_unused();
                flush_cpu(heap: &Of, cpu: usize) -> bool = heap.kmem().flush_cpu(cpu);
                zone(heap: &Of) -> Option<&'static Zone> = heap.kmem().pages().zone();
                dropped(heap: Of) -> () = drop(heap);
                run(trial: &Caught, heap: &Of, cpus: usize) -> () = trial.run(heap, cpus);
                from_map(usable: core::slice::Iter<'_, (u64, u64)>, used: &[Range<u64>], slots: usize,
                    base: *mut u8) -> Result<Zone, BadMap> =
                    // SAFETY: as above.
                    unsafe { zone_from(usable.map(|range| range.0..range.1), used, slots, base) };
            }
        }
    };
}

/// Who keeps a CPU to its caller.
#[cfg(target_arch = "x86_64")]
type Local = woodlot_kernel::Interrupts;

#[cfg(not(target_arch = "x86_64"))]
type Local = crate::kmem::Machine;

heap! { heap_llfree: LLFree<'static, Base4K> }
heap! { heap_nbbs: Nbbs4<'static, Base4K> }

symbols! { hot calls:
    enter(cpus: &Calls<Local, 8>) -> usize = cpus.enter().0;
    answer(cpus: &Calls<Local, 8>) -> () = cpus.answer();
    call(cpus: &Calls<Local, 8>, cpu: usize, call: &mut (dyn FnMut() + Send)) -> bool =
        cpus.call(cpu, call);
}

symbols! { cold kernel:
    calls(cpus: Local, send: fn(usize), patience: usize) -> Calls<Local, 8> =
        Calls::new(cpus, send, patience);
    open(cpus: &Calls<Local, 8>) -> () = cpus.open();
    close(cpus: &Calls<Local, 8>) -> () = cpus.close();
    trial() -> Trial<8> = Trial::default();
    report(trial: &Trial<8>) -> Report = trial.report();
    show_report(report: &Report, f: &mut Formatter<'_>) -> Fmt = report.fmt(f);
    show_not_started(error: &NotStarted, f: &mut Formatter<'_>) -> Fmt = error.fmt(f);
    show_bad_map(error: &BadMap, f: &mut Formatter<'_>) -> Fmt = error.fmt(f);
}

#[cfg(target_arch = "x86_64")]
symbols! { cold apic:
    id(apic: &Apic) -> usize = apic.id();
    enable(apic: &Apic, spurious: u8) -> () = apic.enable(spurious);
    clock(apic: &Apic, vector: u8, count: u32) -> () = apic.clock(vector, count);
    send(apic: &Apic, id: usize, vector: u8) -> () = apic.send(id, vector);
    start_others(apic: &Apic, page: u8) -> () = apic.start_others(page);
    apic_done(apic: &Apic) -> () = apic.done();
    // SAFETY: never called.
    load(table: &'static Table, entries: &[Entry]) -> () = unsafe { table.load(entries) };
}

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
