//! The targets of heaps: what the file says, and what that means.

use std::path::Path;

use serde::Deserialize;

use super::case::{Case, Interface, Metric, What};
use crate::Failure;
use crate::check::{Titled, load_as};

/// The file as it was when the program was built.
const SHIPPED: &str = include_str!("../../kmem-targets.toml");

/// Heaps of this repository: all others are rivals. The last one is preloaded.
pub(super) const OWN: [&str; 3] = ["kmem", "malloc", PRELOADED];
const PRELOADED: &str = "woodlot";

/// What a time is held against.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// A pop and a push by restartable sequences in the same run.
    Floor,
    /// The rival with the least median in the same case of the same run.
    BestRival,
    /// Nanoseconds on a machine whose hot CAS takes 2.45.
    #[serde(rename = "ns-at-c-2.45")]
    NsAtC245,
}

/// A layer that calls miss.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// The caches of CPUs: the call goes on to the global layer.
    Cpu,
    /// The global layer: it goes on to the pages.
    Global,
}

/// A figure of a heap.
#[derive(Clone, PartialEq, Debug)]
pub struct Timed {
    /// Whose.
    pub heap: String,
    /// By which benchmark.
    pub what: What,
    /// In which case; of *wins* and *peak* for each of the sizes.
    pub case: Case,
    /// The figure.
    pub metric: Metric,
}

impl Timed {
    /// Is the heap preloaded?
    pub fn is_preloaded(&self) -> bool {
        self.heap == PRELOADED
    }
}

/// What is measured for a target.
#[derive(Clone, PartialEq, Debug)]
pub enum Task {
    /// A time.
    Time(Timed, Unit),
    /// In how many of these sizes it is less than the best rival's.
    Wins(Timed, Vec<usize>),
    /// The same time on all CPUs over that on one, each over the floor's on as many CPUs.
    Flat(Timed),
    /// Memory over payload, the most of these sizes.
    Peak(Timed, Vec<usize>),
    /// Instructions of a pair of `kmem`.
    Instructions(usize, Interface),
    /// Cache lines that move for a pair.
    Transfers,
    /// Calls of a size that miss a layer: allocations, or frees.
    Misses(Layer, usize, Metric),
    /// Slabs over bytes asked for.
    Waste,
    /// Frames that are kept for each CPU when all is freed.
    Kept,
    /// Huge frames that are free then.
    Huge,
    /// Memory that can be had then.
    Again,
}

/// A target.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    /// The row of the issue that it stands in.
    pub row: String,
    /// What it is about, in short.
    pub name: String,
    /// What is measured.
    pub task: Task,
    /// What the figure is held against.
    pub limit: f64,
}

impl Titled for Target {
    fn title(&self) -> [&str; 2] {
        [&self.row, &self.name]
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    target: Vec<Entry>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    #[default]
    Time,
    Wins,
    Flat,
    Peak,
    Instructions,
    Transfers,
    Misses,
    Waste,
    Kept,
    Huge,
    Again,
}

/// A target for several heaps and sizes at once.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    row: String,
    #[serde(default)]
    kind: Kind,
    what: Option<What>,
    #[serde(default)]
    heaps: Vec<String>,
    interface: Option<Interface>,
    #[serde(default)]
    bytes: Vec<usize>,
    metric: Option<Metric>,
    layer: Option<Layer>,
    limit: f64,
    unit: Option<Unit>,
}

/// The targets of a file, or those that ship; only those whose name or row contains `only`.
///
/// # Errors
/// What is wrong with the file.
pub fn load(path: Option<&Path>, only: Option<&str>) -> Result<Vec<Target>, Failure> {
    load_as(path, SHIPPED, only, parse)
}

/// The targets that a text says.
///
/// # Errors
/// Where it is wrong, in words.
pub fn parse(text: &str) -> Result<Vec<Target>, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut targets = Vec::new();
    for entry in &file.target {
        let wrong = |cause| format!("target \"{}\": {cause}", entry.row);
        let tasks = entry.check().and_then(|()| entry.tasks()).map_err(wrong)?;
        targets.extend(tasks.into_iter().map(|(name, task)| Target {
            row: entry.row.clone(),
            name,
            task,
            limit: entry.limit,
        }));
    }
    Ok(targets)
}

