//! Reclaim ([`Reclaiming`]): huge frames whose memory goes to somebody else, and comes back.
//!
//! A state word is changed as a whole: one swap takes up to sixteen huge frames out, one marks them, and where the
//! reclaim is soft, one puts them back. In between they are offline. So no allocation gets one of which the flags are
//! about to change.
//!
//! Huge frames of trees that are entirely free come first, then those of other trees that no slot has reserved, then
//! all others. So a slot keeps what it is about to allocate, as long as there is something else.
//!
//! *Progress*: lock-free, beside any other call. A pass looks at each tree once.
//! *Ordering*: as offline and online. Who takes a huge frame out acquires what its last owner did, and who puts it
//! back releases, flags included.

use woodlot_frame::atomics::Ordering;
use woodlot_frame::{
    AllocError, Flagged, FrameAllocator, FrameId, Geometry, HugeFlags, HugeId, OfflineError,
    Persistence, Place, Prefer, Reclaim, Reclaiming, Request, Slot,
};

use crate::LLFree;
use crate::allocate::Caller;
use crate::flags::Flags;
use crate::index::{Kind, Places};
use crate::record::{By, Intent};
use crate::state::{EVERY, LANE, Phase, Run};
use crate::tree::Tree;

/// How many trees, besides the slot's own, an allocation looks into for a huge frame that it prefers.
const CANDIDATES: usize = 8;

/// Where the reclaimed huge frames are written to.
struct Taken<'a> {
    out: &'a mut [HugeId],
    count: usize,
}

impl Taken<'_> {
    fn left(&self) -> usize {
        self.out.len() - self.count
    }

    fn push(&mut self, huge: HugeId) {
        if let Some(entry) = self.out.get_mut(self.count) {
            *entry = huge;
            self.count += 1;
        }
    }
}

