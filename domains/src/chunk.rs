//! Chunks: aligned pieces of the address space, as large as the largest block.
//!
//! ```text
//!   frames     │ chunk 0 │ –       │ –       │ chunk 3 │ chunk 4 │ –       │ …        holes between
//!   a zone     │ place 2 │ place 3 │ place 4 │                                     its chunks side by side
//!                  0          3          4
//! ```
//!
//! A zone has the chunks of its domain side by side, so that a hole costs no metadata; and a block, which lies in one
//! chunk, is as aligned in the zone as in the address space. Places are counted so that the longest piece of a zone has
//! the same numbers there as outside.
//!
//! A *unit* is 64 frames. Domains may share a chunk, which each of their zones then has, but no unit.

use core::ops::Range;

use woodlot_frame::{FrameAllocator, FrameId, Geometry, Order};

use crate::map::Map;
use crate::{DomainId, Present};

/// log2 of the frames of a unit.
pub(crate) const UNIT: u32 = 6;

/// log2 of the bytes of a giant frame: the largest page of x86-64, and of Arm and RISC-V with base frames of 4 KiB.
const GIANT_SHIFT: u32 = 30;

/// The order of a giant frame; the allocator's own largest, if that is larger, or if no block of it can be claimed where it is
/// wanted.
pub(crate) const fn giant_order<A: FrameAllocator>() -> Order {
    let giant = GIANT_SHIFT.saturating_sub(A::Geometry::BASE_SHIFT);
    let possible = giant > A::Geometry::MAX_ORDER && !A::UNSUPPORTED.exact_frame;
    if possible { Order(giant as u8) } else { Order::max::<A::Geometry>() }
}

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

/// log2 of the units of a chunk.
pub(crate) const fn units<G: Geometry>() -> u32 {
    const { assert!(G::MAX_ORDER >= UNIT, "a chunk has units") };
    G::MAX_ORDER - UNIT
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

/// Units of a domain that follow one another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) units: Range<usize>,
    /// Which of the domain's chunks has the first one.
    pub(crate) nth: usize,
}

/// The units of a domain, in pieces that do not touch, in order. What is missing in a chunk belongs to the domain that
/// has the rest, and to none if there are several.
pub(crate) fn pieces<G: Geometry>(
    map: Map<'_>,
    domain: DomainId,
) -> impl Iterator<Item = Piece> + Clone {
    let ranges = map.ranges().iter().enumerate();
    let own = ranges.filter(move |(_, range)| range.domain == domain);
    let mut parts = own.map(move |(at, _)| own_units::<G>(map, at)).peekable();
    // The chunk behind the last one, and how many there are before it.
    let (mut end, mut count) = (0, 0);
    core::iter::from_fn(move || {
        let mut all = parts.next()?;
        while let Some(next) = parts.next_if(|next| next.start <= all.end) {
            all.end = next.end.max(all.end);
        }
        let [first, last] = [all.start, all.end - 1].map(|unit| unit >> units::<G>());
        let nth = if first < end { count - 1 } else { count };
        (end, count) = (last + 1, nth + last - first + 1);
        Some(Piece { units: all, nth })
    })
}

/// The units of a range of the map, and all of its first and its last chunk, unless these are shared.
fn own_units<G: Geometry>(map: Map<'_>, at: usize) -> Range<usize> {
    let (before, rest) = map.ranges().split_at_checked(at).unwrap_or_default();
    let Some((range, behind)) = rest.split_first() else { return 0..0 };
    let is_shared = |chunk: usize| {
        let has = |other: &&Present| covering::<G>(**other).contains(&chunk);
        let near = before.iter().rev().take_while(has).chain(behind.iter().take_while(has));
        near.clone().any(|other| other.domain != range.domain)
    };
    let Range { start, end } = covering::<G>(*range);
    let (first, last) = (range.start.0 >> UNIT, (range.end.0 - 1) >> UNIT);
    let first = if is_shared(start) { first } else { start << units::<G>() };
    let end = if is_shared(end - 1) { last + 1 } else { end << units::<G>() };
    first..end
}
