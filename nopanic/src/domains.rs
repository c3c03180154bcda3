//! What domains have besides the contract: how they are made, and policies.

use core::fmt::{Display, Formatter, Result as Fmt};
use core::ops::Range;

use woodlot_domains::{
    DistanceError, Distances, DomainId, DomainSet, Domains, Map, MapError, Policy, Present, Rounds,
    RunsError, Setup, SetupError,
};
use woodlot_frame::{
    AllocError, Base4K, Batch, FrameId, Init, MetadataSize, RawMetadata, Request, Stats,
};
use woodlot_llfree::LLFree;

type Engine = LLFree<'static, Base4K>;
type Machine = Domains<'static, Engine>;
type Metadata = Result<RawMetadata, SetupError>;

symbols! { hot domains:
    domain_of(a: &Machine, frame: FrameId) -> Option<DomainId> = a.domain_of(frame);
}

symbols! { cold domains:
    // Which page is whose, with round robin and interleave, is a division.
    alloc_by(a: &Machine, request: Request, policy: Policy<'_>) -> Result<FrameId, AllocError> =
        a.alloc_by(request, policy);
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
    stats_of(a: &Machine, domain: DomainId) -> Option<Stats> = a.stats_of(domain);
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
    memory: fn(DomainId, MetadataSize) -> Metadata,
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
