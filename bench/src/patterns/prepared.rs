//! A contender with everything that a pattern needs, made and touched before the clock starts; and
//! the patterns in which threads have nothing to do with each other.

use std::sync::Barrier;

use woodlot_frame::{FrameId, Order, Slot};

use super::bursts::{constant_occupancy, in_bursts};
use super::kinds::{Metric, Pattern, Placement};
use super::loops::{ask_in_vain, fill, fill_batches, release, release_batches, repeat, replace};
use super::runner::{Part, Runner, Sample, total};
use super::setup::Setup;
use super::shared::{exit_storm, remote};
use super::steps::{in_phases, ring};
use super::threads::on_threads;
use crate::Failure;
use crate::clock::Tally;
use crate::contender::Contender;
use crate::random::Random;

/// Ready to be measured.
pub struct Prepared<C> {
    pub(super) contender: C,
    setup: Setup,
    random: Random,
    /// The blocks of each thread.
    lists: Vec<Vec<FrameId>>,
    /// Where *near-full* goes on in each list.
    next: usize,
}

/// A loop over a list of blocks.
type Over<'a, C> =
    (fn(&C, Order, Slot, &mut [FrameId]) -> usize, fn(&C, Order, Slot, &[FrameId]) -> usize);

impl<C: Contender> Prepared<C> {
    /// Makes the zone, and fills it where the pattern says so.
    ///
    /// # Errors
    /// What the setup or the contender's limits forbid.
    pub fn new(setup: Setup) -> Result<Self, Failure> {
        setup.check()?;
        let contender = C::new(setup.memory.frames(), setup.slots)?;
        let length = match setup.pattern {
            Pattern::Repeat | Pattern::CachedAllocation | Pattern::Full => 0,
            Pattern::Remote | Pattern::Ring => 0,
            _ => setup.list(),
        };
        // Not zeros, which the system would provide without touching them.
        let lists = (0..setup.threads).map(|_| vec![FrameId(usize::MAX); length]).collect();
        let random = Random::new(setup.seed);
        let mut made = Self { contender, setup, random, lists, next: 0 };
        match setup.pattern {
            Pattern::NearFull => made.fill_nearly()?,
            Pattern::Full => _ = made.fill_wholly(),
            _ => made.occupy()?,
        }
        Ok(made)
    }

    /// Allocates what the setup wants to be in use before.
    fn occupy(&mut self) -> Result<(), Failure> {
        let (setup, c) = (self.setup, &self.contender);
        let occupied = setup.occupied();
        match setup.placement {
            Placement::Random if occupied > 0 => self.fill_at_random(0).map(drop),
            _ => {
                let blocks = std::iter::from_fn(|| c.alloc(setup.order, Slot(0)));
                setup.all_allocated(blocks.take(occupied).count(), occupied)
            }
        }
    }

    /// Allocates until nothing is left on any slot; returns how many blocks there were.
    fn fill_wholly(&self) -> usize {
        let (c, order) = (&self.contender, self.setup.order);
        let slots = (0..self.setup.slots).map(Slot);
        slots.map(|slot| std::iter::from_fn(|| c.alloc(order, slot)).count()).sum()
    }

    /// Fills the zone and frees blocks at random until it is as full as it is to be; returns `count`
    /// of those that are left, at random too. Every aligned block is one that was allocated, since
    /// all are.
    fn fill_at_random(
        &mut self,
        count: usize,
    ) -> Result<impl Iterator<Item = FrameId> + use<C>, Failure> {
        let (setup, blocks) = (self.setup, self.setup.blocks());
        setup.all_allocated(self.fill_wholly(), blocks)?;
        let chosen = self.random.distinct(setup.holes() + count, blocks);
        let mut chosen = chosen.into_iter().map(move |block| FrameId(block << setup.order.0));
        for hole in chosen.by_ref().take(setup.holes()) {
            if !self.contender.free(hole, setup.order, Slot(0)) {
                return Err(Failure::Failed(format!("{}: a free was refused", setup.pattern)));
            }
        }
        Ok(chosen)
    }

    /// Fills the zone; the lists then name some of its blocks.
    fn fill_nearly(&mut self) -> Result<(), Failure> {
        let chosen = self.fill_at_random(self.setup.list() * self.setup.threads)?;
        for (entry, block) in self.lists.iter_mut().flatten().zip(chosen) {
            *entry = block;
        }
        Ok(())
    }

