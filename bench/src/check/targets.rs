//! The targets: what the file says, and what that means.

use std::path::Path;

use serde::Deserialize;
use woodlot_frame::Order;

use crate::Failure;
use crate::engine::Engine;
use crate::frag::FragSetup;
use crate::measure::Subject;
use crate::patterns::{Metric, Pattern, Placement, Setup};
use crate::size::Size;

/// The file as it was when the program was built.
const SHIPPED: &str = include_str!("../../targets.toml");

/// What a limit is given in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// The median of hot CAS in the same run.
    C,
    /// That of random clear in 256 KiB.
    #[serde(rename = "random-clear-256k")]
    RandomClear256K,
    /// Nanoseconds.
    Ns,
    /// Nanoseconds on a machine whose hot CAS takes 2.45.
    #[serde(rename = "ns-at-c-2.45")]
    NsAtC245,
    /// Another figure of the same run.
    Times,
    /// Percent; the limit is the least.
    Percent,
    /// Instructions.
    Instructions,
}

/// What is measured for a target.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Task {
    /// A figure of a subject, and what it is compared with where that is a figure too.
    Pattern {
        /// The subject.
        subject: Subject,
        /// Its figure.
        metric: Metric,
        /// The other one.
        baseline: Option<(Subject, Metric)>,
    },
    /// How many huge frames are free after a subject, of those that the best placement keeps.
    Kept(Subject),
    /// How many huge frames are free in the end.
    Frag(Engine, FragSetup),
    /// How many instructions a pair has.
    Instructions(Engine, Order),
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
    /// The unit of the limit.
    pub unit: Unit,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    target: Vec<Entry>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    #[default]
    Pattern,
    Kept,
    Frag,
    Instructions,
}

/// A target for several engines, fills, placements and orders at once.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    row: String,
    #[serde(default)]
    kind: Kind,
    #[serde(default = "llfree")]
    engines: Vec<Engine>,
    pattern: Option<Pattern>,
    metric: Option<Metric>,
    #[serde(default = "order_0")]
    orders: Vec<u8>,
    #[serde(default = "one")]
    threads: usize,
    slots: Option<usize>,
    #[serde(default = "gib_8")]
    memory: Size,
    #[serde(default = "empty")]
    fills: Vec<f64>,
    #[serde(default = "at_random")]
    placements: Vec<Placement>,
    #[serde(default)]
    mix: bool,
    limit: f64,
    unit: Unit,
    baseline: Option<Baseline>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Baseline {
    engine: Option<Engine>,
    pattern: Pattern,
    metric: Metric,
    memory: Option<Size>,
    #[serde(default = "one")]
    threads: usize,
}

fn llfree() -> Vec<Engine> {
    vec![Engine::Llfree]
}

fn order_0() -> Vec<u8> {
    vec![0]
}

fn empty() -> Vec<f64> {
    vec![0.0]
}

fn at_random() -> Vec<Placement> {
    vec![Placement::Random]
}

fn one() -> usize {
    1
}

fn gib_8() -> Size {
    Size::gib(8)
}

/// What says which target it is.
pub(crate) trait Titled {
    /// The row of the issue, and its name.
    fn title(&self) -> [&str; 2];
}

impl Titled for Target {
    fn title(&self) -> [&str; 2] {
        [&self.row, &self.name]
    }
}

/// The targets of a file, or those that ship; only those whose name or row contains `only`.
///
/// # Errors
/// What is wrong with the file.
pub fn load(path: Option<&Path>, only: Option<&str>) -> Result<Vec<Target>, Failure> {
    load_as(path, SHIPPED, only, parse)
}

