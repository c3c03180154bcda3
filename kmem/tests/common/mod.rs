//! What the tests share: memory with a zone over it, and threads that are CPUs.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::Cell;
use std::ptr::NonNull;

use woodlot_frame::{Base4K, Init, Owned, ZoneConfig};
use woodlot_kmem::{Cpus, Descriptor, Direct, PAGE};
use woodlot_llfree::LLFree;

pub type Zone = LLFree<'static, Base4K>;

/// Memory of frames, a zone over it, and a descriptor for each frame.
pub struct Memory {
    pub zone: Owned<Zone>,
    descriptors: Vec<Descriptor>,
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the base is an address of memory that the zone shares out.
unsafe impl Sync for Memory {}
// SAFETY: as above.
unsafe impl Send for Memory {}

impl Memory {
    /// So many frames, for so many CPUs.
    pub fn new(frames: usize, cpus: usize) -> Memory {
        let layout = Layout::from_size_align(frames * PAGE, 4 << 20).expect("a size");
        // SAFETY: the layout is not empty.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).expect("memory");
        let zone = Owned::new(&ZoneConfig::new(frames, cpus), Init::Free).expect("a zone");
        let descriptors = (0..frames).map(|_| Descriptor::default()).collect();
        Memory { zone, descriptors, base, layout }
    }

    pub fn pages(&self) -> Direct<'_, Zone> {
        // SAFETY: the memory has as many frames as the zone, which nobody else uses.
        unsafe { Direct::new(&*self.zone, self.base, &self.descriptors) }
            .expect("descriptors for all")
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

thread_local! {
    /// The CPU that this thread is.
    static CPU: Cell<usize> = const { Cell::new(0) };
}

/// Threads that are CPUs: each says which one it is, and no two are the same.
pub struct Threads;

/// This thread is the CPU with this number from now on.
pub fn run_on(cpu: usize) {
    CPU.set(cpu);
}

// SAFETY: a thread is one CPU, and nothing interrupts it.
unsafe impl Cpus for Threads {
    type State = ();

    fn enter(&self) -> (usize, ()) {
        (CPU.get(), ())
    }

    fn leave(&self, (): ()) {}
}
