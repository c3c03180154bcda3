//! `libwoodlot_malloc.so`: the C library's names for the heap of Woodlot.
//!
//! `LD_PRELOAD=libwoodlot_malloc.so program` has the program allocate here. Each call does what POSIX, or the manual of
//! glibc, says of it. *errno* is set where a call fails, and nowhere else.

mod exit;
mod out;
mod own;
mod told;
#[cfg(target_arch = "x86_64")]
mod vfork;
// Its functions know of no marks, and count nothing.
#[cfg(all(target_arch = "x86_64", not(any(feature = "checked", feature = "counted"))))]
mod x86_64;

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};

#[cfg(target_arch = "x86_64")]
pub use vfork::vfork;
use woodlot_malloc as heap;
#[cfg(all(target_arch = "x86_64", not(any(feature = "checked", feature = "counted"))))]
pub use x86_64::{free, malloc};

/// Bytes of a page.
const PAGE: usize = 4096;

fn set_errno(errno: c_int) {
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() = errno };
}

/// A block for C; without one, `ENOMEM` and null.
#[inline(always)]
fn pointer(block: Option<NonNull<u8>>) -> *mut c_void {
    match block {
        Some(block) => block.as_ptr().cast(),
        None => no_memory(),
    }
}

#[cold]
fn no_memory() -> *mut c_void {
    set_errno(libc::ENOMEM);
    ptr::null_mut()
}

/// The block that C names, unless it is null.
#[inline(always)]
fn block(pointer: *mut c_void) -> Option<NonNull<u8>> {
    NonNull::new(pointer.cast())
}

/// Allocates so many bytes.
#[cfg(any(not(target_arch = "x86_64"), feature = "checked", feature = "counted"))]
#[unsafe(no_mangle)]
pub extern "C" fn malloc(bytes: usize) -> *mut c_void {
    match heap::alloc_cached(bytes) {
        Some(block) => block.as_ptr().cast(),
        None => malloc_slowly(bytes),
    }
}

/// Frees a block, or nothing.
///
/// # Safety
/// The block was allocated here, and the caller uses it no more.
#[cfg(any(not(target_arch = "x86_64"), feature = "checked", feature = "counted"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(pointer: *mut c_void) {
    // SAFETY: as the caller says.
    unsafe {
        if !heap::free_cached(pointer.cast()) {
            free_slowly(pointer);
        }
    }
}

/// What [`malloc`] goes on with where the CPU's cache has no block at hand.
#[cold]
extern "C" fn malloc_slowly(bytes: usize) -> *mut c_void {
    pointer(heap::alloc(bytes))
}

/// What [`free`] goes on with where the CPU's cache has no room at hand.
///
/// # Safety
/// As for [`free`].
#[cold]
unsafe extern "C" fn free_slowly(pointer: *mut c_void) {
    if let Some(block) = block(pointer) {
        // SAFETY: as the caller says.
        unsafe { heap::free(block) };
    }
}

/// The old name of [`free`].
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(pointer: *mut c_void) {
    // SAFETY: as the caller says.
    unsafe { free(pointer) };
}

/// Allocates `count` times so many bytes, all zero.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    let bytes = count.checked_mul(bytes);
    pointer(bytes.and_then(|bytes| heap::alloc_zeroed(bytes, heap::MIN_ALIGN)))
}

/// Makes a block longer or shorter. Null is as an empty block; no bytes: the block is freed.
///
/// # Safety
/// As for [`free`], if this succeeds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(old: *mut c_void, bytes: usize) -> *mut c_void {
    let Some(block) = block(old) else { return malloc(bytes) };
    if bytes == 0 {
        // SAFETY: as the caller says.
        unsafe { heap::free(block) };
        return ptr::null_mut();
    }
    // SAFETY: as the caller says.
    pointer(unsafe { heap::resize(block, bytes, heap::MIN_ALIGN) })
}

/// [`realloc`] for `count` times so many bytes.
///
/// # Safety
/// As for [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(old: *mut c_void, count: usize, bytes: usize) -> *mut c_void {
    match count.checked_mul(bytes) {
        // SAFETY: as the caller says.
        Some(bytes) => unsafe { realloc(old, bytes) },
        None => no_memory(),
    }
}

/// Allocates at a multiple of `align`, a power of two.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, bytes: usize) -> *mut c_void {
    if !align.is_power_of_two() {
        set_errno(libc::EINVAL);
        return ptr::null_mut();
    }
    pointer(heap::alloc_aligned(bytes, align))
}

/// The old name of [`aligned_alloc`]. What is no power of two is rounded up to one, as glibc does.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, bytes: usize) -> *mut c_void {
    match align.checked_next_power_of_two() {
        Some(align) => aligned_alloc(align, bytes),
        None => {
            set_errno(libc::EINVAL);
            ptr::null_mut()
        }
    }
}

/// Allocates at a multiple of `align`, a power of two and a multiple of a pointer's size. Returns an error's number, and
/// leaves *errno* as it is.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    out: *mut *mut c_void,
    align: usize,
    bytes: usize,
) -> c_int {
    if !align.is_power_of_two() || align < size_of::<*mut c_void>() {
        return libc::EINVAL;
    }
    let Some(block) = heap::alloc_aligned(bytes, align) else { return libc::ENOMEM };
    // SAFETY: as the caller says.
    unsafe { *out = block.as_ptr().cast() };
    0
}

/// Allocates at a multiple of a page.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(bytes: usize) -> *mut c_void {
    aligned_alloc(PAGE, bytes)
}

/// The same, whole pages.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
    bytes.checked_next_multiple_of(PAGE).map_or_else(no_memory, |bytes| valloc(bytes))
}

/// Bytes that may be used of a block; 0 of null.
///
/// # Safety
/// The block was allocated here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(pointer: *mut c_void) -> usize {
    block(pointer).map_or(0, heap::usable)
}

/// Gives free memory to the system, but for so many bytes. 1, if there was any.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(keep: usize) -> c_int {
    c_int::from(heap::trim(keep) > 0)
}
