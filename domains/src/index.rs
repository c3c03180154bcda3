//! Where a frame lies: its zone, and its number there.
//!
//! ```text
//!   chunks     │   64 chunks   │   64 chunks   │   64 chunks   │
//!   entries    │ a run         │ a run         │ none          │ … │ more runs │
//!                        └─ next ────────────────────────────────►
//!
//!   a run      first unit, how many │ its number in the zone │ zone │ next
//! ```
//!
//! 1. Runs of units do not overlap, and none reaches over the end of its 64 chunks.
//! 2. Runs of the same 64 chunks are linked.
//!
//! *Progress*: wait-free, by one step for each run among 64 chunks, of which most machines have one. *Size*: 16 bytes for
//! each 64 chunks (256 MiB with [`Base4K`](woodlot_frame::Base4K)) from the first to the last one, and 16 more for each
//! of them that has memory and for each further run.

use core::ops::Range;

use woodlot_frame::{FrameId, Geometry};

use crate::chunk::{self, UNIT};

/// log2 of the chunks of an entry.
const GROUP: u32 = 6;

/// A run of units of one zone.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct Entry {
    /// The first unit, counted from that of the index.
    first: u32,
    /// How many. None: so is the entry that stands for chunks that do not exist.
    count: u16,
    zone: u16,
    /// The number of the first one in the zone, counted from the same unit.
    there: u32,
    /// Where the next run of these chunks is; 0 behind the last one.
    next: u32,
}

impl Entry {
    /// No units.
    pub(crate) const NONE: Entry = Entry { first: 0, count: 0, zone: 0, there: 0, next: 0 };
}

/// Units of a zone that follow one another, there too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) zone: usize,
    pub(crate) units: Range<usize>,
    /// The number of the first one in the zone.
    pub(crate) there: usize,
}

/// Where a frame lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Located {
    /// The number of the zone.
    pub(crate) zone: usize,
    /// The frame's number in it.
    pub(crate) frame: FrameId,
}

/// Where every frame lies.
pub(crate) struct Index<'a> {
    /// The first unit of the first entry.
    first: usize,
    /// Entries of 64 chunks, before those that are linked to them.
    groups: usize,
    entries: &'a [Entry],
}

/// log2 of the units of an entry.
const fn group<G: Geometry>() -> u32 {
    const { assert!(GROUP + chunk::units::<G>() < u16::BITS, "their number is one of 16 bits") };
    GROUP + chunk::units::<G>()
}

/// The parts of a run that lie in 64 chunks each.
fn parts<G: Geometry>(run: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut start = run.start;
    core::iter::from_fn(move || {
        let end = run.end.min(((start >> group::<G>()) + 1) << group::<G>());
        let part = start..end;
        start = end;
        (!part.is_empty()).then_some(part)
    })
}

/// How many entries runs of units need, each in order: those of one zone, then those of the next one.
pub(crate) fn entries<G: Geometry>(runs: impl Iterator<Item = Range<usize>> + Clone) -> usize {
    // Each part of a run may be one that is linked.
    let parts = runs.clone().map(|run| groups::<G>(core::iter::once(run)).len());
    groups::<G>(runs).len() + parts.sum::<usize>()
}

/// The chunk from which the others are counted.
pub(crate) fn first<G: Geometry>(runs: impl Iterator<Item = Range<usize>> + Clone) -> usize {
    groups::<G>(runs).start << GROUP
}

/// The groups of chunks from the first run to the last one.
fn groups<G: Geometry>(runs: impl Iterator<Item = Range<usize>> + Clone) -> Range<usize> {
    let start = runs.clone().map(|run| run.start).min().unwrap_or(0);
    let end = runs.map(|run| run.end).max().unwrap_or(0);
    start >> group::<G>()..end.div_ceil(1 << group::<G>())
}

