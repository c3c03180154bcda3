//! Engines with a seeded defect each, which the histories must find.

use std::ops::Range;
use woodlot_frame::atomics::{AtomicU64, Ordering::SeqCst};

use woodlot_frame::{
    AllocError, BadSlot, Batch, Class, FrameAllocator, FrameId, FreeError, Geometry, HugeFlags,
    HugeId, OfflineError, Order, Place, Prefer, RangeRequest, Reclaim, Request, Slot, Stats,
    Unsupported, alloc_each, alloc_run, blocks, forward, free_run,
};

use crate::reclaim::{Called, Reclaims};
use crate::seeding::defects;

defects! {
    /// An allocation looks for a free block, claims it, and does not ask whether it was first.
    LostRaceSucceeds: ", not nobody's" | " was thread ",
    /// An allocation looks for a free block, claims it, and gives up if another one was first.
    LostRaceIsOutOfMemory: " was refused, but was there all the time",
    /// An allocation gives up while two others are under way.
    BusyIsOutOfMemory: " was refused, but was there all the time",
    /// A batch that cannot be had in full keeps its first block.
    FailedBatchKeepsABlock: ") is false, but should be true" | "free_frames",
    /// An allocation waits until no free is under way.
    WaitsForFrees: " stands still",
    /// A free is refused while another one is under way in the same huge frame.
    RacingFreeRefused: ": NotAllocated(",
    /// The count of free frames is read, changed and written back in steps.
    TornCount: "free_frames",
    /// A huge frame goes offline if it was free a moment ago.
    OfflineTooLate: ", as it becomes offline" | ") is true, but should be false",
    /// A free of what is offline puts it back.
    OfflineFreed: ", not Offline(",
    /// A drain that meets an allocation loses a frame.
    DrainLosesAFrame: ") is false, but should be true" | "free_frames",
    /// A freed block of order 2 is free in halves, one after the other, and the second half only if
    /// no allocation is under way. Where there are no partial frees none is.
    HalfFreed: ") is false, but should be true" | "free_frames",
    /// A run that cannot be had in full keeps its first block.
    FailedRunKeepsABlock: ") is false, but should be true" | "free_frames",
    /// A run succeeds though one of its blocks was lost to another allocation.
    RunWithALostBlock: ", not nobody's" | " was thread ",
    /// A run that loses one of its blocks looks for no other place.
    LostRunIsOutOfMemory: " was refused, but was there all the time",
    /// A run that loses one of its blocks frees that one, too.
    UndoFreesTheLostBlock: ", not nobody's" | " was thread " | ") is true, but should be false",
    /// A free of a run leaves its last block.
    RunFreedButForABlock: ") is false, but should be true" | "free_frames",
    /// A free of a run finds out as it goes along that a block cannot be freed.
    RunFreedInPart: " is true, but should be false" | ", not nobody's" | "NotAllocated(",
    /// A run may lie behind its window.
    RunLeavesItsWindow: "is not what was asked for",
    /// Every huge frame is said to be zero when it is allocated. Where nothing is reclaimed none is.
    AllIsZero: " is said to be zero",
    /// A hard reclaim names the last one twice. Where nothing is reclaimed none is.
    ReclaimedTwice: ", as it becomes offline",
    /// A hard reclaim of several finds one less than it could. Where nothing is reclaimed none does.
    ReclaimMissesOne: " was refused, but was there all the time",
    /// What a hard reclaim takes is not said to be without memory. Where nothing is reclaimed none is.
    GoneIsBacked: "its flags are not",
    /// Who allocates a huge frame without memory is not told. Where nothing is reclaimed all have some.
    GoneIsNotTold: " has no memory, and that is not told",
    /// Every huge frame is said to be zero to who looks. Where nothing is reclaimed nobody looks.
    AllLooksZero: " is said to be zero",
}

impl Defect {
    /// Is it one of partial frees, or of reclaim, which not every engine has?
    pub fn is_partial_or_reclaim(self) -> bool {
        matches!(
            self,
            Defect::HalfFreed
                | Defect::AllIsZero
                | Defect::ReclaimedTwice
                | Defect::ReclaimMissesOne
                | Defect::GoneIsBacked
                | Defect::GoneIsNotTold
                | Defect::AllLooksZero
        )
    }
}

/// How long a run is looked at before it is claimed.
const LOOKS: usize = 16;

