//! `woodlot-malloc`: the same allocator as the heap of a program.

use std::ptr::{NonNull, null_mut};

use super::heap::Heap;

/// The heap, by sizes.
pub struct Malloc;

// SAFETY: as `woodlot_malloc` says.
unsafe impl Heap for Malloc {
    const NAME: &'static str = "malloc";
    const ABOUT: &'static str = "woodlot-malloc: caches of CPUs by restartable sequences";

    #[inline(always)]
    fn alloc(&self, bytes: usize) -> *mut u8 {
        woodlot_malloc::alloc(bytes).map_or(null_mut(), NonNull::as_ptr)
    }

    #[inline(always)]
    fn alloc_zeroed(&self, bytes: usize) -> *mut u8 {
        woodlot_malloc::alloc_zeroed(bytes, woodlot_malloc::MIN_ALIGN)
            .map_or(null_mut(), NonNull::as_ptr)
    }

    #[inline(always)]
    unsafe fn free(&self, block: *mut u8, bytes: usize) {
        // SAFETY: a block that was allocated is not null; the rest is as the caller says.
        unsafe { woodlot_malloc::free_sized(NonNull::new_unchecked(block), bytes) };
    }

    fn flush(&self) {
        woodlot_malloc::trim(0);
    }
}
