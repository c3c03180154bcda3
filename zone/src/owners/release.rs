//! Freeing what a dead member has left, while others go on.

use woodlot_frame::{FrameAllocator, Slot};

use super::Tagged;
use super::error::OwnersError;
use super::members::Member;

impl<A: FrameAllocator> Tagged<'_, '_, A> {
    /// Frees every frame that a member owns which is dead, gives back what its slots hold, and gives its slots and its
    /// entry free. Others go on meanwhile. Returns the number of frames.
    ///
    /// The caller vouches that the member is dead: none of its threads will do anything any more, in this zone or in
    /// its frames. What the member has given to others is freed too, unless they have [adopted](Self::adopt) it before.
    ///
    /// What a call of the member that was under way had in its hands stays hidden until the next
    /// [`sweep`](super::Sweeper::sweep).
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
