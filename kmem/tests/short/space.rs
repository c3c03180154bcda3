//! An address space: frames are the pages of a memory file, which are mapped where the allocator says.

use std::collections::BTreeMap;
use std::fs::File;
use std::ptr::{self, NonNull};
use std::sync::Mutex;

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};
use woodlot_frame::FrameId;
use woodlot_kmem::{AddressSpace, Dope, NotMapped, PAGE, VMBLK};

/// Addresses, and a file of frames.
pub struct Space {
    pub base: NonNull<u8>,
    len: usize,
    file: File,
    table: Mutex<Table>,
}

/// Which frame is mapped where, by the address of the page.
#[derive(Default)]
struct Table {
    frames: BTreeMap<usize, FrameId>,
    /// Calls of `map` until one is refused.
    refuse: Option<u32>,
}

// SAFETY: the base is an address, and the file may be shared.
unsafe impl Sync for Space {}
// SAFETY: as above.
unsafe impl Send for Space {}

impl Space {
    /// Room for so many vmblks, and so many frames.
    pub fn new(vmblks: usize, frames: usize) -> Space {
        let file = rustix::fs::memfd_create("frames", MemfdFlags::CLOEXEC).expect("memory");
        rustix::fs::ftruncate(&file, (frames * PAGE) as u64).expect("memory");
        let len = (vmblks + 1) * VMBLK;
        // SAFETY: the system chooses the place.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                len,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let base = NonNull::new(base.expect("addresses").cast()).expect("not null");
        Space { base, len, file: file.into(), table: Mutex::default() }
    }

    /// The first multiple of 4 MiB.
    pub fn start(&self) -> NonNull<u8> {
        let skip = self.base.as_ptr().addr().next_multiple_of(VMBLK) - self.base.as_ptr().addr();
        // SAFETY: there is room for one more.
        unsafe { self.base.add(skip) }
    }

    /// Pages that are mapped.
    pub fn mapped(&self) -> usize {
        self.table.lock().expect("no test has failed").frames.len()
    }

    /// So many more calls of `map` succeed, and one is refused.
    pub fn refuse_after(&self, calls: u32) {
        self.table.lock().expect("no test has failed").refuse = Some(calls);
    }

    fn pages(&self, first: NonNull<u8>, count: usize) -> impl Iterator<Item = usize> {
        let start = first.as_ptr().addr();
        let (from, to) = (self.start().as_ptr().addr(), self.base.as_ptr().addr() + self.len);
        assert!(start.is_multiple_of(PAGE) && (1..=32).contains(&count));
        assert!(from <= start && start + count * PAGE <= to, "outside of the range");
        (0..count).map(move |page| start + page * PAGE)
    }
}

/// A dope vector.
pub fn dope(vmblks: usize) -> Vec<Dope> {
    (0..vmblks).map(|_| Dope::default()).collect()
}

// SAFETY: the mappings are made and ended by the system; the table says where there are any.
unsafe impl AddressSpace for &Space {
    fn map(&self, first: NonNull<u8>, frames: &[FrameId]) -> Result<(), NotMapped> {
        let mut table = self.table.lock().expect("no test has failed");
        if table.refuse == Some(0) {
            table.refuse = None;
            return Err(NotMapped);
        }
        table.refuse = table.refuse.map(|calls| calls - 1);
        for (page, &frame) in self.pages(first, frames.len()).zip(frames) {
            assert!(!table.frames.contains_key(&page), "{page:#x} is mapped already");
            // SAFETY: nothing else is mapped there, and the range is this test's.
            let mapped = unsafe {
                rustix::mm::mmap(
                    ptr::without_provenance_mut(page),
                    PAGE,
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::SHARED | MapFlags::FIXED,
                    &self.file,
                    (frame.0 * PAGE) as u64,
                )
            };
            mapped.expect("the file has so many frames");
            table.frames.insert(page, frame);
        }
        Ok(())
    }

    unsafe fn unmap(&self, first: NonNull<u8>, frames: &mut [FrameId]) {
        let mut table = self.table.lock().expect("no test has failed");
        for (page, frame) in self.pages(first, frames.len()).zip(frames.iter_mut()) {
            *frame = table.frames.remove(&page).expect("it is mapped");
        }
        // SAFETY: the caller uses these pages no more, and whoever does meets with a fault.
        let unmapped = unsafe {
            rustix::mm::mmap_anonymous(
                first.as_ptr().cast(),
                frames.len() * PAGE,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED,
            )
        };
        unmapped.expect("the system ends mappings");
    }

    fn wait(&self, _: usize) {
        std::thread::yield_now();
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        // SAFETY: the range is this one's, and nobody uses it any more.
        unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) }.expect("it is mapped");
    }
}
