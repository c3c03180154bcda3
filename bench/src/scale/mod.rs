//! How an allocator scales, without the machine: each access of its calls goes to a [model of
//! caches](Caches), while 1 to 256 simulated CPUs take turns.
//!
//! ```text
//!   CPU that is behind ──► one call of the allocator ──► its accesses, in order ──► the model
//!          ▲                  (the compiled code)          line, read or write        │
//!          └───────────────────────── that CPU's clock ◄──────────────────────────────┘
//! ```
//!
//! The CPU whose clock is behind all others makes one whole call, on one real thread. Each access to
//! the allocator's state is seen (`follow`), and says which line it was to. The same arguments give
//! the same figures on any machine that can see accesses: x86-64 Linux, or any machine in a build
//! whose atomics tell (`cargo xtask scale`).
//!
//! What a figure says: lines that came from other CPUs for each call, and which part of the state
//! they belong to; and the time of a call, of accesses alone.
//!
//! # What the model does not know
//!
//! * Calls do not overlap: no compare-exchange fails, and what a call reads does not change while it
//!   runs. Where many CPUs meet at one word, a real machine does worse.
//! * Time is accesses: instructions, misses to memory, and what a processor does at once are not in
//!   it. All lines stay in the caches for ever.
//! * Every CPU is as far from every other one: no sockets, no clusters, no threads of one core.
//! * A call's block is there for others as soon as their clocks have reached the beginning of the call.
//! * A lock is never found held: a CPU that waits for a line does not wait for what is done under
//!   the lock.

mod caches;
mod follow;
mod load;
mod output;
mod setup;
mod zone;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use woodlot_frame::{Base4K, Construct, FrameAllocator, ZoneConfig};

use crate::Failure;
use crate::contender::Contender;
use crate::dispersion::watch::Access;
use crate::engine::{Engine, Visit};
use crate::patterns::Placement;

pub use caches::{Caches, Costs, MOST_CPUS, Times, Way};
pub use output::{describe, svg};
pub use setup::{Load, Setup};

use follow::{Sight, Trail};
use load::{Cpus, Turn};
use zone::Zone;

/// What came of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Scaled {
    /// Whose.
    pub engine: Engine,
    /// How CPUs asked for blocks.
    pub load: Load,
    /// The size of the blocks.
    pub order: u8,
    /// In churn: how full memory is, in percent.
    pub fill_percent: Option<f64>,
    /// In churn: where that lies.
    pub placement: Option<Placement>,
    /// How many CPUs.
    pub cpus: usize,
    /// How many calls were counted.
    pub calls: usize,
    /// Of these, those of the CPU that made the fewest: the slower its calls are, the fewer it makes.
    pub fewest_calls: usize,
    /// Accesses for each call.
    pub accesses: f64,
    /// Lines that came from other CPUs, for each call.
    pub transfers: f64,
    /// Modelled nanoseconds of accesses for each call.
    pub ns: f64,
    /// Of these, those in which a CPU waited for a line that was under way.
    pub queued_ns: f64,
    /// Beside these, those in which a CPU had nothing to do, since another one had not made its call yet.
    pub idle_ns: f64,
    /// The transfers for each call by the part of the state, the most first.
    pub lines: Vec<(String, f64)>,
}

/// Memory for each CPU, in frames: a tree of LLFree and as much again, or two lists where these are longer.
fn frames_per_cpu(setup: &Setup) -> usize {
    (1 << 15).max(((2 * setup.list) << setup.order.0).next_power_of_two())
}

/// Calls of each CPU, at least, after which every line is known to be where it is.
const SETTLE: usize = 8;
/// Calls of each CPU that are counted at least.
const LEAST: usize = 16;

/// Simulates so many CPUs.
///
/// # Errors
/// Accesses cannot be seen here, the engine keeps no contract or does not serve the order, or a call
/// was refused.
pub fn scale(engine: Engine, setup: &Setup, cpus: usize) -> Result<Scaled, Failure> {
    if !(1..=MOST_CPUS).contains(&cpus) {
        return Err(Failure::Usage(format!("scale: 1 to {MOST_CPUS} CPUs, not {cpus}")));
    }
    let order = setup.order;
    let scaled = engine.visit(order, Scale { engine, setup, cpus });
    scaled.unwrap_or_else(|| Err(Failure::Failed(format!("{engine}: does not serve {order}"))))
}

