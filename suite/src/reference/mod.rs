//! The simplest allocator that keeps the contract: one byte per frame behind a lock, first fit.
//!
//! ```text
//!   durable   [ 0 0 1 1 1 2 2 2 2 0 … ]    0 free, 1 allocated, 2 offline, 3 nobody's and isolated
//!   heap      which class each tree is of; for the limited variant, which slot cached what
//! ```
//!
//! It is no engine to use: it takes a lock, allocates from the heap and scans. It shows that the
//! suite passes on something right ([`Reference`]), also where abilities are declared away
//! ([`Limited`]), and that it fails on something wrong: each [`Bug`] switches on one defect that a
//! real allocator had or could have. It shares no code with the model that judges it.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use woodlot_frame::{
    AllocError, BadSlot, Batch, Claim, Class, Construct, FrameAllocator, FrameId, FreeError,
    Geometry, HugeId, Init, InitError, IsolateError, MAX_CLASSES, MetadataSize, OfflineError,
    Order, Place, RangeRequest, RawMetadata, Request, Slot, Stats, Unsupported, ZoneConfig,
    alloc_run, alloc_within, blocks, free_run,
};

use crate::mutants::Bug;

mod zone;

use zone::{ALLOCATED, FREE, KEPT, OFFLINE, Zone, is, recover};

/// The most slots.
const MAX_SLOTS: usize = 1 << 16;
/// The most frames, and the end of the numbers.
const MAX_FRAMES: usize = 1 << 44;

/// The reference allocator for geometry `G`. `LIMITED` declares everything away that can be; `WRONG`
/// has the defect that is [switched on](crate::mutants::switch_on).
pub struct Reference<G: Geometry, const LIMITED: bool = false, const WRONG: bool = false> {
    config: ZoneConfig,
    zone: Mutex<Zone<G, LIMITED, WRONG>>,
}

/// A reference allocator that can do nothing that may be left out, and says so.
pub type Limited<G> = Reference<G, true>;

/// A reference allocator with the defect that is [switched on](crate::mutants::switch_on).
pub type Wrong<G, const LIMITED: bool = false> = Reference<G, LIMITED, true>;

impl<G: Geometry, const LIMITED: bool, const WRONG: bool> Reference<G, LIMITED, WRONG> {
    fn lock(&self) -> MutexGuard<'_, Zone<G, LIMITED, WRONG>> {
        self.zone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_slot(&self, slot: Slot) -> Result<(), BadSlot> {
        if slot.0 < self.config.slots {
            return Ok(());
        }
        assert!(!is::<WRONG>(Bug::BadSlotPanics), "index out of bounds: the slot is {}", slot.0);
        Err(BadSlot(slot))
    }

    /// The range of whole huge frames, if it is one.
    fn huge_frames(&self, first: HugeId, count: usize) -> Result<Range<usize>, OfflineError> {
        let whole = self.config.huge_range::<G>();
        let end = first.0.checked_add(count).ok_or(OfflineError::OutOfRange)?;
        if count == 0 || first < whole.start || end > whole.end.0 {
            return Err(OfflineError::OutOfRange);
        }
        let start = self.config.start.0;
        Ok(first.0 * G::HUGE_FRAMES - start..end * G::HUGE_FRAMES - start)
    }

    /// Each huge frame of a range, with its frames.
    fn isolable(
        &self,
        first: HugeId,
        count: usize,
    ) -> Result<
        impl Iterator<Item = (HugeId, Range<usize>)> + Clone + use<G, LIMITED, WRONG>,
        IsolateError,
    > {
        if LIMITED && !is::<WRONG>(Bug::DeclaredAwayWorks) {
            return Err(IsolateError::Unsupported);
        }
        let range = self.huge_frames(first, count).map_err(|_| IsolateError::OutOfRange)?;
        let units = range.step_by(G::HUGE_FRAMES).map(|first| first..first + G::HUGE_FRAMES);
        Ok((first.0..).map(HugeId).zip(units))
    }

    /// All of `range` from one state to another, or nothing.
    fn switch(&self, range: Range<usize>, from: u8, to: u8) -> bool {
        let mut zone = self.lock();
        if is::<WRONG>(Bug::OfflineTakesSome) {
            // One huge frame after the other, and those before the first used one stay taken.
            for first in range.step_by(G::HUGE_FRAMES) {
                let huge = first..first + G::HUGE_FRAMES;
                if zone.frames()[huge.clone()].iter().any(|&state| state != from) {
                    return false;
                }
                zone.set(huge, to);
            }
            return true;
        }
        let all = zone.frames()[range.clone()].iter().all(|&state| state == from);
        if all {
            zone.set(range, to);
        }
        all
    }