/// An allocator with a defect.
pub struct Seeded<A> {
    zone: A,
    defect: Defect,
    /// Allocations under way.
    allocating: AtomicU64,
    /// Frees under way, or the huge frame in which one is.
    freeing: AtomicU64,
    /// Free frames more or less than at the beginning.
    count: AtomicU64,
    first_count: u64,
}

impl<A: FrameAllocator> Seeded<A> {
    /// Puts a defect into an allocator.
    pub fn new(zone: A, defect: Defect) -> Self {
        let word = || AtomicU64::new(0);
        let first_count = zone.stats().free_frames as u64;
        Self { zone, defect, allocating: word(), freeing: word(), count: word(), first_count }
    }

    fn is(&self, defect: Defect) -> bool {
        self.defect == defect
    }

    /// A free block of the order, at this moment.
    fn look(&self, order: Order) -> Option<FrameId> {
        let zone = self.zone.zone().range();
        let blocks = (zone.start.0.next_multiple_of(order.frames())..zone.end.0).map(FrameId);
        blocks.step_by(order.frames()).find(|&frame| self.zone.is_free(frame, order))
    }

    fn counted(&self, change: i64) {
        if self.is(Defect::TornCount) {
            let now = self.count.load(SeqCst);
            self.count.store(now.wrapping_add_signed(change), SeqCst);
        }
    }

    fn allocate(&self, request: Request, others: u64) -> Result<FrameId, AllocError> {
        let found = || {
            let zone = self.zone.zone();
            let legal = request.place == Place::Anywhere
                && request.order <= Order::max::<A::Geometry>()
                && request.slot.0 < zone.slots
                && zone.classes.has(request.class);
            self.look(request.order).filter(|_| legal)
        };
        match self.defect {
            Defect::LostRaceSucceeds => {
                let Some(frame) = found() else { return self.zone.alloc(request) };
                let checked = self.zone.alloc(request.at(frame));
                checked.or_else(|error| match error {
                    AllocError::InUse(frame) => Ok(frame),
                    error => Err(error),
                })
            }
            Defect::LostRaceIsOutOfMemory => {
                let Some(frame) = found() else { return self.zone.alloc(request) };
                let claimed = self.zone.alloc(request.at(frame));
                claimed.map_err(|error| match error {
                    AllocError::InUse(_) => AllocError::OutOfMemory,
                    error => error,
                })
            }
            Defect::BusyIsOutOfMemory if others > 1 && found().is_some() => {
                Err(AllocError::OutOfMemory)
            }
            _ => self.zone.alloc(request),
        }
    }
}

// ---- Runs ----

impl<A: FrameAllocator> Seeded<A> {
    /// Claims a run that is free at this moment, and may lose it; `None` where none is, or the request is
    /// for a certain place.
    fn claim(&self, request: RangeRequest) -> Option<Result<Range<FrameId>, AllocError>> {
        let config = self.zone.zone();
        let legal = request.place == Place::Anywhere
            && request.frames > 0
            && request.slot.0 < config.slots
            && config.classes.has(request.class);
        let fits = |run: &Range<FrameId>| {
            let start = run.start.0.checked_next_multiple_of(request.align.frames())?;
            (start + request.frames <= run.end.0)
                .then(|| FrameId(start)..FrameId(start + request.frames))
        };
        let run =
            self.zone.free_runs(config.range()).filter(|_| legal).find_map(|run| fits(&run))?;
        // Others go on meanwhile, and may take a part of it: each look is a place where they do.
        (0..LOOKS).for_each(|_| _ = self.allocating.load(SeqCst));
        let blocks: Vec<_> = blocks::<A::Geometry>(run.clone()).collect();
        let block = |order| Request::new(order, request.class, request.slot);
        let claim =
            |&&(frame, order): &&(FrameId, Order)| self.alloc(block(order).at(frame)).is_ok();
        let taken = blocks.iter().take_while(claim).count();
        if taken == blocks.len() || self.is(Defect::RunWithALostBlock) {
            // What lies behind a lost block is taken as well, where it is free.
            blocks.iter().skip(taken + 1).for_each(|block| _ = claim(&block));
            return Some(Ok(run));
        }
        let undone = match self.defect {
            Defect::FailedRunKeepsABlock => 1..taken.max(1),
            Defect::UndoFreesTheLostBlock => 0..taken + 1,
            _ => 0..taken,
        };
        for &(frame, order) in &blocks[undone] {
            let _ = self.free(frame, order, request.slot);
        }
        Some(Err(AllocError::OutOfMemory))
    }

