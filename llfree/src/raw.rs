//! The words of a zone in raw memory that the caller supplies.
//!
//! ```text
//!   durable    rows │ states │ intents, if there are any: a record for each slot, from a page of its own
//!   volatile   totals │ slots │ masks │ leaves │ trees │ children      each from a cache line of its own
//! ```

use core::mem::size_of;

use woodlot_frame::{
    Construct, Geometry, Init, InitError, METADATA_ALIGN, MetadataSize, Persistence, RawMetadata,
    Region, Volatile, ZoneConfig,
};

use crate::init::{Counts, counts};
use crate::line::Line;
use crate::lower::TreeStates;
use crate::record::RecordLine;
use crate::{LLFree, Parts, Tuning};

/// The bytes that `words` words take, rounded up to a cache line.
fn bytes<W>(words: usize) -> usize {
    (words * size_of::<W>()).next_multiple_of(METADATA_ALIGN)
}

/// What records begin at a multiple of: a page. So a record whose length divides a page lies in one.
const RECORDS_AT: usize = 4096;

impl Counts {
    /// Bytes of the durable part before the records.
    fn before_records(&self, records: usize) -> usize {
        let before = bytes::<u64>(self.rows) + bytes::<TreeStates>(self.states);
        if records == 0 { before } else { before.next_multiple_of(RECORDS_AT) }
    }

    fn size(&self, records: usize) -> MetadataSize {
        let volatile = [self.totals, self.slots, self.masks, self.leaves].map(bytes::<u64>);
        let entries = bytes::<Line<u64>>(self.trees) + bytes::<u32>(self.children);
        MetadataSize {
            durable: self.before_records(records) + bytes::<RecordLine>(records),
            volatile: volatile.iter().sum::<usize>() + entries,
        }
    }
}

impl<'a> Parts<'a> {
    /// Lays the words out in raw memory.
    ///
    /// # Safety
    /// As for [`Construct::construct`], for `'a`.
    pub(crate) unsafe fn carve<G: Geometry, P: Persistence>(
        zone: &ZoneConfig,
        metadata: RawMetadata,
    ) -> Result<Self, InitError> {
        let counts = counts::<G>(zone)?;
        let records = Parts::records::<P>(zone)?;
        metadata.check(counts.size(records))?;
        let mut durable = metadata.durable.0;
        let before_records = counts.before_records(records);
        let mut volatile = metadata.volatile.0;
        // SAFETY: `check` found both parts aligned to a cache line and at least as long as the
        // sum of the pieces taken here, each of which is a multiple of a cache line; the caller
        // vouches for the memory, and atomics may have any value.
        unsafe {
            Ok(Parts {
                intents: take(&mut durable.add(before_records), records),
                rows: take(&mut durable, counts.rows),
                states: take(&mut durable, counts.states),
                totals: take(&mut volatile, counts.totals),
                slots: take(&mut volatile, counts.slots),
                masks: take(&mut volatile, counts.masks),
                leaves: take(&mut volatile, counts.leaves),
                trees: take(&mut volatile, counts.trees),
                children: take(&mut volatile, counts.children),
            })
        }
    }
}

/// The next `words` words of a region.
///
/// # Safety
/// `region` must point to that much initialised memory, aligned for `W`, whose words may have any
/// value, shared by atomic access only for `'a`.
unsafe fn take<'a, W>(region: &mut *mut u8, words: usize) -> &'a [W] {
    let start = region.cast::<W>();
    // SAFETY: as the caller promises; the step stays within the same piece or ends it.
    unsafe {
        *region = region.add(bytes::<W>(words));
        core::slice::from_raw_parts(start, words)
    }
}

impl<'a, G: Geometry> LLFree<'a, G> {
    /// Makes an allocator from raw memory, with this tuning in place of the default one.
    ///
    /// # Errors
    /// As [`Construct::construct`].
    ///
    /// # Safety
    /// As [`Construct::construct`], for `'a`.
    pub unsafe fn with_tuning(
        zone: &ZoneConfig,
        tuning: Tuning,
        metadata: RawMetadata,
        init: Init,
    ) -> Result<Self, InitError> {
        // SAFETY: as the caller promises.
        unsafe { Self::with_persistence(zone, tuning, Volatile, metadata, init) }
    }
}

impl<'a, G: Geometry, P: Persistence> LLFree<'a, G, P> {
    /// Makes an allocator from raw memory, which makes the durable part persistent by `persistence`.
    ///
    /// # Errors
    /// As [`Construct::construct`].
    ///
    /// # Safety
    /// As [`Construct::construct`], for `'a`.
    ///
    /// # Crash
    /// The durable part is persistent when this returns.
    pub unsafe fn with_persistence(
        zone: &ZoneConfig,
        tuning: Tuning,
        persistence: P,
        metadata: RawMetadata,
        init: Init,
    ) -> Result<Self, InitError> {
        // SAFETY: as the caller promises.
        let parts = unsafe { Parts::carve::<G, P>(zone, metadata) }?;
        Self::persistent_from_parts(zone, tuning, persistence, parts, init)
    }
}

impl<G: Geometry, P: Persistence> Construct for LLFree<'_, G, P> {
    fn metadata_size(config: &ZoneConfig) -> Result<MetadataSize, InitError> {
        Ok(counts::<G>(config)?.size(Parts::records::<P>(config)?))
    }

    fn metadata_parts(
        config: &ZoneConfig,
        part: &mut dyn FnMut(Region, &'static str, usize),
    ) -> Result<(), InitError> {
        let (counts, records) = (counts::<G>(config)?, Parts::records::<P>(config)?);
        let rows = bytes::<u64>(counts.rows);
        part(Region::Durable, "row", rows);
        part(Region::Durable, "state", counts.before_records(records) - rows);
        part(Region::Durable, "intent", bytes::<RecordLine>(records));
        part(Region::Volatile, "total", bytes::<u64>(counts.totals));
        part(Region::Volatile, "slot", bytes::<u64>(counts.slots));
        part(Region::Volatile, "index mask", bytes::<u64>(counts.masks));
        part(Region::Volatile, "index leaf", bytes::<u64>(counts.leaves));
        part(Region::Volatile, "tree", bytes::<Line<u64>>(counts.trees));
        part(Region::Volatile, "child", bytes::<u32>(counts.children));
        Ok(())
    }

    unsafe fn construct(
        config: &ZoneConfig,
        metadata: RawMetadata,
        init: Init,
    ) -> Result<Self, InitError> {
        let persistence = P::detect().ok_or(InitError::Unsupported)?;
        // SAFETY: as the caller promises.
        unsafe { Self::with_persistence(config, Tuning::DEFAULT, persistence, metadata, init) }
    }
}
