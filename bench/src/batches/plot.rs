//! The figure: time against the size of a batch, mean and standard deviation.

use super::{Batches, SIZES, Way};
use crate::Failure;
use crate::chart::{Axis, Figure, Look, Panel, Point, Series, Shape};
use crate::engine::Engine;

fn look(way: Way) -> Look {
    match way {
        Way::Runs => Look::of(0),
        Way::OneByOne => Look::of(2),
        Way::Locked => Look::of(1),
    }
}

/// Who is who.
pub fn legend() -> Vec<(String, Look, Shape)> {
    Way::ALL.map(|way| (way.name().into(), look(way), Shape::Marked)).into()
}

/// Of each engine, as the paper has it, and with equal lengths for equal ratios.
pub fn panels(found: &Batches) -> Vec<Panel> {
    let scales = [("mean and standard deviation", false), ("the same, logarithmic", true)];
    let of = |engine| scales.map(|(title, log)| panel(found, engine, title, log));
    found.engines().flat_map(of).collect()
}

fn panel(found: &Batches, engine: Engine, title: &str, log: bool) -> Panel {
    let series = Way::ALL.map(|way| {
        let is = |found: &&super::Batched| (found.engine, found.way) == (engine, way);
        let own = found.batched.iter().filter(is);
        let point = |found: &super::Batched| {
            let (mean, deviation) = found.mean();
            // What is below zero has no place on a logarithmic axis.
            let lowest = if log { (mean - deviation).max(mean / 10.0) } else { mean - deviation };
            let spread = Some((lowest.max(0.0), mean + deviation));
            Point { spread, ..Point::new(found.pages as f64, mean) }
        };
        Series { look: look(way), shape: Shape::Marked, points: own.map(point).collect() }
    });
    let last = SIZES.last().copied().unwrap_or(1) as f64;
    let all = series.iter().flat_map(|series| &series.points);
    let highest = |point: &Point| point.spread.map_or(point.y, |(_, highest)| highest);
    let lowest = series.iter().flat_map(|series| &series.points).map(|point| point.y);
    let y = Axis::covering("µs for a batch", all.map(highest).chain(lowest), log);
    let x = match log {
        true => Axis::covering("pages of a batch", SIZES.iter().map(|&pages| pages as f64), true),
        false => Axis::linear("pages of a batch", 0.0..last * 1.03),
    };
    Panel { title: format!("{}: {title}", engine.name()), x, y, series: series.into() }
}

/// The figure as SVG.
///
/// # Errors
/// When it cannot be drawn, which is a defect.
pub fn svg(found: &Batches) -> Result<String, Failure> {
    let title = "Batches of pages from two domains in turn (FreeBSD anti-fragmentation, figure 6)";
    Figure {
        title: title.into(),
        legend: legend(),
        columns: 2,
        panels: panels(found),
        notes: Vec::new(),
    }
    .svg()
}
