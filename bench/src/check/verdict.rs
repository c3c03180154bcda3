//! Met or short.

use serde::Serialize;

use super::{Target, Task, Unit};
use crate::Failure;
use crate::floor::Loop;
use crate::measure::Run;
use crate::statistics::Summary;

/// What came of a target.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Verdict {
    /// Was it met?
    pub met: bool,
    /// The figure in its own unit, what it is held against, and the ratio of the two; or why there
    /// is none.
    pub text: String,
}

/// A figure, and what it is held against.
pub(crate) struct Held {
    /// The figure,
    pub(crate) figure: f64,
    /// in this unit.
    pub(crate) unit: &'static str,
    /// What it is divided by,
    pub(crate) against: f64,
    /// and what that is.
    pub(crate) name: String,
    /// The limit of the ratio.
    pub(crate) limit: f64,
    /// Is that the least? Otherwise it is the most.
    pub(crate) least: bool,
}

/// Columns of a target's name: those of two threads in a zone that is half full are long.
const NAME: usize = 68;

/// The head of the table.
pub(super) fn header() -> String {
    let (target, figure, against, ratio) = ("target", "figure", "held against", "ratio");
    format!("       {target:<NAME$} {figure:>12}     {against:<24} {ratio:>9}   limit\n")
}

impl Verdict {
    /// Of a target that could not be measured.
    pub(crate) fn missing(cause: Failure) -> Verdict {
        Verdict { met: false, text: cause.to_string() }
    }

    /// Of a figure and what it is held against.
    pub(crate) fn of(held: &Held) -> Verdict {
        let Held { figure, unit, against, name, limit, least } = held;
        let ratio = figure / against;
        let (met, sign) = match least {
            true => (ratio >= *limit, '≥'),
            false => (ratio <= *limit, '≤'),
        };
        let mut text = format!("{figure:>12.2} {unit:<2}  {name:<24} {ratio:>9.3} {sign} {limit}");
        let short = if *least { 1.0 - ratio / limit } else { ratio / limit - 1.0 };
        if !met && short.is_finite() {
            text += &format!(", short by {:.1} %", 100.0 * short);
        }
        Verdict { met, text }
    }

    /// The same, not met, with the reason.
    pub(crate) fn but(self, reason: &str) -> Verdict {
        Verdict { met: false, ..self }.with(reason)
    }

    /// The same with a remark.
    pub(crate) fn with(self, remark: &str) -> Verdict {
        Verdict { text: format!("{} {remark}", self.text), ..self }
    }

    /// The same with the ratio of the least times, each of which is of a repetition of its own: where a neighbour shares the cores now and then, these are
    /// times without it.
    pub(crate) fn of_least(self, ratio: f64) -> Verdict {
        self.with(&format!("(of the least: {ratio:.3})"))
    }

    /// A line of the table.
    pub(super) fn line(&self, name: &str) -> String {
        let verdict = if self.met { "met  " } else { "SHORT" };
        format!("{verdict}  {name:<NAME$} {}\n", self.text)
    }
}