    /// Frees block after block, up to one that cannot be freed.
    fn free_each_block(&self, frames: Range<FrameId>, slot: Slot) -> Result<(), FreeError> {
        let mut rest = frames;
        while rest.start < rest.end {
            let can = |order: &Order| {
                order.frames() <= rest.end.0 - rest.start.0
                    && self.zone.can_free(rest.start, *order, slot).is_ok()
            };
            let Some(order) = Order::all::<A::Geometry>().rev().find(can) else {
                return free_run(self, rest, slot);
            };
            self.free(rest.start, order, slot)?;
            rest.start.0 += order.frames();
        }
        Ok(())
    }
}

// ---- Reclaim ----

impl<A: Called> Called for Seeded<A> {
    fn reclaiming(&self) -> Option<&dyn Reclaims> {
        self.zone.reclaiming().map(|_| self as &dyn Reclaims)
    }
}

impl<A: Called> Seeded<A> {
    fn reclaims(&self) -> &dyn Reclaims {
        self.zone.reclaiming().expect("it is asked for where there is one")
    }
}

impl<A: Called> Reclaims for Seeded<A> {
    fn flags(&self, huge: HugeId) -> HugeFlags {
        let HugeFlags { reclaimed, zeroed } = self.reclaims().flags(huge);
        HugeFlags {
            reclaimed: reclaimed && !self.is(Defect::GoneIsBacked),
            zeroed: zeroed || self.is(Defect::AllLooksZero),
        }
    }

    fn set_flags(&self, huge: HugeId, flags: HugeFlags) -> Result<(), OfflineError> {
        self.reclaims().set_flags(huge, flags)
    }

    fn alloc_preferring(
        &self,
        request: Request,
        prefer: Prefer,
    ) -> Result<(FrameId, HugeFlags), AllocError> {
        let is_huge = request.order >= Order::huge::<A::Geometry>();
        let (frame, flags) = self.reclaims().alloc_preferring(request, prefer)?;
        let zeroed = flags.zeroed || is_huge && self.is(Defect::AllIsZero);
        let reclaimed = flags.reclaimed && !self.is(Defect::GoneIsNotTold);
        Ok((frame, HugeFlags { reclaimed, zeroed }))
    }

    fn reclaim(&self, mode: Reclaim, out: &mut [HugeId]) -> usize {
        let misses = mode == Reclaim::Hard && self.is(Defect::ReclaimMissesOne) && out.len() > 1;
        let wanted = out.len() - usize::from(misses);
        let count = self.reclaims().reclaim(mode, &mut out[..wanted]);
        let again = mode == Reclaim::Hard && self.is(Defect::ReclaimedTwice);
        if again && (1..out.len()).contains(&count) {
            out[count] = out[count - 1];
            return count + 1;
        }
        count
    }

    fn give(&self, frames: &[HugeId], flags: HugeFlags) -> Result<(), OfflineError> {
        self.reclaims().give(frames, flags)
    }
}

impl<A: FrameAllocator> FrameAllocator for Seeded<A> {
    type Geometry = A::Geometry;

    const NAME: &'static str = A::NAME;

