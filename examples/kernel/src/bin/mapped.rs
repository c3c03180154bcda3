//! A kernel whose blocks lie in the upper half of the addresses: `woodlot-kmem` over vmblks, where page tables map whatever
//! frames the zone has. All CPUs pass each other what they have allocated. Then half of the memory is had in one piece, of
//! which no two frames lie side by side. README.md says how to run it.
#![no_std]
#![no_main]

#[path = "../machine.rs"]
mod machine;

use core::array;
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};
use machine::*;
use spin::Once;
use woodlot::*;
use woodlot_kernel::{Apic, Calls, Interrupts, Table, Trial, interrupt, zone_from};
use woodlot_kmem::{Dope, Guarded, Kmem, PAGE, PerCpu, Quarters, VMBLK, VmblkStats, Vmblks};
use woodlot_x86_64::{ByCalls, Frames, KernelSpace};
use x86_64::VirtAddr;
use x86_64::registers::control::Cr3;
use x86_64::structures::paging::{OffsetPageTable, PageTableFlags};

type Zone = llfree::LLFree<'static, Base4K>;
static ZONE: Once<Zone> = Once::new();

// SAFETY: its registers are there: memory is mapped where it is.
static APIC: Apic = unsafe { Apic::at(0xfee0_0000) };
static TABLE: Table = Table::new();
interrupt!(CALL = 0x21 => { CPUS.answer(); APIC.done() });

// SAFETY: each CPU has a number of its own, and all of the kernel runs in ring 0.
const INTERRUPTS: Interrupts = unsafe { Interrupts::new(|| APIC.id()) };
type Cpus = Calls<Interrupts, 8>;
static CPUS: Cpus = Calls::new(INTERRUPTS, |cpu| APIC.send(cpu, CALL.vector()), 1 << 30);
/// Where the CPUs meet.
static TRIAL: Trial<8> = Trial::new();

/// The addresses: 1 GiB of them.
const BASE: usize = 0xffff_9000_0000_0000;
static DOPES: Once<[Dope; (1 << 30) / VMBLK]> = Once::new();

type Space = KernelSpace<'static, Zone, OffsetPageTable<'static>, ByCalls<&'static Cpus>>;
/// Less than its 69 KB are left on a stack: it lies in frames.
type Heap = Kmem<Guarded<&'static Cpus, 8>, Vmblks<'static, Zone, Space>, Quarters>;
static HEAP: Once<&Heap> = Once::new();

