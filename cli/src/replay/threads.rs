//! The replay with a thread for each CPU of the trace.
//!
//! Each thread makes its own CPU's calls in the trace's order. A free waits until the allocation
//! that it belongs to has been made, on whichever thread. Threads stay within [`WINDOW`] steps of
//! each other: in the trace they ran beside each other, and one that ran far ahead would hold
//! memory that the trace never held at once.
//!
//! Nothing can wait for ever: the thread whose next step comes first in the trace waits only for
//! steps before it, which are done.
//!
//! Verified is that no frame is handed out twice, with a bitmap of atomic words that is set after
//! an allocation and cleared before a free, and the whole state at the end. What order calls take
//! effect in differs from run to run, so there is no curve.

use std::thread;
use std::time::Instant;

use woodlot_frame::atomics::{AtomicU32, AtomicU64, Ordering};
use woodlot_frame::{Base4K, Construct, FrameAllocator, FrameId, InitError, Slot};
use woodlot_trace::FrameSet;

use super::manner::Manner;
use super::plan::{Plan, Step};
use super::report::Report;
use super::worker::{Ledger, PROGRESS, Scene, Worker, check_end};

/// How many steps of the trace threads may be apart.
const WINDOW: usize = 1024;

/// How often a waiting thread looks before it lets another one run.
const SPINS: u32 = 100;

/// A block that has not been allocated yet, and one that could not be.
const PENDING: u32 = u32::MAX;
const FAILED: u32 = u32::MAX - 1;

/// Replays and checks the end.
pub fn replay<A: Construct + FrameAllocator<Geometry = Base4K>>(
    plan: &Plan,
    manner: Manner,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Report, InitError> {
    let (scene, owned, refused) = Scene::<A>::new(plan, manner)?;
    let shared = Shared::new(plan, &owned);
    let started = Instant::now();
    let parts: Vec<Report> = thread::scope(|scope| {
        let (scene, shared) = (&scene, &shared);
        let start = |slot| scope.spawn(move || run(plan, scene, shared, Slot(slot), progress));
        let threads: Vec<_> = (0..plan.slots).map(start).collect();
        threads.into_iter().map(|t| t.join().expect("a replay thread does not panic")).collect()
    });
    let mut report = Report::new(A::NAME);
    report.seconds = started.elapsed().as_secs_f64();
    report.checks.of_plan(plan, refused);
    parts.into_iter().for_each(|part| report.add(part));
    check_end(&scene.zones, &shared.owned_now(plan), &mut report.checks);
    Ok(report)
}

/// One thread: the steps of one slot.
fn run<A: Construct + FrameAllocator<Geometry = Base4K>>(
    plan: &Plan,
    scene: &Scene<A>,
    shared: &Shared,
    slot: Slot,
    progress: &(dyn Fn(usize) + Sync),
) -> Report {
    let mut worker = Worker::new(plan, scene, shared);
    let mine = |(_, step): &(usize, &Step)| step.slot == slot;
    for (index, step) in plan.steps.iter().enumerate().filter(mine) {
        shared.next[slot.0].store(index as u64, Ordering::Release);
        shared.wait_for_others(index);
        if worker.report.operations().is_multiple_of(PROGRESS) {
            progress(index);
        }
        worker.step(step.slot, step.action);
    }
    shared.next[slot.0].store(u64::MAX, Ordering::Release);
    worker.report
}

/// The ledger that threads share.
struct Shared {
    /// The frame of each block, [`PENDING`] or [`FAILED`].
    places: Vec<AtomicU32>,
    /// One bit for each frame; 1 = owned.
    owned: Vec<AtomicU64>,
    /// The step that each thread is about to do.
    next: Vec<AtomicU64>,
}

impl Shared {
    fn new(plan: &Plan, owned: &FrameSet) -> Self {
        let word = |word: usize| {
            let bit = |bit: usize| u64::from(owned.contains(word * 64 + bit)) << bit;
            AtomicU64::new((0..64).map(bit).sum())
        };
        Self {
            places: (0..plan.orders.len()).map(|_| AtomicU32::new(PENDING)).collect(),
            owned: (0..plan.frames().div_ceil(64)).map(word).collect(),
            next: (0..plan.slots).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn wait_for_others(&self, index: usize) {
        let oldest = index.saturating_sub(WINDOW) as u64;
        for next in &self.next {
            wait_until(|| (next.load(Ordering::Acquire) >= oldest).then_some(()));
        }
    }

    /// The owned frames, when no thread runs any more.
    fn owned_now(&self, plan: &Plan) -> FrameSet {
        let mut owned = FrameSet::new(plan.frames());
        for (index, word) in self.owned.iter().enumerate() {
            let word = word.load(Ordering::Acquire);
            for bit in (0..64).filter(|bit| word >> bit & 1 == 1) {
                owned.take(index * 64 + bit..index * 64 + bit + 1);
            }
        }
        owned
    }
}

impl Ledger for &Shared {
    /// Waits until the block has been allocated.
    fn place(&self, block: u32) -> Option<usize> {
        let place = &self.places[block as usize];
        let known = |place: u32| (place != PENDING).then_some(place);
        match wait_until(|| known(place.load(Ordering::Acquire))) {
            FAILED => None,
            frame => Some(frame as usize),
        }
    }

    fn set_place(&mut self, block: u32, frame: Option<FrameId>) {
        let place = frame.map_or(FAILED, |frame| frame.0 as u32);
        self.places[block as usize].store(place, Ordering::Release);
    }

    fn take(&mut self, frame: usize, order: u8) -> usize {
        let taken = |frame: usize| {
            let bit = 1 << (frame % 64);
            let word = self.owned.get(frame / 64);
            word.is_none_or(|word| word.fetch_or(bit, Ordering::AcqRel) & bit != 0)
        };
        (frame..frame + (1 << order)).filter(|&frame| taken(frame)).count()
    }

    fn give(&mut self, frame: usize, order: u8) {
        for frame in frame..frame + (1 << order) {
            if let Some(word) = self.owned.get(frame / 64) {
                word.fetch_and(!(1 << (frame % 64)), Ordering::AcqRel);
            }
        }
    }
}

/// Looks again and again, with the CPU at first, then giving way to other threads.
fn wait_until<T>(look: impl Fn() -> Option<T>) -> T {
    let mut looks = 0u32;
    loop {
        if let Some(found) = look() {
            return found;
        }
        looks = looks.saturating_add(1);
        if looks < SPINS {
            std::hint::spin_loop();
        } else {
            thread::yield_now();
        }
    }
}
