//! Results in words.

use std::fmt::Write;

use woodlot_bench::engine::Engine;
use woodlot_trace::{EventKind, Source, Trace};

use super::phase::Phase;
use crate::replay::{Compacted, Failures, Means, Report};

/// What a trace's replays found.
pub fn describe_phase(phase: &Phase) -> String {
    let Phase { name, about, runs } = phase;
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(text, "{name}{}", about.map(|a| format!(": {a}")).unwrap_or_default());
    for (_, report) in runs {
        text.push_str(&describe_run(report));
    }
    text + &curve(runs)
}

/// What a replay found on an engine, without the curve.
fn describe_run(report: &Report) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "  {}: {} operations ({} allocations, {} frees){}",
        report.engine,
        grouped(report.operations()),
        grouped(report.allocs),
        grouped(report.frees),
        time(report)
    );
    for remark in &report.remarks {
        let _ = writeln!(text, "    it {remark}");
    }
    if report.most_held > 0 {
        let most = grouped(report.most_held as usize);
        let _ =
            writeln!(text, "    frames that wait for the last part of their block: at most {most}");
    }
    let _ = writeln!(text, "    failures: {}", failures(&report.failures));
    let linux_failed: usize = report.linux_failures.values().sum();
    if linux_failed > 0 {
        let of_which = match report.probes {
            0 => "not tried".into(),
            _ => format!("of which {} {} would have served", report.probes_served, report.engine),
        };
        let failed = failures(&report.linux_failures);
        let _ = writeln!(text, "    failed in Linux: {failed}, {of_which}");
    }
    if let Some(compacted) = &report.compacted {
        let Compacted { work, runs, in_vain } = compacted;
        let _ = writeln!(
            text,
            "    daemon: {} huge frames won in {} runs, {} of them in vain, by {} moves, {:.2} times the fewest; \
             {} huge frames with frames that do not move passed over, {} given up",
            grouped(work.won),
            grouped(*runs),
            grouped(*in_vain),
            grouped(work.moves),
            compacted.over_fewest(),
            grouped(work.pinned),
            grouped(work.blocked)
        );
    }
    text + &checks(report)
}

fn time(report: &Report) -> String {
    match &report.timing {
        Some(timing) => format!(", {:.1} ns each call", timing.median()),
        None => format!(", {:.2} s with all checks", report.seconds),
    }
}

/// The curve in three numbers, those of the engines beside Linux's.
fn curve(runs: &[(Engine, Report)]) -> String {
    let reports: Vec<&Report> = runs.iter().map(|(_, report)| report).collect();
    let [first, ..] = reports[..] else { return String::new() };
    let Some(linux) = first.rows.last().map(|last| last.linux) else { return String::new() };
    let widths = reports.iter().map(|report| report.engine.chars().count() + 2);
    let width = widths.fold(10, usize::max);
    let mut text = String::new();
    let mut line = |what: &str, of_engine: &dyn Fn(&Report) -> String, of_linux: String| {
        let _ = write!(text, "  {what:<48}");
        reports.iter().for_each(|report| _ = write!(text, "{:>width$}", of_engine(report)));
        let _ = writeln!(text, "{of_linux:>10}");
    };
    let ours = |report: &Report| report.means(|row| row.ours);
    let last = |report: &Report| report.rows.last().map_or(linux, |row| row.ours);
    let theirs = first.means(|row| row.linux);
    let moves = |means: Means| grouped(means.moves.round() as usize);
    line("", &|report| report.engine.into(), "Linux".into());
    let mean = format!("free memory in free huge frames, mean of {}", theirs.rows);
    line(&mean, &|report| format!("{:.3}", ours(report).ratio), format!("{:.3}", theirs.ratio));
    let starts = first.ratios.len();
    if starts > 1 {
        for (what, of) in [("least", 0), ("median", starts / 2), ("most", starts - 1)] {
            let ratio = |report: &Report| {
                report.ratios.get(of).map_or(String::new(), |r| format!("{r:.4}"))
            };
            line(&format!("  of {starts} starts the {what}"), &ratio, String::new());
        }
    }
    line("  at the end", &|r| format!("{:.3}", last(r).ratio()), format!("{:.3}", linux.ratio()));
    let huge = "free huge frames at the end";
    line(huge, &|report| grouped(last(report).free_huge), grouped(linux.free_huge));
    if reports.iter().any(|report| report.compacted.is_some()) {
        let possible = |report: &Report| format!("{:.3}", report.means_possible().ratio);
        line("  were all that can move moved", &possible, String::new());
    }
    line("compaction cost in frame moves, mean", &|report| moves(ours(report)), moves(theirs));
    text
}

fn checks(report: &Report) -> String {
    match &report.defects()[..] {
        [] => "    checks: no frame lost or handed out twice, every count exact\n".into(),
        wrong => format!("    CHECKS FAILED: {}\n", wrong.join(", ")),
    }
}

/// How many of each order.
pub fn failures(failures: &Failures) -> String {
    let each = failures.iter().map(|(order, n)| format!("{} of order {order}", grouped(*n)));
    match failures.is_empty() {
        true => "none".into(),
        false => each.collect::<Vec<_>>().join(", "),
    }
}

/// 1234567 as `1 234 567`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// What is in a trace.
pub fn describe_trace(trace: &Trace) -> String {
    let count = |which: fn(&EventKind) -> bool| {
        grouped(trace.events.iter().filter(|event| which(&event.kind)).count())
    };
    let by = |source: Source| {
        let of =
            |kind: &EventKind| matches!(kind, EventKind::Alloc { source: s, .. } if *s == source);
        grouped(trace.events.iter().filter(|event| of(&event.kind)).count())
    };
    // Those of different CPUs need not be in order.
    let times = || trace.events.iter().map(|event| event.time_us);
    let (from, to) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    let owned: u64 = trace.start.iter().map(|start| u64::from(start.span.frames)).sum();
    let hidden: u64 = trace.hidden.iter().map(|span| u64::from(span.frames)).sum();
    let zones = trace
        .zones
        .iter()
        .map(|zone| format!("{} {:#x}..{:#x}", zone.name, zone.span.start.0, zone.span.end()));
    let mut text = String::new();
    let mut line = |what: &str, value: String| {
        let _ = writeln!(text, "  {what:<24}{value}");
    };
    line(
        "frames",
        format!("{} ({})", grouped(trace.frames()), zones.collect::<Vec<_>>().join(", ")),
    );
    line("owned at the start", grouped(owned as usize));
    line("hidden-owned", grouped(hidden as usize));
    line("time", format!("{:.6} s to {:.6} s", from as f64 / 1e6, to as f64 / 1e6));
    line("CPUs", trace.cpus().len().to_string());
    line("events", grouped(trace.events.len()));
    line("  mm_page_alloc", by(Source::Page));
    line("  bulk_alloc", by(Source::Bulk));
    line("  cmpct_alloc", by(Source::CompactionTarget));
    line("  cmpct_release", by(Source::CompactionRelease));
    line("  failed in Linux", count(|kind| matches!(kind, EventKind::Alloc { pfn: None, .. })));
    line("  mm_page_free", count(|kind| matches!(kind, EventKind::Free { .. })));
    line("  markers", count(|kind| matches!(kind, EventKind::Marker(_))));
    line("rows of Linux's curve", trace.curve.len().to_string());
    format!("{}\n{text}", trace.name)
}
