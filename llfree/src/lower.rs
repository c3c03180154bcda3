//! The lower level: allocates frames, and is all that a crash leaves (LLFree section 3.2.1).
//!
//! ```text
//!   pairs   child, child │ child, child │ …           what is known of each huge frame
//!   rows    8 rows       │ 8 rows       │ …           which of its base frames are allocated
//! ```
//!
//! A base-frame allocation has two steps: take credits from the child, then claim free bits. The
//! free releases the bits first and gives the credits back after. A huge frame is one swap of the
//! child, two of them one swap of the pair.
//!
//! Huge frames are named by their index in the zone's metadata, not by their number.
//!
//! *Progress*: lock-free; a swap fails only because another one succeeded.
//! *Ordering*: taking a credit acquires what the giver published, giving one releases; a huge
//! frame's allocation acquires and its free releases. Splits and joins move no ownership between
//! threads: the caller owns the frames before and after, so they may be relaxed.
//! *Crash*: the bits are the truth for split huge frames, `allocated` and `offline` for whole
//! ones, the polarity for both; credits are recomputed. Each operation up to order 6, of order H
//! and of order H+1 changes that truth by a single write.

use core::marker::PhantomData;

use woodlot_frame::Geometry;
use woodlot_frame::atomics::{AtomicU64, Ordering};

use crate::child::{Child, Pair, Polarity};
use crate::rows::{Rows, row_count};

/// The durable words of a zone.
pub(crate) struct Lower<'a, G> {
    rows: &'a [AtomicU64],
    pairs: &'a [AtomicU64],
    geometry: PhantomData<G>,
}

/// What a change of the lower level means for the counters above it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Gain {
    /// Base frames that became free.
    pub(crate) frames: usize,
    /// Huge frames that became free as a whole.
    pub(crate) huge: usize,
}

/// Why the lower level freed nothing, or not what was named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// Some frame is not allocated. The gain is what two frees of the same frames, racing with an
    /// allocation, have set free all the same; zero unless the caller made that mistake.
    NotAllocated(Gain),
    /// The huge frame is offline.
    Offline,
}

impl<'a, G: Geometry> Lower<'a, G> {
    pub(crate) fn new(rows: &'a [AtomicU64], pairs: &'a [AtomicU64]) -> Self {
        debug_assert!(rows.len() >= pairs.len() * 2 * row_count::<G>());
        Self { rows, pairs, geometry: PhantomData }
    }

    /// How many huge frames the words stand for.
    pub(crate) fn len(&self) -> usize {
        self.pairs.len() * 2
    }

