//! Owners: who has which frames of a shared zone, so that what a dead process had can be freed.
//!
//! ```text
//!   0             4096
//!   │ page        │ members, a line each │ slots, a word each │ tags, 16 bits for each base frame │
//!   │ who sweeps  │ identity, state      │ who has it         │ who owns it; a free has begun     │
//! ```
//!
//! An owner table is memory of its own, usually behind its zone in the same file. The allocator does not know of it:
//! [`Tagged`] writes the tags around the calls of an allocator, so who wants no owners pays nothing.
//!
//! ```text
//!   alloc     allocator: the block is mine    →  tags: id
//!   free      tags: freeing                   →  allocator: the block is free
//!   release   tag = id of a dead member  →  tag: freeing, by a swap  →  allocator: the block is free
//!   sweep     nobody else uses the zone: records of the dead are resolved; what is allocated and nobody's  →  free
//! ```
//!
//! # Invariants
//! 1. A frame whose tag is a member's id is allocated, and by a call of that member, or it was handed to it
//!    ([`tags`]).
//! 2. A member releases another one only if it has swapped that one's entry from *live*. So one does, and the entry is
//!    not joined anew before it has ended.
//!
//! # Why no frame of a living member is freed by a release
//! Let *d* be the dead member and *f* a frame that a release frees. It has swapped the tag of *f* from *d* to *freeing*.
//!
//! - At the swap, *f* was allocated, and *d*'s (1). No call of *d* is under way, since *d* is dead.
//! - Who else could free *f* between the swap and the allocator's free? A free by a living member, to which *d* had
//!   given the frame, must mark the tag first, also by a swap: one of the two succeeds, and the other one frees
//!   nothing. Another release of *d* meets the same swap. A free of a living member that marked before has taken the
//!   tag away from *d*: the swap fails.
//! - So *f* is still allocated and nobody's when the allocator frees it, and nobody can have allocated it meanwhile.
//! - A frame that a living member has allocated and not tagged yet has the tag of its last free: *freeing*, or 0.
//!   A release passes by both.
//!
//! This rests on who vouches for the death, on legal calls, and on all frames being allocated and freed by way of the
//! tags. A process that is only stopped and goes on after its release, or that frees what it does not own at the
//! very moment of a release, can break it, as a double free can without owners.
//!
//! # What a death hides
//! A member that dies between the two steps of an allocation or of a free leaves frames that are allocated and nobody's:
//! those of the blocks or the run of the one call under way, for each thread that it had in a call. A death in the middle
//! of a release leaves one block so. Nobody gets them before the next [`sweep`](Sweeper::sweep), and nobody gets them twice.
//! What the death hides in the allocator itself is as without owners: see [`Zone::attach`](crate::Zone::attach).
//!
//! Batches and runs keep to the same order: **all** of their tags are written after the allocator has given all of their
//! frames, or before it frees the first. So none of them has an owner while the allocator's call is under way. A release
//! then frees nothing that the record of a slot names as under way ([intents](woodlot_frame::Intents)), and a recovery that
//! brings the call to its end takes nothing from anybody. A member that died as it wrote the tags, and is kept, owns what
//! has its tag: of what it was freeing the rest, of what it has allocated the beginning. The sweep frees the others;
//! [`owner`](Owners::owner) says which is which.
//!
//! *Progress*: the tags add to a call one store for each base frame of its blocks. A free of another member's frame
//! adds a swap. [`release_owner`](Tagged::release_owner) is linear in the zone's frames, and others go on
//! meanwhile.
//!
//! *Crash*: the table outlives processes, and a loss of power only where all stores do (eADR). Elsewhere, after a
//! loss of power, keep nobody in the sweep; if the table's page is damaged, [erase](crate::erase) and format it before.

mod error;
mod members;
mod release;
mod sweep;
mod table;
mod tagged;
mod tags;

use woodlot_frame::atomics::AtomicU64;
use woodlot_frame::{FrameAllocator, FrameId, Slot};

