//! What each simulated CPU asks for: a call at a time.

use std::collections::VecDeque;

use woodlot_frame::{Base4K, FrameAllocator, FrameId, Order, Request, Slot};

use super::setup::{Load, Setup};
use crate::Failure;
use crate::patterns::Placement;
use crate::random::Random;

/// What a CPU has.
#[derive(Default)]
struct Cpu {
    /// Its blocks, or what it has allocated for another one.
    blocks: VecDeque<FrameId>,
    /// Does it free now?
    frees: bool,
    /// In a ring: how many calls of its list it has made.
    done: usize,
    /// Out of step: how many blocks it is to have.
    wanted: usize,
}

/// All CPUs.
pub(super) struct Cpus {
    load: Load,
    order: Order,
    list: usize,
    cpus: Vec<Cpu>,
    random: Random,
}

/// What came of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// A call was made.
    Called,
    /// There is nothing to do until that CPU has done something.
    WaitsFor(usize),
}

impl Cpus {
    /// Makes memory as full as it is to be, where the load wants that.
    ///
    /// # Errors
    /// Memory ran out.
    pub(super) fn new<A: FrameAllocator<Geometry = Base4K>>(
        &Setup { load, order, fill, placement, list, seed, .. }: &Setup,
        count: usize,
        frames: usize,
        zone: &A,
    ) -> Result<Cpus, Failure> {
        let cpus = (0..count).map(|_| Cpu::default()).collect();
        let mut made = Cpus { load, order, list, cpus, random: Random::new(seed) };
        for cpu in made.cpus.iter_mut().skip(1).step_by(2) {
            cpu.frees = load == Load::Ring;
        }
        let blocks = (frames >> order.0) * fill / 1000;
        match (load, placement) {
            (Load::Churn, Placement::Row) => made.pack(zone, blocks)?,
            (Load::Churn, Placement::Random) => made.spread(zone, blocks)?,
            // Every other CPU begins with all that it can have.
            (Load::OutOfStep, _) => {
                let full = (1..count).step_by(2);
                full.flat_map(|cpu| (0..list).map(move |_| cpu))
                    .try_for_each(|cpu| made.alloc(zone, cpu))?;
            }
            _ => {}
        }
        Ok(made)
    }

    /// Each CPU in turn allocates.
    fn pack<A: FrameAllocator>(&mut self, zone: &A, blocks: usize) -> Result<(), Failure> {
        let count = self.cpus.len();
        (0..blocks).try_for_each(|block| self.alloc(zone, block % count))
    }

    /// All there is is allocated; any blocks are freed until so many are left, which each CPU in turn gets.
    fn spread<A: FrameAllocator>(&mut self, zone: &A, blocks: usize) -> Result<(), Failure> {
        let count = self.cpus.len();
        let mut all: Vec<FrameId> = Vec::new();
        for slot in (0..count).map(Slot) {
            let requests = std::iter::repeat(Request::movable(self.order, slot));
            all.extend(requests.map_while(|request| zone.alloc(request).ok()));
        }
        if all.len() < blocks {
            return Err(Failure::Failed(format!("{}: memory ran out", A::NAME)));
        }
        self.random.shuffle(&mut all);
        for frame in all.drain(blocks..) {
            self.free(zone, (0, 0), Some(frame))?;
        }
        for (index, frame) in all.into_iter().enumerate() {
            self.cpus[index % count].blocks.push_back(frame);
        }
        Ok(())
    }

    fn alloc<A: FrameAllocator>(&mut self, zone: &A, cpu: usize) -> Result<(), Failure> {
        let frame = zone.alloc(Request::movable(self.order, Slot(cpu)));
        let frame = frame.map_err(|why| Failure::Failed(format!("{}: {why}", A::NAME)))?;
        self.cpus[cpu].blocks.push_back(frame);
        Ok(())
    }

    /// Frees what a CPU has; what waits for it if there is nothing.
    fn free<A: FrameAllocator>(
        &self,
        zone: &A,
        (cpu, owner): (usize, usize),
        frame: Option<FrameId>,
    ) -> Result<Turn, Failure> {
        let Some(frame) = frame else { return Ok(Turn::WaitsFor(owner)) };
        let freed = zone.free(frame, self.order, Slot(cpu));
        freed.map_err(|why| Failure::Failed(format!("{}: {why}", A::NAME)))?;
        Ok(Turn::Called)
    }

