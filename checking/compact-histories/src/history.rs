//! One history: threads that allocate, free, pin and read beside two compactions, and what must be true.
//!
//! ```text
//!   workers      allocate, free, pin, read ──►  owner: of whom is each frame, and what does it say
//!   compactors   a target, some steps, perhaps cancelled ──►  judged: who has isolated what
//! ```
//!
//! At the end all blocks have their content, everything is freed, nothing is isolated, and every count is right.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fastrand::Rng;
use shuttle::thread;
use woodlot_compact::{Candidate, Compaction, Manner, Setup, Step, Target};
use woodlot_frame::{FrameAllocator, Geometry, HugeId, Init, Order, Request, Slot, ZoneConfig};
use woodlot_histories::engine::{Family, OfLLFree, OfOneWrite, Tiny};

use crate::defect::Defect;
use crate::judged::Judged;
use crate::owner::{Owner, Side};

/// What histories have done.
#[derive(Default)]
pub struct Figures {
    pub schedules: AtomicU64,
    pub calls: AtomicU64,
    pub moves: AtomicU64,
    pub won: AtomicU64,
    /// Huge frames that were the compaction's in the end.
    pub kept: AtomicU64,
    /// Huge frames that the other compaction had.
    pub taken: AtomicU64,
    pub gone: AtomicU64,
    pub failed: AtomicU64,
    pub cancelled: AtomicU64,
}

/// Huge frames of 16 frames, trees of four.
type Geo = Tiny<HUGE_ORDER, 4>;
const HUGE_ORDER: u32 = 4;

/// Blocks of each worker.
const BLOCKS: usize = 24;
const COMPACTORS: usize = 2;

struct World<F: Family> {
    zone: Judged<F::Zone<'static, Geo>>,
    owner: Owner,
    figures: Arc<Figures>,
}

/// Runs the history of a seed, under the schedule that shuttle makes: over LLFree, or over the one-write engine.
pub fn run(seed: u64, defect: Defect, figures: &Arc<Figures>) {
    // The lower bits choose the schedule.
    let over = if seed & 8 == 0 { run_over::<OfLLFree> } else { run_over::<OfOneWrite> };
    over(seed, defect, figures);
}

fn run_over<F>(seed: u64, defect: Defect, figures: &Arc<Figures>)
where
    F: Family,
    F::Zone<'static, Geo>: Send,
{
    let mut random = Rng::with_seed(seed);
    let workers = random.usize(1..=2);
    let huge = random.usize(3..=5);
    let config = ZoneConfig::new(huge * Geo::HUGE_FRAMES, workers + COMPACTORS);
    // After a panic shuttle unwinds its threads in any order, so that the words may go with none of them.
    let words = Box::into_raw(Box::new(F::words::<Geo>(&config)));
    // SAFETY: they are freed last, when all threads have ended.
    let zone = F::zone::<Geo>(unsafe { &*words }, &config, Init::Free, random.u8(1..5));
    let owner = Owner::new(workers * BLOCKS, config.frames, defect);
    let world =
        Arc::new(World::<F> { zone: Judged::new(zone, defect), owner, figures: figures.clone() });
    for worker in 0..workers {
        world.fill(worker, &mut random);
    }
    let start = |number: usize| {
        let (world, mut random) = (world.clone(), random.fork());
        thread::spawn(move || match number < workers {
            true => world.work(number, &mut random),
            false => world.compact(Slot(number), &mut random),
        })
    };
    let threads: Vec<_> = (0..workers + COMPACTORS).map(start).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("a panic ends all"));
    world.settle(workers);
    world.figures.schedules.fetch_add(1, Relaxed);
    drop(world);
    // SAFETY: nobody else is left, and nobody panicked.
    drop(unsafe { Box::from_raw(words) });
}

impl<F: Family> World<F> {
    fn blocks(worker: usize) -> Range<usize> {
        worker * BLOCKS..(worker + 1) * BLOCKS
    }

    /// Blocks all over the zone, so that there is something to move.
    fn fill(&self, worker: usize, random: &mut Rng) {
        Self::blocks(worker).for_each(|id| self.alloc(id, worker, random));
        Self::blocks(worker).filter(|_| random.u8(..3) > 0).for_each(|id| self.free(id, worker));
    }

