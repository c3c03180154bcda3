//! `woodlot-kmem` as in a kernel: frames of a zone of either engine, and threads that are CPUs.
//!
//! ```text
//!   thread ─► number of a CPU ─► Guarded ─► Kmem ─► Direct ─► LLFree, or one-write, over one range of memory
//! ```
//!
//! A thread is a CPU that has nothing to turn off: no handler of a signal or an interrupt allocates. Where memory is noted, in
//! *worst*, *memory* and *returned*, each CPU has a clock, whose interrupt gives back what nobody has used since the one before,
//! as `woodlot-kmem` asks a kernel to have it: [`Kmem::flush_unused`], and on CPU 0 [`Kmem::flush_unused_global`]. It comes between two calls of
//! the heap, and takes its time from the loop that is timed.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use woodlot_frame::{Base4K, Construct, FrameAllocator, Geometry, Init, Owned, ZoneConfig};
use woodlot_kmem::{
    Cpus, Descriptor, Direct, Guarded, Kmem, PAGE, Quarters, Seen, SizeStats, Sizes,
};
use woodlot_llfree::LLFree;
use woodlot_onewrite::OneWrite;

use super::heap::Heap;
use crate::Failure;

/// The most threads that are CPUs.
pub const MOST_CPUS: usize = 64;

/// Frames of the heap that is measured: 2 GiB of addresses, of which only what is used is touched.
const FRAMES: usize = 1 << 19;

/// From a tick of a CPU's clock to the next one: 250 a second, as in Linux unless it is told otherwise. System V had 100, others of today have 1000.
const TICK: Duration = Duration::from_millis(4);

/// The clock of a CPU.
struct Clock {
    ticked: Instant,
    caches: Seen,
    global: Seen,
}

thread_local! {
    static CPU: Cell<usize> = const { Cell::new(0) };
}

/// Threads that are CPUs: each says which one it is.
pub struct Threads;

impl Threads {
    /// This thread is the CPU with this number.
    pub fn enter(cpu: usize) {
        CPU.set(cpu);
    }

    /// The CPU that this thread is.
    pub(super) fn here() -> usize {
        CPU.get()
    }
}

// SAFETY: threads that use a heap at the same time have different numbers, and nothing interrupts them.
unsafe impl Cpus for Threads {
    type State = ();

    #[inline(always)]
    fn enter(&self) -> (usize, ()) {
        (CPU.get(), ())
    }

    #[inline(always)]
    fn leave(&self, (): ()) {}
}

pub(super) type Zone = LLFree<'static, Base4K>;

/// Who hands out the frames of pages.
pub trait FrameEngine:
    Construct + FrameAllocator<Geometry = Base4K> + Send + Sync + 'static
{
    /// What the heap over it is called.
    const HEAP: &'static str;
    /// What that is, in a line.
    const ABOUT: &'static str;
    /// Where the heap is that the loops measure.
    fn place() -> &'static OnceLock<Option<Frames<Quarters, Self>>>;
}

macro_rules! engines {
    ($($engine:ident: $heap:expr, $about:expr;)*) => { $(
        impl FrameEngine for $engine<'static, Base4K> {
            const HEAP: &'static str = $heap;
            const ABOUT: &'static str = $about;

            fn place() -> &'static OnceLock<Option<Frames<Quarters, Self>>> {
                static MEASURED: OnceLock<Option<Frames<Quarters, $engine<'static, Base4K>>>> =
                    OnceLock::new();
                &MEASURED
            }
        }
    )* };
}

engines! {
    LLFree: "kmem", "woodlot-kmem as in a kernel: a thread is a CPU; a clock of 250 Hz, where memory is noted";
    OneWrite: "kmem-onewrite", "the same over frames of the one-write engine";
}

/// A zone of so many frames for so many CPUs, and its frames as pages. Neither is ever freed.
pub(super) fn pages<A: FrameEngine>(
    frames: usize,
    cpus: usize,
) -> Result<(&'static A, Direct<'static, A>), Failure> {
    let failed = |what: &dyn std::fmt::Display| Failure::Failed(format!("a zone: {what}"));
    // The system provides zeros without touching them.
    let align = PAGE << Base4K::HUGE_ORDER;
    let memory: &'static mut [u8] = vec![0; frames * PAGE + align].leak();
    let start = memory.as_mut_ptr().align_offset(align);
    let base = NonNull::new(memory[start..].as_mut_ptr()).ok_or_else(|| failed(&"no memory"))?;
    let zone = Owned::<A>::new(&ZoneConfig::new(frames, cpus), Init::Free);
    let zone: &'static Owned<A> = Box::leak(Box::new(zone.map_err(|why| failed(&why))?));
    let descriptors: Vec<_> = (0..frames).map(|_| Descriptor::default()).collect();
    // SAFETY: the memory has as many frames, is never freed, and nobody else has it.
    let pages = unsafe { Direct::new(&**zone, base, descriptors.leak()) };
    Ok((zone, pages.ok_or_else(|| failed(&"its frames are not pages"))?))
}

/// The allocator over a zone of its own. Neither is ever freed.
pub struct Frames<S: Sizes, A: FrameEngine = Zone> {
    zone: &'static A,
    kmem: Kmem<Guarded<Threads, MOST_CPUS>, Direct<'static, A>, S>,
    clocks: [Mutex<Clock>; MOST_CPUS],
}