    /// A CPU makes its next call.
    ///
    /// # Errors
    /// The call was refused.
    pub(super) fn turn<A: FrameAllocator>(
        &mut self,
        zone: &A,
        cpu: usize,
    ) -> Result<Turn, Failure> {
        match self.load {
            Load::Repeat => self.lists(zone, cpu, 1),
            Load::Bulk | Load::Random => self.lists(zone, cpu, self.list),
            Load::Churn => self.churn(zone, cpu),
            Load::OutOfStep => self.phases(zone, cpu),
            Load::Ring => self.ring(zone, cpu),
            Load::Remote => self.remote(zone, cpu),
        }
    }

    /// Allocates a list, then frees it.
    fn lists<A: FrameAllocator>(
        &mut self,
        zone: &A,
        cpu: usize,
        length: usize,
    ) -> Result<Turn, Failure> {
        if self.cpus[cpu].frees {
            let frame = match self.load {
                Load::Random => self.any(cpu),
                _ => self.cpus[cpu].blocks.pop_front(),
            };
            self.cpus[cpu].frees = !self.cpus[cpu].blocks.is_empty();
            return self.free(zone, (cpu, cpu), frame);
        }
        self.alloc(zone, cpu)?;
        self.cpus[cpu].frees = self.cpus[cpu].blocks.len() >= length;
        Ok(Turn::Called)
    }

    /// Any block of a CPU, which has it no longer.
    fn any(&mut self, cpu: usize) -> Option<FrameId> {
        let blocks = &mut self.cpus[cpu].blocks;
        blocks.swap_remove_back(self.random.below(blocks.len().max(1)))
    }

    /// Allocates, or frees what it has allocated last, until it has as many as it is to have; then it is to have another number.
    fn phases<A: FrameAllocator>(&mut self, zone: &A, cpu: usize) -> Result<Turn, Failure> {
        let held = self.cpus[cpu].blocks.len();
        while self.cpus[cpu].wanted == held {
            self.cpus[cpu].wanted = self.random.below(self.list + 1);
        }
        if self.cpus[cpu].wanted > held {
            self.alloc(zone, cpu)?;
            return Ok(Turn::Called);
        }
        let frame = self.cpus[cpu].blocks.pop_back();
        self.free(zone, (cpu, cpu), frame)
    }

    fn churn<A: FrameAllocator>(&mut self, zone: &A, cpu: usize) -> Result<Turn, Failure> {
        self.cpus[cpu].frees = !self.cpus[cpu].frees;
        if !self.cpus[cpu].frees {
            self.alloc(zone, cpu)?;
            return Ok(Turn::Called);
        }
        let frame = self.any(cpu);
        self.free(zone, (cpu, cpu), frame)
    }

    /// Allocates a list, then frees as many of the neighbour's blocks; every other CPU frees first.
    fn ring<A: FrameAllocator>(&mut self, zone: &A, cpu: usize) -> Result<Turn, Failure> {
        let neighbour = (cpu + 1) % self.cpus.len();
        let turn = if self.cpus[cpu].frees {
            let frame = self.cpus[neighbour].blocks.pop_front();
            self.free(zone, (cpu, neighbour), frame)?
        } else {
            self.alloc(zone, cpu)?;
            Turn::Called
        };
        let own = &mut self.cpus[cpu];
        own.done += usize::from(turn == Turn::Called);
        if own.done == self.list {
            (own.done, own.frees) = (0, !own.frees);
        }
        Ok(turn)
    }

