//! Starting up: how many words a zone needs, and what is in them at first.

use core::convert::Infallible;
use core::marker::PhantomData;
use core::mem::size_of;
use core::ops::Range;

use woodlot_frame::atomics::{AtomicU32, AtomicU64, Ordering};
use woodlot_frame::{
    Class, FrameId, Geometry, HugeId, Init, InitError, MAX_CLASSES, Persistence, Region, Volatile,
    ZoneConfig,
};

use crate::index::{self, Index, Places, Use};
use crate::line::Line;
use crate::lower::{Lower, Start, TreeStates};
use crate::record::{self, MOST_FRAMES, RecordLine};
use crate::reservation::Reservation;
use crate::row::row_count;
use crate::tree::{self, Tree};
use crate::{LLFree, Repairs, Tuning};

/// Words of a slot: eight reservations, by class, in one cache line; then its statistics and its pockets.
pub(crate) const SLOT_WORDS: usize = 16;
/// Of a slot: frames freed less frames allocated through it, modulo 2^64.
pub(crate) const SLOT_BALANCE: usize = MAX_CLASSES;
/// Of a slot: the tree that it freed into last where nobody had reserved it, or by a join, and how often
/// in a row.
pub(crate) const SLOT_LAST_FREE: usize = MAX_CLASSES + 1;
/// Of a slot: the child of a reserved tree that it freed into last, and how often in a row.
pub(crate) const SLOT_LAST_CHILD: usize = MAX_CLASSES + 2;
/// Of a slot: the first of its [pockets](crate::pockets).
pub(crate) const SLOT_POCKETS: usize = MAX_CLASSES + 3;

/// The most slots: far above any number of CPUs, far below what could overflow a size.
const MAX_SLOTS: usize = 1 << 20;

/// Words of the zone's totals.
pub(crate) const TOTAL_WORDS: usize = 8;
/// Of the totals: free frames, less what the slots' balances say; modulo 2^64.
pub(crate) const TOTAL_FREE: usize = 0;
/// Of the totals: how often somebody asked to be told of free huge frames, and was ([`news`](crate::news)).
pub(crate) const TOTAL_NEWS: usize = 1;
/// Of the totals: how many claims of isolated huge frames have begun, modulo 2^64.
pub(crate) const TOTAL_CLAIMS: usize = 2;

/// How many words of each kind a zone needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Counts {
    pub(crate) rows: usize,
    pub(crate) states: usize,
    pub(crate) totals: usize,
    pub(crate) slots: usize,
    pub(crate) masks: usize,
    pub(crate) leaves: usize,
    pub(crate) trees: usize,
    pub(crate) children: usize,
}

/// The metadata of a zone as slices of words. They are for callers that have no raw memory, such as model
/// checkers, whose words are not plain memory. [`Parts::lengths`] says how long each slice must be.
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the picture at the head of the crate names them")]
pub struct Parts<'a> {
    pub rows: &'a [AtomicU64],
    pub states: &'a [TreeStates],
    pub totals: &'a [AtomicU64],
    pub slots: &'a [AtomicU64],
    pub masks: &'a [AtomicU64],
    pub leaves: &'a [AtomicU64],
    pub trees: &'a [Line<AtomicU64>],
    pub children: &'a [AtomicU32],
    pub intents: &'a [RecordLine],
}

