//! What a history has to know of an engine, besides the contract.

use woodlot_frame::{FrameAllocator, Geometry, Order, Persistence, Reclaim, Reclaiming};
use woodlot_llfree::{End, LLFree};
use woodlot_onewrite::OneWrite;

use crate::judge::Named;

/// An engine whose crashes are judged.
pub trait Subject: FrameAllocator + Reclaiming {
    /// Are there records of what each slot did last? Then a slot has one call at a time.
    const INTENTS: bool;

    /// How many blocks of a batch of frees a record has room for.
    fn batch_room(&self, order: Order) -> usize;

    /// With intents: what records name each frame.
    fn named(&self) -> Option<Vec<Named>>;

    /// Is an allocation or free of this order one write, as to the frames of the block?
    fn one_write(order: Order) -> bool;

    /// How many frames an allocation of this order may take for a time that it does not return.
    fn stray(order: Order) -> usize;

    /// How many of these may be beside its block.
    fn beside(order: Order) -> usize;

    /// May such a reclaim take huge frames for a time that it does not return?
    fn tries(mode: Reclaim) -> bool;
}

impl<G: Geometry, P: Persistence> Subject for LLFree<'_, G, P> {
    const INTENTS: bool = P::INTENTS;

    fn batch_room(&self, order: Order) -> usize {
        self.batch_room(order)
    }

    fn named(&self) -> Option<Vec<Named>> {
        let mut named = vec![Named::Not; self.zone().frames];
        for last in self.last_operations() {
            let how = if last.end == End::CutOff { Named::CutOff } else { Named::Whole };
            for run in self.frames_of(last) {
                let first = run.start.0 - self.zone().start.0;
                let named = named[first..first + run.count].iter_mut();
                named.for_each(|named| *named = how.max(*named));
            }
        }
        P::INTENTS.then_some(named)
    }

    fn one_write(order: Order) -> bool {
        order.0 <= 6 || u32::from(order.0) >= G::HUGE_ORDER
    }

    fn stray(order: Order) -> usize {
        if Self::one_write(order) { 0 } else { order.frames() }
    }

    fn beside(_: Order) -> usize {
        0
    }

    fn tries(mode: Reclaim) -> bool {
        mode == Reclaim::Soft
    }
}

/// Frames of a row of the one-write engine.
pub const fn row<G: Geometry>() -> usize {
    if G::HUGE_FRAMES < 64 { G::HUGE_FRAMES } else { 64 }
}

impl<G: Geometry> Subject for OneWrite<'_, G> {
    const INTENTS: bool = false;

    fn batch_room(&self, _: Order) -> usize {
        usize::MAX
    }

    fn named(&self) -> Option<Vec<Named>> {
        None
    }

    /// But for a pair of huge frames of more than 16 rows; and where no row has to be closed first.
    fn one_write(order: Order) -> bool {
        u32::from(order.0) < G::MAX_ORDER || G::HUGE_FRAMES <= 16 * row::<G>()
    }

    /// Rows that are opened, or those of its block that are closed.
    fn stray(order: Order) -> usize {
        Self::beside(order).max(order.frames())
    }

    /// Rows are opened that have room for 16 blocks.
    fn beside(order: Order) -> usize {
        let opens = order.frames() < row::<G>();
        if opens { (16 * order.frames()).clamp(row::<G>(), G::HUGE_FRAMES) } else { 0 }
    }

    fn tries(_: Reclaim) -> bool {
        true
    }
}
