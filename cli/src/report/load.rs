//! What real load does and the papers' patterns do not: churn, and threads that are not in step.

use serde::{Deserialize, Serialize};
use woodlot_bench::engine::Engine;
use woodlot_bench::floor::Loop;
use woodlot_bench::measure::{Figure, Options, Run, Subject, measure};
use woodlot_bench::patterns::{Kept, Metric, Pattern, Placement, Setup};
use woodlot_bench::size::Size;
use woodlot_frame::Order;

use super::scope::ENGINES;

/// Zones that are larger have more blocks than churn holds.
const LARGEST: Size = Size::gib(8);

/// A zone in churn.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Churned {
    /// Whose.
    pub engine: Engine,
    /// Where lay what was in use before.
    pub placement: Placement,
    /// How much that was, in percent.
    pub fill: f64,
    /// CPU nanoseconds for each free and allocation, a number for each repetition.
    pub cpu_ns: Vec<f64>,
    /// The median of hot CAS in the same run.
    pub hot_cas_ns: f64,
    /// Huge frames after the last repetition.
    pub kept: Kept,
}

/// Threads that are not in step.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Stepped {
    /// Whose zone.
    pub engine: Engine,
    /// What they do.
    pub pattern: Pattern,
    /// What an operation is.
    pub metric: Metric,
    /// CPU nanoseconds for each operation, a number for each repetition.
    pub cpu_ns: Vec<f64>,
    /// How many times as long as in step, by medians; nothing for what is in step.
    pub times_in_step: Option<f64>,
}

/// All of it.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Load {
    /// Churn of order 0.
    pub churned: Vec<Churned>,
    /// Two threads, order 0.
    pub stepped: Vec<Stepped>,
}

/// Measures both; what could not be measured is added to `missing`.
pub fn measure_load(
    (memory, operations): (Size, usize),
    options: Options,
    missing: &mut Vec<String>,
) -> Load {
    let memory = memory.min(LARGEST);
    let of = |pattern: Pattern| {
        let threads = usize::from(pattern.threads());
        Setup { memory, operations, threads, slots: threads, ..Setup::new(pattern, Order(0)) }
    };
    let mut churn = Vec::new();
    for &placement in Pattern::Churn.placements() {
        for fill in Pattern::Churn.fills() {
            let fill = (fill * 10.0).round() as usize;
            let setup = Setup { placement, fill, ..of(Pattern::Churn) };
            churn.extend(ENGINES.map(|engine| Subject { engine, setup }));
        }
    }
    let mut steps = Vec::new();
    for &pattern in Pattern::OutOfStep.together() {
        let setup = Setup { threads: 2, slots: 2, ..of(pattern) };
        steps.extend(ENGINES.map(|engine| Subject { engine, setup }));
    }
    let mut load = Load::default();
    let run = measure(&churn, options, &|_| {});
    each(&run, missing, &mut |subject, figure| {
        load.churned.extend(figure.kept.last().map(|&kept| Churned {
            engine: subject.engine,
            placement: subject.setup.placement,
            fill: subject.setup.fill as f64 / 10.0,
            cpu_ns: figure.cpu.clone(),
            hot_cas_ns: run.floor(Loop::HotCas).median,
            kept,
        }));
    });
    let run = measure(&steps, options, &|_| {});
    each(&run, missing, &mut |subject, figure| {
        load.stepped.push(Stepped {
            engine: subject.engine,
            pattern: subject.setup.pattern,
            metric: figure.metric,
            cpu_ns: figure.cpu.clone(),
            times_in_step: run.times_in_step(subject, figure).map(|[median, _]| median),
        });
    });
    load
}

fn each(run: &Run, missing: &mut Vec<String>, found: &mut dyn FnMut(&Subject, &Figure)) {
    for measured in &run.measured {
        let Subject { engine, setup } = measured.subject;
        match &measured.outcome {
            Ok(figures) => figures.iter().for_each(|figure| found(&measured.subject, figure)),
            Err(why) => missing.push(format!("{engine}, {}: {why}", setup.pattern)),
        }
    }
}
