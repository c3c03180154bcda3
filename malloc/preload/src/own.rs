//! What the library has beside the malloc family: `woodlot_malloc.h`, where each call is documented.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use woodlot_malloc as heap;
use woodlot_malloc::outside::{Caches, LookError, NoReading, SizeSnapshot, Snapshot, look_here};

use crate::out::{Form, print};

/// `struct woodlot_malloc_heap`.
#[repr(C)]
pub struct Heap {
    caches: u32,
    size_count: u32,
    aborts: u64,
    span_count: usize,
    span_bytes: usize,
    large_count: usize,
    large_bytes: usize,
    free_pages: usize,
    resident_bytes: usize,
}

/// `WOODLOT_MALLOC_NOT_COUNTED`.
const NOT_COUNTED: u64 = u64::MAX;

/// `struct woodlot_malloc_size`.
#[repr(C)]
pub struct Size {
    bytes: usize,
    target: usize,
    in_use: usize,
    cached: usize,
    global: usize,
    in_slabs: usize,
    pages: usize,
    cache_allocs: u64,
    cache_alloc_misses: u64,
    cache_frees: u64,
    cache_free_misses: u64,
    global_alloc_misses: u64,
    global_free_misses: u64,
    slabs_made: u64,
    slabs_freed: u64,
}

impl From<&Snapshot> for Heap {
    fn from(seen: &Snapshot) -> Heap {
        Heap {
            caches: match seen.caches {
                Caches::None => 0,
                Caches::Cpus => 1,
                Caches::Threads => 2,
            },
            size_count: seen.sizes().len() as u32,
            aborts: seen.aborts,
            span_count: seen.spans.count,
            span_bytes: seen.spans.bytes,
            large_count: seen.large.count,
            large_bytes: seen.large.bytes,
            free_pages: seen.free_pages(),
            resident_bytes: seen.resident,
        }
    }
}

impl From<&SizeSnapshot> for Size {
    fn from(seen: &SizeSnapshot) -> Size {
        Size {
            bytes: seen.bytes,
            target: seen.target,
            in_use: seen.in_use,
            cached: seen.cached,
            global: seen.global_blocks,
            in_slabs: seen.slab_free,
            pages: seen.pages,
            cache_allocs: seen.cpu.allocs.unwrap_or(NOT_COUNTED),
            cache_alloc_misses: seen.cpu.alloc_misses,
            cache_frees: seen.cpu.frees.unwrap_or(NOT_COUNTED),
            cache_free_misses: seen.cpu.free_misses,
            global_alloc_misses: seen.global.alloc_misses,
            global_free_misses: seen.global.free_misses,
            slabs_made: seen.slabs_made,
            slabs_freed: seen.slabs_freed,
        }
    }
}

/// Calls, and leaves *errno* as it was.
fn keeping_errno<R>(call: impl FnOnce() -> R) -> R {
    // SAFETY: the thread's own errno.
    let errno = unsafe { *libc::__errno_location() };
    let result = call();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    result
}

/// See the header.
///
/// # Safety
/// Unless it is null, `heap` may be written, and `sizes` has so much room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_malloc_look(
    heap: *mut Heap,
    sizes: *mut Size,
    room: usize,
) -> c_int {
    let seen = match keeping_errno(look_here) {
        Ok(seen) => seen,
        Err(LookError::Read(NoReading(errno))) => return errno,
        Err(_) => return libc::EIO,
    };
    // SAFETY: as the caller says.
    unsafe {
        if !heap.is_null() {
            heap.write(Heap::from(&seen));
        }
        if !sizes.is_null() {
            let sizes = (0..room).map(|at| sizes.add(at));
            sizes.zip(seen.sizes()).for_each(|(place, size)| place.write(Size::from(size)));
        }
    }
    0
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_malloc_print(fd: c_int, form: u32) -> c_int {
    let form = match form {
        0 => Form::Text,
        1 => Form::Json,
        _ => return libc::EINVAL,
    };
    keeping_errno(|| print(fd, form)).map_or(libc::EIO, |()| 0)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_malloc_flush() {
    heap::flush();
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_malloc_trim(keep: usize) -> usize {
    heap::trim(keep)
}

/// See the header.
///
/// # Safety
/// The block was allocated here for so many bytes, at no alignment of its own, and the caller uses it no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(block: *mut c_void, bytes: usize) {
    if let Some(block) = NonNull::new(block.cast()) {
        // SAFETY: as the caller says.
        unsafe { heap::free_sized(block, bytes) };
    }
}

/// See the header.
///
/// # Safety
/// The block was allocated here for so many bytes at a multiple of `align`, and the caller uses it no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(block: *mut c_void, align: usize, bytes: usize) {
    if let Some(block) = NonNull::new(block.cast()) {
        // SAFETY: as the caller says.
        unsafe { heap::free_aligned(block, bytes, align) };
    }
}
