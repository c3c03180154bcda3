//! Figures that were measured inside a kernel, joined from files (`--kernel FILE.csv`).
//!
//! Two kinds of files, told apart by their heading; columns may stand in any order, and an empty cell
//! is a value that was not measured:
//!
//! ```text
//!   allocator,pattern,order,threads,alloc_ns_median,alloc_ns_min,free_ns_median,free_ns_min,
//!       pair_ns_median,pair_ns_min           (one line; the six times may be left out)
//!   allocator,iteration,free_huge,possible
//! ```
//!
//! Times are nanoseconds for each operation. `llfree` and `linux` are drawn in their own colours.

use std::path::Path;

use serde::{Deserialize, Serialize};
use woodlot_bench::Failure;
use woodlot_bench::chart::{Axis, Look, Panel, Point, Series, Shape};
use woodlot_bench::engine::Engine;

use super::papers;
use super::section::{Section, Table, number};

/// A line of times.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct KernelTime {
    allocator: String,
    pattern: String,
    order: u8,
    threads: usize,
    alloc_ns_median: Option<f64>,
    alloc_ns_min: Option<f64>,
    free_ns_median: Option<f64>,
    free_ns_min: Option<f64>,
    pair_ns_median: Option<f64>,
    pair_ns_min: Option<f64>,
}

/// A metric of a line: the median and the least.
type Metric = (&'static str, fn(&KernelTime) -> (Option<f64>, Option<f64>));

const METRICS: [Metric; 3] = [
    ("allocation", |time| (time.alloc_ns_median, time.alloc_ns_min)),
    ("free", |time| (time.free_ns_median, time.free_ns_min)),
    ("allocation and free", |time| (time.pair_ns_median, time.pair_ns_min)),
];

/// A line of huge frames.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct KernelHuge {
    allocator: String,
    iteration: usize,
    free_huge: usize,
    possible: usize,
}

/// Everything from such files.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Kernel {
    times: Vec<KernelTime>,
    huge: Vec<KernelHuge>,
}

impl Kernel {
    /// Adds a file.
    ///
    /// # Errors
    /// What is wrong with it, and in which line.
    pub fn join(&mut self, path: &Path) -> Result<(), Failure> {
        let wrong = |error: csv::Error| Failure::at(path, error);
        let mut file = csv::Reader::from_path(path).map_err(wrong)?;
        let before = self.times.len() + self.huge.len();
        if file.headers().map_err(wrong)?.iter().any(|column| column == "iteration") {
            for line in file.deserialize() {
                self.huge.push(line.map_err(wrong)?);
            }
        } else {
            for line in file.deserialize() {
                self.times.push(line.map_err(wrong)?);
            }
        }
        match self.times.len() + self.huge.len() > before {
            true => Ok(()),
            false => Err(Failure::at(path, "has no line of figures")),
        }
    }

    /// Its sections; none where there is nothing.
    pub fn sections(&self) -> Vec<Section> {
        let mut sections = Vec::new();
        if !self.times.is_empty() {
            sections.push(self.by_order());
            sections.push(self.by_threads());
        }
        if !self.huge.is_empty() {
            sections.push(self.fragmentation());
        }
        sections
    }

    fn by_order(&self) -> Section {
        let most = self.times.iter().map(|time| time.threads).max().unwrap_or(1);
        let times = || self.times.iter().filter(move |time| time.threads == most);
        let (mut panels, mut patterns) = (Vec::new(), Vec::new());
        for time in times().filter(|time| !seen(&mut patterns, &time.pattern)) {
            let same: Vec<_> = times().filter(|other| other.pattern == time.pattern).collect();
            panels.extend(METRICS.iter().filter_map(|metric| {
                panel(&time.pattern, &same, metric, ("order", |time| time.order.into()))
            }));
        }
        let about = format!("Measured inside a kernel, {most} threads; bars reach to the least.");
        self.section("kernel-orders", "Figure 6, in the kernel: time by order", about, panels)
    }

    fn by_threads(&self) -> Section {
        let (mut panels, mut shown) = (Vec::new(), Vec::new());
        for time in self.times.iter().filter(|time| [0, 9].contains(&time.order)) {
            let title = format!("{}, order {}", time.pattern, time.order);
            if seen(&mut shown, &title) {
                continue;
            }
            let key = (&time.pattern, time.order);
            let same = self.times.iter().filter(|other| (&other.pattern, other.order) == key);
            let same: Vec<_> = same.collect();
            panels.extend(METRICS.iter().filter_map(|metric| {
                panel(&title, &same, metric, ("threads", |time| time.threads as f64))
            }));
        }
        let about = "Measured inside a kernel, orders 0 and 9; bars reach to the least.".into();
        self.section("kernel-threads", "Figure 8, in the kernel: time by threads", about, panels)
    }

    fn section(&self, id: &'static str, title: &str, about: String, panels: Vec<Panel>) -> Section {
        let of = |value: Option<f64>| value.map_or("–".into(), number);
        let row = |time: &KernelTime| {
            let start = [time.allocator.clone(), time.pattern.clone()].into_iter();
            let middle = [time.order.to_string(), time.threads.to_string()].into_iter();
            let times = METRICS.iter().flat_map(|(_, metric)| <[_; 2]>::from(metric(time)));
            start.chain(middle).chain(times.map(of)).collect()
        };
        Section {
            id,
            title: title.into(),
            about,
            legend: legend(self.times.iter().map(|time| &time.allocator), Shape::Marked),
            panels,
            table_first: false,
            table: Table {
                columns: vec![
                    "allocator",
                    "pattern",
                    "order",
                    "threads",
                    "alloc ns",
                    "min",
                    "free ns",
                    "min",
                    "pair ns",
                    "min",
                ],
                rows: self.times.iter().map(row).collect(),
            },
            paper: papers::KERNEL,
            paper_machine: papers::LLFREE_MACHINE,
        }
    }

