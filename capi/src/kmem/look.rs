//! What an allocator has, and giving back what its caches keep.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

use super::handle::{Held, KmemHandle};
use super::types::{KmemSeen, KmemStats};
use crate::error::Error;
use crate::memory::{check, status, write};

/// What is wrong where a CPU could not be reached.
pub(super) fn reached(is: bool) -> Result<(), Error> {
    is.then_some(()).ok_or(Error::Unreachable)
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_kmem_usable(
    kmem: *const KmemHandle,
    block: *const c_void,
) -> usize {
    // SAFETY: as the caller promises.
    let kmem = unsafe { KmemHandle::at(kmem) }.ok();
    let block = NonNull::new(block.cast_mut().cast());
    kmem.zip(block).and_then(|(kmem, block)| kmem.usable(block)).unwrap_or(0)
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_kmem_flush_cpu(kmem: *const KmemHandle, cpu: usize) -> c_int {
    // SAFETY: as the caller promises.
    let kmem = unsafe { KmemHandle::at(kmem) };
    status(kmem.and_then(|kmem| reached(kmem.flush_cpu(cpu))))
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_kmem_flush_unused(
    kmem: *const KmemHandle,
    cpu: usize,
    seen: *mut KmemSeen,
) -> c_int {
    // SAFETY: as the caller promises.
    let both = unsafe { KmemHandle::at(kmem).and_then(|kmem| Ok((kmem, KmemSeen::at(seen)?))) };
    status(both.and_then(|(kmem, seen)| reached(kmem.flush_unused(cpu, seen))))
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_kmem_flush_unused_global(
    kmem: *const KmemHandle,
    seen: *mut KmemSeen,
) -> c_int {
    // SAFETY: as the caller promises.
    let both = unsafe { KmemHandle::at(kmem).and_then(|kmem| Ok((kmem, KmemSeen::at(seen)?))) };
    status(both.map(|(kmem, seen)| kmem.flush_unused_global(seen)))
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_kmem_flush(kmem: *const KmemHandle) -> c_int {
    // SAFETY: as the caller promises.
    status(unsafe { KmemHandle::at(kmem) }.map(|kmem| kmem.flush()))
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_kmem_size(
    kmem: *const KmemHandle,
    number: usize,
    out: *mut KmemStats,
) -> c_int {
    let stats = || {
        // SAFETY: as the caller promises.
        let kmem = unsafe { KmemHandle::at(kmem) }?;
        check(out)?;
        let stats = kmem.stats(number).ok_or(Error::NoMore)?;
        // SAFETY: as the caller promises.
        unsafe { write(out, stats.into()) }
    };
    status(stats())
}