impl Parts<'_> {
    /// The lengths of `rows`, `states`, `totals`, `slots`, `masks`, `leaves`, `trees` and
    /// `children`, in this order, for a zone.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn lengths<G: Geometry>(zone: &ZoneConfig) -> Result<[usize; 8], InitError> {
        let Counts { rows, states, totals, slots, masks, leaves, trees, children } =
            counts::<G>(zone)?;
        Ok([rows, states, totals, slots, masks, leaves, trees, children])
    }

    /// The length of `intents` for a zone that `lengths` accepts: the lines of a record for each slot, or none.
    ///
    /// # Errors
    /// [`InitError::ZoneTooLarge`]: a record cannot tell so many frames apart, or the records are larger than memory can
    /// be. [`InitError::RecordRoom`]: no record has as much room as the configuration says.
    pub const fn records<P: Persistence>(zone: &ZoneConfig) -> Result<usize, InitError> {
        if !P::INTENTS {
            return Ok(0);
        }
        if zone.frames as u64 > MOST_FRAMES {
            return Err(InitError::ZoneTooLarge);
        }
        let lines = match record::lines_of(zone.record_room) {
            Ok(lines) => zone.slots.checked_mul(lines),
            Err(error) => return Err(error),
        };
        match lines {
            Some(lines) if lines <= isize::MAX as usize / 2 / size_of::<RecordLine>() => Ok(lines),
            _ => Err(InitError::ZoneTooLarge),
        }
    }
}

/// The most trees of a zone: a reservation can name each, and the sizes of their metadata can be counted.
fn most_trees<G: Geometry>() -> usize {
    // States, entry, and what the index has for eight classes are less than 256 bytes.
    let bytes = 256 + G::TREE_HUGE * (8 * row_count::<G>() + 4);
    Reservation::<G>::MAX_TREES.min(isize::MAX as usize / 2 / bytes)
}

fn base<G: Geometry>(zone: &ZoneConfig) -> usize {
    zone.start.0 & !(G::MAX_FRAMES - 1)
}

pub(crate) fn counts<G: Geometry>(zone: &ZoneConfig) -> Result<Counts, InitError> {
    const {
        assert!(G::HUGE_ORDER >= 1 && G::HUGE_ORDER <= 12);
        assert!(G::HUGE_FRAMES == 1 << G::HUGE_ORDER && G::MAX_ORDER == G::HUGE_ORDER + 1);
        assert!(G::MAX_FRAMES == 2 * G::HUGE_FRAMES);
        assert!(G::TREE_FRAMES == G::TREE_HUGE * G::HUGE_FRAMES);
        assert!(G::TREE_HUGE.is_power_of_two() && G::TREE_HUGE >= 2 && tree::fits::<G>());
    }
    // How many frames there may be, the trees say.
    zone.check(usize::MAX, MAX_SLOTS)?;
    let frames = zone.end().0 - base::<G>(zone);
    let children = frames.div_ceil(G::MAX_FRAMES) * 2;
    let trees = frames.div_ceil(G::TREE_FRAMES);
    if trees > most_trees::<G>() {
        return Err(InitError::ZoneTooLarge);
    }
    let (masks, leaves) = index::words(trees, zone.classes.count());
    let slots = zone.slots * SLOT_WORDS;
    let rows = children * row_count::<G>();
    let totals = TOTAL_WORDS;
    Ok(Counts { rows, states: trees, totals, slots, masks, leaves, trees, children })
}

/// The first `needed` words of a part.
fn exactly<W>(words: &[W], needed: usize, region: Region) -> Result<&[W], InitError> {
    let bytes = |words| words * size_of::<W>();
    let (needed_bytes, given) = (bytes(needed), bytes(words.len()));
    words.get(..needed).ok_or(InitError::Short { region, needed: needed_bytes, given })
}

impl<'a, G: Geometry> LLFree<'a, G> {
    /// Makes an allocator from words. Nothing is written back.
    ///
    /// # Errors
    /// As [`persistent_from_parts`](LLFree::persistent_from_parts).
    pub fn from_parts(
        zone: &ZoneConfig,
        tuning: Tuning,
        parts: Parts<'a>,
        init: Init,
    ) -> Result<Self, InitError> {
        Self::persistent_from_parts(zone, tuning, Volatile, parts, init)
    }
}

