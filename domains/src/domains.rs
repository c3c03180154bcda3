//! The domains of a machine as one allocator.
//!
//! ```text
//!   alloc   slot ─► its domain ─► turns: the zones, the nearest first ─► the zone's allocator ─► the frame's number outside
//!   free    frame ─► index: the zone, and the frame's number there ─► the zone's allocator
//! ```
//!
//! *Progress*: as the allocators'. What is here is not changed after it was made.

use woodlot_frame::{
    AllocError, BadSlot, Batch, Claim, FrameAllocator, FrameId, FreeBatchError, FreeError,
    Geometry, HugeId, IsolateError, OfflineError, Order, Place, Request, Slot, Stats, Unsupported,
    ZoneConfig, alloc_each, alloc_within,
};

use crate::DomainId;
use crate::index::{Index, Located};
use crate::policy::{DomainSet, Policy};
use crate::turns::Turns;
use crate::zone::{Zone, Zones};

/// Frames of a batch that are given to a zone at a time.
const BATCH: usize = 64;

/// What is wrong with a block whose first frame lies in no zone.
enum Outside {
    OrderTooLarge,
    Misaligned,
    OutOfRange,
}

impl Outside {
    fn of<G: Geometry>(frame: FrameId, order: Order) -> Outside {
        match order {
            order if u32::from(order.0) > G::MAX_ORDER => Outside::OrderTooLarge,
            order if !frame.is_aligned(order) => Outside::Misaligned,
            _ => Outside::OutOfRange,
        }
    }
}

/// Why a block is not freed whose first frame lies in no zone.
#[cold]
fn no_block<G: Geometry>(frame: FrameId, order: Order) -> FreeError {
    match Outside::of::<G>(frame, order) {
        Outside::OrderTooLarge => FreeError::OrderTooLarge(order),
        Outside::Misaligned => FreeError::Misaligned(frame, order),
        Outside::OutOfRange => FreeError::OutOfRange(frame),
    }
}

/// Zones of several domains, of which each frame finds its own.
///
/// Frames that do not exist, in a chunk with others that do, and those of carved metadata count as allocated. As with all
/// frames, nobody frees them but by mistake, and such a free is not told from a right one.
///
/// Runs of frames, and blocks inside of a range, are searched for from the lowest frame on, through holes, too. If
/// [`online`](FrameAllocator::online) finds a huge frame in a later zone that is not offline, those of an earlier one may
/// have been allocated meanwhile, and stay online.
///
/// With [intents](woodlot_frame::Intents) what a batch has from one zone is one operation.
pub struct Domains<'a, A> {
    pub(crate) config: ZoneConfig,
    pub(crate) index: Index<'a>,
    pub(crate) zones: Zones<'a, A>,
    pub(crate) turns: Turns<'a>,
}

