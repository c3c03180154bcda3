//! Drawing with `plotters`.

use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::element::{Drawable, PointCollection};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters_backend::{BackendCoord, DrawingErrorKind};

use super::axis::Axis;
use super::figure::{Figure, Panel, Point, Series, Shape};
use super::look::{GRID, Look, Mark, PAPER, TEXT};

/// The font of all letters.
pub const FONT: &str = "DejaVu Sans, Verdana, sans-serif";

/// A panel in a figure, and a panel by itself.
const PANEL: (u32, u32) = (600, 300);
const ALONE: (u32, u32) = (340, 260);
/// Pixels of a panel by itself for each unit: plotters rounds to whole ones.
const FINE: u32 = 2;
/// Title and legend, where that is in the first line; more lines of it follow.
const HEADER: u32 = 76;
const KEYS: i32 = 56;
const LINE: i32 = 22;
/// A line below the panels.
const NOTE: u32 = 20;
const KEY: (u32, u32) = (30, 14);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;
type Drawn = Result<(), String>;

fn failed(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn text(size: u32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&TEXT.rgb())
}

fn on_paper(size: (u32, u32), draw: impl FnOnce(&Area) -> Drawn) -> Result<String, String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&PAPER.rgb()).map_err(failed)?;
        draw(&root)?;
        root.present().map_err(failed)?;
    }
    Ok(svg)
}

pub(super) fn figure(figure: &Figure) -> Result<String, String> {
    let columns = figure.columns.max(1);
    let rows = figure.panels.len().div_ceil(columns);
    let panels = PANEL.1 * rows as u32;
    // A margin below the last line.
    let footer =
        figure.notes.len() as u32 * NOTE + if figure.notes.is_empty() { 0 } else { NOTE / 2 };
    let width = PANEL.0 * columns as u32;
    let places = places(&figure.legend, width);
    let header = HEADER + places.last().map_or(0, |last| (last.1 * LINE) as u32);
    on_paper((width, header + panels + footer), |root| {
        let (header, body) = root.split_vertically(header);
        let (body, footer) = body.split_vertically(panels);
        for (line, note) in (0..).zip(&figure.notes) {
            let at = (20, line * NOTE as i32);
            footer.draw(&Text::new(note.clone(), at, text(12))).map_err(failed)?;
        }
        header.draw(&Text::new(figure.title.clone(), (20, 12), text(20))).map_err(failed)?;
        legend(&header, &places, &figure.legend)?;
        let areas = body.split_evenly((rows, columns));
        areas.iter().zip(&figure.panels).try_for_each(|(area, panel)| draw(area, panel, 1))
    })
}

pub(super) fn panel(panel: &Panel) -> Result<String, String> {
    on_paper((ALONE.0 * FINE, ALONE.1 * FINE), |root| draw(root, panel, FINE))
}

pub(super) fn key(look: Look, shape: Shape) -> Result<String, String> {
    on_paper(KEY, |root| draw_key(root, (0, KEY.1 as i32 / 2), look, shape))
}

/// Names beside their keys, above all panels, where they cover nothing.
fn legend(area: &Area, places: &[Place], entries: &[(String, Look, Shape)]) -> Drawn {
    for (&(x, line), (name, look, shape)) in places.iter().zip(entries) {
        let y = KEYS + line * LINE;
        draw_key(area, (x, y), *look, *shape)?;
        let style = text(14).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(name.clone(), (x + 38, y), style)).map_err(failed)?;
    }
    Ok(())
}

/// Where an entry of the legend begins, and in which line.
type Place = (i32, i32);

/// Side by side, in as many lines as that takes.
fn places(entries: &[(String, Look, Shape)], width: u32) -> Vec<Place> {
    let mut next = (20, 0);
    let place = |(name, ..): &(String, Look, Shape)| {
        let length = 38 + 9 * name.chars().count() as i32 + 24;
        if next.0 > 20 && next.0 + length > width as i32 {
            next = (20, next.1 + 1);
        }
        let place = next;
        next.0 += length;
        place
    };
    entries.iter().map(place).collect()
}

fn draw_key(area: &Area, (x, y): (i32, i32), look: Look, shape: Shape) -> Drawn {
    let half = match shape {
        Shape::Area => 6,
        Shape::Guide => 1,
        Shape::Line | Shape::Marked => 2,
    };
    let color = look.ink.rgb();
    let bar = Rectangle::new([(x, y - half), (x + KEY.0 as i32, y + half)], color.filled());
    area.draw(&bar).map_err(failed)?;
    match shape {
        Shape::Marked => {
            let at = (x + KEY.0 as i32 / 2, y);
            area.draw(&Marked { at, look, size: 5, hollow: false }).map_err(failed)
        }
        _ => Ok(()),
    }
}

