//! The domains of a machine as one allocator.
//!
//! ```text
//!   alloc   slot ─► its domain ─► turns: the zones, the nearest first ─► the zone's allocator ─► the frame's number outside
//!   free    frame ─► index: the zone, and the frame's number there ─► the zone's allocator
//! ```
//!
//! *Progress*: as the allocators'. What is here is not changed after it was made, but for ranges that are added and
//! removed, counters, and which zone of a slot's domain is asked first.

use core::ops::Range;

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{
    AllocError, BadSlot, Batch, Claim, Class, FrameAllocator, FrameId, FreeBatchError, FreeError,
    Geometry, HugeId, IsolateError, OfflineError, Order, Place, RangeRequest, Request, Slot, Stats,
    Unsupported, ZoneConfig, alloc_each, free_each,
};

use crate::DomainId;
use crate::chunk::{self, UNIT};
use crate::index::{Index, Located};
use crate::policy::{DomainSet, Policy};
use crate::tally::NumaStats;
use crate::turns::{Home, Turns, Wanted};
use crate::zone::Zone;
use crate::zones::Zones;

/// Frames of a batch that are given to a zone at a time.
const BATCH: usize = 64;

/// Why a block is not freed whose first frame lies in no zone.
#[cold]
fn no_block(frame: FrameId, order: Order) -> FreeError {
    match frame.is_aligned(order) {
        true => FreeError::OutOfRange(frame),
        false => FreeError::Misaligned(frame, order),
    }
}

/// What two zones have.
pub(crate) fn sum(mut sum: Stats, stats: Stats) -> Stats {
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
}

/// Zones of several domains, of which each frame finds its own.
///
/// Frames that do not exist, in a chunk with others that do, and those of carved metadata count as allocated. As with all
/// frames, nobody frees them but by mistake, and such a free is not told from a right one.
///
/// A block inside of a range comes from the zones in turn, as one that may lie anywhere, and holes cost it nothing. A zone that
/// has no place there is not asked, and not counted as one that was to give. So does a run of frames
/// ([`alloc_range`](FrameAllocator::alloc_range)), from the lowest frame of each domain on, and at last across domains; a domain that
/// has no frame of the place is not asked. To have one by a policy is [`alloc_range_by`](Self::alloc_range_by), many pages
/// [`alloc_runs`](Self::alloc_runs).
///
/// A call for huge frames of several zones looks at all of them before it changes one. So it changes all or none, with one
/// exception: while another call changes the same huge frames, or a free into one that is to be claimed is under way, a
/// later zone may refuse after all. What was done in the earlier ones is undone then, zone by zone, and others may have
/// allocated there in between: an isolated huge frame is isolated again, but may be in use, and one that came online may have to
/// stay so.
///
/// With [intents](woodlot_frame::Intents) what a batch has from one zone is one operation.
pub struct Domains<'a, A> {
    pub(crate) config: ZoneConfig,
    pub(crate) index: Index<'a>,
    pub(crate) zones: Zones<'a, A>,
    pub(crate) turns: Turns<'a>,
    /// The domains that the map, the homes or the distances name.
    pub(crate) known: DomainSet,
    /// The bits of those that have memory.
    pub(crate) memory: AtomicU64,
}

