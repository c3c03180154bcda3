//! Objects that stay constructed while they are free.

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};

use super::caches::{caches_in, caches_size};
use super::handle::{Built, Held, ObjectsHandle};
use super::look::reached;
use super::parts::Builder;
use super::types::{KmemSeen, ObjectsConfig};
use crate::error::Error;
use crate::memory::{check, overlap, read, status};

/// See the header.
///
/// # Safety
/// See the header, under "Memory" and "Functions".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_objects_init(
    objects: *mut ObjectsHandle,
    config: *const ObjectsConfig,
    caches: *mut c_void,
    size: usize,
) -> c_int {
    // SAFETY: as the caller promises.
    status(unsafe { init(objects, config, caches, size) })
}

unsafe fn init(
    objects: *mut ObjectsHandle,
    config: *const ObjectsConfig,
    start: *mut c_void,
    size: usize,
) -> Result<(), Error> {
    check(objects)?;
    // SAFETY: as the caller promises.
    let ObjectsConfig { cpus, make, unmake } = unsafe { read(config) }?;
    let (Some(make), Some(unmake)) = (make, unmake) else { return Err(Error::NoCallback) };
    let need = caches_size(&cpus)?;
    if size < need {
        return Err(Error::CachesShort);
    }
    let handle = (objects.addr(), size_of::<ObjectsHandle>());
    if overlap(handle, (start.addr(), need)) {
        return Err(Error::Overlap);
    }
    // SAFETY: the caller vouches for functions and memory.
    let caches = unsafe { caches_in(&cpus, start) }?;
    let builder = Builder { context: cpus.context, make, unmake };
    // SAFETY: the caller vouches for the handle.
    unsafe { ObjectsHandle::fill(objects, |place| _ = Built::init(place, caches, builder)) };
    Ok(())
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_objects_alloc(objects: *const ObjectsHandle) -> *mut c_void {
    // SAFETY: as the caller promises.
    let object = unsafe { ObjectsHandle::at(objects) }.ok().and_then(|objects| objects.alloc(0));
    object.map_or(ptr::null_mut(), |object| object.as_ptr().cast())
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_objects_free(
    objects: *const ObjectsHandle,
    object: *mut c_void,
) -> c_int {
    // SAFETY: as the caller promises.
    let objects = unsafe { ObjectsHandle::at(objects) };
    status(objects.and_then(|objects| {
        let object = NonNull::new(object.cast()).ok_or(Error::Null)?;
        // SAFETY: as the caller promises.
        unsafe { objects.free(0, object) };
        Ok(())
    }))
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_objects_flush_cpu(
    objects: *const ObjectsHandle,
    cpu: usize,
) -> c_int {
    // SAFETY: as the caller promises.
    let objects = unsafe { ObjectsHandle::at(objects) };
    status(objects.and_then(|objects| reached(objects.flush_cpu(cpu))))
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_objects_flush_unused(
    objects: *const ObjectsHandle,
    cpu: usize,
    seen: *mut KmemSeen,
) -> c_int {
    // SAFETY: as the caller promises.
    let both = unsafe { ObjectsHandle::at(objects).and_then(|all| Ok((all, KmemSeen::at(seen)?))) };
    status(both.and_then(|(objects, seen)| reached(objects.flush_unused(cpu, seen))))
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_objects_flush_unused_global(
    objects: *const ObjectsHandle,
    seen: *mut KmemSeen,
) -> c_int {
    // SAFETY: as the caller promises.
    let both = unsafe { ObjectsHandle::at(objects).and_then(|all| Ok((all, KmemSeen::at(seen)?))) };
    status(both.map(|(objects, seen)| objects.flush_unused_global(seen)))
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_objects_flush(objects: *const ObjectsHandle) -> c_int {
    // SAFETY: as the caller promises.
    status(unsafe { ObjectsHandle::at(objects) }.map(|objects| objects.flush()))
}
