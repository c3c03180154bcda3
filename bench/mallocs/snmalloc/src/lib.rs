//! `libsnmalloc_preload.so`: snmalloc under the C library's names, since no package of a system has it so.
//!
//! Each call goes to snmalloc's own of the same meaning; what is aligned, to what it has for Rust.

use std::ffi::{c_int, c_void};
use std::ptr;

use snmalloc_sys as sn;

/// Allocates so many bytes.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(bytes: usize) -> *mut c_void {
    // SAFETY: it may be called with any number.
    unsafe { sn::sn_malloc(bytes) }
}

/// Frees a block, or nothing.
///
/// # Safety
/// The block was allocated here, and the caller uses it no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    // SAFETY: as the caller says.
    unsafe { sn::sn_free(block) };
}

/// Allocates `count` times so many bytes, all zero.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    // SAFETY: it may be called with any numbers.
    unsafe { sn::sn_calloc(count, bytes) }
}

/// Makes a block longer or shorter.
///
/// # Safety
/// As for [`free`], if this succeeds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    // SAFETY: as the caller says.
    unsafe { sn::sn_realloc(block, bytes) }
}

/// Allocates at a multiple of `align`, a power of two; null for what is none.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, bytes: usize) -> *mut c_void {
    match align.is_power_of_two() {
        // SAFETY: the alignment is a power of two.
        true => unsafe { sn::sn_rust_alloc(align, bytes.max(1)) },
        false => ptr::null_mut(),
    }
}

/// The old name of [`aligned_alloc`].
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, bytes: usize) -> *mut c_void {
    aligned_alloc(align, bytes)
}

/// Allocates at a multiple of `align`, and returns an error's number.
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
    let block = aligned_alloc(align, bytes);
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: as the caller says.
    unsafe { *out = block };
    0
}

/// Bytes that may be used of a block; 0 of null.
///
/// # Safety
/// The block was allocated here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    // SAFETY: as the caller says.
    unsafe { sn::sn_malloc_usable_size(block) }
}
