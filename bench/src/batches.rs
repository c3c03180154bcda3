//! Many pages from two domains in turn: figure 6 of *Physical memory anti-fragmentation mechanisms in the FreeBSD kernel*
//! (Novković).
//!
//! ```text
//!   runs         one call: a share from each domain, the largest blocks that fit
//!   one by one   the domain iterator and an allocation for each page
//!   locked       the same, with a mutex for each: the paper's baseline
//! ```
//!
//! Each engine is measured so. An operation is a batch. As many batches follow one another as make 4096 pages, and all are freed outside of the
//! measured time. Engines and ways take turns in each repetition.

mod plot;

use std::fmt::Write;
use std::hint::black_box;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use serde::{Deserialize, Serialize};
use woodlot_domains::{DomainId, Domains, Map, NumaStats, Policy, Present, Rounds, Setup};
use woodlot_frame::{
    Base4K, Batch, Construct, FrameAllocator, FrameId, Init, METADATA_ALIGN, MetadataSize, Order,
    RawMetadata, Request, Slot,
};

use crate::Failure;
use crate::clock::Tally;
use crate::contender::Contender;
use crate::engine::{Engine, Visit};
use crate::statistics::Summary;

pub use plot::{legend, panels, svg};

/// Pages of a batch.
pub const SIZES: [usize; 13] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
/// Pages of a repetition.
const PAGES: usize = 4096;
/// Frames of each domain: 1 GiB.
const DOMAIN: usize = 1 << 18;

/// The engines of the two domains.
pub const ENGINES: [Engine; 2] = [Engine::Llfree, Engine::Onewrite];

/// How pages are allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// In one call, as runs.
    Runs,
    /// By a call for each.
    OneByOne,
    /// By a call for each, under a mutex.
    Locked,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 3] = [Way::Runs, Way::OneByOne, Way::Locked];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Way::Runs => "runs",
            Way::OneByOne => "one by one",
            Way::Locked => "one by one, locked (the paper's baseline)",
        }
    }
}

/// What batches of one size took.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Batched {
    /// By which engine. Results of before there were two name none.
    #[serde(default = "llfree")]
    pub engine: Engine,
    /// How.
    pub way: Way,
    /// Pages of a batch.
    pub pages: usize,
    /// Microseconds of CPU time for each batch, a number for each repetition.
    pub cpu_us: Vec<f64>,
    /// Time on the wall likewise.
    pub wall_us: Vec<f64>,
}

impl Batched {
    /// Mean and standard deviation of the CPU time.
    pub fn mean(&self) -> (f64, f64) {
        let count = self.cpu_us.len().max(1) as f64;
        let mean = self.cpu_us.iter().sum::<f64>() / count;
        let squares = self.cpu_us.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
        (mean, (squares / count).sqrt())
    }

    /// Its median.
    pub fn median(&self) -> f64 {
        Summary::of(&self.cpu_us).map_or(f64::NAN, |summary| summary.median)
    }
}

const fn llfree() -> Engine {
    Engine::Llfree
}

/// What was found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Batches {
    /// By engine, size, and way.
    pub batched: Vec<Batched>,
    /// The repetitions.
    pub repetitions: usize,
}

impl Batches {
    /// The engines that were measured.
    pub fn engines(&self) -> impl Iterator<Item = Engine> + '_ {
        let has = |engine: &Engine| self.batched.iter().any(|found| found.engine == *engine);
        ENGINES.into_iter().filter(has)
    }

    /// How often as long an engine takes with a lock for each page as in runs.
    pub fn gain(&self, engine: Engine, pages: usize) -> Option<f64> {
        let is =
            |found: &&Batched, way| (found.engine, found.way, found.pages) == (engine, way, pages);
        let of = |way| self.batched.iter().find(|found| is(found, way));
        Some(of(Way::Locked)?.median() / of(Way::Runs)?.median())
    }
}

/// What is allocated, until it is freed.
struct Taken {
    runs: Vec<Range<FrameId>>,
    used: usize,
    frames: Vec<FrameId>,
}

/// What the two domains of an engine gave.
pub type Given = (Engine, [NumaStats; 2]);

