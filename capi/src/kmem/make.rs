//! Making an allocator.

use core::ffi::c_int;
use core::ptr::NonNull;

use woodlot_frame::FrameAllocator;
use woodlot_kmem::{Descriptor, Direct, Marks, PAGE};

use super::caches::{caches_in, caches_size, counted};
use super::handle::{Held, KmemHandle, Small};
use super::parts::{CHECKED, Frames, Told};
use super::types::{KmemConfig, KmemMemory, KmemSizes};
use crate::error::Error;
use crate::memory::{check, overlap, read, status, write};
#[cfg(feature = "nbbs")]
use crate::zone::NBBS;
#[cfg(feature = "onewrite")]
use crate::zone::ONEWRITE;
use crate::zone::{BASE_4K, LLFREE, Zone, kind, on_zone_or};

/// A descriptor, and marks where there are any.
const BYTES_A_FRAME: usize = size_of::<Descriptor>() + if CHECKED { size_of::<Marks>() } else { 0 };
const _: () = assert!(align_of::<Marks>() == align_of::<Descriptor>());

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_kmem_memory_size(
    config: *const KmemConfig,
    out: *mut KmemSizes,
) -> c_int {
    let size = || {
        check(out)?;
        // SAFETY: as the caller promises.
        let config = unsafe { read(config) }?;
        // SAFETY: as the caller promises.
        let need = unsafe { sizes(&config) }?;
        // SAFETY: as the caller promises.
        unsafe { write(out, need) }
    };
    status(size())
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory" and "Functions".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_kmem_init(
    kmem: *mut KmemHandle,
    config: *const KmemConfig,
    memory: *const KmemMemory,
) -> c_int {
    // SAFETY: as the caller promises.
    status(unsafe { init(kmem, config, memory) })
}

unsafe fn init(
    kmem: *mut KmemHandle,
    config: *const KmemConfig,
    memory: *const KmemMemory,
) -> Result<(), Error> {
    check(kmem)?;
    // SAFETY: as the caller promises.
    let (config, memory) = unsafe { (read(config)?, read(memory)?) };
    // SAFETY: as the caller promises.
    let need = unsafe { sizes(&config) }?;
    if config.base.is_null() {
        return Err(Error::Null);
    }
    if !config.base.addr().is_multiple_of(PAGE) {
        return Err(Error::Unaligned);
    }
    if memory.caches_size < need.caches_size {
        return Err(Error::CachesShort);
    }
    if memory.descriptors_size < need.descriptors_size {
        return Err(Error::DescriptorsShort);
    }
    let handle = (kmem.addr(), size_of::<KmemHandle>());
    let caches = (memory.caches_start.addr(), need.caches_size);
    let descriptors = (memory.descriptors_start.addr(), need.descriptors_size);
    if overlap(handle, caches) || overlap(handle, descriptors) || overlap(caches, descriptors) {
        return Err(Error::Overlap);
    }
    check(memory.descriptors_start.cast::<Descriptor>())?;
    // SAFETY: the caller vouches for functions and memory.
    let caches = counted(unsafe { caches_in(&config.cpus, memory.caches_start) }?);
    // SAFETY: as above: so many bytes are there, and zeros are descriptors, and marks, which are aligned as they are.
    let (descriptors, marks) = unsafe {
        memory.descriptors_start.write_bytes(0, need.descriptors_size);
        let count = need.descriptors_size / BYTES_A_FRAME;
        let descriptors = memory.descriptors_start.cast::<Descriptor>();
        let marks = descriptors.add(count).cast::<Marks>();
        let marked = if CHECKED { count } else { 0 };
        (
            core::slice::from_raw_parts(descriptors, count),
            core::slice::from_raw_parts(marks, marked),
        )
    };
    // SAFETY: as above.
    let pages = unsafe { frames(&config, descriptors) }?;
    let KmemConfig { misuse, reclaim, .. } = config;
    let told = Told { context: config.cpus.context, misuse, reclaim, marks };
    // SAFETY: the caller vouches for the handle.
    unsafe { KmemHandle::fill(kmem, |place| _ = Small::init(place, caches, pages, told)) };
    Ok(())
}

/// # Safety
/// Unless it is null or misaligned, the zone's pointer leads to a handle.
unsafe fn sizes(config: &KmemConfig) -> Result<KmemSizes, Error> {
    let caches_size = caches_size(&config.cpus)?;
    // SAFETY: as the caller says.
    let zone = unsafe { Zone::at(config.zone) }?;
    let frames = on_zone_or!(config.zone, engine => engine.zone().frames, error => Err(error));
    if kind(zone.word()).1 != BASE_4K {
        return Err(Error::BadGeometry);
    }
    if frames >= u32::MAX as usize {
        return Err(Error::ZoneTooLarge);
    }
    Ok(KmemSizes { caches_size, descriptors_size: frames * BYTES_A_FRAME })
}

/// # Safety
/// The zone was made, its memory lies at `base`, and there is a descriptor for each frame.
unsafe fn frames(config: &KmemConfig, descriptors: &'static [Descriptor]) -> Result<Frames, Error> {
    let base = NonNull::new(config.base.cast::<u8>()).ok_or(Error::Null)?;
    // SAFETY: as the caller says.
    let zone = unsafe { Zone::at::<'static>(config.zone) }?;
    // SAFETY: the word says which engine it is, and that frames have 4 KiB, as was checked; the rest is the caller's promise.
    let pages = unsafe {
        match kind(zone.word()).0 {
            LLFREE => Direct::new(zone.engine(), base, descriptors).map(Frames::LLFree),
            #[cfg(feature = "nbbs")]
            NBBS => Direct::new(zone.engine(), base, descriptors).map(Frames::Nbbs),
            #[cfg(feature = "onewrite")]
            ONEWRITE => Direct::new(zone.engine(), base, descriptors).map(Frames::OneWrite),
            _ => None,
        }
    };
    pages.ok_or(Error::Unknown)
}