impl<'a, A: FrameAllocator> Domains<'a, A> {
    /// The domains that have memory.
    pub fn domains(&self) -> impl Iterator<Item = DomainId> + Clone + '_ {
        self.zones.iter().map(|zone| zone.domain)
    }

    /// The domain of a frame; `None` in a chunk without memory. A chunk is as large as the largest block.
    pub fn domain_of(&self, frame: FrameId) -> Option<DomainId> {
        self.at(frame).map(|(zone, _)| zone.domain)
    }

    /// What a domain has; `None` if it has no memory.
    pub fn stats_of(&self, domain: DomainId) -> Option<Stats> {
        let zone = self.zones.iter().find(|zone| zone.domain == domain)?;
        Some(zone.allocator.stats())
    }

    /// The zone of a frame, and its number there.
    #[inline(always)]
    fn at(&self, frame: FrameId) -> Option<(&Zone<'a, A>, FrameId)> {
        if let Some(there) = self.zones.first.there(frame) {
            return Some((&self.zones.first, there));
        }
        self.at_index(frame)
    }

    #[inline(never)]
    fn at_index(&self, frame: FrameId) -> Option<(&Zone<'a, A>, FrameId)> {
        let Located { zone, frame } = self.index.locate::<A::Geometry>(frame)?;
        Some((self.zones.get(zone)?, frame))
    }

    /// The same of a huge frame.
    fn at_huge(&self, huge: HugeId) -> Option<(&Zone<'a, A>, HugeId)> {
        if huge.0 > usize::MAX >> A::Geometry::HUGE_ORDER {
            return None;
        }
        let (zone, frame) = self.at(huge.first::<A::Geometry>())?;
        Some((zone, frame.huge::<A::Geometry>()))
    }

    /// The zones that a policy allows, in turn for a slot: the nearest first, from the policy's domain.
    pub(crate) fn turn_of(
        &self,
        policy: Policy<'_>,
        slot: Slot,
    ) -> impl Iterator<Item = &Zone<'a, A>> + Clone {
        let set = if let Policy::Bind(set) = policy { set } else { DomainSet::ALL };
        let turn = match policy {
            Policy::Prefer(domain) => self.turns.from(domain, slot),
            _ => self.turns.of(slot),
        };
        let zones = turn.iter().filter_map(|&zone| self.zones.get(usize::from(zone)));
        zones.filter(move |zone| set.has(zone.domain))
    }

    /// Allocates a block from the domain that the policy says; where that has none, from the nearest others.
    ///
    /// # Errors
    /// As [`alloc`](FrameAllocator::alloc): [`AllocError::OutOfMemory`] where no domain that the policy allows has a
    /// block. A request that names a place goes there, whatever the policy.
    pub fn alloc_by(&self, request: Request, policy: Policy<'_>) -> Result<FrameId, AllocError> {
        if request.place != Place::Anywhere {
            return self.alloc(request);
        }
        let first = policy.is_even().then(|| policy.first_page(1) % self.zones.len());
        let first = first.and_then(|zone| self.zones.get(zone));
        for zone in first.into_iter().chain(self.turn_of(policy, request.slot)) {
            match zone.allocator.alloc(request) {
                Ok(frame) => return Ok(zone.frame(frame)),
                Err(AllocError::OutOfMemory) => {}
                Err(error) => return Err(error),
            }
        }
        match request.slot.0 < self.config.slots {
            true => Err(AllocError::OutOfMemory),
            false => Err(AllocError::BadSlot(request.slot)),
        }
    }

    /// The zone that is asked first for a slot.
    #[inline(always)]
    fn nearest(&self, slot: Slot) -> Option<&Zone<'a, A>> {
        self.zones.get(self.turns.first(slot))
    }

    /// A block at a frame, or inside of a range.
    #[inline(never)]
    fn alloc_placed(&self, request: Request) -> Result<FrameId, AllocError> {
        let Place::At(frame) = request.place else { return alloc_within(self, request) };
        let Some((zone, there)) = self.at(frame) else {
            return Err(match Outside::of::<A::Geometry>(frame, request.order) {
                Outside::OrderTooLarge => AllocError::OrderTooLarge(request.order),
                Outside::Misaligned => AllocError::Misaligned(frame, request.order),
                Outside::OutOfRange => AllocError::OutOfRange(frame),
            });
        };
        let result = zone.allocator.alloc(request.at(there));
        result.map(|_| frame).map_err(|error| zone.alloc_error(error))
    }

    /// A block from any zone but the first in turn, which gave none.
    #[cold]
    #[inline(never)]
    fn alloc_farther(&self, request: Request, error: AllocError) -> Result<FrameId, AllocError> {
        if error != AllocError::OutOfMemory {
            return Err(error);
        }
        let mut farther = self.turn_of(Policy::FirstTouch, request.slot).skip(1);
        let found = farther.find_map(|zone| Some(zone.frame(zone.allocator.alloc(request).ok()?)));
        found.ok_or(AllocError::OutOfMemory)
    }

    /// A batch from all zones in turn: how many blocks, and why there are no more, if there are too few.
    fn alloc_from_all(&self, request: Request, out: &mut [FrameId]) -> (usize, AllocError) {
        let (mut taken, mut why) = (0, AllocError::BadSlot(request.slot));
        for zone in self.turn_of(Policy::FirstTouch, request.slot) {
            why = AllocError::OutOfMemory;
            let left = out.get_mut(taken..).unwrap_or_default();
            match zone.allocator.alloc_batch(request, Batch::UpTo, left) {
                Ok(some) => {
                    left.iter_mut().take(some).for_each(|frame| *frame = zone.frame(*frame));
                    taken += some;
                }
                Err(AllocError::OutOfMemory) => {}
                Err(other) => return (taken, other),
            }
            if taken == out.len() {
                break;
            }
        }
        (taken, why)
    }

    /// Calls for the huge frames of a range, run by run in each zone; undoes what it did if one refuses.
    fn each_huge<E: Outer>(
        &self,
        first: HugeId,
        count: usize,
        does: impl Fn(&A, HugeId, usize) -> Result<(), E>,
        undoes: impl Fn(&A, HugeId, usize),
    ) -> Result<(), E> {
        let end = first.0.checked_add(count).filter(|_| count > 0).ok_or(E::OUT_OF_RANGE)?;
        if (first.0..end).any(|huge| self.at_huge(HugeId(huge)).is_none()) {
            return Err(E::OUT_OF_RANGE);
        }
        let mut next = first.0;
        while next < end {
            let Some((zone, huge, many)) = self.huge_run(HugeId(next), end) else {
                return Err(E::OUT_OF_RANGE);
            };
            if let Err(error) = does(&zone.allocator, huge, many) {
                let mut back = first.0;
                while let Some((zone, huge, many)) = self.huge_run(HugeId(back), next) {
                    // It was just done.
                    undoes(&zone.allocator, huge, many);
                    back += many;
                }
                return Err(error.outside(zone));
            }
            next += many;
        }
        Ok(())
    }

    /// Huge frames that follow one another in a zone, up to `end`.
    fn huge_run(&self, first: HugeId, end: usize) -> Option<(&Zone<'a, A>, HugeId, usize)> {
        if first.0 >= end {
            return None;
        }
        let (zone, huge) = self.at_huge(first)?;
        let follows = |&many: &usize| {
            self.at_huge(HugeId(first.0 + many)).is_some_and(|(other, there)| {
                core::ptr::eq(zone, other) && there.0 == huge.0 + many
            })
        };
        let many = (1..end - first.0).take_while(follows).count() + 1;
        Some((zone, huge, many))
    }
}