impl<G: Geometry, P: Persistence> Reclaiming for LLFree<'_, G, P> {
    fn flags(&self, huge: HugeId) -> HugeFlags {
        self.huge_index(huge).map_or(HugeFlags::BACKED, |huge| self.lower.flags(huge))
    }

    /// # Errors
    /// As the contract says. One that is allocated, and that somebody has [isolated](FrameAllocator::isolate), is in use.
    fn set_flags(&self, huge: HugeId, flags: HugeFlags) -> Result<(), OfflineError> {
        let index = self.huge_index(huge).ok_or(OfflineError::OutOfRange)?;
        if !matches!(self.lower.phase(index), Phase::Whole | Phase::Offline) {
            return Err(OfflineError::InUse(huge.first::<G>()));
        }
        let was = self.lower.flags(index);
        self.lower.set_flags(index, Self::in_word(index), flags);
        if !self.lower.is_still_whole(index) {
            if !was.reclaimed {
                self.lower.set_backed(index);
            }
            return Err(OfflineError::InUse(huge.first::<G>()));
        }
        self.lower.persist_states(index);
        Ok(())
    }

    fn set_backed(&self, huge: HugeId) -> Result<(), OfflineError> {
        let index = self.huge_index(huge).ok_or(OfflineError::OutOfRange)?;
        self.lower.set_backed(index);
        Ok(())
    }

    fn alloc_preferring(
        &self,
        request: Request,
        prefer: Prefer,
    ) -> Result<(FrameId, HugeFlags), AllocError> {
        let caller = Caller { slot: request.slot, class: request.class };
        self.check(caller).map_err(|refusal| refusal.of(&request))?;
        let pair = (request.order.0 as u32).checked_sub(G::HUGE_ORDER).filter(|&pair| pair <= 1);
        if let Some(pair) = pair.filter(|_| request.place == Place::Anywhere)
            && let Some((huge, flags)) = self.take_preferred(caller, 1 << pair, prefer)
        {
            self.count(caller.slot, request.order.frames(), false);
            return Ok((self.frame(huge, 0), flags));
        }
        let frame = self.alloc(request)?;
        let huge = self.locate(frame).0;
        let count = pair.map_or(1, |pair| 1 << pair);
        let reclaimed = (huge..huge + count).any(|huge| self.lower.flags(huge).reclaimed);
        Ok((frame, HugeFlags { reclaimed, zeroed: false }))
    }

    /// Huge frames of trees that no slot has reserved come before those of the others. If all that is not enough for a hard reclaim, every
    /// slot is drained.
    ///
    /// # Progress
    /// Lock-free; linear in the trees.
    ///
    /// # Crash
    /// A crash, or the end of a process, inside this call leaves huge frames offline that are in no list: what a hard
    /// reclaim has taken so far, or up to sixteen of a soft one. [`online`](FrameAllocator::online) brings them back.
    /// When this has returned, what it did is persistent.
    fn reclaim(&self, mode: Reclaim, out: &mut [HugeId]) -> usize {
        let mut taken = Taken { out, count: 0 };
        let backed = |flags: Flags| Run::of(flags.preferred(Prefer::Backed));
        let mut all = self.reclaim_in_all(mode, backed, &mut taken);
        if mode == Reclaim::Hard {
            let mut any = || self.reclaim_in_all(mode, |_| EVERY, &mut taken);
            all = all.or_else(&mut any);
            if all.is_none() && self.drain_all() {
                any();
            }
        }
        taken.count
    }

    /// Neighbours in `frames` that share a state word are given back by one write.
    ///
    /// # Crash
    /// A crash inside this call leaves some given back, and the others offline.
    fn give(&self, frames: &[HugeId], flags: HugeFlags) -> Result<(), OfflineError> {
        let offline = |&huge: &HugeId| match self.huge_index(huge) {
            None => Err(OfflineError::OutOfRange),
            Some(huge) if self.lower.phase(huge) != Phase::Offline => Err(OfflineError::NotOffline),
            Some(_) => Ok(()),
        };
        frames.iter().try_for_each(offline)?;
        let mut rest = frames;
        while let Some(&first) = rest.first() {
            let index = |huge: &HugeId| huge.0.wrapping_sub(self.first_huge());
            let word = Self::first_of_word(index(&first));
            let together =
                rest.iter().map(index).take_while(|&index| Self::first_of_word(index) == word);
            let (count, run) = together.fold((0, Run::of(0)), |(count, run), index| {
                (count + 1, run.or(Self::in_word(index)))
            });
            // One that was given back above may have an owner by now, whose flags are not the caller's to set.
            let run = self.lower.those_in(word, run, Phase::Offline);
            self.lower.set_flags(word, run, flags);
            if self.free_offline(word, run) < count {
                return Err(OfflineError::NotOffline);
            }
            rest = rest.get(count..).unwrap_or_default();
        }
        Ok(())
    }

    /// Linear in the trees.
    fn flagged(&self) -> Flagged {
        let mut sum = Flagged::default();
        for (states, flags) in (0..self.trees.len()).flat_map(|tree| self.lower.words_of(tree)) {
            let free = |set| states.free_of(Run::of(set), LANE).count();
            sum.reclaimed += flags.reclaimed().count_ones() as usize;
            sum.free_reclaimed += free(flags.reclaimed());
            sum.free_zeroed += free(flags.zeroed());
        }
        sum
    }
}