    /// The bit field of a huge frame, read with `polarity`.
    #[inline(always)]
    pub(crate) fn rows(&self, huge: usize, polarity: Polarity) -> Rows<'a, G> {
        let first = huge * row_count::<G>();
        let rows = self.rows.get(first..first + row_count::<G>());
        Rows::new(rows.unwrap_or_default(), polarity)
    }

    /// Two huge frames that are neighbours, `huge` even.
    pub(crate) fn children(&self, huge: usize) -> [Child; 2] {
        self.load(huge, Ordering::Relaxed).children()
    }

    pub(crate) fn child(&self, huge: usize) -> Child {
        self.load(huge, Ordering::Acquire).child(huge & 1)
    }

    #[inline]
    fn load(&self, huge: usize, order: Ordering) -> Pair {
        self.pairs.get(huge / 2).map_or(Pair(0), |pair| Pair(pair.load(order)))
    }

    /// Changes the pair that `huge` lies in as `change` says, unless that says `None`. Returns the
    /// pair before, or the pair that was refused.
    #[inline]
    fn update(
        &self,
        huge: usize,
        success: Ordering,
        change: impl Fn(Pair) -> Option<Pair>,
    ) -> Result<Pair, Pair> {
        let Some(word) = self.pairs.get(huge / 2) else {
            return Err(Pair(0));
        };
        let mut pair = Pair(word.load(Ordering::Relaxed));
        loop {
            let Some(next) = change(pair) else {
                return Err(pair);
            };
            match word.compare_exchange(pair.0, next.0, success, Ordering::Relaxed) {
                Ok(_) => return Ok(pair),
                Err(now) => pair = Pair(now),
            }
        }
    }

    #[inline]
    fn update_child(
        &self,
        huge: usize,
        success: Ordering,
        change: impl Fn(Child) -> Option<Child>,
    ) -> Result<Child, Child> {
        let half = huge & 1;
        let change = |pair: Pair| Some(pair.with(half, change(pair.child(half))?));
        let child = |pair: Pair| pair.child(half);
        self.update(huge, success, change).map(child).map_err(child)
    }

    /// Changes both children of a pair, or neither.
    fn update_both(
        &self,
        huge: usize,
        success: Ordering,
        change: impl Fn(usize, Child) -> Option<Child>,
    ) -> bool {
        let change = |pair: Pair| {
            let [even, odd] = pair.children();
            Some(Pair::of([change(0, even)?, change(1, odd)?]))
        };
        self.update(huge, success, change).is_ok()
    }

    /// Takes every credit of a child that has at least `least`; a child that is free as a whole
    /// only if `open`, which the caller must have paid for with a huge credit.
    pub(crate) fn take_all(
        &self,
        huge: usize,
        least: usize,
        open: bool,
    ) -> Option<(usize, Polarity)> {
        let all = |child: Child| {
            let fits = child.free() >= least && child.is_free::<G>() == open;
            if fits { child.take(child.free()) } else { None }
        };
        let taken = self.update_child(huge, Ordering::Acquire, all).ok()?;
        Some((taken.free(), taken.polarity()))
    }

    /// Takes `count` credits of a child; `open` as for [`take_all`](Self::take_all).
    pub(crate) fn take(&self, huge: usize, count: usize, open: bool) -> Option<Polarity> {
        let some = |child: Child| {
            if child.is_free::<G>() == open { child.take(count) } else { None }
        };
        self.update_child(huge, Ordering::Acquire, some).ok().map(Child::polarity)
    }

    /// Gives the credits of `count` free bits to their child. `None`, and nothing given, if the
    /// child cannot have lent them: its bits mean something else now, or it has too many.
    #[inline]
    pub(crate) fn give(&self, huge: usize, count: usize, polarity: Polarity) -> Option<Gain> {
        let give = |child: Child| child.give::<G>(count, polarity);
        let before = self.update_child(huge, Ordering::Release, give).ok()?;
        let whole = before.free() + count == G::HUGE_FRAMES;
        Some(Gain { frames: count, huge: whole as usize })
    }

    /// Gives back credits that were lent. Where frees of frames that their callers do not own have
    /// left more credits than there is room for, the surplus is dropped, and nothing else.
    pub(crate) fn take_back(&self, huge: usize, count: usize, polarity: Polarity) -> Option<Gain> {
        let room = |child: Child| count.min(G::HUGE_FRAMES.saturating_sub(child.free()));
        let give = |child: Child| child.give::<G>(room(child), polarity);
        let before = self.update_child(huge, Ordering::Release, give).ok()?;
        let frames = room(before);
        let whole = frames > 0 && before.free() + frames == G::HUGE_FRAMES;
        Some(Gain { frames, huge: whole as usize })
    }

    /// Allocates a whole huge frame, or the two of a pair.
    pub(crate) fn allocate_whole(&self, huge: usize, order: u32) -> bool {
        self.change_whole(huge, order, Ordering::Acquire, Child::allocate::<G>)
    }

    /// Takes a free huge frame out.
    pub(crate) fn take_out(&self, huge: usize) -> bool {
        self.change_whole(huge, G::HUGE_ORDER, Ordering::Acquire, Child::take_out::<G>)
    }

    /// Puts a huge frame back.
    pub(crate) fn put_back(&self, huge: usize) -> bool {
        self.change_whole(huge, G::HUGE_ORDER, Ordering::Release, Child::put_back::<G>)
    }

    fn change_whole(
        &self,
        huge: usize,
        order: u32,
        success: Ordering,
        change: impl Fn(Child) -> Option<Child>,
    ) -> bool {
        if order > G::HUGE_ORDER {
            self.update_both(huge, success, |_, child| change(child))
        } else {
            self.update_child(huge, success, change).is_ok()
        }
    }

    /// Frees one huge frame or the two of a pair, whether they were allocated as a whole or by
    /// their base frames.
    pub(crate) fn free_whole(&self, huge: usize, order: u32) -> Result<Gain, Refusal> {
        let child = self.load(huge, Ordering::Acquire).child(huge & 1);
        if order == G::HUGE_ORDER && child.is_whole() {
            // Nothing but this call may change a whole huge frame that the caller owns.
            let freed = self.update_child(huge, Ordering::Release, Child::release::<G>);
            return match freed {
                Ok(_) => Ok(Gain { frames: G::HUGE_FRAMES, huge: 1 }),
                Err(now) if now.is_offline() => Err(Refusal::Offline),
                Err(_) => Err(Refusal::NotAllocated(Gain::default())),
            };
        }
        self.free_joined(huge, order)
    }

    /// The same for pairs and for huge frames that were allocated by their base frames.
    fn free_joined(&self, huge: usize, order: u32) -> Result<Gain, Refusal> {
        let count = 1 << (order - G::HUGE_ORDER);
        // A child whose bits are all allocated now stays so until it is freed: by us.
        let joinable = |half: usize| {
            let child = self.child(huge + half);
            let full = !child.is_whole() && self.rows(huge + half, child.polarity()).is_full();
            full.then_some(child.polarity())
        };
        let joinable = [joinable(0), if count > 1 { joinable(1) } else { None }];
        let free = |half: usize, child: Child| match joinable.get(half) {
            Some(&Some(polarity)) if !child.is_whole() && child.polarity() == polarity => {
                child.join::<G>()
            }
            _ => child.release::<G>(),
        };
        let freed = if count > 1 {
            self.update_both(huge, Ordering::Release, free)
        } else {
            self.update_child(huge, Ordering::Release, |child| free(0, child)).is_ok()
        };
        if freed {
            return Ok(Gain { frames: count * G::HUGE_FRAMES, huge: count });
        }
        let offline = (0..count).any(|half| self.child(huge + half).is_offline());
        Err(if offline { Refusal::Offline } else { Refusal::NotAllocated(Gain::default()) })
    }

    /// The child of a huge frame of which a part is to be freed: split, if it was allocated as a
    /// whole.
    #[inline(always)]
    fn splittable(&self, huge: usize) -> Result<Child, Refusal> {
        let child = self.child(huge);
        if child.is_whole() { self.split(huge) } else { Ok(child) }
    }

    /// Splits a huge frame that is allocated as a whole; returns the child after.
    #[cold]
    fn split(&self, huge: usize) -> Result<Child, Refusal> {
        match self.update_child(huge, Ordering::Relaxed, Child::split_up) {
            Ok(whole) => Ok(whole.split_up().unwrap_or(whole)),
            Err(other) if other.is_offline() => Err(Refusal::Offline),
            // Another free of a part came first.
            Err(split) => Ok(split),
        }
    }

    /// Releases the bits of a block of base frames, splitting the huge frame first if it was
    /// allocated as a whole. The credits are still the caller's then, to give or to keep.
    #[inline(always)]
    pub(crate) fn release(
        &self,
        huge: usize,
        offset: usize,
        order: u32,
    ) -> Result<Polarity, Refusal> {
        let polarity = self.splittable(huge)?.polarity();
        match self.rows(huge, polarity).release(offset, order) {
            Ok(()) => Ok(polarity),
            Err(0) => Err(Refusal::NotAllocated(Gain::default())),
            Err(gone) => {
                Err(Refusal::NotAllocated(self.give(huge, gone, polarity).unwrap_or_default()))
            }
        }
    }

    /// The same for the frames `mask` of a row.
    pub(crate) fn release_in(
        &self,
        huge: usize,
        row: usize,
        mask: u64,
    ) -> Result<Polarity, Refusal> {
        let polarity = self.splittable(huge)?.polarity();
        match self.rows(huge, polarity).release_in(row, mask) {
            true => Ok(polarity),
            false => Err(Refusal::NotAllocated(Gain::default())),
        }
    }

    /// Gives the credits of `count` frames whose bits were released back to the child. Refused if
    /// the child has been allocated, split or filled up meanwhile, which only a free of frames that
    /// the caller does not own can meet; `undo` turns the bits back then.
    #[inline]
    pub(crate) fn settle(
        &self,
        huge: usize,
        count: usize,
        polarity: Polarity,
        undo: impl FnOnce(Rows<'a, G>),
    ) -> Result<Gain, Refusal> {
        self.give(huge, count, polarity).ok_or_else(|| {
            undo(self.rows(huge, polarity));
            Refusal::NotAllocated(Gain::default())
        })
    }

    /// Is every frame of the block free?
    pub(crate) fn is_free(&self, huge: usize, offset: usize, order: u32) -> bool {
        if order >= G::HUGE_ORDER {
            return (huge..huge + (1 << (order - G::HUGE_ORDER)))
                .all(|huge| self.count_free(huge) == G::HUGE_FRAMES);
        }
        let child = self.child(huge);
        !child.is_whole() && self.rows(huge, child.polarity()).is_free(offset, order)
    }

    /// How many frames of a huge frame are free, by its bits.
    pub(crate) fn count_free(&self, huge: usize) -> usize {
        let child = self.child(huge);
        if child.is_whole() {
            0
        } else if child.is_free::<G>() {
            G::HUGE_FRAMES
        } else {
            self.rows(huge, child.polarity()).count_free()
        }
    }
}