    fn claim(&self, frame: FrameId, request: Request) -> Result<FrameId, AllocError> {
        let mut zone = self.lock();
        let range = zone.index(frame, request.order);
        if !zone.is_free_for(range.clone(), request.slot) {
            if is::<WRONG>(Bug::FailedClaimKeepsPart) {
                let free = zone.frames()[range.clone()].iter().take_while(|&&s| s == FREE);
                let taken = free.count();
                zone.set(range.start..range.start + taken / 8 * 8, ALLOCATED);
            }
            return Err(AllocError::InUse(frame));
        }
        if is::<WRONG>(Bug::LostRaceSucceeds) {
            drop(zone);
            std::thread::yield_now();
            zone = self.lock();
        }
        zone.take(frame, request.order, request.class);
        Ok(frame)
    }

    /// What is wrong with the state of a block that is to be freed.
    fn refuse_free(
        &self,
        zone: &Zone<G, LIMITED, WRONG>,
        frame: FrameId,
        order: Order,
    ) -> Result<(), FreeError> {
        let range = zone.index(frame, order);
        let states = &zone.frames()[range.clone()];
        let judged = match () {
            () if is::<WRONG>(Bug::OnlyFirstFrameChecked) => &states[..1],
            () if is::<WRONG>(Bug::OnlyEndsChecked) && states.len() > 2 => {
                if states[states.len() - 1] == ALLOCATED { &states[..1] } else { states }
            }
            () => states,
        };
        let offline = judged.contains(&OFFLINE);
        let free = judged.iter().any(|state| matches!(*state, FREE | KEPT));
        if free && (offline || !is::<WRONG>(Bug::DoubleFreeAccepted)) {
            return Err(FreeError::NotAllocated(frame));
        }
        if offline && !is::<WRONG>(Bug::OfflineFreeAccepted) {
            return Err(FreeError::Offline(frame));
        }
        if LIMITED && zone.heads[range.start] != order.0 + 1 {
            return Err(FreeError::Unsupported);
        }
        if is::<WRONG>(Bug::MergedFreeRefused) && zone.heads[range.start] < order.0 + 1 {
            return Err(FreeError::NotAllocated(frame));
        }
        Ok(())
    }

    /// What is wrong with a free, whatever the block's state.
    fn check_free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        if order > Order::max::<G>() {
            return Err(FreeError::OrderTooLarge(order));
        }
        self.check_slot(slot).map_err(|BadSlot(slot)| FreeError::BadSlot(slot))?;
        if !frame.is_aligned(order) {
            return Err(FreeError::Misaligned(frame, order));
        }
        if is::<WRONG>(Bug::FrameNearLimitPanics) {
            frame.checked_add(order.frames()).expect("attempt to add with overflow");
        }
        if !self.config.contains(frame, order) {
            return Err(FreeError::OutOfRange(frame));
        }
        Ok(())
    }

    fn free_block(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        let mut zone = self.lock();
        if is::<WRONG>(Bug::HalfOfLargestExposed) && order == Order::max::<G>() {
            // In two steps, and the first is not undone.
            drop(zone);
            let (half, second) = (Order::huge::<G>(), FrameId(frame.0 + G::HUGE_FRAMES));
            self.free_block(frame, half, slot)?;
            return self.free_block(second, half, slot).map_err(|_| FreeError::NotAllocated(frame));
        }
        let refused = self.refuse_free(&zone, frame, order);
        if refused.is_err() {
            if is::<WRONG>(Bug::RefusedFreeCounts) {
                zone.free += 1;
            }
            return refused;
        }
        let huge = zone.huge_index(frame.0);
        if is::<WRONG>(Bug::SplitRefusesOthers) && order < Order::huge::<G>() {
            if zone.splitting[huge] {
                return Err(FreeError::NotAllocated(frame));
            }
            if zone.whole[huge] {
                zone.splitting[huge] = true;
                drop(zone);
                std::thread::yield_now();
                zone = self.lock();
                zone.splitting[huge] = false;
            }
        }
        if is::<WRONG>(Bug::RacingDoubleFree) {
            drop(zone);
            std::thread::yield_now();
            zone = self.lock();
        }
        let range = zone.index(frame, order);
        let before = zone.free;
        zone.set(range.clone(), FREE);
        if is::<WRONG>(Bug::RacyCounter) {
            drop(zone);
            std::thread::yield_now();
            zone = self.lock();
            zone.free = before + order.frames();
        }
        if is::<WRONG>(Bug::PartialFreeMiscounts) && zone.heads.len() > 1 && order.0 == 1 {
            zone.free -= 1;
        }
        if Zone::<G, LIMITED, WRONG>::caches() && order == Order::BASE {
            zone.cached[range.start] = slot.0 as u32 + 1;
        }
        Ok(())
    }
}

