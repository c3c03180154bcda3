//! Which zones are asked for memory, and in which order: the nearest first.
//!
//! ```text
//!   slot     0 │ 1 │ 2 │ 3
//!   home     0 │ 0 │ 1 │ 1         the domain of the slot's CPU
//!
//!   domain 0   zone of 0 │ zone of 1 │ zone of 2
//!   domain 1   zone of 1 │ zone of 2 │ zone of 0       by distance, then by number
//! ```

use core::fmt;

use woodlot_frame::Slot;

use crate::{DomainId, MAX_DOMAINS};

/// How far domains are from each other, as firmware's SLIT says: 10 for a domain's own memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Distances<'a> {
    count: usize,
    rows: &'a [u8],
}

/// What firmware gives as the distance of a domain's own memory.
const LOCAL: u8 = 10;
/// What is taken for the distance of other memory where nothing is said.
const REMOTE: u8 = 20;

/// What is wrong with distances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DistanceError {
    /// So many numbers are no square of up to 64 domains.
    NotSquare(usize),
    /// The way from the first domain to the second is not as long as back.
    NotSymmetric(DomainId, DomainId),
    /// The first domain is as near to the second as to itself, or nearer.
    NotFarther(DomainId, DomainId),
}

impl fmt::Display for DistanceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSquare(count) => {
                write!(f, "{count} distances are no square of up to {MAX_DOMAINS} domains")
            }
            Self::NotSymmetric(from, to) => {
                write!(f, "the distance from {from} to {to} is not that from {to} to {from}")
            }
            Self::NotFarther(from, to) => write!(f, "{from} is not nearer to itself than to {to}"),
        }
    }
}

impl core::error::Error for DistanceError {}

impl<'a> Distances<'a> {
    /// Every other domain is as far as any.
    pub const EQUAL: Distances<'static> = Distances { count: 0, rows: &[] };

    /// Row by row: the distances of domain 0 from each, those of domain 1, … What is not said is equally far.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn new(rows: &'a [u8]) -> Result<Distances<'a>, DistanceError> {
        let count = rows.len().isqrt();
        if count * count != rows.len() || count > MAX_DOMAINS {
            return Err(DistanceError::NotSquare(rows.len()));
        }
        let distances = Distances { count, rows };
        let all = || (0..count as u8).map(DomainId);
        for (from, to) in all().flat_map(|from| all().map(move |to| (from, to))) {
            let [there, back] = [distances.between(from, to), distances.between(to, from)];
            if there != back {
                return Err(DistanceError::NotSymmetric(from, to));
            }
            if from != to && there <= distances.between(from, from) {
                return Err(DistanceError::NotFarther(from, to));
            }
        }
        Ok(distances)
    }

    /// How far it is.
    pub fn between(&self, from: DomainId, to: DomainId) -> u8 {
        let [row, column] = [from, to].map(DomainId::index);
        let said = row < self.count && column < self.count;
        let said = said.then(|| self.rows.get(row * self.count + column)).flatten();
        said.copied().unwrap_or(if from == to { LOCAL } else { REMOTE })
    }
}

/// Where a slot is at home.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Home {
    pub(crate) domain: DomainId,
    nearest: u16,
}

/// The zones in turn for each slot.
pub(crate) struct Turns<'a> {
    /// The domain of each slot, and the zone that is asked first.
    homes: &'a [Home],
    /// A row of zones for each domain.
    rows: &'a [u16],
    /// How many zones there are.
    zones: usize,
}

impl<'a> Turns<'a> {
    /// Puts the zones of these domains in order, for each domain in turn, in memory that has as many rows as it is long.
    pub(crate) fn new(
        homes: &'a mut [Home],
        rows: &'a mut [u16],
        (zones, domain_of): (usize, impl Fn(usize) -> Option<DomainId>),
        distances: &Distances<'_>,
    ) -> Turns<'a> {
        for (domain, row) in rows.chunks_exact_mut(zones.max(1)).enumerate() {
            let from = DomainId(domain as u8);
            let far = |zone: &u16| {
                let to = domain_of(usize::from(*zone));
                to.map(|to| (distances.between(from, to), from != to, to))
            };
            row.iter_mut().enumerate().for_each(|(at, zone)| *zone = at as u16);
            for end in 1..row.len() {
                for at in (0..end).rev() {
                    match row.get_mut(at..).and_then(<[u16]>::first_chunk_mut) {
                        Some([one, other]) if far(other) < far(one) => core::mem::swap(one, other),
                        _ => break,
                    }
                }
            }
        }
        let rows = &*rows;
        for home in &mut *homes {
            let row = rows.get(home.domain.index() * zones..).and_then(<[u16]>::first);
            home.nearest = row.copied().unwrap_or_default();
        }
        Turns { homes, rows, zones }
    }

    /// The zone that is asked first for a slot; one that does not exist, if there is no such slot.
    #[inline(always)]
    pub(crate) fn first(&self, slot: Slot) -> usize {
        self.homes.get(slot.0).map_or(usize::MAX, |home| usize::from(home.nearest))
    }

    /// The zones for a slot; none if there is no such slot.
    pub(crate) fn of(&self, slot: Slot) -> &'a [u16] {
        self.homes.get(slot.0).map_or(&[], |home| self.row(home.domain))
    }

    /// The zones from a domain on, for a slot; from the slot's own where nothing is known of the domain.
    pub(crate) fn from(&self, domain: DomainId, slot: Slot) -> &'a [u16] {
        match self.row(domain) {
            row @ [_, ..] if slot.0 < self.homes.len() => row,
            _ => self.of(slot),
        }
    }

    fn row(&self, domain: DomainId) -> &'a [u16] {
        let start = domain.index() * self.zones;
        self.rows.get(start..start + self.zones).unwrap_or_default()
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn bad_distances_are_named() {
        let error = |rows: &[u8]| Distances::new(rows).expect_err("they are bad");
        assert_eq!(error(&[10, 20]), DistanceError::NotSquare(2));
        let (one, two) = (DomainId(0), DomainId(1));
        let asymmetric = error(&[10, 21, 20, 10]);
        assert_eq!(asymmetric, DistanceError::NotSymmetric(one, two));
        let said = "the distance from domain 0 to domain 1 is not that from domain 1 to domain 0";
        assert_eq!(asymmetric.to_string(), said);
        assert_eq!(error(&[10, 10, 10, 10]), DistanceError::NotFarther(one, two));
    }

    #[test]
    fn the_nearest_zone_comes_first() {
        let matrix = [10, 30, 20, 30, 10, 15, 20, 15, 10];
        let distances = Distances::new(&matrix).expect("they are right");
        let zones = [DomainId(0), DomainId(1), DomainId(2)];
        let mut rows = [0; 12];
        let mut homes = [0, 1, 2, 3].map(|of| Home { domain: DomainId(of), nearest: 0 });
        let turns =
            Turns::new(&mut homes, &mut rows, (3, |zone| zones.get(zone).copied()), &distances);
        let of = |slot| turns.of(Slot(slot));
        assert_eq!([of(0), of(1), of(2)], [[0, 2, 1], [1, 2, 0], [2, 1, 0]]);
        assert_eq!(of(3), [0, 1, 2], "a domain without memory is equally far from all");
        assert!(of(4).is_empty());
        assert_eq!([0, 1, 2, 3, 4].map(|slot| turns.first(Slot(slot))), [0, 1, 2, 0, usize::MAX]);
    }
}
