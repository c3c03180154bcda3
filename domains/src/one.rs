//! One domain of several as an allocator of its own: for what is to stay in the domain, as a daemon of compaction for each.
//!
//! ```text
//!   alloc, range     bound to the domain, the request's place and slot as they are
//!   free, isolate …  as the machine's, where all that is named is the domain's
//!   counts, maps     what other domains have is neither free nor in use
//! ```
//!
//! *Progress*: as the machine's.

use core::marker::PhantomData;
use core::ops::{Deref, Range};

use woodlot_frame::{
    AllocError, BadSlot, Claim, Construct, FrameAllocator, FrameId, FreeError, HugeId, Init,
    InitError, IsolateError, MetadataSize, OfflineError, Order, RangeRequest, RawMetadata, Request,
    Slot, Stats, Unsupported, ZoneConfig,
};

use crate::DomainId;
use crate::domains::{Domains, sum};
use crate::huge::Outer;
use crate::policy::{DomainSet, Policy};
use crate::zone::Zone;

/// A domain of a machine, which is `&Domains`, an `Arc` of them, or whatever else leads there. Frames have the machine's numbers.
///
/// What another domain has is outside: no call changes it, and none says anything of it. [`zone`](FrameAllocator::zone) is that of
/// the machine still; the domain's huge frames are its [`huge_ranges`](Domains::huge_ranges). A domain without memory has nothing free.
#[derive(Clone, Copy, Debug)]
pub struct OneDomain<'a, A, M> {
    machine: M,
    /// The domain: several, where a run is looked for across them.
    set: DomainSet,
    of: PhantomData<fn(&'a A)>,
}

impl<'a, A: FrameAllocator, M: Deref<Target = Domains<'a, A>>> OneDomain<'a, A, M> {
    /// This domain of a machine. If the machine does not know it, each allocation says so.
    pub const fn new(machine: M, domain: DomainId) -> OneDomain<'a, A, M> {
        OneDomain::of(machine, DomainSet::one(domain))
    }

    /// The same of several domains.
    pub(crate) const fn of(machine: M, set: DomainSet) -> OneDomain<'a, A, M> {
        OneDomain { machine, set, of: PhantomData }
    }

    fn has(&self, frame: FrameId) -> bool {
        self.machine.domain_of(frame).is_some_and(|domain| self.set.has(domain))
    }

    fn has_huge(&self, huge: HugeId) -> bool {
        self.machine.at_huge(huge).is_some_and(|(zone, _)| self.set.has(zone.domain))
    }

    fn zones(&self) -> impl Iterator<Item = &Zone<'a, A>> {
        self.set.iter().flat_map(|domain| self.machine.zones_of(domain))
    }

    /// Is all of a block the domain's? One of an order that there is not is refused elsewhere.
    fn check(&self, block: FrameId, order: Order) -> Result<(), FreeError> {
        let is_own = match Domains::<'a, A>::is_above(order) {
            true if order > Domains::<'a, A>::MAX_ORDER => true,
            true => self.machine.is_giant_of(block, order, self.set),
            false => self.has(block),
        };
        if is_own { Ok(()) } else { Err(FreeError::OutOfRange(block)) }
    }

    /// Are all of these huge frames the domain's?
    fn check_huge<E: Outer>(&self, first: HugeId, count: usize) -> Result<(), E> {
        let end = first.0.checked_add(count).ok_or(E::OUT_OF_RANGE)?;
        let is_own = (first.0..end).all(|huge| self.has_huge(HugeId(huge)));
        if is_own { Ok(()) } else { Err(E::OUT_OF_RANGE) }
    }
}

