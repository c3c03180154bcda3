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

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Phase;
use crate::replay::{Row, Side};

/// The font of all labels; it is compiled in for the PNG.
pub const FONT: &str = "DejaVu Sans";

const WIDTH: u32 = 1200;
const PANEL_HEIGHT: u32 = 300;
const HEADER: u32 = 76;

const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
const FAINT: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
/// What could be free at most.
const POSSIBLE: RGBColor = RGBColor(0xe9, 0xee, 0xe6);
const OURS: RGBColor = RGBColor(0x1b, 0x7f, 0x4d);
const LINUX: RGBColor = RGBColor(0xd9, 0x6b, 0x0b);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), String>;

/// The figure as SVG.
pub fn draw(phases: &[Phase]) -> Result<String, String> {
    let phases: Vec<&Phase> = phases.iter().filter(|p| !p.report.rows.is_empty()).collect();
    let mut svg = String::new();
    {
        let height = HEADER + PANEL_HEIGHT * phases.len() as u32;
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let (header, body) = root.split_vertically(HEADER);
        draw_header(&header, phases.first().map_or("", |phase| phase.report.engine))?;
        for (area, phase) in body.split_evenly((phases.len(), 1)).iter().zip(&phases) {
            let (left, right) = area.split_horizontally(WIDTH / 2);
            draw_huge(&left, phase)?;
            draw_ratio(&right, phase)?;
        }
        root.present().map_err(failed)?;
    }
    Ok(svg)
}

fn failed(error: impl std::fmt::Display) -> String {
    format!("the figure: {error}")
}

fn text(size: u32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&INK)
}

/// Title and legend, above all panels, where they cover nothing.
fn draw_header(area: &Area, engine: &str) -> Drawn {
    let title =
        format!("Free huge frames (2 MiB) under a real load: {engine} beside Linux's own buddy");
    area.draw(&Text::new(title, (20, 12), text(20))).map_err(failed)?;
    let entries =
        [(OURS, engine, 4), (LINUX, "Linux", 4), (POSSIBLE, "possible: free memory / 2 MiB", 14)];
    let mut x = 20;
    for (color, name, thick) in entries {
        let bar = [(x, 56 - thick / 2), (x + 30, 56 + thick / 2)];
        area.draw(&Rectangle::new(bar, color.filled())).map_err(failed)?;
        let style = text(14).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(name.to_string(), (x + 38, 56), style)).map_err(failed)?;
        x += 38 + 9 * name.len() as i32 + 30;
    }
    Ok(())
}

/// Left: how many huge frames are free.
fn draw_huge(area: &Area, phase: &Phase) -> Drawn {
    let possible = |side: &Side| side.free_frames as f64 / 512.0;
    let rows = &phase.report.rows;
    let highest = rows.iter().map(|row| possible(&row.linux).max(possible(&row.ours)));
    let highest = highest.fold(1.0, f64::max);
    let lowest = rows.iter().map(|row| row.linux.free_huge.min(row.ours.free_huge)).min();
    let lowest = lowest.unwrap_or(0) as f64;
    let title = format!("{}: free huge frames", phase.name);
    let y = zoomed(lowest, highest, 20.0);
    let panel = Panel { area, phase, title, y_label: "free huge frames", y, digits: 0 };
    panel.draw(|side| side.free_huge as f64, Some(possible))
}

/// Right: the share of the free memory that lies in free huge frames.
fn draw_ratio(area: &Area, phase: &Phase) -> Drawn {
    let (ours, linux) = (phase.report.means(|row| row.ours), phase.report.means(|row| row.linux));
    let title = format!(
        "{}: share of free memory in free huge frames; mean {:.3} {}, {:.3} Linux",
        phase.name, ours.ratio, phase.report.engine, linux.ratio
    );
    let rows = phase.report.rows.iter();
    let lowest = rows.map(|row| row.ours.ratio().min(row.linux.ratio())).fold(1.0, f64::min);
    let y = zoomed(lowest, 1.0, 0.02);
    let panel = Panel { area, phase, title, y_label: "share", y, digits: 2 };
    panel.draw(Side::ratio, None)
}

/// The vertical range for values between `lowest` and `highest`, in whole `step`s at the bottom.
/// From zero, unless that would leave flat lines at the top of an empty panel.
fn zoomed(lowest: f64, highest: f64, step: f64) -> std::ops::Range<f64> {
    let bottom = match lowest > 0.75 * highest {
        true => ((lowest / step).floor() - 1.0) * step,
        false => 0.0,
    };
    bottom..highest + (highest - bottom) * 0.05
}

/// One set of axes.
struct Panel<'a, 'b> {
    area: &'a Area<'b>,
    phase: &'a Phase,
    title: String,
    y_label: &'a str,
    y: std::ops::Range<f64>,
    digits: usize,
}

impl Panel<'_, '_> {
    fn draw(self, value: fn(&Side) -> f64, possible: Option<fn(&Side) -> f64>) -> Drawn {
        let Self { area, phase, title, y_label, y, digits } = self;
        let rows = &phase.report.rows;
        let last = rows.last().map_or(1.0, thousands).max(1.0);
        let bottom = y.start;
        let mut chart = ChartBuilder::on(area)
            .caption(title, text(14))
            .margin(10)
            .margin_right(24)
            .x_label_area_size(42)
            .y_label_area_size(62)
            .build_cartesian_2d(0.0..last, y)
            .map_err(failed)?;
        if let Some(possible) = possible {
            let points = rows.iter().map(|row| (thousands(row), possible(&row.ours)));
            let area = AreaSeries::new(points, bottom, POSSIBLE.filled());
            chart.draw_series(area).map_err(failed)?;
        }
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(FAINT)
            .axis_style(INK)
            .label_style(text(12))
            .axis_desc_style(text(12))
            .x_desc("thousand allocations and frees")
            .y_desc(y_label)
            .x_labels(8)
            .y_labels(6)
            .x_label_formatter(&|x| format!("{x:.0}"))
            .y_label_formatter(&|y| format!("{y:.digits$}"))
            .draw()
            .map_err(failed)?;
        for (color, side) in
            [(LINUX, (|row| row.linux) as fn(&Row) -> Side), (OURS, |row| row.ours)]
        {
            let points = rows.iter().map(|row| (thousands(row), value(&side(row))));
            let line = LineSeries::new(points, color.stroke_width(2));
            chart.draw_series(line).map_err(failed)?;
        }
        Ok(())
    }
}

fn thousands(row: &Row) -> f64 {
    row.after as f64 / 1000.0
}