struct Scale<'a> {
    engine: Engine,
    setup: &'a Setup,
    cpus: usize,
}

impl Visit for Scale<'_> {
    type Output = Result<Scaled, Failure>;

    fn contract<A>(self) -> Self::Output
    where
        A: Construct + FrameAllocator<Geometry = Base4K> + Send + 'static,
    {
        let Scale { engine, setup, cpus: count } = self;
        let frames = frames_per_cpu(setup) * count.max(4);
        let zone = Zone::<A>::new(&ZoneConfig::new(frames, count))?;
        let mut cpus = Cpus::new(setup, count, frames, zone.allocator())?;
        // Every CPU in turn: nobody has a clock yet.
        for turn in 0..setup.warm * count {
            cpus.turn(zone.allocator(), turn % count)?;
        }
        let caches = Caches::new(zone.lines(), count, setup.costs);
        let mut counted =
            Counted { caches, calls: vec![0; count], accesses: 0, by_line: BTreeMap::new() };
        let (start, length) = zone.pages();
        // SAFETY: the pages are the zone's, and its allocator alone uses them, on this thread.
        let followed = unsafe {
            Sight::HERE.follow(start, length, |trail| {
                counted.run((SETTLE, 0), (&mut cpus, zone.allocator()), trail)?;
                counted.restart();
                counted.run((LEAST, setup.calls), (&mut cpus, zone.allocator()), trail)
            })
        };
        followed??;
        Ok(counted.scaled(&zone, (engine, setup, count)))
    }

    fn foreign<C: Contender + 'static>(self) -> Self::Output {
        let engine = self.engine;
        Err(Failure::Failed(format!("{engine}: its state lies where accesses cannot be followed")))
    }
}

/// The model, and what was counted.
struct Counted {
    caches: Caches,
    /// Of each CPU.
    calls: Vec<usize>,
    accesses: usize,
    by_line: BTreeMap<usize, usize>,
}

impl Counted {
    /// So many calls of each CPU at least, and so many of all; each by the CPU that is behind.
    fn run<A: FrameAllocator>(
        &mut self,
        (least, all): (usize, usize),
        (cpus, allocator): (&mut Cpus, &A),
        trail: &mut dyn Trail,
    ) -> Result<(), Failure> {
        let mut accesses: Vec<Access> = Vec::new();
        let (mut made, mut behind) = (0, self.calls.len());
        while made < all || behind > 0 {
            let cpu = self.caches.next();
            let turn = cpus.turn(allocator, cpu)?;
            trail.take(&mut accesses)?;
            for access in &accesses {
                let way = self.caches.access(cpu, access.line, access.written);
                if way == Way::Transfer {
                    *self.by_line.entry(access.line).or_default() += 1;
                }
            }
            match turn {
                Turn::Called => {
                    made += 1;
                    self.calls[cpu] += 1;
                    behind -= usize::from(self.calls[cpu] == least);
                }
                Turn::WaitsFor(other) => self.caches.wait_for(cpu, other),
            }
            self.accesses += accesses.len();
        }
        Ok(())
    }

    /// What was done so far does not count.
    fn restart(&mut self) {
        self.caches.restart();
        self.calls.fill(0);
        self.accesses = 0;
        self.by_line.clear();
    }

    fn scaled<A>(&self, zone: &Zone<A>, (engine, setup, cpus): (Engine, &Setup, usize)) -> Scaled {
        let made: usize = self.calls.iter().sum();
        let calls = made.max(1) as f64;
        let mut names: BTreeMap<&'static str, usize> = BTreeMap::new();
        for (&line, count) in &self.by_line {
            *names.entry(zone.name(line)).or_default() += count;
        }
        let lines = names.into_iter().map(|(name, count)| (name.to_string(), count as f64 / calls));
        let mut lines: Vec<(String, f64)> = lines.collect();
        lines.sort_by(|a, b| b.1.total_cmp(&a.1));
        let Times { spent, queued, idle } = self.caches.times();
        let is_churn = setup.load == Load::Churn;
        Scaled {
            engine,
            load: setup.load,
            order: setup.order.0,
            fill_percent: is_churn.then_some(setup.fill as f64 / 10.0),
            placement: is_churn.then_some(setup.placement),
            cpus,
            calls: made,
            fewest_calls: self.calls.iter().copied().min().unwrap_or(0),
            accesses: self.accesses as f64 / calls,
            transfers: self.by_line.values().sum::<usize>() as f64 / calls,
            ns: spent / calls,
            queued_ns: queued / calls,
            idle_ns: idle / calls,
            lines,
        }
    }
}

