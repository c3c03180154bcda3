//! Reclaim ([`Reclaiming`]): huge frames whose memory goes to somebody else, and comes back.
//!
//! A call takes a huge frame first; then its flags are that call's to change. A hard reclaim takes it offline, a soft one makes it free again. So no
//! allocation gets one of which the flags are about to change, and slots hold none back.
//!
//! *Progress*: lock-free, beside any other call. A pass looks at each huge frame once.

use core::ops::Range;
use core::slice::IterMut;

use woodlot_frame::{
    AllocError, Flagged, FrameAllocator, FrameId, Geometry, HugeFlags, HugeId, OfflineError, Place,
    Prefer, Reclaim, Reclaiming, Request,
};

use crate::OneWrite;
use crate::child::{OFFLINE, Part, TAKEN};
use crate::row::Rows;
use crate::slots::Site;
use crate::words::{Flags, LANE};

/// In how many trees, besides the slot's own, an allocation looks for a huge frame that it prefers.
const CANDIDATES: usize = 8;

/// Children of a word at which pairs begin.
const EVEN: u64 = 0x5555_5555;

impl<G: Geometry> Reclaiming for OneWrite<'_, G> {
    fn flags(&self, huge: HugeId) -> HugeFlags {
        self.whole_child(huge).map_or(HugeFlags::BACKED, |child| self.flags_of(child))
    }

    /// Blocks that leave no part of a huge frame free are not told from one: who sets flags of memory that others own as well is not refused.
    fn set_flags(&self, huge: HugeId, flags: HugeFlags) -> Result<(), OfflineError> {
        let child = self.whole_child(huge)?;
        let (states, whole) = (self.states(child), Part::whole::<G>(child));
        if !whole.is(states, TAKEN) && !whole.is(states, OFFLINE) {
            return Err(OfflineError::InUse(huge.first::<G>()));
        }
        self.put_flags(child, flags);
        Ok(())
    }

    fn set_backed(&self, huge: HugeId) -> Result<(), OfflineError> {
        self.has_memory(self.whole_child(huge)?);
        Ok(())
    }

    /// A huge frame in which nothing is in use but rows are open is not looked at: [`alloc`](FrameAllocator::alloc) finds it.
    fn alloc_preferring(
        &self,
        request: Request,
        prefer: Prefer,
    ) -> Result<(FrameId, HugeFlags), AllocError> {
        let order = u32::from(request.order.0);
        let is_huge = (G::HUGE_ORDER..=G::MAX_ORDER).contains(&order);
        if is_huge && request.place == Place::Anywhere {
            let site = self.site_for(request.order, request.class, request.slot)?;
            if let Some((child, flags)) = self.take_preferred(site, order, prefer) {
                site.line.count(-(1 << order));
                return Ok((self.frame(child << G::HUGE_ORDER), flags));
            }
        }
        let frame = self.alloc(request)?;
        let child = (frame.0 - self.ground.base) >> G::HUGE_ORDER;
        let count = request.order.frames().div_ceil(G::HUGE_FRAMES);
        let reclaimed = (child..child + count).any(|child| self.flags_of(child).reclaimed);
        Ok((frame, HugeFlags { reclaimed, zeroed: false }))
    }

    /// # Crash
    /// One that is cut off may leave a huge frame allocated, and those of a hard reclaim offline: nobody's.
    fn reclaim(&self, mode: Reclaim, out: &mut [HugeId]) -> usize {
        let most = out.len();
        let mut out = out.iter_mut();
        let backed = |flags: Flags| flags.preferred(Prefer::Backed);
        self.reclaim_in_all(mode, true, backed, &mut out);
        self.reclaim_in_all(mode, false, backed, &mut out);
        if mode == Reclaim::Hard {
            self.reclaim_in_all(mode, false, |_| Flags::EVERY, &mut out);
        }
        most - out.len()
    }

    fn give(&self, frames: &[HugeId], flags: HugeFlags) -> Result<(), OfflineError> {
        for &huge in frames {
            if !self.is_offline(self.whole_child(huge)?) {
                return Err(OfflineError::NotOffline);
            }
        }
        frames.iter().try_for_each(|&huge| self.online_run(huge, 1, Some(flags)))
    }

    fn flagged(&self) -> Flagged {
        let mut sum = Flagged::default();
        let is_free = |child: &usize| self.free_in_child(*child) == G::HUGE_FRAMES;
        for first in (0..self.ground.children).step_by(LANE) {
            let flags = self.flags_beside(first);
            let free = |set| members(first, set).filter(is_free).count();
            sum.reclaimed += flags.reclaimed().count_ones() as usize;
            sum.free_reclaimed += free(flags.reclaimed());
            sum.free_zeroed += free(flags.zeroed());
        }
        sum
    }
}

