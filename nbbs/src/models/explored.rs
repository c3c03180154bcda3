//! The driver for the explorer: every interleaving, judged in every state.

use std::println;
use std::vec::Vec;

use woodlot_explore::{Failure, Model, Options, Report, View};
use woodlot_frame::Geometry;

use super::script::{State, Thread};
use super::verdict::When;
use super::world::{Cells, World};
use super::{Scenario, std};

/// Accesses within which a thread that runs alone has finished its script, from any state.
const SOLO: u16 = 200;
/// The most states of a scenario. Where coverage is measured, a part of each is enough: all of it is
/// what `cargo xtask model` runs.
const STATES: usize = if cfg!(coverage) { 10_000 } else { 5_000_000 };

/// Explores a scenario completely, or says why it does not.
pub(super) fn check<G: Geometry, F: Cells>(scenario: &Scenario<G, F>) {
    match explore(scenario, STATES) {
        Ok(report) => {
            assert!(report.complete || cfg!(coverage), "{}: cut off: {report}", scenario.name);
            let Report { states, transitions, executions, .. } = report;
            println!(
                "model {} {}: {states} states, {transitions} transitions, {executions} executions, {}",
                F::NAME,
                scenario.name,
                if report.complete { "complete" } else { "in part" }
            );
        }
        Err(failure) => panic!("{}: {failure}", scenario.name),
    }
}

/// Explores a scenario, up to so many states.
pub(super) fn explore<G: Geometry, F: Cells>(
    scenario: &Scenario<G, F>,
    states: usize,
) -> Result<Report, Failure> {
    let world = World::new(scenario);
    let options = Options::new().solo_progress(SOLO).max_states(states).max_steps(2000);
    options.try_explore(|model| set_up(model, &world))
}

fn set_up<'m, G: Geometry, F: Cells>(model: &mut Model<'m>, world: &'m World<G, F>) {
    F::name(model, &world.cells);
    model.name("slots", &world.slots);
    model.name("spent", &world.spent);
    model.name("pause", std::slice::from_ref(&world.pause));
    let threads = world.scenario.threads.len();
    for number in 0..threads {
        model.thread(move || {
            Thread::new(world, number).run();
        });
    }
    let states = move |view: &View<'_>, look: &dyn Fn(&[&State])| {
        let last = |thread| *view.notes::<State>(thread).last().expect("it says what it does");
        let states: Vec<&State> = (0..threads).map(last).collect();
        look(&states);
    };
    model.invariant(move |view| states(view, &|states| world.judge(states, When::UnderWay)));
    model.finally(move |view| states(view, &|states| world.judge(states, When::Returned)));
    for order in 0..=G::MAX_ORDER {
        model.finally(move |_| world.exhaust(order));
    }
}
