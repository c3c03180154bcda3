//! The words of a zone in raw memory that the caller supplies.
//!
//! ```text
//!   durable    cells: group 0 │ group 1 │ …
//!   volatile   slots: a line for each │ a line for the zone │ a byte for each root
//! ```

use core::mem::size_of;

use woodlot_frame::atomics::AtomicU64;
use woodlot_frame::{
    Construct, Geometry, Init, InitError, METADATA_ALIGN, MetadataSize, RawMetadata, Region,
    ZoneConfig,
};

use crate::form::Form;
use crate::{Nbbs, Parts};

impl<G: Geometry, F: Form> Construct for Nbbs<'_, G, F> {
    fn metadata_size(config: &ZoneConfig) -> Result<MetadataSize, InitError> {
        let [cells, words, roots] = Parts::<F>::lengths::<G>(config)?;
        Ok(MetadataSize {
            durable: (cells * size_of::<F::Atom>()).next_multiple_of(METADATA_ALIGN),
            volatile: words * size_of::<AtomicU64>() + roots,
        })
    }

    fn metadata_parts(
        config: &ZoneConfig,
        part: &mut dyn FnMut(Region, &'static str, usize),
    ) -> Result<(), InitError> {
        let [_, words, roots] = Parts::<F>::lengths::<G>(config)?;
        part(Region::Durable, "node", Self::metadata_size(config)?.durable);
        part(Region::Volatile, "slot", words * size_of::<AtomicU64>());
        part(Region::Volatile, "root", roots);
        Ok(())
    }

    unsafe fn construct(
        config: &ZoneConfig,
        metadata: RawMetadata,
        init: Init,
    ) -> Result<Self, InitError> {
        metadata.check(Self::metadata_size(config)?)?;
        let [cells, words, roots] = Parts::<F>::lengths::<G>(config)?;
        let volatile = metadata.volatile.0;
        // SAFETY: `check` found both parts aligned to a cache line and long enough for so many
        // cells, words and bytes; the caller vouches for the memory for as long as the allocator is used,
        // and atomics may have any value.
        let parts = unsafe {
            Parts {
                cells: core::slice::from_raw_parts(metadata.durable.0.cast(), cells),
                slots: core::slice::from_raw_parts(volatile.cast(), words),
                spent: core::slice::from_raw_parts(
                    volatile.cast::<AtomicU64>().add(words).cast(),
                    roots,
                ),
            }
        };
        Self::from_parts(config, parts, init)
    }
}