/// What a huge frame is at the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    Free,
    Allocated,
    Recover,
}

/// Starting up. No other call is under way.
impl<G: Geometry> Lower<'_, G> {
    /// Sets up one huge frame, of which only the frames `inside` lie in the zone; returns how many
    /// of its frames are free.
    pub(crate) fn start(
        &self,
        huge: usize,
        inside: core::ops::Range<usize>,
        start: Start,
    ) -> usize {
        let complete = inside.len() == G::HUGE_FRAMES;
        let child = match (start, complete) {
            (Start::Recover, _) => self.recovered(huge, &inside),
            (_, false) => {
                self.fill_partly(huge, &inside, start == Start::Free);
                let free = if start == Start::Free { inside.len() } else { 0 };
                Child::split(free, Polarity(false))
            }
            (start, true) => {
                self.set_rows(huge, |_, _| 0);
                match start {
                    Start::Free => Child::split(G::HUGE_FRAMES, Polarity(false)),
                    _ => Child::whole(Polarity(false)),
                }
            }
        };
        if let Some(word) = self.pairs.get(huge / 2) {
            let pair = Pair(word.load(Ordering::Relaxed)).with(huge & 1, child);
            word.store(pair.0, Ordering::Relaxed);
        }
        child.free()
    }

    /// The child that the bits and the flags of an earlier life amount to, whatever they are.
    fn recovered(&self, huge: usize, inside: &core::ops::Range<usize>) -> Child {
        let child = self.child(huge);
        let polarity = child.polarity();
        let complete = inside.len() == G::HUGE_FRAMES;
        if complete && child.is_whole() {
            // The bits of a whole huge frame have the free value, always: its free, its split and
            // its return rely on it.
            self.set_rows(huge, |_, _| polarity.all_free());
            let offline = child.is_offline();
            return if offline { Child::offline(polarity) } else { Child::whole(polarity) };
        }
        if child.is_whole() || !complete {
            let whole = child.is_whole();
            self.set_rows(huge, |index, row| {
                let keep = inside_mask(inside, index);
                let allocated = !polarity.all_free();
                if whole { allocated } else { row & keep | allocated & !keep }
            });
        }
        Child::split(self.rows(huge, polarity).count_free(), polarity)
    }

    fn fill_partly(&self, huge: usize, inside: &core::ops::Range<usize>, free: bool) {
        self.set_rows(huge, |index, _| if free { !inside_mask(inside, index) } else { !0 });
    }

    fn set_rows(&self, huge: usize, value: impl Fn(usize, u64) -> u64) {
        let first = huge * row_count::<G>();
        let rows = self.rows.iter().skip(first).take(row_count::<G>());
        for (index, row) in rows.enumerate() {
            row.store(value(index, row.load(Ordering::Relaxed)), Ordering::Relaxed);
        }
    }
}

/// The bits of row `index` whose frames lie in `inside`.
fn inside_mask(inside: &core::ops::Range<usize>, index: usize) -> u64 {
    let first = index * 64;
    let below = |end: usize| match end.saturating_sub(first) {
        count @ ..64 => (1 << count) - 1,
        _ => !0u64,
    };
    below(inside.end) & !below(inside.start)
}
