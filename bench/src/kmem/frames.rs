//! `woodlot-kmem` as in a kernel: frames of an LLFree zone, and threads that are CPUs.
//!
//! ```text
//!   thread ─► number of a CPU ─► Guarded ─► Kmem ─► Direct ─► LLFree over one range of memory
//! ```
//!
//! A thread is a CPU that has nothing to turn off: no handler of a signal or an interrupt allocates.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::OnceLock;

use woodlot_frame::{Base4K, FrameAllocator, Geometry, Init, Owned, ZoneConfig};
use woodlot_kmem::{Cpus, Descriptor, Direct, Guarded, Kmem, PAGE, Quarters, SizeStats, Sizes};
use woodlot_llfree::LLFree;

use super::heap::Heap;
use crate::Failure;

/// The most threads that are CPUs.
pub const MOST_CPUS: usize = 64;

/// Frames of the heap that is measured: 2 GiB of addresses, of which only what is used is touched.
const FRAMES: usize = 1 << 19;

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

/// A zone of so many frames for so many CPUs, and its frames as pages. Neither is ever freed.
pub(super) fn pages(
    frames: usize,
    cpus: usize,
) -> Result<(&'static Zone, Direct<'static, Zone>), Failure> {
    let failed = |what: &dyn std::fmt::Display| Failure::Failed(format!("a zone: {what}"));
    // The system provides zeros without touching them.
    let align = PAGE << Base4K::HUGE_ORDER;
    let memory: &'static mut [u8] = vec![0; frames * PAGE + align].leak();
    let start = memory.as_mut_ptr().align_offset(align);
    let base = NonNull::new(memory[start..].as_mut_ptr()).ok_or_else(|| failed(&"no memory"))?;
    let zone = Owned::<Zone>::new(&ZoneConfig::new(frames, cpus), Init::Free);
    let zone: &'static Owned<Zone> = Box::leak(Box::new(zone.map_err(|why| failed(&why))?));
    let descriptors: Vec<_> = (0..frames).map(|_| Descriptor::default()).collect();
    // SAFETY: the memory has as many frames, is never freed, and nobody else has it.
    let pages = unsafe { Direct::new(&**zone, base, descriptors.leak()) };
    Ok((zone, pages.ok_or_else(|| failed(&"its frames are not pages"))?))
}

/// The allocator over a zone of its own. Neither is ever freed.
pub struct Frames<S: Sizes> {
    zone: &'static Zone,
    kmem: Kmem<Guarded<Threads, MOST_CPUS>, Direct<'static, Zone>, S>,
}

impl<S: Sizes> Frames<S> {
    /// So many frames for so many CPUs.
    ///
    /// # Errors
    /// There is no such zone, or no memory for it.
    pub fn new(frames: usize, cpus: usize) -> Result<Frames<S>, Failure> {
        let (zone, pages) = pages(frames, cpus)?;
        Ok(Frames { zone, kmem: Kmem::new(Guarded::new(Threads), pages, ()) })
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
pub(super) fn measured() -> Option<&'static Frames<Quarters>> {
    static HEAP: OnceLock<Option<Frames<Quarters>>> = OnceLock::new();
    HEAP.get_or_init(|| Frames::new(FRAMES, MOST_CPUS).ok()).as_ref()
}

// SAFETY: as `Kmem` says.
unsafe impl Heap for Frames<Quarters> {
    const NAME: &'static str = "kmem";
    const ABOUT: &'static str = "woodlot-kmem as in a kernel: a thread is a CPU";

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

    fn flush(&self) {
        Frames::flush(self);
    }

    fn taken(&self) -> Option<usize> {
        Some(Frames::taken(self))
    }
}
