//! Repetitions: contenders and floor by turns.
//!
//! ```text
//!   repetition 0 (thrown away)   floor  A  B  C
//!   repetition 1                 floor  A  B  C
//!   …
//! ```

use std::time::{Duration, Instant};

use crate::Failure;
use crate::engine::Engine;
use crate::floor::{Floor, Loop};
use crate::patterns::{Kept, Metric, Runner, Setup, on_one_thread, prepare};
use crate::statistics::Summary;

/// What is measured: a contender and what it is asked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Subject {
    /// Who.
    pub engine: Engine,
    /// What.
    pub setup: Setup,
}

/// How it is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// How many repetitions count.
    pub repetitions: usize,
    /// What random choices of the floor follow from.
    pub seed: u64,
    /// How many times a million operations the hot loops of the floor do in each.
    pub floor_rounds: usize,
}

/// Nanoseconds for each operation, one number for each repetition.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// What an operation is.
    pub metric: Metric,
    /// How many of them each repetition did.
    pub operations: u64,
    /// CPU time.
    pub cpu: Vec<f64>,
    /// Time on the wall, as one thread sees it.
    pub wall: Vec<f64>,
    /// What was left of huge frames, where the pattern looks at that.
    pub kept: Vec<Kept>,
}

impl Figure {
    /// Of the CPU times.
    pub fn cpu(&self) -> Summary {
        Summary::of(&self.cpu).unwrap_or(Summary::NOTHING)
    }

    /// Of the times on the wall.
    pub fn wall(&self) -> Summary {
        Summary::of(&self.wall).unwrap_or(Summary::NOTHING)
    }

    /// Free huge frames after the last repetition, in percent of what the best placement has.
    pub fn kept_percent(&self) -> Option<f64> {
        self.kept.last().map(Kept::percent)
    }
}

/// A subject and what came of it.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What was measured.
    pub subject: Subject,
    /// The figures, or why there are none.
    pub outcome: Result<Vec<Figure>, Failure>,
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Run {
    /// The floor: CPU time of each loop in each repetition.
    pub floor: Vec<(Loop, Vec<f64>)>,
    /// Every subject.
    pub measured: Vec<Measured>,
}

impl Run {
    /// One loop of the floor.
    pub fn floor(&self, which: Loop) -> Summary {
        let found = self.floor.iter().find(|(known, _)| *known == which);
        found.and_then(|(_, samples)| Summary::of(samples)).unwrap_or(Summary::NOTHING)
    }

    /// How many times as long a figure is as that of the same threads in step, where both were
    /// measured: by medians and by minima.
    pub fn times_in_step(&self, subject: &Subject, figure: &Figure) -> Option<[f64; 2]> {
        let pattern = subject.setup.pattern.in_step()?;
        let in_step = Subject { setup: Setup { pattern, ..subject.setup }, ..*subject };
        let (own, other) = (figure.cpu(), self.figure(&in_step, figure.metric).ok()?.cpu());
        Some([own.median / other.median, own.min / other.min])
    }

    /// A figure of a subject.
    ///
    /// # Errors
    /// Why there is none.
    pub fn figure(&self, subject: &Subject, metric: Metric) -> Result<&Figure, Failure> {
        let missing = || Failure::Failed(format!("{metric} was not measured"));
        let measured = self.measured.iter().find(|measured| measured.subject == *subject);
        let figures = measured.ok_or_else(missing)?.outcome.as_ref().map_err(Failure::clone)?;
        figures.iter().find(|figure| figure.metric == metric).ok_or_else(missing)
    }
}

/// A subject under way.
struct Under {
    subject: Subject,
    outcome: Result<(Box<dyn Runner>, Vec<Figure>), Failure>,
}

impl Under {
    fn new(subject: Subject) -> Under {
        let runner = prepare(subject.engine, &subject.setup);
        Under { subject, outcome: runner.map(|runner| (runner, Vec::new())) }
    }

    /// What came of it so far.
    fn measured(&self) -> Measured {
        let figures = self.outcome.as_ref().map(|(_, figures)| figures.clone());
        Measured { subject: self.subject, outcome: figures.map_err(Failure::clone) }
    }

    /// One repetition; the first failure is the last.
    fn repeat(&mut self, counts: bool) {
        let Ok((runner, figures)) = &mut self.outcome else { return };
        match runner.sample() {
            Ok(sample) if counts => {
                for (metric, tally) in sample {
                    let known = figures.iter().position(|figure| figure.metric == metric);
                    let index = known.unwrap_or(figures.len());
                    if known.is_none() {
                        let operations = tally.operations;
                        let (cpu, wall, kept) = (vec![], vec![], vec![]);
                        figures.push(Figure { metric, operations, cpu, wall, kept });
                    }
                    figures[index].cpu.push(tally.cpu());
                    figures[index].wall.push(tally.wall());
                    figures[index].kept.extend(runner.kept());
                }
            }
            Ok(_) => {}
            Err(Failure::Failed(cause)) => {
                let cause = format!("{}: {cause}", self.subject.engine);
                self.outcome = Err(Failure::Failed(cause));
            }
            Err(usage) => self.outcome = Err(usage),
        }
    }
}

/// Measures subjects; `progress` is told how many steps of `(repetitions + 1) × subjects` are done.
/// A subject that fails has its failure for an outcome, and the others go on.
pub fn measure(subjects: &[Subject], options: Options, progress: &dyn Fn(usize)) -> Run {
    measure_and_keep(subjects, options, progress, &mut |_, _| {})
}

/// At most so often is what was found given out in the middle of a run.
const KEEP: Duration = Duration::from_secs(1);

/// The same; `keep` is given what was found so far, and how many of the samples that count that are (of
/// `repetitions × subjects`): after the first one, after the last one, and every second between.
pub fn measure_and_keep(
    subjects: &[Subject],
    options: Options,
    progress: &dyn Fn(usize),
    keep: &mut dyn FnMut(usize, &Run),
) -> Run {
    let mut floor = Floor::new(options.seed, options.floor_rounds);
    let mut under: Vec<Under> = subjects.iter().map(|&subject| Under::new(subject)).collect();
    let floors = Loop::ALL.map(|which| (which, Vec::new())).to_vec();
    let mut run = Run { floor: floors, measured: Vec::new() };
    let samples = options.repetitions * subjects.len();
    let mut kept: Option<Instant> = None;
    for repetition in 0..=options.repetitions {
        let tallies = on_one_thread(|| floor.sample());
        if repetition > 0 {
            let with_samples = run.floor.iter_mut().zip(tallies);
            let there = with_samples.filter(|(_, tally)| tally.operations > 0);
            there.for_each(|((_, samples), tally)| samples.push(tally.cpu()));
        }
        for index in 0..under.len() {
            under[index].repeat(repetition > 0);
            let steps = repetition * subjects.len() + index + 1;
            progress(steps);
            let counted = steps.saturating_sub(subjects.len());
            let due = kept.is_none_or(|kept| kept.elapsed() > KEEP) || counted == samples;
            if counted > 0 && due {
                run.measured = under.iter().map(Under::measured).collect();
                keep(counted, &run);
                kept = Some(Instant::now());
            }
        }
    }
    run
}
