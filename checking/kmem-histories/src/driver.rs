//! What is run, and said of it.

use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;

use woodlot_histories::subject::Subject;

use crate::defect::{ALL, Defect};
use crate::history::{Figures, run};

pub fn main() -> ExitCode {
    let kmem = Subject {
        name: "kmem",
        nothing: Defect::Nothing,
        defects: &ALL,
        history: run,
        // The locks of all sizes are made on it.
        stack: 1 << 20,
        replay: "--kmem-replay",
        said,
    };
    kmem.main()
}

fn said(figures: &Figures) -> String {
    let Figures { schedules, calls, refused, excess } = figures;
    let [schedules, calls, refused, excess] =
        [schedules, calls, refused, excess].map(|figure| figure.load(Relaxed));
    format!(
        "{schedules} schedules of {calls} calls, {refused} times out of memory, {excess} global layers too full"
    )
}