/// A mark at a place: its colour, and the ground within where it is hollow.
struct Marked<C> {
    at: C,
    look: Look,
    size: i32,
    hollow: bool,
}

impl<'a, C> PointCollection<'a, C> for &'a Marked<C> {
    type Point = &'a C;
    type IntoIter = std::iter::Once<&'a C>;

    fn point_iter(self) -> Self::IntoIter {
        std::iter::once(&self.at)
    }
}

impl<C, B: DrawingBackend> Drawable<B> for Marked<C> {
    fn draw<I: Iterator<Item = BackendCoord>>(
        &self,
        points: I,
        backend: &mut B,
        _: (u32, u32),
    ) -> Result<(), DrawingErrorKind<B::ErrorType>> {
        let corners: &[(i32, i32)] = match self.look.mark {
            Mark::Disc => &[],
            Mark::Square => &[(-1, -1), (1, -1), (1, 1), (-1, 1)],
            Mark::Triangle => &[(0, -1), (1, 1), (-1, 1)],
            Mark::Diamond => &[(0, -1), (1, 0), (0, 1), (-1, 0)],
        };
        for (x, y) in points {
            let inside = (self.size / 2, PAPER);
            let shapes = [(self.size, self.look.ink), inside];
            for (size, ink) in &shapes[..1 + usize::from(self.hollow)] {
                let style = ink.rgb().filled();
                match corners {
                    [] => backend.draw_circle((x, y), *size as u32, &style, true)?,
                    _ => {
                        let corners = corners.iter().map(|(dx, dy)| (x + dx * size, y + dy * size));
                        backend.fill_polygon(corners, &style)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn draw(area: &Area, panel: &Panel, scale: u32) -> Drawn {
    let Panel { title, x, y, series } = panel;
    let letters = text(12 * scale);
    let mut chart = ChartBuilder::on(area)
        .caption(title, text(14 * scale))
        .margin(8 * scale)
        .margin_right(16 * scale)
        .x_label_area_size(40 * scale)
        .y_label_area_size(60 * scale)
        .build_cartesian_2d(x.clone(), y.clone())
        .map_err(failed)?;
    for one in series.iter().filter(|one| one.shape == Shape::Area) {
        let points = one.points.iter().map(|point| (point.x, point.y));
        let area = AreaSeries::new(points, y.range.start, one.look.ink.rgb().filled());
        chart.draw_series(area).map_err(failed)?;
    }
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID.rgb().stroke_width(scale))
        .axis_style(TEXT.rgb().stroke_width(scale))
        .label_style(letters.clone())
        .axis_desc_style(letters)
        .x_desc(&x.label)
        .y_desc(&y.label)
        .x_label_formatter(&|place| x.format_ext(place))
        .y_label_formatter(&|place| y.format_ext(place))
        .draw()
        .map_err(failed)?;
    let lines = series.iter().filter(|one| one.shape != Shape::Area);
    lines.into_iter().try_for_each(|one| draw_series(&mut chart, panel, one, scale))
}

fn draw_series(chart: &mut Chart, panel: &Panel, series: &Series, scale: u32) -> Drawn {
    let y = &panel.y;
    let at = |point: &Point, height: f64| (point.x, height);
    let Look { ink, .. } = series.look;
    let width = if series.shape == Shape::Guide { scale } else { 2 * scale };
    let line = series.points.iter().map(|point| at(point, point.y));
    let line = LineSeries::new(line, ink.rgb().stroke_width(width));
    chart.draw_series(line).map_err(failed)?;
    for point in &series.points {
        if let Some((low, high)) = point.spread {
            let (low, high) = (low.max(y.range.start), high.min(y.range.end));
            let bar = [at(point, low), at(point, high)];
            let style = ink.rgb().stroke_width(scale);
            let bar = PathElement::new(bar, style);
            chart.draw_series([bar]).map_err(failed)?;
        }
    }
    // One point makes no line.
    if series.shape == Shape::Marked || series.points.len() == 1 {
        let size = 4 * scale as i32;
        let marks = series.points.iter().map(|point| {
            let (at, look, hollow) = (at(point, point.y), series.look, point.hollow);
            Marked { at, look, size, hollow }
        });
        chart.draw_series(marks).map_err(failed)?;
    }
    Ok(())
}