/// The same of targets of any kind.
pub(crate) fn load_as<T: Titled>(
    path: Option<&Path>,
    shipped: &str,
    only: Option<&str>,
    parse: impl Fn(&str) -> Result<Vec<T>, String>,
) -> Result<Vec<T>, Failure> {
    let targets = match path {
        None => parse(shipped).map_err(Failure::Failed),
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| Failure::at(path, error))
            .and_then(|text| parse(&text).map_err(|cause| Failure::at(path, cause))),
    };
    let (mut targets, wanted) = (targets?, only.unwrap_or(""));
    targets.retain(|target| target.title().iter().any(|words| words.contains(wanted)));
    match targets.is_empty() {
        true => Err(Failure::Usage("no target is so named".into())),
        false => Ok(targets),
    }
}

/// The targets that a text says.
///
/// # Errors
/// Where it is wrong, in words.
pub fn parse(text: &str) -> Result<Vec<Target>, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut targets = Vec::new();
    for entry in &file.target {
        for at in entry.each() {
            let target = entry.at(at);
            targets.push(target.map_err(|cause| format!("target \"{}\": {cause}", entry.row))?);
        }
    }
    Ok(targets)
}

/// One of several targets.
#[derive(Clone, Copy)]
struct At {
    engine: Engine,
    order: Order,
    placement: Placement,
    fill: f64,
}

impl Entry {
    /// What its targets are for. Those that differ by the engine alone are neighbours, and so measured by turns.
    fn each(&self) -> Vec<At> {
        let mut each = Vec::new();
        for &order in &self.orders {
            for &placement in &self.placements {
                for &fill in &self.fills {
                    for &engine in &self.engines {
                        each.push(At { engine, order: Order(order), placement, fill });
                    }
                }
            }
        }
        each
    }

    /// One of the targets.
    fn at(&self, at: At) -> Result<Target, String> {
        let At { engine, order, .. } = at;
        if !self.limit.is_finite() || self.limit <= 0.0 {
            return Err("the limit is not a number above zero".into());
        }
        let unit_fits = match self.kind {
            Kind::Pattern => !matches!(self.unit, Unit::Percent | Unit::Instructions),
            Kind::Kept | Kind::Frag => self.unit == Unit::Percent,
            Kind::Instructions => self.unit == Unit::Instructions,
        };
        if !unit_fits || self.baseline.is_some() != (self.unit == Unit::Times) {
            return Err("kind, unit and baseline do not go together".into());
        }
        let (name, task) = match self.kind {
            Kind::Pattern => self.pattern(at)?,
            Kind::Kept => {
                let pattern = self.pattern.ok_or("no pattern")?;
                let setup = self.setup(pattern, at, self.threads, self.slots, self.memory)?;
                let subject = Subject { engine, setup };
                (format!("{} kept{}", name(engine, &setup), setup.before()), Task::Kept(subject))
            }
            Kind::Frag => {
                let slots = self.slots.unwrap_or(1);
                let setup = FragSetup { memory: self.memory, slots, ..FragSetup::default() };
                (format!("{engine} frag, {slots} slots"), Task::Frag(engine, setup))
            }
            Kind::Instructions => {
                (format!("{engine} {order} pair"), Task::Instructions(engine, order))
            }
        };
        Ok(Target { row: self.row.clone(), name, task, limit: self.limit, unit: self.unit })
    }

    fn pattern(&self, at: At) -> Result<(String, Task), String> {
        let pattern = self.pattern.ok_or("no pattern")?;
        let metric = self.metric.ok_or("no metric")?;
        let setup = self.setup(pattern, at, self.threads, self.slots, self.memory)?;
        let baseline = self.baseline.map(|baseline| {
            let Baseline { pattern, metric, memory, threads, .. } = baseline;
            let engine = baseline.engine.unwrap_or(at.engine);
            let memory = memory.unwrap_or(self.memory);
            let setup = self.setup(pattern, at, threads, None, memory)?;
            Ok::<_, String>((Subject { engine, setup }, metric))
        });
        let mut name = format!("{} {metric}", name(at.engine, &setup));
        if pattern != Pattern::NearFull {
            name += &setup.before();
        }
        if self.threads > 1 {
            name += &format!(", {} threads", self.threads);
        }
        if self.memory != gib_8() {
            name += &format!(", {}", self.memory);
        }
        let in_step = |baseline: Baseline| {
            (pattern.in_step(), baseline.threads) == (Some(baseline.pattern), self.threads)
        };
        if self.baseline.is_some_and(in_step) {
            name += ", in step";
        }
        let subject = Subject { engine: at.engine, setup };
        Ok((name, Task::Pattern { subject, metric, baseline: baseline.transpose()? }))
    }

