//! Targets: measured, compared, counted.
//!
//! Targets of the same pattern and order are measured in one run, with what they are compared with
//! and the floor, by turns. What cannot be measured is short: a target that nobody looked at is
//! not met.

mod table;
mod targets;
mod verdict;

use std::process::ExitCode;

use crate::Failure;
use crate::frag;
use crate::instructions::{self, Course};
use crate::measure::{Options, Run, Subject, measure};
use crate::output::{Machine, Screen, progress};
use crate::patterns::Metric;
use crate::size::Size;
use crate::statistics::Summary;

pub(crate) use table::Table;
pub use targets::{Target, Task, Unit, load, parse};
pub(crate) use targets::{Titled, load_as};
pub(crate) use verdict::Held;
pub use verdict::{Verdict, judge};

/// How much is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// How many repetitions count.
    pub repetitions: usize,
    /// Small zones and few operations.
    pub quick: bool,
    /// What random choices follow from.
    pub seed: u64,
}

/// The largest zone of a quick check, in GiB.
const QUICK_GIB: u64 = 16;

impl Effort {
    /// What a subject is with this effort.
    fn apply(&self, mut subject: Subject) -> Subject {
        subject.setup.seed = self.seed;
        if self.quick {
            subject.setup.memory = subject.setup.memory.min(Size::gib(QUICK_GIB));
            subject.setup.operations = 1 << 17;
        }
        subject
    }

    fn options(&self) -> Options {
        Options { repetitions: self.repetitions, seed: self.seed, floor_rounds: 1 }
    }
}

/// Measures all targets and prints which are met; exit code 1 where one is short.
///
/// # Errors
/// When it cannot be printed.
pub fn run(
    targets: &[Target],
    effort: Effort,
    machine: &Machine,
    screen: &mut Screen,
) -> Result<ExitCode, Failure> {
    screen.print(&machine.describe())?;
    let repetitions = effort.repetitions;
    screen.print(&format!("CPU time, medians of {repetitions} repetitions\n"))?;
    if effort.quick {
        screen.print(&format!(
            "QUICK: zones of at most {QUICK_GIB} GiB whatever the target says, and few operations: \
             this looks for mistakes, it proves nothing\n"
        ))?;
    }
    let mut table = Table::begin(screen)?;
    let bar = progress("targets", targets.len());
    judge_all(targets, effort, &mut |group, verdicts| {
        bar.inc(group.len() as u64);
        let lines = group.iter().zip(verdicts).map(|(target, verdict)| (&*target.name, verdict));
        bar.suspend(|| table.add(lines))
    })?;
    bar.finish_and_clear();
    table.end()
}

/// Who is told of targets that were measured together.
pub type Each<'a> = dyn FnMut(&[Target], &[Verdict]) -> Result<(), Failure> + 'a;

/// Measures targets; `each` is told of those that were measured together.
///
/// # Errors
/// What `each` says, which ends it.
pub fn judge_all(targets: &[Target], effort: Effort, each: &mut Each) -> Result<(), Failure> {
    let mut left = targets;
    while let [first, ..] = left {
        let together = left.iter().take_while(|target| same_run(first, target)).count();
        let (group, rest) = left.split_at(together);
        each(group, &measure_group(group, effort))?;
        left = rest;
    }
    Ok(())
}

/// Are these neighbours measured in one run?
fn same_run(a: &Target, b: &Target) -> bool {
    match (subject(a), subject(b)) {
        (Some(a), Some(b)) => {
            (a.setup.pattern, a.setup.memory) == (b.setup.pattern, b.setup.memory)
        }
        _ => a == b,
    }
}

/// What is measured by turns with others.
fn subject(target: &Target) -> Option<Subject> {
    match target.task {
        Task::Pattern { subject, .. } | Task::Kept(subject) => Some(subject),
        Task::Frag(..) | Task::Instructions(..) => None,
    }
}

