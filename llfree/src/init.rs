//! Starting up: how much metadata a zone needs, and what is in it at first.
//!
//! ```text
//!   durable    rows │ pairs
//!   volatile   totals │ slots │ masks │ leaves │ trees        each from a cache line of its own
//! ```

use core::marker::PhantomData;
use core::mem::size_of;

use woodlot_frame::atomics::{AtomicU32, AtomicU64, Ordering};
use woodlot_frame::{
    ClassPolicy, FrameId, Geometry, HugeId, Init, InitError, MAX_CLASSES, METADATA_ALIGN,
    MetadataSize, Region, ZoneConfig,
};

use crate::index::{self, Index};
use crate::lower::{Lower, Start};
use crate::reservation::Reservation;
use crate::rows::row_count;
use crate::tree::{self, Tree};
use crate::{LLFree, Tuning};

/// Words of a slot: eight reservations, by class, in one cache line; then its statistics.
pub(crate) const SLOT_WORDS: usize = 16;
/// Of a slot: frames freed less frames allocated through it, modulo 2^64.
pub(crate) const SLOT_BALANCE: usize = MAX_CLASSES;
/// Of a slot: the tree it freed into last, and how often in a row.
pub(crate) const SLOT_LAST_FREE: usize = MAX_CLASSES + 1;

/// The most slots: far above any number of CPUs, far below what could overflow a size.
const MAX_SLOTS: usize = 1 << 20;

/// Words of the zone's totals.
pub(crate) const TOTAL_WORDS: usize = 8;
/// Of the totals: free frames, less what the slots' balances say; modulo 2^64.
pub(crate) const TOTAL_FREE: usize = 0;
/// Of the totals: huge frames that are offline.
pub(crate) const TOTAL_OFFLINE: usize = 1;

/// How many words of each kind a zone needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Counts {
    rows: usize,
    pairs: usize,
    totals: usize,
    slots: usize,
    masks: usize,
    leaves: usize,
    trees: usize,
}

/// The metadata of a zone as slices of words, for callers that do not have raw memory: a model
/// checker's words are no plain memory. [`Parts::lengths`] says how long each must be.
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the picture at the head of this module names them")]
pub struct Parts<'a> {
    pub rows: &'a [AtomicU64],
    pub pairs: &'a [AtomicU64],
    pub totals: &'a [AtomicU64],
    pub slots: &'a [AtomicU64],
    pub masks: &'a [AtomicU64],
    pub leaves: &'a [AtomicU64],
    pub trees: &'a [AtomicU32],
}

impl Parts<'_> {
    /// The lengths of `rows`, `pairs`, `totals`, `slots`, `masks`, `leaves` (64-bit words) and
    /// `trees` (32-bit words) for a zone.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn lengths<G: Geometry>(zone: &ZoneConfig) -> Result<[usize; 7], InitError> {
        let Counts { rows, pairs, totals, slots, masks, leaves, trees } = counts::<G>(zone)?;
        Ok([rows, pairs, totals, slots, masks, leaves, trees])
    }
}

fn base<G: Geometry>(zone: &ZoneConfig) -> usize {
    zone.start.0 & !(G::MAX_FRAMES - 1)
}

fn counts<G: Geometry>(zone: &ZoneConfig) -> Result<Counts, InitError> {
    const {
        assert!(G::HUGE_ORDER >= 1 && G::HUGE_ORDER <= 12);
        assert!(G::HUGE_FRAMES == 1 << G::HUGE_ORDER && G::MAX_ORDER == G::HUGE_ORDER + 1);
        assert!(G::MAX_FRAMES == 2 * G::HUGE_FRAMES);
        assert!(G::TREE_FRAMES == G::TREE_HUGE * G::HUGE_FRAMES && G::TREE_FRAMES >= 8);
        assert!(G::TREE_HUGE.is_power_of_two() && G::TREE_HUGE >= 2 && tree::fits::<G>());
    }
    if zone.frames == 0 {
        return Err(InitError::EmptyZone);
    }
    if zone.slots == 0 {
        return Err(InitError::NoSlots);
    }
    if zone.slots > MAX_SLOTS {
        return Err(InitError::TooManySlots);
    }
    let end = zone.start.0.checked_add(zone.frames).ok_or(InitError::ZoneTooLarge)?;
    let frames = end - base::<G>(zone);
    let pairs = frames.div_ceil(G::MAX_FRAMES);
    let trees = frames.div_ceil(G::TREE_FRAMES);
    if trees > Reservation::<G>::MAX_TREES {
        return Err(InitError::ZoneTooLarge);
    }
    let (masks, leaves) = index::words(trees, zone.classes.count());
    let slots = zone.slots * SLOT_WORDS;
    let rows = pairs * 2 * row_count::<G>();
    Ok(Counts { rows, pairs, totals: TOTAL_WORDS, slots, masks, leaves, trees })
}

