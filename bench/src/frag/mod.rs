//! Fragmentation under a synthetic load: LLFree section 5.6.
//!
//! 1. Frames are allocated until the zone is 90 % full, and half of them, chosen at random, are
//!    freed: as fragmented as memory can be.
//! 2. A hundred times: a tenth of the allocated frames, chosen at random, is freed, and as many are
//!    allocated, one by one; every slot is drained; and it is measured
//!    * how many huge frames are free, of those that could be if the free frames were moved
//!      together,
//!    * how many frames would have to be moved for that, at the least (the compaction cost).
//!
//! All numbers are parameters. One thread makes all calls, each through the next slot, so that
//! results depend on the parameters alone; every call is of order 0 and of the movable class.
//! Nothing is timed. [`compact`] does what is computed here. What is not measured: larger blocks, classes, and memory that lives long.

mod compact;
mod data;
mod plot;

use serde::{Deserialize, Serialize};
use woodlot_frame::{
    Base4K, Construct, FrameAllocator, FrameId, Geometry, HugeId, Init, Order, Owned, Request,
    Slot, ZoneConfig, compaction_cost,
};

use crate::Failure;
use crate::contender::{Contender, fits};
use crate::engine::{Engine, Visit};
use crate::random::Random;
use crate::size::Size;

pub use compact::{Compacted, compact};
pub use data::csv;
pub use plot::{Curve, panels, svg};

/// The parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FragSetup {
    /// The zone.
    pub memory: Size,
    /// How many slots the calls go through.
    pub slots: usize,
    /// How much of the zone is allocated at first, in percent.
    pub fill: f64,
    /// How much of that is freed at random, in percent.
    pub freed: f64,
    /// How many iterations follow.
    pub iterations: usize,
    /// How much of what is allocated each of them frees and allocates again, in percent.
    pub churn: f64,
    /// What random choices follow from.
    pub seed: u64,
}

impl Default for FragSetup {
    /// The paper's parameters, with one slot on a zone of 8 GiB.
    fn default() -> Self {
        let (memory, slots) = (Size::gib(8), 1);
        Self { memory, slots, fill: 90.0, freed: 50.0, iterations: 100, churn: 10.0, seed: 1 }
    }
}

/// The zone after an iteration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct State {
    /// How many iterations there were.
    pub iteration: usize,
    /// Free base frames.
    pub free_frames: usize,
    /// Free huge frames.
    pub free_huge: usize,
    /// How many there could be.
    pub possible_huge: usize,
    /// How many frames would have to be moved for that.
    pub moves: usize,
}

impl State {
    /// Which part of the possible huge frames is free, in percent; all, where none is possible.
    pub fn percent(&self) -> f64 {
        match self.possible_huge {
            0 => 100.0,
            possible => 100.0 * self.free_huge as f64 / possible as f64,
        }
    }
}

/// Runs it; `progress` is told after each iteration. The first state is that before any.
///
/// # Errors
/// When the engine cannot do this, or refuses what it must not refuse.
pub fn run(
    engine: Engine,
    setup: &FragSetup,
    progress: &dyn Fn(usize),
) -> Result<Vec<State>, Failure> {
    let states = engine.visit(Order::BASE, Frag { engine, setup, progress });
    states.unwrap_or_else(|| Err(Failure::Failed(format!("{engine}: does not serve order 0"))))
}

struct Frag<'a> {
    engine: Engine,
    setup: &'a FragSetup,
    progress: &'a dyn Fn(usize),
}

impl Visit for Frag<'_> {
    type Output = Result<Vec<State>, Failure>;

    fn contract<A>(self) -> Self::Output
    where
        A: Construct + FrameAllocator<Geometry = Base4K> + Send + 'static,
    {
        let mut load = Load::<A>::new(self.setup)?;
        let mut states = vec![load.state(0)];
        for iteration in 1..=self.setup.iterations {
            load.churn()?;
            states.push(load.state(iteration));
            (self.progress)(iteration);
        }
        Ok(states)
    }

    fn foreign<C: Contender + 'static>(self) -> Self::Output {
        Err(Failure::Failed(format!("{}: cannot say which huge frames are free", self.engine)))
    }
}

