//! A kernel that makes its zone before any heap exists, hands boot memory over, starts a heap and the other CPUs, takes
//! every frame, and puts the heap on trial under interrupts. README.md says how to run it, PORTING.md walks through it.
#![no_std]
#![no_main]

extern crate alloc;
mod machine;

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::SeqCst};
use machine::*;
use woodlot::*;
use woodlot_kernel::{Apic, Calls, Heap, Interrupts, Table, Trial, interrupt, zone_from};

type Zone = llfree::LLFree<'static, Base4K>;
static ZONE: spin::Once<Zone> = spin::Once::new();

// SAFETY: its registers are there: memory is mapped where it is.
static APIC: Apic = unsafe { Apic::at(0xfee0_0000) };

/// What interrupts a CPU: its clock, and calls of the others.
static TABLE: Table = Table::new();
interrupt!(CLOCK = 0x20 => { TRIAL.tick(&HEAP); HEAP.flush_unused(); APIC.done() });
interrupt!(CALL = 0x21 => { CPUS.answer(); APIC.done() });

// SAFETY: each CPU has a number of its own, and all of the kernel runs in ring 0.
const INTERRUPTS: Interrupts = unsafe { Interrupts::new(|| APIC.id()) };
type Cpus = Calls<Interrupts, 8>;
static CPUS: Cpus = Calls::new(INTERRUPTS, |cpu| APIC.send(cpu, CALL.vector()), 1 << 30);

#[global_allocator]
static HEAP: Heap<'static, Zone, &Cpus, 8, &Trial<8>> = Heap::new(&CPUS, &TRIAL);
static TRIAL: Trial<8> = Trial::new();

/// Where every CPU comes in: the first one with what the boot loader says.
#[unsafe(no_mangle)]
extern "C" fn enter(info: Option<&[u64; 7]>) -> ! {
    let Some(info) = info else {
        work();
        HEAP.kmem().flush_cpu(APIC.id());
        loop {
            hlt();
        }
    };
    // SAFETY: these two ports are QEMU's configuration, whose item 5 is the number of CPUs.
    let cpus: u8 = unsafe { (Port::new(0x510).write(5u16), Port::new(0x511).read()).1 };
    // The kernel lies at 1 MiB. Frame 0 stays unused: its address is the null pointer's.
    let used = [0..4096, 1 << 20..(&raw const _end).addr() as u64];
    // SAFETY: memory is mapped where it is, and nobody's but for that.
    let zone = unsafe { zone_from(usable(info), &used, cpus.into(), at(0)) }.expect("a zone");
    let zone: &Zone = ZONE.call_once(|| zone);
    let size = Zone::metadata_size(zone.zone()).expect("it was made");
    let (bytes, free) = (size.durable + size.volatile, zone.free_frames());
    writeln!(Serial, "metadata: {bytes} bytes for {free} frames").ok();
    // SAFETY: memory is mapped where it is, and only the heap uses what the heap is given.
    unsafe { HEAP.start(zone, at(0)) }.expect("it starts once");

    let dma = RangeRequest::new(768, Class::IMMOVABLE, Slot(0)).within(FrameId(0)..FrameId(4096));
    let dma = zone.alloc_range(dma).expect("3 MiB below 16 MiB");
    writeln!(Serial, "dma: frames {} to {}", dma.start, dma.end).ok();
    zone.free_range(dma, Slot(0)).expect("it was allocated");

    let low = Request::immovable(Order(0), Slot(0)).within(FrameId(1)..FrameId(256));
    let low = zone.alloc(low).expect("a frame below 1 MiB");
    // SAFETY: the frame is this call's.
    unsafe { (&raw const trampoline).copy_to(at(low.0 << 12), 1) };
    APIC.start_others(low.0 as u8);

    TAKEN.call_once(|| (0..zone.zone().end().0).map(|_| AtomicBool::new(false)).collect());
    HEAP.trim();
    let free = || (zone.stats().free_frames, zone.stats().free_huge);
    let before = free();
    work();
    HEAP.trim();
    writeln!(Serial, "{}\nafter that: {:?} free", TRIAL.report(), free()).ok();
    assert_eq!(free(), before, "frames were lost");
    QEMU.exit_success()
}

/// Which frames were taken.
static TAKEN: spin::Once<Vec<AtomicBool>> = spin::Once::new();

/// What all CPUs do at once: take frames until none is left, and free a share of them, whoever took them. Then they turn
/// on interrupts, of a clock and by each other, and try the heap.
fn work() {
    let (taken, zone, cpu) = (TAKEN.wait(), ZONE.wait(), APIC.id());
    let cpus = zone.zone().slots;
    TRIAL.meet(cpus);
    while let Ok(frame) = zone.alloc(Request::movable(Order(0), Slot(cpu))) {
        assert!(!taken[frame.0].swap(true, SeqCst), "frame {frame} was handed out twice");
    }
    TRIAL.meet(cpus);
    for frame in (cpu..taken.len()).step_by(cpus).filter(|&frame| taken[frame].load(SeqCst)) {
        zone.free(FrameId(frame), Order(0), Slot(cpu)).expect("it was taken");
    }
    TRIAL.meet(cpus);
    if cpu == 0 {
        let taken = taken.iter().filter(|taken| taken.load(SeqCst)).count();
        let Stats { free_frames, free_huge, .. } = zone.stats();
        writeln!(Serial, "frames: {taken} taken by {cpus} CPUs, {free_frames} free").ok();
        let (first, last) = (zone.free_huge_frames().next(), zone.free_huge_frames().next_back());
        writeln!(Serial, "huge frames: {free_huge} free, from {first:?} to {last:?}").ok();
    }
    TRIAL.meet(cpus);
    // SAFETY: this is ring 0, of one segment of code.
    unsafe { TABLE.load(&[CLOCK, CALL]) };
    APIC.enable(0xff);
    APIC.clock(CLOCK.vector(), 1_000_000);
    CPUS.open();
    interrupts::enable();
    TRIAL.run(&HEAP, cpus);
}
