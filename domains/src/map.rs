//! The memory that a machine has: ranges of frames, each in one domain.
//!
//! ```text
//!   given       │ 0 ─ 2 GiB, domain 0 │ 3 ─ 5 GiB, domain 0 │ 1 ─ 4 GiB, domain 0 │ 6 ─ 8 GiB, domain 1 │    any order
//!   the map     │ 0 ─ 5 GiB, domain 0 │                     6 ─ 8 GiB, domain 1 │
//! ```
//!
//! 1. The ranges of a map are in order, not empty, and no two of them touch in one domain.

use core::fmt;
use core::ops::Range;

use woodlot_frame::FrameId;

/// The most domains that a map has.
pub const MAX_DOMAINS: usize = 64;

/// The number of a domain: a NUMA node, or any memory that one policy is to tell from the rest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct DomainId(pub u8);

impl DomainId {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for DomainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "domain {}", self.0)
    }
}

/// Frames that exist, side by side, in one domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Present {
    /// The first frame.
    pub start: FrameId,
    /// The frame behind the last one.
    pub end: FrameId,
    /// The domain.
    pub domain: DomainId,
}

impl Present {
    /// These frames in a domain.
    pub const fn new(frames: Range<FrameId>, domain: DomainId) -> Present {
        Present { start: frames.start, end: frames.end, domain }
    }

    /// How many frames.
    pub const fn frames(&self) -> usize {
        self.end.0.saturating_sub(self.start.0)
    }

    /// The frames.
    pub const fn range(&self) -> Range<FrameId> {
        self.start..self.end
    }
}

/// What is wrong with the ranges of a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapError {
    /// There is no range.
    NoMemory,
    /// The range ends where it begins.
    Empty(Present),
    /// The range ends before it begins: its length wrapped around, perhaps.
    Reversed(Present),
    /// The domain's number is [`MAX_DOMAINS`] or more.
    DomainTooLarge(Present),
    /// Two ranges of two domains have frames in common.
    Overlap(Present, Present),
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, Present { start, end, domain }) = match self {
            MapError::NoMemory => return f.write_str("the map has no range"),
            MapError::Empty(range) => ("is empty", range),
            MapError::Reversed(range) => ("ends before it begins", range),
            MapError::DomainTooLarge(range) => ("has a domain of 64 or more", range),
            MapError::Overlap(range, other) => {
                let Present { start, end, domain } = other;
                write!(f, "frames {start} to {end} of {domain} are in another domain too: ")?;
                ("has some of them", range)
            }
        };
        write!(f, "the range from frame {start} to {end} of {domain} {what}")
    }
}

impl core::error::Error for MapError {}

/// A machine's memory, in order.
#[derive(Clone, Copy, Debug)]
pub struct Map<'a>(&'a [Present]);

impl<'a> Map<'a> {
    /// Puts ranges in order, and joins what overlaps or touches in one domain. Linear in ranges that are in order,
    /// and quadratic in such as are not.
    ///
    /// # Errors
    /// What is wrong with a range; the ranges may be in another order then, and some of them joined.
    pub fn new(ranges: &'a mut [Present]) -> Result<Map<'a>, MapError> {
        ranges.iter().try_for_each(Self::check)?;
        sort(ranges);
        let mut count = 0usize;
        for at in 0..ranges.len() {
            let Some(&next) = ranges.get(at) else { break };
            let last = count.checked_sub(1).and_then(|last: usize| ranges.get_mut(last));
            match last {
                Some(last) if next.start < last.end && next.domain != last.domain => {
                    return Err(MapError::Overlap(*last, next));
                }
                Some(last) if next.start <= last.end && next.domain == last.domain => {
                    last.end = last.end.max(next.end);
                }
                _ => {
                    ranges.get_mut(count).into_iter().for_each(|place| *place = next);
                    count += 1;
                }
            }
        }
        match ranges.get(..count) {
            Some(ranges @ [_, ..]) => Ok(Map(ranges)),
            _ => Err(MapError::NoMemory),
        }
    }

    pub(crate) fn check(range: &Present) -> Result<(), MapError> {
        if range.end < range.start {
            return Err(MapError::Reversed(*range));
        }
        if range.end == range.start {
            return Err(MapError::Empty(*range));
        }
        if range.domain.index() >= MAX_DOMAINS {
            return Err(MapError::DomainTooLarge(*range));
        }
        Ok(())
    }

    /// The ranges.
    pub const fn ranges(&self) -> &'a [Present] {
        self.0
    }