/// Isolates again what was claimed in a zone, and gives it back. A block stays its owner's until it is isolated.
fn isolate_again<A: FrameAllocator>(zone: &A, first: HugeId, count: usize, claim: Claim) {
    let isolate = || _ = zone.isolate(first, count);
    match claim {
        Claim::Offline => {
            let _ = zone.online(first, count);
            isolate();
        }
        Claim::Block(slot) => {
            isolate();
            let (order, blocks) = (Order::huge::<A::Geometry>(), first.0..first.0 + count);
            for huge in blocks.map(HugeId) {
                let _ = zone.free(huge.first::<A::Geometry>(), order, slot);
            }
        }
    }
}

/// An error of a call for huge frames.
trait Outer {
    const OUT_OF_RANGE: Self;

    /// With frames as the caller counts them.
    fn outside<A: FrameAllocator>(self, zone: &Zone<'_, A>) -> Self;
}

impl Outer for OfflineError {
    const OUT_OF_RANGE: Self = OfflineError::OutOfRange;

    fn outside<A: FrameAllocator>(self, zone: &Zone<'_, A>) -> Self {
        match self {
            OfflineError::InUse(frame) => OfflineError::InUse(zone.frame(frame)),
            other => other,
        }
    }
}

impl Outer for IsolateError {
    const OUT_OF_RANGE: Self = IsolateError::OutOfRange;

    fn outside<A: FrameAllocator>(self, zone: &Zone<'_, A>) -> Self {
        let frame = |huge: HugeId| zone.frame(huge.first::<A::Geometry>());
        let outside = |huge| frame(huge).huge::<A::Geometry>();
        match self {
            IsolateError::Isolated(huge) => IsolateError::Isolated(outside(huge)),
            IsolateError::Offline(huge) => IsolateError::Offline(outside(huge)),
            IsolateError::NotIsolated(huge) => IsolateError::NotIsolated(outside(huge)),
            IsolateError::InUse(frame) => IsolateError::InUse(zone.frame(frame)),
            other => other,
        }
    }
}

impl<A: FrameAllocator> FrameAllocator for Domains<'_, A> {
    type Geometry = A::Geometry;

    const NAME: &'static str = A::NAME;

    const UNSUPPORTED: Unsupported = A::UNSUPPORTED;

    fn zone(&self) -> &ZoneConfig {
        &self.config
    }