    const UNSUPPORTED: Unsupported = A::UNSUPPORTED;

    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        while self.is(Defect::WaitsForFrees) && self.freeing.load(SeqCst) != 0 {}
        let others = self.allocating.fetch_add(1, SeqCst);
        let answer = self.allocate(request, others);
        self.allocating.fetch_sub(1, SeqCst);
        if answer.is_ok() {
            self.counted(-(request.order.frames() as i64));
        }
        answer
    }

    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        if self.is(Defect::RacingFreeRefused) {
            let huge = frame.huge::<A::Geometry>().0 as u64 + 1;
            if self.freeing.swap(huge, SeqCst) == huge {
                return Err(FreeError::NotAllocated(frame));
            }
            let answer = self.zone.free(frame, order, slot);
            self.freeing.store(0, SeqCst);
            return answer;
        }
        if self.is(Defect::HalfFreed) && order.0 == 2 {
            self.zone.free(frame, Order(1), slot)?;
            return match self.allocating.load(SeqCst) {
                0 => self.zone.free(FrameId(frame.0 + 2), Order(1), slot),
                _ => Ok(()),
            };
        }
        self.freeing.fetch_add(1, SeqCst);
        let answer = self.zone.free(frame, order, slot);
        self.freeing.fetch_sub(1, SeqCst);
        if answer.is_ok() {
            self.counted(order.frames() as i64);
        }
        match answer {
            Err(FreeError::Offline(_)) if self.is(Defect::OfflineFreed) => {
                let _ = self.zone.online(frame.huge::<A::Geometry>(), 1);
                Ok(())
            }
            answer => answer,
        }
    }

    fn alloc_batch(
        &self,
        request: Request,
        batch: Batch,
        out: &mut [FrameId],
    ) -> Result<usize, AllocError> {
        if !self.is(Defect::FailedBatchKeepsABlock) || batch == Batch::UpTo {
            return alloc_each(self, request, batch, out);
        }
        let taken = alloc_each(self, request, Batch::UpTo, out)?;
        if taken == out.len() {
            return Ok(taken);
        }
        for &frame in &out[1..taken] {
            let _ = self.free(frame, request.order, request.slot);
        }
        Err(AllocError::OutOfMemory)
    }

    fn alloc_range(&self, request: RangeRequest) -> Result<Range<FrameId>, AllocError> {
        match (self.defect, request.place) {
            (Defect::LostRunIsOutOfMemory | Defect::RunWithALostBlock, _) => {
                self.claim(request).unwrap_or_else(|| alloc_run(self, request))
            }
            (Defect::FailedRunKeepsABlock | Defect::UndoFreesTheLostBlock, _) => {
                match self.claim(request) {
                    Some(Ok(run)) => Ok(run),
                    _ => alloc_run(self, request),
                }
            }
            (Defect::RunLeavesItsWindow, Place::Within { start, end }) if start < end => {
                let place = Place::Within { start, end: FrameId(end.0.saturating_add(1)) };
                alloc_run(self, RangeRequest { place, ..request })
            }
            _ => alloc_run(self, request),
        }
    }

    fn free_range(&self, frames: Range<FrameId>, slot: Slot) -> Result<(), FreeError> {
        match self.defect {
            Defect::RunFreedButForABlock => {
                let last = blocks::<A::Geometry>(frames.clone()).last();
                match last.filter(|last| last.0 > frames.start) {
                    Some((last, _)) => free_run(self, frames.start..last, slot),
                    None => free_run(self, frames, slot),
                }
            }
            Defect::RunFreedInPart if frames.start < frames.end => {
                self.free_each_block(frames, slot)
            }
            _ => free_run(self, frames, slot),
        }
    }

    fn drain(&self, slot: Slot) -> Result<(), BadSlot> {
        if self.is(Defect::DrainLosesAFrame) && self.allocating.load(SeqCst) != 0 {
            let _ = self.zone.alloc(Request::new(Order(0), Class(0), slot));
        }
        self.zone.drain(slot)
    }

    fn offline(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        if self.is(Defect::OfflineTooLate) {
            let frames = A::Geometry::HUGE_FRAMES;
            let free = |huge| self.zone.free_in_huge(HugeId(huge)) == frames;
            if (first.0..first.0 + count).all(free) {
                let _ = self.zone.offline(first, count);
                return Ok(());
            }
        }
        let answer = self.zone.offline(first, count);
        if answer.is_ok() {
            self.counted(-((count << A::Geometry::HUGE_ORDER) as i64));
        }
        answer
    }

    fn online(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        let answer = self.zone.online(first, count);
        if answer.is_ok() {
            self.counted((count << A::Geometry::HUGE_ORDER) as i64);
        }
        answer
    }

    fn free_frames(&self) -> usize {
        if self.is(Defect::TornCount) {
            let count = self.first_count.wrapping_add(self.count.load(SeqCst));
            return (count as usize).min(self.zone().frames);
        }
        self.zone.free_frames()
    }

    fn stats(&self) -> Stats {
        let stats = self.zone.stats();
        match self.is(Defect::TornCount) {
            true => Stats { free_frames: self.free_frames(), ..stats },
            false => stats,
        }
    }

    forward!(zone: zone, largest_at, can_free);
    forward!(zone: isolate, unisolate, claim_isolated, is_isolated, frames_in_use, used_map);
    forward!(zone: is_available, is_free, free_map, free_in_huge);
}
