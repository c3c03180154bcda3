//! A kernel's heap: what becomes of a layout.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};

use woodlot_frame::FrameAllocator;
use woodlot_kmem::{Cpus, Guarded, Hooks, Kmem, Lock, PAGE, PerCpu, Quarters, Seen, SizeId, Sizes};

use crate::late::{Late, NotStarted};

/// A heap over the frames of a zone, with caches for up to `N` CPUs.
///
/// It hands out nothing until [`start`](Self::start) gives it a zone. `C` says how a CPU is kept to its caller, and `H`
/// hears of wrong frees and of memory that is short.
///
/// A request that has no memory gets what its trait says: null from `GlobalAlloc`, an error from `Allocator`.
///
/// # Progress
/// A call that its CPU's cache serves is wait-free. Others take locks, each of which is held for a bounded number of steps,
/// with the CPU kept to its holder. A call that finds no memory waits for the CPUs that [`Cpus::call`] reaches.
pub struct Heap<'a, A: FrameAllocator, C: Cpus, const N: usize, H: Hooks = ()> {
    kmem: Kmem<Guarded<C, N>, Late<'a, A>, Quarters, H>,
    /// What the clock of each CPU has seen of its caches.
    caches: [Lock<Seen>; N],
    /// What that of CPU 0 has seen of the lists between CPUs and pages.
    global: Lock<Seen>,
}

impl<'a, A: FrameAllocator, C: Cpus, const N: usize, H: Hooks> Heap<'a, A, C, N, H> {
    /// A heap without memory.
    pub const fn new(cpus: C, hooks: H) -> Self {
        Heap {
            kmem: Kmem::new(Guarded::new(cpus), Late::new(), hooks),
            caches: [const { Lock::new(Seen::new()) }; N],
            global: Lock::new(Seen::new()),
        }
    }

    /// Gives the heap its zone. `base` is where physical address zero is mapped, or would be: the first byte of frame *f*
    /// lies at `base` + 4096 *f*. The heap takes 16 bytes for each frame of the zone at once, for page descriptors.
    ///
    /// # Errors
    /// Why there is no memory for it. Nothing has changed then.
    ///
    /// # Safety
    /// * Every frame that the zone hands out is mapped there, readable and writable, for `'a`; none at the null pointer.
    /// * `base` is a multiple of 4096. Memory aligned more than `base` is not handed out.
    /// * Nobody else uses memory that the zone hands to the heap.
    pub unsafe fn start(&self, zone: &'a A, base: *mut u8) -> Result<(), NotStarted> {
        // SAFETY: as the caller says.
        unsafe { self.kmem.pages().start(zone, base) }
    }

    /// The allocator inside: its blocks by size and by cookie, its statistics, and
    /// [`flush_cpu`](Kmem::flush_cpu), for a CPU that goes.
    pub const fn kmem(&self) -> &Kmem<Guarded<C, N>, Late<'a, A>, Quarters, H> {
        &self.kmem
    }

    /// Gives back to the zone all that is free, in the caches of all CPUs that can be reached too. When nothing is in
    /// use, and no call is in flight, the heap has the frames of its descriptors only.
    pub fn trim(&self) {
        self.kmem.flush();
    }

    /// Gives back what nobody has used since the last call: for the clock of each CPU, some times a second, or its idle loop. Blocks of
    /// this CPU's cache go to the lists between CPUs and pages, where the next CPU finds them; and with CPU 0, those of these lists
    /// to their frames: where CPU 0 has no clock, they stay. Where [`Cpus`](woodlot_kmem::Cpus) keeps interrupts off, an interrupt
    /// may call this, also one that came in the middle of a call of the heap, or of this. Where it keeps off preemption alone, none
    /// may, as none may allocate.
    ///
    /// # Progress
    /// Bounded: a look at each size, and the locks that a free may take.
    pub fn flush_unused(&self) {
        let cpu = self.kmem.caches().current();
        if let Some(mut seen) = self.caches.get(cpu).and_then(Lock::try_take) {
            self.kmem.flush_unused(cpu, &mut seen);
        }
        if cpu == 0
            && let Some(mut seen) = self.global.try_take()
        {
            self.kmem.flush_unused_global(&mut seen);
        }
    }

    /// # Safety
    /// The block came from here with this layout, and the caller uses it no more.
    #[inline]
    unsafe fn free(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { self.kmem.free_aligned(block, layout.size(), layout.align()) };
    }

    #[inline]
    fn alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        self.kmem.alloc_aligned(layout.size(), layout.align())
    }
}

impl<A: FrameAllocator, C: Cpus, const N: usize, H: Hooks> Drop for Heap<'_, A, C, N, H> {
    fn drop(&mut self) {
        self.trim();
        // SAFETY: nobody else has the heap.
        unsafe { self.kmem.pages().end() };
    }
}

/// What serves a layout. It follows from the layout alone.
#[derive(PartialEq, Eq)]
enum Kind {
    Block(SizeId),
    Pages(usize),
}

impl Kind {
    fn of(layout: Layout) -> Kind {
        match Quarters::aligned(layout.size(), layout.align()).filter(|_| layout.align() <= PAGE) {
            Some(id) => Kind::Block(id),
            None => Kind::Pages(layout.size().div_ceil(PAGE).max(1)),
        }
    }
}

// SAFETY: blocks are as large and aligned as the layout says, nobody else's until they are freed, and stay where they are
// when the heap moves. No call panics.
unsafe impl<A: FrameAllocator, C: Cpus, const N: usize, H: Hooks> GlobalAlloc
    for Heap<'_, A, C, N, H>
{
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.alloc(layout).map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: a block is not at address zero; and as the caller says.
        unsafe { self.free(NonNull::new_unchecked(block), layout) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller says that the new size, rounded up to the alignment, fits an `isize`.
        let new = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        if Kind::of(layout) == Kind::of(new) {
            return block;
        }
        let Some(moved) = self.alloc(new) else { return ptr::null_mut() };
        // SAFETY: both have so many bytes, and the new ones are nobody else's; as the caller says for the old ones.
        unsafe {
            moved.as_ptr().copy_from_nonoverlapping(block, layout.size().min(bytes));
            self.free(NonNull::new_unchecked(block), layout);
        }
        moved.as_ptr()
    }
}

#[cfg(feature = "allocator-api2")]
// SAFETY: as above; what was handed out stays as long as the frames do. The heap is not `Clone`; its references all mean
// the same heap.
unsafe impl<A: FrameAllocator, C: Cpus, const N: usize, H: Hooks> allocator_api2::alloc::Allocator
    for Heap<'_, A, C, N, H>
{
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, allocator_api2::alloc::AllocError> {
        let error = allocator_api2::alloc::AllocError;
        let start = match layout.size() {
            0 => NonNull::new(ptr::without_provenance_mut(layout.align())),
            _ => self.alloc(layout),
        };
        Ok(NonNull::slice_from_raw_parts(start.ok_or(error)?, layout.size()))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() != 0 {
            // SAFETY: as the caller says.
            unsafe { self.free(block, layout) };
        }
    }
}
