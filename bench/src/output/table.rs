//! Results for people.

use std::fmt::Write;

use super::data::NOT_HERE;
use crate::floor::Loop;
use crate::measure::{Figure, Measured, Run, Subject};
use crate::patterns::{Kept, Pattern};
use crate::statistics::Summary;

/// The floor of a run.
pub fn describe_floor(run: &Run) -> String {
    let mut text = String::from("floor, CPU ns for each operation       median     min     max\n");
    for which in Loop::ALL {
        let Summary { median, min, max } = run.floor(which);
        let name = which.name();
        let _ = match median.is_nan() {
            false => writeln!(text, "  {name:<34} {median:>8.2}{min:>8.2}{max:>8.2}"),
            true => writeln!(text, "  {name:<34} {NOT_HERE}"),
        };
    }
    text
}

/// Everything that was measured. `C` is the median of hot CAS.
pub fn describe(run: &Run) -> String {
    let lines: Vec<_> = run.measured.iter().flat_map(|measured| lines(measured, run)).collect();
    let width = lines.iter().map(|(what, _)| what.chars().count()).fold(40, usize::max);
    let patterns = || run.measured.iter().map(|measured| measured.subject.setup.pattern);
    let mut text = format!(
        "{:<width$} {:>9} {:>9} {:>9} {:>8} {:>9}",
        "ns for each operation", "CPU med.", "min", "max", "in C", "wall med."
    );
    if patterns().any(Pattern::is_churn) {
        text += "  free huge  of best  possible";
    }
    if patterns().any(|pattern| pattern.in_step().is_some()) {
        text += "  times in step: medians, minima";
    }
    text.push('\n');
    for (what, found) in lines {
        let _ = writeln!(text, "{what:<width$} {found}");
    }
    text
}

/// A line for each figure: what it is of, and the figure.
fn lines(measured: &Measured, run: &Run) -> Vec<(String, String)> {
    let what = describe_subject(measured, run);
    let c = run.floor(Loop::HotCas).median;
    let line = |figure: &Figure| {
        let (cpu, wall) = (figure.cpu(), figure.wall());
        let found = format!(
            "{:>9.2} {:>9.2} {:>9.2} {:>8.2} {:>9.2}",
            cpu.median,
            cpu.min,
            cpu.max,
            cpu.median / c,
            wall.median
        );
        let found = found + &kept(figure) + &beside(measured, figure, run);
        (format!("{what} {}", figure.metric), found)
    };
    match &measured.outcome {
        Err(cause) => vec![(what, format!("not measured: {cause}"))],
        Ok(figures) => figures.iter().map(line).collect(),
    }
}

/// What was left of huge frames after the last repetition.
fn kept(figure: &Figure) -> String {
    let Some(&Kept { free_huge, possible_huge, refused, .. }) = figure.kept.last() else {
        return String::new();
    };
    let percent = figure.kept_percent().unwrap_or(f64::NAN);
    let refused = match refused {
        0 => String::new(),
        some => format!("  {some} allocations found no block of their order"),
    };
    format!("  {free_huge:>9} {percent:>6.1} % {possible_huge:>9}{refused}")
}

/// How many times as long it takes as in step.
fn beside(measured: &Measured, figure: &Figure, run: &Run) -> String {
    let times = run.times_in_step(&measured.subject, figure);
    times.map_or(String::new(), |[median, min]| format!("  {median:>15.2} x {min:>9.2} x"))
}

/// Who and what; how many threads, where not all have as many.
fn describe_subject(measured: &Measured, run: &Run) -> String {
    let Subject { engine, setup } = measured.subject;
    let threads = setup.threads;
    let differ = run.measured.iter().any(|other| other.subject.setup.threads != threads);
    let threads = match (differ, threads) {
        (false, _) => String::new(),
        (true, 1) => ", 1 thread".into(),
        (true, some) => format!(", {some} threads"),
    };
    let differ = run.measured.iter().any(|other| other.subject.setup.pattern != setup.pattern);
    let pattern = if differ { format!("{:<12}", setup.pattern) } else { String::new() };
    format!("{engine:<12} {pattern}{}{}{threads}", setup.order_in_words(), setup.before())
}