#[cfg(all(test, any(woodlot_observe, all(target_os = "linux", target_arch = "x86_64"))))]
mod tests {
    use woodlot_frame::Order;

    use super::*;

    #[test]
    fn one_cpu_has_all_lines_and_two_that_share_a_lock_do_not() {
        let alone = scale(Engine::Llfree, &Setup::short(Load::Repeat), 1).unwrap();
        assert_eq!((alone.transfers, alone.queued_ns, alone.calls), (0.0, 0.0, 64));
        assert!(alone.accesses >= 4.0 && alone.ns >= alone.accesses, "{alone:?}");
        // Each call takes the lock's line, and the list's head from the other one.
        let locked = scale(Engine::ListLocked, &Setup::short(Load::Repeat), 2).unwrap();
        assert!(locked.transfers > 0.5, "{locked:?}");
        assert_eq!(locked.lines[0].0, "allocator");
    }

    #[test]
    fn cpus_with_trees_of_their_own_move_no_line_and_a_ring_moves_some() {
        let own = scale(Engine::Llfree, &Setup::short(Load::Repeat), 4).unwrap();
        assert!(own.transfers < 0.05, "{own:?}");
        let ring = scale(Engine::Llfree, &Setup::short(Load::Ring), 4).unwrap();
        assert!(ring.transfers > 0.5, "{ring:?}");
        assert!(ring.lines.iter().any(|(name, _)| name == "row"), "{ring:?}");
        let again = scale(Engine::Llfree, &Setup::short(Load::Ring), 4).unwrap();
        assert_eq!(ring, again);
    }

    /// A list of blocks of the largest order is two trees, whose words lie in a line with those of others.
    #[cfg(woodlot_observe)]
    #[test]
    fn a_slot_comes_to_a_tree_by_one_transfer() {
        let setup =
            Setup { order: Order(10), warm: 640, calls: 10_240, ..Setup::short(Load::Bulk) };
        let bulk = scale(Engine::Onewrite, &setup, 16).unwrap();
        assert!(bulk.transfers < 0.05, "{bulk:?}");
    }

    #[test]
    fn the_more_share_a_line_the_longer_they_wait() {
        let ns = |cpus| scale(Engine::ListCas, &Setup::short(Load::Repeat), cpus).unwrap();
        let (two, eight) = (ns(2), ns(8));
        assert!(eight.queued_ns > 2.0 * two.queued_ns, "{two:?} {eight:?}");
    }

    #[test]
    fn who_waits_for_work_is_idle() {
        // Their calls are not equally long: now and then a neighbour has nothing to free yet.
        let ring = scale(Engine::Onewrite, &Setup::short(Load::Ring), 3).unwrap();
        assert!(ring.idle_ns > 0.0, "{ring:?}");
        let own = scale(Engine::Onewrite, &Setup::short(Load::Bulk), 3).unwrap();
        assert_eq!(own.idle_ns, 0.0);
    }

    #[test]
    fn each_cpu_makes_sixteen_calls_however_slow_they_are() {
        // The third one has nobody to free its blocks: its calls are fast, and it alone makes 64 meanwhile.
        let scaled = scale(Engine::Onewrite, &Setup::short(Load::Remote), 3).unwrap();
        assert!(scaled.fewest_calls >= LEAST && scaled.calls > 64 + 2 * LEAST, "{scaled:?}");
    }

    #[test]
    fn what_cannot_be_simulated_is_refused() {
        assert!(matches!(
            scale(Engine::Llfree, &Setup::short(Load::Bulk), 257),
            Err(Failure::Usage(_))
        ));
        assert!(scale(Engine::Bitmap, &Setup::short(Load::Bulk), 2).is_err());
        let order_3 = Setup { order: Order(3), ..Setup::short(Load::Bulk) };
        assert!(scale(Engine::ListCas, &order_3, 2).is_err());
    }
}
