//! This very block: exact-frame allocation, and taking huge frames out and putting them back.
//!
//! A block of base frames is paid from its child like any other. Where the credits are not there,
//! whoever has something of the tree is drained, so that they come back.

use woodlot_frame::atomics::Ordering;
use woodlot_frame::{
    AllocError, Class, FrameId, Geometry, HugeId, OfflineError, Order, Persistence,
};

use crate::LLFree;
use crate::record::{By, Intent};
use crate::state::Phase;

/// How often a claim starts again because other calls moved the credits that it needs, while the
/// block itself is seen to be free.
const ATTEMPTS: usize = 8;

impl<G: Geometry, P: Persistence> LLFree<'_, G, P> {
    /// Allocates the block at `frame`. An entirely free tree changes to `class`.
    pub(crate) fn allocate_at(
        &self,
        frame: FrameId,
        order: Order,
        class: Class,
        by: By,
    ) -> Result<(), AllocError> {
        if !frame.is_aligned(order) {
            return Err(AllocError::Misaligned(frame, order));
        }
        if !self.zone.contains(frame, order) {
            return Err(AllocError::OutOfRange(frame));
        }
        let (huge, offset) = self.locate(frame);
        let order = order.0 as u32;
        let claimed = self.attempt(huge, offset, order, || {
            let tree = huge / G::TREE_HUGE;
            let whole = self.lower.count_whole(tree) == G::TREE_HUGE;
            let claimed = if order < G::HUGE_ORDER {
                self.claim_at(huge, offset, order, by)
            } else {
                let (count, intent) = (1 << (order - G::HUGE_ORDER), self.intent(by, 0));
                self.turn(huge, count, Phase::Free, Phase::Whole, intent)
            };
            if claimed && whole {
                self.turn_to(tree, class);
            }
            claimed
        });
        if claimed { Ok(()) } else { Err(AllocError::InUse(frame)) }
    }

    /// Claims a block of base frames: of a huge frame that is free as a whole, after opening it.
    fn claim_at(&self, huge: usize, offset: usize, order: u32, by: By) -> bool {
        let count = 1 << order;
        let (held, polarity) = if self.turn(huge, 1, Phase::Free, Phase::Split, Intent::none()) {
            (G::HUGE_FRAMES, self.lower.polarity(huge))
        } else if let Some(polarity) = self.take_some(huge, count) {
            (count, polarity)
        } else {
            return false;
        };
        let intent = self.intent(by, huge << G::HUGE_ORDER);
        let claimed = self.lower.rows(huge, polarity).claim_at(offset, order, intent);
        self.give_held(huge, held - claimed.err().unwrap_or(count));
        claimed.is_ok()
    }

    /// Changes `count` huge frames, one or a pair, from one phase to another.
    fn turn(
        &self,
        huge: usize,
        count: usize,
        from: Phase,
        to: Phase,
        intent: Intent<'_, G, P>,
    ) -> bool {
        let before = self.lower.turn(huge, count, from, to, Ordering::AcqRel, intent);
        before.is_some_and(|before| {
            let gained = (to == Phase::Free) as isize - (from == Phase::Free) as isize;
            self.states_changed(huge, before, gained * count as isize);
            true
        })
    }

    /// Tries to claim a block, as long as it is seen to be free; whoever holds credits of it gives
    /// them back in between. If nobody does, a call under way has what is missing, or it has just come back.
    fn attempt(&self, huge: usize, offset: usize, order: u32, claim: impl Fn() -> bool) -> bool {
        for _ in 0..ATTEMPTS {
            if !self.is_there(huge, offset, order) {
                return false;
            }
            if claim() {
                return true;
            }
            if !self.release_tree(huge / G::TREE_HUGE) {
                return self.is_there(huge, offset, order) && claim();
            }
        }
        false
    }

    /// Drains whoever has something of the tree. False: nobody has.
    pub(crate) fn release_tree(&self, tree: usize) -> bool {
        let mut any = false;
        for word in self.reservations().filter(|word| self.read(word).is_in(tree)) {
            any |= self.drain_word(word);
        }
        any
    }

    /// Takes one huge frame out.
    fn take_out(&self, huge: usize) -> bool {
        let turn = || self.turn(huge, 1, Phase::Free, Phase::Offline, Intent::none());
        let out = self.attempt(huge, 0, G::HUGE_ORDER, turn);
        if out {
            self.count_offline(1);
        }
        out
    }

    /// So many more huge frames are offline, which were free.
    pub(crate) fn count_offline(&self, gained: isize) {
        self.count_free(-(gained << G::HUGE_ORDER));
    }

    pub(crate) fn put_back(&self, huge: usize) -> bool {
        self.lower.end_claim(huge);
        let put = self.turn(huge, 1, Phase::Offline, Phase::Free, Intent::none());
        if put {
            // Somebody else may have brought it back, and claimed it anew, since the first look.
            self.lower.end_claim(huge);
            self.count_offline(-1);
            self.tell_freed();
        }
        put
    }

    /// The indices of a run of huge frames that lies wholly in the zone.
    pub(crate) fn run_of(
        &self,
        first: HugeId,
        count: usize,
    ) -> Result<core::ops::Range<usize>, OfflineError> {
        let last = count.checked_sub(1).and_then(|more| first.0.checked_add(more));
        let last = last.and_then(|last| self.huge_index(HugeId(last)));
        match (self.huge_index(first), last) {
            (Some(first), Some(last)) => Ok(first..last + 1),
            _ => Err(OfflineError::OutOfRange),
        }
    }

    pub(crate) fn take_run_out(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        let run = self.run_of(first, count)?;
        for huge in run.clone() {
            if !self.take_out(huge) {
                (run.start..huge).for_each(|huge| {
                    self.put_back(huge);
                });
                return Err(OfflineError::in_use(self, self.frame(huge, 0).huge::<G>()));
            }
        }
        Ok(())
    }

    pub(crate) fn put_run_back(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        let run = self.run_of(first, count)?;
        if !run.clone().all(|huge| self.lower.phase(huge) == Phase::Offline) {
            return Err(OfflineError::NotOffline);
        }
        for huge in run.clone() {
            if !self.put_back(huge) {
                // Somebody else is putting the same run back: what is not lost is taken out again.
                (run.start..huge).for_each(|huge| {
                    self.take_out(huge);
                });
                return Err(OfflineError::NotOffline);
            }
        }
        Ok(())
    }
}
