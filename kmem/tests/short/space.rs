//! An address space: frames are the pages of a memory file, which are mapped where the allocator says.
//!
//! Miri has no such mappings: there all addresses are memory from the begin, and the table alone says what is mapped.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::fs::File;
use std::ptr::{self, NonNull};
use std::sync::Mutex;

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};
use woodlot_frame::FrameId;
use woodlot_kmem::{AddressSpace, Dope, NotMapped, PAGE, StillMapped, VMBLK};

/// Addresses, and a file of frames.
pub struct Space {
    pub base: NonNull<u8>,
    len: usize,
    /// The frames; none under Miri.
    file: Option<File>,
    table: Mutex<Table>,
}

/// Which frame is mapped where, by the address of the page.
#[derive(Default)]
struct Table {
    frames: BTreeMap<usize, FrameId>,
    /// Calls of `map` until one is refused, and what that one says.
    refuse: Option<(u32, NotMapped)>,
    /// The same of `unmap`.
    keep: Option<u32>,
}

// SAFETY: the base is an address, and the file may be shared.
unsafe impl Sync for Space {}
// SAFETY: as above.
unsafe impl Send for Space {}

impl Space {
    /// Room for so many vmblks, and so many frames.
    pub fn new(vmblks: usize, frames: usize) -> Space {
        let len = (vmblks + 1) * VMBLK;
        let (base, file) = if cfg!(miri) {
            // SAFETY: the layout is not empty.
            (unsafe { alloc_zeroed(Self::layout(len)) }, None)
        } else {
            (reserve(ptr::null_mut(), len, MapFlags::empty()), Some(memory_file(frames)))
        };
        Space { base: NonNull::new(base).expect("addresses"), len, file, table: Mutex::default() }
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, PAGE).expect("it is small")
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

    /// So many more calls of `map` succeed, and one is refused. One that is stuck maps all frames but the last.
    pub fn refuse_after(&self, calls: u32, how: NotMapped) {
        self.table.lock().expect("no test has failed").refuse = Some((calls, how));
    }

    /// So many more calls of `unmap` succeed, and one is refused.
    pub fn keep_after(&self, calls: u32) {
        self.table.lock().expect("no test has failed").keep = Some(calls);
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
        let refused = table.refuse.take_if(|(calls, _)| *calls == 0).map(|(_, how)| how);
        table.refuse = table.refuse.map(|(calls, how)| (calls - 1, how));
        let count = match refused {
            Some(NotMapped::Undone) => 0,
            Some(NotMapped::Stuck) => frames.len() - 1,
            None => frames.len(),
        };
        for (page, &frame) in self.pages(first, frames.len()).zip(frames).take(count) {
            assert!(!table.frames.contains_key(&page), "{page:#x} is mapped already");
            if let Some(file) = &self.file {
                map(page, file, frame);
            }
            table.frames.insert(page, frame);
        }
        refused.map_or(Ok(()), Err)
    }

    unsafe fn unmap(&self, first: NonNull<u8>, frames: &mut [FrameId]) -> Result<(), StillMapped> {
        let mut table = self.table.lock().expect("no test has failed");
        if table.keep == Some(0) {
            table.keep = None;
            return Err(StillMapped);
        }
        table.keep = table.keep.map(|calls| calls - 1);
        for (page, frame) in self.pages(first, frames.len()).zip(frames.iter_mut()) {
            *frame = table.frames.remove(&page).expect("it is mapped");
        }
        if self.file.is_some() {
            // Whoever still uses the pages meets with a fault.
            reserve(first.as_ptr(), frames.len() * PAGE, MapFlags::FIXED);
        }
        Ok(())
    }

    fn wait(&self, _: usize) {
        std::thread::yield_now();
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let (base, len) = (self.base.as_ptr(), self.len);
        // SAFETY: the range is this one's, and nobody uses it any more.
        unsafe {
            match &self.file {
                Some(_) => rustix::mm::munmap(base.cast(), len).expect("it is mapped"),
                None => dealloc(base, Self::layout(len)),
            }
        }
    }
}

fn memory_file(frames: usize) -> File {
    let file = rustix::fs::memfd_create("frames", MemfdFlags::CLOEXEC).expect("memory");
    rustix::fs::ftruncate(&file, (frames * PAGE) as u64).expect("memory");
    file.into()
}

/// Addresses at which nothing is.
fn reserve(at: *mut u8, len: usize, how: MapFlags) -> *mut u8 {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | how;
    // SAFETY: the system chooses the place, or it is a part of the test's range.
    let base = unsafe { rustix::mm::mmap_anonymous(at.cast(), len, ProtFlags::empty(), flags) };
    base.expect("the system has addresses").cast()
}

/// Maps a page of the file.
fn map(page: usize, file: &File, frame: FrameId) {
    let flags = MapFlags::SHARED | MapFlags::FIXED;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let (at, offset) = (ptr::without_provenance_mut(page), (frame.0 * PAGE) as u64);
    // SAFETY: nothing else is mapped there, and the range is the test's.
    let mapped = unsafe { rustix::mm::mmap(at, PAGE, protection, flags, file, offset) };
    mapped.expect("the file has so many frames");
}
