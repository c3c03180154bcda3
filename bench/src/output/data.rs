//! Results for programs: CSV with a row for each figure, JSON with every repetition as well.

use serde::Serialize;

use super::Machine;
use crate::Failure;
use crate::floor::Loop;
use crate::measure::{Figure, Measured, Run};
use crate::patterns::{Kept, Metric, Pattern, Placement};
use crate::size::Size;
use crate::statistics::Summary;

/// A figure of a contender, or a loop of the floor.
#[derive(Serialize)]
struct Row {
    engine: &'static str,
    pattern: Option<Pattern>,
    floor: Option<&'static str>,
    metric: Option<Metric>,
    order: Option<u8>,
    threads: usize,
    slots: usize,
    memory: Option<Size>,
    fill_percent: Option<f64>,
    placement: Option<Placement>,
    mix: Option<&'static str>,
    burst: Option<usize>,
    operations: Option<u64>,
    repetitions: usize,
    cpu_ns_median: Option<f64>,
    cpu_ns_min: Option<f64>,
    cpu_ns_max: Option<f64>,
    wall_ns_median: Option<f64>,
    wall_ns_min: Option<f64>,
    wall_ns_max: Option<f64>,
    times_hot_cas: Option<f64>,
    times_in_step: Option<f64>,
    free_huge: Option<usize>,
    best_huge: Option<usize>,
    possible_huge: Option<usize>,
    refused: Option<u64>,
    not_measured: Option<String>,
}

/// A row with what every repetition gave.
#[derive(Serialize)]
struct Detail {
    #[serde(flatten)]
    row: Row,
    cpu_ns: Vec<f64>,
    wall_ns: Vec<f64>,
    /// Huge frames after each repetition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept: Vec<Kept>,
}

#[derive(Serialize)]
struct Document<'a> {
    machine: &'a Machine,
    note: &'static str,
    /// As many as were asked for; each result says how many it is of.
    repetitions: usize,
    results: Vec<Detail>,
}

const NOTE: &str = "ns for each operation; CPU time of the thread and wall time as a thread sees \
                    it; hot CAS in the same run is the unit of times_hot_cas";

/// Why a loop of the floor has no figures.
pub(super) const NOT_HERE: &str = "not on this machine";

fn floor_row(which: Loop, samples: &[f64], c: f64) -> Detail {
    let summary = Summary::of(samples);
    let row = Row {
        engine: "floor",
        pattern: None,
        floor: Some(which.name()),
        metric: None,
        order: None,
        threads: 1 + usize::from(which == Loop::LineThereAndBack),
        slots: 0,
        memory: None,
        fill_percent: None,
        placement: None,
        mix: None,
        burst: None,
        operations: None,
        repetitions: samples.len(),
        cpu_ns_median: summary.map(|s| s.median),
        cpu_ns_min: summary.map(|s| s.min),
        cpu_ns_max: summary.map(|s| s.max),
        wall_ns_median: None,
        wall_ns_min: None,
        wall_ns_max: None,
        times_hot_cas: summary.map(|s| s.median / c),
        times_in_step: None,
        free_huge: None,
        best_huge: None,
        possible_huge: None,
        refused: None,
        not_measured: summary.is_none().then(|| NOT_HERE.into()),
    };
    Detail { row, cpu_ns: samples.to_vec(), wall_ns: Vec::new(), kept: Vec::new() }
}

fn row(run: &Run, measured: &Measured, figure: Result<&Figure, String>, c: f64) -> Detail {
    let setup = &measured.subject.setup;
    let found = figure.as_ref().ok();
    let (cpu, wall) = (found.map(|f| f.cpu()), found.map(|f| f.wall()));
    let kept = found.and_then(|f| f.kept.last());
    let in_step = found.and_then(|f| run.times_in_step(&measured.subject, f));
    let row = Row {
        engine: measured.subject.engine.name(),
        pattern: Some(setup.pattern),
        floor: None,
        metric: found.map(|f| f.metric),
        order: (!setup.mix).then_some(setup.order.0),
        threads: setup.threads,
        slots: setup.slots,
        memory: Some(setup.memory),
        fill_percent: Some(setup.fill as f64 / 10.0),
        placement: (setup.fill > 0).then_some(setup.placement),
        mix: setup.mix.then_some("build"),
        burst: setup.has_bursts().then_some(setup.burst),
        operations: found.map(|f| f.operations),
        repetitions: found.map_or(0, |f| f.cpu.len()),
        cpu_ns_median: cpu.map(|s| s.median),
        cpu_ns_min: cpu.map(|s| s.min),
        cpu_ns_max: cpu.map(|s| s.max),
        wall_ns_median: wall.map(|s| s.median),
        wall_ns_min: wall.map(|s| s.min),
        wall_ns_max: wall.map(|s| s.max),
        times_hot_cas: cpu.map(|s| s.median / c),
        times_in_step: in_step.map(|[median, _]| median),
        free_huge: kept.map(|kept| kept.free_huge),
        best_huge: kept.map(|kept| kept.best_huge),
        possible_huge: kept.map(|kept| kept.possible_huge),
        refused: kept.map(|kept| kept.refused),
        not_measured: figure.as_ref().err().cloned(),
    };
    let samples = |of: fn(&Figure) -> &Vec<f64>| found.map(|f| of(f).clone()).unwrap_or_default();
    let kept = found.map(|f| f.kept.clone()).unwrap_or_default();
    Detail { row, cpu_ns: samples(|f| &f.cpu), wall_ns: samples(|f| &f.wall), kept }
}

fn details(run: &Run) -> Vec<Detail> {
    let c = run.floor(Loop::HotCas).median;
    let floor = run.floor.iter().map(|(which, samples)| floor_row(*which, samples, c));
    let figures = run.measured.iter().flat_map(|measured| match &measured.outcome {
        Ok(figures) => figures.iter().map(|figure| row(run, measured, Ok(figure), c)).collect(),
        Err(cause) => vec![row(run, measured, Err(cause.to_string()), c)],
    });
    floor.chain(figures).collect()
}

/// A row for each figure.
///
/// # Errors
/// When it cannot be written down, which is a defect.
pub fn csv(run: &Run) -> Result<Vec<u8>, Failure> {
    let mut csv = ::csv::Writer::from_writer(Vec::new());
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(format!("as CSV: {error}"));
    for detail in details(run) {
        csv.serialize(detail.row).map_err(|error| failed(&error))?;
    }
    csv.into_inner().map_err(|error| failed(&error))
}

/// Everything, with the machine and how many repetitions were asked for.
///
/// # Errors
/// When it cannot be written down, which is a defect.
pub fn json(run: &Run, repetitions: usize, machine: &Machine) -> Result<Vec<u8>, Failure> {
    let document = Document { machine, note: NOTE, repetitions, results: details(run) };
    let mut bytes = serde_json::to_vec_pretty(&document)
        .map_err(|error| Failure::Failed(format!("as JSON: {error}")))?;
    bytes.push(b'\n');
    Ok(bytes)
}