    /// *bulk* and *batch*.
    fn bulk(&mut self, (fill, release): Over<C>) -> Vec<Part> {
        let (setup, c) = (self.setup, &self.contender);
        let barrier = Barrier::new(setup.threads);
        on_threads(&mut self.lists, |thread, list| {
            let (mut allocs, mut frees, mut refused) = (Tally::default(), Tally::default(), 0);
            let (order, slot) = (setup.order, setup.slot(thread));
            for _ in 0..setup.rounds() {
                let (mut done, mut freed) = (0, 0);
                barrier.wait();
                allocs.time(|| {
                    done = fill(c, order, slot, list);
                    done
                });
                barrier.wait();
                frees.time(|| {
                    freed = release(c, order, slot, &list[..done]);
                    freed
                });
                refused += list.len() - freed;
            }
            Part { tallies: vec![(Metric::Alloc, allocs), (Metric::Free, frees)], refused }
        })
    }

    /// *random*: some blocks may be missing, where other slots cache them.
    fn random(&mut self) -> Vec<Part> {
        let (setup, c) = (self.setup, &self.contender);
        let barrier = Barrier::new(setup.threads);
        let seeds: Vec<u64> = self.lists.iter().map(|_| self.random.bits()).collect();
        on_threads(self.lists.iter_mut().zip(seeds), |thread, (list, seed)| {
            let (mut frees, mut random, mut refused) = (Tally::default(), Random::new(seed), 0);
            let (order, slot) = (setup.order, setup.slot(thread));
            for _ in 0..setup.rounds() {
                let done = fill(c, order, slot, list);
                random.shuffle(&mut list[..done]);
                let mut freed = 0;
                barrier.wait();
                frees.time(|| {
                    freed = release(c, order, slot, &list[..done]);
                    freed
                });
                refused += done - freed + usize::from(done == 0);
                barrier.wait();
            }
            Part { tallies: vec![(Metric::Free, frees)], refused }
        })
    }

    /// *repeat* and *full*: a loop of so many calls, which must all succeed in being what they are.
    fn calls(&self, metric: Metric, work: fn(&C, Order, Slot, usize) -> usize) -> Vec<Part> {
        let (setup, c) = (self.setup, &self.contender);
        let barrier = Barrier::new(setup.threads);
        on_threads(0..setup.threads, |thread, _| {
            let (mut tally, calls) = (Tally::default(), setup.operations.div_ceil(setup.threads));
            barrier.wait();
            tally.time(|| work(c, setup.order, setup.slot(thread), calls));
            let refused = calls - tally.operations as usize;
            Part { tallies: vec![(metric, tally)], refused }
        })
    }

    fn near_full(&mut self) -> Vec<Part> {
        let (setup, c, next) = (self.setup, &self.contender, self.next);
        let barrier = Barrier::new(setup.threads);
        let pairs = setup.operations.div_ceil(setup.threads);
        self.next = (next + pairs) % setup.list();
        on_threads(&mut self.lists, |thread, list| {
            let mut tally = Tally::default();
            let slot = setup.slot(thread);
            barrier.wait();
            tally.time(|| replace(c, setup.order, slot, list, (next, pairs)));
            let refused = pairs - tally.operations as usize;
            Part { tallies: vec![(Metric::Pair, tally)], refused }
        })
    }
}

impl<C: Contender> Runner for Prepared<C> {
    fn sample(&mut self) -> Result<Sample, Failure> {
        let parts = match self.setup.pattern {
            Pattern::Bulk => self.bulk((fill, release)),
            Pattern::Batch => self.bulk((fill_batches, release_batches)),
            Pattern::Random => self.random(),
            Pattern::Repeat | Pattern::CachedAllocation => self.calls(Metric::Pair, repeat),
            Pattern::LinuxScalability | Pattern::ThreadTest => {
                in_bursts(&self.contender, &self.setup, &mut self.lists)
            }
            Pattern::ConstantOccupancy => {
                constant_occupancy(&self.contender, &self.setup, &mut self.lists)
            }
            Pattern::Full => self.calls(Metric::FailingAlloc, ask_in_vain),
            Pattern::NearFull => self.near_full(),
            Pattern::Remote => remote(&self.contender, &self.setup),
            Pattern::ExitStorm => exit_storm(&self.contender, &self.setup, &mut self.lists),
            Pattern::InStep | Pattern::OutOfStep => {
                let how = (self.random.bits(), self.setup.pattern == Pattern::InStep);
                in_phases(&self.contender, &self.setup, &mut self.lists, how)
            }
            Pattern::Ring => ring(&self.contender, &self.setup),
            Pattern::Init | Pattern::Churn | Pattern::RemoteChurn => {
                let pattern = self.setup.pattern;
                return Err(Failure::Failed(format!("{pattern} is measured in its own way")));
            }
        };
        total(self.setup.pattern, parts)
    }
}
