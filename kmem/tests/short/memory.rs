//! Memory with a zone over it.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use woodlot_frame::{Base64K, Construct, FrameAllocator, FrameId, Init, Owned, ZoneConfig};
#[cfg(target_os = "linux")]
use woodlot_kmem::{AddressSpace, Vmblks};
use woodlot_kmem::{Descriptor, Direct, Kind, Marks, NoPages, PAGE, Pages};

use crate::LLFree;

/// Memory of frames, a zone over it, and what is known of each frame.
pub struct Memory<Z> {
    pub zone: Owned<Z>,
    pub marks: Vec<Marks>,
    descriptors: Vec<Descriptor>,
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the base is an address of memory that the zone shares out.
unsafe impl<Z: Sync> Sync for Memory<Z> {}
// SAFETY: as above.
unsafe impl<Z: Send> Send for Memory<Z> {}

impl<Z: Construct + FrameAllocator> Memory<Z> {
    /// So many frames, for so many CPUs.
    pub fn new(frames: usize, cpus: usize) -> Self {
        Self::starting_at(0, frames, cpus)
    }

    /// The same in a zone whose first frame has this number.
    pub fn starting_at(start: usize, frames: usize, cpus: usize) -> Self {
        let layout = Layout::from_size_align(frames * PAGE, 4 << 20).expect("a size");
        // SAFETY: the layout is not empty.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).expect("memory");
        let config = ZoneConfig::new(frames, cpus).starting_at(FrameId(start));
        let zone = Owned::new(&config, Init::Free).expect("a zone");
        let descriptors = (0..frames).map(|_| Descriptor::default()).collect();
        let marks = (0..frames).map(|_| Marks::default()).collect();
        Memory { zone, marks, descriptors, base, layout }
    }

    pub fn pages(&self) -> Direct<'_, Z> {
        // SAFETY: the memory has as many frames as the zone, which nobody else uses.
        unsafe { Direct::new(&*self.zone, self.base, &self.descriptors) }
            .expect("descriptors for all")
    }

    /// The first byte of a frame.
    pub fn frame(&self, frame: usize) -> NonNull<u8> {
        assert!(frame < self.descriptors.len());
        // SAFETY: there are so many.
        unsafe { self.base.add(frame * PAGE) }
    }

    /// Is everything free, as huge frames, and nothing known of any page?
    pub fn is_whole(&self) -> bool {
        let stats = self.zone.stats();
        let frames = self.descriptors.len();
        let is_clear = self.descriptors.iter().all(|page| page.kind() == Kind::None);
        stats.free_frames == frames && stats.free_huge == frames / 512 && is_clear
    }
}

impl<Z> Drop for Memory<Z> {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

/// Pages that say how many are in use.
pub trait InUse: Pages {
    fn in_use(&self) -> usize;
}

impl<Z: FrameAllocator> InUse for Direct<'_, Z> {
    fn in_use(&self) -> usize {
        self.zone().zone().frames - self.zone().stats().free_frames
    }
}

#[cfg(target_os = "linux")]
impl<Z: FrameAllocator, M: AddressSpace> InUse for Vmblks<'_, Z, M> {
    fn in_use(&self) -> usize {
        self.validate().expect("it is whole");
        let (stats, zone) = (self.stats(), self.zone());
        let used = zone.zone().frames - zone.stats().free_frames;
        assert_eq!(used, stats.pages - stats.free + stats.descriptor_pages, "frames are lost");
        stats.pages - stats.free
    }
}

impl<P: InUse> InUse for &P {
    fn in_use(&self) -> usize {
        P::in_use(self)
    }
}

/// Of a zone with too few descriptors, or of larger frames, there are no pages; and where the memory is not aligned, no page is.
#[test]
fn pages_are_of_4_kib_with_a_descriptor_each() {
    let memory = Memory::<LLFree>::new(512, 1);
    let (base, all) = (memory.base, &memory.descriptors);
    // SAFETY: nobody uses the memory, and no page of these.
    let short = unsafe { Direct::new(&*memory.zone, base, &all[1..]) };
    assert!(short.is_none());
    let config = ZoneConfig::new(32, 1);
    let large = Owned::<woodlot_llfree::LLFree<'_, Base64K>>::new(&config, Init::Free);
    let large = large.expect("a zone");
    // SAFETY: as above.
    assert!(unsafe { Direct::new(&*large, base, all) }.is_none());
    let odd = Owned::<LLFree>::new(&ZoneConfig::new(511, 1), Init::Free).expect("a zone");
    // SAFETY: there are 511 pages behind the first one, which nobody uses.
    let odd = unsafe { Direct::new(&*odd, base.add(PAGE), all) }.expect("descriptors for all");
    assert!(odd.alloc(1, PAGE, 0).is_ok());
    assert_eq!(odd.alloc(1, 2 * PAGE, 0), Err(NoPages));
}
