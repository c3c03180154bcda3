//! `libsnmalloc_preload.so`: snmalloc under the C library's names, since no package of a system has it so.
//!
//! Each call goes to snmalloc's own of the same meaning.

use std::ffi::{c_int, c_void};

use snmalloc_sys as sn;

// What the library has that the crate links, and the crate does not declare.
unsafe extern "C" {
    fn sn_aligned_alloc(align: usize, bytes: usize) -> *mut c_void;
    fn sn_memalign(align: usize, bytes: usize) -> *mut c_void;
    fn sn_posix_memalign(out: *mut *mut c_void, align: usize, bytes: usize) -> c_int;
}

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

/// Allocates at a multiple of `align`, a power of two.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, bytes: usize) -> *mut c_void {
    // SAFETY: it may be called with any numbers.
    unsafe { sn_aligned_alloc(align, bytes) }
}

/// The old name of [`aligned_alloc`].
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, bytes: usize) -> *mut c_void {
    // SAFETY: as above.
    unsafe { sn_memalign(align, bytes) }
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
    // SAFETY: as the caller says.
    unsafe { sn_posix_memalign(out, align, bytes) }
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
