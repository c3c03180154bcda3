//! The tags: who owns each base frame.
//!
//! ```text
//!   16 bits for each base frame
//!   ┌───┬────────┐
//!   │ f │ id, 15 │
//!   └───┴────────┘
//! ```
//!
//! * `id` with `f` = 0: the member owns the frame. Written by the member after its allocation.
//! * 0: nobody has owned the frame yet. It may be free, or allocated without a tag.
//! * `f` (*freeing*) with an id or with 0: a free of the frame has begun. The frame may be free, or allocated anew by
//!   a call that has not come to its tag.
//!
//! Invariant: a frame whose tag is an id is allocated, and it was that member's call that allocated it or took it over.
//! For a free sets `f` before the frame is free, and nothing but the next owner's store clears it. (A free that is
//! refused before it frees anything clears it again, of frames that it finds allocated.)
//!
//! *Who writes*: the owner stores its id where there is none, and sets `f` on its own frames by a store. Anyone else,
//! who frees what another member has allocated or what a dead member has left, sets `f` by a swap: of several, one
//! succeeds.
//!
//! *Ordering*: `f` is set before the allocator's release of the frame, and an id is stored after its acquire. So the
//! writes to one tag follow one another as its owners do.

use core::iter;
use core::ops::Range;

use woodlot_frame::atomics::{AtomicU16, Ordering};
use woodlot_frame::{FrameId, Geometry, Order, blocks};

/// The most members: an id has 15 bits.
pub(crate) const MOST_IDS: usize = FREEING as usize - 1;

const FREEING: u16 = 1 << 15;

/// The tags of a zone's frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tags<'a> {
    words: &'a [AtomicU16],
    /// The frame of the first one.
    start: FrameId,
}

impl<'a> Tags<'a> {
    pub(crate) fn new(words: &'a [AtomicU16], start: FrameId) -> Self {
        Self { words, start }
    }

    /// The frames that have tags.
    pub(crate) fn frames(&self) -> Range<FrameId> {
        self.start..FrameId(self.start.0.saturating_add(self.words.len()))
    }

