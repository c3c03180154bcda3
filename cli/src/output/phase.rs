//! A trace and what its replays found.

use woodlot_bench::engine::Engine;

use crate::replay::{Report, Row};

/// A replayed trace.
pub struct Phase {
    /// What the trace is called.
    pub name: String,
    /// What runs in it, where that is known.
    pub about: Option<&'static str>,
    /// What the replay found on each engine; at least one.
    pub runs: Vec<(Engine, Report)>,
}

impl Phase {
    /// The curve on the first engine: Linux's side of it is the same for all.
    pub fn rows(&self) -> &[Row] {
        self.runs.first().map_or(&[], |(_, report)| &report.rows)
    }

    /// Every row of every engine.
    pub fn all_rows(&self) -> impl Iterator<Item = &Row> {
        self.runs.iter().flat_map(|(_, report)| &report.rows)
    }
}

/// What was done otherwise, and on which engines, in words.
pub fn remarks<'a>(runs: impl Iterator<Item = &'a (Engine, Report)>) -> Vec<String> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for (_, report) in runs {
        for remark in &report.remarks {
            let known = found.iter().position(|(known, _)| known == remark);
            let at = known.unwrap_or(found.len());
            if known.is_none() {
                found.push((remark, Vec::new()));
            }
            if !found[at].1.contains(&report.engine) {
                found[at].1.push(report.engine);
            }
        }
    }
    found.into_iter().map(|(remark, engines)| format!("{}: {remark}", engines.join(", "))).collect()
}