    fn alloc(&self, id: usize, worker: usize, random: &mut Rng) {
        let order = Order([0, 0, 0, 0, 1, 2, 3][random.usize(..7)]);
        if let Ok(first) = self.zone.alloc(Request::movable(order, Slot(worker))) {
            self.owner.begin(id, first, order);
        }
    }

    fn free(&self, id: usize, worker: usize) {
        if let Some(block) = self.owner.end(id) {
            let freed = self.zone.free(block.first, block.order, Slot(worker));
            assert!(freed.is_ok(), "{freed:?}, but block {id} was owned");
            self.owner.ended(id);
        }
    }

    fn work(&self, worker: usize, random: &mut Rng) {
        for _ in 0..random.usize(8..40) {
            self.figures.calls.fetch_add(1, Relaxed);
            let id = Self::blocks(worker).start + random.usize(..BLOCKS);
            match random.u8(..8) {
                0..4 if self.owner.is_there(id) => self.free(id, worker),
                0..4 => self.alloc(id, worker, random),
                4 if self.owner.is_there(id) => self.owner.pin(id),
                _ => self.owner.read(random.usize(..self.owner.len())),
            }
        }
    }

    fn compact(&self, slot: Slot, random: &mut Rng) {
        let all = self.zone.zone().huge_range::<Geo>();
        for _ in 0..random.usize(1..=3) {
            let start = random.usize(..all.end.0);
            let target = match random.u8(..4) {
                0 => Target::Range(HugeId(start)..HugeId(random.usize(start + 1..=all.end.0))),
                1 => Target::Block(Order(HUGE_ORDER as u8 + random.u8(..2))),
                _ => Target::Huge(random.usize(1..=all.end.0)),
            };
            let manner = if random.bool() { Manner::Matching } else { Manner::Fingers };
            let mut side = Side {
                owner: &self.owner,
                random: random.fork(),
                fails: [0, 5][random.usize(..2)],
            };
            let mut memory = [Candidate::EMPTY; 8];
            let keep = random.bool();
            let setup = Setup { target, manner, slot, keep, price: usize::MAX };
            let regions = std::iter::once(all.clone());
            let Ok(mut work) = Compaction::plan(setup, &mut memory, &self.zone, &mut side, regions)
            else {
                continue;
            };
            let steps = random.usize(..200);
            let done =
                (0..steps).any(|_| matches!(work.step(&self.zone, &mut side), Step::Done(_)));
            work.cancel(&self.zone);
            let kept = work.kept().inspect(|&huge| self.owner.keep(Self::frames(huge))).count();
            work.kept().for_each(|huge| self.give_back(huge, slot));
            let report = work.report::<Geo>();
            let Figures { calls, moves, won, kept: keeps, taken, gone, failed, cancelled, .. } =
                &*self.figures;
            let counts = [
                steps,
                report.moves,
                report.won,
                kept,
                report.taken,
                report.gone,
                report.failed,
                usize::from(!done),
            ];
            for (figure, count) in
                [calls, moves, won, keeps, taken, gone, failed, cancelled].into_iter().zip(counts)
            {
                figure.fetch_add(count as u64, Relaxed);
            }
        }
    }

    fn frames(huge: HugeId) -> Range<usize> {
        let first = huge.first::<Geo>().0;
        first..first + Geo::HUGE_FRAMES
    }

    /// Frees what a compaction has kept.
    fn give_back(&self, huge: HugeId, slot: Slot) {
        self.owner.disown(Self::frames(huge));
        let freed = self.zone.free(huge.first::<Geo>(), Order::huge::<Geo>(), slot);
        assert!(freed.is_ok(), "{freed:?}, but {huge} was kept");
    }

    fn settle(&self, workers: usize) {
        let all = self.zone.zone().huge_range::<Geo>();
        for huge in (all.start.0..all.end.0).map(HugeId) {
            assert!(!self.zone.is_isolated(huge), "{huge} stays isolated");
        }
        for worker in 0..workers {
            Self::blocks(worker).for_each(|id| self.free(id, worker));
            assert!(!Self::blocks(worker).any(|id| self.owner.is_there(id)), "a block stays");
        }
        let slots = self.zone.zone().slots;
        (0..slots).for_each(|slot| _ = self.zone.drain(Slot(slot)));
        let stats = self.zone.stats();
        assert_eq!(stats.free_frames, self.zone.zone().frames, "frames are lost");
        assert_eq!(stats.free_huge, all.end.0, "huge frames are not whole");
    }
}
