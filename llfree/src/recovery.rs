//! Four ways to come back to a zone that lies in memory: recover it by several threads, go on with it as it
//! is, or only look, at what a recovery would find or at what it is used for.
//!
//! ```text
//!   recovery ── help, help, …  each takes the next 64 trees ── finish ── LLFree, Repairs
//!   attach   ── nothing is written
//!   inspect  ── nothing is written: what a recovery would find
//!   view     ── nothing is ever written: huge frames, slots, counts, while others go on
//! ```
//!
//! Sixty-four trees are a group of the index. So no two helpers write one line of anything but the masks.
//!
//! *Crash*: a recovery that stops anywhere leaves a durable part from which another recovery comes to the same end.
//! For no write of a recovery changes the meaning of a frame in the zone, and the rows that a new state
//! speaks of are written before that state. What calls with intents have left half done is resolved at the end.

use core::convert::Infallible;

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{
    Geometry, HugeId, InitError, MAX_CLASSES, Persistence, RawMetadata, Slot, Stats, Volatile,
    ZoneConfig,
};

use crate::init::SLOT_BALANCE;
use crate::lower::Start;
use crate::repairs::COUNTS;
use crate::state::Phase;
use crate::{LLFree, Parts, Repairs, Tuning};

/// The version of the durable part's layout.
pub const DURABLE_VERSION: u32 = 1;

/// The version of the volatile part's layout. Programs whose numbers are the same may share a zone, or go on
/// with what another one has left. Version 1 did not count the batches and runs of a slot in its record, and
/// knew no isolation. Version 2 had no numbers of claims, and no pockets.
pub const VOLATILE_VERSION: u32 = 3;

/// Trees that a helper takes at once: a group of the index.
const SHARE: usize = 64;

/// A recovery under way. Any number of threads may [`help`](Self::help); then one of them
/// [finishes](Self::finish) it.
pub struct Recovery<'a, G: Geometry, P = Volatile> {
    zone: LLFree<'a, G, P>,
    /// The first tree that nobody has taken.
    next: AtomicU64,
    found: [AtomicU64; COUNTS],
}

impl<'a, G: Geometry, P: Persistence> Recovery<'a, G, P> {
    /// Recovers trees until none is left that nobody has taken. Others may be at their last ones then.
    ///
    /// # Progress
    /// Wait-free: linear in the trees.
    pub fn help(&self) {
        let mut found = Repairs::default();
        loop {
            let first = self.next.fetch_add(SHARE as u64, Ordering::Relaxed) as usize;
            let end = first.saturating_add(SHARE).min(self.zone.trees.len());
            if first >= end {
                break;
            }
            found = found.and(self.zone.start_trees(first..end, Start::Recover));
        }
        for (sum, count) in self.found.iter().zip(found.counts()) {
            sum.fetch_add(count as u64, Ordering::Relaxed);
        }
    }

    /// Recovers what is left, and returns the allocator and what was found.
    ///
    /// # Progress
    /// As [`help`](Self::help). That nobody helps any more is shown by the type.
    ///
    /// # Crash
    /// What was recovered is persistent by `P` when this returns. A file takes more:
    /// [`finish_synced`](Self::finish_synced).
    pub fn finish(self) -> (LLFree<'a, G, P>, Repairs) {
        let Ok(finished) = self.finish_synced(|| Ok::<_, Infallible>(()));
        finished
    }

    /// The same on a medium that is durable only when it was synchronised. `sync` makes all durable that was written to the
    /// durable part before. It is called once; three times if calls were cut off, whose frames are released before the
    /// second, and whose records become [cut off](crate::End::CutOff) before the third. Before those, once more if damage had
    /// closed a huge frame that an end of the zone cuts off: its rows are durable before its state.
    ///
    /// # Errors
    /// That of `sync`. The zone is to be recovered again then.
    ///
    /// # Progress
    /// As [`help`](Self::help), and what `sync` takes.
    ///
    /// # Crash
    /// Each part of the durable part may be lost that was written since `sync` was called last, and another recovery comes
    /// to the same end. What was recovered is durable when this returns.
    pub fn finish_synced<E>(
        self,
        sync: impl Fn() -> Result<(), E>,
    ) -> Result<(LLFree<'a, G, P>, Repairs), E> {
        self.help();
        let found = self.found.each_ref().map(|sum| sum.load(Ordering::Relaxed) as usize);
        let found = self.zone.end_start(Repairs::of(found), sync)?;
        Ok((self.zone, found))
    }
}

impl<'a, G: Geometry, P: Persistence> LLFree<'a, G, P> {
    /// Begins to recover a zone.
    ///
    /// # Errors
    /// As [`Construct::construct`](woodlot_frame::Construct::construct).
    ///
    /// # Safety
    /// As [`Construct::construct`](woodlot_frame::Construct::construct), for `'a`.
    pub unsafe fn recovery(
        zone: &ZoneConfig,
        tuning: Tuning,
        persistence: P,
        metadata: RawMetadata,
    ) -> Result<Recovery<'a, G, P>, InitError> {
        // SAFETY: as the caller promises.
        let parts = unsafe { Parts::carve::<G, P>(zone, metadata) }?;
        let zone = Self::over(zone, tuning, persistence, parts)?;
        zone.begin_start(Start::Recover);
        let found = [const { AtomicU64::new(0) }; COUNTS];
        Ok(Recovery { zone, next: AtomicU64::new(0), found })
    }

    /// An allocator over metadata that is in use already, or that an earlier user has left with no call under
    /// way: nothing is written.
    ///
    /// # Errors
    /// As [`Construct::construct`](woodlot_frame::Construct::construct).
    ///
    /// # Safety
    /// Each part of `metadata` must be valid for reads and writes of its length for `'a`, and hold what an
    /// allocator of the same configuration, geometry and [`VOLATILE_VERSION`] has made and keeps in it. Others may
    /// use it by such allocators only. (No bytes lead to undefined behaviour in this crate; but bytes that
    /// contradict each other may hand out a frame twice, or end no search.)
    pub unsafe fn attach(
        zone: &ZoneConfig,
        tuning: Tuning,
        persistence: P,
        metadata: RawMetadata,
    ) -> Result<Self, InitError> {
        // SAFETY: as the caller promises; what allocators share, they access by atomics.
        let parts = unsafe { Parts::carve::<G, P>(zone, metadata) }?;
        Self::over(zone, tuning, persistence, parts)
    }
}

