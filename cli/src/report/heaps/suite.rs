//! What is measured of heaps, and how much of it.

use woodlot_bench::Failure;
use woodlot_bench::kmem::{
    self, Contenders, FLUSH, Kept, Libraries, Looped, MOST_CPUS, Setup, What, counts, curves,
    lock_manager, preload, purity, transfers, waste,
};
use woodlot_bench::size::Size;
use woodlot_kmem::{Octaves, Quarters};

use super::Heaps;
use crate::report::scope::thread_counts;

/// How much of everything.
#[derive(Clone, Copy)]
pub struct Effort {
    /// How often everything is measured.
    pub repetitions: usize,
    /// Pairs of a repetition.
    pub operations: usize,
    /// Bytes of blocks, where all of memory is allocated.
    pub memory: Size,
    /// Sizes of blocks, where each of them has to be measured by itself.
    pub bytes: &'static [usize],
    /// Pairs that each CPU makes while every access is seen.
    pub watched: usize,
    /// Are instructions counted? Each count takes seconds.
    pub counts: bool,
}

/// The size of the pairs that are drawn by threads, and whose instructions are counted.
pub const PAIR_BYTES: usize = 256;
/// What is measured of heaps today.
const TODAY: [What; 4] = [What::ProducerConsumer, What::Churn, What::Larson, What::CacheScratch];

/// How often it is said what is next.
pub const STEPS: usize = 2 + TODAY.len() + 7;

/// What is in the making.
struct Measuring<'a> {
    effort: Effort,
    cpus: usize,
    missing: &'a mut Vec<String>,
    step: &'a dyn Fn(&str),
}

/// Measures everything, on a machine with so many CPUs. What could not be measured is said; `step` is told what is next.
///
/// # Errors
/// A count that needs nothing but memory has failed.
pub fn measure(
    effort: Effort,
    cpus: usize,
    missing: &mut Vec<String>,
    step: &dyn Fn(&str),
) -> Result<Heaps, Failure> {
    let mut run = Measuring { effort, cpus: cpus.min(MOST_CPUS), missing, step };
    let all = Contenders::default();
    let libraries = run.libraries();
    let setup = |what| run.setup(what);
    let (pair, worst) = (setup(What::Pair), setup(What::Worst));
    let [lock, waste_of, near] = [What::LockManager, What::Waste, What::Purity].map(setup);
    let rounds = Setup { operations: effort.watched, ..near.clone() };
    Ok(Heaps {
        memory: effort.memory,
        pairs: run.timed(What::Pair, &all, &pair),
        worst: run.timed(What::Worst, &all, &worst),
        today: TODAY
            .map(|what| {
                let setup = run.setup(what);
                Looped { what, kept: run.timed(what, &all, &setup) }
            })
            .into(),
        preloaded: run.preloaded(libraries),
        curves: run.curves(&all, libraries),
        locks: {
            (run.step)("lock manager");
            [
                lock_manager::<Octaves>(run.cpus, &lock, None)?,
                lock_manager::<Octaves>(run.cpus, &lock, Some(FLUSH))?,
            ]
        },
        waste: {
            (run.step)("waste");
            [waste::<Octaves>(&waste_of)?, waste::<Quarters>(&waste_of)?]
        },
        counts: if effort.counts {
            (run.step)("instructions");
            counts(&all, &[PAIR_BYTES])
        } else {
            Vec::new()
        },
        purity: {
            (run.step)("purity");
            purity(&near)?
        },
        transfers: {
            (run.step)("transfers");
            transfers(&rounds).unwrap_or_else(|why| {
                run.missing.push(format!("lines that move: {why}"));
                Vec::new()
            })
        },
    })
}

impl Measuring<'_> {
    fn setup(&self, what: What) -> Setup {
        let Effort { operations, memory, bytes, .. } = self.effort;
        let threads = match what {
            What::Pair => {
                thread_counts(self.cpus).into_iter().filter(|&n| n <= MOST_CPUS).collect()
            }
            What::Churn | What::Larson => vec![1, self.cpus.max(2)],
            What::CacheScratch => vec![self.cpus.max(2)],
            _ => vec![1],
        };
        let bytes = match what {
            What::Pair => vec![PAIR_BYTES],
            What::CacheScratch => vec![16, 64],
            _ => bytes.to_vec(),
        };
        Setup { threads, bytes, operations, memory, ..Setup::default() }
    }

    fn timed(&mut self, what: What, contenders: &Contenders, setup: &Setup) -> Kept {
        (self.step)(&format!("heaps, {what}"));
        let kept = kmem::measure(what, contenders, (setup, self.effort.repetitions), &|| {});
        self.kept(what, kept)
    }

    /// What was measured, or nothing; and why.
    fn kept(&mut self, what: What, kept: Result<Kept, Failure>) -> Kept {
        let kept =
            kept.unwrap_or_else(|why| Kept { failures: vec![why.to_string()], ..Kept::default() });
        self.missing.extend(kept.failures.iter().map(|why| format!("heaps, {what}: {why}")));
        kept
    }

    /// What there is; they stay until the program ends.
    fn libraries(&mut self) -> &'static Libraries {
        let found = "all"
            .parse::<Libraries>()
            .unwrap_or_else(|why| Libraries { missing: vec![why], ..Libraries::default() });
        self.missing.extend(found.missing.iter().map(|why| format!("heaps, preloaded: {why}")));
        Box::leak(Box::new(found))
    }

    fn preloaded(&mut self, libraries: &'static Libraries) -> Vec<Looped> {
        (self.step)("heaps, preloaded");
        let setup = |what| match what {
            What::Pair => {
                Setup { threads: vec![1], bytes: self.effort.bytes.to_vec(), ..self.setup(what) }
            }
            _ => self.setup(what),
        };
        preload(libraries, (&setup, self.effort.repetitions), &|| {}).unwrap_or_else(|why| {
            self.missing.push(format!("heaps, preloaded: {why}"));
            Vec::new()
        })
    }

    fn curves(&mut self, all: &Contenders, libraries: &Libraries) -> Vec<kmem::Curve> {
        (self.step)("heaps, memory over time");
        let (curves, failures) = curves(all, libraries, &self.setup(What::Memory), &|| {});
        self.missing.extend(failures.iter().map(|why| format!("heaps, memory over time: {why}")));
        curves
    }
}