fn heap(zone: &'static Zone) -> &'static Heap {
    // SAFETY: the tables of all CPUs are where they are, and nobody else's; no CPU uses others.
    let (space, base) = unsafe {
        let tables = at(Cr3::read().0.start_address().as_u64() as usize);
        let mapper = OffsetPageTable::new(&mut *tables, VirtAddr::zero());
        let frames = Frames::new(zone, Slot(0), Class::IMMOVABLE).expect("a zone of this machine");
        let shootdown = ByCalls::new(&CPUS, zone.zone().slots);
        let space = KernelSpace::new(mapper, frames, at(0), PageTableFlags::empty(), shootdown);
        (space, NonNull::new_unchecked(at(BASE)))
    };
    let dopes = DOPES.call_once(|| array::from_fn(|_| Dope::default()));
    // SAFETY: nothing is mapped at these addresses, and only the heap uses what the heap is given.
    let pages = unsafe { Vmblks::new(zone, space, base, dopes) }.expect("it is aligned");
    let run = RangeRequest::new(size_of::<Heap>().div_ceil(PAGE), Class::IMMOVABLE, Slot(0));
    let run = zone.alloc_range(run).expect("some frames side by side");
    // SAFETY: the frames are this call's.
    let place = unsafe { &mut *at::<MaybeUninit<Heap>>(run.start.0 << 12) };
    Kmem::init(place, Guarded::new(&CPUS), pages, ())
}

/// Where every CPU comes in: the first one with what the boot loader says.
#[unsafe(no_mangle)]
extern "C" fn enter(info: Option<&[u64; 7]>) -> ! {
    let Some(info) = info else {
        work();
        loop {
            hlt();
        }
    };
    // SAFETY: these two ports are QEMU's configuration, whose item 5 is the number of CPUs.
    let cpus: u8 = unsafe { (Port::new(0x510).write(5u16), Port::new(0x511).read()).1 };
    let used = [0..4096, 1 << 20..(&raw const _end).addr() as u64];
    // SAFETY: memory is mapped where it is, and nobody's but for that.
    let zone = unsafe { zone_from(usable(info), &used, cpus.into(), at(0)) }.expect("a zone");
    let zone: &Zone = ZONE.call_once(|| zone);
    let low = Request::immovable(Order(0), Slot(0)).within(FrameId(1)..FrameId(256));
    let low = zone.alloc(low).expect("a frame below 1 MiB");
    HEAP.call_once(|| heap(zone));
    let before = zone.stats().free_frames;
    // SAFETY: the frame is this call's.
    unsafe { (&raw const trampoline).copy_to(at(low.0 << 12), 1) };
    APIC.start_others(low.0 as u8);
    work();

    let (heap, wrong) = (HEAP.wait(), || WRONG.load(SeqCst));
    let passed = PASSED.load(SeqCst);
    writeln!(Serial, "passed: {passed} blocks by {cpus} CPUs, {} wrong", wrong()).ok();
    heap.flush();
    // The second time all page tables are there.
    let mut pages = 20_000;
    let lost = [0, 1].map(|_| {
        let before = zone.stats().free_frames;
        pages = scattered(zone, heap, pages);
        heap.flush();
        before - zone.stats().free_frames
    });
    writeln!(Serial, "scattered: {pages} pages in one piece, {} wrong", wrong()).ok();
    let VmblkStats { made, returned, stuck, .. } = {
        let _alone = heap.caches().guard();
        heap.pages().stats()
    };
    writeln!(Serial, "vmblks: {made} made, {returned} returned, {stuck} pages stuck").ok();
    let (free, [_, lost]) = (zone.stats().free_frames, lost);
    writeln!(Serial, "after that: {free} of {before} frames free, {lost} lost the second time")
        .ok();
    QEMU.exit_success()
}

/// Bytes of what CPUs pass each other.
const BYTES: [usize; 5] = [16, 200, 3000, 4096, 40 << 10];
const ROUNDS: usize = 100;
/// What lies there for each CPU: a block of each size.
static DESKS: [[AtomicPtr<u8>; BYTES.len()]; 8] =
    [const { [const { AtomicPtr::new(null_mut()) }; BYTES.len()] }; 8];
static PASSED: AtomicUsize = AtomicUsize::new(0);
static WRONG: AtomicUsize = AtomicUsize::new(0);

/// What all CPUs do at once: each puts blocks on the desk of the next one, and frees what lies on its own.
fn work() {
    let (heap, cpu, cpus) = (HEAP.wait(), APIC.id(), ZONE.wait().zone().slots);
    // SAFETY: this is ring 0, of one segment of code.
    unsafe { TABLE.load(&[CALL]) };
    APIC.enable(0xff);
    CPUS.open();
    interrupts::enable();
    TRIAL.meet(cpus);
    let mine = |size: usize| DESKS[cpu][size].swap(null_mut(), SeqCst);
    for _ in 0..ROUNDS {
        for (size, bytes) in BYTES.into_iter().enumerate() {
            let block = heap.alloc(bytes).map_or(null_mut(), NonNull::as_ptr);
            sign(block, bytes);
            free(heap, DESKS[(cpu + 1) % cpus][size].swap(block, SeqCst), bytes);
            free(heap, mine(size), bytes);
        }
    }
    TRIAL.meet(cpus);
    BYTES.into_iter().enumerate().for_each(|(size, bytes)| free(heap, mine(size), bytes));
    TRIAL.meet(cpus);
}

/// The first word of each 64 bytes of a block; none of no block.
fn words(block: *mut u8, bytes: usize) -> impl Iterator<Item = *mut usize> {
    let end = if block.is_null() { 0 } else { bytes };
    (0..end).step_by(64).map(move |at| block.wrapping_add(at).cast())
}

/// Has each word of a block hold its address, if there is one.
fn sign(block: *mut u8, bytes: usize) {
    // SAFETY: the block was just allocated for so many bytes.
    words(block, bytes).for_each(|word| unsafe { word.write_volatile(word.addr()) });
}

/// Frees a block, if there is one. Each of its words must be what was written there: its address.
fn free(heap: &Heap, block: *mut u8, bytes: usize) {
    // SAFETY: the block was allocated for so many bytes, and lay on one desk.
    unsafe {
        let wrong = words(block, bytes).filter(|word| word.read_volatile() != word.addr()).count();
        WRONG.fetch_add(wrong, SeqCst);
        // Who remembers a page that is another one's by now finds no address of its own.
        words(block, bytes).for_each(|word| word.write_volatile(0));
        if let Some(block) = NonNull::new(block) {
            PASSED.fetch_add(1, SeqCst);
            heap.free(block, bytes);
        }
    }
}

/// Takes every frame, frees those with even numbers, and takes many of these in one piece. How many pages it has.
fn scattered(zone: &Zone, heap: &Heap, most: usize) -> usize {
    let mut last = FrameId(0);
    while let Ok(frame) = zone.alloc(Request::movable(Order(0), Slot(0))) {
        // SAFETY: the frame is this call's. It holds the one before.
        unsafe { at::<FrameId>(frame.0 << 12).write(last) };
        last = frame;
    }
    // Frees what of a list has odd numbers, or even ones; and the list of the others.
    let free_half = |mut last: FrameId, odd: usize| {
        let mut left = FrameId(0);
        while last != FrameId(0) {
            let frame = last;
            // SAFETY: as above.
            last = unsafe { at::<FrameId>(frame.0 << 12).read() };
            if frame.0 % 2 == odd {
                zone.free(frame, Order(0), Slot(0)).expect("it was taken");
            } else {
                // SAFETY: as above.
                unsafe { at::<FrameId>(frame.0 << 12).write(left) };
                left = frame;
            }
        }
        left
    };
    let odd = free_half(last, 0);
    // What descriptors and page tables take is left.
    let free_frames = zone.free_frames();
    let pages = (free_frames - free_frames / 64 - 32).min(most);
    let block = heap.alloc(pages * PAGE).expect("so many frames are free").as_ptr();
    sign(block, pages * PAGE);
    free(heap, block, pages * PAGE);
    assert_eq!(free_half(odd, 1), FrameId(0));
    pages
}
