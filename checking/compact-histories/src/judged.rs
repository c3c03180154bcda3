//! An allocator whose isolation is watched, perhaps with a seeded defect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use woodlot_frame::atomics::{AtomicU64, Ordering::SeqCst};
use woodlot_frame::{
    AllocError, BadSlot, Claim, FrameAllocator, FrameId, FreeError, Geometry, HugeId, IsolateError,
    Order, Request, Slot, Unsupported, forward,
};

use crate::defect::Defect;

/// Knows when each huge frame is isolated: its count is odd then.
pub struct Judged<A> {
    zone: A,
    defect: Defect,
    counts: Vec<AtomicU64>,
    calls: Mutex<Calls>,
}

/// Which calls are under way, by when they began.
#[derive(Default)]
struct Calls {
    clock: u64,
    began: BTreeSet<u64>,
    /// When each huge frame was isolated last.
    isolated: BTreeMap<usize, u64>,
}

impl Calls {
    fn begin(&mut self) -> u64 {
        self.clock += 1;
        self.began.insert(self.clock);
        self.clock
    }
}

impl<A: FrameAllocator> Judged<A> {
    pub fn new(zone: A, defect: Defect) -> Self {
        let end = zone.zone().huge_range::<A::Geometry>().end.0;
        let counts = (0..end).map(|_| AtomicU64::new(0)).collect();
        Self { zone, defect, counts, calls: Mutex::default() }
    }

    fn snapshot(&self) -> Vec<u64> {
        self.counts.iter().map(|count| count.load(SeqCst)).collect()
    }

    /// Huge frames whose isolation no call under way has begun before: such a call may still take their frames to its slot.
    fn firm(&self) -> Vec<bool> {
        let calls = self.calls.lock().expect("nobody panics with it");
        let first = calls.began.first().copied().unwrap_or(u64::MAX);
        (0..self.counts.len())
            .map(|huge| calls.isolated.get(&huge).is_some_and(|&at| at < first))
            .collect()
    }

    /// A call that may take credits.
    fn call<T>(&self, does: impl FnOnce() -> T) -> T {
        let began = self.calls.lock().expect("nobody panics with it").begin();
        let result = does();
        self.calls.lock().expect("nobody panics with it").began.remove(&began);
        result
    }

    /// An allocation, perhaps from a huge frame that is isolated.
    fn alloc_somehow(&self, request: Request) -> Result<FrameId, AllocError> {
        let isolated = self.counts.iter().position(|count| count.load(SeqCst) % 2 == 1);
        if let (Defect::IsolatedIsHandedOut, Some(huge)) = (self.defect, isolated) {
            let first = huge * A::Geometry::HUGE_FRAMES;
            let within = request.within(FrameId(first)..FrameId(first + A::Geometry::HUGE_FRAMES));
            let _ = self.zone.unisolate(HugeId(huge), 1);
            let result = self.zone.alloc(within);
            let _ = self.zone.isolate(HugeId(huge), 1);
            return result;
        }
        self.zone.alloc(request)
    }
}

impl<A: FrameAllocator> FrameAllocator for Judged<A> {
    type Geometry = A::Geometry;
    const NAME: &'static str = A::NAME;
    const UNSUPPORTED: Unsupported = A::UNSUPPORTED;

    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        let (before, firm) = (self.snapshot(), self.firm());
        let frame = self.call(|| self.alloc_somehow(request))?;
        let huge = frame.huge::<A::Geometry>().0;
        let after = self.counts[huge].load(SeqCst);
        // Isolated from before the call to behind it.
        let isolated = after % 2 == 1 && after == before[huge] && firm[huge];
        assert!(!isolated, "frame {frame} of an isolated huge frame was handed out");
        Ok(frame)
    }

    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        self.call(|| self.zone.free(frame, order, slot))
    }

    fn drain(&self, slot: Slot) -> Result<(), BadSlot> {
        self.call(|| self.zone.drain(slot))
    }

    fn isolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        match self.zone.isolate(first, count) {
            Err(IsolateError::Isolated(_)) if self.defect == Defect::IsolatesTwice => {}
            other => other?,
        }
        for huge in first.0..first.0 + count {
            let before = self.counts[huge].fetch_add(1, SeqCst);
            assert_eq!(before % 2, 0, "huge frame {huge} was isolated twice");
            let mut calls = self.calls.lock().expect("nobody panics with it");
            calls.clock += 1;
            let now = calls.clock;
            calls.isolated.insert(huge, now);
        }
        Ok(())
    }

    fn unisolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        for huge in first.0..first.0 + count {
            let before = self.counts[huge].fetch_add(1, SeqCst);
            assert_eq!(before % 2, 1, "huge frame {huge} is given back, but was not isolated");
        }
        let result = self.zone.unisolate(first, count);
        assert!(result.is_ok(), "{result:?}, but it was isolated");
        result
    }

    fn claim_isolated(&self, first: HugeId, count: usize, to: Claim) -> Result<(), IsolateError> {
        let counts = &self.counts[first.0..first.0 + count];
        for (huge, isolations) in (first.0..).zip(counts) {
            let before = isolations.fetch_add(1, SeqCst);
            assert_eq!(before % 2, 1, "huge frame {huge} is claimed, but was not isolated");
        }
        let result = self.zone.claim_isolated(first, count, to);
        if result.is_err() {
            counts.iter().for_each(|isolations| _ = isolations.fetch_sub(1, SeqCst));
        }
        result
    }

    forward!(zone: zone, largest_at, can_free, offline, online);
    forward!(zone: is_isolated, frames_in_use, used_map);
    forward!(zone: is_available, free_frames, stats, is_free, free_map, free_in_huge);
}
