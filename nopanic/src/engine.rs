//! What there is for each engine and geometry: the contract, and what an engine has besides.

use core::hint::black_box;
use core::ops::Range;

use woodlot_domains::Domains;
use woodlot_frame::{
    Adr, AllocError, BadSlot, Base4K, Base16K, Base64K, Batch, Claim, ClassPolicy, Construct,
    Flagged, FrameAllocator, FrameId, FreeBatchError, FreeBlocks, FreeError, HugeFlags, HugeId,
    Init, InitError, Intents, IsolateError, MetadataSize, OfflineError, Order, Persistence, Prefer,
    RangeRequest, RawMetadata, Reclaim, Reclaiming, Request, Slot, Stats, Volatile, ZoneConfig,
    alloc_each, alloc_run, alloc_within, blocks, compaction_cost, free_each, free_run,
};
use woodlot_llfree::{LLFree, LastOperation, NamedFrames, News, Parts, Tuning};
use woodlot_nbbs::{FourLevels, Nbbs1, Nbbs4, OneLevel};
use woodlot_onewrite::{Lengths, OneWrite};

/// The contract of an engine for one geometry, and what is behind the braces.
macro_rules! engine {
    ($module:ident: $engine:ident<$geometry:ty>, { $($own:tt)* }) => {
        mod $module {
            use super::*;

            type Engine = $engine<'static, $geometry>;
            type Allocated = Result<FrameId, AllocError>;
            type Run = Range<FrameId>;
            type Made = Result<Engine, InitError>;

            symbols! { hot $module:
                alloc(a: &Engine, request: Request) -> Allocated = a.alloc(request);
                free(a: &Engine, frame: FrameId, order: Order, slot: Slot)
                    -> Result<(), FreeError> = a.free(frame, order, slot);
                alloc_batch(a: &Engine, request: Request, batch: Batch, out: &mut [FrameId])
                    -> Result<usize, AllocError> = a.alloc_batch(request, batch, out);
                free_batch(a: &Engine, frames: &[FrameId], order: Order, slot: Slot)
                    -> Result<(), FreeBatchError> = a.free_batch(frames, order, slot);
                one_by_one(a: &Engine, request: Request, batch: Batch, out: &mut [FrameId])
                    -> Result<usize, AllocError> = alloc_each(a, request, batch, out);
                free_one_by_one(a: &Engine, frames: &[FrameId], order: Order, slot: Slot)
                    -> Result<(), FreeBatchError> = free_each(a, frames, order, slot);
                alloc_range(a: &Engine, request: RangeRequest) -> Result<Run, AllocError> =
                    a.alloc_range(request);
                free_range(a: &Engine, frames: Run, slot: Slot) -> Result<(), FreeError> =
                    a.free_range(frames, slot);
                run_by_blocks(a: &Engine, request: RangeRequest) -> Result<Run, AllocError> =
                    alloc_run(a, request);
                within_by_blocks(a: &Engine, request: Request) -> Allocated =
                    alloc_within(a, request);
                free_run_by_blocks(a: &Engine, frames: Run, slot: Slot) -> Result<(), FreeError> =
                    free_run(a, frames, slot);
                can_free(a: &Engine, frame: FrameId, order: Order, slot: Slot)
                    -> Result<(), FreeError> = a.can_free(frame, order, slot);
                free_map(a: &Engine, frame: FrameId) -> u64 = a.free_map(frame);
                blocks_of_run(frames: Run) -> Option<(FrameId, Order)> =
                    blocks::<$geometry>(frames).last();
                is_available(a: &Engine, order: Order) -> bool = a.is_available(order);
                is_free(a: &Engine, frame: FrameId, order: Order) -> bool =
                    a.is_free(frame, order);
                free_in_huge(a: &Engine, huge: HugeId) -> usize = a.free_in_huge(huge);
                frame_huge(frame: FrameId) -> HugeId = frame.huge::<$geometry>();
                huge_first(huge: HugeId) -> FrameId = huge.first::<$geometry>();
                frame_address(frame: FrameId) -> u64 = frame.address::<$geometry>();
                frame_containing(address: u64) -> FrameId =
                    FrameId::containing::<$geometry>(address);
                frames_inside(addresses: Range<u64>) -> Run = FrameId::inside::<$geometry>(addresses);
            }

            symbols! { cold $module:
                metadata_size(zone: &ZoneConfig) -> Result<MetadataSize, InitError> =
                    Engine::metadata_size(zone);
                zone(a: &Engine) -> &ZoneConfig = a.zone();
                classes(a: &Engine) -> &ClassPolicy = a.classes();
                drain(a: &Engine, slot: Slot) -> Result<(), BadSlot> = a.drain(slot);
                offline(a: &Engine, first: HugeId, count: usize) -> Result<(), OfflineError> =
                    a.offline(first, count);
                online(a: &Engine, first: HugeId, count: usize) -> Result<(), OfflineError> =
                    a.online(first, count);
                isolate(a: &Engine, first: HugeId, count: usize) -> Result<(), IsolateError> =
                    a.isolate(first, count);
                unisolate(a: &Engine, first: HugeId, count: usize) -> Result<(), IsolateError> =
                    a.unisolate(first, count);
                claim_isolated(a: &Engine, first: HugeId, claim: Claim) -> Result<(), IsolateError> =
                    a.claim_isolated(first, 2, claim);
                is_isolated(a: &Engine, huge: HugeId) -> bool = a.is_isolated(huge);
                frames_in_use(a: &Engine, huge: HugeId) -> usize = a.frames_in_use(huge);
                used_map(a: &Engine, frame: FrameId) -> u64 = a.used_map(frame);
                free_frames(a: &Engine) -> usize = a.free_frames();
                stats(a: &Engine) -> Stats = a.stats();
                free_huge_frames(a: &Engine) -> Option<HugeId> = a.free_huge_frames().last();
                last_free_huge_frame(a: &Engine) -> Option<HugeId> =
                    a.free_huge_frames().next_back();
                free_runs(a: &Engine, frames: Run) -> Option<Run> = a.free_runs(frames).last();
                first_in_use(a: &Engine, huge: HugeId) -> OfflineError =
                    OfflineError::in_use(a, huge);
                free_blocks(a: &Engine) -> FreeBlocks = FreeBlocks::of(a);
                cost(free: &[usize]) -> usize = compaction_cost::<$geometry>(free);
                huge_range(zone: &ZoneConfig) -> Range<HugeId> =
                    zone.huge_range::<$geometry>();
                orders() -> Option<Order> = black_box(Order::all::<$geometry>()).next_back();
                order_huge() -> Order = Order::huge::<$geometry>();
                order_max() -> Order = Order::max::<$geometry>();
            }

            /// # Safety
            /// As [`Construct::construct`].
            #[unsafe(export_name = concat!("cold_", stringify!($module), "_construct"))]
            pub unsafe fn construct(zone: &ZoneConfig, raw: RawMetadata, init: Init) -> Made {
                // SAFETY: as the caller promises.
                unsafe { Engine::construct(zone, raw, init) }
            }

            $($own)*
        }
    };
}

