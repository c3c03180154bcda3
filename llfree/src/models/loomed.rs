//! The driver for loom: memory orderings, with a bound on preemptions.

use std::println;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::vec::Vec;

use loom::sync::Arc;
use woodlot_frame::Geometry;

use super::script::{State, Thread};
use super::verdict::When;
use super::world::World;
use super::{Scenario, full, std};

/// Preemptions, where `LOOM_MAX_PREEMPTIONS` does not say.
const PREEMPTIONS: usize = 3;
/// The longest that a larger scenario may take for each thread that comes first, in a full run, where
/// `LOOM_MAX_DURATION` does not say.
const LONGEST: Duration = Duration::from_secs(20);

/// After so many executions loom looks at the clock and at `LOOM_MAX_PERMUTATIONS`: some take a millisecond.
const CLOCK: usize = 100;

/// Runs a scenario under every schedule within the bound, once with each thread as the first:
/// which accesses loom sees to conflict depends on who comes first.
pub(super) fn check<G: Geometry>(scenario: &Scenario<G>) {
    let (bound, longest) = match (scenario.loom, full()) {
        (true, _) => (PREEMPTIONS, None),
        (false, false) => (1, None),
        (false, true) => (PREEMPTIONS, Some(LONGEST)),
    };
    let first = 0..scenario.threads.len();
    let runs: Vec<_> = first.map(|first| run(scenario, first, bound, longest)).collect();
    let executions: usize = runs.iter().map(|run| run.executions).sum();
    let end = if runs.iter().all(|run| run.complete) { "complete" } else { "cut off" };
    let bound = runs[0].bound;
    println!("loom {}: {executions} executions, {bound} preemptions, {end}", scenario.name);
}

/// What loom went through.
#[derive(Debug)]
struct Run {
    executions: usize,
    /// Of preemptions.
    bound: usize,
    /// Or was it cut off?
    complete: bool,
}

fn run<G: Geometry>(
    scenario: &Scenario<G>,
    first: usize,
    bound: usize,
    longest: Option<Duration>,
) -> Run {
    let mut builder = loom::model::Builder::new();
    let bound = *builder.preemption_bound.get_or_insert(bound);
    builder.max_branches = 100_000;
    builder.checkpoint_interval = CLOCK;
    builder.max_duration = builder.max_duration.or(longest);
    let start = Instant::now();
    let executions = std::sync::Arc::new(AtomicUsize::new(0));
    let (counter, scenario) = (executions.clone(), *scenario);
    builder.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        let world = Arc::new(World::new(&scenario));
        let start = |number: usize| {
            let world = world.clone();
            move || {
                let script = &scenario.threads[number];
                Thread::new(&world, number, script, script.start()).run()
            }
        };
        // The model's own thread is the first.
        let threads = scenario.threads.len();
        let others = (1..threads).map(|turn| (first + turn) % threads);
        let others: Vec<_> = others.map(|number| loom::thread::spawn(start(number))).collect();
        let mut states: Vec<State> = std::vec![start(first)()];
        states.extend(others.into_iter().map(|other| other.join().expect("no panic")));
        let states: Vec<&State> = states.iter().collect();
        world.judge(&states, When::Returned);
    });
    let executions = executions.load(Ordering::Relaxed);
    let complete = builder.max_duration.is_none_or(|longest| start.elapsed() < longest)
        && builder.max_permutations.is_none_or(|most| executions + 1 < most);
    Run { executions, bound, complete }
}
