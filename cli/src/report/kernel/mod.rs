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
//! is elsewhere, `onewrite` as that engine, `buddy` and `linux` as Linux.

use std::path::Path;

use serde::{Deserialize, Serialize};
use woodlot_bench::Failure;
use woodlot_bench::engine::Engine;
use woodlot_bench::frag::State;
use woodlot_bench::patterns::{Metric, Pattern};

mod figures;
mod read;

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
    /// Was the processor an imitation? Then its times say nothing of contention or of caches.
    fn emulated(&self) -> bool {
        self.remarks.iter().any(|remark| remark.contains("emulated"))
    }
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
        "onewrite" => Some(Engine::Onewrite),
        "buddy" | "linux" => Some(Engine::Linux),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use woodlot_bench::chart::Panel;

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
    fn both_engines_and_the_buddy_are_known_by_their_names() {
        let named = ["llfree", "onewrite", "buddy"].map(engine_of);
        assert_eq!(named, [Engine::Llfree, Engine::Onewrite, Engine::Linux].map(Some));
    }

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
        let ninety = "bench x.csv: line 4, column alloc_ns: expected a time in ns or nothing, found `ninety`";
        assert!(wrong(&TIMES.replace(",90,", ",ninety,")).ends_with(ninety));
        let third = "line 5, column order: expected a whole number, found `third`";
        assert!(wrong(&TIMES.replace("buddy,bulk,1,0", "buddy,bulk,1,third")).ends_with(third));
        let short = "line 5: has 3 values where the heading has 9 columns";
        assert!(wrong(&TIMES.replace("buddy,bulk,1,0,3,200,,,", "buddy,bulk,1")).ends_with(short));
        assert!(wrong(&TIMES.replace(",90,", ",-90,")).contains("woodlot, bulk, order 0"));
        assert!(wrong("allocator,pattern,threads,order,pair_ns\n").contains("no line of figures"));
        // The tool's own files, and others.
        let bench = wrong("engine,pattern,floor,metric,order,threads\nllfree,bulk,,alloc,0,1\n");
        assert!(bench.contains(
            "bench x.csv: has no column allocator: expected allocator, pattern, threads,"
        ));
        assert!(bench.contains("linux/run bench"), "{bench}");
        let frag = wrong("engine,iteration,free_huge\nllfree,1,1\n");
        assert!(
            frag.contains("has no columns allocator, boot, possible: expected allocator, boot,")
        );
        assert!(frag.contains("linux/run frag"), "{frag}");
        assert!(wrong("").contains("no columns allocator, pattern, threads, order: expected"));
        let boots = "allocator,boot,pattern,order,threads,alloc_ns_median\nbuddy,1,bulk,0,1,9\n";
        assert!(wrong(boots).contains("the boots joined"));
        assert!(Kernel::default().join(Path::new("/none.csv")).is_err());
    }
}
