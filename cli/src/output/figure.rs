//! The figure: free huge frames over a trace, those of our engines beside Linux's.
//!
//! ```text
//!   title
//!   ┌ boot: free huge frames ─────┐ ┌ boot: share of free memory in huge frames ┐   one line of
//!   │ ░░ possible  ── LLFree  ── Linux │                                        │   panels for
//!   └─────────────────────────────┘ └───────────────────────────────────────────┘   each trace
//! ```
//!
//! The horizontal axis counts operations, not seconds: the recorded machine stood still for up to
//! a minute at a time, and an allocator ages by what is asked of it.

use woodlot_bench::Failure;
use woodlot_bench::chart::{Axis, Figure, Look, Panel, Point, Series, Shape};
use woodlot_bench::engine::Engine;

use super::phase::{Phase, remarks};
use super::summary::failures;
use crate::replay::{Report, Row, Side};

const UNIT: &str = "thousand allocations and frees";

/// How Linux's own curve is drawn: as the engine that is modelled on it is elsewhere.
fn linux() -> Look {
    Engine::Linux.look()
}

fn look(engine: Engine) -> Look {
    if engine == Engine::Linux { Look::GUIDE } else { engine.look() }
}

/// The figure as SVG.
///
/// # Errors
/// When it cannot be drawn, which is a defect.
pub fn draw(phases: &[Phase]) -> Result<String, Failure> {
    let phases: Vec<&Phase> = phases.iter().filter(|phase| !phase.rows().is_empty()).collect();
    let mut engines: Vec<(Engine, &str)> = Vec::new();
    for (engine, report) in phases.iter().flat_map(|phase| &phase.runs) {
        if engines.iter().all(|(known, _)| known != engine) {
            engines.push((*engine, report.engine));
        }
    }
    let who = match engines[..] {
        [(_, only)] => only.to_string(),
        _ => format!("{} engines", engines.len()),
    };
    let title =
        format!("Free huge frames (2 MiB) under a real load: {who} beside Linux's own buddy");
    let panels = phases.iter().flat_map(|phase| [free_huge(phase), share(phase)]).collect();
    let mut notes = remarks(phases.iter().flat_map(|phase| &phase.runs));
    // What is not served takes no memory: without this line it would look like a merit.
    notes.extend(phases.iter().flat_map(|phase| {
        phase.runs.iter().filter_map(|(_, report)| {
            let (engine, name) = (report.engine, &phase.name);
            let some = !report.failures.is_empty();
            some.then(|| format!("{engine}, {name}: not served: {}", failures(&report.failures)))
        })
    }));
    Figure { title, legend: legend(&engines), columns: 2, panels, notes }.svg()
}

/// Who is who.
fn legend(engines: &[(Engine, &str)]) -> Vec<(String, Look, Shape)> {
    let engines =
        engines.iter().map(|(engine, name)| (name.to_string(), look(*engine), Shape::Line));
    let others = [
        ("Linux".into(), linux(), Shape::Line),
        ("possible: free memory / 2 MiB".into(), Look::BAND, Shape::Area),
    ];
    engines.chain(others).collect()
}

/// Left: how many huge frames are free; the band is what the free memory of the first engine would make.
fn free_huge(phase: &Phase) -> Panel {
    let possible = |side: &Side| side.free_frames as f64 / 512.0;
    let highest = phase.all_rows().map(|row| possible(&row.linux).max(possible(&row.ours)));
    let highest = highest.fold(1.0, f64::max);
    let lowest = phase.all_rows().map(|row| row.linux.free_huge.min(row.ours.free_huge)).min();
    let y = zoomed("free huge frames", lowest.unwrap_or(0) as f64, highest, 20.0);
    let mut panel = panel(phase, "free huge frames", y, |side| side.free_huge as f64);
    let points = points(phase.rows(), |row| possible(&row.ours));
    panel.series.push(Series { look: Look::BAND, shape: Shape::Area, points });
    panel
}

/// Right: the share of the free memory that lies in free huge frames.
fn share(phase: &Phase) -> Panel {
    let mean = Report::ratio;
    let title = match &phase.runs[..] {
        [(_, report)] => {
            let linux = report.means(|row| row.linux).ratio;
            let (ours, engine) = (mean(report), report.engine);
            format!("free memory in huge frames; mean {ours:.3} {engine}, {linux:.3} Linux")
        }
        // So many means would not fit: they are in the text and the data.
        _ => "share of the free memory that lies in free huge frames".into(),
    };
    let lowest = phase.all_rows().map(|row| row.ours.ratio().min(row.linux.ratio()));
    panel(phase, &title, zoomed("share", lowest.fold(1.0, f64::min), 1.0, 0.02), Side::ratio)
}

/// The vertical axis for values between `lowest` and `highest`, in whole `step`s at the bottom.
/// From zero, unless that would leave flat lines at the top of an empty panel.
fn zoomed(label: &str, lowest: f64, highest: f64, step: f64) -> Axis {
    let bottom = match lowest > 0.75 * highest {
        true => (((lowest / step).floor() - 1.0) * step).max(0.0),
        false => 0.0,
    };
    Axis::linear(label, bottom..highest + (highest - bottom) * 0.05)
}

/// The first engine is drawn over the others.
fn panel(phase: &Phase, title: &str, y: Axis, value: fn(&Side) -> f64) -> Panel {
    let series = |look, points| Series { look, shape: Shape::Line, points };
    let last = phase.rows().last().map_or(1.0, thousands).max(1.0);
    let engines = phase.runs.iter().rev();
    let engines = engines.map(|(engine, report)| {
        series(look(*engine), points(&report.rows, |row| value(&row.ours)))
    });
    let recorded = series(linux(), points(phase.rows(), |row| value(&row.linux)));
    Panel {
        title: format!("{}: {title}", phase.name),
        x: Axis::linear(UNIT, 0.0..last),
        y,
        series: [recorded].into_iter().chain(engines).collect(),
    }
}

fn points(rows: &[Row], value: impl Fn(&Row) -> f64) -> Vec<Point> {
    rows.iter().map(|row| Point::new(thousands(row), value(row))).collect()
}

fn thousands(row: &Row) -> f64 {
    row.after as f64 / 1000.0
}
