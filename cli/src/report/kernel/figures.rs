//! The sections of what was measured inside a kernel.

use woodlot_bench::chart::{Axis, Look, Panel, Point, Series, Shape};
use woodlot_bench::engine::Engine;
use woodlot_bench::patterns::Metric;

use super::{Kernel, KernelFile, KernelHuge, KernelTime, Lines, METRICS};
use super::{curves, distinct, engine_of, most_threads, states, with_most_threads};
use crate::report::beside::{self, Beside};
use crate::report::papers;
use crate::report::section::{Section, Table};
use crate::report::words::{number, threads_of};

impl Kernel {
    /// Its sections; none where there is nothing.
    pub fn sections(&self) -> Vec<Section> {
        self.files.iter().flat_map(KernelFile::sections).collect()
    }
}

impl KernelFile {
    fn sections(&self) -> Vec<Section> {
        match &self.lines {
            Lines::Times(times) => {
                let by_threads = self.by_threads(times);
                // With one number of threads the other figure says it all.
                let by_threads = (!by_threads.panels.is_empty()).then_some(by_threads);
                [self.by_order(times)].into_iter().chain(by_threads).collect()
            }
            Lines::Huge(lines) => vec![self.fragmentation(lines)],
        }
    }

    fn by_order(&self, times: &[KernelTime]) -> Section {
        let threads = most_threads(times);
        let shown: Vec<_> = times.iter().filter(|time| time.threads == threads).collect();
        let panels =
            self.panels(&shown, |time| time.pattern.clone(), ("order", |time| time.order.into()));
        let title = format!("Figure 6 in the kernel ({}): time by order", self.name);
        let about = format!("{} (the paper: 8 cores).", threads_of(threads));
        let paper = beside::by_order_beside_linux(&with_most_threads(times));
        // The lines with fewer threads stand nowhere else.
        self.section("orders", title, &about, panels, times.iter().collect(), paper)
    }

    fn by_threads(&self, times: &[KernelTime]) -> Section {
        let several = |time: &KernelTime| {
            let other = |other: &KernelTime| {
                (&other.pattern, other.order) == (&time.pattern, time.order)
                    && other.threads != time.threads
            };
            times.iter().any(other)
        };
        let shown = times.iter().filter(|time| [0, 9].contains(&time.order) && several(time));
        let shown: Vec<_> = shown.collect();
        let panels = self.panels(
            &shown,
            |time| format!("{}, order {}", time.pattern, time.order),
            ("threads", |time| time.threads as f64),
        );
        let title = format!("Figure 8 in the kernel ({}): time by number of threads", self.name);
        let about = "Orders 0 and 9 (the paper: 1 to 26 cores).";
        let paper = beside::by_cores_beside_linux(&with_most_threads(times));
        self.section("threads", title, about, panels, shown, paper)
    }

    /// A panel for each title and metric that has values.
    fn panels(
        &self,
        times: &[&KernelTime],
        title: fn(&KernelTime) -> String,
        x: (&str, fn(&KernelTime) -> f64),
    ) -> Vec<Panel> {
        let titles = distinct(times.iter().map(|time| title(time)));
        let mut panels = Vec::new();
        for name in titles {
            let same: Vec<_> = times.iter().copied().filter(|time| title(time) == name).collect();
            panels.extend(METRICS.into_iter().filter_map(|metric| {
                panel(self.marked(format!("{name}, {metric}")), &same, metric, x)
            }));
        }
        panels
    }

    /// A title or a value, marked where the processor was an imitation.
    fn marked(&self, title: String) -> String {
        if self.emulated() { format!("{title} (emulated)") } else { title }
    }

    fn section(
        &self,
        kind: &str,
        title: String,
        about: &str,
        panels: Vec<Panel>,
        table: Vec<&KernelTime>,
        paper: Vec<Beside>,
    ) -> Section {
        let row = |time: &&KernelTime| {
            let start = [time.allocator.clone(), time.pattern.clone()].into_iter();
            let middle = [time.order.to_string(), time.threads.to_string()].into_iter();
            let times = time.all_times().map(|value| value.map_or("–".into(), number));
            start.chain(middle).chain(times).collect()
        };
        let bars = "Times of the whole call, as the kernel's own code makes it, pages' records and \
            counters included: medians over boots, bars from the least boot to the most. Logarithmic, \
            as in the paper. pair: an allocation and its free.";
        Section {
            id: self.id(kind),
            title,
            about: format!("{about} {bars} {}", self.remarks()),
            legend: legend(table.iter().map(|time| &*time.allocator), Shape::Marked),
            panels,
            table_first: false,
            table: Table {
                columns: vec![
                    "allocator",
                    "pattern",
                    "order",
                    "threads",
                    "alloc ns",
                    "lowest",
                    "highest",
                    "fastest",
                    "free ns",
                    "lowest",
                    "highest",
                    "fastest",
                    "pair ns",
                    "lowest",
                    "highest",
                    "fastest",
                ],
                rows: table.iter().map(row).collect(),
            },
            paper: self.said(paper),
            paper_machine: papers::LLFREE_MACHINE,
        }
    }

    /// Values beside the papers', marked where the processor was an imitation.
    fn said(&self, mut values: Vec<Beside>) -> Vec<Beside> {
        values.iter_mut().for_each(|value| value.here = self.marked(value.here.clone()));
        values
    }

    fn id(&self, kind: &str) -> String {
        format!("kernel-{}-{kind}", self.name)
    }

