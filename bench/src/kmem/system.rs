//! The C library's heap.

use super::heap::Heap;

/// `malloc` and `free`.
pub struct System;

// SAFETY: as the C library says; blocks are aligned for any type, which is 16 where this is measured.
unsafe impl Heap for System {
    const NAME: &'static str = "system";
    const ABOUT: &'static str = "the C library's malloc";

    #[inline(always)]
    fn alloc(&self, bytes: usize) -> *mut u8 {
        // SAFETY: it may be called with any number.
        unsafe { libc::malloc(bytes) }.cast()
    }

    #[inline(always)]
    fn alloc_zeroed(&self, bytes: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { libc::calloc(1, bytes) }.cast()
    }

    #[inline(always)]
    unsafe fn free(&self, block: *mut u8, _: usize) {
        // SAFETY: as the caller says.
        unsafe { libc::free(block.cast()) };
    }

    fn flush(&self) {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        // SAFETY: it may be called at any time.
        unsafe {
            libc::malloc_trim(0);
        }
    }
}