    /// The ranges of a domain.
    pub fn of(
        &self,
        domain: DomainId,
    ) -> impl DoubleEndedIterator<Item = Present> + Clone + use<'a> {
        self.0.iter().copied().filter(move |range| range.domain == domain)
    }

    /// The domains that have memory.
    pub fn domains(&self) -> impl Iterator<Item = DomainId> + Clone + use<'a> {
        let map = *self;
        (0..MAX_DOMAINS as u8).map(DomainId).filter(move |&domain| map.of(domain).next().is_some())
    }

    /// From the first frame to the last one, with all holes.
    pub fn span(&self) -> Range<FrameId> {
        let end = self.0.iter().map(|range| range.end).max();
        let start = self.0.first().map(|range| range.start);
        start.unwrap_or_default()..end.unwrap_or_default()
    }

    /// How many frames there are.
    pub fn frames(&self) -> usize {
        self.0.iter().map(Present::frames).sum()
    }
}

/// By the first frame: insertion, since firmware gives its ranges nearly in order, and the library's sort can panic.
fn sort(ranges: &mut [Present]) {
    for end in 1..ranges.len() {
        for at in (0..end).rev() {
            match ranges.get_mut(at..).and_then(<[Present]>::first_chunk_mut) {
                Some([one, other]) if other.start < one.start => core::mem::swap(one, other),
                _ => break,
            }
        }
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;
    use std::vec::Vec;

    fn range((start, end, domain): (usize, usize, u8)) -> Present {
        Present::new(FrameId(start)..FrameId(end), DomainId(domain))
    }

    fn map(ranges: &[(usize, usize, u8)]) -> Result<Vec<(usize, usize, u8)>, MapError> {
        let mut ranges: Vec<_> = ranges.iter().copied().map(range).collect();
        let map = Map::new(&mut ranges)?;
        Ok(map.ranges().iter().map(|of| (of.start.0, of.end.0, of.domain.0)).collect())
    }

    #[test]
    fn ranges_come_in_any_order() {
        let expected = std::vec![(0, 4, 1), (4, 9, 0), (10, 11, 0)];
        assert_eq!(map(&[(10, 11, 0), (4, 9, 0), (0, 4, 1)]), Ok(expected));
    }

    #[test]
    fn what_overlaps_or_touches_is_joined() {
        let given = [(20, 30, 0), (0, 10, 0), (5, 7, 0), (10, 12, 0), (25, 40, 0), (40, 41, 1)];
        assert_eq!(map(&given), Ok(std::vec![(0, 12, 0), (20, 40, 0), (40, 41, 1)]));
    }

    #[test]
    fn bad_ranges_are_named() {
        assert_eq!(map(&[]), Err(MapError::NoMemory));
        assert_eq!(map(&[(0, 1, 0), (7, 7, 0)]), Err(MapError::Empty(range((7, 7, 0)))));
        assert_eq!(map(&[(8, 7, 0)]), Err(MapError::Reversed(range((8, 7, 0)))));
        assert_eq!(map(&[(7, 8, 64)]), Err(MapError::DomainTooLarge(range((7, 8, 64)))));
        let overlap = MapError::Overlap(range((0, 10, 0)), range((9, 12, 1)));
        assert_eq!(map(&[(9, 12, 1), (0, 10, 0)]), Err(overlap));
        let said = "frames 0x9 to 0xc of domain 1 are in another domain too: \
                    the range from frame 0x0 to 0xa of domain 0 has some of them";
        assert_eq!(overlap.to_string(), said);
    }

    #[test]
    fn a_range_inside_of_another_domain_is_found() {
        let result = map(&[(0, 100, 0), (10, 20, 0), (50, 60, 1)]);
        assert_eq!(result, Err(MapError::Overlap(range((0, 100, 0)), range((50, 60, 1)))));
    }
}
