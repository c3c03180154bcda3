//! What is run, and said of it.

use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;

use woodlot_histories::subject::Subject;

use crate::defect::{ALL, Defect};
use crate::history::{Figures, run};

pub fn main() -> ExitCode {
    let compaction = Subject {
        name: "compaction",
        nothing: Defect::Nothing,
        defects: &ALL,
        history: run,
        stack: 1 << 18,
        replay: "--compact-replay",
        said,
    };
    compaction.main()
}

fn said(figures: &Figures) -> String {
    let Figures { schedules, calls, moves, won, kept, taken, gone, failed, cancelled } = figures;
    let [schedules, calls, moves, won, kept, taken, gone, failed, cancelled] =
        [schedules, calls, moves, won, kept, taken, gone, failed, cancelled]
            .map(|figure| figure.load(Relaxed));
    format!(
        "{schedules} schedules of {calls} calls, {moves} frames moved, {won} huge frames won, {kept} of them kept, {taken} taken by the \
         rival, {gone} blocks gone, {failed} moves failed, {cancelled} cancelled"
    )
}
