//! Allocating and freeing.

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};

use woodlot_kmem::{Cookie, Quarters};

use super::handle::{Held, KmemHandle, Small};
use super::types::KmemCookie;
use crate::error::Error;
use crate::memory::status;

/// Blocks for C: null, where there is none or no allocator.
unsafe fn hand_out(
    kmem: *const KmemHandle,
    alloc: impl FnOnce(&Small) -> Option<NonNull<u8>>,
) -> *mut c_void {
    // SAFETY: as the caller of the call promises.
    let block = unsafe { KmemHandle::at(kmem) }.ok().and_then(alloc);
    block.map_or(ptr::null_mut(), |block| block.as_ptr().cast())
}

/// Frees a block that is not null.
unsafe fn take_back(
    kmem: *const KmemHandle,
    block: *mut c_void,
    free: impl FnOnce(&Small, NonNull<u8>) -> Result<(), Error>,
) -> c_int {
    // SAFETY: as the caller of the call promises.
    let kmem = unsafe { KmemHandle::at(kmem) };
    status(kmem.and_then(|kmem| free(kmem, NonNull::new(block.cast()).ok_or(Error::Null)?)))
}

fn cookie(cookie: KmemCookie) -> Result<Cookie<Quarters>, Error> {
    Cookie::of_number(cookie.number as usize).ok_or(Error::TooLarge)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_kmem_cookie(bytes: usize) -> KmemCookie {
    match Cookie::<Quarters>::new(bytes) {
        Some(cookie) => KmemCookie { number: cookie.number() as u32, error: 0 },
        None => KmemCookie { number: u32::MAX, error: Error::TooLarge.into() },
    }
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_kmem_alloc(kmem: *const KmemHandle, bytes: usize) -> *mut c_void {
    // SAFETY: as the caller promises.
    unsafe { hand_out(kmem, |kmem| kmem.alloc(bytes)) }
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_kmem_alloc_aligned(
    kmem: *const KmemHandle,
    bytes: usize,
    align: usize,
) -> *mut c_void {
    if !align.is_power_of_two() {
        return ptr::null_mut();
    }
    // SAFETY: as the caller promises.
    unsafe { hand_out(kmem, |kmem| kmem.alloc_aligned(bytes, align)) }
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_kmem_alloc_cookie(
    kmem: *const KmemHandle,
    number: KmemCookie,
) -> *mut c_void {
    // SAFETY: as the caller promises.
    unsafe { hand_out(kmem, |kmem| kmem.alloc_cookie(cookie(number).ok()?)) }
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_kmem_free(
    kmem: *const KmemHandle,
    block: *mut c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        take_back(kmem, block, |kmem, block| {
            kmem.free(block, bytes);
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_kmem_free_aligned(
    kmem: *const KmemHandle,
    block: *mut c_void,
    bytes: usize,
    align: usize,
) -> c_int {
    if !align.is_power_of_two() {
        return Error::Misaligned.into();
    }
    // SAFETY: as the caller promises.
    unsafe {
        take_back(kmem, block, |kmem, block| {
            kmem.free_aligned(block, bytes, align);
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_kmem_free_cookie(
    kmem: *const KmemHandle,
    block: *mut c_void,
    number: KmemCookie,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        take_back(kmem, block, |kmem, block| {
            kmem.free_cookie(cookie(number)?, block);
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_kmem_free_any(
    kmem: *const KmemHandle,
    block: *mut c_void,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        take_back(kmem, block, |kmem, block| {
            kmem.free_any(block);
            Ok(())
        })
    }
}