pub use error::OwnersError;
pub use members::Member;
pub use sweep::{Sweeper, Swept};
pub use tagged::Tagged;

use members::Members;
use tags::Tags;

/// The owner table of a zone: members, the slots that they have claimed, and a tag for each base frame.
///
/// [`Tagged`] is how a member allocates and frees.
#[derive(Clone, Copy, Debug)]
pub struct Owners<'a> {
    members: Members<'a>,
    tags: Tags<'a>,
    /// Who has the right to sweep.
    sweeping: &'a AtomicU64,
}

impl<'a> Owners<'a> {
    pub(crate) fn new(members: Members<'a>, tags: Tags<'a>, sweeping: &'a AtomicU64) -> Self {
        Self { members, tags, sweeping }
    }

    /// # Errors
    /// [`OwnersError::OtherZone`]
    fn check<A: FrameAllocator>(&self, allocator: &A) -> Result<(), OwnersError> {
        let zone = allocator.zone();
        let same = self.tags.frames() == zone.range() && self.members.slots() == zone.slots;
        if same { Ok(()) } else { Err(OwnersError::OtherZone) }
    }

    /// Becomes a member. `identity` is the caller's to choose, and is how others learn who it is: the number and the
    /// start time of its process, say. Two members may have the same one.
    ///
    /// # Errors
    /// [`OwnersError::Full`]
    ///
    /// # Progress
    /// Lock-free; linear in the members.
    ///
    /// # Crash
    /// A process that dies in the middle takes an entry with it, until the next [`sweep`](Sweeper::sweep).
    pub fn join(&self, identity: u64) -> Result<Member, OwnersError> {
        self.members.join(identity).ok_or(OwnersError::Full)
    }

    /// The members, by their numbers: those who have joined and were not released yet, be they alive or dead.
    pub fn members(&self) -> impl Iterator<Item = Member> + 'a {
        self.members.all()
    }

    /// Claims a slot for a member. The allocator itself takes calls on any slot from anybody; members that keep to
    /// their own do not get in each other's way.
    ///
    /// # Errors
    /// [`OwnersError::SlotTaken`] with the identity of who has it, the member itself included;
    /// [`OwnersError::BadSlot`], [`OwnersError::Gone`].
    pub fn claim_slot(&self, member: Member, slot: Slot) -> Result<(), OwnersError> {
        self.members.claim(member, slot)
    }

    /// Claims the first slot that nobody has.
    ///
    /// # Errors
    /// [`OwnersError::NoSlot`], [`OwnersError::Gone`]
    pub fn claim_free_slot(&self, member: Member) -> Result<Slot, OwnersError> {
        for slot in (0..self.members.slots()).map(Slot) {
            match self.members.claim(member, slot) {
                Ok(()) => return Ok(slot),
                Err(OwnersError::SlotTaken { .. }) => {}
                Err(gone) => return Err(gone),
            }
        }
        Err(OwnersError::NoSlot)
    }

    /// Gives a slot up that the member has claimed. [Drain](woodlot_frame::FrameAllocator::drain) it before. False:
    /// the member has not got it.
    pub fn give_up_slot(&self, member: Member, slot: Slot) -> bool {
        self.members.give_up(member, slot)
    }

    /// Who has claimed a slot.
    pub fn slot_owner(&self, slot: Slot) -> Option<Member> {
        self.members.owner(slot)
    }

    /// How many frames a member owns. While calls are under way, a count of about this moment.
    ///
    /// # Progress
    /// Wait-free; linear in the zone's frames.
    pub fn owned_by(&self, member: Member) -> usize {
        self.tags.count(member.id())
    }

    /// Who owns a frame. `None`: it is free, nobody's, or a call on it is under way.
    pub fn owner(&self, frame: FrameId) -> Option<Member> {
        match self.tags.owner(frame) {
            0 => None,
            id => self.members.of(id),
        }
    }
}
