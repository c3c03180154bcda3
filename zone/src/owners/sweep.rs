//! Freeing what all the dead have left, in a zone that one has to itself: by one at a time, who has the right to.
//!
//! ```text
//!   word of the table's page    0: nobody sweeps    otherwise the identity of who has the right to sweep
//!   nobody's, or of a dead one  ── a swap ──▶  mine  ── the right is dropped ──▶  nobody's
//! ```

use core::num::NonZeroU64;
use core::ops::Range;

use woodlot_frame::atomics::Ordering::{AcqRel, Acquire};
use woodlot_frame::{FrameAllocator, FrameId, Geometry, Order, Slot, blocks};

use super::Owners;
use super::error::OwnersError;
use super::members::Member;
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

/// The right to sweep, which one has at a time, until this is dropped.
///
/// Who goes on with the zone after its sweep keeps the right for as long as a call of its may be under way. So the next one
/// who sweeps takes nothing from it.
///
/// A fork copies it, and both copies are of one right. The child forgets its copy, or the first copy that is dropped gives the
/// right up; then [`sweep`](Self::sweep) refuses the other one.
#[derive(Debug)]
#[must_use = "another one may sweep when this is dropped"]
pub struct Sweeper<'a> {
    owners: Owners<'a>,
    by: NonZeroU64,
}

impl<'a> Owners<'a> {
    /// Takes the right to sweep, which nobody has, or one that is dead. `by` is the caller's identity, and how others learn
    /// who has the right: a hash of the number and the start time of its process and of the machine's boot, say. No two who
    /// live have the same one, nor have one who lives and one who died with the right. (Number and start time alone repeat
    /// after a reboot, where the word may outlive it.) `is_dead` says whether one is dead that has the right; a process that
    /// is only stopped is not.
    ///
    /// # Errors
    /// [`OwnersError::BeingSwept`] with who has the right, and lives. Try again later.
    ///
    /// # Progress
    /// Lock-free: another attempt follows where somebody else has taken the right or given it up meanwhile.
    ///
    /// # Crash
    /// Who dies keeps the right until the next one takes it, to whom it is dead.
    pub fn sweeper(
        &self,
        by: NonZeroU64,
        is_dead: impl Fn(u64) -> bool,
    ) -> Result<Sweeper<'a>, OwnersError> {
        let mut now = self.sweeping.load(Acquire);
        loop {
            if now != 0 && !is_dead(now) {
                return Err(OwnersError::BeingSwept { by: now });
            }
            // Of two who find the same one dead, the second finds the first.
            match self.sweeping.compare_exchange(now, by.get(), AcqRel, Acquire) {
                Ok(_) => return Ok(Sweeper { owners: *self, by }),
                Err(other) => now = other,
            }
        }
    }
}

impl Drop for Sweeper<'_> {
    fn drop(&mut self) {
        // Where that fails another one has the right, to whom this one was dead.
        let _ = self.owners.sweeping.compare_exchange(self.by.get(), 0, AcqRel, Acquire);
    }
}

impl Sweeper<'_> {
    /// Frees every frame that is allocated and that no member owns who is kept, and forgets all other members and what
    /// slots were claimed. Members that are kept are live then; who was one of them goes on with the
    /// [`Member`] that [`members`](Owners::members) has. So nothing is lost, whatever died at what time.
    ///
    /// **What was allocated without tags is freed too.** Only a table that was there from the zone's beginning, by which
    /// all was allocated, may be swept.
    ///
    /// The zone may have been opened, or the caller has attached to it, or goes on with it. Calls that deaths have cut off
    /// are [resolved](Zone::resolve) first. (A record that stayed under way would speak of frames that have new
    /// owners soon, and the next recovery would free them.)
    ///
    /// Nobody else may use the zone or the table meanwhile, or a sweep would take the blocks of a call that is under way.
    /// Those who sweep are kept apart by [the right to](Owners::sweeper). **Who uses the zone and does not sweep holds a lock
    /// of it shared, for as long as it uses it, and who sweeps takes the lock exclusively before**: one that a death gives
    /// up, such as `flock` of the zone's file. Who gives its lock up and comes again looks itself up in
    /// [`members`](Owners::members), and claims its slots anew.
    ///
    /// Huge frames that are [isolated](FrameAllocator::isolate) are so no more, since who isolated them may be dead. A
    /// living isolator begins again.
    ///
    /// # Errors
    /// [`OwnersError::OtherZone`]; [`OwnersError::RightLost`], and nothing was swept; [`OwnersError::NotDurable`]: every owner is as it was, and what calls of the dead had
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
        let Owners { members, tags, .. } = self.owners;
        self.owners.check(allocator)?;
        if self.owners.sweeping.load(Acquire) != self.by.get() {
            return Err(OwnersError::RightLost);
        }
        allocator.end_isolation();
        let mut frames = zone.resolve()?.released;
        let zone = allocator.zone().range();
        let mut next = zone.start;
        for free in allocator.free_runs(zone.clone()).chain([zone.end..zone.end]) {
            frames += self.owners.sweep_allocated(allocator, next..free.start, &keep);
            next = free.end;
            tags.disown(&free);
        }
        Ok(Swept { frames, members: members.clear(keep) })
    }
}

impl Owners<'_> {
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
