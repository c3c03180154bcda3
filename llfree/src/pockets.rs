//! The pockets of a slot: blocks that it has just freed, for its next allocations.
//!
//! ```text
//!   orders   0        1 – 2    3 – 5    6        7 and up, below a huge frame
//!          ┌────────┬────────┬────────┬────────┬────────┐
//!          │ pocket │ pocket │ pocket │ pocket │ pocket │   each a reservation of a child, and of no tree
//!          └────────┴────────┴────────┴────────┴────────┘
//!
//!   closed ── an allocation searches ──▶ open ── a free into a nearly full child ──▶ a block
//!                                         ◀───── an allocation of the same order ────
//!   closed ◀──────────────── another free, a drain ───────────────────────────────── a block
//! ```
//!
//! Where blocks are freed and allocated by turns, each free makes a hole in another child, which is full but for a few frames.
//! To find that hole, an allocation would search the index, and take the child's credits to its reservation. Instead the free gives
//! the block's credits to the slot's pocket, and not to the child's counter. The next allocation of the order finds them there:
//! the hole is filled again, nobody is told of it, and no huge frame is broken for it. Section 3 of LLFree's paper has
//! nothing of the kind.
//!
//! A block that the next call of its order does not take is not kept. Who frees several blocks one after the other may be emptying a child,
//! and an allocation from there would keep it from becoming free as a whole.
//!
//! A pocket is drained like any reservation. Its credits are of no particular frames: another holder of the child may
//! allocate the block that was freed. Then they go back to the child.

use woodlot_frame::atomics::AtomicU64;
use woodlot_frame::{FrameId, Geometry, Persistence, Slot};

use crate::LLFree;
use crate::allocate::Caller;
use crate::init::{SLOT_POCKETS, SLOT_WORDS};
use crate::record::By;
use crate::reservation::Reservation;
use crate::row::ROW_ORDER;
use crate::state::Polarity;

/// Pockets of a slot.
const POCKETS: usize = 5;
const _: () = assert!(SLOT_POCKETS + POCKETS <= SLOT_WORDS);

/// The pocket for blocks of an order.
const fn pocket_for(order: u32) -> usize {
    match order {
        0 => 0,
        1..=2 => 1,
        3..ROW_ORDER => 2,
        ROW_ORDER => 3,
        _ => 4,
    }
}

impl<G: Geometry, P: Persistence> LLFree<'_, G, P> {
    /// A child with fewer free frames than this is nearly full: a search would come there late, or never. A 32nd of it; in
    /// models at least one.
    const NEARLY_FULL: usize = if G::HUGE_FRAMES > 32 { G::HUGE_FRAMES / 32 } else { 1 };

    /// The pocket of a slot for blocks of an order below a huge frame's.
    #[inline(always)]
    pub(crate) fn pocket(&self, slot: Slot, order: u32) -> &AtomicU64 {
        self.slot_word(slot, SLOT_POCKETS + pocket_for(order))
    }

    /// All pockets of a slot.
    pub(crate) fn pockets(&self, slot: Slot) -> &[AtomicU64] {
        self.slot_words(slot).get(SLOT_POCKETS..SLOT_POCKETS + POCKETS).unwrap_or_default()
    }

    /// Has the pocket for this order something?
    #[inline(always)]
    pub(crate) fn has_kept(&self, slot: Slot, order: u32) -> bool {
        self.read(self.pocket(slot, order)).held() > 0
    }

    /// The block that was just freed, if it is of this order, and of a class that the caller's fills.
    #[inline(always)]
    pub(crate) fn take_kept(&self, caller: Caller, order: u32) -> Option<FrameId> {
        let pocket = self.pocket(caller.slot, order);
        let now = self.read(pocket);
        let serves = self.filled(caller.class).has_class(self.tree(now.tree()).class());
        if now.held() != 1 << order || !serves {
            return None;
        }
        let taken = self.take_held(pocket, order, By::alone(caller.slot));
        match taken {
            Some(_) => self.count(caller.slot, 1 << order, false),
            None => _ = self.drain_word(pocket),
        }
        taken
    }

    /// An allocation of this order has to search: the next free may spare the one after it that.
    pub(crate) fn open_pocket(&self, slot: Slot, order: u32) {
        let open = |now: Reservation<G>| {
            (!now.is_some()).then_some(Reservation::guest(0, 0, Polarity(false)))
        };
        self.change(self.pocket(slot, order), open);
    }

    /// Gives the credits of a block that was freed to the slot's pocket, if that is open and the child nearly full and not
    /// isolated. A block that is still there goes back, and the pocket is closed.
    #[inline(always)]
    pub(crate) fn keep_freed(
        &self,
        slot: Slot,
        huge: usize,
        offset: usize,
        order: u32,
        polarity: Polarity,
    ) -> bool {
        let pocket = self.pocket(slot, order);
        let now = self.read(pocket);
        if !now.is_some() {
            return false;
        }
        if now.held() > 0 {
            self.drain_word(pocket);
            return false;
        }
        // What is isolated is left alone: before it goes back, another call of the slot could take it.
        if !self.lower.has_fewer(huge, Self::NEARLY_FULL) {
            return false;
        }
        let freed = Reservation::guest(huge, 1 << order, polarity).at_row(offset >> ROW_ORDER);
        if self.swap(pocket, now, freed).is_err() {
            return false;
        }
        self.count(slot, 1 << order, true);
        self.look_for_isolation(pocket, huge);
        true
    }
}
