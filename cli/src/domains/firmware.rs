//! What firmware says of a machine's memory, whatever the form.
//!
//! ```text
//!   usable     │ 0 ────────────── 2 GiB │ 4 GiB ──── 6 GiB │        bytes, in any order
//!   reserved        │ 640 KiB ─ 1 MiB │                            wins
//!   nodes      │ 0: 0 ─ 1 GiB │ 1: 1 ─ 6 GiB │                      none: all in domain 0
//! ```

use std::fmt;
use std::ops::Range;

use woodlot_domains::{DistanceError, Distances, DomainId, MAX_DOMAINS, Present};
use woodlot_frame::FrameId;

/// log2 of the bytes of a frame.
const SHIFT: u32 = 12;

/// What is wrong, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bad {
    /// In a line, from 1 on.
    Line(usize, String),
    /// At an offset in bytes.
    Byte(usize, String),
    /// In all of it.
    All(String),
}

impl Bad {
    /// In all of it.
    pub fn all(what: impl fmt::Display) -> Bad {
        Bad::All(what.to_string())
    }
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bad::Line(line, what) => write!(f, "line {line}: {what}"),
            Bad::Byte(offset, what) => write!(f, "byte {offset:#x}: {what}"),
            Bad::All(what) => f.write_str(what),
        }
    }
}

/// Memory, in bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Firmware {
    pub usable: Vec<Range<u64>>,
    pub reserved: Vec<Range<u64>>,
    pub nodes: Vec<(Range<u64>, u8)>,
    /// Row by row, or nothing.
    pub distances: Vec<u8>,
}

/// From a start and a length. `None`: it wraps around. One of no bytes is empty.
pub fn span(start: u64, bytes: u64) -> Option<Range<u64>> {
    Some(start..start.checked_add(bytes)?)
}

/// The number of a domain, if it is not too large.
pub fn domain(number: u64) -> Result<u8, String> {
    let small = u8::try_from(number).ok().filter(|&small| usize::from(small) < MAX_DOMAINS);
    small.ok_or_else(|| format!("node {number} is not one of {MAX_DOMAINS}"))
}

impl Firmware {
    /// The whole frames that can be used, by domain; two domains have no frame in common.
    ///
    /// # Errors
    /// Nodes overlap.
    pub fn present(&self) -> Result<Vec<Present>, Bad> {
        let mut nodes = self.nodes.clone();
        nodes.sort_by_key(|(range, _)| range.start);
        for pair in nodes.windows(2) {
            let [(one, of), (other, to)] = pair else { continue };
            if of != to && other.start < one.end {
                return Err(Bad::all(format!(
                    "nodes {of} and {to} both have the byte at {:#x}",
                    other.start
                )));
            }
        }
        let mut reserved = self.reserved.clone();
        reserved.sort_by_key(|range| range.start);
        let mut present = Vec::new();
        for range in &self.usable {
            for free in without(range.clone(), &reserved) {
                // What is nobody's counts for the first domain.
                let owned = nodes.iter().filter_map(|(own, of)| Some((both(own, &free)?, *of)));
                let rest = without(
                    free.clone(),
                    &nodes.iter().map(|(own, _)| own.clone()).collect::<Vec<_>>(),
                );
                let all = owned.chain(rest.into_iter().map(|range| (range, 0)));
                present.extend(all.filter_map(|(range, of)| frames(&range, of)));
            }
        }
        Ok(present)
    }

    /// How far the domains are from each other.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn apart(&self) -> Result<Distances<'_>, DistanceError> {
        Distances::new(&self.distances)
    }
}

/// What two ranges have in common.
fn both(one: &Range<u64>, other: &Range<u64>) -> Option<Range<u64>> {
    let common = one.start.max(other.start)..one.end.min(other.end);
    (!common.is_empty()).then_some(common)
}

/// A range without others, which are in order.
fn without(range: Range<u64>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    let (mut left, mut next) = (Vec::new(), range.start);
    for other in others {
        left.extend(both(&range, &(next..other.start)));
        next = next.max(other.end);
    }
    left.extend(both(&range, &(next..u64::MAX)));
    left
}

/// The whole frames of a range.
fn frames(range: &Range<u64>, of: u8) -> Option<Present> {
    let start = usize::try_from(range.start.div_ceil(1 << SHIFT)).ok()?;
    let end = usize::try_from(range.end >> SHIFT).ok()?;
    (start < end).then(|| Present::new(FrameId(start)..FrameId(end), DomainId(of)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_wins_and_frames_are_whole() {
        let firmware = Firmware {
            usable: vec![0x3000..0x9000, 1..0x2fff],
            reserved: vec![0x5800..0x6001, 0x4000..0x5000],
            nodes: vec![(0x7000..0x1_0000, 3)],
            distances: Vec::new(),
        };
        let of = |start, end, of| Present::new(FrameId(start)..FrameId(end), DomainId(of));
        let expected = vec![of(3, 4, 0), of(7, 9, 3), of(1, 2, 0)];
        let mut present = firmware.present().unwrap();
        present.sort_by_key(|range| range.domain.0);
        let mut expected_sorted = expected;
        expected_sorted.sort_by_key(|range| range.domain.0);
        assert_eq!(present, expected_sorted);
        let overlap = Firmware { nodes: vec![(0..9, 0), (8..10, 1)], ..Firmware::default() };
        let said = "nodes 0 and 1 both have the byte at 0x8";
        assert_eq!(overlap.present(), Err(Bad::All(said.into())));
    }
}
