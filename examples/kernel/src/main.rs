//! A kernel that makes its zone before any heap exists, hands boot memory over, builds a heap, starts the other
//! CPUs, and takes every frame. README.md says how to run it, PORTING.md walks through it.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::ptr::{slice_from_raw_parts, with_exposed_provenance_mut as at};
use core::sync::atomic::{AtomicBool, Ordering::SeqCst};
use qemu_exit::{QEMUExit, X86};
use spin::{Barrier, Once};
use woodlot::*;
use x86_64::instructions::port::Port;

type Zone = llfree::LLFree<'static, Base4K>;
static ZONE: Once<Zone> = Once::new();

#[global_allocator]
static HEAP: woodlot_heap::Heap<'static, Zone> = woodlot_heap::Heap::new(cpu);

/// Makes the zone. Its metadata are the last bytes of the largest range; all other memory is handed over.
fn make_zone(usable: impl Iterator<Item = (u64, u64)> + Clone) -> Zone {
    let top = usable.clone().map(|(start, bytes)| start + bytes).max().expect("no memory");
    let (largest, bytes) = usable.clone().max_by_key(|range| range.1).expect("no memory");
    // SAFETY: these two ports are QEMU's configuration, whose item 5 is the number of CPUs.
    let cpus: u8 = unsafe { (Port::new(0x510).write(5u16), Port::new(0x511).read()).1 };
    let config = ZoneConfig::new(FrameId::containing::<Base4K>(top).0, cpus.into());
    let size = Zone::metadata_size(&config).expect("no zone can be this large");
    let metadata = ((largest + bytes) as usize - size.durable - size.volatile) & !4095;
    let volatile = (at(metadata + size.durable), size.volatile);
    let raw = RawMetadata { durable: (at(metadata), size.durable), volatile };
    // SAFETY: this memory is mapped, nobody's, and never handed over.
    let zone = unsafe { Zone::construct(&config, raw, Init::Allocated) }.expect("a good zone");
    for (start, bytes) in usable {
        // The kernel lies at 1 MiB. Frame 0 stays unused: its address is the null pointer's.
        let end = if start == largest { metadata as u64 } else { start + bytes };
        let kernel = (start..end).contains(&(1 << 20));
        let start = if kernel { (&raw const _end).addr() as u64 } else { start.max(4096) };
        zone.free_range(FrameId::inside::<Base4K>(start..end), Slot(0)).expect("new memory");
    }
    let (bytes, free) = (size.durable + size.volatile, zone.free_frames());
    let share = (free << 12) / bytes;
    writeln!(Serial, "metadata: {bytes} bytes for {free} frames, 1 byte for {share}").ok();
    zone
}

/// Where every CPU comes in: the first one with what the boot loader says.
#[unsafe(no_mangle)]
extern "C" fn enter(info: Option<&[u64; 7]>) -> ! {
    let Some(info) = info else {
        loop {
            every_frame();
        }
    };
    let zone = ZONE.call_once(|| make_zone(usable(info)));
    // SAFETY: memory is mapped where it is, and only the heap uses what the heap is given.
    unsafe { HEAP.start(zone, at(0)) }.expect("it starts once");

    let dma = RangeRequest::new(768, Class::IMMOVABLE, Slot(0)).within(FrameId(0)..FrameId(4096));
    let dma = zone.alloc_range(dma).expect("3 MiB below 16 MiB");
    writeln!(Serial, "dma: frames {} to {}", dma.start, dma.end).ok();
    zone.free_range(dma, Slot(0)).expect("it was allocated");

    let low = Request::immovable(Order(0), Slot(0)).within(FrameId(1)..FrameId(256));
    start_others(zone.alloc(low).expect("a frame below 1 MiB").0);
    let taken: Vec<_> = (0..zone.zone().frames).map(|_| AtomicBool::new(false)).collect();
    let before = zone.stats().free_frames;
    let (_, taken, _) = WORK.call_once(|| (zone, taken, Barrier::new(zone.zone().slots)));
    every_frame();
    let taken = taken.iter().filter(|taken| taken.load(SeqCst)).count();
    let Stats { free_frames, free_huge, .. } = zone.stats();
    assert_eq!((taken, free_frames), (before, before), "frames were lost");
    writeln!(Serial, "frames: {taken} taken by {} CPUs, {free_frames} free", zone.zone().slots)
        .ok();
    let (first, last) = (zone.free_huge_frames().next(), zone.free_huge_frames().next_back());
    writeln!(Serial, "huge frames: {free_huge} free, from {first:?} to {last:?}").ok();
    QEMU.exit_success()
}

/// What all CPUs work on: a zone, which frames were taken, and where they wait for each other.
static WORK: Once<(&'static Zone, Vec<AtomicBool>, Barrier)> = Once::new();

/// What all CPUs do at once: take frames until none is left, then free a share of them, whoever took them.
fn every_frame() {
    let (zone, taken, all) = WORK.wait();
    let cpus = zone.zone().slots;
    all.wait();
    while let Ok(frame) = zone.alloc(Request::movable(Order(0), Slot(cpu()))) {
        assert!(!taken[frame.0].swap(true, SeqCst), "frame {frame} was handed out twice");
    }
    all.wait();
    for frame in (cpu()..taken.len()).step_by(cpus).filter(|&frame| taken[frame].load(SeqCst)) {
        zone.free(FrameId(frame), Order(0), Slot(cpu())).expect("it was taken");
    }
    all.wait();
}

// From here on: the machine.

core::arch::global_asm!(include_str!("start.s"), options(att_syntax));

unsafe extern "C" {
    static trampoline: [u8; 64];
    static _end: u8; // of the kernel
}

/// The usable memory, as first address and bytes. Of the start info, word 5 is the address of the map, and
/// word 6 how many entries it has. QEMU keeps the map out of usable memory.
fn usable(info: &[u64; 7]) -> impl Iterator<Item = (u64, u64)> + Clone {
    let map = slice_from_raw_parts(at::<[u64; 3]>(info[5] as usize), info[6] as u32 as usize);
    // SAFETY: the boot loader says that the map is there.
    let usable = unsafe { &*map }.iter().filter(|entry| entry[2] as u32 == 1);
    usable.map(|entry| (entry[0], entry[1]))
}

/// The CPU that this runs on, as its interrupt controller says.
fn cpu() -> usize {
    // SAFETY: the register can be read at any time.
    (unsafe { at::<u32>(0xfee0_0020).read_volatile() } >> 24) as usize
}

/// Starts the other CPUs at the beginning of a frame below 1 MiB.
fn start_others(frame: usize) {
    // SAFETY: the frame is the caller's.
    unsafe { (&raw const trampoline).copy_to(at(frame << 12), 1) };
    for reset_then_start in [0xc_4500, 0xc_4600 | frame as u32] {
        // SAFETY: the register sends interrupts, here to all other CPUs.
        unsafe { at::<u32>(0xfee0_0300).write_volatile(reset_then_start) };
        (0..1_000_000).for_each(|_| core::hint::spin_loop());
    }
}

/// The serial port.
struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: this port sends a byte.
        text.bytes().for_each(|byte| unsafe { Port::new(0x3f8).write(byte) });
        Ok(())
    }
}

// SAFETY: this port ends QEMU: with status 33 for success, 1 for failure.
const QEMU: X86 = unsafe { X86::new(0xf4, 33) };

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    writeln!(Serial, "{info}").ok();
    QEMU.exit_failure()
}
