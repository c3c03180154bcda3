//! Results: text for people, JSON for programs.

use std::fmt::Write;

use serde::Serialize;

use super::case::{Case, Setup, What};
use super::locks::LockRow;
use super::measure::{Kept, Line, SEQUENCES};
use super::waste::{Load, WasteRow};
use crate::Failure;
use crate::floor::Loop;
use crate::output::Machine;
use crate::statistics::Summary;

#[derive(Serialize)]
struct Document<'a, T> {
    machine: &'a Machine,
    what: What,
    setup: &'a Setup,
    results: &'a T,
}

/// Everything, with the machine and what was asked for.
///
/// # Errors
/// When it cannot be written down, which is a defect.
pub fn document<T: Serialize>(
    what: What,
    setup: &Setup,
    machine: &Machine,
    results: &T,
) -> Result<Vec<u8>, Failure> {
    let document = Document { machine, what, setup, results };
    let mut bytes = serde_json::to_vec_pretty(&document)
        .map_err(|error| Failure::Failed(format!("as JSON: {error}")))?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn of_threads(threads: usize) -> String {
    match threads {
        1 => "1 thread".into(),
        some => format!("{some} threads"),
    }
}

/// A case in words.
fn words(case: &Case) -> String {
    let threads = of_threads(case.threads);
    let bytes = case.bytes.map_or(String::new(), |bytes| format!("{bytes:>4} B, "));
    let interface = case.interface.map_or(String::new(), |interface| format!("{interface}, "));
    format!("{bytes}{interface}{threads}")
}

/// The floor, and every figure: cases in the order in which they were measured.
pub fn describe(kept: &Kept) -> String {
    let mut text =
        String::from("floor, CPU ns for each operation         median     min     max\n");
    let line = (Loop::LineThereAndBack.name(), &kept.line_there_and_back);
    let alone = [(Loop::HotCas.name(), &kept.hot_cas), line, (SEQUENCES, &kept.sequence_pair)];
    let alone = alone.map(|(name, samples)| (name.to_string(), Summary::of(samples)));
    let mut threads: Vec<_> = kept.sequence_pairs.iter().map(|line| line.case.threads).collect();
    threads.dedup();
    let beside = threads.into_iter().map(|threads| {
        (format!("{SEQUENCES}, beside {}", of_threads(threads)), kept.floor_on(threads))
    });
    for (name, found) in alone.into_iter().chain(beside) {
        let _ = match found {
            Some(found) => {
                writeln!(
                    text,
                    "  {name:<36} {:>8.2}{:>8.2}{:>8.2}",
                    found.median, found.min, found.max
                )
            }
            None => writeln!(text, "  {name:<36} not on this system"),
        };
    }
    let c = kept.c().map_or(f64::NAN, |c| c.median);
    let _ = writeln!(
        text,
        "\n{:<52} {:>9} {:>9} {:>9} {:>8} {:>9}",
        "ns for each operation", "CPU med.", "min", "max", "in C", "wall med."
    );
    let mut lines: Vec<&Line> = kept.lines.iter().collect();
    let place = |line: &Line| {
        let same = |other: &Line| other.case == line.case && other.metric == line.metric;
        kept.lines.iter().position(same)
    };
    lines.sort_by_key(|line| place(line));
    for line in lines {
        let what = format!("{:<16} {} {}", line.contender, words(&line.case), line.metric);
        let Some(found) = Summary::of(&line.values) else { continue };
        let _ = match (line.metric, Summary::of(&line.wall)) {
            (_, None) => {
                writeln!(
                    text,
                    "{what:<52} {:>9.3} {:>9.3} {:>9.3}",
                    found.median, found.min, found.max
                )
            }
            (_, Some(wall)) => writeln!(
                text,
                "{what:<52} {:>9.2} {:>9.2} {:>9.2} {:>8.2} {:>9.2}",
                found.median,
                found.min,
                found.max,
                found.median / c,
                wall.median
            ),
        };
    }
    for failure in &kept.failures {
        let _ = writeln!(text, "not measured: {failure}");
    }
    text
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// The miss rates of every layer beside the paper's bounds; what is above its bound has a mark.
pub fn describe_locks(rows: &[LockRow]) -> String {
    let mut text = String::new();
    for (index, (what, slabs)) in [("allocs", "splits"), ("frees", "coalesces")].iter().enumerate()
    {
        let _ = writeln!(
            text,
            "\n{:>6} {what:>12} {:>10} {:>8} {:>8} {:>10} {:>8} {:>8} {slabs:>10}",
            "bytes", "to global", "%", "at most", "to pages", "%", "at most"
        );
        for row in rows {
            let (calls, global, pages) = (row.calls[index], row.global[index], row.pages[index]);
            // Lists that come of a flush go on to the pages as others do.
            let lists = if index == 0 { global } else { global + row.flushed };
            let [first, second] = row.bounds.map(|bound| 100.0 * bound);
            let rate =
                |rate: f64, most: f64| format!("{rate:.2}{}", if rate > most { "!" } else { " " });
            let _ = writeln!(
                text,
                "{:>6} {calls:>12} {global:>10} {:>8} {first:>8.2} {pages:>10} {:>8} {second:>8.2} {:>10}",
                row.bytes,
                rate(percent(global, calls), first),
                rate(percent(pages, lists), second),
                row.slabs[index]
            );
        }
    }
    if rows.iter().any(|row| row.flushed > 0) {
        let _ =
            writeln!(text, "\n{:>6} {:>12} {:>10} {:>8}", "bytes", "lists freed", "flushed", "%");
        for LockRow { bytes, global: [_, freed], flushed, .. } in rows {
            let share = percent(*flushed, freed + flushed);
            let _ = writeln!(text, "{bytes:>6} {freed:>12} {flushed:>10} {share:>8.1}");
        }
    }
    text + "!: above the paper's bound\n"
}

/// Memory in slabs that no block is in, as the paper's tables have it, and over what was asked for.
pub fn describe_waste(sizes: &str, rows: &[WasteRow]) -> String {
    let mut text = String::new();
    for (load, name) in [(Load::Heavy, "heavy load"), (Load::Low, "low load")] {
        let of_load: Vec<_> = rows.iter().filter(|row| row.load == load).collect();
        let _ = writeln!(
            text,
            "\n{sizes}, {name}\n{:>6} {:>10} {:>10} {:>8} {:>12}",
            "bytes", "KiB waste", "KiB in use", "% waste", "slabs/asked"
        );
        let mut line = |name: &str, [asked, blocks, slabs]: [usize; 3]| {
            let waste = slabs.saturating_sub(blocks);
            let _ = writeln!(
                text,
                "{name:>6} {:>10.1} {:>10.0} {:>8.1} {:>12.3}",
                waste as f64 / 1024.0,
                slabs as f64 / 1024.0,
                percent(waste as u64, slabs as u64),
                slabs as f64 / asked.max(1) as f64
            );
        };
        for row in &of_load {
            line(&row.bytes.to_string(), [row.asked, row.blocks, row.slabs]);
        }
        let sum = |of: fn(&WasteRow) -> usize| of_load.iter().map(|row| of(row)).sum();
        line("total", [sum(|row| row.asked), sum(|row| row.blocks), sum(|row| row.slabs)]);
    }
    text
}
