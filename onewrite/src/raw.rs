//! The words of a zone in raw memory that the caller supplies.
//!
//! ```text
//!   durable    rows: a cache line for each huge frame │ children: a word for each
//!   volatile   slots: lines for each, and for the zone │ trees: a word for each │ hints: two bytes for each child
//! ```

use core::mem::size_of;

use woodlot_frame::atomics::{AtomicU16, AtomicU64};
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
        let Lengths { rows, children, slots, trees } = Lengths::of::<G>(config)?;
        Ok(MetadataSize {
            durable: ((rows + children) * WORD).next_multiple_of(METADATA_ALIGN),
            volatile: ((slots + trees) * WORD + children * HINT).next_multiple_of(METADATA_ALIGN),
        })
    }

    fn metadata_parts(
        config: &ZoneConfig,
        part: &mut dyn FnMut(Region, &'static str, usize),
    ) -> Result<(), InitError> {
        let Lengths { rows, children, slots, trees } = Lengths::of::<G>(config)?;
        part(Region::Durable, "row", rows * WORD);
        part(Region::Durable, "child", children * WORD);
        part(Region::Volatile, "slot", slots * WORD);
        part(Region::Volatile, "tree", trees * WORD);
        part(Region::Volatile, "hint", children * HINT);
        Ok(())
    }

    unsafe fn construct(
        config: &ZoneConfig,
        metadata: RawMetadata,
        init: Init,
    ) -> Result<Self, InitError> {
        metadata.check(Self::metadata_size(config)?)?;
        let Lengths { rows, children, slots, trees } = Lengths::of::<G>(config)?;
        let durable = metadata.durable.0.cast::<AtomicU64>();
        let volatile = metadata.volatile.0.cast::<AtomicU64>();
        // SAFETY: `check` found both parts aligned to a cache line and long enough for so many
        // words and hints; the caller vouches for the memory for as long as the allocator is used,
        // and atomics may have any value.
        let parts = unsafe {
            Parts {
                rows: core::slice::from_raw_parts(durable, rows),
                children: core::slice::from_raw_parts(durable.add(rows), children),
                slots: core::slice::from_raw_parts(volatile, slots),
                trees: core::slice::from_raw_parts(volatile.add(slots), trees),
                hints: core::slice::from_raw_parts(volatile.add(slots + trees).cast(), children),
            }
        };
        Self::from_parts(config, parts, init)
    }
}
