//! The words of a zone in raw memory that the caller supplies.
//!
//! ```text
//!   durable    rows: a cache line for each huge frame │ their states: a word for two │ flags: a word for 32
//!   volatile   slots: lines for each, and for the zone │ trees: a word for each │ hints: two bytes for each child
//! ```

use core::mem::size_of;

use woodlot_frame::atomics::{AtomicU16, AtomicU64, clear};
use woodlot_frame::{
    Construct, Geometry, Init, InitError, METADATA_ALIGN, MetadataSize, RawMetadata, Region,
    ZoneConfig,
};

use crate::{Lengths, OneWrite, Parts};

/// Bytes of a word.
const WORD: usize = size_of::<AtomicU64>();
/// Bytes of a hint.
const HINT: usize = size_of::<AtomicU16>();

impl<G: Geometry> Construct for OneWrite<'_, G> {
    fn metadata_size(config: &ZoneConfig) -> Result<MetadataSize, InitError> {
        let Lengths { rows, states, flags, slots, trees, hints } = Lengths::of::<G>(config)?;
        Ok(MetadataSize {
            durable: ((rows + states + flags) * WORD).next_multiple_of(METADATA_ALIGN),
            volatile: ((slots + trees) * WORD + hints * HINT).next_multiple_of(METADATA_ALIGN),
        })
    }

    fn metadata_parts(
        config: &ZoneConfig,
        part: &mut dyn FnMut(Region, &'static str, usize),
    ) -> Result<(), InitError> {
        let Lengths { rows, states, flags, slots, trees, hints } = Lengths::of::<G>(config)?;
        part(Region::Durable, "row", rows * WORD);
        part(Region::Durable, "state", states * WORD);
        part(Region::Durable, "flags", flags * WORD);
        part(Region::Volatile, "slot", slots * WORD);
        part(Region::Volatile, "tree", trees * WORD);
        part(Region::Volatile, "hint", hints * HINT);
        Ok(())
    }

    unsafe fn construct(
        config: &ZoneConfig,
        metadata: RawMetadata,
        init: Init,
    ) -> Result<Self, InitError> {
        // SAFETY: as the caller promises.
        let parts = unsafe { Parts::carve::<G>(config, metadata) }?;
        let made = Self::over(config, parts)?;
        let MetadataSize { durable, volatile } = Self::metadata_size(config)?;
        let clear = |start: *mut u8, bytes| {
            // SAFETY: each part has so many bytes and is aligned, as `carve` has found; it is this call's alone, as the caller promises.
            unsafe { clear(core::slice::from_raw_parts(start.cast::<AtomicU64>(), bytes / WORD)) };
        };
        clear(metadata.volatile.0, volatile);
        if init != Init::Recover {
            clear(metadata.durable.0, durable);
        }
        made.start(init);
        Ok(made)
    }
}

impl<G: Geometry> OneWrite<'_, G> {
    /// An allocator over metadata that is in use already, by other processes for instance, or that an earlier user has left with
    /// no call under way: nothing is written. A process that dies in a call leaves frames allocated that nobody owns, at most, and
    /// hints: one that dies at the end of a search in vain, or while it takes offline, brings online, isolates or reclaims, may have others pass over
    /// what is free, or refused, until something else becomes free there. Others go on, and a [recovery](Init::Recover) without them finds
    /// what the bits say.
    ///
    /// # Errors
    /// As [`Construct::construct`].
    ///
    /// # Safety
    /// Each part of `metadata` must be valid for reads and writes of its length as long as the allocator is used, and hold what
    /// an allocator of the same configuration, geometry and version of this crate has made and keeps in it. Others may use it
    /// by such allocators only.
    pub unsafe fn attach(config: &ZoneConfig, metadata: RawMetadata) -> Result<Self, InitError> {
        // SAFETY: as the caller promises; what allocators share, they access by atomics.
        let parts = unsafe { Parts::carve::<G>(config, metadata) }?;
        Self::over(config, parts)
    }
}