/// Measures, and says what the domains gave.
///
/// # Errors
/// There is no memory for the metadata.
pub fn measure(repetitions: usize, step: &dyn Fn()) -> Result<(Batches, Vec<Given>), Failure> {
    let mut machines = Vec::new();
    let mut batched = Vec::new();
    for engine in ENGINES {
        let machine = engine.visit(Order::BASE, Make);
        machines.push(machine.ok_or_else(|| failed(&"base frames are not served"))??);
        let of = |(pages, way)| {
            let (cpu_us, wall_us) = (Vec::new(), Vec::new());
            Batched { engine, way, pages, cpu_us, wall_us }
        };
        let all = SIZES.into_iter().flat_map(|pages| Way::ALL.map(|way| (pages, way)));
        batched.push(all.map(of).collect::<Vec<_>>());
    }
    let rounds = Rounds::new();
    let mut taken = Taken {
        runs: vec![FrameId(0)..FrameId(0); PAGES],
        used: 0,
        frames: Vec::with_capacity(PAGES),
    };
    // The first time does not count.
    for repetition in 0..=repetitions {
        for nth in 0..SIZES.len() * Way::ALL.len() {
            for (machine, batched) in machines.iter().zip(&mut batched) {
                let Some(found) = batched.get_mut(nth) else { continue };
                let tally = machine.batches(found, &rounds, &mut taken)?;
                if repetition > 0 {
                    found.cpu_us.push(tally.cpu() / 1e3);
                    found.wall_us.push(tally.wall() / 1e3);
                }
                step();
            }
        }
    }
    let given = machines.iter().map(|machine| machine.given()).collect::<Result<Vec<_>, _>>()?;
    let batched = batched.into_iter().flatten().collect();
    Ok((Batches { batched, repetitions }, ENGINES.into_iter().zip(given).collect()))
}

/// How many steps that is.
pub const fn steps(repetitions: usize) -> usize {
    (repetitions + 1) * SIZES.len() * Way::ALL.len() * ENGINES.len()
}

fn failed(what: &dyn std::fmt::Display) -> Failure {
    Failure::Failed(format!("two domains: {what}"))
}

fn locked<T>(machine: &Mutex<T>) -> Result<MutexGuard<'_, T>, Failure> {
    machine.lock().map_err(|_| failed(&"a lock is poisoned"))
}

/// Two domains of some engine.
trait Machine {
    /// Batches of one size, and back.
    fn batches(
        &self,
        found: &Batched,
        rounds: &Rounds,
        taken: &mut Taken,
    ) -> Result<Tally, Failure>;

    /// What they have given.
    fn given(&self) -> Result<[NumaStats; 2], Failure>;
}

/// Makes two domains, with a hole between them.
struct Make;

impl Visit for Make {
    type Output = Result<Box<dyn Machine>, Failure>;

    fn contract<A>(self) -> Self::Output
    where
        A: Construct + FrameAllocator<Geometry = Base4K> + Send + 'static,
    {
        let of =
            |start, domain| Present::new(FrameId(start)..FrameId(start + DOMAIN), DomainId(domain));
        let mut ranges = [of(0, 0), of(3 * DOMAIN, 1)];
        let map = Map::new(&mut ranges).map_err(|error| failed(&error))?;
        // It is small, and stays until the process ends.
        let piece = |bytes: usize| {
            let words = vec![0u64; (bytes + METADATA_ALIGN).div_ceil(8)];
            let start = words.leak().as_mut_ptr().cast::<u8>();
            (start.wrapping_add(start.align_offset(METADATA_ALIGN)), bytes)
        };
        let metadata = |_, size: MetadataSize| {
            Ok(RawMetadata { durable: piece(size.durable), volatile: piece(size.volatile) })
        };
        // SAFETY: the memory is new, initialised and stays.
        let machine = unsafe { Setup::new(map, 1).make::<A>(metadata, Init::Free) };
        Ok(Box::new(Mutex::new(machine.map_err(|error| failed(&error))?)))
    }

    fn foreign<C: Contender + 'static>(self) -> Self::Output {
        Err(failed(&"it has no zones"))
    }
}

