//! The heap as Rust's allocators.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};

use crate::heap;

/// The heap of the process, for `#[global_allocator]` and for containers with an allocator. All values are the same heap.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Woodlot;

fn pointer(block: Option<NonNull<u8>>) -> *mut u8 {
    block.map_or(ptr::null_mut(), NonNull::as_ptr)
}

impl Woodlot {
    /// # Safety
    /// The block was allocated here with this layout, and the caller uses it no more.
    #[inline]
    unsafe fn free(block: NonNull<u8>, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { heap::free_aligned(block, layout.size(), layout.align()) };
    }
}

// SAFETY: blocks are as large and aligned as a layout says, and nobody else's until they are freed.
unsafe impl GlobalAlloc for Woodlot {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        pointer(heap::alloc_aligned(layout.size(), layout.align()))
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        pointer(heap::alloc_zeroed(layout.size(), layout.align()))
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: a block that was allocated is not at address 0.
        unsafe { Woodlot::free(NonNull::new_unchecked(block), layout) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as above, and as the caller says.
        pointer(unsafe { heap::resize(NonNull::new_unchecked(block), bytes, layout.align()) })
    }
}

/// The bytes of a block that a layout asks for.
#[cfg(feature = "allocator-api2")]
fn slice(
    block: Option<NonNull<u8>>,
    layout: Layout,
) -> Result<NonNull<[u8]>, allocator_api2::alloc::AllocError> {
    let block = block.ok_or(allocator_api2::alloc::AllocError)?;
    Ok(NonNull::slice_from_raw_parts(block, layout.size()))
}

#[cfg(feature = "allocator-api2")]
// SAFETY: as above; all values are the same heap, which stays.
unsafe impl allocator_api2::alloc::Allocator for Woodlot {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, allocator_api2::alloc::AllocError> {
        slice(heap::alloc_aligned(layout.size(), layout.align()), layout)
    }

    #[inline]
    fn allocate_zeroed(
        &self,
        layout: Layout,
    ) -> Result<NonNull<[u8]>, allocator_api2::alloc::AllocError> {
        slice(heap::alloc_zeroed(layout.size(), layout.align()), layout)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { Woodlot::free(block, layout) };
    }
}
