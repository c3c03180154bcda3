//! Results for people.

use std::fmt::Write;

use crate::floor::Loop;
use crate::measure::{Measured, Run};

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
    let mut text = format!(
        "{:<40} {:>9} {:>9} {:>9} {:>8} {:>9}\n",
        "ns for each operation", "CPU med.", "min", "max", "in C", "wall med."
    );
    let c = run.floor(Loop::HotCas).median;
    for measured in &run.measured {
        let what = describe_subject(measured);
        match &measured.outcome {
            Err(cause) => _ = writeln!(text, "{what:<40} not measured: {cause}"),
            Ok(figures) => {
                for figure in figures {
                    let (cpu, wall) = (figure.cpu(), figure.wall());
                    let what = format!("{what} {}", figure.metric);
                    let _ = writeln!(
                        text,
                        "{what:<40} {:>9.2} {:>9.2} {:>9.2} {:>8.2} {:>9.2}",
                        cpu.median,
                        cpu.min,
                        cpu.max,
                        cpu.median / c,
                        wall.median
                    );
                }
            }
        }
    }
    text
}

fn describe_subject(measured: &Measured) -> String {
    let setup = &measured.subject.setup;
    format!("{:<12} {}{}", measured.subject.engine, setup.order, setup.before())
}