impl<'a, G: Geometry, P: Persistence> LLFree<'a, G, P> {
    /// Makes an allocator from words, which makes the rows and states persistent by `persistence`.
    ///
    /// # Errors
    /// What is wrong with the configuration, or [`InitError::Short`] where a slice is shorter than
    /// [`Parts::lengths`] says.
    pub fn persistent_from_parts(
        zone: &ZoneConfig,
        tuning: Tuning,
        persistence: P,
        parts: Parts<'a>,
        init: Init,
    ) -> Result<Self, InitError> {
        let allocator = Self::over(zone, tuning, persistence, parts)?;
        let start = match init {
            Init::Free => Start::Free,
            Init::Allocated => Start::Allocated,
            Init::Recover => Start::Recover,
        };
        allocator.begin_start(start);
        let found = allocator.start_trees(0..allocator.trees.len(), start);
        let Ok(_) = allocator.end_start(found, || Ok::<_, Infallible>(()));
        Ok(allocator)
    }

    /// An allocator over words, of which none is read or written yet.
    pub(crate) fn over(
        zone: &ZoneConfig,
        tuning: Tuning,
        persistence: P,
        parts: Parts<'a>,
    ) -> Result<Self, InitError> {
        let counts = counts::<G>(zone)?;
        let parts = Parts {
            rows: exactly(parts.rows, counts.rows, Region::Durable)?,
            states: exactly(parts.states, counts.states, Region::Durable)?,
            totals: exactly(parts.totals, counts.totals, Region::Volatile)?,
            slots: exactly(parts.slots, counts.slots, Region::Volatile)?,
            masks: exactly(parts.masks, counts.masks, Region::Volatile)?,
            leaves: exactly(parts.leaves, counts.leaves, Region::Volatile)?,
            trees: exactly(parts.trees, counts.trees, Region::Volatile)?,
            children: exactly(parts.children, counts.children, Region::Volatile)?,
            intents: exactly(parts.intents, Parts::records::<P>(zone)?, Region::Durable)?,
        };
        Ok(Self {
            zone: *zone,
            tuning,
            base: base::<G>(zone),
            lower: Lower::new(parts.rows, parts.states, parts.children, persistence),
            trees: parts.trees,
            index: Index::new(parts.masks, parts.leaves, zone.classes.count()),
            filled: core::array::from_fn(|class| {
                let filled = zone.classes.fills(Class(class as u8));
                filled.fold(Places::NONE, |all, filled| all.or(Places::of(filled)))
            }),
            home_distance: counts.trees / zone.slots,
            slots: parts.slots.as_chunks().0,
            totals: parts.totals,
            records: parts.intents,
            record_lines: parts.intents.len() / zone.slots,
            geometry: PhantomData,
        })
    }

    /// Begins to start up: what does not depend on the trees.
    pub(crate) fn begin_start(&self, start: Start) {
        self.slots
            .as_flattened()
            .iter()
            .chain(self.totals)
            .for_each(|word| word.store(0, Ordering::Relaxed));
        self.index.clear();
        if start != Start::Recover {
            self.clear_intents();
        }
        // SAFETY: the allocator that uses the words is just being made.
        unsafe { self.lower.start(start) };
    }

    /// Sets trees up. Each tree is set up once; several threads may set up trees of different groups.
    pub(crate) fn start_trees(&self, trees: Range<usize>, start: Start) -> Repairs {
        let mut found = Repairs::default();
        for (index, entry) in self.trees.iter().enumerate().take(trees.end).skip(trees.start) {
            let first = index * G::TREE_HUGE;
            let last = (first + G::TREE_HUGE).min(self.lower.len());
            let free = if self.is_inside(first) {
                self.lower.start_inside(index, start, &mut found)
            } else {
                self.lower.start_tree(index, last - first, &mut found, start);
                let parts = (first..last).map(|huge| (huge, self.inside(huge)));
                parts
                    .map(|(huge, inside)| self.lower.start_huge(huge, inside, start, &mut found))
                    .sum()
            };
            found.trees += 1;
            found.free_frames += free;
            if start == Start::Inspect {
                continue;
            }
            let mut tree = Tree::new(FIRST_CLASS);
            if free > 0 && free < G::TREE_FRAMES {
                tree = (first..last).fold(tree, |tree, huge| {
                    let credits = self.lower.credits(huge);
                    tree.follow::<G>(huge % G::TREE_HUGE, 0, credits)
                });
            }
            entry.store(tree.0, Ordering::Relaxed);
            let whole = self.lower.count_whole(index);
            self.index.update(index, None, Use::new(tree, whole));
        }
        found
    }