    fn setup(
        &self,
        pattern: Pattern,
        at: At,
        threads: usize,
        slots: Option<usize>,
        memory: Size,
    ) -> Result<Setup, String> {
        let At { order, placement, fill, .. } = at;
        let (slots, fill) = (slots.unwrap_or(threads), (fill * 10.0).round() as usize);
        let setup = Setup { threads, slots, memory, fill, placement, ..Setup::new(pattern, order) };
        let setup = Setup { mix: self.mix, ..setup };
        setup.check().map_err(|failure| failure.to_string())?;
        Ok(setup)
    }
}

/// Whose target it is, and of what blocks.
fn name(engine: Engine, setup: &Setup) -> String {
    format!("{engine} {} {}", setup.pattern, setup.order_in_words())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_targets_are_all_there() {
        let targets = parse(SHIPPED).unwrap();
        // 3 + 1 + 18 + 6 + 6 + 2 of the first table, 1 + 6 + 2 + 4 + 2 + 2 + 2 + 7 of the second;
        // of NBBS four figures, in two forms and two placements; of one-write four for each order, and 2 + 4 + 4 + 1 + 2.
        // Of two engines: of churn times and huge frames for four fills, two placements, three orders and mixed ones; out
        // of step three patterns with two metrics and two orders, and the exit storm.
        let (nbbs, onewrite) = (4 * 2 * 2, 4 * 11 + 2 + 4 + 4 + 1 + 2);
        let both = 2 * 4 * 2 * (3 + 1) + 3 * 2 * 2 + 1;
        assert_eq!(targets.len(), 36 + 26 + nbbs + onewrite + 2 * both);
        let mut names: Vec<_> = targets.iter().map(|target| &target.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), targets.len());
        let order_10 = targets.iter().find(|target| target.name == "llfree repeat order 10 pair");
        assert_eq!(order_10.map(|target| (target.limit, target.unit)), Some((5.0, Unit::C)));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let wrong = |changed: &str, text: &str| {
            let good = "[[target]]\nrow = \"r\"\npattern = \"bulk\"\nmetric = \"free\"\n\
                        limit = 1\nunit = \"c\"\n";
            assert!(parse(good).is_ok());
            let error = parse(&good.replace(changed, text)).unwrap_err();
            assert!(!error.is_empty());
            error
        };
        assert!(wrong("limit = 1", "limit = -1").contains("limit"));
        assert!(wrong("limit = 1", "").contains("limit"));
        assert!(wrong("\"c\"", "\"metres\"").contains("metres"));
        assert!(wrong("\"c\"", "\"times\"").contains("baseline"));
        assert!(wrong("\"c\"", "\"percent\"").contains("unit"));
        assert!(wrong("row", "threads = 0\nrow").contains("thread"));
        assert!(wrong("row", "orders = [11]\nrow").contains("orders"));
        assert!(wrong("row", "engines = [\"slab\"]\nrow").contains("one of"));
        assert!(wrong("row", "memory = \"8\"\nrow").contains("size"));
        assert!(wrong("row", "speed = 1\nrow").contains("speed"));
        assert!(wrong("row", "placements = [\"here\"]\nrow").contains("here"));
        assert!(wrong("row", "fills = [100.0]\nrow").contains("100 %"));
        wrong("pattern = \"bulk\"\n", "");
    }

    #[test]
    fn a_filter_that_fits_nothing_is_a_mistake_of_the_caller() {
        assert!(matches!(load(None, Some("no such thing")), Err(Failure::Usage(_))));
        assert_eq!(load(None, Some("frag")).unwrap().len(), 4);
        assert!(load(Some(Path::new("/no/such/file")), None).is_err());
    }
}
