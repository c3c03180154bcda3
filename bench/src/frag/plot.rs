//! The figure: free huge frames (left) and compaction cost (right) over the iterations, as LLFree's
//! figure 10. The same library and colours as the replay's figure in `cli`, whose code draws
//! something else and lives in a program.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::{FragSetup, State};
use crate::Failure;
use crate::engine::Engine;

const FONT: &str = "DejaVu Sans";
const SIZE: (u32, u32) = (1200, 420);
const HEADER: u32 = 70;

const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
const FAINT: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
const POSSIBLE: RGBColor = RGBColor(0x99, 0x99, 0x99);
const LINES: [RGBColor; 6] = [
    RGBColor(0x1b, 0x7f, 0x4d),
    RGBColor(0xd9, 0x6b, 0x0b),
    RGBColor(0x2f, 0x5f, 0xb3),
    RGBColor(0xa0, 0x2c, 0x5a),
    RGBColor(0x80, 0x70, 0x10),
    RGBColor(0x50, 0x50, 0x50),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Curve = (Engine, Vec<State>);

/// The figure as SVG.
///
/// # Errors
/// When it cannot be drawn, which is a defect.
pub fn svg(setup: &FragSetup, curves: &[Curve]) -> Result<String, Failure> {
    let mut svg = String::new();
    draw(&mut svg, setup, curves)
        .map_err(|error| Failure::Failed(format!("the figure: {error}")))?;
    Ok(svg)
}

fn text(size: u32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&INK)
}

fn draw(svg: &mut String, setup: &FragSetup, curves: &[Curve]) -> Result<(), String> {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE).map_err(|error| error.to_string())?;
    let (header, body) = root.split_vertically(HEADER);
    let FragSetup { memory, slots, fill, freed, churn, .. } = setup;
    let title = format!(
        "{memory}, {slots} slots: {fill} % allocated, {freed} % of it freed at random, then \
         {churn} % of the rest freed and allocated again and again"
    );
    header.draw(&Text::new(title, (20, 10), text(16))).map_err(|error| error.to_string())?;
    legend(&header, curves)?;
    let (left, right) = body.split_horizontally(SIZE.0 / 2);
    let huge = |state: &State| state.free_huge as f64;
    let possible: fn(&State) -> f64 = |state| state.possible_huge as f64;
    panel(&left, curves, "free huge frames", &huge, Some(possible))?;
    let moves = |state: &State| state.moves as f64 / 1000.0;
    panel(&right, curves, "compaction cost: thousand frames to move", &moves, None)?;
    root.present().map_err(|error| error.to_string())
}

fn legend(area: &Area, curves: &[Curve]) -> Result<(), String> {
    let names = curves.iter().zip(LINES.iter().cycle());
    let names = names.map(|((engine, _), color)| (engine.name(), *color));
    let mut x = 20;
    for (name, color) in names.chain([("possible", POSSIBLE)]) {
        let bar = Rectangle::new([(x, 48), (x + 26, 51)], color.filled());
        area.draw(&bar).map_err(|error| error.to_string())?;
        let label = Text::new(name, (x + 32, 42), text(14));
        area.draw(&label).map_err(|error| error.to_string())?;
        x += 32 + 9 * name.len() as i32 + 24;
    }
    Ok(())
}

fn panel(
    area: &Area,
    curves: &[Curve],
    title: &str,
    value: &dyn Fn(&State) -> f64,
    possible: Option<fn(&State) -> f64>,
) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let states = || curves.iter().flat_map(|(_, states)| states);
    let last = states().map(|state| state.iteration).max().unwrap_or(0).max(1);
    let highest = states().map(|s| value(s).max(possible.map_or(0.0, |possible| possible(s))));
    let highest = highest.fold(1.0, f64::max) * 1.05;
    let mut chart = ChartBuilder::on(area)
        .caption(title, text(14))
        .margin(10)
        .margin_right(24)
        .x_label_area_size(42)
        .y_label_area_size(62)
        .build_cartesian_2d(0.0..last as f64, 0.0..highest)
        .map_err(|error| failed(&error))?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(INK)
        .label_style(text(12))
        .axis_desc_style(text(12))
        .x_desc("iterations")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .draw()
        .map_err(|error| failed(&error))?;
    if let (Some(possible), Some((_, states))) = (possible, curves.first()) {
        let points = states.iter().map(|state| (state.iteration as f64, possible(state)));
        let line = LineSeries::new(points, POSSIBLE.stroke_width(1));
        chart.draw_series(line).map_err(|error| failed(&error))?;
    }
    for ((_, states), color) in curves.iter().zip(LINES.iter().cycle()) {
        let points = states.iter().map(|state| (state.iteration as f64, value(state)));
        let line = LineSeries::new(points, color.stroke_width(2));
        chart.draw_series(line).map_err(|error| failed(&error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_has_a_line_in_both_panels() {
        let state = |iteration| State {
            iteration,
            free_frames: 1024,
            free_huge: iteration % 2,
            possible_huge: 2,
            moves: 500,
        };
        let states: Vec<State> = (0..5).map(state).collect();
        let curves = [(Engine::Llfree, states.clone()), (Engine::Linux, states)];
        let svg = svg(&FragSetup::default(), &curves).unwrap();
        assert!(svg.matches("<polyline").count() >= 5);
        assert!(svg.contains("llfree") && svg.contains("linux") && svg.contains("possible"));
        assert!(super::svg(&FragSetup::default(), &[]).is_ok());
    }
}