/// The first `needed` words of a part.
fn exactly<W>(words: &[W], needed: usize, region: Region) -> Result<&[W], InitError> {
    let bytes = |words| words * size_of::<W>();
    let (needed_bytes, given) = (bytes(needed), bytes(words.len()));
    words.get(..needed).ok_or(InitError::Short { region, needed: needed_bytes, given })
}

/// The bytes that `words` words take, rounded up to a cache line.
fn bytes<W>(words: usize) -> usize {
    (words * size_of::<W>()).next_multiple_of(METADATA_ALIGN)
}

impl Counts {
    fn size(&self) -> MetadataSize {
        let volatile = [self.totals, self.slots, self.masks, self.leaves].map(bytes::<u64>);
        MetadataSize {
            durable: bytes::<u64>(self.rows) + bytes::<u64>(self.pairs),
            volatile: volatile.iter().sum::<usize>() + bytes::<u32>(self.trees),
        }
    }
}

#[cfg(not(any(loom, woodlot_explore)))]
impl<'a> Parts<'a> {
    /// Lays the words out in raw memory.
    ///
    /// # Safety
    /// As for [`Construct::construct`](woodlot_frame::Construct::construct), for `'a`.
    pub(crate) unsafe fn carve<G: Geometry>(
        zone: &ZoneConfig,
        metadata: woodlot_frame::RawMetadata,
    ) -> Result<Self, InitError> {
        let counts = counts::<G>(zone)?;
        metadata.check(counts.size())?;
        let mut durable = metadata.durable.0;
        let mut volatile = metadata.volatile.0;
        // SAFETY: `check` found both parts aligned to a cache line and at least as long as the
        // sum of the pieces taken here, each of which is a multiple of a cache line; the caller
        // vouches for the memory, and atomics may have any value.
        unsafe {
            Ok(Parts {
                rows: take(&mut durable, counts.rows),
                pairs: take(&mut durable, counts.pairs),
                totals: take(&mut volatile, counts.totals),
                slots: take(&mut volatile, counts.slots),
                masks: take(&mut volatile, counts.masks),
                leaves: take(&mut volatile, counts.leaves),
                trees: take(&mut volatile, counts.trees),
            })
        }
    }
}

/// The next `words` words of a region.
///
/// # Safety
/// `region` must point to that much initialised memory, aligned for `W`, whose words may have any
/// value, shared by atomic access only for `'a`.
#[cfg(not(any(loom, woodlot_explore)))]
unsafe fn take<'a, W>(region: &mut *mut u8, words: usize) -> &'a [W] {
    let start = region.cast::<W>();
    // SAFETY: as the caller promises; the step stays within the same piece or ends it.
    unsafe {
        *region = region.add(bytes::<W>(words));
        core::slice::from_raw_parts(start, words)
    }
}

impl<'a, G: Geometry> LLFree<'a, G> {
    /// Makes an allocator with other than the default tuning from raw memory.
    ///
    /// # Errors
    /// As [`Construct::construct`](woodlot_frame::Construct::construct).
    ///
    /// # Safety
    /// As [`Construct::construct`](woodlot_frame::Construct::construct), for `'a`.
    #[cfg(not(any(loom, woodlot_explore)))]
    pub unsafe fn with_tuning(
        zone: &ZoneConfig,
        tuning: Tuning,
        metadata: woodlot_frame::RawMetadata,
        init: Init,
    ) -> Result<Self, InitError> {
        // SAFETY: as the caller promises.
        let parts = unsafe { Parts::carve::<G>(zone, metadata) }?;
        Self::from_parts(zone, tuning, parts, init)
    }