    /// One that has nobody to free its blocks frees them itself.
    fn remote<A: FrameAllocator>(&mut self, zone: &A, cpu: usize) -> Result<Turn, Failure> {
        let owner = cpu - cpu % 2;
        if owner + 1 == self.cpus.len() {
            return self.lists(zone, cpu, self.list);
        }
        if cpu != owner {
            let frame = self.cpus[owner].blocks.pop_front();
            return self.free(zone, (cpu, owner), frame);
        }
        if self.cpus[cpu].blocks.len() >= self.list {
            return Ok(Turn::WaitsFor(cpu + 1));
        }
        self.alloc(zone, cpu)?;
        Ok(Turn::Called)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use clap::ValueEnum;
    use woodlot_frame::{Init, Owned, ZoneConfig};
    use woodlot_llfree::LLFree;

    use super::*;

    type Zone = Owned<LLFree<'static, Base4K>>;

    /// Makes turns in order, and says who allocated and who freed each block, and how many turns were calls.
    fn run(load: Load, count: usize, turns: usize) -> (Vec<(usize, usize)>, usize) {
        let zone = Zone::new(&ZoneConfig::new(1 << 18, count), Init::Free).unwrap();
        let mut cpus = Cpus::new(&Setup::short(load), count, 1 << 18, &*zone).unwrap();
        let all = |cpus: &Cpus| {
            let all = cpus.cpus.iter().enumerate();
            let owned = all.flat_map(|(at, cpu)| cpu.blocks.iter().map(move |&frame| (frame, at)));
            owned.collect::<HashMap<_, _>>()
        };
        let (mut pairs, mut calls) = (Vec::new(), 0);
        for turn in 0..turns {
            let (cpu, before, free) = (turn % count, all(&cpus), zone.free_frames());
            calls += usize::from(cpus.turn(&*zone, cpu).unwrap() == Turn::Called);
            let after = all(&cpus);
            let gone = before.iter().filter(|(frame, _)| !after.contains_key(frame));
            pairs.extend(gone.map(|(_, owner)| (*owner, cpu)));
            assert_eq!(zone.free_frames() + after.len(), free + before.len());
        }
        (pairs, calls)
    }

    #[test]
    fn who_frees_what_is_as_the_name_says() {
        for load in [Load::Bulk, Load::Random, Load::Repeat, Load::OutOfStep] {
            let (pairs, calls) = run(load, 3, 600);
            assert!(
                calls == 600 && pairs.len() > 150 && pairs.iter().all(|(one, other)| one == other)
            );
        }
        let (pairs, calls) = run(Load::Ring, 3, 900);
        assert!(calls > 600 && pairs.len() > 200, "{calls} calls");
        assert!(pairs.iter().all(|(owner, cpu)| *owner == (cpu + 1) % 3));
        let (pairs, calls) = run(Load::Remote, 4, 800);
        assert!(calls > 600 && pairs.len() > 200, "{calls} calls");
        assert!(pairs.iter().all(|(owner, cpu)| cpu % 2 == 1 && owner + 1 == *cpu));
    }

    /// A list has 32 blocks.
    #[test]
    fn cpus_out_of_step_have_what_they_happen_to() {
        let zone = Zone::new(&ZoneConfig::new(1 << 18, 4), Init::Free).unwrap();
        let mut cpus = Cpus::new(&Setup::short(Load::OutOfStep), 4, 1 << 18, &*zone).unwrap();
        let held = |cpus: &Cpus| cpus.cpus.iter().map(|cpu| cpu.blocks.len()).collect::<Vec<_>>();
        assert_eq!(held(&cpus), [0, 32, 0, 32]);
        let mut seen = [0; 33];
        for turn in 0..4000 {
            assert_eq!(cpus.turn(&*zone, turn % 4).unwrap(), Turn::Called);
            held(&cpus).into_iter().for_each(|held| seen[held] += 1);
        }
        assert!(seen.iter().all(|&times| times > 0), "{seen:?}");
    }

    #[test]
    fn one_cpu_alone_does_every_load() {
        for load in Load::value_variants() {
            let (pairs, calls) =
                if *load == Load::Churn { (vec![(0, 0)], 1) } else { run(*load, 1, 200) };
            assert!(calls > 0 && !pairs.is_empty(), "{load:?}");
        }
    }

    #[test]
    fn churn_begins_in_memory_that_is_as_full_as_it_is_to_be() {
        for (placement, free_huge) in [(Placement::Row, 51), (Placement::Random, 0)] {
            let zone = Zone::new(&ZoneConfig::new(1 << 18, 4), Init::Free).unwrap();
            let setup = Setup { fill: 900, placement, ..Setup::short(Load::Churn) };
            let cpus = Cpus::new(&setup, 4, 1 << 18, &*zone).unwrap();
            let blocks = cpus.cpus.iter().map(|cpu| cpu.blocks.len());
            let (least, most) = (blocks.clone().min().unwrap(), blocks.clone().max().unwrap());
            assert!(most - least <= 1 && blocks.sum::<usize>() == (1 << 18) * 9 / 10);
            // A tenth of 512; four CPUs have one each that is in use in part.
            assert!(zone.stats().free_huge.abs_diff(free_huge) <= 4, "{placement}");
        }
    }
}