    fn fragmentation(&self) -> Section {
        let names = legend(self.huge.iter().map(|huge| &huge.allocator), Shape::Line);
        let series = names.iter().map(|(name, look, shape)| {
            let own = self.huge.iter().filter(|huge| huge.allocator == *name);
            let point =
                |huge: &KernelHuge| Point::new(huge.iteration as f64, huge.free_huge as f64);
            Series { look: *look, shape: *shape, points: own.map(point).collect() }
        });
        let last = self.huge.iter().map(|huge| huge.iteration).max().unwrap_or(0).max(1) as f64;
        let highest = self.huge.iter().map(|huge| huge.possible as f64);
        let panel = Panel {
            title: "free huge frames".into(),
            x: Axis::linear("iterations", 0.0..last),
            y: Axis::covering("huge frames", highest, false),
            series: series.collect(),
        };
        let row = |huge: &KernelHuge| {
            let KernelHuge { allocator, iteration, free_huge, possible } = huge;
            let numbers = [iteration, free_huge, possible].map(usize::to_string);
            [allocator.clone()].into_iter().chain(numbers).collect()
        };
        Section {
            id: "kernel-frag",
            title: "Figure 10, in the kernel: free huge frames".into(),
            about: "Measured inside a kernel.".into(),
            legend: names,
            panels: vec![panel],
            table_first: false,
            table: Table {
                columns: vec!["allocator", "iteration", "free huge", "possible"],
                rows: self.huge.iter().map(row).collect(),
            },
            paper: papers::FRAGMENTED,
            paper_machine: papers::LLFREE_MACHINE,
        }
    }
}

/// Was this name there before? It is from now on.
fn seen(names: &mut Vec<String>, name: &str) -> bool {
    let known = names.iter().any(|known| known == name);
    if !known {
        names.push(name.into());
    }
    known
}

/// Each allocator once, with the look of the engine of its name, or the next of others.
fn legend<'a>(
    allocators: impl Iterator<Item = &'a String>,
    shape: Shape,
) -> Vec<(String, Look, Shape)> {
    let mut names = Vec::new();
    allocators.for_each(|name| _ = seen(&mut names, name));
    let look = |(index, name): (usize, String)| {
        let look = name.parse::<Engine>().map_or(Look::of(4 + index), Engine::look);
        (name, look, shape)
    };
    names.into_iter().enumerate().map(look).collect()
}

/// A metric of these lines; nothing where none of them has it.
fn panel(
    title: &str,
    times: &[&KernelTime],
    (name, metric): &Metric,
    (label, x): (&str, fn(&KernelTime) -> f64),
) -> Option<Panel> {
    let names = legend(times.iter().map(|time| &time.allocator), Shape::Marked);
    let mut series = Vec::new();
    for (allocator, look, shape) in names {
        let point = |time: &&&KernelTime| {
            let (median, least) = metric(time);
            let y = median.or(least)?;
            let spread = least.map(|least| (least.min(y), y));
            Some(Point { spread, ..Point::new(x(time), y) })
        };
        let own = times.iter().filter(|time| time.allocator == allocator);
        let mut points: Vec<Point> = own.filter_map(|time| point(&time)).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        series.push(Series { look, shape, points });
    }
    let points = || series.iter().flat_map(|series: &Series| &series.points);
    points().next()?;
    let mut places: Vec<f64> = points().map(|point| point.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let reach = points().flat_map(|point| [point.y, point.spread.map_or(point.y, |(low, _)| low)]);
    let y = Axis::covering("ns", reach, true);
    let title = format!("{title}, {name}");
    Some(Panel { title, x: Axis::of(label, &places), y, series })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn joined(text: &str) -> Result<Kernel, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kernel.csv");
        fs::write(&path, text).unwrap();
        let mut kernel = Kernel::default();
        kernel.join(&path).map(|()| kernel)
    }

    const TIMES: &str = "allocator,pattern,order,threads,alloc_ns_median,alloc_ns_min,free_ns_median\n\
        llfree,bulk,0,1,90,80,70\nlinux,bulk,0,1,200,,\nlinux,bulk,9,2,300,250,400\n";

    #[test]
    fn both_kinds_of_files_become_sections() {
        let sections = joined(TIMES).unwrap().sections();
        let ids: Vec<_> = sections.iter().map(|section| section.id).collect();
        assert_eq!(ids, ["kernel-orders", "kernel-threads"]);
        // With two threads there is one line, with an allocation and a free.
        assert_eq!(sections[0].panels.len(), 2);
        // Order 0 and order 9, an allocation and a free each.
        assert_eq!(sections[1].panels.len(), 4);
        assert_eq!(sections[1].panels[0].series.len(), 2);
        assert_eq!(sections[1].panels[0].series[0].points[0].spread, Some((80.0, 90.0)));
        let huge = "allocator,iteration,free_huge,possible\nllfree,0,1,9\nllfree,1,5,9\n";
        let sections = joined(huge).unwrap().sections();
        assert_eq!(sections[0].panels[0].series[0].points.len(), 2);
        assert_eq!(Kernel::default().sections().len(), 0);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let wrong = |text: &str| joined(text).unwrap_err().to_string();
        assert!(wrong(&TIMES.replace(",90,", ",ninety,")).contains("line: 2"));
        assert!(wrong("allocator,pattern\n").contains("no line of figures"));
        assert!(wrong("allocator,iteration\nllfree,1\n").contains("free_huge"));
        assert!(Kernel::default().join(Path::new("/none.csv")).is_err());
    }
}
