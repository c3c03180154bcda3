//! Owners of the frames of shared zones.

use core::fmt::{Display, Formatter, Result as Fmt};
use core::num::NonZeroU64;
use core::ops::Range;

use woodlot_frame::{
    AllocError, BadSlot, Base4K, Base16K, Base64K, Batch, Claim, ClassPolicy, FrameAllocator,
    FrameId, FreeBatchError, FreeError, HugeId, IsolateError, OfflineError, Order, RangeRequest,
    Request, Slot, Stats, ZoneConfig,
};
use woodlot_llfree::LLFree;
use woodlot_zone::{
    Member, Memory, Owners, OwnersError, Shared, Sweeper, Swept, Tagged, Zone, ZoneError,
};

symbols! { cold owners:
    show_error(error: &OwnersError, f: &mut Formatter) -> Fmt = Display::fmt(error, f);
    error_of_zone(error: ZoneError) -> OwnersError = error.into();
    len(config: &ZoneConfig, members: usize) -> Result<usize, OwnersError> =
        Owners::len(config, members);
    join(owners: Owners, identity: u64) -> Result<Member, OwnersError> = owners.join(identity);
    members(owners: Owners) -> Option<Member> = owners.members().last();
    claim_slot(owners: Owners, member: Member, slot: Slot) -> Result<(), OwnersError> =
        owners.claim_slot(member, slot);
    claim_free_slot(owners: Owners, member: Member) -> Result<Slot, OwnersError> =
        owners.claim_free_slot(member);
    give_up_slot(owners: Owners, member: Member, slot: Slot) -> bool =
        owners.give_up_slot(member, slot);
    slot_owner(owners: Owners, slot: Slot) -> Option<Member> = owners.slot_owner(slot);
    owned_by(owners: Owners, member: Member) -> usize = owners.owned_by(member);
    owner(owners: Owners, frame: FrameId) -> Option<Member> = owners.owner(frame);
    id(member: &Member) -> u16 = member.id();
    identity(member: &Member) -> u64 = member.identity();
}

/// What there is for each geometry.
macro_rules! owners {
    ($module:ident, $geometry:ty) => {
        mod $module {
            use super::*;

            type Engine = LLFree<'static, $geometry>;
            type Of<'z> = Tagged<'z, 'static, Engine>;
            type Table = Owners<'static>;
            type Run = Range<FrameId>;

            symbols! { hot $module:
                alloc(a: &Of, request: Request) -> Result<FrameId, AllocError> = a.alloc(request);
                free(a: &Of, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> =
                    a.free(frame, order, slot);
                alloc_batch(a: &Of, request: Request, batch: Batch, out: &mut [FrameId])
                    -> Result<usize, AllocError> = a.alloc_batch(request, batch, out);
                free_batch(a: &Of, frames: &[FrameId], order: Order, slot: Slot)
                    -> Result<(), FreeBatchError> = a.free_batch(frames, order, slot);
                alloc_range(a: &Of, request: RangeRequest) -> Result<Run, AllocError> =
                    a.alloc_range(request);
                free_range(a: &Of, frames: Run, slot: Slot) -> Result<(), FreeError> =
                    a.free_range(frames, slot);
                can_free(a: &Of, frame: FrameId, order: Order, slot: Slot)
                    -> Result<(), FreeError> = a.can_free(frame, order, slot);
                is_free(a: &Of, frame: FrameId, order: Order) -> bool = a.is_free(frame, order);
                free_map(a: &Of, frame: FrameId) -> u64 = a.free_map(frame);
                free_in_huge(a: &Of, huge: HugeId) -> usize = a.free_in_huge(huge);
                is_available(a: &Of, order: Order) -> bool = a.is_available(order);
            }

            symbols! { cold $module:
                tagged(a: &'static Engine, owners: Table, me: Member)
                    -> Result<Of<'static>, OwnersError> = Tagged::new(a, owners, me);
                tag(a: &Of, frames: Run) -> () = a.tag(frames);
                adopt(a: &Of, frames: Run) -> bool = a.adopt(frames);
                release_owner(a: &Of, dead: Member, slot: Slot) -> Result<usize, OwnersError> =
                    a.release_owner(dead, slot);
                leave(a: Of, slot: Slot) -> Result<usize, OwnersError> = a.leave(slot);
                sweeper(owners: Table, by: NonZeroU64, dead: u64)
                    -> Result<Sweeper<'static>, OwnersError> = owners.sweeper(by, |by| by == dead);
                sweep(sweeper: Sweeper<'static>, zone: &Zone<'static, $geometry, Shared>, kept: u64)
                    -> Result<Swept, OwnersError> = sweeper.sweep(zone, |member| member.identity() == kept);
                zone(a: &Of) -> usize = a.zone().slots;
                classes(a: &'static Of) -> &'static ClassPolicy = a.classes();
                drain(a: &Of, slot: Slot) -> Result<(), BadSlot> = a.drain(slot);
                offline(a: &Of, first: HugeId, count: usize) -> Result<(), OfflineError> =
                    a.offline(first, count);
                online(a: &Of, first: HugeId, count: usize) -> Result<(), OfflineError> =
                    a.online(first, count);
                isolate(a: &Of, first: HugeId, count: usize) -> Result<(), IsolateError> =
                    a.isolate(first, count);
                unisolate(a: &Of, first: HugeId, count: usize) -> Result<(), IsolateError> =
                    a.unisolate(first, count);
                claim_isolated(a: &Of, first: HugeId, claim: Claim) -> Result<(), IsolateError> =
                    a.claim_isolated(first, 2, claim);
                free_frames(a: &Of) -> usize = a.free_frames();
                stats(a: &Of) -> Stats = a.stats();
            }

            /// # Safety
            /// As [`Owners::format`].
            #[unsafe(export_name = concat!("cold_", stringify!($module), "_format"))]
            pub unsafe fn format(
                memory: Memory<'static>,
                config: &ZoneConfig,
                members: usize,
            ) -> Result<Table, OwnersError> {
                // SAFETY: as the caller promises.
                unsafe { Owners::format::<$geometry>(memory, config, members) }
            }

            /// # Safety
            /// As [`Owners::open`].
            #[unsafe(export_name = concat!("cold_", stringify!($module), "_open"))]
            pub unsafe fn open(
                memory: Memory<'static>,
                config: &ZoneConfig,
            ) -> Result<Table, OwnersError> {
                // SAFETY: as the caller promises.
                unsafe { Owners::open::<$geometry>(memory, config) }
            }
        }
    };
}

owners!(owners_base4k, Base4K);
owners!(owners_base16k, Base16K);
owners!(owners_base64k, Base64K);
