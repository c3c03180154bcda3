//! Making a zone, and what one was made of.

use core::ffi::c_int;

use woodlot_frame::{
    Class, ClassPolicy, Construct, FrameAllocator, FrameId, Geometry, Init, InitError, MAX_CLASSES,
    MetadataSize, RawMetadata, Unsupported, ZoneConfig,
};

use crate::error::Error;
use crate::memory::{check, overlap, read, status, write};
use crate::plain::with_geometry;
use crate::types::{Classes, Config, Info, Metadata, MetadataSizes, Sizes};
use crate::zone::{Zone, kind, on_zone, with_type, word};

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_metadata_size(
    config: *const Config,
    out: *mut MetadataSizes,
) -> c_int {
    let size = || {
        check(out)?;
        // SAFETY: as the caller promises.
        let (word, zone) = unsafe { configured(config) }?;
        let MetadataSize { durable: durable_size, volatile: volatile_size } =
            size_of_zone(word, &zone)?;
        // SAFETY: as the caller promises.
        unsafe { write(out, MetadataSizes { durable_size, volatile_size }) }
    };
    status(size())
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_init(
    zone: *mut Zone,
    config: *const Config,
    metadata: *const Metadata,
    mode: u32,
) -> c_int {
    // SAFETY: as the caller promises.
    status(unsafe { init(zone, config, metadata, mode) })
}

unsafe fn init(
    zone: *mut Zone,
    config: *const Config,
    metadata: *const Metadata,
    mode: u32,
) -> Result<(), Error> {
    check(zone)?;
    // SAFETY: as the caller promises.
    let ((word, config), metadata) = unsafe { (configured(config)?, raw(read(metadata)?)?) };
    let mode = match mode {
        0 => Init::Free,
        1 => Init::Allocated,
        2 => Init::Recover,
        _ => return Err(Error::BadMode),
    };
    let size = size_of_zone(word, &config)?;
    metadata.check(size)?;
    let handle = (zone.addr(), size_of::<Zone>());
    let parts = [(metadata.durable.0, size.durable), (metadata.volatile.0, size.volatile)];
    if parts.iter().any(|&(start, len)| overlap(handle, (start.addr(), len))) {
        return Err(Error::Overlap);
    }
    with_type!(word, Engine => {
        // SAFETY: the caller vouches for the metadata.
        let engine = unsafe { Engine::construct(&config, metadata, mode) }?;
        // SAFETY: the caller vouches for the handle.
        unsafe { Zone::fill(zone, engine, word) };
    }, else return Err(Error::BadEngine));
    Ok(())
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_info(zone: *const Zone, out: *mut Info) -> c_int {
    // SAFETY: as the caller promises.
    let numbers = match unsafe { Zone::at(zone) } {
        Ok(zone) => kind(zone.word()),
        Err(error) => return error.into(),
    };
    let info = on_zone!(zone, engine => info(engine, numbers));
    // SAFETY: as the caller promises.
    status(unsafe { write(out, info) })
}

fn info<A: FrameAllocator>(allocator: &A, (engine, geometry): (u32, u32)) -> Info {
    let zone = allocator.zone();
    let huge = zone.huge_range::<A::Geometry>();
    Info {
        start: zone.start.0,
        frames: zone.frames,
        slots: zone.slots,
        first_huge: huge.start.0,
        end_huge: huge.end.0,
        engine,
        geometry,
        unsupported: bits(A::UNSUPPORTED),
        sizes: sizes::<A::Geometry>(),
        classes: classes(&zone.classes),
    }
}

/// `WOODLOT_NO_…` of the header, which has no isolation.
fn bits(unsupported: Unsupported) -> u32 {
    let Unsupported {
        exact_frame,
        partial_free,
        classes,
        offline,
        isolation: _,
        recovery,
        exact_exhaustion,
    } = unsupported;
    let all = [exact_frame, partial_free, classes, offline, recovery, exact_exhaustion];
    all.into_iter().rev().fold(0, |bits, bit| bits << 1 | u32::from(bit))
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_sizes(geometry: u32, out: *mut Sizes) -> c_int {
    let sizes = with_geometry!(geometry, G => sizes::<G>(), else return Error::BadGeometry.into());
    // SAFETY: as the caller promises.
    status(unsafe { write(out, sizes) })
}

fn sizes<G: Geometry>() -> Sizes {
    Sizes {
        base_shift: G::BASE_SHIFT,
        huge_order: G::HUGE_ORDER,
        max_order: G::MAX_ORDER,
        tree_huge: G::TREE_HUGE as u32,
    }
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_shipped_classes(out: *mut Classes) -> c_int {
    // SAFETY: as the caller promises.
    status(unsafe { write(out, classes(&ClassPolicy::SHIPPED)) })
}

/// The word of a zone that is to be made, and the zone.
///
/// # Safety
/// Unless they are null or misaligned, the pointer and that to the classes lead to values.
unsafe fn configured(config: *const Config) -> Result<(u64, ZoneConfig), Error> {
    // SAFETY: as the caller promises.
    let config = unsafe { read(config) }?;
    let word = word(config.engine, config.geometry)?;
    let mut zone = ZoneConfig::new(config.frames, config.slots).starting_at(FrameId(config.start));
    if !config.classes.is_null() {
        // SAFETY: as the caller promises.
        let classes = unsafe { read(config.classes) }?;
        zone = zone.with_classes(policy(&classes).ok_or(Error::BadClasses)?);
    }
    Ok((word, zone))
}

fn size_of_zone(word: u64, zone: &ZoneConfig) -> Result<MetadataSize, Error> {
    let size: Result<_, InitError> =
        with_type!(word, Engine => Engine::metadata_size(zone), else return Err(Error::BadEngine));
    Ok(size?)
}

/// The metadata, of which nothing begins at a null pointer.
fn raw(metadata: Metadata) -> Result<RawMetadata, Error> {
    let Metadata { durable_start, durable_size, volatile_start, volatile_size } = metadata;
    if durable_start.is_null() {
        return Err(Error::DurableNull);
    }
    if volatile_start.is_null() {
        return Err(Error::VolatileNull);
    }
    Ok(RawMetadata {
        durable: (durable_start.cast(), durable_size),
        volatile: (volatile_start.cast(), volatile_size),
    })
}

/// The policy that a structure describes.
fn policy(classes: &Classes) -> Option<ClassPolicy> {
    let count = usize::try_from(classes.count).ok()?;
    let mut rows: [(u8, &[u8]); MAX_CLASSES] = [(0, &[]); MAX_CLASSES];
    let given = classes.fills.iter().zip(&classes.turns);
    for (row, (&fills, turns)) in rows.iter_mut().zip(given) {
        *row = (fills, turns.get(..count)?);
    }
    ClassPolicy::new(rows.get(..count)?)
}

/// The structure that describes a policy; 0 where it has no class.
fn classes(policy: &ClassPolicy) -> Classes {
    let mut classes = Classes {
        count: policy.count() as u32,
        fills: [0; MAX_CLASSES],
        turns: [[0; MAX_CLASSES]; MAX_CLASSES],
    };
    let rows = classes.fills.iter_mut().zip(&mut classes.turns);
    for ((fills, turns), class) in rows.zip(policy.all()) {
        *fills = policy.fills(class).count() as u8;
        for (turn, Class(number)) in turns.iter_mut().zip(policy.turns(class)) {
            *turn = number;
        }
    }
    classes
}