impl<'a> Index<'a> {
    /// The index of the runs of each zone. `None`: the entries do not suffice, or numbers are too large for one.
    pub(crate) fn new<G: Geometry>(
        entries: &'a mut [Entry],
        runs: impl Iterator<Item = Run> + Clone,
    ) -> Option<Index<'a>> {
        let groups = groups::<G>(runs.clone().map(|run| run.units));
        let first = groups.start << group::<G>();
        entries.fill(Entry::NONE);
        let mut linked = groups.len();
        for run in runs {
            let mut there = run.there.checked_sub(first)?;
            for part in parts::<G>(run.units) {
                let count = part.len();
                let group = (part.start - first) >> group::<G>();
                let mut entry = Entry {
                    first: u32::try_from(part.start - first).ok()?,
                    count: u16::try_from(count).ok()?,
                    zone: u16::try_from(run.zone).ok()?,
                    there: u32::try_from(there).ok()?,
                    next: 0,
                };
                there += count;
                let head = entries.get_mut(group)?;
                if head.count == 0 {
                    *head = entry;
                } else {
                    entry.next = core::mem::replace(&mut head.next, u32::try_from(linked).ok()?);
                    *entries.get_mut(linked)? = entry;
                    linked += 1;
                }
            }
        }
        Some(Index { first, groups: groups.len(), entries })
    }

    /// Where a frame lies, if its unit is there.
    #[inline(always)]
    pub(crate) fn locate<G: Geometry>(&self, frame: FrameId) -> Option<Located> {
        let unit = (frame.0 >> UNIT).wrapping_sub(self.first);
        let group = unit >> group::<G>();
        if group >= self.groups {
            return None;
        }
        let mut entry = self.entries.get(group)?;
        loop {
            let within = unit.wrapping_sub(entry.first as usize);
            if within < entry.count as usize {
                let there = self.first + entry.there as usize + within;
                let frame = FrameId(there << UNIT | frame.0 & ((1 << UNIT) - 1));
                return Some(Located { zone: entry.zone as usize, frame });
            }
            if entry.next == 0 {
                return None;
            }
            entry = self.entries.get(entry.next as usize)?;
        }
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;
    use std::vec::Vec;
    use woodlot_frame::Base4K;

    /// Looks for every unit from 0 to `end`. The runs of a zone follow one another there, from unit 0 on.
    fn check(runs: &[(usize, Range<usize>)], end: usize) {
        let mut expected: Vec<Option<(usize, usize)>> = vec![None; end];
        let mut all = Vec::new();
        let mut next = [0; 3];
        for (zone, units) in runs.iter().cloned() {
            let there = next[zone];
            next[zone] += units.len();
            units
                .clone()
                .enumerate()
                .for_each(|(n, unit)| expected[unit] = Some((zone, there + n)));
            all.push(Run { zone, units, there });
        }
        let needed = entries::<Base4K>(all.iter().map(|run| run.units.clone()));
        let mut memory = vec![Entry::NONE; needed];
        let index = Index::new::<Base4K>(&mut memory, all.iter().cloned());
        let index = index.expect("there are enough entries");
        for (unit, &expected) in expected.iter().enumerate() {
            let of = |unit: usize| FrameId(unit << UNIT | 7);
            let expected = expected.map(|(zone, there)| Located { zone, frame: of(there) });
            assert_eq!(index.locate::<Base4K>(of(unit)), expected, "unit {unit}");
        }
        assert_eq!(index.locate::<Base4K>(FrameId(usize::MAX)), None);
    }

    #[test]
    fn units_are_found() {
        check(&[(0, 0..1)], 1300);
        check(&[(0, 70..7000)], 8000);
        check(&[(0, 3..10), (0, 12..2000), (1, 2000..2001), (1, 3000..3010)], 4000);
    }

    #[test]
    fn zones_share_the_64_chunks_of_an_entry() {
        let interleaved = [(0, 64..66), (0, 70..72), (1, 66..70), (1, 72..1030), (2, 1030..1031)];
        check(&interleaved, 2256);
        let every_other: Vec<_> = (0..64).map(|n| (n / 32, 2 * n + 1..2 * n + 2)).collect();
        check(&every_other, 200);
    }

    #[test]
    fn too_few_entries_are_refused() {
        let run = |unit| Run { zone: 0, units: unit..unit + 1, there: unit };
        let mut one = [Entry::NONE];
        assert!(Index::new::<Base4K>(&mut one, [run(0), run(2)].into_iter()).is_none());
    }

    #[test]
    fn a_hole_costs_sixteen_bytes_for_64_chunks() {
        let far = 1 << 22;
        let runs = [0..1, far..far + 1];
        assert_eq!(
            size_of::<Entry>() * entries::<Base4K>(runs.into_iter()),
            16 * ((1 << 12) + 1 + 2)
        );
    }
}