impl Parts<'_> {
    /// The atomics of metadata.
    ///
    /// # Safety
    /// Each part must be valid for reads and writes of its length for as long as these are used, and written by atomics only.
    unsafe fn carve<G: Geometry>(
        config: &ZoneConfig,
        metadata: RawMetadata,
    ) -> Result<Self, InitError> {
        metadata.check(OneWrite::<G>::metadata_size(config)?)?;
        let Lengths { rows, states, flags, slots, trees, hints } = Lengths::of::<G>(config)?;
        let durable = metadata.durable.0.cast::<AtomicU64>();
        let volatile = metadata.volatile.0.cast::<AtomicU64>();
        // SAFETY: `check` found both parts aligned to a cache line and long enough for so many
        // words and hints; the caller vouches for the memory, and atomics may have any value.
        Ok(unsafe {
            Parts {
                rows: core::slice::from_raw_parts(durable, rows),
                states: core::slice::from_raw_parts(durable.add(rows), states),
                flags: core::slice::from_raw_parts(durable.add(rows + states), flags),
                slots: core::slice::from_raw_parts(volatile, slots),
                trees: core::slice::from_raw_parts(volatile.add(slots), trees),
                hints: core::slice::from_raw_parts(volatile.add(slots + trees).cast(), hints),
            }
        })
    }
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use woodlot_frame::atomics::Ordering;
    use woodlot_frame::{
        Base4K, Base64K, ClassPolicy, FrameAllocator, METADATA_ALIGN, Order, Request, Slot,
    };

    /// The parts of a zone of 1 GiB and one slot, and all of it.
    fn sizes<G: Geometry>() -> ([usize; 6], MetadataSize) {
        let config = ZoneConfig::new((1 << 30) >> G::BASE_SHIFT, 1);
        let config = config.with_classes(ClassPolicy::SHIPPED);
        let (mut sizes, mut count) = ([0; 6], 0);
        let mut part = |region, _: &str, bytes| {
            assert_eq!(region == Region::Durable, count < 3, "part {count}");
            (sizes[count], count) = (bytes, count + 1);
        };
        let named = OneWrite::<G>::metadata_parts(&config, &mut part);
        assert_eq!((named, count), (Ok(()), 6));
        (sizes, OneWrite::<G>::metadata_size(&config).expect("a zone"))
    }

    /// A huge frame has its rows, half a word, and two bytes; 32 of them, a word in either part; a slot with four classes 45 cache lines, and the zone three.
    #[test]
    fn the_parts_are_all_of_it() {
        let (parts, size) = sizes::<Base4K>();
        assert_eq!(parts, [512 * 64, 512 * 4, 16 * 8, (328 + 24 + 4 * 8) * 8, 16 * 8, 512 * 2]);
        assert_eq!((size.durable, size.volatile), (34_944, 4224));
        let (parts, size) = sizes::<Base64K>();
        assert_eq!(parts[..3], [512 * 8, 512 * 4, 16 * 8]);
        assert_eq!([size.durable, size.volatile], [0..3, 3..6].map(|of| parts[of].iter().sum()));
    }

    /// Metadata is aligned so.
    #[repr(C, align(64))]
    struct Line([u64; 8]);

    #[test]
    fn who_attaches_finds_what_others_have() {
        assert_eq!(align_of::<Line>(), METADATA_ALIGN);
        let config = ZoneConfig::new(Base4K::TREE_FRAMES, 2);
        let size = OneWrite::<Base4K>::metadata_size(&config).expect("a zone");
        // More than both parts take.
        let mut lines = [const { [const { Line([!0; 8]) }; 128] }; 2];
        assert!(size.durable.max(size.volatile) <= size_of_val(&lines[0]), "{size:?}");
        let [durable, volatile] = lines.each_mut().map(|part| part.as_mut_ptr().cast());
        let metadata =
            RawMetadata { durable: (durable, size.durable), volatile: (volatile, size.volatile) };
        // SAFETY: nobody else uses the memory, which outlives both.
        let (one, other) = unsafe {
            let one = OneWrite::<Base4K>::construct(&config, metadata, Init::Free);
            (one.expect("a zone"), OneWrite::<Base4K>::attach(&config, metadata).expect("the same"))
        };
        // A row that is opened is written whole, so nothing else shows what was left in one that was not.
        assert!(one.rows.iter().all(|row| row.load(Ordering::Relaxed) == 0));
        let frame = one.alloc(Request::movable(Order(3), Slot(0))).expect("all is free");
        assert!(
            !other.is_free(frame, Order(0)) && other.can_free(frame, Order(3), Slot(1)).is_ok()
        );
        assert_eq!(other.free_frames(), config.frames - 8);
        other.free(frame, Order(3), Slot(1)).expect("it is allocated");
        assert!(one.is_free(frame, Order(9)));
        let none = RawMetadata { durable: (metadata.durable.0, 0), ..metadata };
        // SAFETY: it is refused.
        let refused = unsafe { OneWrite::<Base4K>::attach(&config, none) };
        assert!(matches!(refused, Err(InitError::Short { region: Region::Durable, .. })));
    }
}