/// What an engine of this name has that reclaims.
macro_rules! reclaiming {
    ($module:ident) => {
        symbols! { cold $module:
            flags(a: &Engine, huge: HugeId) -> HugeFlags = a.flags(huge);
            set_flags(a: &Engine, huge: HugeId, flags: HugeFlags) -> Result<(), OfflineError> =
                a.set_flags(huge, flags);
            set_backed(a: &Engine, huge: HugeId) -> Result<(), OfflineError> =
                a.set_backed(huge);
            flagged(a: &Engine) -> Flagged = a.flagged();
            alloc_preferring(a: &Engine, request: Request, prefer: Prefer)
                -> Result<(FrameId, HugeFlags), AllocError> =
                a.alloc_preferring(request, prefer);
            reclaim(a: &Engine, mode: Reclaim, out: &mut [HugeId]) -> usize =
                a.reclaim(mode, out);
            give(a: &Engine, frames: &[HugeId], flags: HugeFlags)
                -> Result<(), OfflineError> = a.give(frames, flags);
        }
    };
}

macro_rules! llfree {
    ($module:ident, $geometry:ty) => {
        engine! { $module: LLFree<$geometry>, {
            symbols! { cold $module:
                part_lengths(zone: &ZoneConfig) -> bool =
                    black_box(Parts::lengths::<$geometry>(zone)).is_ok();
                from_parts(zone: &ZoneConfig, tuning: Tuning, parts: Parts<'static>, init: Init) -> Made =
                    Engine::from_parts(zone, tuning, parts, init);
                tuning_default() -> Tuning = Tuning::default();
                ask_for_news(a: &Engine) -> (News, usize) = a.ask_for_news();
                has_news(a: &Engine, news: News) -> bool = a.has_news(news);
            }

            reclaiming!($module);

            /// # Safety
            /// As [`LLFree::with_tuning`].
            #[unsafe(export_name = concat!("cold_", stringify!($module), "_with_tuning"))]
            pub unsafe fn with_tuning(
                zone: &ZoneConfig,
                tuning: Tuning,
                raw: RawMetadata,
                init: Init,
            ) -> Made {
                // SAFETY: as the caller promises.
                unsafe { Engine::with_tuning(zone, tuning, raw, init) }
            }
        } }
    };
}

macro_rules! nbbs {
    ($module:ident, $engine:ident<$geometry:ty>, $form:ty) => {
        engine! { $module: $engine<$geometry>, {
            type Parts = woodlot_nbbs::Parts<'static, $form>;

            symbols! { cold $module:
                part_lengths(zone: &ZoneConfig) -> bool =
                    black_box(Parts::lengths::<$geometry>(zone)).is_ok();
                from_parts(zone: &ZoneConfig, parts: Parts, init: Init) -> Made =
                    Engine::from_parts(zone, parts, init);
            }
        } }
    };
}

macro_rules! onewrite {
    ($module:ident, $geometry:ty) => {
        engine! { $module: OneWrite<$geometry>, {
            symbols! { cold $module:
                part_lengths(zone: &ZoneConfig) -> bool =
                    black_box(Lengths::of::<$geometry>(zone)).is_ok();
                from_parts(zone: &ZoneConfig, parts: woodlot_onewrite::Parts<'static>, init: Init) -> Made =
                    Engine::from_parts(zone, parts, init);
            }

            reclaiming!($module);

            /// # Safety
            /// As [`OneWrite::attach`].
            #[unsafe(export_name = concat!("cold_", stringify!($module), "_attach"))]
            pub unsafe fn attach(zone: &ZoneConfig, raw: RawMetadata) -> Made {
                // SAFETY: as the caller promises.
                unsafe { Engine::attach(zone, raw) }
            }
        } }
    };
}

/// LLFree with write-backs.
type OnAdr<'a, G> = LLFree<'a, G, Adr>;

engine! { llfree_adr_base4k: OnAdr<Base4K>, {
    symbols! { cold llfree_adr_base4k:
        from_parts(zone: &ZoneConfig, adr: Adr, parts: Parts<'static>, init: Init) -> Made =
            Engine::persistent_from_parts(zone, Tuning::DEFAULT, adr, parts, init);
        detect() -> Option<Adr> = Adr::detect();
    }
} }

/// LLFree that names what it is about to write.
type WithIntents<'a, G> = LLFree<'a, G, Intents<Volatile>>;

engine! { llfree_intents_base4k: WithIntents<Base4K>, {
    symbols! { cold llfree_intents_base4k:
        from_parts(zone: &ZoneConfig, parts: Parts<'static>, init: Init) -> Made =
            Engine::persistent_from_parts(zone, Tuning::DEFAULT, Intents(Volatile), parts, init);
        records(zone: &ZoneConfig) -> Result<usize, InitError> = Parts::records::<Intents<Volatile>>(zone);
        last_operation(a: &Engine, slot: Slot) -> Option<LastOperation> = a.last_operation(slot);
        last_operations(a: &Engine) -> Option<LastOperation> = a.last_operations().last();
        frames_of(a: &Engine, last: LastOperation) -> Option<NamedFrames> = a.frames_of(last).last();
        detect() -> Option<Intents<Volatile>> = Intents::detect();
    }
} }

/// LLFree behind domains.
type Machine<'a, G> = Domains<'a, LLFree<'a, G>>;

engine! { domains_base4k: Machine<Base4K>, {} }

llfree!(llfree_base4k, Base4K);
llfree!(llfree_base16k, Base16K);
llfree!(llfree_base64k, Base64K);
nbbs!(nbbs1_base4k, Nbbs1<Base4K>, OneLevel);
nbbs!(nbbs1_base16k, Nbbs1<Base16K>, OneLevel);
nbbs!(nbbs1_base64k, Nbbs1<Base64K>, OneLevel);
nbbs!(nbbs4_base4k, Nbbs4<Base4K>, FourLevels);
nbbs!(nbbs4_base16k, Nbbs4<Base16K>, FourLevels);
nbbs!(nbbs4_base64k, Nbbs4<Base64K>, FourLevels);
onewrite!(onewrite_base4k, Base4K);
onewrite!(onewrite_base16k, Base16K);
onewrite!(onewrite_base64k, Base64K);
