//! What is run, and said of it.

use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;

use woodlot_histories::subject::Subject;

use crate::defect::{ALL, Defect};
use crate::history::{Figures, run};

pub fn main() -> ExitCode {
    let hotplug = Subject {
        name: "hotplug",
        nothing: Defect::Nothing,
        defects: &ALL,
        history: run,
        stack: 1 << 18,
        replay: "--hotplug-replay",
        said,
    };
    hotplug.main()
}

fn said(figures: &Figures) -> String {
    let Figures { schedules, calls, elsewhere, added, removed, reclaimed, in_use, busy } = figures;
    let [schedules, calls, elsewhere, added, removed, reclaimed, in_use, busy] =
        [schedules, calls, elsewhere, added, removed, reclaimed, in_use, busy]
            .map(|figure| figure.load(Relaxed));
    format!(
        "{schedules} schedules of {calls} calls, {elsewhere} blocks of added memory, {added} times added, {removed} \
         removed, {reclaimed} reclaimed, {in_use} in use, {busy} busy"
    )
}
