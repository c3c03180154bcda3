//! Results in words.

use std::fmt::Write;

use woodlot_trace::{EventKind, Source, Trace};

use super::Phase;
use crate::replay::{Failures, Report};

/// What a replay found.
pub fn describe_phase(phase: &Phase) -> String {
    let Phase { name, about, report } = phase;
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(text, "{name}{}", about.map(|a| format!(": {a}")).unwrap_or_default());
    let _ = writeln!(
        text,
        "  {} operations ({} allocations, {} frees){}",
        grouped(report.operations()),
        grouped(report.allocs),
        grouped(report.frees),
        time(report)
    );
    let _ = writeln!(text, "  failures: {}", failures(&report.failures));
    let linux_failed: usize = report.linux_failures.values().sum();
    if linux_failed > 0 {
        let _ = writeln!(
            text,
            "  failed in Linux: {}, of which {} {} would have served",
            failures(&report.linux_failures),
            report.probes_served,
            report.engine
        );
    }
    text.push_str(&curve(report));
    text.push_str(&checks(report));
    text
}

fn time(report: &Report) -> String {
    match &report.timing {
        Some(timing) => format!(", {:.1} ns each", timing.median()),
        None => format!(", {:.2} s with all checks", report.seconds),
    }
}

/// The curve in three numbers, ours beside Linux's.
fn curve(report: &Report) -> String {
    let Some(last) = report.rows.last() else { return String::new() };
    let (ours, linux) = (report.means(|row| row.ours), report.means(|row| row.linux));
    let mut text = String::new();
    let mut line = |what: &str, ours: &str, linux: &str| {
        let _ = writeln!(text, "  {what:<48}{ours:>10}{linux:>10}");
    };
    line("", report.engine, "Linux");
    let mean = format!("free memory in free huge frames, mean of {}", ours.rows);
    line(&mean, &format!("{:.3}", ours.ratio), &format!("{:.3}", linux.ratio));
    let at_end = [last.ours.ratio(), last.linux.ratio()].map(|ratio| format!("{ratio:.3}"));
    line("  at the end", &at_end[0], &at_end[1]);
    let huge = [last.ours.free_huge, last.linux.free_huge].map(grouped);
    line("free huge frames at the end", &huge[0], &huge[1]);
    let moves = [ours.moves, linux.moves].map(|moves| grouped(moves.round() as usize));
    line("compaction cost in frame moves, mean", &moves[0], &moves[1]);
    text
}

fn checks(report: &Report) -> String {
    match &report.defects()[..] {
        [] => "  checks: no frame lost or handed out twice, every count exact\n".into(),
        wrong => format!("  CHECKS FAILED: {}\n", wrong.join(", ")),
    }
}

fn failures(failures: &Failures) -> String {
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
