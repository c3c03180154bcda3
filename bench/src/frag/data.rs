//! The states as comma-separated values.

use serde::Serialize;

use super::{FragSetup, State};
use crate::Failure;
use crate::engine::Engine;
use crate::size::Size;

#[derive(Serialize)]
struct Line {
    engine: &'static str,
    memory: Size,
    slots: usize,
    seed: u64,
    iteration: usize,
    free_frames: usize,
    free_huge: usize,
    possible_huge: usize,
    percent: f64,
    moves: usize,
}

/// A row for each iteration of each engine.
///
/// # Errors
/// When it cannot be written down, which is a defect.
pub fn csv(setup: &FragSetup, curves: &[(Engine, Vec<State>)]) -> Result<Vec<u8>, Failure> {
    let mut csv = ::csv::Writer::from_writer(Vec::new());
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(format!("as CSV: {error}"));
    for (engine, states) in curves {
        for state in states {
            let &State { iteration, free_frames, free_huge, possible_huge, moves } = state;
            let line = Line {
                engine: engine.name(),
                memory: setup.memory,
                slots: setup.slots,
                seed: setup.seed,
                iteration,
                free_frames,
                free_huge,
                possible_huge,
                percent: state.percent(),
                moves,
            };
            csv.serialize(line).map_err(|error| failed(&error))?;
        }
    }
    csv.into_inner().map_err(|error| failed(&error))
}