impl<S: Sizes, A: FrameEngine> Frames<S, A> {
    /// So many frames for so many CPUs.
    ///
    /// # Errors
    /// There is no such zone, or no memory for it.
    pub fn new(frames: usize, cpus: usize) -> Result<Frames<S, A>, Failure> {
        let (zone, pages) = pages(frames, cpus)?;
        let kmem = Kmem::new(Guarded::new(Threads), pages, ());
        let ticked = Instant::now();
        let clock = |_| Mutex::new(Clock { ticked, caches: Seen::new(), global: Seen::new() });
        Ok(Frames { zone, kmem, clocks: std::array::from_fn(clock) })
    }

    /// Allocates.
    #[inline(always)]
    pub fn alloc(&self, bytes: usize) -> *mut u8 {
        self.kmem.alloc(bytes).map_or(std::ptr::null_mut(), NonNull::as_ptr)
    }

    /// Frees.
    ///
    /// # Safety
    /// As for [`Heap::free`].
    #[inline(always)]
    pub unsafe fn free(&self, block: *mut u8, bytes: usize) {
        // SAFETY: a block that was allocated is not null; the rest is as the caller says.
        unsafe { self.kmem.free(NonNull::new_unchecked(block), bytes) };
    }

    /// Has the caches of so many CPUs flushed. No other thread uses the heap now.
    pub fn flush_caches(&self, cpus: usize) {
        let here = CPU.get();
        for cpu in 0..cpus {
            Threads::enter(cpu);
            self.kmem.flush_cpu(cpu);
        }
        Threads::enter(here);
    }

    /// The same of all CPUs, and the layers below.
    pub fn flush(&self) {
        self.flush_caches(MOST_CPUS);
        self.kmem.flush();
    }

    /// The clock of this CPU, which is nobody else's.
    fn clock(&self, look: impl FnOnce(usize, &mut Clock)) {
        let cpu = CPU.get();
        if let Some(Ok(mut clock)) = self.clocks.get(cpu).map(Mutex::try_lock) {
            look(cpu, &mut clock);
        }
    }

    /// Interrupts, if this CPU's clock has ticked since it last did.
    fn tick(&self) {
        self.clock(|cpu, clock| {
            let now = Instant::now();
            if now.duration_since(clock.ticked) >= TICK {
                clock.ticked = now;
                self.interrupt(cpu, clock);
            }
        });
    }

    /// What a kernel does when a CPU's clock ticks.
    fn interrupt(&self, cpu: usize, clock: &mut Clock) {
        self.kmem.flush_unused(cpu, &mut clock.caches);
        if cpu == 0 {
            self.kmem.flush_unused_global(&mut clock.global);
        }
    }

    /// Bytes of the frames that the zone has handed out.
    pub fn taken(&self) -> usize {
        (self.zone.zone().frames - self.zone.stats().free_frames) * PAGE
    }

    /// Huge frames that are free, and how many so many free frames could make.
    pub(super) fn huge(&self, free: usize) -> (usize, usize) {
        (self.zone.stats().free_huge, free >> Base4K::HUGE_ORDER)
    }

    /// What the layers of each size have done, the smallest size first.
    pub fn stats(&self) -> Vec<SizeStats> {
        (0..).map_while(|size| self.kmem.stats(size)).collect()
    }
}

/// The heap that the loops measure, with four sizes an octave.
pub(super) fn measured<A: FrameEngine>() -> Option<&'static Frames<Quarters, A>> {
    A::place().get_or_init(|| Frames::new(FRAMES, MOST_CPUS).ok()).as_ref()
}

// SAFETY: as `Kmem` says.
unsafe impl<A: FrameEngine> Heap for Frames<Quarters, A> {
    const NAME: &'static str = A::HEAP;
    const ABOUT: &'static str = A::ABOUT;

    #[inline(always)]
    fn alloc(&self, bytes: usize) -> *mut u8 {
        Frames::alloc(self, bytes)
    }

    #[inline(always)]
    unsafe fn free(&self, block: *mut u8, bytes: usize) {
        // SAFETY: as the caller says.
        unsafe { Frames::free(self, block, bytes) };
    }

    fn enter(&self, cpu: usize) {
        Threads::enter(cpu);
    }

    fn tick(&self) {
        Frames::tick(self);
    }

    fn flush(&self) {
        Frames::flush(self);
    }

    fn taken(&self) -> Option<usize> {
        Some(Frames::taken(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_uses_goes_back_by_the_clock() {
        let heap = Frames::<Quarters>::new(1024, 2).unwrap();
        Threads::enter(0);
        let blocks: Vec<_> = (0..1000).map(|_| heap.alloc(64)).collect();
        for block in blocks {
            // SAFETY: the block is in use, has so many bytes, and is used no more.
            unsafe { heap.free(block, 64) };
        }
        let hour = Duration::from_secs(3600);
        let ticks = |count: usize, ticked: Instant| {
            for _ in 0..count {
                heap.clock(|_, clock| clock.ticked = ticked);
                heap.tick();
            }
            heap.taken()
        };
        assert!(ticks(9, Instant::now() + hour) > 0, "the clock has not ticked");
        let long_ago = Instant::now().checked_sub(TICK).unwrap();
        assert!(ticks(1, long_ago) > 0, "it was used since the tick before");
        assert_eq!(ticks(3, long_ago), 0, "from the cache to the global layer, and from there");
    }
}