    /// The nearest zone that has a block, as the slot's domain sees it.
    #[inline]
    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        if request.place != Place::Anywhere {
            return self.alloc_placed(request);
        }
        let Some(zone) = self.nearest(request.slot) else {
            return Err(AllocError::BadSlot(request.slot));
        };
        match zone.allocator.alloc(Request { place: Place::Anywhere, ..request }) {
            Ok(frame) => Ok(zone.frame(frame)),
            Err(error) => self.alloc_farther(request, error),
        }
    }

    #[inline]
    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        match self.at(frame) {
            Some((zone, there)) => match zone.allocator.free(there, order, slot) {
                Ok(()) => Ok(()),
                Err(error) => Err(zone.free_error(error)),
            },
            None => Err(no_block::<A::Geometry>(frame, order)),
        }
    }

    fn alloc_batch(
        &self,
        request: Request,
        batch: Batch,
        out: &mut [FrameId],
    ) -> Result<usize, AllocError> {
        if request.place != Place::Anywhere || out.is_empty() {
            return alloc_each(self, request, batch, out);
        }
        if batch == Batch::All
            && let Some(zone) = self.nearest(request.slot)
        {
            match zone.allocator.alloc_batch(request, Batch::All, out) {
                Ok(taken) => {
                    out.iter_mut().for_each(|frame| *frame = zone.frame(*frame));
                    return Ok(taken);
                }
                Err(AllocError::OutOfMemory) => {}
                Err(other) => return Err(other),
            }
        }
        let (taken, why) = self.alloc_from_all(request, out);
        if taken == out.len() || batch == Batch::UpTo && taken > 0 {
            return Ok(taken);
        }
        // They are the caller's own, so that each free succeeds.
        let _ = self.free_batch(out.get(..taken).unwrap_or_default(), request.order, request.slot);
        Err(why)
    }

    fn free_batch(
        &self,
        frames: &[FrameId],
        order: Order,
        slot: Slot,
    ) -> Result<(), FreeBatchError> {
        let mut freed = 0;
        while let Some(&first) = frames.get(freed) {
            let stops = |cause| FreeBatchError { freed, cause };
            let (zone, _) =
                self.at(first).ok_or_else(|| stops(no_block::<A::Geometry>(first, order)))?;
            let mut there = [FrameId(0); BATCH];
            let left = frames.get(freed..).unwrap_or_default().iter();
            let same = left.map_while(|&frame| {
                let (other, there) = self.at(frame)?;
                core::ptr::eq(zone, other).then_some(there)
            });
            let count = there.iter_mut().zip(same).map(|(place, frame)| *place = frame).count();
            let some = there.get(..count).unwrap_or_default();
            zone.allocator.free_batch(some, order, slot).map_err(|error| FreeBatchError {
                freed: freed + error.freed,
                cause: zone.free_error(error.cause),
            })?;
            freed += count;
        }
        Ok(())
    }

    fn can_free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        let (zone, there) = self.at(frame).ok_or_else(|| no_block::<A::Geometry>(frame, order))?;
        zone.allocator.can_free(there, order, slot).map_err(|error| zone.free_error(error))
    }

    fn drain(&self, slot: Slot) -> Result<(), BadSlot> {
        self.zones.iter().try_for_each(|zone| zone.allocator.drain(slot))
    }

    fn offline(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        self.each_huge(first, count, A::offline, |zone, first, count| {
            let _ = zone.online(first, count);
        })
    }

    fn online(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        self.each_huge(first, count, A::online, |zone, first, count| {
            let _ = zone.offline(first, count);
        })
    }

    fn isolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        self.each_huge(first, count, A::isolate, |zone, first, count| {
            let _ = zone.unisolate(first, count);
        })
    }

    fn unisolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        self.each_huge(first, count, A::unisolate, |zone, first, count| {
            let _ = zone.isolate(first, count);
        })
    }

    fn claim_isolated(
        &self,
        first: HugeId,
        count: usize,
        claim: Claim,
    ) -> Result<(), IsolateError> {
        self.each_huge(
            first,
            count,
            |zone, first, count| zone.claim_isolated(first, count, claim),
            |zone, first, count| isolate_again(zone, first, count, claim),
        )
    }

    fn is_isolated(&self, huge: HugeId) -> bool {
        self.at_huge(huge).is_some_and(|(zone, there)| zone.allocator.is_isolated(there))
    }

    fn frames_in_use(&self, huge: HugeId) -> usize {
        self.at_huge(huge).map_or(0, |(zone, there)| zone.allocator.frames_in_use(there))
    }

    fn used_map(&self, frame: FrameId) -> u64 {
        self.at(frame).map_or(0, |(zone, there)| zone.allocator.used_map(there))
    }

    fn is_available(&self, order: Order) -> bool {
        self.zones.iter().any(|zone| zone.allocator.is_available(order))
    }

    fn free_frames(&self) -> usize {
        self.zones.iter().map(|zone| zone.allocator.free_frames()).sum()
    }

    fn stats(&self) -> Stats {
        let all = self.zones.iter().map(|zone| zone.allocator.stats());
        all.fold(Stats::default(), |mut sum, stats| {
            sum.free_frames += stats.free_frames;
            sum.free_huge += stats.free_huge;
            sum.offline_huge += stats.offline_huge;
            sum.isolated_huge += stats.isolated_huge;
            sum.isolated_frames += stats.isolated_frames;
            for (sum, class) in sum.classes.iter_mut().zip(stats.classes) {
                sum.trees += class.trees;
                sum.free_frames += class.free_frames;
                sum.free_huge += class.free_huge;
            }
            sum
        })
    }

    fn is_free(&self, frame: FrameId, order: Order) -> bool {
        self.at(frame).is_some_and(|(zone, there)| zone.allocator.is_free(there, order))
    }

    fn free_map(&self, frame: FrameId) -> u64 {
        const { assert!(A::Geometry::MAX_FRAMES >= 64, "64 frames lie in one chunk") };
        self.at(frame).map_or(0, |(zone, there)| zone.allocator.free_map(there))
    }

    fn free_in_huge(&self, huge: HugeId) -> usize {
        self.at_huge(huge).map_or(0, |(zone, there)| zone.allocator.free_in_huge(there))
    }
}