impl Entry {
    fn check(&self) -> Result<(), String> {
        if !self.limit.is_finite() || self.limit < 0.0 {
            return Err("the limit is not a number from zero on".into());
        }
        if (self.unit.is_some(), self.layer.is_some())
            != (self.kind == Kind::Time, self.kind == Kind::Misses)
        {
            return Err("a unit is for times, a layer for misses: each needs its own".into());
        }
        match self.heaps.iter().find(|heap| !OWN.contains(&heap.as_str())) {
            Some(heap) => Err(format!("expected one of {}, found `{heap}`", OWN.join(", "))),
            None => Ok(()),
        }
    }

    /// Every target, with its name.
    fn tasks(&self) -> Result<Vec<(String, Task)>, String> {
        let tasks: Vec<(String, Task)> = match self.kind {
            Kind::Time | Kind::Wins | Kind::Flat | Kind::Peak => {
                let tasks = self.heaps.iter().map(|heap| self.timed(heap));
                tasks.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect()
            }
            Kind::Instructions => {
                if self.heaps != ["kmem"] {
                    return Err("instructions are counted of kmem".into());
                }
                let interface = self.interface.ok_or("no interface")?;
                let named = |&bytes| {
                    let name = format!("kmem instructions {bytes} B, {interface}");
                    (name, Task::Instructions(bytes, interface))
                };
                self.bytes.iter().map(named).collect()
            }
            Kind::Misses => {
                let calls = match self.metric {
                    Some(Metric::Alloc) => "allocations",
                    Some(Metric::Free) => "frees",
                    _ => return Err("misses are of alloc or of free".into()),
                };
                let (layer, metric) = (self.layer.ok_or("no layer")?, self.metric.ok_or("")?);
                let missed = match layer {
                    Layer::Cpu => "caches",
                    Layer::Global => "the global layer",
                };
                let named = |&bytes| {
                    let name = format!("kmem lock-manager {bytes} B, {calls} that miss {missed}");
                    (name, Task::Misses(layer, bytes, metric))
                };
                self.bytes.iter().map(named).collect()
            }
            Kind::Transfers => vec![("kmem pair, cache lines moved".into(), Task::Transfers)],
            Kind::Waste => vec![("kmem slabs over bytes asked for".into(), Task::Waste)],
            Kind::Kept => vec![("kmem frames kept for each CPU, all freed".into(), Task::Kept)],
            Kind::Huge => vec![("kmem huge frames free, all freed".into(), Task::Huge)],
            Kind::Again => vec![("kmem memory to be had in any size after".into(), Task::Again)],
        };
        match tasks.is_empty() {
            true => Err("no heaps, or no bytes".into()),
            false => Ok(tasks),
        }
    }

