//! Where a frame lies: its zone, and its number there.
//!
//! ```text
//!   chunks     │   64 chunks   │   64 chunks   │   64 chunks   │
//!   entries    │ a run         │ a run         │ none          │ … │ more runs │
//!                        └─ next ────────────────────────────────►
//!
//!   a run      first chunk, how many │ its first place │ zone │ next
//! ```
//!
//! 1. Runs do not overlap, and none reaches over the end of its 64 chunks.
//! 2. Runs of the same 64 chunks are linked.
//!
//! *Progress*: wait-free, by one step for each run among 64 chunks, of which most machines have one. *Size*: 16 bytes for
//! each 64 chunks (256 MiB with [`Base4K`](woodlot_frame::Base4K)) from the first to the last one, and 16 more for each
//! of them that has memory and for each further run.

use core::ops::Range;

use woodlot_frame::{FrameId, Geometry};

use crate::chunk;

/// log2 of the chunks of an entry.
const GROUP: u32 = 6;

/// A run of chunks of one zone.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct Entry {
    /// The first chunk, counted from that of the index.
    first: u32,
    /// How many. None: so is the entry that stands for chunks that do not exist.
    count: u16,
    zone: u16,
    /// The place of the first one in the zone.
    place: u32,
    /// Where the next run of these chunks is; 0 behind the last one.
    next: u32,
}

impl Entry {
    /// No chunks.
    pub(crate) const NONE: Entry = Entry { first: 0, count: 0, zone: 0, place: 0, next: 0 };
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
    /// The first chunk of the first entry.
    first: usize,
    /// Entries of 64 chunks, before those that are linked to them.
    groups: usize,
    entries: &'a [Entry],
}

/// The parts of a run that lie in 64 chunks each.
fn parts(run: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut start = run.start;
    core::iter::from_fn(move || {
        let end = run.end.min(((start >> GROUP) + 1) << GROUP);
        let part = start..end;
        start = end;
        (!part.is_empty()).then_some(part)
    })
}

/// How many entries runs of chunks need, each in order: those of one zone, then those of the next one.
pub(crate) fn entries(runs: impl Iterator<Item = Range<usize>> + Clone) -> usize {
    // Each part of a run may be one that is linked.
    let parts = runs.clone().map(|run| groups(core::iter::once(run)).len());
    groups(runs).len() + parts.sum::<usize>()
}

/// The chunk from which the others are counted.
pub(crate) fn first(runs: impl Iterator<Item = Range<usize>> + Clone) -> usize {
    groups(runs).start << GROUP
}

/// The groups of chunks from the first run to the last one.
fn groups(runs: impl Iterator<Item = Range<usize>> + Clone) -> Range<usize> {
    let start = runs.clone().map(|run| run.start).min().unwrap_or(0);
    let end = runs.map(|run| run.end).max().unwrap_or(0);
    start >> GROUP..end.div_ceil(1 << GROUP)
}

impl<'a> Index<'a> {
    /// The index of the runs of each zone, from its first place on. `None`: the entries do not suffice, or numbers are
    /// too large for one.
    pub(crate) fn new(
        entries: &'a mut [Entry],
        runs: impl Iterator<Item = (usize, Range<usize>)> + Clone,
    ) -> Option<Index<'a>> {
        let groups = groups(runs.clone().map(|(_, run)| run));
        let first = groups.start << GROUP;
        entries.fill(Entry::NONE);
        let (mut linked, mut place, mut of) = (groups.len(), 0, None);
        for (zone, run) in runs {
            if of != Some(zone) {
                (place, of) = (0, Some(zone));
            }
            for part in parts(run) {
                let count = part.len();
                let group = (part.start - first) >> GROUP;
                let mut entry = Entry {
                    first: u32::try_from(part.start - first).ok()?,
                    count: u16::try_from(count).ok()?,
                    zone: u16::try_from(zone).ok()?,
                    place: u32::try_from(place).ok()?,
                    next: 0,
                };
                place += count;
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

    /// Where a frame lies, if its chunk is there.
    #[inline(always)]
    pub(crate) fn locate<G: Geometry>(&self, frame: FrameId) -> Option<Located> {
        let chunk = chunk::of::<G>(frame).wrapping_sub(self.first);
        let group = chunk >> GROUP;
        if group >= self.groups {
            return None;
        }
        let mut entry = self.entries.get(group)?;
        loop {
            let within = chunk.wrapping_sub(entry.first as usize);
            if within < entry.count as usize {
                let place = entry.place as usize + within;
                let frame = chunk::frame::<G>(place, chunk::offset::<G>(frame));
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

    /// Looks for every chunk from 0 to `end`.
    fn check(runs: &[(usize, Range<usize>)], end: usize) {
        let all = runs.iter().cloned();
        let mut memory = vec![Entry::NONE; entries(all.clone().map(|(_, run)| run))];
        let index = Index::new(&mut memory, all).expect("there are enough entries");
        let mut expected: Vec<Option<(usize, usize)>> = vec![None; end];
        for zone in 0..3 {
            let of = runs.iter().filter(|(of, _)| *of == zone);
            for (place, chunk) in of.flat_map(|(_, run)| run.clone()).enumerate() {
                expected[chunk] = Some((zone, place));
            }
        }
        for (chunk, &expected) in expected.iter().enumerate() {
            let frame = chunk::frame::<Base4K>(chunk, 7);
            let expected = expected
                .map(|(zone, place)| Located { zone, frame: chunk::frame::<Base4K>(place, 7) });
            assert_eq!(index.locate::<Base4K>(frame), expected, "chunk {chunk}");
        }
        assert_eq!(index.locate::<Base4K>(FrameId(usize::MAX)), None);
    }

    #[test]
    fn chunks_are_found() {
        check(&[(0, 0..1)], 130);
        check(&[(0, 70..700)], 800);
        check(&[(0, 3..10), (0, 12..200), (1, 200..201), (1, 300..310)], 400);
    }

    #[test]
    fn zones_share_the_64_chunks_of_an_entry() {
        let interleaved = [(0, 64..66), (0, 70..72), (1, 66..70), (1, 72..130), (2, 130..131)];
        check(&interleaved, 256);
        let every_other: Vec<_> = (0..64).map(|n| (n / 32, 2 * n + 1..2 * n + 2)).collect();
        check(&every_other, 200);
    }

    #[test]
    fn too_few_entries_are_refused() {
        let runs = [(0, 0..1), (0, 2..3)];
        let mut one = [Entry::NONE];
        assert!(Index::new(&mut one, runs.into_iter()).is_none());
    }

    #[test]
    fn a_hole_costs_sixteen_bytes_for_64_chunks() {
        let runs = [0..1, 1 << 18..(1 << 18) + 1];
        assert_eq!(size_of::<Entry>() * entries(runs.into_iter()), 16 * ((1 << 12) + 1 + 2));
    }
}
