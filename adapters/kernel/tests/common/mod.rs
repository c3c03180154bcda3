//! Memory behind the frames of a zone, and threads as CPUs.
#![allow(dead_code, reason = "each test takes some of it")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::Cell;

use woodlot_frame::{ClassPolicy, Construct, FrameId, Geometry, Init, Owned, ZoneConfig};
use woodlot_kernel::Cpus;

/// The first frame of every zone here: not zero, so that a wrong base is found.
pub const START: usize = 4096;

/// A zone with memory behind its frames.
pub struct Arena<A> {
    pub zone: Owned<A>,
    pub memory: *mut u8,
    layout: Layout,
}

impl<A: Construct> Arena<A> {
    pub fn new(frames: usize) -> Self {
        Self::with_classes(frames, ClassPolicy::SHIPPED)
    }

    pub fn with_classes(frames: usize, classes: ClassPolicy) -> Self {
        let config = ZoneConfig { classes, ..ZoneConfig::new(frames, 4) };
        let config = config.starting_at(FrameId(START));
        let zone = Owned::new(&config, Init::Free).expect("the zone is made");
        let bytes = frames * A::Geometry::BASE_BYTES;
        let layout = Layout::from_size_align(bytes, 2 << 20).expect("a layout");
        // SAFETY: the layout has a size above zero.
        let memory = unsafe { alloc_zeroed(layout) };
        assert!(!memory.is_null());
        Self { zone, memory, layout }
    }

    /// Where frame 0 would lie.
    pub fn base(&self) -> *mut u8 {
        self.memory.wrapping_sub(START * A::Geometry::BASE_BYTES)
    }

    pub fn free(&self) -> usize {
        self.zone.stats().free_frames
    }
}

impl<A> Drop for Arena<A> {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and the heap is gone.
        unsafe { dealloc(self.memory, self.layout) };
    }
}

// SAFETY: the memory is shared as the zone says.
unsafe impl<A: Sync> Sync for Arena<A> {}

thread_local!(static CPU: Cell<usize> = const { Cell::new(0) });

/// Threads as CPUs, which nothing interrupts: of each heap that uses it, no two threads have one number.
pub struct Threads;

impl Threads {
    /// This thread is the CPU with this number from now on.
    pub fn be(cpu: usize) {
        CPU.set(cpu);
    }
}

// SAFETY: a thread is alone on its CPU.
unsafe impl Cpus for Threads {
    type State = ();

    fn enter(&self) -> (usize, ()) {
        (CPU.get(), ())
    }

    fn leave(&self, (): ()) {}
}