    /// Makes an allocator from words.
    ///
    /// # Errors
    /// What is wrong with the configuration, or [`InitError::Short`] where a slice is shorter than
    /// [`Parts::lengths`] says.
    pub fn from_parts(
        zone: &ZoneConfig,
        tuning: Tuning,
        parts: Parts<'a>,
        init: Init,
    ) -> Result<Self, InitError> {
        let Counts { rows, pairs, totals, slots, masks, leaves, trees } = counts::<G>(zone)?;
        let parts = Parts {
            rows: exactly(parts.rows, rows, Region::Durable)?,
            pairs: exactly(parts.pairs, pairs, Region::Durable)?,
            totals: exactly(parts.totals, totals, Region::Volatile)?,
            slots: exactly(parts.slots, slots, Region::Volatile)?,
            masks: exactly(parts.masks, masks, Region::Volatile)?,
            leaves: exactly(parts.leaves, leaves, Region::Volatile)?,
            trees: exactly(parts.trees, trees, Region::Volatile)?,
        };
        let zone_allocator = Self {
            zone: *zone,
            tuning,
            base: base::<G>(zone),
            lower: Lower::new(parts.rows, parts.pairs),
            trees: parts.trees,
            index: Index::new(parts.masks, parts.leaves, zone.classes.count()),
            slots: parts.slots,
            totals: parts.totals,
            geometry: PhantomData,
        };
        zone_allocator.start(match init {
            Init::Free => Start::Free,
            Init::Allocated => Start::Allocated,
            Init::Recover => Start::Recover,
        });
        Ok(zone_allocator)
    }

    fn start(&self, start: Start) {
        self.slots.iter().chain(self.totals).for_each(|word| word.store(0, Ordering::Relaxed));
        self.index.clear();
        let (mut total, mut offline) = (0, 0);
        for (index, entry) in self.trees.iter().enumerate() {
            let first = index * G::TREE_HUGE;
            let last = (first + G::TREE_HUGE).min(self.lower.len());
            let (mut free, mut huge) = (0, 0);
            for child in first..last {
                let count = self.lower.start(child, self.inside(child), start);
                free += count;
                huge += (count == G::HUGE_FRAMES) as usize;
                offline += self.lower.child(child).is_offline() as u64;
            }
            total += free;
            let tree = Tree::new(free, huge, first_class(&self.zone.classes));
            entry.store(tree.0, Ordering::Relaxed);
            self.index.update(index, None, tree);
        }
        self.total(TOTAL_FREE).store(total as u64, Ordering::Relaxed);
        self.total(TOTAL_OFFLINE).store(offline, Ordering::Relaxed);
    }

    /// Which of the frames of a huge frame lie in the zone, as offsets.
    fn inside(&self, huge: usize) -> core::ops::Range<usize> {
        let first = self.frame(huge, 0).0;
        let offset = |frame: FrameId| frame.0.saturating_sub(first).min(G::HUGE_FRAMES);
        offset(self.zone.start)..offset(self.zone.end())
    }

    /// The index of a huge frame that lies wholly in the zone.
    pub(crate) fn huge_index(&self, huge: HugeId) -> Option<usize> {
        let within = self.zone.huge_range::<G>().contains(&huge);
        within.then(|| huge.0 - (self.base >> G::HUGE_ORDER))
    }
}

/// The class of trees that were never reserved. Boot memory moves nowhere, so trees that a
/// recovery or a start with everything allocated leaves in part free count as movable only where
/// there is nothing else to say.
fn first_class(classes: &ClassPolicy) -> woodlot_frame::Class {
    use woodlot_frame::Class;
    if classes.has(Class::MOVABLE) { Class::MOVABLE } else { Class(0) }
}

#[cfg(not(any(loom, woodlot_explore)))]
impl<G: Geometry> woodlot_frame::Construct for LLFree<'_, G> {
    fn metadata_size(config: &ZoneConfig) -> Result<MetadataSize, InitError> {
        Ok(counts::<G>(config)?.size())
    }

    unsafe fn construct(
        config: &ZoneConfig,
        metadata: woodlot_frame::RawMetadata,
        init: Init,
    ) -> Result<Self, InitError> {
        // SAFETY: as the caller promises.
        unsafe { Self::with_tuning(config, Tuning::DEFAULT, metadata, init) }
    }
}
