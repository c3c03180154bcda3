//! What domains have besides the contract: how they are made, and policies.

use core::fmt::{Display, Formatter, Result as Fmt};
use core::ops::Range;

use woodlot_domains::{
    AddError, DistanceError, Distances, DomainId, DomainSet, Domains, Map, MapError, Metadata,
    NumaStats, OneDomain, Policy, Present, RemoveError, Removed, Room, Rounds, RunsError, Setup,
    SetupError,
};
use woodlot_frame::{
    AllocError, BadSlot, Base4K, Batch, Claim, FrameAllocator, FrameId, FreeError, HugeId, Init,
    IsolateError, MetadataSize, OfflineError, Order, RangeRequest, RawMetadata, Request, Slot,
    Stats,
};
use woodlot_llfree::LLFree;

type Engine = LLFree<'static, Base4K>;
type Machine = Domains<'static, Engine>;
type One = OneDomain<'static, Engine, &'static Machine>;
type Memory = Result<RawMetadata, SetupError>;

symbols! { hot domains:
    domain_of(a: &Machine, frame: FrameId) -> Option<DomainId> = a.domain_of(frame);
    one_alloc(one: &One, request: Request) -> Result<FrameId, AllocError> = one.alloc(request);
    one_free(one: &One, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> =
        one.free(frame, order, slot);
    one_can_free(one: &One, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> =
        one.can_free(frame, order, slot);
    one_alloc_range(one: &One, request: RangeRequest) -> Result<Range<FrameId>, AllocError> =
        one.alloc_range(request);
    one_is_free(one: &One, frame: FrameId, order: Order) -> bool = one.is_free(frame, order);
    one_is_available(one: &One, order: Order) -> bool = one.is_available(order);
    one_maps(one: &One, frame: FrameId) -> [u64; 2] = [one.free_map(frame), one.used_map(frame)];
    one_counts(one: &One, huge: HugeId) -> [usize; 3] =
        [one.free_in_huge(huge), one.frames_in_use(huge), one.free_frames()];
    one_is_isolated(one: &One, huge: HugeId) -> bool = one.is_isolated(huge);
}

symbols! { cold domains:
    // Which page is whose, with round robin and interleave, is a division.
    alloc_by(a: &Machine, request: Request, policy: Policy<'_>) -> Result<FrameId, AllocError> =
        a.alloc_by(request, policy);
    alloc_range_by(
        a: &Machine,
        request: RangeRequest,
        policy: Policy<'_>
    ) -> Result<Range<FrameId>, AllocError> = a.alloc_range_by(request, policy);
    alloc_runs(
        a: &Machine,
        request: Request,
        count: usize,
        policy: Policy<'_>,
        batch: Batch,
        out: &mut [Range<FrameId>]
    ) -> Result<usize, RunsError> = a.alloc_runs(request, count, policy, batch, out);
    rounds() -> Rounds = Rounds::new();
    set_of(domains: &[DomainId]) -> DomainSet = DomainSet::of(domains);
    has(set: DomainSet, domain: DomainId) -> bool = set.has(domain);
    domains(a: &Machine) -> Option<DomainId> = a.domains().last();
    free_giants(a: &Machine, order: Order) -> Option<FrameId> = a.free_giants(order).last();
    huge_ranges(a: &Machine, domain: DomainId) -> Option<Range<HugeId>> =
        a.huge_ranges(domain).last();
    one_domain(a: &'static Machine, domain: DomainId) -> One = OneDomain::new(a, domain);
    one_stats(one: &One) -> Stats = one.stats();
    one_drain(one: &One, slot: Slot) -> Result<(), BadSlot> = one.drain(slot);
    one_offline(one: &One, first: HugeId, count: usize) -> Result<(), OfflineError> =
        one.offline(first, count);
    one_online(one: &One, first: HugeId, count: usize) -> Result<(), OfflineError> =
        one.online(first, count);
    one_isolate(one: &One, first: HugeId, count: usize) -> Result<(), IsolateError> =
        one.isolate(first, count);
    one_unisolate(one: &One, first: HugeId, count: usize) -> Result<(), IsolateError> =
        one.unisolate(first, count);
    one_claim(one: &One, first: HugeId, count: usize, claim: Claim) -> Result<(), IsolateError> =
        one.claim_isolated(first, count, claim);
    stats_of(a: &Machine, domain: DomainId) -> Option<Stats> = a.stats_of(domain);
    numa_stats(a: &Machine, domain: DomainId) -> NumaStats = a.numa_stats(domain);
    remove_range(a: &Machine, range: Range<FrameId>) -> Result<Removed, RemoveError> =
        a.remove_range(range);
    metadata_of(a: &Machine, range: Range<FrameId>) -> Result<MetadataSize, AddError> =
        a.metadata_of(range);
    removed_frames(removed: &Removed) -> Range<FrameId> = removed.frames();
    growing(setup: Setup<'static>, room: Room) -> Setup<'static> = setup.growing(room);
    check(setup: &Setup<'static>) -> Result<(), SetupError> = setup.check::<Base4K>();
    add_error_display(error: &AddError, f: &mut Formatter<'_>) -> Fmt = Display::fmt(error, f);
    remove_error_display(error: &RemoveError, f: &mut Formatter<'_>) -> Fmt =
        Display::fmt(error, f);
    map(ranges: &'static mut [Present]) -> Result<Map<'static>, MapError> = Map::new(ranges);
    map_domains(map: Map<'static>) -> Option<DomainId> = map.domains().last();
    map_of(map: Map<'static>, domain: DomainId) -> Option<Present> = map.of(domain).last();
    map_frames(map: Map<'static>) -> usize = map.frames();
    map_span(map: Map<'static>) -> Range<FrameId> = map.span();
    distances(rows: &'static [u8]) -> Result<Distances<'static>, DistanceError> =
        Distances::new(rows);
    between(distances: &Distances<'static>, from: DomainId, to: DomainId) -> u8 =
        distances.between(from, to);
    sizes(setup: &Setup<'static>) -> Option<Result<(DomainId, MetadataSize), SetupError>> =
        setup.sizes::<Engine>().last();
    domain_display(domain: &DomainId, f: &mut Formatter<'_>) -> Fmt = Display::fmt(domain, f);
    map_error_display(error: &MapError, f: &mut Formatter<'_>) -> Fmt = Display::fmt(error, f);
    distance_error_display(error: &DistanceError, f: &mut Formatter<'_>) -> Fmt =
        Display::fmt(error, f);
    setup_error_display(error: &SetupError, f: &mut Formatter<'_>) -> Fmt = Display::fmt(error, f);
    runs_error_display(error: &RunsError, f: &mut Formatter<'_>) -> Fmt = Display::fmt(error, f);
}

/// # Safety
/// As [`Setup::make`].
#[unsafe(export_name = "cold_domains_make")]
pub unsafe fn make(
    setup: &Setup<'static>,
    memory: fn(DomainId, MetadataSize) -> Memory,
    init: Init,
) -> Result<Machine, SetupError> {
    // SAFETY: as the caller promises.
    unsafe { setup.make(memory, init) }
}

/// # Safety
/// As [`Setup::carve`].
#[unsafe(export_name = "cold_domains_carve")]
pub unsafe fn carve(
    setup: &Setup<'static>,
    at: fn(FrameId) -> *mut u8,
) -> Result<Machine, SetupError> {
    // SAFETY: as the caller promises.
    unsafe { setup.carve(at) }
}

/// # Safety
/// As [`Domains::add_range`].
#[unsafe(export_name = "cold_domains_add_range")]
pub unsafe fn add_range(a: &Machine, range: Present, metadata: Metadata) -> Result<(), AddError> {
    // SAFETY: as the caller promises.
    unsafe { a.add_range(range, metadata) }
}

/// # Safety
/// As [`Domains::reclaim`].
#[unsafe(export_name = "cold_domains_reclaim")]
pub unsafe fn reclaim(a: &Machine, removed: Removed) -> Result<(), Removed> {
    // SAFETY: as the caller promises.
    unsafe { a.reclaim(removed) }
}