/// Holds a figure (nanoseconds, percent or instructions) against the limit.
pub fn judge(
    target: &Target,
    figure: Summary,
    baseline: Option<Summary>,
    run: Option<&Run>,
) -> Verdict {
    let floor = |which| run.map_or(Summary::NOTHING, |run| run.floor(which));
    let c = floor(Loop::HotCas);
    let one = Summary::only(1.0);
    let (against, name, unit) = match target.unit {
        Unit::C => (c, format!("C = {:.2} ns", c.median), "ns"),
        Unit::RandomClear256K => {
            let floor = floor(Loop::RandomClear256K);
            (floor, format!("random clear {:.2} ns", floor.median), "ns")
        }
        Unit::NsAtC245 => {
            let name = format!("ns at C = 2.45; C = {:.2}", c.median);
            (c.map(|c| c / 2.45), name, "ns")
        }
        Unit::Times => {
            let other = baseline.unwrap_or(Summary::NOTHING);
            (other, format!("the other: {:.2} ns", other.median), "ns")
        }
        Unit::Ns => (one, format!("ns; C = {:.2}", c.median), "ns"),
        Unit::Percent if matches!(target.task, Task::Kept(_)) => {
            (one, "the best placement".into(), "%")
        }
        Unit::Percent => (one, "possible huge frames".into(), "%"),
        Unit::Instructions => (one, "instructions".into(), ""),
    };
    let (limit, least) = (target.limit, target.unit == Unit::Percent);
    let held = Held { figure: figure.median, unit, against: against.median, name, limit, least };
    let verdict = Verdict::of(&held);
    match unit {
        "ns" => verdict.of_least(figure.min / against.min),
        _ => verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::load;

    /// Where C is this by the median, and by the least less.
    fn run(c: f64) -> Run {
        let floor = Loop::ALL.map(|which| (which, vec![0.8 * c, c, 2.0 * c]));
        Run { floor: floor.to_vec(), measured: Vec::new() }
    }

    fn target(name: &str) -> Target {
        load(None, Some(name)).unwrap().remove(0)
    }

    fn held(target: &Target, figure: f64, baseline: Option<f64>, run: Option<&Run>) -> Verdict {
        judge(target, Summary::only(figure), baseline.map(Summary::only), run)
    }

    #[test]
    fn limits_in_c_move_with_c() {
        let target = target("llfree bulk order 0 alloc");
        assert!(held(&target, 8.0, None, Some(&run(2.45))).met);
        assert!(!held(&target, 8.2, None, Some(&run(2.45))).met);
        assert!(held(&target, 8.2, None, Some(&run(3.0))).met);
        assert!(!held(&target, 8.2, None, None).met);
    }

    #[test]
    fn the_middle_decides_and_the_least_is_said() {
        let target = target("llfree bulk order 0 alloc");
        let shared = Summary { median: 12.0, min: 7.0, max: 13.0 };
        let ends = |judged: &Verdict, least: &str| {
            assert!(!judged.met && judged.text.ends_with(least), "{}", judged.text);
        };
        ends(&judge(&target, shared, None, Some(&run(2.5))), "(of the least: 3.500)");
        let scaled = super::tests::target("list-local");
        ends(&judge(&scaled, shared, None, Some(&run(2.45))), "(of the least: 8.750)");
        let baseline = Summary { median: 3.0, min: 2.0, max: 9.0 };
        let storm = super::tests::target("exit-storm");
        ends(&judge(&storm, shared, Some(baseline), None), "(of the least: 3.500)");
        let frag = held(&super::tests::target("frag"), 98.5, None, None).text;
        assert!(!frag.contains("least"), "{frag}");
    }

    #[test]
    fn nanoseconds_of_the_issue_s_machine_are_scaled() {
        let target = target("list-local");
        assert!(held(&target, 1.5, None, Some(&run(2.45))).met);
        assert!(!held(&target, 1.6, None, Some(&run(2.45))).met);
        assert!(held(&target, 2.9, None, Some(&run(4.9))).met);
    }

    #[test]
    fn more_percent_are_better_and_a_missing_baseline_is_short() {
        let frag = target("frag");
        assert!(held(&frag, 98.5, None, None).met && !held(&frag, 97.9, None, None).met);
        let storm = target("exit-storm");
        assert!(held(&storm, 19.0, Some(8.0), None).met);
        assert!(!held(&storm, 21.0, Some(8.0), None).met);
        assert!(!held(&storm, 19.0, None, None).met);
        let far = held(&frag, 49.0, None, None).text;
        assert!(far.ends_with("49.000 ≥ 98, short by 50.0 %"), "{far}");
        let far = held(&storm, 25.0, Some(8.0), None).text;
        assert!(far.ends_with("3.125 ≤ 2.5, short by 25.0 % (of the least: 3.125)"), "{far}");
        let missing = Verdict::missing(Failure::Failed("no valgrind".into()));
        assert!(missing.line(&storm.name).starts_with("SHORT  llfree exit-storm"));
    }
}