    /// Ends starting up, by what was found in all trees; returns it with what calls of an earlier life have left
    /// half done. `sync` makes all durable that was written, where that takes more than to write lines back.
    pub(crate) fn end_start<E>(
        &self,
        mut found: Repairs,
        sync: impl Fn() -> Result<(), E>,
    ) -> Result<Repairs, E> {
        if found.cut_open > 0 {
            sync()?;
            self.open_ends();
        }
        self.resolve_records(&mut found, sync)?;
        self.total(TOTAL_FREE).store(found.free_frames as u64, Ordering::Relaxed);
        Ok(found)
    }

    /// Says of the huge frames that the zone's ends cut off that they are split, when their bits are durable.
    #[cold]
    fn open_ends(&self) {
        let huge_frames = 0..self.lower.len();
        for huge in huge_frames.filter(|&huge| self.inside(huge).len() < G::HUGE_FRAMES) {
            self.lower.open_cut_off(huge);
            let tree = huge / G::TREE_HUGE;
            let now = Use::new(self.tree(tree), self.lower.count_whole(tree));
            self.index.update(tree, None, now);
        }
    }

    /// Does the tree that begins with huge frame `first` lie wholly in the zone?
    fn is_inside(&self, first: usize) -> bool {
        let begin = self.base + (first << G::HUGE_ORDER);
        let end = begin.checked_add(G::TREE_FRAMES);
        begin >= self.zone.start.0 && end.is_some_and(|end| end <= self.zone.end().0)
    }

    /// Which of the frames of a huge frame lie in the zone, as offsets.
    pub(crate) fn inside(&self, huge: usize) -> Range<usize> {
        let first = self.frame(huge, 0).0;
        let offset = |frame: FrameId| frame.0.saturating_sub(first).min(G::HUGE_FRAMES);
        offset(self.zone.start)..offset(self.zone.end())
    }

    /// The number of the huge frame that the metadata begins with.
    pub(crate) fn first_huge(&self) -> usize {
        self.base >> G::HUGE_ORDER
    }

    /// The huge frame at an index.
    pub(crate) fn huge_id(&self, huge: usize) -> HugeId {
        HugeId(self.first_huge() + huge)
    }

    /// The index of a huge frame that lies wholly in the zone.
    pub(crate) fn huge_index(&self, huge: HugeId) -> Option<usize> {
        let within = self.zone.huge_range::<G>().contains(&huge);
        within.then(|| huge.0 - self.first_huge())
    }
}

/// The class of trees that nobody has reserved yet. After a recovery, or a start with everything allocated, the
/// contents of such a tree are not known. Movable frames may lie anywhere, so they fill these trees up.
const FIRST_CLASS: Class = Class::MOVABLE;

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use woodlot_frame::Base4K;

    #[test]
    fn the_largest_zone_and_the_most_slots() {
        let frames = Reservation::<Base4K>::MAX_TREES * Base4K::TREE_FRAMES;
        let counted = |frames, slots| {
            counts::<Base4K>(&ZoneConfig::new(frames, slots)).map(|counts| counts.trees)
        };
        assert_eq!(counted(frames, MAX_SLOTS), Ok(Reservation::<Base4K>::MAX_TREES));
        assert_eq!(counted(frames + 1, 1), Err(InitError::ZoneTooLarge));
        assert_eq!(counted(1, MAX_SLOTS + 1), Err(InitError::TooManySlots));
        let records = |frames| {
            Parts::records::<woodlot_frame::Intents<Volatile>>(&ZoneConfig::new(frames, 3))
        };
        assert_eq!(
            (records(1 << 47), records((1 << 47) + 1)),
            (Ok(3 * 64), Err(InitError::ZoneTooLarge))
        );
        assert_eq!(Parts::records::<Volatile>(&ZoneConfig::new(usize::MAX, 3)), Ok(0));
    }
}
