//! The numbers behind the figures, for other programs.

use serde::Serialize;

use super::phase::Phase;
use crate::replay::{Checks, Failures, Means, Report, Row, Timing};
use woodlot_bench::Failure;
use woodlot_bench::output::Machine;

/// One row for each moment of each trace.
#[derive(Serialize)]
struct CurveLine<'a> {
    trace: &'a str,
    operations: usize,
    time_s: f64,
    label: &'a str,
    in_mean: bool,
    engine: &'a str,
    engine_free_huge: usize,
    engine_free_frames: usize,
    engine_ratio: f64,
    engine_moves: usize,
    linux_free_huge: usize,
    linux_free_frames: usize,
    linux_ratio: f64,
    linux_moves: usize,
}

impl<'a> CurveLine<'a> {
    fn new(phase: &'a Phase, report: &Report, row: &'a Row) -> Self {
        Self {
            trace: &phase.name,
            operations: row.after,
            time_s: row.time_us as f64 / 1e6,
            label: &row.label,
            in_mean: row.regular,
            engine: report.engine,
            engine_free_huge: row.ours.free_huge,
            engine_free_frames: row.ours.free_frames,
            engine_ratio: row.ours.ratio(),
            engine_moves: row.ours.moves,
            linux_free_huge: row.linux.free_huge,
            linux_free_frames: row.linux.free_frames,
            linux_ratio: row.linux.ratio(),
            linux_moves: row.linux.moves,
        }
    }
}

/// The curves as comma-separated values.
pub fn curve_csv(phases: &[Phase]) -> Result<Vec<u8>, Failure> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    let fail =
        |error: &dyn std::fmt::Display| Failure::Failed(format!("the curve as CSV: {error}"));
    for phase in phases {
        for (_, report) in &phase.runs {
            for row in &report.rows {
                let line = CurveLine::new(phase, report, row);
                csv.serialize(line).map_err(|error| fail(&error))?;
            }
        }
    }
    csv.into_inner().map_err(|error| fail(&error))
}

#[derive(Serialize)]
struct Summary<'a> {
    made_by: Machine,
    zones: &'a str,
    phases: Vec<PhaseSummary<'a>>,
}

#[derive(Serialize)]
struct PhaseSummary<'a> {
    trace: &'a str,
    engine: &'a str,
    allocations: usize,
    frees: usize,
    failures_by_order: &'a Failures,
    linux_failures_by_order: &'a Failures,
    linux_failures_tried: usize,
    linux_failures_served: usize,
    done_otherwise: &'a [&'static str],
    most_frames_held: isize,
    engine_means: Option<Means>,
    linux_means: Option<Means>,
    ratios_of_starts: &'a [f64],
    checks: &'a Checks,
    timing: &'a Option<Timing>,
    replay_seconds: f64,
}

/// What each replay found, and where it was made.
pub fn summary_json(phases: &[Phase], zones: &str) -> Result<Vec<u8>, Failure> {
    let runs = phases.iter().flat_map(|phase| phase.runs.iter().map(move |run| (phase, run)));
    let phases = runs.map(|(Phase { name, .. }, (_, report))| {
        let curve = (!report.rows.is_empty()).then_some(report);
        PhaseSummary {
            trace: name,
            engine: report.engine,
            allocations: report.allocs,
            frees: report.frees,
            failures_by_order: &report.failures,
            linux_failures_by_order: &report.linux_failures,
            linux_failures_tried: report.probes,
            linux_failures_served: report.probes_served,
            done_otherwise: &report.remarks,
            most_frames_held: report.most_held,
            engine_means: curve.map(|report| report.means(|row| row.ours)),
            linux_means: curve.map(|report| report.means(|row| row.linux)),
            ratios_of_starts: &report.ratios,
            checks: &report.checks,
            timing: &report.timing,
            replay_seconds: report.seconds,
        }
    });
    let summary = Summary { made_by: Machine::here(), zones, phases: phases.collect() };
    let mut json = serde_json::to_vec_pretty(&summary)
        .map_err(|error| Failure::Failed(format!("the summary as JSON: {error}")))?;
    json.push(b'\n');
    Ok(json)
}