impl<G: Geometry, P: Persistence> LLFree<'_, G, P> {
    /// Huge frames that are preferred from the slot's tree or others, or any from the slot's tree.
    fn take_preferred(
        &self,
        caller: Caller,
        count: usize,
        prefer: Prefer,
    ) -> Option<(usize, HugeFlags)> {
        let own = self.read(self.reservation(caller.slot, caller.class));
        let take = |tree, prefer| self.take_flagged(tree, count, prefer, caller.slot);
        let of_own = |prefer| take(own.own_tree()?, prefer);
        of_own(Some(prefer))
            .or_else(|| {
                let near = if own.is_some() { own.tree() } else { self.home(caller.slot) };
                let class = Places::of(caller.class).but(Places::FREE_TREES);
                let (look, mut left) = (|tree| self.look_at(tree), CANDIDATES);
                // Some: the search is over.
                let mut accept = |tree, entry: Tree| {
                    left = left.saturating_sub(1);
                    let is_free = self.lower.count_whole(tree) == G::TREE_HUGE;
                    let taken = take(tree, Some(prefer));
                    if taken.is_some() && is_free && entry.class() != caller.class {
                        self.turn_to(tree, caller.class);
                    }
                    (taken.is_some() || left == 0).then_some(taken)
                };
                let mut search =
                    |places| self.index.search(Kind::Huge, places, near, look, &mut accept);
                [class, Places::FREE_TREES].into_iter().find_map(&mut search).flatten()
            })
            .or_else(|| of_own(None))
    }

    fn take_flagged(
        &self,
        tree: usize,
        count: usize,
        prefer: Option<Prefer>,
        slot: Slot,
    ) -> Option<(usize, HugeFlags)> {
        let intent = self.intent(By::alone(slot), 0);
        let (huge, before, flags) = self.lower.allocate_preferred(tree, count, prefer, intent)?;
        self.states_changed(huge, before, -(count as isize));
        Some((huge, flags))
    }

    /// Reclaims in all trees what `may` says by the flags. Some: there is no room for more.
    fn reclaim_in_all(
        &self,
        mode: Reclaim,
        may: impl Fn(Flags) -> Run,
        taken: &mut Taken<'_>,
    ) -> Option<()> {
        let mut reclaim = |tree| self.reclaim_in(tree, mode, &may, taken);
        let look = |tree| self.look_at(tree);
        let mut search =
            |places| self.index.search(Kind::Huge, places, 0, look, |tree, _| reclaim(tree));
        [Places::FREE_TREES, Places::ALL]
            .into_iter()
            .find_map(&mut search)
            .or_else(|| (0..self.trees.len()).find_map(&mut reclaim))
    }

    /// The same in a tree, word by word.
    fn reclaim_in(
        &self,
        tree: usize,
        mode: Reclaim,
        may: impl Fn(Flags) -> Run,
        taken: &mut Taken<'_>,
    ) -> Option<()> {
        let first = tree * G::TREE_HUGE;
        for word in (first..first + G::TREE_HUGE).step_by(LANE) {
            let Some((run, before)) = self.lower.take_out(word, taken.left(), &may) else {
                continue;
            };
            self.states_changed(word, before, -(run.count() as isize));
            self.count_offline(run.count() as isize);
            let flags = self.lower.set_flags(word, run, HugeFlags::RECLAIMED);
            let new = match mode {
                Reclaim::Hard => {
                    self.lower.persist_states(word);
                    run
                }
                Reclaim::Soft => {
                    self.free_offline(word, run);
                    run.but(Run::of(flags.reclaimed()))
                }
            };
            new.numbers().for_each(|number| taken.push(self.huge_id(word + number)));
        }
        (taken.left() == 0).then_some(())
    }

    /// Makes those of a run in the word of `huge` free that are offline; returns how many.
    fn free_offline(&self, huge: usize, run: Run) -> usize {
        let (from, to) = (Phase::Offline, Phase::Free);
        run.numbers().for_each(|number| self.lower.end_claim(huge + number));
        match self.lower.turn_run(huge, run, from, to, Ordering::AcqRel, Intent::none()) {
            Some(before) => {
                run.numbers().for_each(|number| self.lower.end_claim(huge + number));
                self.states_changed(huge, before, run.count() as isize);
                self.count_offline(-(run.count() as isize));
                self.tell_freed();
                run.count()
            }
            // Only a wrong call has brought one back meanwhile. The others must not stay.
            None if run.count() > 1 => run.each().map(|one| self.free_offline(huge, one)).sum(),
            None => 0,
        }
    }

    /// A huge frame in its word.
    const fn in_word(index: usize) -> Run {
        Run::new(index % G::TREE_HUGE, 1)
    }

    /// The first huge frame of the word that a huge frame is in.
    pub(crate) const fn first_of_word(index: usize) -> usize {
        // Both are powers of two, and a word has no huge frames of two trees.
        let together = if G::TREE_HUGE < LANE { G::TREE_HUGE } else { LANE };
        index & !(together - 1)
    }
}
