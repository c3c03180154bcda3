//! Results for people.

use std::fmt::Write;

use crate::floor::Loop;
use crate::measure::{Figure, Measured, Run, Subject};

/// The floor of a run.
pub fn describe_floor(run: &Run) -> String {
    let mut text = String::from("floor, CPU ns for each operation       median     min     max\n");
    for which in Loop::ALL {
        let floor = run.floor(which);
        let (median, min, max) = (floor.median, floor.min, floor.max);
        let name = which.name();
        let _ = writeln!(text, "  {name:<34} {median:>8.2}{min:>8.2}{max:>8.2}");
    }
    text
}

/// Everything that was measured. `C` is the median of hot CAS.
pub fn describe(run: &Run) -> String {
    let lines: Vec<_> = run.measured.iter().flat_map(|measured| lines(measured, run)).collect();
    let width = lines.iter().map(|(what, _)| what.chars().count()).fold(40, usize::max);
    let mut text = format!(
        "{:<width$} {:>9} {:>9} {:>9} {:>8} {:>9}\n",
        "ns for each operation", "CPU med.", "min", "max", "in C", "wall med."
    );
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
        (format!("{what} {}", figure.metric), found)
    };
    match &measured.outcome {
        Err(cause) => vec![(what, format!("not measured: {cause}"))],
        Ok(figures) => figures.iter().map(line).collect(),
    }
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
    format!("{engine:<12} {}{}{threads}", setup.order, setup.before())
}
