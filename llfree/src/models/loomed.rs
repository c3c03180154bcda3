//! The driver for loom: memory orderings, with a bound on preemptions.

use std::println;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::vec::Vec;

use loom::sync::Arc;
use woodlot_frame::Geometry;

use super::script::{State, Thread};
use super::verdict::When;
use super::world::World;
use super::{Scenario, full, std};

/// Preemptions, where `LOOM_MAX_PREEMPTIONS` does not say.
const PREEMPTIONS: usize = 3;

/// Runs a scenario under every schedule within the bound, once with each thread as the first:
/// which accesses loom sees to conflict depends on who comes first.
pub(super) fn check<G: Geometry>(scenario: &Scenario<G>) {
    let bound = if scenario.loom || full() { PREEMPTIONS } else { 1 };
    let first = 0..scenario.threads.len();
    let runs: Vec<_> = first.map(|first| run(scenario, first, bound)).collect();
    let executions: usize = runs.iter().map(|run| run.0).sum();
    println!("loom {}: {executions} executions, {} preemptions", scenario.name, runs[0].1);
}

/// The scenario must fail with `what`.
pub(super) fn bites<G: Geometry>(scenario: &Scenario<G>, what: &str) {
    let result = std::panic::catch_unwind(|| run(scenario, 0, PREEMPTIONS));
    let payload = result.expect_err("the defect is found");
    let text = payload.downcast_ref::<std::string::String>();
    let text = text.expect("loom says what it found");
    println!("mutant {}: {}", scenario.name, text.lines().next().unwrap_or_default());
    assert!(text.contains(what), "{}: {text}", scenario.name);
}

/// How many executions there were, and the bound.
fn run<G: Geometry>(scenario: &Scenario<G>, first: usize, bound: usize) -> (usize, usize) {
    let mut builder = loom::model::Builder::new();
    let bound = *builder.preemption_bound.get_or_insert(bound);
    builder.max_branches = 100_000;
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
    (executions.load(Ordering::Relaxed), bound)
}
