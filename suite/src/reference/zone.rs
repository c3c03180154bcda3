//! The state of the reference allocator, and how it finds a block.

use std::marker::PhantomData;
use std::ops::Range;

use woodlot_frame::{
    Class, FrameId, Geometry, HugeId, IsolateError, Order, Request, Slot, ZoneConfig,
};

use crate::mutants::{self, Bug};

pub(super) const FREE: u8 = 0;
pub(super) const ALLOCATED: u8 = 1;
pub(super) const OFFLINE: u8 = 2;
/// Nobody's, in a huge frame that is isolated.
pub(super) const KEPT: u8 = 3;

/// What the lock protects.
pub(super) struct Zone<G: Geometry, const LIMITED: bool, const WRONG: bool> {
    pub(super) start: usize,
    /// The durable metadata.
    pub(super) bytes: *mut u8,
    pub(super) len: usize,
    pub(super) free: usize,
    /// Free frames per huge frame, from the zone's first (partial) one.
    pub(super) huge_free: Vec<usize>,
    /// Of each huge frame an index below which none of its frames is free: where to begin looking.
    pub(super) first_free: Vec<usize>,
    /// The class of each tree; `None` while all of it is free.
    pub(super) classes: Vec<Option<Class>>,
    /// Order + 1 at the head of each block, for the limited variant.
    pub(super) heads: Vec<u8>,
    /// Slot + 1 by which a free frame is cached, where there are caches.
    pub(super) cached: Vec<u32>,
    /// Huge frames that are one block, and those being split (for one of the bugs).
    pub(super) whole: Vec<bool>,
    pub(super) splitting: Vec<bool>,
    pub(super) isolated: Vec<bool>,
    pub(super) geometry: PhantomData<G>,
}

// SAFETY: `bytes` points to metadata that is the allocator's alone, so it may move with it.
unsafe impl<G: Geometry, const LIMITED: bool, const WRONG: bool> Send for Zone<G, LIMITED, WRONG> {}

/// Has this allocator that defect?
pub(super) fn is<const WRONG: bool>(bug: Bug) -> bool {
    WRONG && mutants::is_on(bug)
}

impl<G: Geometry, const LIMITED: bool, const WRONG: bool> Zone<G, LIMITED, WRONG> {
    /// Do slots cache what they freed, out of the reach of others?
    pub(super) fn caches() -> bool {
        LIMITED || is::<WRONG>(Bug::CachedByOtherSlotIsLost)
    }

    pub(super) fn frames(&self) -> &[u8] {
        // SAFETY: `construct` was promised `len` initialised bytes that nobody else uses, and the
        // lock keeps writers out.
        unsafe { std::slice::from_raw_parts(self.bytes, self.len) }
    }

