//! Figures that were measured inside a kernel, joined from files (`--kernel FILE.csv`), as
//! `linux/run bench` and `linux/run frag` write them.
//!
//! Two kinds of files, told apart by their heading; columns may stand in any order, others may stand
//! beside them, and an empty cell is a value that was not measured:
//!
//! ```text
//!   # commit …                                   what was measured, where and when: shown as it is
//!   # x86_64, emulated by QEMU: 2048 MiB, …      who says "emulated" is marked everywhere
//!   allocator,pattern,threads,order,alloc_ns,alloc_ns_lowest,alloc_ns_highest,alloc_ns_min,
//!       free_ns…,pair_ns…                        (one line)
//!   allocator,boot,iteration,free_huge,possible,moves
//! ```
//!
//! Times are nanoseconds for each operation: the median over the boots of their medians, the least
//! and the most of these, and the fastest run of any boot. `llfree` and `woodlot` are drawn as LLFree
//! is elsewhere, `buddy` and `linux` as Linux.

use std::path::Path;

use serde::{Deserialize, Serialize};
use woodlot_bench::Failure;
use woodlot_bench::chart::{Axis, Look, Panel, Point, Series, Shape};
use woodlot_bench::engine::Engine;
use woodlot_bench::frag::State;
use woodlot_bench::patterns::{Metric, Pattern};

use super::beside::{self, Beside};
use super::papers;
use super::section::{Section, Table, number};
use super::suite::threads_of;

/// A line of times.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct KernelTime {
    allocator: String,
    pattern: String,
    order: u8,
    threads: usize,
    alloc_ns: Option<f64>,
    alloc_ns_lowest: Option<f64>,
    alloc_ns_highest: Option<f64>,
    alloc_ns_min: Option<f64>,
    free_ns: Option<f64>,
    free_ns_lowest: Option<f64>,
    free_ns_highest: Option<f64>,
    free_ns_min: Option<f64>,
    pair_ns: Option<f64>,
    pair_ns_lowest: Option<f64>,
    pair_ns_highest: Option<f64>,
    pair_ns_min: Option<f64>,
}

/// What an operation can be.
const METRICS: [Metric; 3] = [Metric::Alloc, Metric::Free, Metric::Pair];

impl KernelTime {
    /// The median, the least and the most of the boots, and the fastest run.
    fn times(&self, metric: Metric) -> [Option<f64>; 4] {
        match metric {
            Metric::Alloc => {
                [self.alloc_ns, self.alloc_ns_lowest, self.alloc_ns_highest, self.alloc_ns_min]
            }
            Metric::Free => {
                [self.free_ns, self.free_ns_lowest, self.free_ns_highest, self.free_ns_min]
            }
            Metric::Pair => {
                [self.pair_ns, self.pair_ns_lowest, self.pair_ns_highest, self.pair_ns_min]
            }
            Metric::FailingAlloc | Metric::Init | Metric::Recover => [None; 4],
        }
    }

    fn all_times(&self) -> impl Iterator<Item = Option<f64>> {
        METRICS.into_iter().flat_map(|metric| self.times(metric))
    }
}

/// A line of huge frames.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct KernelHuge {
    allocator: String,
    boot: usize,
    iteration: usize,
    free_huge: usize,
    possible: usize,
    free_frames: Option<usize>,
    moves: Option<usize>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Lines {
    Times(Vec<KernelTime>),
    Huge(Vec<KernelHuge>),
}

/// A file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct KernelFile {
    /// What it is called, without folder and extension.
    name: String,
    /// What it says of itself.
    remarks: Vec<String>,
    lines: Lines,
}

/// Everything from such files.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Kernel {
    files: Vec<KernelFile>,
}

impl Kernel {
    /// Adds a file.
    ///
    /// # Errors
    /// What is wrong with it, and in which line.
    pub fn join(&mut self, path: &Path) -> Result<(), Failure> {
        let file = KernelFile::read(path)?;
        if self.files.iter().any(|known| known.name == file.name) {
            return Err(Failure::at(path, "a file of this name was joined already"));
        }
        self.files.push(file);
        Ok(())
    }

    /// Is there nothing?
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Its sections; none where there is nothing.
    pub fn sections(&self) -> Vec<Section> {
        self.files.iter().flat_map(KernelFile::sections).collect()
    }

