//! The same models under loom (`--cfg woodlot_loom`): memory orderings, with a bound on preemptions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// After so many executions loom looks at the clock and at `LOOM_MAX_PERMUTATIONS`: some take a millisecond.
const CLOCK: usize = 100;

/// A model: what the threads share, and what each of them does.
#[derive(Clone, Copy)]
pub struct Threads<N, R, J> {
    /// How many there are.
    pub count: usize,
    /// Makes what they share, anew for each execution.
    pub world: N,
    /// Runs the thread of this number; what it says at its end.
    pub run: R,
    /// Judges what they said, from the one that came first on, when all have ended.
    pub judge: J,
}

/// How far loom goes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Preemptions, where `LOOM_MAX_PREEMPTIONS` does not say.
    pub preemptions: usize,
    /// The longest for each thread that comes first, where `LOOM_MAX_DURATION` does not say.
    pub longest: Option<Duration>,
}

/// What loom went through.
#[derive(Clone, Copy)]
struct Run {
    executions: usize,
    preemptions: usize,
    /// Or was it cut off?
    complete: bool,
}

impl<W, S, N, R, J> Threads<N, R, J>
where
    W: 'static,
    S: 'static,
    N: Fn() -> W + Copy + Send + Sync + 'static,
    R: Fn(&W, usize) -> S + Copy + Send + Sync + 'static,
    J: Fn(&W, &[&S]) + Copy + Send + Sync + 'static,
{
    /// Runs the model under every schedule within the bounds, once with each thread as the first: which
    /// accesses loom sees to conflict depends on who comes first. Prints what there was to see.
    ///
    /// # Panics
    /// Of what a thread or the judge panics of, and of a data race.
    pub fn check(&self, name: &str, bounds: Bounds) {
        let runs: Vec<Run> = (0..self.count).map(|first| self.run_from(first, bounds)).collect();
        let executions: usize = runs.iter().map(|run| run.executions).sum();
        let end = if runs.iter().all(|run| run.complete) { "complete" } else { "cut off" };
        let preemptions = runs.first().map_or(0, |run| run.preemptions);
        println!("loom {name}: {executions} executions, {preemptions} preemptions, {end}");
    }

    fn run_from(&self, first: usize, bounds: Bounds) -> Run {
        let mut builder = loom::model::Builder::new();
        let preemptions = *builder.preemption_bound.get_or_insert(bounds.preemptions);
        builder.max_branches = 100_000;
        builder.checkpoint_interval = CLOCK;
        builder.max_duration = builder.max_duration.or(bounds.longest);
        let start = Instant::now();
        let counter = Arc::new(AtomicUsize::new(0));
        let (counted, threads) = (counter.clone(), *self);
        builder.check(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            threads.execute(first);
        });
        let executions = counter.load(Ordering::Relaxed);
        let complete = builder.max_duration.is_none_or(|longest| start.elapsed() < longest)
            && builder.max_permutations.is_none_or(|most| executions + 1 < most);
        Run { executions, preemptions, complete }
    }

    /// One execution, whose schedule is loom's.
    fn execute(self, first: usize) {
        let Threads { count, world, run, judge } = self;
        let world = loom::sync::Arc::new(world());
        let start = |number: usize| {
            let world = world.clone();
            move || run(&world, number)
        };
        // The model's own thread is the first.
        let others = (1..count).map(|turn| (first + turn) % count);
        let others: Vec<_> = others.map(|number| loom::thread::spawn(start(number))).collect();
        let mut said = vec![start(first)()];
        said.extend(others.into_iter().map(|other| other.join().expect("no panic")));
        // By the threads' numbers.
        said.rotate_right(first);
        judge(&world, &said.iter().collect::<Vec<_>>());
    }
}