impl<G: Geometry, const LIMITED: bool, const WRONG: bool> FrameAllocator
    for Reference<G, LIMITED, WRONG>
{
    type Geometry = G;
    const NAME: &'static str = match (WRONG, LIMITED) {
        (true, _) => "wrong reference",
        (false, true) => "limited reference",
        (false, false) => "reference",
    };
    const UNSUPPORTED: Unsupported = Unsupported {
        exact_frame: LIMITED,
        partial_free: LIMITED,
        classes: LIMITED,
        offline: LIMITED,
        isolation: LIMITED,
        recovery: LIMITED,
        exact_exhaustion: LIMITED,
    };

    fn zone(&self) -> &ZoneConfig {
        &self.config
    }

    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        let Request { order, class, slot, place } = request;
        if order > Order::max::<G>() {
            return Err(AllocError::OrderTooLarge(order));
        }
        self.check_slot(slot).map_err(|BadSlot(slot)| AllocError::BadSlot(slot))?;
        if !self.config.classes.has(class) {
            assert!(!is::<WRONG>(Bug::BadClassPanics), "index out of bounds: {class}");
            return Err(AllocError::BadClass(class));
        }
        if LIMITED && place != Place::Anywhere {
            return Err(AllocError::Unsupported);
        }
        if let Place::Within { .. } = place {
            return alloc_within(self, request);
        }
        if let Place::At(frame) = place {
            if !frame.is_aligned(order) && !is::<WRONG>(Bug::MisalignedClaimAccepted) {
                return Err(AllocError::Misaligned(frame, order));
            }
            if !self.config.contains(frame, order) {
                return Err(AllocError::OutOfRange(frame));
            }
            return self.claim(frame, request);
        }
        let mut zone = self.lock();
        let found = zone.find(&self.config, request).ok_or(AllocError::OutOfMemory)?;
        if is::<WRONG>(Bug::LostRaceSucceeds) {
            drop(zone);
            std::thread::yield_now();
            zone = self.lock();
        }
        zone.take(found, order, class);
        if is::<WRONG>(Bug::BeyondTheEnd) && found.0 + order.frames() == self.config.end().0 {
            return Ok(FrameId(found.0 + order.frames()));
        }
        Ok(found)
    }

    fn alloc_batch(
        &self,
        request: Request,
        batch: Batch,
        out: &mut [FrameId],
    ) -> Result<usize, AllocError> {
        let mut taken = 0;
        let mut next = request;
        while taken < out.len() {
            if is::<WRONG>(Bug::BatchStopsEarly) && batch == Batch::UpTo && taken == 40 {
                return Ok(taken);
            }
            match self.alloc(next) {
                Ok(frame) => out[taken] = frame,
                Err(_) if batch == Batch::UpTo && taken > 0 => return Ok(taken),
                Err(error) => {
                    if !is::<WRONG>(Bug::FailedBatchKeepsBlocks) {
                        for &frame in &out[..taken] {
                            let freed = self.free(frame, request.order, request.slot);
                            freed.expect("the block was just allocated");
                        }
                    }
                    return Err(error);
                }
            }
            taken += 1;
            if let Place::At(frame) = next.place {
                next = next.at(FrameId(frame.0.saturating_add(request.order.frames())));
            }
        }
        Ok(taken)
    }

    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        self.check_free(frame, order, slot)?;
        self.free_block(frame, order, slot)
    }

    fn can_free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        if is::<WRONG>(Bug::AnythingCanBeFreed) {
            return Ok(());
        }
        self.check_free(frame, order, slot)?;
        self.refuse_free(&self.lock(), frame, order)
    }

    fn alloc_range(&self, request: RangeRequest) -> Result<Range<FrameId>, AllocError> {
        match request.place {
            Place::At(frame) if is::<WRONG>(Bug::FailedRunKeepsPart) => {
                let blocks = blocks::<G>(frame..FrameId(frame.0.saturating_add(request.frames)));
                let claim = Request::new(Order::BASE, request.class, request.slot);
                for (frame, order) in blocks {
                    self.alloc(Request { order, ..claim }.at(frame))?;
                }
                Ok(frame..FrameId(frame.0 + request.frames))
            }
            Place::Within { start, end } if is::<WRONG>(Bug::RunLeavesItsPlace) => {
                let wider = Place::Within { start, end: FrameId(end.0.saturating_add(1)) };
                alloc_run(self, RangeRequest { place: wider, ..request })
            }
            _ if is::<WRONG>(Bug::RunMisaligned) && request.align.0 < 63 => {
                alloc_run(self, RangeRequest { align: Order::BASE, ..request })
            }
            _ if is::<WRONG>(Bug::ExactRunPassedOver) && request.frames > 1 => {
                let longer = RangeRequest { frames: request.frames.saturating_add(1), ..request };
                let Range { start, end } = alloc_run(self, longer)?;
                let end = FrameId(end.0 - 1);
                self.free(end, Order::BASE, request.slot).expect("it was just allocated");
                Ok(start..end)
            }
            _ => alloc_run(self, request),
        }
    }

    fn free_range(&self, frames: Range<FrameId>, slot: Slot) -> Result<(), FreeError> {
        let in_zone = self.config.start <= frames.start && frames.end <= self.config.end();
        if is::<WRONG>(Bug::RunFreedInPart) && in_zone && frames.start < frames.end {
            return blocks::<G>(frames)
                .try_for_each(|(frame, order)| self.free(frame, order, slot));
        }
        free_run(self, frames, slot)
    }

    fn drain(&self, slot: Slot) -> Result<(), BadSlot> {
        self.check_slot(slot)?;
        let mut zone = self.lock();
        for at in 0..zone.cached.len() {
            if zone.cached[at] as usize == slot.0 + 1 {
                zone.cached[at] = 0;
            }
        }
        if is::<WRONG>(Bug::DrainLosesAFrame) {
            // A frame next to one in use, as a magazine would hold.
            let states = zone.frames();
            let near = states.windows(2).position(|pair| pair == [ALLOCATED, FREE]);
            if let Some(at) = near {
                zone.set(at + 1..at + 2, ALLOCATED);
            }
        }
        Ok(())
    }

    fn offline(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        let range = self.huge_frames(first, count)?;
        match () {
            () if LIMITED && !is::<WRONG>(Bug::DeclaredAwayWorks) => Err(OfflineError::Unsupported),
            () if self.switch(range.clone(), FREE, OFFLINE) => Ok(()),
            () => {
                let used = self.lock().frames()[range.clone()].iter().position(|&s| s != FREE);
                let used = used.filter(|_| !is::<WRONG>(Bug::WrongFrameInUse));
                let index = range.start + used.unwrap_or(0);
                Err(OfflineError::InUse(FrameId(self.config.start.0 + index)))
            }
        }
    }

    fn online(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        let range = self.huge_frames(first, count)?;
        match () {
            () if LIMITED => Err(OfflineError::Unsupported),
            () if is::<WRONG>(Bug::OnlineLosesMemory)
                && self.switch(range.clone(), OFFLINE, ALLOCATED) =>
            {
                Ok(())
            }
            () if self.switch(range, OFFLINE, FREE) => Ok(()),
            () => Err(OfflineError::NotOffline),
        }
    }

    fn isolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        let units = self.isolable(first, count)?;
        let mut zone = self.lock();
        for (huge, unit) in units.clone() {
            if zone.frames()[unit.start] == OFFLINE {
                return Err(IsolateError::Offline(huge));
            }
            let index = zone.huge_index(zone.start + unit.start);
            if zone.isolated[index] && !is::<WRONG>(Bug::IsolatedTwice) {
                return Err(IsolateError::Isolated(huge));
            }
            if is::<WRONG>(Bug::IsolatesSome) {
                zone.set_isolated(unit, true);
            }
        }
        units.for_each(|(_, unit)| zone.set_isolated(unit, true));
        Ok(())
    }

    fn unisolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        let units = self.isolable(first, count)?;
        let mut zone = self.lock();
        zone.all_isolated(units.clone())?;
        for (_, unit) in units {
            match is::<WRONG>(Bug::IsolationLosesMemory) {
                true => zone.isolated_huge_of(&unit, false),
                false => zone.set_isolated(unit, false),
            }
        }
        Ok(())
    }

    fn claim_isolated(
        &self,
        first: HugeId,
        count: usize,
        claim: Claim,
    ) -> Result<(), IsolateError> {
        if let Claim::Block(slot) = claim {
            self.check_slot(slot).map_err(|BadSlot(slot)| IsolateError::BadSlot(slot))?;
        }
        let units = self.isolable(first, count)?;
        let mut zone = self.lock();
        zone.all_isolated(units.clone())?;
        for (_, unit) in units.clone() {
            let used = zone.frames()[unit.clone()].iter().position(|&state| state != KEPT);
            if let Some(used) = used.filter(|_| !is::<WRONG>(Bug::ClaimedInUse)) {
                let frame = FrameId(self.config.start.0 + unit.start + used);
                return Err(IsolateError::InUse(frame));
            }
        }
        for (huge, unit) in units {
            zone.set_isolated(unit.clone(), false);
            match claim {
                Claim::Block(_) => zone.take(huge.first::<G>(), Order::huge::<G>(), Class(0)),
                Claim::Offline => zone.set(unit, OFFLINE),
            }
        }
        Ok(())
    }

    fn is_isolated(&self, huge: HugeId) -> bool {
        let first = self.config.start.0 / G::HUGE_FRAMES;
        let index = huge.0.checked_sub(first);
        index.and_then(|index| self.lock().isolated.get(index).copied()).unwrap_or(false)
    }

    fn used_map(&self, frame: FrameId) -> u64 {
        let zone = self.lock();
        let is_used = |bit: &usize| {
            let index = (frame.0 & !63 | bit).checked_sub(zone.start);
            index.and_then(|index| zone.frames().get(index)) == Some(&ALLOCATED)
        };
        (0..64).filter(is_used).fold(0, |map, bit| map | 1 << bit)
    }

    fn is_available(&self, order: Order) -> bool {
        if order > Order::max::<G>() {
            return false;
        }
        let zone = self.lock();
        if is::<WRONG>(Bug::AvailableTooCautious) && zone.free < 2 * G::HUGE_FRAMES {
            return order.0 == 0 && zone.free > 0;
        }
        let size = order.frames();
        let first = zone.start.checked_next_multiple_of(size).unwrap_or(usize::MAX);
        let end = zone.start + zone.len;
        zone.free >= size
            && (first..end.saturating_sub(size - 1)).step_by(size).any(|frame| {
                let range = frame - zone.start..frame - zone.start + size;
                zone.huge_free[zone.huge_index(frame)] > 0
                    && zone.frames()[range].iter().all(|&state| state == FREE)
            })
    }

    fn free_frames(&self) -> usize {
        self.lock().free
    }

    fn stats(&self) -> Stats {
        let zone = self.lock();
        let mut stats = Stats { free_frames: zone.free, ..Stats::default() };
        let whole = self.config.huge_range::<G>();
        for (n, &free) in zone.huge_free.iter().enumerate() {
            let number = self.config.start.0 / G::HUGE_FRAMES + n;
            let unit = zone.unit(number, G::HUGE_FRAMES);
            let class = zone.classes[zone.tree_index(zone.start + unit.start)];
            let class = class.filter(|_| !LIMITED).unwrap_or(Class::MOVABLE);
            let entry = &mut stats.classes[(class.0 as usize).min(MAX_CLASSES - 1)];
            let cut = is::<WRONG>(Bug::PartialHugeNotCounted) && unit.len() < G::HUGE_FRAMES;
            entry.free_frames += if cut { 0 } else { free };
            if (whole.start.0..whole.end.0).contains(&number) {
                let is_free = free == G::HUGE_FRAMES;
                entry.free_huge += usize::from(is_free);
                stats.free_huge += usize::from(is_free);
                let is_offline = zone.frames()[unit.start] == OFFLINE;
                stats.offline_huge += usize::from(is_offline);
                stats.isolated_huge += usize::from(zone.isolated[n]);
                let kept = zone.frames()[unit].iter().filter(|&&state| state == KEPT);
                stats.isolated_frames += kept.count();
            }
        }
        for class in &zone.classes {
            let class = class.filter(|_| !LIMITED).unwrap_or(Class::MOVABLE);
            stats.classes[class.0 as usize].trees += 1;
        }
        stats
    }

    fn is_free(&self, frame: FrameId, order: Order) -> bool {
        let legal = order <= Order::max::<G>()
            && frame.is_aligned(order)
            && self.config.contains(frame, order);
        let zone = self.lock();
        legal && zone.frames()[zone.index(frame, order)].iter().all(|&state| state == FREE)
    }

    fn free_in_huge(&self, huge: HugeId) -> usize {
        let first = self.config.start.0 / G::HUGE_FRAMES;
        let zone = self.lock();
        let free = huge.0.checked_sub(first).and_then(|n| zone.huge_free.get(n)).copied();
        if is::<WRONG>(Bug::OfflineCountsAsFree) && free == Some(0) {
            let unit = zone.unit(huge.0, G::HUGE_FRAMES);
            if zone.frames()[unit.start] == OFFLINE {
                return unit.len();
            }
        }
        free.unwrap_or(0)
    }
}