/// A zone and what is allocated in it.
struct Load<A> {
    zone: Owned<A>,
    owned: Vec<FrameId>,
    random: Random,
    churn: usize,
    slots: usize,
    /// The calls so far: they take turns among the slots.
    calls: usize,
}

/// So many percent of a number.
fn share(of: usize, percent: f64) -> usize {
    (of as f64 * percent / 100.0) as usize
}

impl<A: Construct + FrameAllocator<Geometry = Base4K>> Load<A> {
    /// The fragmented zone.
    fn new(setup: &FragSetup) -> Result<Self, Failure> {
        let frames = setup.memory.frames();
        let config = ZoneConfig::new(frames, setup.slots);
        fits::<A>(&config)?;
        let zone = Owned::new(&config, Init::Free);
        let zone = zone.map_err(|error| Failure::Failed(format!("{}: {error}", A::NAME)))?;
        let (owned, random) = (Vec::new(), Random::new(setup.seed));
        let mut load = Self { zone, owned, random, churn: 0, slots: setup.slots, calls: 0 };
        load.alloc(share(frames, setup.fill))?;
        load.free(share(load.owned.len(), setup.freed))?;
        load.churn = share(load.owned.len(), setup.churn);
        load.drain();
        Ok(load)
    }

    fn slot(&mut self) -> Slot {
        self.calls = (self.calls + 1) % self.slots;
        Slot(self.calls)
    }

    fn alloc(&mut self, count: usize) -> Result<(), Failure> {
        for _ in 0..count {
            let slot = self.slot();
            let frame = self.zone.alloc(Request::movable(Order::BASE, slot));
            let frame = frame.map_err(|error| Failure::Failed(format!("{}: {error}", A::NAME)))?;
            self.owned.push(frame);
        }
        Ok(())
    }

    fn free(&mut self, count: usize) -> Result<(), Failure> {
        for _ in 0..count.min(self.owned.len()) {
            let chosen = self.random.below(self.owned.len());
            let frame = self.owned.swap_remove(chosen);
            let slot = self.slot();
            let freed = self.zone.free(frame, Order::BASE, slot);
            freed.map_err(|error| Failure::Failed(format!("{}: {error}", A::NAME)))?;
        }
        Ok(())
    }

    fn churn(&mut self) -> Result<(), Failure> {
        self.free(self.churn)?;
        self.alloc(self.churn)?;
        self.drain();
        Ok(())
    }

    fn drain(&self) {
        for slot in 0..self.slots {
            // The zone has this slot, so nothing can be wrong.
            let _ = self.zone.drain(Slot(slot));
        }
    }

    /// From the frames themselves, not from the engine's statistics.
    fn state(&self, iteration: usize) -> State {
        let huge = self.zone.zone().huge_range::<Base4K>();
        let huge = huge.start.0..huge.end.0;
        let free: Vec<usize> = huge.map(|huge| self.zone.free_in_huge(HugeId(huge))).collect();
        let free_frames: usize = free.iter().sum();
        State {
            iteration,
            free_frames,
            free_huge: free.iter().filter(|&&free| free == Base4K::HUGE_FRAMES).count(),
            possible_huge: free_frames / Base4K::HUGE_FRAMES,
            moves: compaction_cost::<Base4K>(&free),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zone_is_as_full_as_the_parameters_say() {
        let memory = "256MiB".parse().unwrap();
        let setup = FragSetup { memory, slots: 3, iterations: 4, ..FragSetup::default() };
        let states = run(Engine::Llfree, &setup, &|_| {}).unwrap();
        assert_eq!(states.len(), 5);
        let allocated = 65536 * 9 / 10 / 2;
        for (iteration, state) in states.iter().enumerate() {
            assert_eq!(state.iteration, iteration);
            assert_eq!(state.free_frames, 65536 - allocated, "{state:?}");
            assert_eq!(state.possible_huge, (65536 - allocated) / 512);
            assert!(state.free_huge <= state.possible_huge && state.percent() <= 100.0);
        }
        assert!(states[4].moves < states[0].moves);
        assert_eq!(run(Engine::Llfree, &setup, &|_| {}).unwrap(), states);
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let setup = FragSetup::default();
        assert!(run(Engine::Bitmap, &setup, &|_| {}).is_err());
        let slots = FragSetup { slots: usize::MAX, ..setup };
        assert!(run(Engine::Llfree, &slots, &|_| {}).is_err());
    }
}
