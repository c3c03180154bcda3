//! The driver for loom: memory orderings, with a bound on preemptions.

use std::println;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::vec::Vec;

use loom::sync::Arc;
use woodlot_frame::Geometry;

use super::script::{State, Thread};
use super::verdict::When;
use super::world::{Cells, World};
use super::{Scenario, std};

/// Preemptions, where `LOOM_MAX_PREEMPTIONS` does not say.
const PREEMPTIONS: usize = 3;
/// The longest that a scenario may take for each thread that comes first, where `LOOM_MAX_DURATION` does
/// not say.
const LONGEST: Duration = Duration::from_secs(20);

/// After so many executions loom looks at the clock and at `LOOM_MAX_PERMUTATIONS`: some take a millisecond.
const CLOCK: usize = 100;

/// Runs a scenario under every schedule within the bound, once with each thread as the first:
/// which accesses loom sees to conflict depends on who comes first.
pub(super) fn check<G: Geometry, F: Cells>(scenario: &Scenario<G, F>) {
    let runs: Vec<_> = (0..scenario.threads.len()).map(|first| run(scenario, first)).collect();
    let executions: usize = runs.iter().map(|(executions, _)| executions).sum();
    let end = if runs.iter().all(|(_, complete)| *complete) { "complete" } else { "cut off" };
    println!("loom {} {}: {executions} executions, {end}", F::NAME, scenario.name);
}

/// How many executions there were, and whether these are all.
fn run<G: Geometry, F: Cells>(scenario: &Scenario<G, F>, first: usize) -> (usize, bool) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(PREEMPTIONS);
    let longest = *builder.max_duration.get_or_insert(LONGEST);
    builder.max_branches = 100_000;
    builder.checkpoint_interval = CLOCK;
    let start = Instant::now();
    let executions = std::sync::Arc::new(AtomicUsize::new(0));
    let (counter, scenario) = (executions.clone(), *scenario);
    builder.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        let world = Arc::new(World::new(&scenario));
        let start = |number: usize| {
            let world = world.clone();
            move || Thread::new(&world, number).run()
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
    let all = builder.max_permutations.is_none_or(|most| executions + 1 < most);
    (executions, all && start.elapsed() < longest)
}