impl<'a, A: FrameAllocator> Domains<'a, A> {
    /// The domains that have memory.
    pub fn domains(&self) -> impl Iterator<Item = DomainId> + Clone + '_ {
        self.with_memory().iter()
    }

    /// The same as a set.
    pub(crate) fn with_memory(&self) -> DomainSet {
        DomainSet::of_bits(self.memory.load(Ordering::Relaxed))
    }

    /// Looks for the domains that have memory, when some was added or removed.
    pub(crate) fn look_for_memory(&self) {
        let have = self.known.iter().filter(|&domain| self.zones_of(domain).next().is_some());
        let set = have.fold(DomainSet::default(), DomainSet::with);
        self.memory.store(set.bits(), Ordering::Relaxed);
    }

    /// The domain of a frame; `None` where there is no memory. What is missing in a chunk, which is as large as the largest
    /// block, is taken for memory of the domain that has the rest.
    pub fn domain_of(&self, frame: FrameId) -> Option<DomainId> {
        self.at(frame).map(|(zone, _)| zone.domain)
    }

    /// What a domain has; `None` if it has no memory.
    pub fn stats_of(&self, domain: DomainId) -> Option<Stats> {
        let all = self.zones_of(domain).map(|zone| zone.allocator.stats());
        all.reduce(sum)
    }

    /// What a domain was asked for, and gave, since the start. About so, while other calls go on. What a batch took that
    /// then failed counts, too, although it was given back.
    pub fn numa_stats(&self, domain: DomainId) -> NumaStats {
        self.turns.counted(domain)
    }

    /// The zones of a domain.
    pub(crate) fn zones_of(&self, domain: DomainId) -> impl Iterator<Item = &Zone<'a, A>> + Clone {
        let head = self.zones.get(self.turns.head(domain));
        head.into_iter().chain(self.zones.added.iter().filter(move |zone| zone.domain == domain))
    }

    /// Where a slot is at home, and the zone that is asked first, if there is one.
    #[inline(always)]
    fn near(&self, slot: Slot) -> Option<(&Home, &Zone<'a, A>)> {
        let home = self.turns.home(slot)?;
        Some((home, self.zones.get(home.nearest())?))
    }

    /// The zone of a frame, and its number there.
    #[inline(always)]
    pub(crate) fn at(&self, frame: FrameId) -> Option<(&Zone<'a, A>, FrameId)> {
        if self.zones.first.longest.has(frame) {
            return Some((&self.zones.first, frame));
        }
        self.at_index(frame)
    }

    #[inline(never)]
    fn at_index(&self, frame: FrameId) -> Option<(&Zone<'a, A>, FrameId)> {
        if let Some(Located { zone, frame }) = self.index.locate::<A::Geometry>(frame) {
            return Some((self.zones.get(zone)?, frame));
        }
        let place = self.zones.added.place_of(frame)?;
        Some((self.zones.added.get(place)?, frame))
    }

    /// Frees a giant frame, or what lies neither in the longest piece of the first zone, nor of the one that the slot asks first.
    #[inline(never)]
    fn free_elsewhere(
        &self,
        (frame, order, slot): (FrameId, Order, Slot),
        why: &mut FreeError,
    ) -> Option<()> {
        let freed = match self.at(frame) {
            _ if Self::is_above(order) => self.free_giant(frame, order, slot),
            Some((zone, there)) => {
                zone.allocator.free(there, order, slot).map_err(|error| zone.free_error(error))
            }
            None => Err(no_block(frame, order)),
        };
        freed.map_err(|error| *why = error).ok()
    }

    /// The largest order of a block that begins at a frame and lies in one zone: that of the frame's alignment, unless a border of
    /// zones is nearer.
    fn largest_in_zone(&self, frame: FrameId) -> Order {
        let order = frame.0.trailing_zeros().min(A::Geometry::MAX_ORDER);
        let Some((zone, _)) = self.at(frame) else { return Order(order.min(UNIT) as u8) };
        if order <= UNIT || zone.longest.has(FrameId(frame.0 | ((1 << order) - 1))) {
            return Order(order as u8);
        }
        let mut units = (0..1 << (order - UNIT)).map(|unit| FrameId(frame.0 | unit << UNIT));
        let is_here = |unit| self.at(unit).is_some_and(|(other, _)| core::ptr::eq(zone, other));
        let here = units.position(|unit| !is_here(unit)).unwrap_or(1 << (order - UNIT));
        Order((UNIT + here.max(1).ilog2()) as u8)
    }

    /// The same of a huge frame.
    pub(crate) fn at_huge(&self, huge: HugeId) -> Option<(&Zone<'a, A>, HugeId)> {
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
        self.domains_of(policy, slot).flat_map(|domain| self.zones_of(domain))
    }

    /// The domains that a policy allows, in turn for a slot.
    pub(crate) fn domains_of(
        &self,
        policy: Policy<'_>,
        slot: Slot,
    ) -> impl Iterator<Item = DomainId> + Clone + use<'_, 'a, A> {
        let set = policy.allowed();
        let turn = match policy {
            Policy::Prefer(domain) => self.turns.from(domain, slot),
            _ => self.turns.of(slot),
        };
        let domains = turn.iter().map(|&domain| DomainId(domain));
        domains.filter(move |&domain| set.has(domain))
    }

    /// Does the machine know every domain that a policy names?
    pub(crate) fn check(&self, policy: Policy<'_>) -> Result<(), AllocError> {
        let unknown = policy.unknown(self.known);
        unknown.map_or(Ok(()), |domain| Err(AllocError::NoSuchDomain(domain.0)))
    }

    /// The domain whose turn it is, where a policy gives each a share.
    pub(crate) fn in_turn(&self, policy: Policy<'_>) -> Option<DomainId> {
        let domains = self.with_memory();
        let number = policy.is_even().then(|| policy.first_page(1).checked_rem(domains.len()));
        domains.nth(number??)
    }

    /// Allocates a block from the domain that the policy says; where that has none, from the nearest others.
    ///
    /// # Errors
    /// As [`alloc`](FrameAllocator::alloc): [`AllocError::OutOfMemory`] where no domain that the policy allows has a
    /// block where the request wants it, [`AllocError::NoSuchDomain`] with the first domain that the policy names and the
    /// machine does not know. A request that names a frame goes there, if the policy allows the frame's domain, and is not
    /// counted: it has no other domain to come from.
    pub fn alloc_by(&self, request: Request, policy: Policy<'_>) -> Result<FrameId, AllocError> {
        self.check(policy)?;
        if let Place::At(frame) = request.place {
            return self.alloc_at(request, frame, policy.allowed());
        }
        let in_turn = self.in_turn(policy);
        self.alloc_from(request, policy, in_turn)
    }

    /// A block from the domain in turn and then from those that a policy allows.
    fn alloc_from(
        &self,
        request: Request,
        policy: Policy<'_>,
        in_turn: Option<DomainId>,
    ) -> Result<FrameId, AllocError> {
        if Self::is_above(request.order) {
            return self.alloc_giant(request, policy, in_turn);
        }
        let first = in_turn.into_iter().flat_map(|domain| self.zones_of(domain));
        let mut wanted = None;
        for zone in first.chain(self.turn_of(policy, request.slot)) {
            let block = zone.alloc(request);
            if let Err(AllocError::NoPlace(_) | AllocError::Reversed(_)) = block {
                continue;
            }
            let in_turn = in_turn == Some(zone.domain);
            let wanted = *wanted.get_or_insert(Wanted { domain: zone.domain, in_turn });
            match block {
                Ok(frame) => {
                    self.turns.count(request.slot, wanted, zone.domain, request.order.frames());
                    return Ok(frame);
                }
                Err(AllocError::OutOfMemory) => {}
                Err(error) => return Err(error),
            }
        }
        Err(self.none(request))
    }

    /// Why there is no block where no zone has one.
    #[cold]
    pub(crate) fn none(&self, request: Request) -> AllocError {
        let window = self.window(request.place);
        let has_place = || Self::blocks_of(request.order, window.clone()).next().is_some();
        match request.place {
            _ if request.slot.0 >= self.config.slots => AllocError::BadSlot(request.slot),
            Place::Within { start, end } if start > end => AllocError::Reversed(start),
            Place::Within { .. } if !has_place() => AllocError::NoPlace(window.start),
            _ => AllocError::OutOfMemory,
        }
    }

    /// Where a block may lie, from the first frame to the last one.
    pub(crate) fn window(&self, place: Place) -> Range<FrameId> {
        let all = self.config.range();
        match place {
            Place::Within { start, end } => start.max(all.start)..end.min(all.end),
            _ => all,
        }
    }

    /// The blocks of an order inside of a range, whether they are there or not.
    pub(crate) fn blocks_of(order: Order, range: Range<FrameId>) -> impl Iterator<Item = FrameId> {
        let first = range.start.0.checked_next_multiple_of(order.frames());
        let count = first.map_or(0, |first| range.end.0.saturating_sub(first) >> order.0);
        (0..count).map(move |n| FrameId(first.unwrap_or(0) + (n << order.0)))
    }

    /// A block at a frame, or inside of a range.
    #[inline(never)]
    fn alloc_placed(&self, request: &Request, why: &mut AllocError) -> Option<FrameId> {
        let result = self.alloc_allowed(*request, Policy::FirstTouch);
        result.map_err(|error| *why = error).ok()
    }

    /// A block as a policy says that gives no shares.
    pub(crate) fn alloc_allowed(
        &self,
        request: Request,
        policy: Policy<'_>,
    ) -> Result<FrameId, AllocError> {
        match request.place {
            Place::At(frame) => self.alloc_at(request, frame, policy.allowed()),
            _ => self.alloc_from(request, policy, None),
        }
    }

    /// A block at a frame, of one of these domains.
    fn alloc_at(
        &self,
        request: Request,
        frame: FrameId,
        allowed: DomainSet,
    ) -> Result<FrameId, AllocError> {
        if Self::is_above(request.order) {
            return self.alloc_giant_at(request, frame, allowed);
        }
        let Some((zone, there)) = self.at(frame) else {
            return Err(match frame.is_aligned(request.order) {
                true => AllocError::OutOfRange(frame),
                false => AllocError::Misaligned(frame, request.order),
            });
        };
        if !allowed.has(zone.domain) && frame.is_aligned(request.order) {
            return Err(self.none(request));
        }
        let result = zone.allocator.alloc(request.at(there));
        result.map(|_| frame).map_err(|error| zone.alloc_error(error))
    }

    /// A block from elsewhere, where the zone that was asked first had none, or there is no such zone.
    #[cold]
    #[inline(never)]
    fn alloc_otherwise(
        &self,
        (order, class, slot): (Order, Class, Slot),
        why: &mut AllocError,
    ) -> Option<FrameId> {
        let request = Request::new(order, class, slot);
        let result = match (*why, self.turns.home(slot)) {
            _ if Self::is_above(order) => self.alloc_giant(request, Policy::FirstTouch, None),
            (AllocError::OutOfMemory, Some(home)) => self.alloc_farther(request, home),
            (AllocError::OutOfMemory, None) => Err(AllocError::BadSlot(slot)),
            (error, _) => Err(error),
        };
        result.map_err(|error| *why = error).ok()
    }

    /// A block from any zone but the one that is asked first, which gave none, or is not there.
    #[cold]
    #[inline(never)]
    fn alloc_farther(&self, request: Request, home: &Home) -> Result<FrameId, AllocError> {
        let Request { order, slot, .. } = request;
        let asked = self.zones.get(home.nearest()).map(core::ptr::from_ref);
        let mut wanted = None;
        for zone in self.turn_of(Policy::FirstTouch, slot) {
            let wanted = *wanted.get_or_insert(Wanted { domain: zone.domain, in_turn: false });
            if asked == Some(core::ptr::from_ref(zone)) {
                continue;
            }
            match zone.allocator.alloc(request) {
                Ok(frame) => {
                    self.turns.count(slot, wanted, zone.domain, order.frames());
                    if zone.domain == home.domain {
                        self.ask_next(home, zone);
                    }
                    return Ok(zone.frame(frame));
                }
                Err(AllocError::OutOfMemory) => {}
                Err(error) => return Err(error),
            }
        }
        Err(AllocError::OutOfMemory)
    }

    /// Asks this zone first from now on.
    fn ask_next(&self, home: &Home, zone: &Zone<'a, A>) {
        let of = |number: &usize| {
            self.zones.get(*number).is_some_and(|other| core::ptr::eq(other, zone))
        };
        let head = self.turns.head(home.domain);
        let number = match of(&head) {
            true => Some(head),
            false => self
                .zones
                .added
                .place_of(FrameId(zone.longest.start))
                .map(|at| self.zones.number_of(at)),
        };
        number.filter(of).into_iter().for_each(|number| home.ask(number));
    }

    /// A batch from all zones in turn: how many blocks, and why there are no more, if there are too few.
    fn alloc_from_all(&self, request: Request, out: &mut [FrameId]) -> (usize, AllocError) {
        let (mut taken, mut why) = (0, self.none(request));
        let mut wanted = None;
        for zone in self.turn_of(Policy::FirstTouch, request.slot) {
            let wanted = *wanted.get_or_insert(Wanted { domain: zone.domain, in_turn: false });
            why = AllocError::OutOfMemory;
            let left = out.get_mut(taken..).unwrap_or_default();
            match zone.allocator.alloc_batch(request, Batch::UpTo, left) {
                Ok(some) => {
                    left.iter_mut().take(some).for_each(|frame| *frame = zone.frame(*frame));
                    taken += some;
                    let frames = some << request.order.0;
                    self.turns.count(request.slot, wanted, zone.domain, frames);
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
}

impl<A: FrameAllocator> FrameAllocator for Domains<'_, A> {
    type Geometry = A::Geometry;

    const NAME: &'static str = A::NAME;

    const UNSUPPORTED: Unsupported = A::UNSUPPORTED;

    /// 1 GiB, with an allocator that hands out blocks where they are asked for.
    const MAX_ORDER: Order = chunk::giant_order::<A>();

    fn zone(&self) -> &ZoneConfig {
        &self.config
    }

    /// The nearest zone that has a block, as the slot's domain sees it.
    #[inline]
    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        let Request { order, class, slot, place } = request;
        // What is seldom asked for tells its error by reference: the frame stays in a register.
        let mut why = AllocError::OutOfMemory;
        if place != Place::Anywhere {
            return self.alloc_placed(&request, &mut why).ok_or(why);
        }
        if let Some((home, zone)) = self.near(slot) {
            match zone.allocator.alloc(Request::new(order, class, slot)) {
                Ok(frame) => {
                    home.count(order);
                    return Ok(zone.frame(frame));
                }
                Err(error) => why = error,
            }
        }
        self.alloc_otherwise((order, class, slot), &mut why).ok_or(why)
    }

    #[inline]
    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        let has = |zone: &&Zone<'_, A>| zone.longest.has(frame);
        let near = || self.near(slot).map(|(_, zone)| zone).filter(has);
        if !Self::is_above(order)
            && let Some(zone) = Some(&self.zones.first).filter(has).or_else(near)
        {
            // The numbers in an error are right: a block lies in one chunk.
            return zone.allocator.free(frame, order, slot);
        }
        let mut why = FreeError::OutOfRange(frame);
        self.free_elsewhere((frame, order, slot), &mut why).ok_or(why)
    }

    fn alloc_batch(
        &self,
        request: Request,
        batch: Batch,
        out: &mut [FrameId],
    ) -> Result<usize, AllocError> {
        if request.place != Place::Anywhere || Self::is_above(request.order) || out.is_empty() {
            return alloc_each(self, request, batch, out);
        }
        if batch == Batch::All
            && let Some((home, zone)) = self.near(request.slot)
        {
            match zone.allocator.alloc_batch(request, Batch::All, out) {
                Ok(taken) => {
                    home.count_frames(taken << request.order.0);
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
        if Self::is_above(order) {
            return free_each(self, frames, order, slot);
        }
        let mut freed = 0;
        while let Some(&first) = frames.get(freed) {
            let stops = |cause| FreeBatchError { freed, cause };
            let (zone, _) = self.at(first).ok_or_else(|| stops(no_block(first, order)))?;
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

    fn largest_at(&self, frame: FrameId) -> Order {
        self.largest_in_zone(frame)
    }

    fn can_free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        if Self::is_above(order) {
            return self.can_free_giant(frame, order, slot);
        }
        let (zone, there) = self.at(frame).ok_or_else(|| no_block(frame, order))?;
        zone.allocator.can_free(there, order, slot).map_err(|error| zone.free_error(error))
    }

    fn alloc_range(&self, request: RangeRequest) -> Result<Range<FrameId>, AllocError> {
        self.range_allowed(request, Policy::FirstTouch)
    }

    fn drain(&self, slot: Slot) -> Result<(), BadSlot> {
        self.zones.iter().try_for_each(|zone| zone.allocator.drain(slot))
    }

    fn offline(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        let does = |zone: &Zone<'_, A>, first, count| zone.allocator.offline(first, count);
        let undoes = |zone: &Zone<'_, A>, first, count| zone.allocator.online(first, count);
        self.each_huge(first, count, does, undoes)
    }

    /// Huge frames that the machine did not begin with are [`OfflineError::Busy`] while another call adds or removes a
    /// range, or puts such ones online: a zone of which nothing is left may be about to go.
    fn online(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        let added = self.reaches_added(first, count);
        let lock = added.then(|| self.zones.added.lock().ok_or(OfflineError::Busy));
        let _lock = lock.transpose()?;
        let does = |zone: &Zone<'_, A>, first, count| zone.allocator.online(first, count);
        let undoes = |zone: &Zone<'_, A>, first, count| zone.allocator.offline(first, count);
        self.each_huge_that((first, count), Zone::is_offline, does, undoes)
    }

    fn isolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        let does = |zone: &Zone<'_, A>, first, count| zone.allocator.isolate(first, count);
        let undoes = |zone: &Zone<'_, A>, first, count| zone.allocator.unisolate(first, count);
        self.each_huge(first, count, does, undoes)
    }

    fn unisolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        let does = |zone: &Zone<'_, A>, first, count| zone.allocator.unisolate(first, count);
        let undoes = |zone: &Zone<'_, A>, first, count| zone.allocator.isolate(first, count);
        self.each_huge_that((first, count), Zone::is_isolated, does, undoes)
    }

    fn claim_isolated(
        &self,
        first: HugeId,
        count: usize,
        claim: Claim,
    ) -> Result<(), IsolateError> {
        let does =
            |zone: &Zone<'_, A>, first, count| zone.allocator.claim_isolated(first, count, claim);
        let undoes = |zone: &Zone<'_, A>, first, count| {
            zone.isolate_again(first, count, claim);
            Ok(())
        };
        self.each_huge_that((first, count), Zone::is_empty, does, undoes)
    }

    fn is_isolated(&self, huge: HugeId) -> bool {
        self.at_huge(huge).is_some_and(|(zone, there)| zone.allocator.is_isolated(there))
    }

    fn frames_in_use(&self, huge: HugeId) -> usize {
        self.used_in(huge, DomainSet::ALL)
    }

    fn used_map(&self, frame: FrameId) -> u64 {
        self.at(frame).map_or(0, |(zone, there)| zone.allocator.used_map(there))
    }

    fn is_available(&self, order: Order) -> bool {
        if Self::is_above(order) {
            return self.free_giants(order).next().is_some();
        }
        self.zones.iter().any(|zone| zone.allocator.is_available(order))
    }

    fn free_frames(&self) -> usize {
        self.zones.iter().map(|zone| zone.allocator.free_frames()).sum()
    }

    fn stats(&self) -> Stats {
        let all = self.zones.iter().map(|zone| zone.allocator.stats());
        all.reduce(sum).unwrap_or_default()
    }

    fn is_free(&self, frame: FrameId, order: Order) -> bool {
        if Self::is_above(order) {
            return self.is_free_giant(frame, order);
        }
        self.at(frame).is_some_and(|(zone, there)| zone.allocator.is_free(there, order))
    }

    fn free_map(&self, frame: FrameId) -> u64 {
        const { assert!(A::Geometry::MAX_FRAMES >= 64, "64 frames lie in one chunk") };
        self.at(frame).map_or(0, |(zone, there)| zone.allocator.free_map(there))
    }

    fn free_in_huge(&self, huge: HugeId) -> usize {
        self.free_in(huge, DomainSet::ALL)
    }

    fn free_huge_frames(&self) -> impl DoubleEndedIterator<Item = HugeId> + '_ {
        self.free_huge_in(DomainSet::ALL)
    }
}