fn measure_group(group: &[Target], effort: Effort) -> Vec<Verdict> {
    let mut subjects: Vec<Subject> = Vec::new();
    for target in group {
        let baseline = match target.task {
            Task::Pattern { baseline, .. } => baseline.map(|(subject, _)| subject),
            _ => None,
        };
        for subject in [subject(target), baseline].into_iter().flatten() {
            let subject = effort.apply(subject);
            if !subjects.contains(&subject) {
                subjects.push(subject);
            }
        }
    }
    let run = (!subjects.is_empty()).then(|| measure(&subjects, effort.options(), &|_| {}));
    group.iter().map(|target| verdict_on(target, run.as_ref(), effort)).collect()
}

fn verdict_on(target: &Target, run: Option<&Run>, effort: Effort) -> Verdict {
    let missing = || Failure::Failed("not measured".into());
    let measured = match target.task {
        Task::Pattern { subject, metric, baseline } => {
            let figure = |subject, metric| {
                Ok(run.ok_or_else(missing)?.figure(&effort.apply(subject), metric)?.cpu())
            };
            let base = baseline.map(|(subject, metric)| figure(subject, metric)).transpose();
            base.and_then(|base| Ok((figure(subject, metric)?, base)))
        }
        Task::Kept(subject) => {
            let figure = run.ok_or_else(missing);
            let figure = figure.and_then(|run| run.figure(&effort.apply(subject), Metric::Pair));
            let kept = figure.and_then(|figure| figure.kept_percent().ok_or_else(missing));
            kept.map(|kept| (Summary::only(kept), None))
        }
        Task::Frag(engine, setup) => {
            let states =
                frag::run(engine, &frag::FragSetup { seed: effort.seed, ..setup }, &|_| {});
            states.and_then(|states| {
                let last = states.last().ok_or_else(missing)?;
                Ok((Summary::only(last.percent()), None))
            })
        }
        Task::Instructions(engine, order) => {
            let count = instructions::count(Course::Repeat, engine, order);
            count.map(|count| (Summary::only(count.pair), None))
        }
    };
    match measured {
        Ok((figure, baseline)) => {
            let verdict = judge(target, figure, baseline, run);
            remarks(target, run, effort).iter().fold(verdict, |verdict, text| verdict.with(text))
        }
        Err(failure) => Verdict::missing(failure),
    }
}

/// What a reader should know of how a target was measured.
fn remarks(target: &Target, run: Option<&Run>, effort: Effort) -> Vec<String> {
    let Task::Pattern { subject, metric, .. } = target.task else { return Vec::new() };
    let measured = effort.apply(subject);
    let mut remarks = Vec::new();
    if measured.setup.memory != subject.setup.memory {
        remarks.push(format!("(on {QUICK_GIB}GiB)"));
    }
    if let Some(Ok(figure)) = run.map(|run| run.figure(&measured, metric))
        && measured.setup.threads > 1
        && figure.wall().median > TURNS * figure.cpu().median
    {
        remarks.push("(the threads took turns on busy CPUs)".into());
    }
    remarks
}

/// By so much the time on the wall exceeds that of the CPU where threads did not run at once: then
/// they are seldom in each other's way.
const TURNS: f64 = 1.5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Figure, Measured};

    #[test]
    fn it_is_said_when_threads_took_turns_and_zones_were_smaller() {
        let effort = Effort { repetitions: 1, quick: true, seed: 1 };
        let remarks = |name: &str, wall: f64| {
            let target = load(None, Some(name)).unwrap().remove(0);
            let Task::Pattern { subject, metric, .. } = target.task else { panic!("{name}") };
            let figure =
                Figure { metric, operations: 1, cpu: vec![10.0], wall: vec![wall], kept: vec![] };
            let subject = effort.apply(subject);
            let measured = vec![Measured { subject, outcome: Ok(vec![figure]) }];
            super::remarks(&target, Some(&Run { floor: vec![], measured }), effort)
        };
        let turns = "(the threads took turns on busy CPUs)";
        assert_eq!(remarks("nbbs thread-test", 30.0), [turns]);
        assert!(remarks("nbbs thread-test", 11.0).is_empty());
        assert!(remarks("nbbs repeat", 30.0).is_empty());
        assert_eq!(remarks("near-full order 0 pair, 1TiB", 30.0), ["(on 16GiB)"]);
    }
}
