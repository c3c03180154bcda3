//! The driver for the explorer: every interleaving, judged in every state.

use std::format;
use std::vec::Vec;

use woodlot_explore::{Failure, Model, Options, Report, View};
use woodlot_frame::Geometry;

use super::script::{State, Thread};
use super::verdict::When;
use super::world::{Cells, World};
use super::{Scenario, std};

/// Accesses within which a thread that runs alone has finished its script, from any state.
const SOLO: u16 = 200;
/// The most states of a scenario, all of which must be explored.
const STATES: usize = 5_000_000;

/// Explores a scenario, or says why it does not.
pub(super) fn check<G: Geometry, F: Cells>(scenario: &Scenario<G, F>) {
    let world = World::new(scenario);
    let name = format!("{} {}", F::NAME, scenario.name);
    woodlot_explore::scenario(&name, STATES, options(), |model| set_up(model, &world));
}

/// Explores a scenario, up to so many states.
pub(super) fn explore<G: Geometry, F: Cells>(
    scenario: &Scenario<G, F>,
    states: usize,
) -> Result<Report, Failure> {
    let world = World::new(scenario);
    options().max_states(states).try_explore(|model| set_up(model, &world))
}

fn options() -> Options {
    Options::new().solo_progress(SOLO).max_steps(2000)
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