    /// What it was measured in, in the file's words.
    fn guest(&self) -> String {
        let guest = self.remarks.iter().find(|remark| remark.contains("MiB"));
        guest.cloned().unwrap_or_else(|| "not said".into())
    }

    /// What the file says of itself, as sentences.
    fn remarks(&self) -> String {
        let warning = if self.emulated() {
            "Emulated: the processor is an imitation, so these times are no measure of contention or of \
             caches, and compare with nothing but one another. "
        } else {
            ""
        };
        let remarks: Vec<String> = self.remarks.iter().map(|remark| format!("{remark}.")).collect();
        format!("{warning}The file says: {}", remarks.join(" "))
    }

    fn fragmentation(&self, lines: &[KernelHuge]) -> Section {
        let names = legend(lines.iter().map(|huge| &*huge.allocator), Shape::Line);
        let last = lines.iter().map(|huge| huge.iteration).max().unwrap_or(0).max(1) as f64;
        let series = |value: fn(&KernelHuge) -> Option<usize>| -> Vec<Series> {
            let line = |curve: Vec<&KernelHuge>| {
                let at = |huge: &&KernelHuge| {
                    Some(Point::new(huge.iteration as f64, value(huge)? as f64))
                };
                let look = look(&names, &curve[0].allocator);
                Series { look, shape: Shape::Line, points: curve.iter().filter_map(at).collect() }
            };
            curves(lines).map(line).filter(|series| !series.points.is_empty()).collect()
        };
        let panel = |title: &str, unit: &str, series: Vec<Series>| {
            let all = series.iter().flat_map(|one| &one.points).map(|point| point.y);
            let (x, y) = (Axis::linear("iterations", 0.0..last), Axis::covering(unit, all, false));
            Panel { title: self.marked(title.into()), x, y, series }
        };
        let mut free = series(|huge| Some(huge.free_huge));
        let possible = curves(lines).next().unwrap_or_default();
        let possible = possible
            .into_iter()
            .map(|huge| Point::new(huge.iteration as f64, huge.possible as f64));
        let guide = Series { look: Look::GUIDE, shape: Shape::Guide, points: possible.collect() };
        free.insert(0, guide);
        let mut panels = vec![panel("free huge frames", "huge frames", free)];
        let moves = series(|huge| huge.moves);
        if !moves.is_empty() {
            panels.push(panel("compaction cost", "frames to move", moves));
        }
        let row = |huge: &KernelHuge| {
            let KernelHuge { allocator, boot, iteration, free_huge, possible, moves, .. } = huge;
            let numbers = [boot, iteration, free_huge, possible].map(usize::to_string);
            let moves = moves.map_or("–".into(), |moves| moves.to_string());
            [allocator.clone()].into_iter().chain(numbers).chain([moves]).collect()
        };
        let guide = ("possible".to_string(), Look::GUIDE, Shape::Guide);
        let [llfree, linux] = [Engine::Llfree, Engine::Linux].map(|engine| states(lines, engine));
        let [llfree, linux] =
            [&llfree, &linux].map(|runs| runs.iter().map(Vec::as_slice).collect::<Vec<_>>());
        Section {
            id: self.id("frag"),
            title: format!("Figure 10 in the kernel ({}): free huge frames", self.name),
            about: format!(
                "What user space does above, done to a kernel's own allocator: a line for each boot, \
                 counts by the kernel's own statistics. {}",
                self.remarks()
            ),
            legend: names.iter().cloned().chain([guide]).collect(),
            panels,
            table_first: false,
            table: Table {
                columns: vec![
                    "allocator",
                    "boot",
                    "iteration",
                    "free huge",
                    "possible",
                    "frames to move",
                ],
                rows: lines.iter().map(row).collect(),
            },
            paper: beside::fragmented(&llfree, &linux, self.guest()),
            paper_machine: papers::LLFREE_MACHINE,
        }
    }
}

/// Each allocator once, with the look of its engine, or the next that no engine here has.
fn legend<'a>(
    allocators: impl Iterator<Item = &'a str>,
    shape: Shape,
) -> Vec<(String, Look, Shape)> {
    let look = |(index, name): (usize, &str)| {
        let look = engine_of(name).map_or(Look::of(2 + index), Engine::look);
        (name.to_string(), look, shape)
    };
    distinct(allocators).into_iter().enumerate().map(look).collect()
}

/// The look of an allocator in a legend that has it.
fn look(names: &[(String, Look, Shape)], allocator: &str) -> Look {
    names.iter().find(|(name, ..)| name == allocator).map_or(Look::GUIDE, |(_, look, _)| *look)
}

/// A metric of these lines; nothing where none of them has it.
fn panel(
    title: String,
    times: &[&KernelTime],
    metric: Metric,
    (label, x): (&str, fn(&KernelTime) -> f64),
) -> Option<Panel> {
    let names = legend(times.iter().map(|time| &*time.allocator), Shape::Marked);
    let mut series = Vec::new();
    for (allocator, look, shape) in names {
        let point = |time: &&&KernelTime| {
            let [median, lowest, highest, _] = time.times(metric);
            let y = median?;
            let spread =
                Some((lowest.map_or(y, |low| low.min(y)), highest.map_or(y, |h| h.max(y))));
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
    let reach = points().flat_map(|point| {
        let (low, high) = point.spread.unwrap_or((point.y, point.y));
        [low, high]
    });
    let y = Axis::covering("ns", reach, true);
    Some(Panel { title, x: Axis::of(label, &places), y, series })
}
