//! A trial of a heap: what a kernel runs once on all its CPUs, to see that they keep to themselves and reach each other.
//!
//! ```text
//!   every CPU   pairs ─────────▶ all of memory ───▶ quiet ▶ the last block goes round ▶ all is freed
//!   its clock    tick  tick  tick  tick  tick  tick                                               a pair each
//! ```
//!
//! 1. A CPU says in `busy` that it is inside of a call of the heap, for its own interrupts to see.
//! 2. What a CPU has written into a block it finds there before it frees it: a block that two have is seen.
//! 3. From `quiet` on no interrupt has memory, so that the last block is the last one.
//!
//! *Progress*: each CPU waits for the others, and for its own clock.

use core::alloc::{GlobalAlloc, Layout};
use core::hint::spin_loop;
use core::ptr;

use woodlot_frame::FrameAllocator;
use woodlot_frame::atomics::{AtomicU32, AtomicU64, Ordering};
use woodlot_kmem::{Cpus, Hooks, Misuse, PerCpu, Quarters, Sizes};

use crate::heap::Heap;
use crate::report::Report;

/// Interrupts of each CPU inside of calls, and outside, that the pairs go on for; and those without memory that try.
const ENOUGH: u64 = 10;
/// Bytes of the pairs' blocks, one after the other.
const PAIRS: [usize; 6] = [16, 100, 256, 700, 2000, 4096];
/// Bytes of an interrupt's block.
const TICK: usize = 96;
/// Bytes of the largest block that all of memory is taken in, and how much smaller the next ones are: few steps, as each
/// ends with calls of all other CPUs.
const LARGEST: usize = 2 << 20;
const STEP: usize = 8;
/// Bytes of the smallest block that all of memory is taken in, and of the one that goes round.
const LAST: usize = 64;
/// What interrupts fill their blocks with; CPUs do with their number.
const FILL: u32 = 0xa5a5_a5a5;

/// The trial of a heap on up to `N` CPUs. It counts, and [`report`](Self::report) says what.
pub struct Trial<const N: usize> {
    cpus: [Cpu; N],
    /// CPUs that have come to a place where they wait for each other, all together.
    arrived: AtomicU64,
    quiet: AtomicU32,
    pairs: AtomicU64,
    lists: AtomicU64,
    bytes: AtomicU64,
    passed: AtomicU64,
    told: AtomicU64,
    wrong: AtomicU64,
}

/// What is known of one CPU: written by itself and by its interrupts.
#[repr(align(128))]
struct Cpu {
    busy: AtomicU32,
    inside: AtomicU64,
    outside: AtomicU64,
    refused: AtomicU64,
}

impl Cpu {
    const fn new() -> Cpu {
        Cpu {
            busy: AtomicU32::new(0),
            inside: AtomicU64::new(0),
            outside: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Calls the heap.
    fn calls<R>(&self, call: impl FnOnce() -> R) -> R {
        self.busy.store(1, ORDERING);
        let result = call();
        self.busy.store(0, ORDERING);
        result
    }
}

const ORDERING: Ordering = Ordering::SeqCst;

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, ORDERING);
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 16).unwrap_or(Layout::new::<u128>())
}

/// A block of those that a CPU has: the one before it, and how large this one is.
struct Held {
    before: *mut Held,
    bytes: usize,
}

const _: () = assert!(
    size_of::<Held>() <= LAST && LARGEST.ilog2() % STEP.ilog2() == LAST.ilog2() % STEP.ilog2()
);

impl<const N: usize> Trial<N> {
    /// Nothing has been tried.
    pub const fn new() -> Self {
        Trial {
            cpus: [const { Cpu::new() }; N],
            arrived: AtomicU64::new(0),
            quiet: AtomicU32::new(0),
            pairs: AtomicU64::new(0),
            lists: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            told: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
        }
    }

    /// What has been counted so far.
    pub fn report(&self) -> Report {
        let get = |counter: &AtomicU64| counter.load(ORDERING);
        let sum = |of: fn(&Cpu) -> &AtomicU64| self.cpus.iter().map(of).map(get).sum();
        Report {
            pairs: get(&self.pairs),
            lists: get(&self.lists),
            inside: sum(|cpu| &cpu.inside),
            outside: sum(|cpu| &cpu.outside),
            refused: sum(|cpu| &cpu.refused),
            bytes: get(&self.bytes),
            told: get(&self.told),
            passed: get(&self.passed),
            wrong: get(&self.wrong),
        }
    }

