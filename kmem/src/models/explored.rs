//! The driver for the explorer: every interleaving, judged in every state.

use woodlot_explore::{Options, View};

use super::Scenario;
use super::script::{Shared, State, run};
use super::world::judge;

/// The most states of a scenario, all of which must be explored.
const STATES: usize = 15_000_000;

/// Explores a scenario, or says why it does not.
pub(super) fn check<W: Shared>(scenario: &Scenario) {
    let world = &W::new(scenario);
    let threads = scenario.threads.len();
    let options = Options::new().max_steps(5000);
    woodlot_explore::scenario(scenario.name, STATES, options, |model| {
        // What the judge uses at the end may be more than what the threads do.
        model.meet(|| world.settle(world.blocks().iter().flatten()));
        for number in 0..threads {
            model.thread(move || {
                run(world, number);
            });
        }
        let owned = move |view: &View<'_>, look: &dyn Fn(&State)| {
            let last = |thread| view.notes::<State>(thread).pop().cloned().unwrap_or_default();
            look(&(0..threads).flat_map(last).collect());
        };
        model.invariant(move |view| owned(view, &|blocks| judge(blocks.iter())));
        model.finally(move |view| owned(view, &|blocks| world.settle(blocks.iter())));
    });
}
