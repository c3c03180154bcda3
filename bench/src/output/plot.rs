//! The figure of a run: time for each operation, and what is kept of huge frames, against what was
//! varied.

use crate::Failure;
use crate::chart::{Axis, Figure, Panel, Point, Series, Shape};
use crate::engine::Engine;
use crate::measure::{self, Run, Subject};
use crate::patterns::{Metric, Pattern, Setup};

/// What lies along a panel: its label, and the value for a subject.
type Along = (&'static str, fn(&Setup) -> f64);

/// What may lie along: the first that was varied does.
const ALONG: [Along; 3] = [
    ("percent free before", |setup| 100.0 - setup.fill as f64 / 10.0),
    ("threads", |setup| setup.threads as f64),
    ("order", |setup| setup.order.0.into()),
];

/// Everything that was measured, a panel for each metric of each setup that is not along it.
///
/// # Errors
/// When it cannot be drawn, which is a defect.
pub fn svg(pattern: Pattern, run: &Run) -> Result<String, Failure> {
    let subjects = || run.measured.iter().map(|measured| measured.subject);
    let varied = |(_, value): &&Along| {
        let mut values = subjects().map(|subject| value(&subject.setup));
        values.next().is_some_and(|first| values.any(|other| other != first))
    };
    let along = *ALONG.iter().find(varied).unwrap_or(&ALONG[2]);
    let mut panels = Vec::new();
    for (name, metric) in titles(run, along) {
        let of =
            |of: fn(&measure::Figure) -> Option<Point>| series(run, along, (&name, metric), of);
        let time = |figure: &measure::Figure| {
            let cpu = figure.cpu();
            Some(Point { spread: Some((cpu.min, cpu.max)), ..Point::new(0.0, cpu.median) })
        };
        panels.push(panel(format!("{name}, {metric}"), along, "ns", of(time)));
        let kept = of(|figure| figure.kept_percent().map(|percent| Point::new(0.0, percent)));
        if kept.iter().any(|series| !series.points.is_empty()) {
            let title = format!("{name}, free huge frames");
            panels.push(panel(title, along, "percent of the best placement's", kept));
        }
    }
    let mut engines: Vec<Engine> = subjects().map(|subject| subject.engine).collect();
    engines.sort_unstable();
    engines.dedup();
    let legend = engines.iter().map(|one| (one.name().into(), one.look(), Shape::Marked)).collect();
    let title = format!("{pattern}: CPU time for each operation, median, least and most");
    Figure { title, legend, columns: 2, panels, notes: Vec::new() }.svg()
}

/// What a subject is called beside others, without what lies along the panel.
fn name(Subject { setup, .. }: &Subject, (along, _): Along) -> String {
    let mut name = setup.pattern.to_string();
    if along != ALONG[2].0 || setup.mix {
        name += &format!(", {}", setup.order_in_words());
    }
    if setup.fill > 0 {
        name += &format!(", {}", setup.placement);
        if along != ALONG[0].0 {
            name += &format!(", {} % in use", setup.fill as f64 / 10.0);
        }
    }
    if along != ALONG[1].0 && setup.threads > 1 {
        name += &format!(", {} threads", setup.threads);
    }
    name
}

/// The panels, in the order in which they were measured.
fn titles(run: &Run, along: Along) -> Vec<(String, Metric)> {
    let mut titles = Vec::new();
    for measured in &run.measured {
        for figure in measured.outcome.iter().flatten() {
            let title = (name(&measured.subject, along), figure.metric);
            if !titles.contains(&title) {
                titles.push(title);
            }
        }
    }
    titles
}

fn series(
    run: &Run,
    along: Along,
    (title, metric): (&str, Metric),
    point: fn(&measure::Figure) -> Option<Point>,
) -> Vec<Series> {
    let mut all: Vec<(Engine, Vec<Point>)> = Vec::new();
    for measured in run.measured.iter().filter(|one| name(&one.subject, along) == title) {
        let figures = measured.outcome.iter().flatten().filter(|one| one.metric == metric);
        for point in figures.filter_map(point) {
            let (engine, x) = (measured.subject.engine, along.1(&measured.subject.setup));
            let at = all.iter().position(|(known, _)| *known == engine);
            let at = at.unwrap_or_else(|| {
                all.push((engine, Vec::new()));
                all.len() - 1
            });
            all[at].1.push(Point { x, ..point });
        }
    }
    let series = all.into_iter().map(|(engine, mut points)| {
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Series { look: engine.look(), shape: Shape::Marked, points }
    });
    series.collect()
}

fn panel(title: String, (label, _): Along, unit: &str, series: Vec<Series>) -> Panel {
    let points = || series.iter().flat_map(|series| &series.points);
    let mut places: Vec<f64> = points().map(|point| point.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let y = Axis::covering(unit, points().map(|point| point.y), false);
    Panel { title, x: Axis::of(label, &places), y, series }
}
