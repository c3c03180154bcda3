//! Which domains are asked for memory, and in which order: the nearest first.
//!
//! ```text
//!   slot     0 │ 1 │ 2 │ 3
//!   home     0 │ 0 │ 1 │ 1         the domain of the slot's CPU, and which zone of it gave last
//!
//!   domain     0 │ 1 │ 2
//!   zone       0 │ – │ 1           the one that it began with
//!   domain 0   0 │ 1 │ 2
//!   domain 1   1 │ 2 │ 0           by distance, then by number
//! ```

use core::fmt;

use woodlot_frame::atomics::{AtomicU32, Ordering};
use woodlot_frame::{Order, Slot};

use crate::tally::{Counter, NumaStats, Tally};
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

    /// How many domains something is said of.
    pub(crate) const fn domains(&self) -> usize {
        self.count
    }

    /// How far it is.
    pub fn between(&self, from: DomainId, to: DomainId) -> u8 {
        let [row, column] = [from, to].map(DomainId::index);
        let said = row < self.count && column < self.count;
        let said = said.then(|| self.rows.get(row * self.count + column)).flatten();
        said.copied().unwrap_or(if from == to { LOCAL } else { REMOTE })
    }
}

/// No zone.
pub(crate) const NO_ZONE: u16 = u16::MAX;

/// Where a slot is at home: one cache line, which its calls write to.
#[repr(align(64))]
pub(crate) struct Home {
    pub(crate) domain: DomainId,
    /// The zone of that domain that is asked first; [`NO_ZONE`], if it has none.
    nearest: AtomicU32,
    /// Frames that came from it at once: a hit for the domain, and local.
    near: Counter,
}

impl Home {
    pub(crate) fn new(domain: DomainId) -> Home {
        Home { domain, nearest: AtomicU32::new(NO_ZONE.into()), near: Counter::default() }
    }

    /// The zone that is asked first.
    #[inline(always)]
    pub(crate) fn nearest(&self) -> usize {
        self.nearest.load(Ordering::Relaxed) as usize
    }

    /// Asks this zone first, another one of the same domain, from now on.
    pub(crate) fn ask(&self, zone: usize) {
        self.nearest.store(zone as u32, Ordering::Relaxed);
    }

    /// Counts a block from the zone that is asked first.
    #[inline(always)]
    pub(crate) fn count(&self, order: Order) {
        self.near.add(1usize.wrapping_shl(order.0.into()));
    }

    /// The same of frames.
    pub(crate) fn count_frames(&self, frames: usize) {
        self.near.add(frames);
    }
}

/// Which domain was to give, and how that was decided.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) domain: DomainId,
    pub(crate) in_turn: bool,
}

/// The domains in turn for each slot.
pub(crate) struct Turns<'a> {
    pub(crate) homes: &'a [Home],
    /// A row of domains for each domain.
    rows: &'a [u8],
    /// The zone that each domain began with.
    heads: &'a [u16],
    /// A row for each slot, with as many as there are domains.
    tallies: &'a [Tally],
}

impl<'a> Turns<'a> {
    /// Puts as many domains in order as there are heads, for each of them in turn; `rows` has room for all.
    pub(crate) fn new(
        homes: &'a [Home],
        rows: &'a mut [u8],
        heads: &'a [u16],
        tallies: &'a [Tally],
        distances: &Distances<'_>,
    ) -> Turns<'a> {
        for (domain, row) in rows.chunks_exact_mut(heads.len().max(1)).enumerate() {
            let from = DomainId(domain as u8);
            let far = |&to: &u8| (distances.between(from, DomainId(to)), from.0 != to, to);
            row.iter_mut().enumerate().for_each(|(at, domain)| *domain = at as u8);
            for end in 1..row.len() {
                for at in (0..end).rev() {
                    match row.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
                        Some([one, other]) if far(other) < far(one) => core::mem::swap(one, other),
                        _ => break,
                    }
                }
            }
        }
        let turns = Turns { homes, rows, heads, tallies };
        homes.iter().for_each(|home| home.ask(turns.head(home.domain)));
        turns
    }

    /// The zone that a domain began with; one that does not exist, if it had none.
    pub(crate) fn head(&self, domain: DomainId) -> usize {
        self.heads.get(domain.index()).copied().unwrap_or(NO_ZONE).into()
    }

    /// Where a slot is at home.
    #[inline(always)]
    pub(crate) fn home(&self, slot: Slot) -> Option<&'a Home> {
        self.homes.get(slot.0)
    }

    /// The domains for a slot; none if there is no such slot.
    pub(crate) fn of(&self, slot: Slot) -> &'a [u8] {
        self.homes.get(slot.0).map_or(&[], |home| self.row(home.domain))
    }

    /// The domains from one on, for a slot.
    pub(crate) fn from(&self, domain: DomainId, slot: Slot) -> &'a [u8] {
        if slot.0 < self.homes.len() { self.row(domain) } else { &[] }
    }

    fn row(&self, domain: DomainId) -> &'a [u8] {
        let start = domain.index() * self.heads.len();
        self.rows.get(start..start + self.heads.len()).unwrap_or_default()
    }

    /// Counts frames that a domain gave to a slot.
    pub(crate) fn count(&self, slot: Slot, wanted: Wanted, from: DomainId, frames: usize) {
        let start = slot.0 * self.heads.len();
        let row = self.tallies.get(start..start + self.heads.len()).unwrap_or_default();
        let (Some(home), Some(gave)) = (self.home(slot), row.get(from.index())) else { return };
        if from == wanted.domain {
            gave.hit.add(frames);
            gave.interleave_hit.add(if wanted.in_turn { frames } else { 0 });
        } else {
            gave.miss.add(frames);
            row.get(wanted.domain.index()).into_iter().for_each(|had| had.foreign.add(frames));
        }
        let near = home.domain == from;
        if near { &gave.local_node } else { &gave.other_node }.add(frames);
    }

    /// What all slots counted of a domain.
    pub(crate) fn counted(&self, domain: DomainId) -> NumaStats {
        let mut sum = NumaStats::default();
        let own = self.tallies.chunks_exact(self.heads.len().max(1));
        own.filter_map(|row| row.get(domain.index())).for_each(|tally| sum += tally.get());
        for home in self.homes.iter().filter(|home| home.domain == domain) {
            let near = home.near.get();
            sum += NumaStats { hit: near, local_node: near, ..NumaStats::default() };
        }
        sum
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
    fn the_nearest_domain_comes_first() {
        let matrix = [10, 30, 20, 30, 10, 15, 20, 15, 10];
        let distances = Distances::new(&matrix).expect("they are right");
        let mut rows = [0; 16];
        let homes = [0, 1, 2, 3].map(|of| Home::new(DomainId(of)));
        let turns = Turns::new(&homes, &mut rows, &[0, 2, 1, NO_ZONE], &[], &distances);
        let of = |slot| turns.of(Slot(slot));
        assert_eq!([of(0), of(1), of(2)], [[0, 2, 3, 1], [1, 2, 3, 0], [2, 1, 0, 3]]);
        assert_eq!(of(3), [3, 0, 1, 2], "what is not said is equally far");
        assert!(of(4).is_empty());
        let nearest = [0, 1, 2, 3].map(|slot| homes[slot].nearest());
        assert_eq!(nearest, [0, 2, 1, usize::from(NO_ZONE)]);
    }
}
