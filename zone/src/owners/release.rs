//! Freeing what the dead have left: of one member while others go on, or of all at an opening.

use core::ops::Range;

use woodlot_frame::{FrameAllocator, FrameId, Geometry, Order, Slot, blocks};

use super::error::OwnersError;
use super::members::Member;
use super::{Owners, Tagged};
use crate::medium::Medium;
use crate::zone::Zone;

/// What a sweep found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Swept {
    /// Frames that were allocated and had no owner that is kept. They are free now.
    pub frames: usize,
    /// Members that are none any more.
    pub members: usize,
}

impl<A: FrameAllocator> Tagged<'_, '_, A> {
    /// Frees every frame that a member owns which is dead, gives back what its slots hold, and gives its slots and its
    /// entry free. Others go on meanwhile. Returns the number of frames.
    ///
    /// The caller vouches that the member is dead: none of its threads will do anything any more, in this zone or in
    /// its frames. What the member has given to others is freed too, unless they have [adopted](Self::adopt) it before.
    ///
    /// What a call of the member that was under way had in its hands stays hidden until the next
    /// [`sweep`](Owners::sweep).
    ///
    /// # Errors
    /// [`OwnersError::BeingReleased`] where another member does it already. If that one has died meanwhile, release it
    /// first; then this one can be released. [`OwnersError::Gone`] where it was released already;
    /// [`OwnersError::BadSlot`] where there is no slot `slot`, by way of which the frames are freed.
    ///
    /// # Progress
    /// Lock-free; linear in the zone's frames.
    ///
    /// # Crash
    /// If the caller dies, at most one block stays hidden until the next sweep. All else is freed when the member is
    /// released after the caller has been.
    pub fn release_owner(&self, dead: Member, slot: Slot) -> Result<usize, OwnersError> {
        let Self { allocator, owners, me } = *self;
        if slot.0 >= allocator.zone().slots {
            return Err(OwnersError::BadSlot(slot));
        }
        if !owners.members.is_live(me) {
            return Err(OwnersError::Gone(me));
        }
        owners.members.begin_release(dead, me)?;
        let free = |first, order| allocator.free(first, order, slot).is_ok();
        let freed = owners.tags.free_owned::<A::Geometry>(dead.id(), free);
        for slot in owners.members.slots_of(dead) {
            // The zone has the slot.
            let _ = allocator.drain(slot);
            owners.members.give_up(dead, slot);
        }
        owners.members.end_release(dead, me);
        Ok(freed)
    }

    /// Ceases to be a member: frees what it still owns, and gives its slots and its entry free. Returns the number of
    /// frames. No other call of the member may be under way.
    ///
    /// # Errors
    /// [`OwnersError::Gone`], [`OwnersError::BadSlot`], as [`release_owner`](Self::release_owner).
    ///
    /// # Progress
    /// # Crash
    /// As [`release_owner`](Self::release_owner). Others can release a member that has died while it left.
    pub fn leave(self, slot: Slot) -> Result<usize, OwnersError> {
        self.release_owner(self.me, slot)
    }
}

impl Owners<'_> {
    /// Frees every frame that is allocated and that no member owns who is kept, and forgets all other members and what
    /// slots were claimed. Members that are kept are live then; who was one of them goes on with the
    /// [`Member`] that [`members`](Self::members) has. So nothing is lost, whatever died at what time.
    ///
    /// **What was allocated without tags is freed too.** Only a table that was there from the zone's beginning, by which
    /// all was allocated, may be swept.
    ///
    /// The zone may have been opened, or the caller has attached to it, or goes on with it. Calls that deaths have cut off
    /// are [resolved](Zone::resolve) first. (A record that stayed under way would speak of frames that have new
    /// owners soon, and the next recovery would free them.)
    ///
    /// Nobody else may use the zone or the table meanwhile, another sweep included, or it would take the blocks of a call
    /// that is under way. So **who uses the zone holds a lock of it shared, for as long as it uses it, and a sweep holds
    /// the lock exclusively**. It is one that a death gives up, such as `flock` of the zone's file. Of two sweepers the
    /// second one waits, and if the first goes on with the zone, until that one gives its lock up: it sweeps what has died
    /// since. Who gives its lock up and comes again looks itself up in [`members`](Self::members), and claims its slots
    /// anew.
    ///
    /// Huge frames that are [isolated](FrameAllocator::isolate) are so no more, since who isolated them may be dead. A
    /// living isolator begins again.
    ///
    /// # Errors
    /// [`OwnersError::OtherZone`]; [`OwnersError::NotDurable`]: every owner is as it was, and what calls of the dead had
    /// in their hands may be free already. Sweep again before anybody uses the zone.
    ///
    /// # Progress
    /// Linear in the zone's frames.
    ///
    /// # Crash
    /// A sweep that stops is done again by the next one.
    pub fn sweep<G: Geometry, M: Medium>(
        &self,
        zone: &Zone<'_, G, M>,
        keep: impl Fn(Member) -> bool,
    ) -> Result<Swept, OwnersError> {
        let allocator = &**zone;
        self.check(allocator)?;
        zone.end_isolation();
        let mut frames = zone.resolve()?.released;
        let zone = allocator.zone().range();
        let mut next = zone.start;
        for free in allocator.free_runs(zone.clone()).chain([zone.end..zone.end]) {
            frames += self.sweep_allocated(allocator, next..free.start, &keep);
            next = free.end;
            self.tags.disown(&free);
        }
        Ok(Swept { frames, members: self.members.clear(keep) })
    }

    /// Sweeps frames that are allocated or offline.
    fn sweep_allocated<A: FrameAllocator>(
        &self,
        allocator: &A,
        frames: Range<FrameId>,
        keep: &impl Fn(Member) -> bool,
    ) -> usize {
        let lost = |&(id, _): &(u16, Range<FrameId>)| !self.members.of(id).is_some_and(keep);
        // A block that lies in one huge frame is wholly offline, or not at all.
        let in_huge = |(first, order): (FrameId, Order)| {
            let part = order.min(Order::huge::<A::Geometry>());
            let parts = 0..1 << (order.0 - part.0);
            parts.map(move |n| (FrameId(first.0 + n * part.frames()), part))
        };
        let sweep = |run: Range<FrameId>| {
            self.tags.disown(&run);
            let parts = blocks::<A::Geometry>(run).flat_map(in_huge);
            let freed =
                parts.filter(|&(first, order)| allocator.free(first, order, Slot(0)).is_ok());
            freed.map(|(_, order)| order.frames()).sum::<usize>()
        };
        self.tags.runs(frames).filter(lost).map(|(_, run)| sweep(run)).sum()
    }
}
