//! The driver for loom: memory orderings, with a bound on preemptions.

use std::time::Duration;

use woodlot_explore::orderings::{Bounds, Threads};
use woodlot_frame::{Geometry, Persistence};

use super::script::{State, Thread};
use super::verdict::When;
use super::world::World;
use super::{Scenario, full, std};

const PREEMPTIONS: usize = 3;
/// The longest that a larger scenario may take for each thread that comes first, in a full run.
const LONGEST: Duration = Duration::from_secs(20);

/// Runs a scenario under every schedule within the bounds.
pub(super) fn check<G: Geometry, P: Persistence + 'static>(scenario: &Scenario<G, P>) {
    let bounds = match (scenario.loom, full()) {
        (true, _) => Bounds { preemptions: PREEMPTIONS, longest: None },
        (false, false) => Bounds { preemptions: 1, longest: None },
        (false, true) => Bounds { preemptions: PREEMPTIONS, longest: Some(LONGEST) },
    };
    let scenario = *scenario;
    let threads = Threads {
        count: scenario.threads.len(),
        world: move || World::new(&scenario),
        run: move |world: &World<G, P>, number: usize| {
            let script = &scenario.threads[number];
            Thread::new(world, number, script, script.start()).run()
        },
        judge: |world: &World<G, P>, states: &[&State]| world.judge(states, When::Returned),
    };
    threads.check(scenario.name, bounds);
}