    pub(super) fn frames_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; `&mut self` shows that the lock is held.
        unsafe { std::slice::from_raw_parts_mut(self.bytes, self.len) }
    }

    pub(super) fn index(&self, frame: FrameId, order: Order) -> Range<usize> {
        let first = frame.0 - self.start;
        first..first + order.frames()
    }

    pub(super) fn huge_index(&self, frame: usize) -> usize {
        frame / G::HUGE_FRAMES - self.start / G::HUGE_FRAMES
    }

    pub(super) fn tree_index(&self, frame: usize) -> usize {
        frame / G::TREE_FRAMES - self.start / G::TREE_FRAMES
    }

    /// The frames of a unit of `size` frames that lie in the zone, as indices.
    pub(super) fn unit(&self, number: usize, size: usize) -> Range<usize> {
        let end = self.start + self.len;
        let first = (number * size).max(self.start);
        first - self.start..(number * size + size).min(end) - self.start
    }

    pub(super) fn recount(&mut self) {
        let huges = self.huge_index(self.start + self.len - 1) + 1;
        let count = |n: usize| {
            let unit = self.unit(self.start / G::HUGE_FRAMES + n, G::HUGE_FRAMES);
            self.frames()[unit].iter().filter(|&&state| state == FREE).count()
        };
        self.huge_free = (0..huges).map(count).collect();
        self.free = self.huge_free.iter().sum();
    }

    pub(super) fn set(&mut self, range: Range<usize>, to: u8) {
        let mut at = range.start;
        while at < range.end {
            let huge = self.huge_index(self.start + at);
            let unit = self.unit(self.start / G::HUGE_FRAMES + huge, G::HUGE_FRAMES);
            let piece = at..unit.end.min(range.end);
            let kept = to == FREE && self.isolated[huge] && !is::<WRONG>(Bug::FreedIsForAll);
            let to = if kept { KEPT } else { to };
            let was = self.frames()[piece.clone()].iter().filter(|&&s| s == FREE).count();
            let is = if to == FREE { piece.len() } else { 0 };
            self.frames_mut()[piece.clone()].fill(to);
            self.heads[piece.clone()].fill(0);
            self.cached[piece.clone()].fill(0);
            let hint = &mut self.first_free[huge];
            if to == FREE {
                *hint = piece.start.min(*hint);
            } else if piece.start <= *hint {
                *hint = piece.end.max(*hint);
            }
            self.huge_free[huge] = self.huge_free[huge] + is - was;
            self.free = self.free + is - was;
            self.whole[huge] = to == ALLOCATED && piece.len() == G::HUGE_FRAMES;
            at = piece.end;
        }
        self.forget_class(range);
    }

    /// Isolates a huge frame, or ends that: what nobody has is kept, or free.
    pub(super) fn set_isolated(&mut self, unit: Range<usize>, isolated: bool) {
        self.isolated_huge_of(&unit, isolated);
        let (from, to) = if isolated { (FREE, KEPT) } else { (KEPT, FREE) };
        for at in unit {
            if self.frames()[at] == from {
                self.set(at..at + 1, to);
            }
        }
    }

    /// A huge frame is isolated, or not; its frames stay as they are.
    pub(super) fn isolated_huge_of(&mut self, unit: &Range<usize>, isolated: bool) {
        let huge = self.huge_index(self.start + unit.start);
        self.isolated[huge] = isolated;
    }

    /// Is every one of these huge frames isolated?
    pub(super) fn all_isolated(
        &self,
        mut units: impl Iterator<Item = (HugeId, Range<usize>)>,
    ) -> Result<(), IsolateError> {
        let not = |unit: &Range<usize>| !self.isolated[self.huge_index(self.start + unit.start)];
        match units.find(|(_, unit)| not(unit)) {
            Some((huge, _)) => Err(IsolateError::NotIsolated(huge)),
            None => Ok(()),
        }
    }

    /// A tree that is wholly free is of no class.
    pub(super) fn forget_class(&mut self, range: Range<usize>) {
        let tree = self.tree_index(self.start + range.start);
        let unit = self.unit(self.start / G::TREE_FRAMES + tree, G::TREE_FRAMES);
        let first = self.huge_index(self.start + unit.start);
        let last = self.huge_index(self.start + unit.end - 1);
        if self.huge_free[first..=last].iter().sum::<usize>() == unit.len() {
            self.classes[tree] = None;
        }
    }

    /// Is this block free, and not cached by another slot?
    pub(super) fn is_free_for(&self, range: Range<usize>, slot: Slot) -> bool {
        self.frames()[range.clone()].iter().all(|&state| state == FREE)
            && (!Self::caches()
                || self.cached[range].iter().all(|&by| by == 0 || by as usize == slot.0 + 1))
    }

    /// First fit: own trees, then free ones, then those of other classes in turn.
    pub(super) fn find(&self, config: &ZoneConfig, request: Request) -> Option<FrameId> {
        let trees = || 0..self.classes.len();
        if is::<WRONG>(Bug::ClassesMixed) {
            return trees().find_map(|tree| self.find_in(tree, request));
        }
        let of = |class: Option<Class>| {
            let trees = trees().filter(move |&tree| self.classes[tree] == class);
            trees.into_iter().find_map(|tree| self.find_in(tree, request))
        };
        let mut turns = config.classes.turns(request.class);
        let own = turns.next();
        if is::<WRONG>(Bug::OtherClassesNeverAsked) {
            return of(own).or_else(|| of(None));
        }
        of(own).or_else(|| of(None)).or_else(|| turns.find_map(|class| of(Some(class))))
    }

    fn find_in(&self, tree: usize, request: Request) -> Option<FrameId> {
        let size = request.order.frames();
        let unit = self.unit(self.start / G::TREE_FRAMES + tree, G::TREE_FRAMES);
        let mut frame = (self.start + unit.start).next_multiple_of(size);
        let end = self.start + unit.end;
        while frame + size <= end {
            let left = self.huge_free[self.huge_index(frame)];
            let needed = size.min(G::HUGE_FRAMES);
            let enough =
                if is::<WRONG>(Bug::MoreThanEnough) { left > needed } else { left >= needed };
            let next = (frame / G::HUGE_FRAMES + 1) * G::HUGE_FRAMES;
            if !enough {
                frame = next.next_multiple_of(size);
                continue;
            }
            let hint = (self.start + self.first_free[self.huge_index(frame)]).min(next);
            if hint >= frame + size {
                frame = hint & !(size - 1);
                continue;
            }
            let range = frame - self.start..frame - self.start + size;
            if self.is_free_for(range, request.slot) {
                return Some(FrameId(frame));
            }
            frame += size;
        }
        None
    }

    pub(super) fn take(&mut self, frame: FrameId, order: Order, class: Class) {
        let range = self.index(frame, order);
        self.set(range.clone(), ALLOCATED);
        self.heads[range.start] = order.0 + 1;
        let tree = self.tree_index(frame.0);
        self.classes[tree].get_or_insert(class);
    }
}

/// Makes any bytes consistent: what is offline must be a whole huge frame.
pub(super) fn recover<G: Geometry, const LIMITED: bool, const WRONG: bool>(
    zone: &mut Zone<G, LIMITED, WRONG>,
    config: &ZoneConfig,
) {
    if is::<WRONG>(Bug::RecoveryPanicsOnRaggedZones) {
        assert!(
            config.frames.is_multiple_of(G::HUGE_FRAMES),
            "index out of bounds: the last child"
        );
    }
    if is::<WRONG>(Bug::RecoveryBelievesAnything) {
        return;
    }
    let forget = is::<WRONG>(Bug::RecoveryForgetsOffline);
    let whole = config.huge_range::<G>();
    let first = config.start.0 / G::HUGE_FRAMES;
    for number in first..first + zone.whole.len() {
        let unit = zone.unit(number, G::HUGE_FRAMES);
        let states = &mut zone.frames_mut()[unit];
        let is_whole = (whole.start.0..whole.end.0).contains(&number);
        if is_whole && states.iter().all(|&state| state == OFFLINE) && !forget {
            continue;
        }
        for state in states {
            *state = if matches!(*state, FREE | KEPT) { FREE } else { ALLOCATED };
        }
    }
}
