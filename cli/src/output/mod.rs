//! What the program leaves behind: text on the terminal, figures and data in a folder.

mod data;
mod figure;
mod phase;
pub mod png;
mod summary;

pub use phase::Phase;
pub use summary::{describe_phase, describe_trace};

use std::path::{Path, PathBuf};

use woodlot_bench::Failure;
use woodlot_bench::output::replace_files;

const FIGURE: [&str; 2] = ["free-huge.svg", "free-huge.png"];
/// What the figure is drawn from. Not `curve.csv`: beside a trace that is Linux's recorded curve.
const CURVE: &str = "free-huge.csv";
const SUMMARY: &str = "summary.json";

/// Writes figures and data; returns where they are. What an earlier run left of them is replaced or
/// removed.
///
/// # Errors
/// The first file that could not be written; none of them appears then.
pub fn write_all(out: &Path, phases: &[Phase], zones: &str) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    if phases.iter().any(|phase| !phase.rows().is_empty()) {
        let svg = figure::draw(phases)?;
        let png = png::render(&svg).map_err(Failure::Failed)?;
        let drawn = [svg.into_bytes(), png];
        files.extend(FIGURE.iter().map(|name| out.join(name)).zip(drawn));
        files.push((out.join(CURVE), data::curve_csv(phases)?));
    }
    files.push((out.join(SUMMARY), data::summary_json(phases, zones)?));
    let all = [FIGURE[0], FIGURE[1], CURVE, SUMMARY].map(|name| out.join(name));
    replace_files(&files, &all)?;
    Ok(files.into_iter().map(|(path, _)| path).collect())
}