impl<G: Geometry, P: Persistence + Default> LLFree<'_, G, P> {
    /// What a recovery would find; nothing is written. The volatile part is not looked at. While others use the
    /// zone, the counts are those of no one moment. Of what calls with intents have left half done, each write is
    /// looked at by itself: a huge frame that several of them together make free does not count as free.
    ///
    /// # Errors
    /// As [`Construct::construct`](woodlot_frame::Construct::construct).
    ///
    /// # Safety
    /// Each part of `metadata` must be initialised memory of any value, valid for reads of its length, and
    /// written by atomic accesses only meanwhile.
    pub unsafe fn inspect(zone: &ZoneConfig, metadata: RawMetadata) -> Result<Repairs, InitError> {
        // SAFETY: as the caller promises; `Start::Inspect` writes nothing.
        let parts = unsafe { Parts::carve::<G, P>(zone, metadata) }?;
        let zone = Self::over(zone, Tuning::DEFAULT, P::default(), parts)?;
        let mut found = zone.start_trees(0..zone.trees.len(), Start::Inspect);
        zone.inspect_intents(&mut found);
        Ok(found)
    }
}

/// A zone that is only looked at, beside those who use it: memory that can be read is enough. What is seen while
/// others go on is that of no one moment.
pub struct View<'a, G: Geometry>(LLFree<'a, G>);

/// A huge frame, as somebody sees it who looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HugeView {
    /// Which.
    pub id: HugeId,
    /// How many of its base frames lie in the zone: less than all at the ends of the zone.
    pub frames: usize,
    /// What it is used as.
    pub used_as: HugeUse,
}

/// What a huge frame is used as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HugeUse {
    /// It is free as a whole.
    Free,
    /// Its base frames are allocated one by one.
    Split {
        /// So many are free. That can be all of them, where a slot holds the huge frame.
        free: usize,
    },
    /// It is allocated as a whole.
    Whole,
    /// It is taken out of use.
    Offline,
}

/// A slot, as somebody sees it who looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotView {
    /// Frames allocated through it less frames freed through it, since the zone was formatted or recovered. Below
    /// zero where it frees what others have allocated. Not exact where two calls used the slot at once.
    pub balance: i64,
    /// The free frames that it holds for itself, by the class of their trees.
    pub held: [usize; MAX_CLASSES],
}

impl<'a, G: Geometry> View<'a, G> {
    /// Looks at metadata.
    ///
    /// # Errors
    /// As [`Construct::construct`](woodlot_frame::Construct::construct).
    ///
    /// # Safety
    /// For `'a`, each part of `metadata` must be initialised memory of any value, valid for reads of its length, and
    /// written by atomic accesses only.
    pub unsafe fn of(zone: &ZoneConfig, metadata: RawMetadata) -> Result<Self, InitError> {
        // SAFETY: as the caller promises; no method writes.
        let parts = unsafe { Parts::carve::<G, Volatile>(zone, metadata) }?;
        Ok(View(LLFree::over(zone, Tuning::DEFAULT, Volatile, parts)?))
    }

    /// Every huge frame that lies in the zone, or of which a part does, in order.
    pub fn huge_frames(&self) -> impl Iterator<Item = HugeView> {
        let zone = &self.0;
        let each = (0..zone.lower.len()).map(|index| {
            let (id, frames) =
                (HugeId((zone.base >> G::HUGE_ORDER) + index), zone.inside(index).len());
            let used_as = match zone.lower.phase(index) {
                Phase::Free => HugeUse::Free,
                Phase::Split => HugeUse::Split { free: zone.lower.count_free(index) },
                Phase::Whole => HugeUse::Whole,
                Phase::Offline => HugeUse::Offline,
            };
            HugeView { id, frames, used_as }
        });
        each.filter(|huge| huge.frames > 0)
    }

    /// Counts the zone in O(trees + slots), by its volatile part.
    pub fn stats(&self) -> Stats {
        self.0.survey()
    }

    /// Every slot, in order, by the zone's volatile part.
    pub fn slots(&self) -> impl Iterator<Item = SlotView> {
        (0..self.0.zone.slots).map(Slot).map(|slot| {
            let freed = self.0.slot_word(slot, SLOT_BALANCE).load(Ordering::Relaxed);
            let mut held = [0; MAX_CLASSES];
            for word in self.0.words_of(slot) {
                let now = self.0.read(word);
                let class = self.0.tree(now.tree()).class();
                let held = held.get_mut(class.0 as usize).into_iter();
                held.for_each(|held| *held += now.held());
            }
            SlotView { balance: (freed as i64).wrapping_neg(), held }
        })
    }
}
