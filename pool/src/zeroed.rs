//! A slice of zeros that is memory only where it is written.

use std::io;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::slice;

use rustix::mm::{MapFlags, ProtFlags};

/// A type for which all bytes zero is a value.
///
/// # Safety
/// It is. Its alignment is at most a page's.
pub(crate) unsafe trait Zero {}

/// Anonymous memory from the system, begun on a page; nothing at all if there are no values.
pub(crate) struct Zeroed<T: Zero> {
    start: NonNull<T>,
    len: usize,
}

// SAFETY: it owns its values as a box does.
unsafe impl<T: Zero + Send> Send for Zeroed<T> {}
// SAFETY: as above; it hands out shared references alone.
unsafe impl<T: Zero + Sync> Sync for Zeroed<T> {}

impl<T: Zero> Zeroed<T> {
    /// `len` zeros.
    pub(crate) fn new(len: usize) -> io::Result<Zeroed<T>> {
        if len == 0 {
            return Ok(Zeroed { start: NonNull::dangling(), len });
        }
        let flags = MapFlags::PRIVATE;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system chooses addresses that nobody has.
        let start = unsafe {
            rustix::mm::mmap_anonymous(ptr::null_mut(), len * size_of::<T>(), protection, flags)
        };
        let start = NonNull::new(start?.cast()).expect("a mapping is not at address zero");
        Ok(Zeroed { start, len })
    }
}

impl<T: Zero> Deref for Zeroed<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping has `len` values, all zero at first; none need no mapping.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Zero> Drop for Zeroed<T> {
    fn drop(&mut self) {
        if self.len == 0 {
            return;
        }
        let bytes = self.len * size_of::<T>();
        // SAFETY: the mapping is this slice's, which nobody has any more.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping is unmapped once");
    }
}