impl<'a, A: FrameAllocator, M> FrameAllocator for OneDomain<'a, A, M>
where
    M: Deref<Target = Domains<'a, A>> + Sync,
{
    type Geometry = A::Geometry;

    const NAME: &'static str = A::NAME;

    const UNSUPPORTED: Unsupported = A::UNSUPPORTED;

    const MAX_ORDER: Order = Domains::<'a, A>::MAX_ORDER;

    fn zone(&self) -> &ZoneConfig {
        self.machine.zone()
    }

    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        let bound = Policy::Bind(self.set);
        self.machine.check(bound)?;
        self.machine.alloc_allowed(request, bound)
    }

    fn alloc_range(&self, request: RangeRequest) -> Result<Range<FrameId>, AllocError> {
        let bound = Policy::Bind(self.set);
        self.machine.check(bound)?;
        self.machine.range_allowed(request, bound)
    }

    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        self.check(frame, order)?;
        self.machine.free(frame, order, slot)
    }

    fn largest_at(&self, frame: FrameId) -> Order {
        self.machine.largest_at(frame)
    }

    fn can_free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        self.check(frame, order)?;
        self.machine.can_free(frame, order, slot)
    }

    fn drain(&self, slot: Slot) -> Result<(), BadSlot> {
        self.machine.drain(slot)
    }

    fn offline(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        self.check_huge(first, count)?;
        self.machine.offline(first, count)
    }

    fn online(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        self.check_huge(first, count)?;
        self.machine.online(first, count)
    }

    fn isolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        self.check_huge(first, count)?;
        self.machine.isolate(first, count)
    }

    fn unisolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        self.check_huge(first, count)?;
        self.machine.unisolate(first, count)
    }

    fn claim_isolated(
        &self,
        first: HugeId,
        count: usize,
        claim: Claim,
    ) -> Result<(), IsolateError> {
        self.check_huge(first, count)?;
        self.machine.claim_isolated(first, count, claim)
    }

    fn is_isolated(&self, huge: HugeId) -> bool {
        self.has_huge(huge) && self.machine.is_isolated(huge)
    }

    fn frames_in_use(&self, huge: HugeId) -> usize {
        self.machine.used_in(huge, self.set)
    }

    fn used_map(&self, frame: FrameId) -> u64 {
        if self.has(frame) { self.machine.used_map(frame) } else { 0 }
    }

    fn is_available(&self, order: Order) -> bool {
        if Domains::<'a, A>::is_above(order) {
            let all = self.machine.zone().range();
            return self.machine.giants_in(order, self.set, all).next().is_some();
        }
        self.zones().any(|zone| zone.allocator.is_available(order))
    }

    fn free_frames(&self) -> usize {
        self.zones().map(|zone| zone.allocator.free_frames()).sum()
    }

    fn stats(&self) -> Stats {
        self.zones().map(|zone| zone.allocator.stats()).reduce(sum).unwrap_or_default()
    }

    fn is_free(&self, frame: FrameId, order: Order) -> bool {
        self.check(frame, order).is_ok() && self.machine.is_free(frame, order)
    }

    fn free_map(&self, frame: FrameId) -> u64 {
        if self.has(frame) { self.machine.free_map(frame) } else { 0 }
    }

    fn free_in_huge(&self, huge: HugeId) -> usize {
        self.machine.free_in(huge, self.set)
    }

    fn free_huge_frames(&self) -> impl DoubleEndedIterator<Item = HugeId> + '_ {
        self.machine.free_huge_in(self.set)
    }
}

/// The one domain of a machine that has all frames of a zone.
impl<'a, A: Construct, M> Construct for OneDomain<'a, A, M>
where
    M: Deref<Target = Domains<'a, A>> + From<Domains<'a, A>> + Sync,
{
    fn metadata_size(config: &ZoneConfig) -> Result<MetadataSize, InitError> {
        Domains::<A>::metadata_size(config)
    }

    unsafe fn construct(
        config: &ZoneConfig,
        metadata: RawMetadata,
        init: Init,
    ) -> Result<Self, InitError> {
        // SAFETY: as the caller says.
        let machine = unsafe { Domains::construct(config, metadata, init) }?;
        Ok(OneDomain::new(M::from(machine), DomainId(0)))
    }
}
