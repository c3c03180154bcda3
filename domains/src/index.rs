//! Where a frame lies: its zone, and its number there.
//!
//! ```text
//!   groups     64 chunks  │  64 chunks  │  64 chunks  │  …
//!   words      │ of 32 groups: which have memory (1 0 1 …), and how many before have │ …
//!   entries    │ a run of the 1st that has │ of the 2nd │ … │ more runs │
//!                        └─ next ────────────────────────────►
//!
//!   a run      first unit, how many │ its number in the zone │ zone │ next
//! ```
//!
//! 1. Runs of units do not overlap, and none reaches over the end of its 64 chunks.
//! 2. Runs of the same 64 chunks are linked.
//! 3. A group that has memory has as many entries before its first one as groups before it have memory.
//!
//! *Progress*: wait-free, by one step for each run among 64 chunks, of which most machines have one. *Size*: 8 bytes for
//! each 32 groups (8 GiB with [`Base4K`](woodlot_frame::Base4K)) from the first to the last one, and 16 for each run in
//! each group. An entry for each group, there or not, cost a spread machine four times as much.

use core::ops::Range;

use woodlot_frame::{FrameId, Geometry};

use crate::chunk::{self, UNIT};

/// log2 of the chunks of a group.
const GROUP: u32 = 6;

/// 32 groups.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct Word {
    /// A bit for each that has memory.
    present: u32,
    /// How many have, of those of the words before.
    before: u32,
}

impl Word {
    /// No memory.
    pub(crate) const NONE: Word = Word { present: 0, before: 0 };

    /// The word of a group, and the group's bit there.
    #[inline(always)]
    const fn of(group: usize) -> (usize, u32) {
        (group / u32::BITS as usize, 1 << (group % u32::BITS as usize))
    }
}

/// A run of units of one zone.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct Entry {
    /// The first unit, counted from that of the index.
    first: u32,
    /// How many; none in an entry that is not written yet.
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
    /// The first unit of the first group.
    first: usize,
    words: &'a [Word],
    entries: &'a [Entry],
}

/// log2 of the units of a group.
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

/// How many words and entries runs of units need.
pub(crate) fn sizes<G: Geometry>(
    runs: impl Iterator<Item = Range<usize>> + Clone,
) -> (usize, usize) {
    let parts = runs.clone().map(|run| groups::<G>(core::iter::once(run)).len());
    (groups::<G>(runs).len().div_ceil(u32::BITS as usize), parts.sum())
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
    /// The index of the runs of each zone. `None`: the words or entries do not suffice, or numbers are too large for one.
    pub(crate) fn new<G: Geometry>(
        words: &'a mut [Word],
        entries: &'a mut [Entry],
        runs: impl Iterator<Item = Run> + Clone,
    ) -> Option<Index<'a>> {
        let first = groups::<G>(runs.clone().map(|run| run.units)).start << group::<G>();
        let group_of = |part: &Range<usize>| (part.start - first) >> group::<G>();
        words.fill(Word::NONE);
        for part in runs.clone().flat_map(|run| parts::<G>(run.units)) {
            let (word, bit) = Word::of(group_of(&part));
            words.get_mut(word)?.present |= bit;
        }
        let mut linked = 0;
        for word in words.iter_mut() {
            word.before = linked;
            linked += word.present.count_ones();
        }
        entries.fill(Entry::NONE);
        let mut index = Index { first, words, entries: &[] };
        for run in runs {
            let mut there = run.there.checked_sub(first)?;
            for part in parts::<G>(run.units) {
                let count = part.len();
                let mut entry = Entry {
                    first: u32::try_from(part.start - first).ok()?,
                    count: u16::try_from(count).ok()?,
                    zone: u16::try_from(run.zone).ok()?,
                    there: u32::try_from(there).ok()?,
                    next: 0,
                };
                there += count;
                let head = entries.get_mut(index.head(group_of(&part))?)?;
                if head.count == 0 {
                    *head = entry;
                } else {
                    entry.next = core::mem::replace(&mut head.next, linked);
                    *entries.get_mut(linked as usize)? = entry;
                    linked += 1;
                }
            }
        }
        index.entries = entries;
        Some(index)
    }

    /// Where the first entry of a group is; if it has no memory, an entry of others, or none.
    #[inline(always)]
    fn head(&self, group: usize) -> Option<usize> {
        let (word, bit) = Word::of(group);
        let Word { present, before } = *self.words.get(word)?;
        let earlier = present & (bit - 1);
        Some((before + earlier.count_ones()) as usize)
    }

    /// Where a frame lies, if its unit is there.
    #[inline(always)]
    pub(crate) fn locate<G: Geometry>(&self, frame: FrameId) -> Option<Located> {
        let unit = (frame.0 >> UNIT).wrapping_sub(self.first);
        let mut entry = self.entries.get(self.head(unit >> group::<G>())?)?;
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
        let (words, entries) = sizes::<Base4K>(all.iter().map(|run| run.units.clone()));
        let (mut words, mut entries) = (vec![Word::NONE; words], vec![Entry::NONE; entries]);
        let index = Index::new::<Base4K>(&mut words, &mut entries, all.iter().cloned());
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
    fn groups_between_have_no_entry() {
        // The last units of a word, of the one behind, which is full, and of one behind a word without memory.
        let group = 1 << group::<Base4K>();
        let all = (31..64).map(|n| (0, n * group + 5..n * group + 9));
        let runs: Vec<_> = all.chain([(1, 127 * group..128 * group), (2, 3..4)]).collect();
        check(&runs, 130 * group);
    }

    #[test]
    fn too_few_words_or_entries_are_refused() {
        let run = |unit| Run { zone: 0, units: unit..unit + 1, there: unit };
        let far = 32 << group::<Base4K>();
        let refused = |words, entries, runs: [Run; 2]| {
            let (mut words, mut entries) = (vec![Word::NONE; words], vec![Entry::NONE; entries]);
            Index::new::<Base4K>(&mut words, &mut entries, runs.into_iter()).is_none()
        };
        assert!(refused(1, 1, [run(0), run(2)]));
        assert!(refused(1, 2, [run(0), run(far)]));
        assert!(!refused(1, 2, [run(0), run(2)]) && !refused(2, 2, [run(0), run(far)]));
    }

    #[test]
    fn a_hole_costs_eight_bytes_for_32_groups() {
        let far = 1 << 22;
        let (words, entries) = sizes::<Base4K>([0..1, far..far + 1].into_iter());
        let bytes = (size_of::<Word>() * words, size_of::<Entry>() * entries);
        assert_eq!(bytes, (8 * ((1 << 7) + 1), 16 * 2));
    }
}
