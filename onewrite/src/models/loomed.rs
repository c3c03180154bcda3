//! The driver for loom: memory orderings, with a bound on preemptions.

use std::time::Duration;

use woodlot_explore::orderings::{Bounds, Threads};
use woodlot_frame::Geometry;

use super::script::{State, Thread};
use super::verdict::When;
use super::world::World;
use super::{Scenario, std};

const BOUNDS: Bounds = Bounds { preemptions: 3, longest: Some(Duration::from_secs(20)) };

/// Runs a scenario under every schedule within the bounds.
pub(super) fn check<G: Geometry>(scenario: &Scenario) {
    let scenario = *scenario;
    let threads = Threads {
        count: scenario.threads.len(),
        world: move || World::<G>::new(&scenario),
        run: |world: &World<G>, number: usize| Thread::new(world, number).run(),
        judge: |world: &World<G>, states: &[&State]| world.judge(states, When::Returned),
    };
    threads.check(scenario.name, BOUNDS);
}
