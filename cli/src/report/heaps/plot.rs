//! Panels and tables of what was timed.

use woodlot_bench::chart::{Axis, Look, Mark, Panel, Point, Series, Shape};
use woodlot_bench::kmem::{Interface, Kept, Line, Looped, Metric};
use woodlot_bench::statistics::Summary;

use crate::report::section::{Table, extent};
use crate::report::words::number;

/// Who is drawn how: a heap looks the same everywhere, linked or preloaded.
const LOOKS: [(&[&str], usize); 7] = [
    (&["kmem"], 0),
    (&["malloc", "woodlot"], 1),
    (&["system", "glibc"], 2),
    (&["mimalloc"], 3),
    (&["jemalloc"], 4),
    (&["snmalloc"], 5),
    (&["tcmalloc"], 6),
];

/// The look of a heap.
pub fn look(contender: &str) -> Look {
    let known = LOOKS.iter().find(|(names, _)| names.contains(&contender));
    Look::of(known.map_or(LOOKS.len(), |(_, index)| *index))
}

/// The same where it is asked by a size that is known at run time, and the other way stands beside it.
pub fn look_of(line: &Line) -> Look {
    let look = look(&line.contender);
    let mark = match look.mark {
        mark if line.case.interface != Some(Interface::Standard) => mark,
        Mark::Disc => Mark::Triangle,
        Mark::Square => Mark::Diamond,
        Mark::Triangle => Mark::Disc,
        Mark::Diamond => Mark::Square,
    };
    Look { mark, ..look }
}

/// What lies along a panel.
#[derive(Clone, Copy)]
pub enum Along {
    /// Bytes of a block, in powers.
    Bytes,
    /// Threads.
    Threads,
}

/// A panel of lines of one metric.
pub struct Timed<'a> {
    pub title: String,
    pub along: Along,
    /// The unit of its height, and what is drawn of a figure and its time on the wall.
    pub height: (&'static str, fn(&Line) -> Option<Summary>),
    pub log: bool,
    pub lines: Vec<&'a Line>,
}

/// The figures themselves.
pub fn values(line: &Line) -> Option<Summary> {
    Summary::of(&line.values)
}

/// The lines of a metric.
pub fn of_metric(kept: &Kept, metric: Metric) -> Vec<&Line> {
    kept.lines.iter().filter(|line| line.metric == metric).collect()
}

/// Each heap and interface once, in the order in which they were measured.
fn names(lines: &[&Line]) -> Vec<(String, Look)> {
    let mut names: Vec<(String, Look)> = Vec::new();
    for line in lines {
        let interface = line.case.interface.map_or(String::new(), |known| format!(", {known}"));
        let name = format!("{}{interface}", line.contender);
        if !names.iter().any(|(known, _)| *known == name) {
            names.push((name, look_of(line)));
        }
    }
    names
}

/// A legend for panels of these lines.
pub fn legend(lines: &[&Line]) -> Vec<(String, Look, Shape)> {
    names(lines).into_iter().map(|(name, look)| (name, look, Shape::Marked)).collect()
}

impl Timed<'_> {
    /// Draws it. Where more threads ran than the machine has CPUs, the mark is hollow.
    pub fn panel(&self, cpus: usize) -> Panel {
        let place = |line: &Line| match self.along {
            Along::Bytes => line.case.bytes.unwrap_or(1) as f64,
            Along::Threads => line.case.threads as f64,
        };
        let point = |line: &&Line| {
            let found = (self.height.1)(line)?;
            Some(Point {
                x: place(line),
                y: found.median,
                spread: Some((found.min, found.max)),
                hollow: line.case.threads > cpus,
            })
        };
        let series = names(&self.lines).into_iter().map(|(_, look)| {
            let own = self.lines.iter().filter(|line| look_of(line) == look);
            let mut points: Vec<Point> = own.filter_map(point).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            Series { look, shape: Shape::Marked, points }
        });
        let series: Vec<Series> = series.collect();
        let (places, reach) = extent(&series);
        let y = Axis::covering(self.height.0, reach, self.log);
        let x = match self.along {
            Along::Bytes => by_bytes(&places),
            Along::Threads => Axis::of("threads", &places),
        };
        Panel { title: self.title.clone(), x, y, series }
    }
}

/// An axis of sizes that were measured: a number at each.
fn by_bytes(places: &[f64]) -> Axis {
    let (low, high) = match places {
        [low, .., high] => (*low, *high),
        [one] => (*one, *one),
        [] => (16.0, 4096.0),
    };
    let range = low / 1.3..high * 1.3;
    // Every second one, where they would touch.
    let step = if places.len() > 5 { 2 } else { 1 };
    let ticks = places.iter().copied().step_by(step).collect();
    Axis { label: "bytes of a block".into(), range, log: true, ticks }
}

const COLUMNS: [&str; 11] = [
    "loop",
    "heap",
    "bytes",
    "interface",
    "threads",
    "metric",
    "median",
    "min",
    "max",
    "in C",
    "in rseq pairs",
];

/// Every figure of some loops, beside the floor of its own run.
pub fn table(looped: &[Looped]) -> Table {
    let rows = looped.iter().flat_map(|Looped { what, kept }| {
        let c = kept.c().map(|c| c.median);
        let pair = Summary::of(&kept.sequence_pair).map(|pair| pair.median);
        let all = kept.lines.iter();
        all.map(move |line| {
            let Line { contender, case, metric, .. } = line;
            let or_dash = |text: Option<String>| text.unwrap_or("–".into());
            let found = values(line);
            let is_time = !matches!(metric, Metric::Peak | Metric::Shared);
            let over = |floor: Option<f64>| {
                let floor = floor.filter(|_| is_time)?;
                Some(number(found?.median / floor))
            };
            vec![
                what.to_string(),
                contender.clone(),
                or_dash(case.bytes.map(|bytes| bytes.to_string())),
                or_dash(case.interface.map(|interface| interface.to_string())),
                case.threads.to_string(),
                metric.to_string(),
                or_dash(found.map(|found| number(found.median))),
                or_dash(found.map(|found| number(found.min))),
                or_dash(found.map(|found| number(found.max))),
                or_dash(over(c)),
                or_dash(over(pair)),
            ]
        })
    });
    Table { columns: COLUMNS.into(), rows: rows.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_number_at_each_place_or_at_every_second_one() {
        assert_eq!(by_bytes(&[16.0, 256.0, 4096.0]).ticks, [16.0, 256.0, 4096.0]);
        let nine: Vec<f64> = (4..=12).map(|log| f64::from(1 << log)).collect();
        assert_eq!(by_bytes(&nine).ticks, [16.0, 64.0, 256.0, 1024.0, 4096.0]);
        assert!(by_bytes(&[]).range.start < by_bytes(&[]).range.end);
    }
}
