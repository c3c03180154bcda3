//! Chunks: aligned pieces of the address space, as large as the largest block.
//!
//! ```text
//!   frames     │ chunk 0 │ –       │ –       │ chunk 3 │ chunk 4 │ –       │ …        holes between
//!   a zone     │ place 0 │ place 1 │ place 2 │                                     its chunks side by side
//!                  0          3          4
//! ```
//!
//! A zone has the chunks of its domain side by side, so that a hole costs no metadata; and a block, which lies in one
//! chunk, is as aligned in the zone as in the address space.

use core::ops::Range;

use woodlot_frame::{FrameId, Geometry};

use crate::map::Map;
use crate::{DomainId, Present};

/// The chunk that a frame lies in.
#[inline(always)]
pub(crate) const fn of<G: Geometry>(frame: FrameId) -> usize {
    frame.0 >> G::MAX_ORDER
}

/// The offset of a frame in its chunk.
#[inline(always)]
pub(crate) const fn offset<G: Geometry>(frame: FrameId) -> usize {
    frame.0 & (G::MAX_FRAMES - 1)
}

/// The frame at an offset of a chunk.
#[inline(always)]
pub(crate) const fn frame<G: Geometry>(chunk: usize, offset: usize) -> FrameId {
    FrameId(chunk << G::MAX_ORDER | offset)
}

/// The chunks that have frames of a range.
pub(crate) const fn covering<G: Geometry>(range: Present) -> Range<usize> {
    of::<G>(range.start)..of::<G>(FrameId(range.end.0 - 1)) + 1
}

/// The chunks that have frames of a domain, in runs that do not touch, in order.
pub(crate) fn runs<G: Geometry>(
    map: Map<'_>,
    domain: DomainId,
) -> impl Iterator<Item = Range<usize>> + Clone {
    let mut ranges = map.of(domain).map(covering::<G>).peekable();
    core::iter::from_fn(move || {
        let mut run = ranges.next()?;
        while let Some(next) = ranges.next_if(|next| next.start <= run.end) {
            run.end = next.end;
        }
        Some(run)
    })
}
