//! A piece of the page: panels, the numbers behind them, and what the papers say.

use woodlot_bench::chart::{Axis, Figure, Look, Panel, Point, Series, Shape};
use woodlot_bench::engine::Engine;
use woodlot_bench::statistics::Summary;

use super::beside::Beside;
use super::data::{Data, Timed};
use super::words::number;

/// A table in words: a heading for each column, and rows.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The headings.
    pub columns: Vec<&'static str>,
    /// The rows, each as long as the headings.
    pub rows: Vec<Vec<String>>,
}

/// A piece of the page.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its name in links and file names.
    pub id: String,
    /// What it is.
    pub title: String,
    /// What was done.
    pub about: String,
    /// Who is who.
    pub legend: Vec<(String, Look, Shape)>,
    /// The panels; none where a table says it all.
    pub panels: Vec<Panel>,
    /// Is the table what is to be seen, rather than what lies behind a figure?
    pub table_first: bool,
    /// The numbers.
    pub table: Table,
    /// What the papers give, beside what there is here.
    pub paper: Vec<Beside>,
    /// On what.
    pub paper_machine: &'static str,
}

impl Section {
    /// The whole section as a figure of its own.
    pub fn figure(&self) -> Figure {
        let columns = self.panels.len().min(2);
        Figure {
            title: self.title.clone(),
            legend: self.legend.clone(),
            columns,
            panels: self.panels.clone(),
            notes: Vec::new(),
        }
    }
}

/// The times as a table.
pub fn table_of(times: &[&Timed]) -> Table {
    let columns = vec![
        "engine",
        "pattern",
        "metric",
        "order",
        "threads",
        "memory",
        "median ns",
        "min",
        "max",
        "in C",
        "wall ns",
        "repetitions",
    ];
    let row = |timed: &&Timed| {
        let Timed { engine, pattern, metric, order, threads, memory, .. } = timed;
        let (cpu, wall) = (timed.cpu(), Summary::of(&timed.wall_ns));
        let of = |value: Option<f64>| value.map_or("–".into(), number);
        vec![
            engine.to_string(),
            pattern.to_string(),
            metric.to_string(),
            order.to_string(),
            threads.to_string(),
            memory.to_string(),
            of(cpu.map(|cpu| cpu.median)),
            of(cpu.map(|cpu| cpu.min)),
            of(cpu.map(|cpu| cpu.max)),
            of(cpu.map(|cpu| cpu.median / timed.hot_cas_ns)),
            of(wall.map(|wall| wall.median)),
            timed.cpu_ns.len().to_string(),
        ]
    };
    Table { columns, rows: times.iter().map(row).collect() }
}

/// A panel of times: a series for each engine.
pub struct Plot<'a> {
    /// Its title.
    pub title: String,
    /// What lies along it.
    pub x: (&'static str, fn(&Timed) -> f64),
    /// Is the vertical axis logarithmic?
    pub log: bool,
    /// Each engine with its times.
    pub series: Vec<(Engine, Vec<&'a Timed>)>,
}

impl Plot<'_> {
    /// Draws it. Where more threads ran than the machine has CPUs, the mark is hollow.
    pub fn panel(&self, data: &Data) -> Panel {
        let (label, x) = self.x;
        let cpus = data.machine.cpus();
        let mut series = Vec::new();
        for (engine, times) in &self.series {
            let point = |timed: &&Timed| {
                let cpu = timed.cpu()?;
                Some(Point {
                    x: x(timed),
                    y: cpu.median,
                    spread: Some((cpu.min, cpu.max)),
                    hollow: timed.threads > cpus,
                })
            };
            let mut points: Vec<Point> = times.iter().filter_map(point).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            series.push(Series { look: engine.look(), shape: Shape::Marked, points });
        }
        let (places, reach) = extent(&series);
        let y = Axis::covering("ns", reach, self.log);
        Panel { title: self.title.clone(), x: Axis::of(label, &places), y, series }
    }

    /// All of its times.
    pub fn times(&self) -> impl Iterator<Item = &Timed> {
        self.series.iter().flat_map(|(_, times)| times.iter().copied())
    }
}

/// Engines in a legend.
pub fn legend(engines: &[Engine]) -> Vec<(String, Look, Shape)> {
    engines.iter().map(|engine| (engine.name().into(), engine.look(), Shape::Marked)).collect()
}

/// Where points of these series lie along a figure, in order, and how low and high each of them goes.
pub(super) fn extent(series: &[Series]) -> (Vec<f64>, impl Iterator<Item = f64> + '_) {
    let points = || series.iter().flat_map(|series| &series.points);
    let mut places: Vec<f64> = points().map(|point| point.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    // A high outlier of one repetition is cut off rather than flattening everything else.
    let most = points().map(|point| point.y).fold(0.0, f64::max);
    let reach = points().flat_map(move |point| {
        let (low, high) = point.spread.unwrap_or((point.y, point.y));
        [low, high.min(1.5 * most)]
    });
    (places, reach)
}
