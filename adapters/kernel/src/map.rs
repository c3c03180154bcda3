//! A zone from a memory map: the first thing that a kernel makes, before anything can be allocated.
//!
//! ```text
//!   usable   │ range       │      │ range                          │   as the boot loader says
//!   used          │ kernel│                    │ module │
//!   gaps     │    │       │      │             │        │ metadata  │   the last bytes of the largest gap
//!   zone     │ ─────────────────────────────────────────────────── │   all else in a gap is free
//! ```

use core::fmt;
use core::iter;
use core::ops::Range;

use woodlot_frame::{
    Construct, FrameId, FreeError, Geometry, Init, InitError, RawMetadata, Slot, ZoneConfig,
};

/// Why there is no zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadMap {
    /// No memory is usable, or no range of it has room for the metadata.
    TooSmall,
    /// The engine cannot have such a zone.
    Zone(InitError),
    /// Two ranges of the map have the same memory.
    Twice(FreeError),
}

impl fmt::Display for BadMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadMap::TooSmall => f.write_str("no range of the memory map has room for the metadata"),
            BadMap::Zone(error) => error.fmt(f),
            BadMap::Twice(error) => write!(f, "two ranges of the map overlap: {error}"),
        }
    }
}

impl core::error::Error for BadMap {}

/// Makes a zone of the memory of a machine.
///
/// `usable` are the physical addresses of its memory, in any order. `used` is what has an owner already, be it usable or
/// not: the kernel, its modules, the page at the null pointer. Physical address zero is mapped at `base`, or would be. The
/// zone reaches from the first free frame to the last one, with the [shipped classes](woodlot_frame::ClassPolicy::SHIPPED)
/// and `slots` slots: one for each CPU. Its metadata are the last bytes of the largest gap between what is used. All other
/// frames that lie wholly inside gaps are free; holes stay allocated for ever.
///
/// Takes time linear in the zone's metadata, and in the ranges of `usable` times those of `used`, squared.
///
/// # Errors
/// What is wrong with the map, or with an engine that cannot begin with
/// [everything allocated](woodlot_frame::Init::Allocated). Memory may have been written to.
///
/// # Safety
/// * What is usable and not used is memory, and nobody else's for as long as the zone is used.
/// * It is mapped at `base`, readable and writable, as long as that; none of it at the null pointer.
pub unsafe fn zone_from<Z: Construct>(
    usable: impl Iterator<Item = Range<u64>> + Clone,
    used: &[Range<u64>],
    slots: usize,
    base: *mut u8,
) -> Result<Z, BadMap> {
    let gaps = usable.flat_map(|range| gaps(range, used));
    let frames = gaps.clone().map(FrameId::inside::<Z::Geometry>).filter(|run| !run.is_empty());
    let first = frames.clone().map(|run| run.start).min().ok_or(BadMap::TooSmall)?;
    let end = frames.map(|run| run.end).max().ok_or(BadMap::TooSmall)?;
    let config = ZoneConfig::new(end.0 - first.0, slots).starting_at(first);

    let size = Z::metadata_size(&config).map_err(BadMap::Zone)?;
    let bytes = (size.durable + size.volatile) as u64;
    let largest = gaps.clone().max_by_key(|gap| gap.end - gap.start).ok_or(BadMap::TooSmall)?;
    let metadata = largest.end.saturating_sub(bytes) & !(Z::Geometry::BASE_BYTES as u64 - 1);
    if metadata < largest.start {
        return Err(BadMap::TooSmall);
    }
    let durable = base.wrapping_add(metadata as usize);
    let volatile = (durable.wrapping_add(size.durable), size.volatile);
    let raw = RawMetadata { durable: (durable, size.durable), volatile };
    // SAFETY: this memory is mapped, nobody's, as the caller says, and not freed below.
    let zone = unsafe { Z::construct(&config, raw, Init::Allocated) }.map_err(BadMap::Zone)?;

    for gap in gaps {
        let end = if gap.start == largest.start { metadata } else { gap.end };
        let run = FrameId::inside::<Z::Geometry>(gap.start..end);
        zone.free_range(run, Slot(0)).map_err(BadMap::Twice)?;
    }
    Ok(zone)
}

/// What of a range is not used, by rising addresses.
fn gaps(range: Range<u64>, used: &[Range<u64>]) -> impl Iterator<Item = Range<u64>> + Clone {
    let mut at = range.start;
    iter::from_fn(move || {
        while let Some(cover) = used.iter().find(|used| used.contains(&at)) {
            at = cover.end;
        }
        let next = used.iter().map(|used| used.start).filter(|&start| start > at).min();
        let gap = at..next.map_or(range.end, |next| next.min(range.end));
        at = gap.end;
        (!gap.is_empty()).then_some(gap)
    })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn gaps_are_what_is_left() {
        let pair = |range: Range<u64>| (range.start, range.end);
        let found = |used: &[Range<u64>]| gaps(10..100, used).map(pair).collect::<Vec<_>>();
        assert_eq!(found(&[]), [(10, 100)]);
        assert_eq!(found(&[20..30, 60..70]), [(10, 20), (30, 60), (70, 100)]);
        assert_eq!(found(&[60..70, 0..10, 20..65, 100..200]), [(10, 20), (70, 100)]);
        assert_eq!(found(&[0..11, 90..300]), [(11, 90)]);
        assert_eq!(found(core::slice::from_ref(&(0..100))), []);
        assert_eq!(found(&[0..50, 50..100]), []);
    }
}
