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

/// Runs a scenario under every schedule within the bound.
pub(super) fn check<G: Geometry>(scenario: &Scenario<G>) {
    if !scenario.loom && !full() {
        println!("loom {}: only with WOODLOT_FULL=1", scenario.name);
        return;
    }
    let (executions, bound) = run(scenario);
    println!("loom {}: {executions} executions, {bound} preemptions", scenario.name);
}

/// The scenario must fail with `what`.
pub(super) fn bites<G: Geometry>(scenario: &Scenario<G>, what: &str) {
    let result = std::panic::catch_unwind(|| run(scenario));
    let payload = result.expect_err("the defect is found");
    let text = payload.downcast_ref::<std::string::String>();
    let text = text.expect("loom says what it found");
    println!("mutant {}: {}", scenario.name, text.lines().next().unwrap_or_default());
    assert!(text.contains(what), "{}: {text}", scenario.name);
}

/// How many executions there were, and the bound.
fn run<G: Geometry>(scenario: &Scenario<G>) -> (usize, usize) {
    let mut builder = loom::model::Builder::new();
    let bound = *builder.preemption_bound.get_or_insert(PREEMPTIONS);
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
        // The model's own thread is thread 0.
        let others: Vec<_> =
            (1..scenario.threads.len()).map(|number| loom::thread::spawn(start(number))).collect();
        let mut states: Vec<State> = Vec::new();
        states.push(start(0)());
        states.extend(others.into_iter().map(|other| other.join().expect("no panic")));
        let states: Vec<&State> = states.iter().collect();
        world.judge(&states, When::Returned);
    });
    (executions.load(Ordering::Relaxed), bound)
}