/// The children of a set, in a word of which this is the first.
fn members(first: usize, mut set: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let next = (set != 0).then(|| first + set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        next
    })
}

impl<G: Geometry> OneWrite<'_, G> {
    /// The child that a huge frame is that lies wholly in the zone.
    fn whole_child(&self, huge: HugeId) -> Result<usize, OfflineError> {
        self.huge_frames(huge, 1).map(|run| run.start)
    }

    /// The children of a tree of which `may` says so by the flags.
    fn flagged_in(&self, tree: usize, may: impl Fn(Flags) -> u64) -> impl Iterator<Item = usize> {
        let Range { start, end } = self.children_of(tree);
        // A word has the children of whole trees, or a tree those of whole words.
        (start..end).step_by(LANE).flat_map(move |child| {
            let first = child - child % LANE;
            let set = may(self.flags_beside(child));
            members(first, set).filter(move |child| (start..end).contains(child))
        })
    }

    /// A huge frame, or the first of two, that is preferred: of the slot's tree or of a few others; or any of the slot's tree.
    fn take_preferred(
        &self,
        site: Site<'_>,
        order: u32,
        prefer: Prefer,
    ) -> Option<(usize, HugeFlags)> {
        if !self.zone_may_have(order) {
            return None;
        }
        let is_pair = order > G::HUGE_ORDER;
        let take = |child| {
            let flags =
                if is_pair { self.take_closed_pair(child) } else { self.take_closed(child) };
            Some((child, flags?))
        };
        let take_in = |tree, prefer: Option<Prefer>| {
            let may = |flags: Flags| {
                let set = prefer.map_or(Flags::EVERY, |prefer| flags.preferred(prefer));
                if is_pair { set & set >> 1 & EVEN } else { set }
            };
            self.flagged_in(tree, may).find_map(take)
        };
        let own = Self::home(site) / G::TREE;
        take_in(own, Some(prefer))
            .or_else(|| {
                let others = (own + 1..self.trees.len()).chain(0..own.min(self.trees.len()));
                let mut may =
                    others.filter(|&tree| self.invites(tree, order, site)).take(CANDIDATES);
                may.find_map(|tree| take_in(tree, Some(prefer)))
            })
            .or_else(|| take_in(own, None))
    }

    /// Reclaims what `may` says by the flags, in all trees or in those that are free, until `out` is full.
    fn reclaim_in_all(
        &self,
        mode: Reclaim,
        only_free: bool,
        may: impl Fn(Flags) -> u64,
        out: &mut IterMut<'_, HugeId>,
    ) {
        let is_free = |child| self.has_rows(child, G::HUGE_ORDER);
        for tree in (0..self.trees.len()).filter(|&tree| self.tree_may_have(tree, G::HUGE_ORDER)) {
            if only_free && !self.children_of(tree).all(is_free) {
                continue;
            }
            for child in self.flagged_in(tree, &may) {
                if out.len() == 0 {
                    return;
                }
                if self.reclaim_child(child, mode) {
                    out.next().into_iter().for_each(|entry| *entry = self.huge_id(child));
                }
            }
        }
    }

    /// Reclaims a child if it is free, and if a soft reclaim finds that it is not reclaimed yet.
    fn reclaim_child(&self, child: usize, mode: Reclaim) -> bool {
        match mode {
            Reclaim::Hard => {
                let taken = self.take_to_go(child);
                if taken {
                    self.put_flags(child, HugeFlags::RECLAIMED);
                    self.go_offline(child..child + 1);
                    self.stays(child);
                }
                taken
            }
            Reclaim::Soft => {
                let taken = self.turn_free(Part::whole::<G>(child), TAKEN);
                let is_new = taken && !self.flags_of(child).reclaimed;
                if taken {
                    self.put_flags(child, HugeFlags::RECLAIMED);
                    self.untake(child);
                }
                is_new
            }
        }
    }
}