impl<G: Geometry, const LIMITED: bool, const WRONG: bool> Construct
    for Reference<G, LIMITED, WRONG>
{
    fn metadata_size(config: &ZoneConfig) -> Result<MetadataSize, InitError> {
        if config.frames == 0 {
            assert!(!is::<WRONG>(Bug::EmptyZonePanics), "attempt to subtract with overflow");
            return Err(InitError::EmptyZone);
        }
        if config.slots == 0 {
            return Err(InitError::NoSlots);
        }
        if config.slots > MAX_SLOTS {
            return Err(InitError::TooManySlots);
        }
        match config.start.0.checked_add(config.frames) {
            Some(end) if end <= MAX_FRAMES => {}
            _ => return Err(InitError::ZoneTooLarge),
        }
        Ok(MetadataSize { durable: config.frames, volatile: 64 })
    }

    unsafe fn construct(
        config: &ZoneConfig,
        metadata: RawMetadata,
        init: Init,
    ) -> Result<Self, InitError> {
        let size = Self::metadata_size(config)?;
        if is::<WRONG>(Bug::RefusedInitWrites) && metadata.durable.1 > 0 {
            // SAFETY: the caller promises valid memory; that it should not be written is the bug.
            unsafe { metadata.durable.0.write_volatile(0) };
        }
        if !is::<WRONG>(Bug::ShortMetadataAccepted) {
            metadata.check(size)?;
        } else if metadata.durable.1 >= size.durable {
            let volatile = (metadata.volatile.0, size.volatile);
            RawMetadata { volatile, ..metadata }.check(size)?;
        } else {
            metadata.check(size)?;
        }
        if LIMITED && init != Init::Free {
            return Err(InitError::Unsupported);
        }
        let len = config.frames;
        let trees = |end: usize| end / G::TREE_FRAMES - config.start.0 / G::TREE_FRAMES + 1;
        let huges = |end: usize| end / G::HUGE_FRAMES - config.start.0 / G::HUGE_FRAMES + 1;
        let last = config.end().0 - 1;
        let mut zone = Zone {
            start: config.start.0,
            bytes: metadata.durable.0,
            len,
            free: 0,
            huge_free: Vec::new(),
            first_free: vec![0; huges(last)],
            classes: vec![None; trees(last)],
            heads: vec![0; len],
            cached: vec![0; len],
            whole: vec![false; huges(last)],
            splitting: vec![false; huges(last)],
            isolated: vec![false; huges(last)],
            geometry: PhantomData,
        };
        match init {
            Init::Free if is::<WRONG>(Bug::FreshZoneNotCleared) => {}
            Init::Free => zone.frames_mut().fill(FREE),
            Init::Allocated => zone.frames_mut().fill(ALLOCATED),
            Init::Recover => recover(&mut zone, config),
        }
        zone.recount();
        if init != Init::Free {
            // What is in use is of some class; which, nobody knows.
            for tree in 0..zone.classes.len() {
                zone.classes[tree] = Some(Class(0));
                let unit = zone.unit(config.start.0 / G::TREE_FRAMES + tree, G::TREE_FRAMES);
                zone.forget_class(unit);
            }
        }
        Ok(Self { config: *config, zone: Mutex::new(zone) })
    }
}