    /// The tags of frames; none, if not each has one.
    fn of(&self, frames: &Range<FrameId>) -> &'a [AtomicU16] {
        let place = |frame: FrameId| frame.0.checked_sub(self.start.0);
        let words = place(frames.start).zip(place(frames.end));
        words.and_then(|(start, end)| self.words.get(start..end)).unwrap_or_default()
    }

    /// Who owns a frame: an id, or 0.
    pub(crate) fn owner(&self, frame: FrameId) -> u16 {
        self.one(frame).map_or(0, |tag| owner_in(tag.load(Ordering::Acquire)))
    }

    /// How many frames are `id`'s.
    pub(crate) fn count(&self, id: u16) -> usize {
        self.words.iter().filter(|tag| owner_in(tag.load(Ordering::Relaxed)) == id).count()
    }

    /// The runs of frames that have one owner, or none (0), by their numbers.
    pub(crate) fn runs(
        self,
        frames: Range<FrameId>,
    ) -> impl Iterator<Item = (u16, Range<FrameId>)> + 'a {
        let mut next = frames.start;
        iter::from_fn(move || {
            let rest = self.of(&(next..frames.end));
            let owner = |tag: &AtomicU16| owner_in(tag.load(Ordering::Acquire));
            let id = owner(rest.first()?);
            // The first one may have changed meanwhile.
            let count = rest.iter().take_while(|tag| owner(tag) == id).count().max(1);
            let run = next..FrameId(next.0 + count);
            next = run.end;
            Some((id, run))
        })
    }

    /// The tag of a frame, if it has one.
    #[inline(always)]
    fn one(&self, frame: FrameId) -> Option<&'a AtomicU16> {
        self.words.get(frame.0.wrapping_sub(self.start.0))
    }

    /// Makes a frame `id`'s, which has just allocated it.
    #[inline(always)]
    pub(crate) fn own_one(&self, frame: FrameId, id: u16) {
        self.one(frame).into_iter().for_each(|tag| tag.store(id, Ordering::Release));
    }

    /// The same of several.
    pub(crate) fn own(&self, frames: Range<FrameId>, id: u16) {
        self.of(&frames).iter().for_each(|tag| tag.store(id, Ordering::Release));
    }

    /// Says that a free of a frame begins, which `id` asks for. False: it is being freed already, or free, or none.
    #[inline(always)]
    pub(crate) fn mark_one(&self, frame: FrameId, id: u16) -> bool {
        self.one(frame).is_some_and(|tag| mark(tag, id))
    }

    /// The same of several; returns how many were marked. The next one is being freed already, or free.
    pub(crate) fn mark(&self, frames: &Range<FrameId>, id: u16) -> usize {
        self.of(frames).iter().take_while(|tag| mark(tag, id)).count()
    }

    /// Frees every frame that is `id`'s, which is dead, in the largest blocks; returns how many. `free` frees a block
    /// that nobody else can free or allocate meanwhile, and says whether that succeeded.
    pub(crate) fn free_owned<G: Geometry>(
        self,
        id: u16,
        free: impl Fn(FrameId, Order) -> bool,
    ) -> usize {
        let mut freed = 0;
        for (_, run) in self.runs(self.frames()).filter(|run| run.0 == id) {
            let mut next = run.start;
            while let Some((first, order)) = blocks::<G>(next..run.end).next() {
                let taken = self.take(&(first..FrameId(first.0 + order.frames())), id);
                next = FrameId(first.0 + taken);
                let ours = blocks::<G>(first..next).filter(|&(first, order)| free(first, order));
                freed += ours.map(|(_, order)| order.frames()).sum::<usize>();
                if taken == 0 {
                    // Somebody whom the dead one gave the frame is just freeing it.
                    next = FrameId(first.0 + 1);
                }
            }
        }
        freed
    }

    /// Marks frames that are `id`'s, which is dead; returns how many. The next one is no more.
    fn take(&self, frames: &Range<FrameId>, id: u16) -> usize {
        let take = |tag: &&AtomicU16| {
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            tag.compare_exchange(id, id | FREEING, success, failure).is_ok()
        };
        self.of(frames).iter().take_while(take).count()
    }

    /// Takes the marks of frames away whose free was refused before it freed any. One that had an owner and is free stays
    /// marked.
    #[cold]
    pub(crate) fn unmark(&self, frames: Range<FrameId>, is_free: impl Fn(FrameId) -> bool) {
        for (tag, frame) in self.of(&frames).iter().zip((frames.start.0..).map(FrameId)) {
            let now = tag.load(Ordering::Acquire);
            let was = now & !FREEING;
            if was != now && (was == 0 || !is_free(frame)) {
                // A swap that fails finds the tag of a new owner.
                let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
                let _ = tag.compare_exchange(now, was, success, failure);
            }
        }
    }

    /// Makes frames `id`'s that have another owner or none, as long as they are allocated; returns how many.
    pub(crate) fn adopt(
        &self,
        frames: &Range<FrameId>,
        id: u16,
        is_allocated: impl Fn(FrameId) -> bool,
    ) -> usize {
        let adopt = |&(tag, frame): &(&AtomicU16, FrameId)| {
            let now = tag.load(Ordering::Acquire);
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            now & FREEING == 0
                && is_allocated(frame)
                && tag.compare_exchange(now, id, success, failure).is_ok()
        };
        self.of(frames).iter().zip((frames.start.0..).map(FrameId)).take_while(adopt).count()
    }

    /// Is a free of one of the frames under way, or was there one since they were owned last?
    pub(crate) fn is_marked(&self, frames: &Range<FrameId>) -> bool {
        self.of(frames).iter().any(|tag| tag.load(Ordering::Acquire) & FREEING != 0)
    }

    /// Makes frames nobody's. Nobody else uses the zone.
    pub(crate) fn disown(&self, frames: &Range<FrameId>) {
        for tag in self.of(frames) {
            let now = tag.load(Ordering::Acquire);
            if owner_in(now) != 0 {
                tag.store(now | FREEING, Ordering::Release);
            }
        }
    }
}

/// The owner that a tag names, or 0.
const fn owner_in(tag: u16) -> u16 {
    if tag & FREEING == 0 { tag } else { 0 }
}

/// Marks one tag. False: it is marked already.
#[inline(always)]
fn mark(tag: &AtomicU16, id: u16) -> bool {
    let mut now = tag.load(Ordering::Acquire);
    if now == id {
        // Nobody but its owner frees it: two frees of one frame at once are wrong, and one of them is refused by the
        // allocator.
        tag.store(id | FREEING, Ordering::Release);
        return true;
    }
    while now & FREEING == 0 {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        match tag.compare_exchange(now, now | FREEING, success, failure) {
            Ok(_) => return true,
            Err(other) => now = other,
        }
    }
    false
}