    /// The buddy and LLFree on real CPUs, with the most threads of the file: the medians of each file
    /// that has both, with its name and the number of threads.
    pub fn beside_buddy(
        &self,
        pattern: Pattern,
        metric: Metric,
        order: u8,
    ) -> Vec<(&str, usize, [f64; 2])> {
        let in_file = |file: &'_ KernelFile| {
            let Lines::Times(times) = &file.lines else { return None };
            let median = |engine| with_most_threads(times)(engine, pattern, metric, order);
            Some((most_threads(times), [median(Engine::Linux)?, median(Engine::Llfree)?]))
        };
        let native = self.files.iter().filter(|file| !file.emulated());
        let found = native.map(|file| (&*file.name, in_file(file)));
        found.filter_map(|(name, both)| both.map(|(threads, ns)| (name, threads, ns))).collect()
    }

    /// The states of each boot of each file.
    pub fn fragmented(&self, engine: Engine) -> Vec<Vec<State>> {
        let lines = self.files.iter().map(|file| match &file.lines {
            Lines::Huge(lines) => lines.as_slice(),
            Lines::Times(_) => &[],
        });
        lines.flat_map(|lines| states(lines, engine)).collect()
    }
}

impl KernelFile {
    fn read(path: &Path) -> Result<KernelFile, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| Failure::at(path, error))?;
        let wrong = |error: csv::Error| Failure::at(path, error);
        let mut csv = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
        let heading = csv.headers().map_err(wrong)?.clone();
        let lines = match heading.iter().any(|column| column == "iteration") {
            true => Lines::Huge(csv.deserialize().collect::<Result<_, _>>().map_err(wrong)?),
            false => Lines::Times(csv.deserialize().collect::<Result<_, _>>().map_err(wrong)?),
        };
        lines.check().map_err(|why| Failure::at(path, why))?;
        let remarks = text.lines().filter_map(|line| line.strip_prefix('#'));
        Ok(KernelFile {
            name: name_of(path),
            remarks: remarks.map(|remark| remark.trim().to_string()).collect(),
            lines,
        })
    }

    /// Was the processor an imitation? Then its times say nothing of contention or of caches.
    fn emulated(&self) -> bool {
        self.remarks.iter().any(|remark| remark.contains("emulated"))
    }

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

impl Lines {
    /// Says what no figure can be drawn from.
    fn check(&self) -> Result<(), String> {
        let empty = match self {
            Lines::Times(times) => times.is_empty(),
            Lines::Huge(lines) => lines.is_empty(),
        };
        if empty {
            return Err("has no line of figures".into());
        }
        let Lines::Times(times) = self else { return Ok(()) };
        for time in times {
            if time.all_times().flatten().any(|ns| !ns.is_finite() || ns <= 0.0) {
                let KernelTime { allocator, pattern, order, .. } = time;
                return Err(format!(
                    "{allocator}, {pattern}, order {order}: a time is not above 0"
                ));
            }
        }
        let none =
            |time: &KernelTime| METRICS.iter().all(|&metric| time.times(metric)[0].is_none());
        match times.iter().all(none) {
            true => {
                Err("has no times: alloc_ns, free_ns or pair_ns (if it has a row for each boot, \
                name the file of the boots joined)"
                    .into())
            }
            false => Ok(()),
        }
    }
}

/// The file's name without its extension, in letters that suit links and other names.
fn name_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// The medians with the most threads of a file.
fn with_most_threads(times: &[KernelTime]) -> impl Fn(Engine, Pattern, Metric, u8) -> Option<f64> {
    let threads = most_threads(times);
    move |engine, pattern, metric, order| {
        let is = |time: &&KernelTime| {
            engine_of(&time.allocator) == Some(engine)
                && time.pattern == pattern.to_string()
                && (time.order, time.threads) == (order, threads)
        };
        times.iter().find(is)?.times(metric)[0]
    }
}

/// What an engine made of the zone, in each boot.
fn states(lines: &[KernelHuge], engine: Engine) -> Vec<Vec<State>> {
    let state = |huge: &&KernelHuge| State {
        iteration: huge.iteration,
        free_frames: huge.free_frames.unwrap_or(0),
        free_huge: huge.free_huge,
        possible_huge: huge.possible,
        moves: huge.moves.unwrap_or(0),
    };
    let own = curves(lines).filter(|curve| engine_of(&curve[0].allocator) == Some(engine));
    own.map(|curve| curve.iter().map(state).collect()).collect()
}

fn most_threads(times: &[KernelTime]) -> usize {
    times.iter().map(|time| time.threads).max().unwrap_or(1)
}