    /// The targets of one heap.
    fn timed(&self, heap: &str) -> Result<Vec<(String, Task)>, String> {
        let what = self.what.ok_or("no what")?;
        let threads = match what {
            What::Pair | What::Worst => 1,
            What::ProducerConsumer => 2,
            _ => return Err(format!("{what} has no times to hold against anything")),
        };
        if self.interface.is_some() != (what == What::Pair) {
            return Err("pair alone has an interface".into());
        }
        let metric = match (self.kind, what) {
            (Kind::Peak, What::Worst) => Metric::Peak,
            (Kind::Peak, _) => return Err("worst alone has a peak".into()),
            (_, What::Pair) => Metric::Pair,
            _ => self.metric.ok_or("no metric")?,
        };
        if heap == PRELOADED && self.interface == Some(Interface::Cookie) {
            return Err("a library hears of no size that the compiler knew".into());
        }
        let timed = |bytes| Timed {
            heap: heap.into(),
            what,
            case: Case { threads, bytes, interface: self.interface },
            metric,
        };
        let interface = self.interface.map_or(String::new(), |interface| format!(", {interface}"));
        let each = self.bytes.iter().map(|&bytes| {
            (format!("{heap} {what} {bytes} B{interface}, {metric}"), timed(Some(bytes)))
        });
        let all = || timed(None);
        Ok(match self.kind {
            Kind::Wins => {
                let name = format!("{heap} {what} {metric}, sizes ahead of the best rival");
                vec![(name, Task::Wins(all(), self.bytes.clone()))]
            }
            Kind::Peak => {
                vec![(format!("{heap} {what} {metric}"), Task::Peak(all(), self.bytes.clone()))]
            }
            Kind::Flat => each
                .map(|(name, timed)| {
                    (format!("{name}, all CPUs over one, in floors"), Task::Flat(timed))
                })
                .collect(),
            _ => {
                let unit = self.unit.ok_or("no unit")?;
                let against = match unit {
                    Unit::Floor => "the floor",
                    Unit::BestRival => "the best rival",
                    Unit::NsAtC245 => "ns",
                };
                each.map(|(name, timed)| (format!("{name}, {against}"), Task::Time(timed, unit)))
                    .collect()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_targets_are_all_there() {
        let targets = parse(SHIPPED).unwrap();
        let of = |row: &str| targets.iter().filter(|target| target.row.contains(row)).count();
        // Three sizes and two heaps; preloaded there is one.
        assert_eq!([of("cookie"), of("linked"), of("preloaded")], [2 * 3 + 2 * 3, 6, 3]);
        // Three sizes and what they are together, for three heaps.
        assert_eq!(of("producer/consumer"), 3 * 4);
        assert_eq!([of("worst case 16 B"), of("peak"), of("flat"), of("1..n")], [6, 3, 0, 3]);
        // Four sizes, both calls, two layers.
        assert_eq!([of("miss rates"), of("waste"), of("everything is freed")], [16, 1, 3]);
        assert_eq!(targets.len(), 12 + 6 + 3 + 12 + 6 + 3 + 3 + 16 + 1 + 3);
        let mut names: Vec<_> = targets.iter().map(|target| &target.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), targets.len());
    }

    #[test]
    fn what_is_wrong_is_said() {
        let wrong = |changed: &str, text: &str| {
            let good = "[[target]]\nrow = \"r\"\nwhat = \"pair\"\nheaps = [\"kmem\"]\n\
                        interface = \"cookie\"\nbytes = [16]\nlimit = 1\nunit = \"floor\"\n";
            assert!(parse(good).is_ok());
            let error = parse(&good.replace(changed, text)).unwrap_err();
            assert!(!error.is_empty());
            error
        };
        assert!(wrong("limit = 1", "limit = -1").contains("limit"));
        assert!(wrong("limit = 1\n", "").contains("limit"));
        assert!(wrong("\"floor\"", "\"metres\"").contains("metres"));
        assert!(wrong("unit = \"floor\"\n", "").contains("unit"));
        assert!(wrong("row", "layer = \"cpu\"\nrow").contains("layer"));
        assert!(wrong("row", "kind = \"flat\"\nrow").contains("unit"));
        assert!(wrong("\"kmem\"", "\"jemalloc\"").contains("one of kmem"));
        assert!(wrong("[\"kmem\"]", "[]").contains("no heaps"));
        assert!(wrong("[16]", "[]").contains("no bytes"));
        assert!(wrong("\"pair\"", "\"churn\"").contains("churn has no times"));
        assert!(wrong("\"pair\"", "\"worst\"").contains("interface"));
        assert!(wrong("interface = \"cookie\"\n", "").contains("interface"));
        assert!(wrong("\"kmem\"", "\"woodlot\"").contains("a library hears"));
        assert!(wrong("row", "speed = 1\nrow").contains("speed"));
        wrong("what = \"pair\"\n", "");
    }

    #[test]
    fn a_filter_that_fits_nothing_is_a_mistake_of_the_caller() {
        assert!(matches!(load(None, Some("no such thing")), Err(Failure::Usage(_))));
        assert_eq!(load(None, Some("waste")).unwrap().len(), 1);
        assert!(load(Some(Path::new("/no/such/file")), None).is_err());
    }
}
