//! Models that tests run by name: completely, or, where there is little time, in part.

use crate::{Model, Options, Report};

/// The states that are enough of a large model in a short run, and where coverage is measured.
const PART: usize = if cfg!(coverage) { 10_000 } else { 500_000 };

/// Explores a model that has at most so many states, or with `WOODLOT_FULL=0` its first ones, and prints what there
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
    let short = cfg!(coverage) || std::env::var_os("WOODLOT_FULL").is_some_and(|full| full == "0");
    let options = options.max_states(if short { PART } else { states });
    match options.try_explore(setup) {
        Ok(report) => {
            assert!(report.complete || short, "{name}: cut off: {report}");
            let Report { states, transitions, executions, complete, .. } = report;
            let end = if complete { "complete" } else { "in part" };
            println!(
                "model {name}: {states} states, {transitions} transitions, {executions} executions, {end}"
            );
        }
        Err(failure) => panic!("{name}: {failure}"),
    }
}
