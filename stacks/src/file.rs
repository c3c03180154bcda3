//! The addresses of a Linux process, and a memory file whose pages are the frames.
//!
//! ```text
//!   file        frame 0 │ 1 │ 2 │ 3 │ …                       frame f is byte 4096 · f
//!   addresses   PROT_NONE │ stack │ PROT_NONE │ stack │ …     a stack is one mapping of the file: its frames follow one another
//! ```
//!
//! The system keeps a mapping for each stack and one for each guard, and has a limit to them (`vm.max_map_count`, 65530
//! unless somebody has changed it): some 32 000 stacks.

use std::boxed::Box;
use std::fs::File;
use std::io;
use std::ptr::NonNull;

use rustix::fs::MemfdFlags;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use woodlot_frame::FrameId;
use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_kmem::{AddressSpace, NotMapped, PAGE, StillMapped};

/// The first address is a multiple of this.
const ALIGN: usize = 2 << 20;

/// Addresses of this process at which nothing is until frames are mapped there: a touch is `SIGSEGV`. The child of a fork
/// has no stacks (`MADV_DONTFORK`): it would share them with its parent.
pub struct FileSpace {
    reserved: NonNull<u8>,
    len: usize,
    start: NonNull<u8>,
    file: File,
    /// Which frame is mapped at each page, plus 1; only who maps a page looks there.
    frames: Box<[AtomicU64]>,
}

// SAFETY: the bases are addresses, and the file and the atomics may be shared.
unsafe impl Sync for FileSpace {}
// SAFETY: as above.
unsafe impl Send for FileSpace {}

impl FileSpace {
    /// So many bytes of addresses, and a memory file of so many frames. Memory is the system's until it is touched, and
    /// stays the file's from then on until this is dropped.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(addresses: usize, frames: usize) -> io::Result<FileSpace> {
        let too_large = || io::Error::from(io::ErrorKind::InvalidInput);
        let len = addresses.checked_add(ALIGN).ok_or_else(too_large)?;
        let bytes = frames.checked_mul(PAGE).ok_or_else(too_large)?;
        let file = rustix::fs::memfd_create("woodlot-stacks", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, bytes as u64)?;
        let reserved = reserve(core::ptr::null_mut(), len, MapFlags::empty())?;
        let skip = reserved.as_ptr().addr().next_multiple_of(ALIGN) - reserved.as_ptr().addr();
        // SAFETY: there are so many bytes more than are asked for.
        let start = unsafe { reserved.add(skip) };
        let frames = (0..addresses.div_ceil(PAGE)).map(|_| AtomicU64::new(0)).collect();
        Ok(FileSpace { reserved, len, start, file: file.into(), frames })
    }

    /// The first address, a multiple of 2 MiB.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Ends the mappings of whole runs of frames, or at least every access to them.
    fn end(&self, first: NonNull<u8>, pages: usize) -> Result<(), StillMapped> {
        let (at, len) = (first.as_ptr(), pages * PAGE);
        if reserve(at, len, MapFlags::FIXED).is_ok() {
            return Ok(());
        }
        // There are too many mappings already. This divides none: the runs are whole ones.
        // SAFETY: the pages are this one's, and nobody uses them any more.
        let barred = unsafe { rustix::mm::mprotect(at.cast(), len, MprotectFlags::empty()) };
        barred.map_err(|_| StillMapped)
    }

    /// The words of pages from `first` on.
    fn words(&self, first: NonNull<u8>, count: usize) -> Option<&[AtomicU64]> {
        let page = first.as_ptr().addr().checked_sub(self.start.as_ptr().addr())? / PAGE;
        self.frames.get(page..page.checked_add(count)?)
    }
}

// SAFETY: the system makes and ends the mappings, and after `mmap` has replaced one no thread reaches the old one.
unsafe impl AddressSpace for FileSpace {
    fn map(&self, first: NonNull<u8>, frames: &[FrameId]) -> Result<(), NotMapped> {
        let words = self.words(first, frames.len()).ok_or(NotMapped::Undone)?;
        let mut done = 0;
        for run in frames.chunk_by(|one, next| one.0 + 1 == next.0) {
            let at = first.as_ptr().wrapping_add(done * PAGE);
            if map(at, run, &self.file).is_err() {
                let undone = self.end(first, done + run.len());
                return Err(undone.map_or(NotMapped::Stuck, |()| NotMapped::Undone));
            }
            done += run.len();
        }
        for (word, frame) in words.iter().zip(frames) {
            word.store(frame.0 as u64 + 1, Ordering::Relaxed);
        }
        Ok(())
    }

    unsafe fn unmap(&self, first: NonNull<u8>, frames: &mut [FrameId]) -> Result<(), StillMapped> {
        let words = self.words(first, frames.len()).ok_or(StillMapped)?;
        self.end(first, frames.len())?;
        for (word, frame) in words.iter().zip(frames.iter_mut()) {
            *frame = FrameId((word.swap(0, Ordering::Relaxed) as usize).saturating_sub(1));
        }
        Ok(())
    }
}

impl Drop for FileSpace {
    fn drop(&mut self) {
        // SAFETY: the range is this one's, and who has a reference to it is gone.
        let unmapped = unsafe { rustix::mm::munmap(self.reserved.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "a mapping is unmapped once");
    }
}

/// Addresses at which nothing is.
fn reserve(at: *mut u8, len: usize, how: MapFlags) -> io::Result<NonNull<u8>> {
    if len == 0 {
        return Ok(NonNull::dangling());
    }
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | how;
    // SAFETY: the system chooses the place, or it is one of a space's own, which nobody uses.
    let base = unsafe { rustix::mm::mmap_anonymous(at.cast(), len, ProtFlags::empty(), flags)? };
    Ok(NonNull::new(base.cast()).unwrap_or(NonNull::dangling()))
}

/// Maps frames that follow one another in the file.
fn map(at: *mut u8, run: &[FrameId], file: &File) -> io::Result<()> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED | MapFlags::FIXED;
    let offset = run.first().map_or(0, |first| first.0 * PAGE) as u64;
    // SAFETY: the place is one of a space's own, at which nothing is mapped.
    unsafe { rustix::mm::mmap(at.cast(), run.len() * PAGE, protection, flags, file, offset)? };
    // SAFETY: it has just been mapped, and its contents stay as they are.
    unsafe { rustix::mm::madvise(at.cast(), run.len() * PAGE, Advice::LinuxDontFork)? };
    Ok(())
}
