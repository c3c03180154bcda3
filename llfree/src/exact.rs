//! This very block: exact-frame allocation, and taking huge frames out and putting them back.
//!
//! The block is paid from the tree entry and the child like any other. Where the credits are not
//! there, whoever has something of the tree is drained, so that they come back to them.

use woodlot_frame::atomics::Ordering;
use woodlot_frame::{AllocError, Class, FrameId, Geometry, HugeId, OfflineError, Order};

use crate::LLFree;
use crate::init::{TOTAL_FREE, TOTAL_OFFLINE};
use crate::lower::Gain;
use crate::tree::Tree;

/// How often a claim starts again because other calls moved the credits that it needs, while the
/// block itself is seen to be free.
const ATTEMPTS: usize = 8;

impl<G: Geometry> LLFree<'_, G> {
    /// Allocates the block at `frame`.
    pub(crate) fn allocate_at(
        &self,
        frame: FrameId,
        order: Order,
        class: Class,
    ) -> Result<(), AllocError> {
        let class = Some(class);
        if !frame.is_aligned(order) {
            return Err(AllocError::Misaligned(frame, order));
        }
        if !self.zone.contains(frame, order) {
            return Err(AllocError::OutOfRange(frame));
        }
        let (huge, offset) = self.locate(frame);
        let order = order.0 as u32;
        let claimed = if order < G::HUGE_ORDER {
            self.attempt(huge, offset, order, class, |price| {
                self.claim_at(huge, offset, order, price)
            })
        } else {
            self.attempt(huge, 0, order, class, |price| {
                if self.lower.allocate_whole(huge, order) { Ok(()) } else { Err(price) }
            })
        };
        if claimed { Ok(()) } else { Err(AllocError::InUse(frame)) }
    }

    /// Claims a block of base frames for which the tree was paid; fails with what is to be given
    /// back to it.
    fn claim_at(&self, huge: usize, offset: usize, order: u32, price: Gain) -> Result<(), Gain> {
        let polarity = self.lower.take(huge, 1 << order, price.huge > 0).ok_or(price)?;
        self.lower.rows(huge, polarity).claim_at(offset, order).map_err(|lost| {
            let frames = (1 << order) - lost;
            Gain { frames, huge: self.give_child(huge, frames, polarity).huge }
        })
    }

    /// Pays the tree for a block and tries to claim it, as long as the block is seen to be free.
    /// A block of a huge frame that is free as a whole costs a huge credit. An entirely free tree
    /// changes to `class`.
    fn attempt(
        &self,
        huge: usize,
        offset: usize,
        order: u32,
        class: Option<Class>,
        claim: impl Fn(Gain) -> Result<(), Gain>,
    ) -> bool {
        let tree = huge / G::TREE_HUGE;
        for _ in 0..ATTEMPTS {
            if !self.lower.is_free(huge, offset, order) {
                return false;
            }
            let whole = match order.checked_sub(G::HUGE_ORDER) {
                Some(pair) => 1 << pair,
                None => self.lower.child(huge).is_free::<G>() as usize,
            };
            let price = Gain { frames: 1 << order, huge: whole };
            let pay = |entry: Tree| entry.pay::<G>(price, class);
            if self.change_tree(tree, pay).is_some() {
                match claim(price) {
                    Ok(()) => return true,
                    Err(back) => self.give_tree(tree, back),
                }
            }
            self.release_tree(tree);
        }
        false
    }

    /// Drains whoever has the tree reserved.
    fn release_tree(&self, tree: usize) {
        for word in self.reservations().filter(|word| self.read(word).is_in(tree)) {
            self.drain_word(word);
        }
    }

    /// Takes one huge frame out.
    fn take_out(&self, huge: usize) -> bool {
        let out = self.attempt(huge, 0, G::HUGE_ORDER, None, |price| {
            if self.lower.take_out(huge) { Ok(()) } else { Err(price) }
        });
        if out {
            self.total(TOTAL_FREE).fetch_sub(G::HUGE_FRAMES as u64, Ordering::Relaxed);
            self.total(TOTAL_OFFLINE).fetch_add(1, Ordering::Relaxed);
        }
        out
    }

    fn put_back(&self, huge: usize) -> bool {
        let put = self.lower.put_back(huge);
        if put {
            self.total(TOTAL_OFFLINE).fetch_sub(1, Ordering::Relaxed);
            self.total(TOTAL_FREE).fetch_add(G::HUGE_FRAMES as u64, Ordering::Relaxed);
            let gain = Gain { frames: G::HUGE_FRAMES, huge: 1 };
            self.give_tree(huge / G::TREE_HUGE, gain);
        }
        put
    }

    /// The indices of a run of huge frames that lies wholly in the zone.
    fn run(&self, first: HugeId, count: usize) -> Result<core::ops::Range<usize>, OfflineError> {
        let last = count.checked_sub(1).and_then(|more| first.0.checked_add(more));
        let last = last.and_then(|last| self.huge_index(HugeId(last)));
        match (self.huge_index(first), last) {
            (Some(first), Some(last)) => Ok(first..last + 1),
            _ => Err(OfflineError::OutOfRange),
        }
    }

    pub(crate) fn take_run_out(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        let run = self.run(first, count)?;
        for huge in run.clone() {
            if !self.take_out(huge) {
                (run.start..huge).for_each(|huge| {
                    self.put_back(huge);
                });
                return Err(OfflineError::InUse);
            }
        }
        Ok(())
    }

    pub(crate) fn put_run_back(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        let run = self.run(first, count)?;
        if !run.clone().all(|huge| self.lower.child(huge).is_offline()) {
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
