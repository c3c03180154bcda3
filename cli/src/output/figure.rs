//! The figure: free huge frames over a trace, ours beside Linux's.
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

use super::Phase;
use crate::replay::{Row, Side};

const UNIT: &str = "thousand allocations and frees";

/// How our engine is drawn, and how Linux is.
fn looks() -> (Look, Look) {
    (Engine::Llfree.look(), Engine::Linux.look())
}

/// The figure as SVG.
///
/// # Errors
/// When it cannot be drawn, which is a defect.
pub fn draw(phases: &[Phase]) -> Result<String, Failure> {
    let phases: Vec<&Phase> = phases.iter().filter(|p| !p.report.rows.is_empty()).collect();
    let engine = phases.first().map_or("", |phase| phase.report.engine);
    let title =
        format!("Free huge frames (2 MiB) under a real load: {engine} beside Linux's own buddy");
    let panels = phases.iter().flat_map(|phase| [free_huge(phase), share(phase)]).collect();
    Figure { title, legend: legend(engine), columns: 2, panels }.svg()
}

/// Who is who.
pub fn legend(engine: &str) -> Vec<(String, Look, Shape)> {
    let (ours, linux) = looks();
    vec![
        (engine.into(), ours, Shape::Line),
        ("Linux".into(), linux, Shape::Line),
        ("possible: free memory / 2 MiB".into(), Look::BAND, Shape::Area),
    ]
}

/// Left: how many huge frames are free.
pub fn free_huge(phase: &Phase) -> Panel {
    let possible = |side: &Side| side.free_frames as f64 / 512.0;
    let rows = &phase.report.rows;
    let highest = rows.iter().map(|row| possible(&row.linux).max(possible(&row.ours)));
    let highest = highest.fold(1.0, f64::max);
    let lowest = rows.iter().map(|row| row.linux.free_huge.min(row.ours.free_huge)).min();
    let y = zoomed("free huge frames", lowest.unwrap_or(0) as f64, highest, 20.0);
    let mut panel = panel(phase, "free huge frames", y, |side| side.free_huge as f64);
    let points = points(phase, |row| possible(&row.ours));
    panel.series.push(Series { look: Look::BAND, shape: Shape::Area, points });
    panel
}

/// Right: the share of the free memory that lies in free huge frames.
pub fn share(phase: &Phase) -> Panel {
    let (ours, linux) = (phase.report.means(|row| row.ours), phase.report.means(|row| row.linux));
    let title = format!(
        "free memory in huge frames; mean {:.3} {}, {:.3} Linux",
        ours.ratio, phase.report.engine, linux.ratio
    );
    let rows = phase.report.rows.iter();
    let lowest = rows.map(|row| row.ours.ratio().min(row.linux.ratio())).fold(1.0, f64::min);
    panel(phase, &title, zoomed("share", lowest, 1.0, 0.02), Side::ratio)
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

fn panel(phase: &Phase, title: &str, y: Axis, value: fn(&Side) -> f64) -> Panel {
    let (ours, linux) = looks();
    let series = |look, points| Series { look, shape: Shape::Line, points };
    let last = phase.report.rows.last().map_or(1.0, thousands).max(1.0);
    Panel {
        title: format!("{}: {title}", phase.name),
        x: Axis::linear(UNIT, 0.0..last),
        y,
        series: vec![
            series(linux, points(phase, |row| value(&row.linux))),
            series(ours, points(phase, |row| value(&row.ours))),
        ],
    }
}

fn points(phase: &Phase, value: impl Fn(&Row) -> f64) -> Vec<Point> {
    phase.report.rows.iter().map(|row| Point::new(thousands(row), value(row))).collect()
}

fn thousands(row: &Row) -> f64 {
    row.after as f64 / 1000.0
}
