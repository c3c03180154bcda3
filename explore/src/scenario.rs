//! Models that tests run by name: completely, or, where there is little time, in part.

use crate::{Model, Options, Report};

/// Explores a model that has at most so many states, or as many of them as `WOODLOT_STATES` says, and prints what there
/// was to see.
///
/// # Panics
/// Of what is wrong in some state, and where there are more of them.
pub fn scenario<'m>(
    name: &str,
    states: usize,
    options: Options,
    setup: impl FnOnce(&mut Model<'m>),
) {
    let part = part();
    let report = explored(name, part.unwrap_or(states), options, setup);
    assert!(report.complete || part.is_some(), "{name}: cut off: {report}");
}

/// Explores so many states of a model that may have more of them, or as many as `WOODLOT_STATES` says, and prints what
/// there was to see, and whether it was all.
///
/// # Panics
/// Of what is wrong in some state.
pub fn scenario_in_part<'m>(
    name: &str,
    states: usize,
    options: Options,
    setup: impl FnOnce(&mut Model<'m>),
) {
    explored(name, part().unwrap_or(states), options, setup);
}

/// How many states of each scenario a short run explores.
fn part() -> Option<usize> {
    std::env::var("WOODLOT_STATES").ok()?.parse().ok()
}

fn explored<'m>(
    name: &str,
    states: usize,
    options: Options,
    setup: impl FnOnce(&mut Model<'m>),
) -> Report {
    let report = match options.max_states(states).try_explore(setup) {
        Ok(report) => report,
        Err(failure) => panic!("{name}: {failure}"),
    };
    let Report { states, transitions, executions, complete, .. } = &report;
    let end = if *complete { "complete" } else { "in part" };
    println!(
        "model {name}: {states} states, {transitions} transitions, {executions} executions, {end}"
    );
    report
}
