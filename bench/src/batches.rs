//! Many pages from two domains in turn: figure 6 of *Physical memory anti-fragmentation mechanisms in the FreeBSD kernel*
//! (Novković).
//!
//! ```text
//!   runs         one call: a share from each domain, the largest blocks that fit
//!   one by one   the domain iterator and an allocation for each page
//!   locked       the same, with a mutex for each: the paper's baseline
//! ```
//!
//! An operation is a batch. As many batches follow one another as make 4096 pages, and all are freed outside of the
//! measured time. The ways take turns in each repetition.

mod plot;

use std::fmt::Write;
use std::hint::black_box;
use std::ops::Range;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use woodlot_domains::{DomainId, Domains, Map, NumaStats, Policy, Present, Rounds, Setup};
use woodlot_frame::{
    Base4K, Batch, FrameAllocator, FrameId, Init, METADATA_ALIGN, MetadataSize, Order, RawMetadata,
    Request, Slot,
};
use woodlot_llfree::LLFree;

use crate::Failure;
use crate::clock::Tally;
use crate::statistics::Summary;

pub use plot::{legend, panels, svg};

/// Pages of a batch.
pub const SIZES: [usize; 13] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
/// Pages of a repetition.
const PAGES: usize = 4096;
/// Frames of each domain: 1 GiB.
const DOMAIN: usize = 1 << 18;

type Machine<'a> = Domains<'a, LLFree<'a, Base4K>>;

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

/// What was found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Batches {
    /// By size, and by way.
    pub batched: Vec<Batched>,
    /// The repetitions.
    pub repetitions: usize,
}

impl Batches {
    /// How often as long it takes with a lock for each page as in runs.
    pub fn gain(&self, pages: usize) -> Option<f64> {
        let of = |way| self.batched.iter().find(|found| (found.way, found.pages) == (way, pages));
        Some(of(Way::Locked)?.median() / of(Way::Runs)?.median())
    }
}

/// What is allocated, until it is freed.
struct Taken {
    runs: Vec<Range<FrameId>>,
    used: usize,
    frames: Vec<FrameId>,
}

/// Measures, and says what the two domains gave.
///
/// # Errors
/// There is no memory for the metadata.
pub fn measure(repetitions: usize, step: &dyn Fn()) -> Result<(Batches, [NumaStats; 2]), Failure> {
    let machine = Mutex::new(machine()?);
    let of = |(pages, way)| Batched { way, pages, cpu_us: Vec::new(), wall_us: Vec::new() };
    let all = SIZES.into_iter().flat_map(|pages| Way::ALL.map(|way| (pages, way)));
    let mut batched: Vec<Batched> = all.map(of).collect();
    let rounds = Rounds::new();
    let mut taken = Taken {
        runs: vec![FrameId(0)..FrameId(0); PAGES],
        used: 0,
        frames: Vec::with_capacity(PAGES),
    };
    // The first time does not count.
    for repetition in 0..=repetitions {
        for found in &mut batched {
            let tally = batches(&machine, found, &rounds, &mut taken)?;
            if repetition > 0 {
                found.cpu_us.push(tally.cpu() / 1e3);
                found.wall_us.push(tally.wall() / 1e3);
            }
            step();
        }
    }
    let machine = machine.into_inner().map_err(|_| Failure::Failed("a lock is poisoned".into()))?;
    let stats = [DomainId(0), DomainId(1)].map(|domain| machine.numa_stats(domain));
    Ok((Batches { batched, repetitions }, stats))
}

/// How many steps that is.
pub const fn steps(repetitions: usize) -> usize {
    (repetitions + 1) * SIZES.len() * Way::ALL.len()
}

/// Two domains, with a hole between them.
fn machine() -> Result<Machine<'static>, Failure> {
    let of =
        |start, domain| Present::new(FrameId(start)..FrameId(start + DOMAIN), DomainId(domain));
    let failed = |what: &dyn std::fmt::Display| Failure::Failed(format!("two domains: {what}"));
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
    unsafe { Setup::new(map, 1).make(metadata, Init::Free) }.map_err(|error| failed(&error))
}

/// Batches of one size, and back.
fn batches(
    machine: &Mutex<Machine<'_>>,
    found: &Batched,
    rounds: &Rounds,
    taken: &mut Taken,
) -> Result<Tally, Failure> {
    let lock = || machine.lock().map_err(|_| Failure::Failed("a lock is poisoned".into()));
    let (policy, request) = (Policy::RoundRobin(rounds), Request::movable(Order::BASE, Slot(0)));
    let (mut tally, count) = (Tally::default(), PAGES / found.pages);
    let mut failure = None;
    match found.way {
        Way::Runs => {
            let machine = lock()?;
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
            let machine = lock()?;
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
                match machine.lock().map(|machine| machine.alloc_by(black_box(request), policy)) {
                    Ok(Ok(frame)) => taken.frames.push(frame),
                    Ok(Err(error)) => failure = Some(error.to_string()),
                    Err(_) => failure = Some("a lock is poisoned".into()),
                }
            }
            count
        }),
    }
    let machine = lock()?;
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

/// What was found, for people.
pub fn describe(found: &Batches, stats: &[NumaStats; 2]) -> String {
    let mut text = format!("{:<8}{:>22}{:>22}{:>22}\n", "", "runs", "one by one", "locked");
    text += &format!("{:<8}", "pages");
    text += &format!("{:>8}{:>7}{:>7}", "mean", "dev.", "median").repeat(Way::ALL.len());
    text += "  locked / runs\n";
    for pages in SIZES {
        let _ = write!(text, "{pages:<8}");
        for found in found.batched.iter().filter(|found| found.pages == pages) {
            let ((mean, deviation), median) = (found.mean(), found.median());
            let _ = write!(text, "{mean:>8.2}{deviation:>7.2}{median:>7.2}");
        }
        let _ = writeln!(text, "{:>15.1}", found.gain(pages).unwrap_or(f64::NAN));
    }
    text += "µs of CPU time for each batch\n\n";
    for (domain, stats) in stats.iter().enumerate() {
        let NumaStats { hit, miss, foreign, interleave_hit, local_node, other_node } = stats;
        let _ = writeln!(
            text,
            "domain {domain}: numa_hit {hit}, numa_miss {miss}, numa_foreign {foreign}, \
             interleave_hit {interleave_hit}, local_node {local_node}, other_node {other_node}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_is_measured_in_each_way() {
        let steps_done = std::cell::Cell::new(0);
        let (found, [one, other]) = measure(1, &|| steps_done.set(steps_done.get() + 1)).unwrap();
        assert_eq!(steps_done.get(), steps(1));
        assert_eq!(found.batched.len(), SIZES.len() * 3);
        assert!(found.batched.iter().all(|found| found.cpu_us.len() == 1));
        assert!(SIZES.iter().all(|&pages| found.gain(pages).is_some()));
        // Two repetitions of 4096 pages, half from each domain, all in turn.
        let pages = (2 * SIZES.len() * 3 * PAGES) as u64;
        assert_eq!(one.interleave_hit + other.interleave_hit, pages);
        assert_eq!((one.hit, other.miss), (pages / 2, 0));
        assert!(describe(&found, &[one, other]).contains("4096"));
        let svg = svg(&found).unwrap();
        assert!(svg.contains("one by one, locked"));
    }
}
