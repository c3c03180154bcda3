//! The driver for loom: memory orderings, with a bound on preemptions.

use std::boxed::Box;
use std::time::Duration;

use woodlot_explore::orderings::{Bounds, Threads};

use super::script::{Shared, State, run};
use super::{Scenario, std};

/// Words of the stack on which the allocator is made: its locks fill those that loom gives to threads.
const STACK: usize = 1 << 18;
const BOUNDS: Bounds = Bounds { preemptions: 3, longest: Some(Duration::from_secs(20)) };

/// Runs a scenario under every schedule within the bounds.
pub(super) fn check<W: Shared + Send + 'static>(scenario: &Scenario) {
    let scenario = *scenario;
    let threads = Threads {
        count: scenario.threads.len(),
        world: move || Made(made::<W>(scenario)),
        run: |world: &Made<W>, number: usize| run(&*world.0, number),
        judge: |world: &Made<W>, states: &[&State]| {
            world.0.settle(states.iter().flat_map(|state| state.iter()));
        },
    };
    threads.check(scenario.name, BOUNDS);
}

/// Too large for the stack of a thread.
struct Made<W>(Box<W>);

/// The allocator, made by a thread that has ended.
fn made<W: Shared + Send + 'static>(scenario: Scenario) -> Box<W> {
    let maker = loom::thread::Builder::new().stack_size(STACK);
    let maker = maker.spawn(move || Box::new(W::new(&scenario)));
    maker.expect("a thread").join().expect("no panic")
}