/// Each once, in the order in which they come.
fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for one in all {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

/// The lines of each allocator and boot, none of them empty.
fn curves(lines: &[KernelHuge]) -> impl Iterator<Item = Vec<&KernelHuge>> {
    let keys = distinct(lines.iter().map(|huge| (&*huge.allocator, huge.boot)));
    keys.into_iter()
        .map(|key| lines.iter().filter(|huge| (&*huge.allocator, huge.boot) == key).collect())
}

/// What of this repository an allocator in a kernel is, or is the model of.
fn engine_of(allocator: &str) -> Option<Engine> {
    match allocator {
        "woodlot" | "llfree" => Some(Engine::Llfree),
        "buddy" | "linux" => Some(Engine::Linux),
        _ => None,
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn joined(text: &str) -> Result<Kernel, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bench x.csv");
        fs::write(&path, text).unwrap();
        let mut kernel = Kernel::default();
        kernel.join(&path)?;
        assert!(kernel.join(&path).unwrap_err().to_string().contains("joined already"));
        Ok(kernel)
    }

    const TIMES: &str = "# commit 1, today\n# x86_64, native: 2 CPUs\n\
        allocator,pattern,threads,order,boots,alloc_ns,alloc_ns_lowest,alloc_ns_highest,free_ns\n\
        woodlot,bulk,1,0,3,90,80,95,70\nbuddy,bulk,1,0,3,200,,,\nbuddy,bulk,2,0,3,300,250,340,400\n";
    const HUGE: &str = "allocator,boot,iteration,free_huge,possible,moves\n\
        woodlot,1,0,1,9,70\nwoodlot,1,1,5,9,40\nwoodlot,2,0,1,9,70\nwoodlot,2,1,9,9,0\n\
        buddy,1,0,1,9,\nbuddy,1,1,1,9,\n";

    #[test]
    fn both_kinds_of_files_become_sections() {
        let sections = joined(TIMES).unwrap().sections();
        let ids: Vec<_> = sections.iter().map(|section| section.id.as_str()).collect();
        assert_eq!(ids, ["kernel-bench-x-orders", "kernel-bench-x-threads"]);
        // With two threads there is one line, with an allocation and a free.
        assert_eq!(sections[0].panels.len(), 2);
        assert_eq!(sections[0].table.rows.len(), 3);
        assert_eq!(sections[1].panels.len(), 2);
        assert_eq!(sections[1].panels[0].series.len(), 2);
        assert_eq!(sections[1].panels[0].series[0].points[0].spread, Some((80.0, 95.0)));
        assert_eq!(sections[1].panels[0].series[0].look, Engine::Llfree.look());
        assert!(sections[0].about.contains("x86_64, native: 2 CPUs."));
        assert_eq!(Kernel::default().sections().len(), 0);
    }

    #[test]
    fn huge_frames_have_a_line_for_each_boot_and_one_for_what_is_possible() {
        let kernel = joined(HUGE).unwrap();
        let [section] = &kernel.sections()[..] else { panic!("one section") };
        let points = |panel: &Panel| -> Vec<usize> {
            panel.series.iter().map(|series| series.points.len()).collect()
        };
        assert_eq!(points(&section.panels[0]), [2; 4]);
        // The buddy's cost was not measured.
        assert_eq!(points(&section.panels[1]), [2; 2]);
        assert_eq!(section.legend.len(), 3);
        let last = |engine| -> Vec<usize> {
            let runs = kernel.fragmented(engine);
            runs.iter().map(|states| states.last().unwrap().free_huge).collect()
        };
        assert_eq!(last(Engine::Llfree), [5, 9]);
        assert_eq!(last(Engine::Linux), [1]);
    }

    #[test]
    fn an_emulated_processor_is_marked_and_not_compared() {
        let times = |kernel: &Kernel| kernel.beside_buddy(Pattern::Bulk, Metric::Alloc, 0).len();
        let native = TIMES.replace("buddy,bulk,2,0", "buddy,bulk,1,9");
        let kernel = joined(&native).unwrap();
        assert_eq!(times(&kernel), 1);
        // All times are of one thread: there is no figure by threads.
        assert_eq!(kernel.sections().len(), 1);
        let emulated = joined(&native.replace("native", "emulated by QEMU")).unwrap();
        assert_eq!(times(&emulated), 0);
        let sections = emulated.sections();
        assert!(sections[0].about.contains("no measure of contention"));
        assert!(sections[0].panels.iter().all(|panel| panel.title.ends_with("(emulated)")));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let wrong = |text: &str| joined(text).unwrap_err().to_string();
        assert!(wrong(&TIMES.replace(",90,", ",ninety,")).contains("line: 4"));
        assert!(wrong(&TIMES.replace(",90,", ",-90,")).contains("woodlot, bulk, order 0"));
        assert!(wrong("allocator,pattern\n").contains("no line of figures"));
        assert!(wrong("allocator,boot,iteration\nllfree,1,1\n").contains("free_huge"));
        let boots = "allocator,boot,pattern,order,threads,alloc_ns_median\nbuddy,1,bulk,0,1,9\n";
        assert!(wrong(boots).contains("the boots joined"));
        assert!(Kernel::default().join(Path::new("/none.csv")).is_err());
    }
}