    /// All of it, once: `cpus` CPUs, whose numbers are below that, call this with interrupts on. Each has a clock
    /// whose handler calls [`tick`](Self::tick). It takes all memory that the heap can have; and gives it back to
    /// the caches of the CPUs, from where [`trim`](Heap::trim) takes it.
    pub fn run<A, C, H>(&self, heap: &Heap<'_, A, C, N, H>, cpus: usize)
    where
        A: FrameAllocator,
        C: Cpus,
        H: Hooks,
    {
        let here = heap.kmem().caches().current();
        let Some(cpu) = self.cpus.get(here) else { return };
        self.meet(cpus);
        let before = lists(heap);
        self.meet(cpus);
        self.pairs(heap, here as u32, cpu);
        self.meet(cpus);
        if here == 0 {
            self.lists.fetch_add(lists(heap) - before, ORDERING);
        }
        let mut last = ptr::null_mut();
        self.hold(heap, LAST, &mut last);
        self.meet(cpus);
        let mut held = ptr::null_mut();
        self.take_all(heap, LARGEST, &mut held);
        self.quiet.store(1, ORDERING);
        self.meet(cpus);
        for turn in 0..cpus {
            if here == turn {
                self.take_all(heap, LAST, &mut held);
            }
            self.meet(cpus);
        }
        for turn in 0..cpus {
            if here == turn {
                self.free_one(heap, &mut last);
            }
            self.meet(cpus);
            if here == (turn + 1).checked_rem(cpus).unwrap_or(0) && self.hold(heap, LAST, &mut last)
            {
                count(&self.passed);
            }
            self.meet(cpus);
        }
        while self.free_one(heap, &mut held) || self.free_one(heap, &mut last) {}
        self.meet(cpus);
    }

    /// What the clock of a CPU does, with interrupts off: it allocates a block and frees it.
    pub fn tick<A, C, H>(&self, heap: &Heap<'_, A, C, N, H>)
    where
        A: FrameAllocator,
        C: Cpus,
        H: Hooks,
    {
        let Some(cpu) = self.cpus.get(heap.kmem().caches().current()) else { return };
        // To find that there is no memory takes a call of each other CPU: a clock that does so for ever leaves no time.
        if self.quiet.load(ORDERING) != 0 || cpu.refused.load(ORDERING) >= ENOUGH {
            return;
        }
        if !self.pair(heap, TICK, FILL) {
            count(&cpu.refused);
        }
        count(if cpu.busy.load(ORDERING) != 0 { &cpu.inside } else { &cpu.outside });
    }

    /// Pairs of calls, until interrupts have come inside of them and outside.
    fn pairs<A, C, H>(&self, heap: &Heap<'_, A, C, N, H>, fill: u32, cpu: &Cpu)
    where
        A: FrameAllocator,
        C: Cpus,
        H: Hooks,
    {
        while cpu.inside.load(ORDERING).min(cpu.outside.load(ORDERING)) < ENOUGH {
            for bytes in PAIRS {
                // SAFETY: the block is this call's, and freed once.
                unsafe {
                    let block = cpu.calls(|| GlobalAlloc::alloc(heap, layout(bytes)));
                    self.fill_and_look(block, bytes, fill);
                    if !block.is_null() {
                        cpu.calls(|| heap.dealloc(block, layout(bytes)));
                        count(&self.pairs);
                    }
                }
            }
        }
    }

    /// Allocates a block and frees it. False: there is no memory.
    fn pair<G: GlobalAlloc>(&self, heap: &G, bytes: usize, fill: u32) -> bool {
        // SAFETY: the block is this call's, and freed once.
        unsafe {
            let block = heap.alloc(layout(bytes));
            self.fill_and_look(block, bytes, fill);
            if !block.is_null() {
                heap.dealloc(block, layout(bytes));
            }
            !block.is_null()
        }
    }

    /// Writes a word into each 16 bytes of a block, and counts it if somebody else writes there too.
    ///
    /// # Safety
    /// The block has so many bytes, is the caller's and aligned to 4; or there is none.
    unsafe fn fill_and_look(&self, block: *mut u8, bytes: usize, fill: u32) {
        if block.is_null() {
            return;
        }
        let mut words = (0..bytes / 16).map(|at| block.wrapping_add(at * 16).cast::<u32>());
        // SAFETY: as the caller says.
        let is_ours = unsafe {
            words.clone().for_each(|word| word.write_volatile(fill));
            words.all(|word| word.read_volatile() == fill)
        };
        if !is_ours {
            count(&self.wrong);
        }
    }

    /// Takes memory until there is none, in blocks of so many bytes, and then smaller ones.
    fn take_all<G: GlobalAlloc>(&self, heap: &G, mut bytes: usize, held: &mut *mut Held) {
        while bytes >= LAST {
            if self.hold(heap, bytes, held) {
                self.bytes.fetch_add(bytes as u64, ORDERING);
            } else {
                bytes /= STEP;
            }
        }
    }

    /// Allocates a block and keeps it. False: there is no memory.
    fn hold<G: GlobalAlloc>(&self, heap: &G, bytes: usize, held: &mut *mut Held) -> bool {
        // SAFETY: the block is new, and has room for it.
        unsafe {
            let block = heap.alloc(layout(bytes)).cast::<Held>();
            if !block.is_null() {
                block.write(Held { before: *held, bytes });
                *held = block;
            }
            !block.is_null()
        }
    }

    /// Frees the block that was kept last. False: there is none.
    fn free_one<G: GlobalAlloc>(&self, heap: &G, held: &mut *mut Held) -> bool {
        // SAFETY: it was allocated with this layout, and is on no list any more.
        unsafe {
            let Some(block) = held.as_ref() else { return false };
            let (block, bytes) = (core::mem::replace(held, block.before), block.bytes);
            heap.dealloc(block.cast(), layout(bytes));
            true
        }
    }

    /// Waits until all `cpus` CPUs have called this equally often.
    pub fn meet(&self, cpus: usize) {
        let cpus = cpus as u64;
        let before = self.arrived.fetch_add(1, ORDERING);
        let all = (before.checked_div(cpus).unwrap_or(0) + 1) * cpus;
        while self.arrived.load(ORDERING) < all {
            spin_loop();
        }
    }
}

impl<const N: usize> Default for Trial<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// It counts, and has nothing to free.
impl<const N: usize> Hooks for &Trial<N> {
    fn misuse(&self, _: Misuse) {
        count(&self.wrong);
    }

    fn reclaim(&self, _: usize) -> bool {
        count(&self.told);
        false
    }
}

/// How many lists CPUs have asked the global layers for.
fn lists<A, C, const N: usize, H>(heap: &Heap<'_, A, C, N, H>) -> u64
where
    A: FrameAllocator,
    C: Cpus,
    H: Hooks,
{
    (0..Quarters::COUNT)
        .filter_map(|size| heap.kmem().stats(size))
        .map(|size| size.global.takes)
        .sum()
}
