//! What the program leaves behind: text on the terminal, figures and data in a folder.

mod data;
mod figure;
mod png;
mod summary;

pub use summary::{describe_phase, describe_trace};

use std::path::{Path, PathBuf};

use crate::replay::Report;
use woodlot_bench::Failure;
use woodlot_bench::output::write_files;

/// A replayed trace.
pub struct Phase {
    /// What the trace is called.
    pub name: String,
    /// What runs in it, where that is known.
    pub about: Option<&'static str>,
    /// What the replay found.
    pub report: Report,
}

/// Writes figures and data; returns where they are.
///
/// # Errors
/// The first file that could not be written; none of them appears then.
pub fn write_all(out: &Path, phases: &[Phase], zones: &str) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    if phases.iter().any(|phase| !phase.report.rows.is_empty()) {
        let svg = figure::draw(phases)?;
        let png = png::render(&svg).map_err(Failure::Failed)?;
        files.push((out.join("free-huge.svg"), svg.into_bytes()));
        files.push((out.join("free-huge.png"), png));
        files.push((out.join("curve.csv"), data::curve_csv(phases)?));
    }
    files.push((out.join("summary.json"), data::summary_json(phases, zones)?));
    write_files(&files)?;
    Ok(files.into_iter().map(|(path, _)| path).collect())
}
