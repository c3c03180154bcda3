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
    let part = std::env::var("WOODLOT_STATES").ok().and_then(|part| part.parse().ok());
    let options = options.max_states(part.unwrap_or(states));
    match options.try_explore(setup) {
        Ok(report) => {
            assert!(report.complete || part.is_some(), "{name}: cut off: {report}");
            let Report { states, transitions, executions, complete, .. } = report;
            let end = if complete { "complete" } else { "in part" };
            println!(
                "model {name}: {states} states, {transitions} transitions, {executions} executions, {end}"
            );
        }
        Err(failure) => panic!("{name}: {failure}"),
    }
}