impl<A: FrameAllocator> Machine for Mutex<Domains<'_, A>> {
    fn batches(
        &self,
        found: &Batched,
        rounds: &Rounds,
        taken: &mut Taken,
    ) -> Result<Tally, Failure> {
        let (policy, request) =
            (Policy::RoundRobin(rounds), Request::movable(Order::BASE, Slot(0)));
        let (mut tally, count) = (Tally::default(), PAGES / found.pages);
        let mut failure = None;
        match found.way {
            Way::Runs => {
                let machine = locked(self)?;
                tally.time(|| {
                    for _ in 0..count {
                        let room = taken.runs.get_mut(taken.used..).unwrap_or_default();
                        match machine.alloc_runs(
                            black_box(request),
                            black_box(found.pages),
                            policy,
                            Batch::All,
                            room,
                        ) {
                            Ok(runs) => taken.used += runs,
                            Err(error) => failure = Some(error.to_string()),
                        }
                    }
                    count
                });
            }
            Way::OneByOne => {
                let machine = locked(self)?;
                tally.time(|| {
                    for _ in 0..count * found.pages {
                        match machine.alloc_by(black_box(request), policy) {
                            Ok(frame) => taken.frames.push(frame),
                            Err(error) => failure = Some(error.to_string()),
                        }
                    }
                    count
                });
            }
            Way::Locked => tally.time(|| {
                for _ in 0..count * found.pages {
                    match self.lock().map(|machine| machine.alloc_by(black_box(request), policy)) {
                        Ok(Ok(frame)) => taken.frames.push(frame),
                        Ok(Err(error)) => failure = Some(error.to_string()),
                        Err(_) => failure = Some("a lock is poisoned".into()),
                    }
                }
                count
            }),
        }
        let machine = locked(self)?;
        let runs = taken.runs.iter().take(taken.used).cloned();
        let mut freed = runs.map(|run| machine.free_range(run, Slot(0))).find_map(Result::err);
        for frame in taken.frames.drain(..) {
            freed = freed.or(machine.free(frame, Order::BASE, Slot(0)).err());
        }
        taken.used = 0;
        match failure.or(freed.map(|error| error.to_string())) {
            Some(what) => Err(Failure::Failed(format!("{}: {what}", found.way.name()))),
            None => Ok(tally),
        }
    }

    fn given(&self) -> Result<[NumaStats; 2], Failure> {
        let machine = locked(self)?;
        Ok([DomainId(0), DomainId(1)].map(|domain| machine.numa_stats(domain)))
    }
}

/// What was found, for people.
pub fn describe(found: &Batches, given: &[Given]) -> String {
    let mut text = String::new();
    for engine in found.engines() {
        let _ = writeln!(
            text,
            "{:<8}{:>22}{:>22}{:>22}",
            engine.name(),
            "runs",
            "one by one",
            "locked"
        );
        let _ = write!(text, "{:<8}", "pages");
        text += &format!("{:>8}{:>7}{:>7}", "mean", "dev.", "median").repeat(Way::ALL.len());
        text += "  locked / runs\n";
        for pages in SIZES {
            let _ = write!(text, "{pages:<8}");
            let is = |found: &&Batched| (found.engine, found.pages) == (engine, pages);
            for found in found.batched.iter().filter(is) {
                let ((mean, deviation), median) = (found.mean(), found.median());
                let _ = write!(text, "{mean:>8.2}{deviation:>7.2}{median:>7.2}");
            }
            let _ = writeln!(text, "{:>15.1}", found.gain(engine, pages).unwrap_or(f64::NAN));
        }
        text += "\n";
    }
    text += "µs of CPU time for each batch\n\n";
    for (engine, stats) in given {
        for (domain, stats) in stats.iter().enumerate() {
            let NumaStats { hit, miss, foreign, interleave_hit, local_node, other_node } = stats;
            let _ = writeln!(
                text,
                "{}, domain {domain}: numa_hit {hit}, numa_miss {miss}, numa_foreign {foreign}, \
                 interleave_hit {interleave_hit}, local_node {local_node}, other_node {other_node}",
                engine.name()
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_is_measured_in_each_way() {
        let steps_done = std::cell::Cell::new(0);
        let (found, given) = measure(1, &|| steps_done.set(steps_done.get() + 1)).unwrap();
        assert_eq!(steps_done.get(), steps(1));
        assert_eq!(found.batched.len(), SIZES.len() * 3 * 2);
        assert!(found.batched.iter().all(|found| found.cpu_us.len() == 1));
        assert!(found.engines().eq(ENGINES));
        let all = || ENGINES.into_iter().flat_map(|engine| SIZES.map(|pages| (engine, pages)));
        assert!(all().all(|(engine, pages)| found.gain(engine, pages).is_some()));
        // Two repetitions of 4096 pages, half from each domain, all in turn.
        let pages = (2 * SIZES.len() * 3 * PAGES) as u64;
        for (engine, [one, other]) in &given {
            let in_turn = one.interleave_hit + other.interleave_hit;
            assert_eq!((in_turn, one.hit, other.miss), (pages, pages / 2, 0), "{}", engine.name());
        }
        let text = describe(&found, &given);
        assert!(text.contains("4096") && text.contains("onewrite, domain 1"));
        let svg = svg(&found).unwrap();
        assert!(svg.contains("one by one, locked") && svg.contains("onewrite"));
    }
}
