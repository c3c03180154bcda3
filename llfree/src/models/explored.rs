//! The driver for the explorer: every interleaving, judged in every state.

use std::vec::Vec;

use woodlot_explore::{Model, Options, View};
use woodlot_frame::{Geometry, Persistence};

use super::machine::Level;
use super::script::{State, Thread};
use super::verdict::When;
use super::world::World;
use super::{Scenario, std};

/// Accesses within which a thread that runs alone has finished its script, from any state: below,
/// and in a whole zone. The longest looks for a block of rows beside a free of half of it: 282.
const SOLO: [u16; 2] = [60, 300];
/// The most states of a scenario, all of which must be explored.
const STATES: usize = 20_000_000;

/// Explores a scenario, or says why it does not.
pub(super) fn check<G: Geometry, P: Persistence>(scenario: &Scenario<G, P>) {
    let world = World::new(scenario);
    let solo = SOLO[(scenario.machine.level != Level::Lower) as usize];
    let options = Options::new().solo_progress(solo).max_steps(2000);
    woodlot_explore::scenario(scenario.name, STATES, options, |model| set_up(model, &world));
}

fn set_up<'m, G: Geometry, P: Persistence>(model: &mut Model<'m>, world: &'m World<G, P>) {
    world.words.name(model);
    model.name("pause", std::slice::from_ref(&world.pause));
    model.name("isolated", std::slice::from_ref(&world.isolated));
    let scenario = &world.scenario;
    for (number, script) in scenario.threads.iter().enumerate() {
        model.thread(move || {
            Thread::new(world, number, script, script.start()).run();
        });
    }
    let states = |view: &View<'_>, look: &dyn Fn(&[&State])| {
        let last = |thread| *view.notes::<State>(thread).last().expect("it says what it does");
        let states: Vec<&State> = (0..scenario.threads.len()).map(last).collect();
        look(&states);
    };
    model.invariant(move |view| states(view, &|states| world.judge(states, When::UnderWay)));
    model.finally(move |view| states(view, &|states| world.judge(states, When::Returned)));
    if scenario.machine.level == Level::Zone {
        for order in [0, 1, G::HUGE_ORDER, G::MAX_ORDER] {
            for slot in 0..scenario.slots {
                model.finally(move |_| world.exhaust(order, slot));
            }
        }
    }
}
