//! The files of a report.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use woodlot_bench::Failure;
use woodlot_bench::engine::Engine;
use woodlot_bench::patterns::{Metric, Pattern};
use woodlot_bench::size::Size;
use woodlot_bench::statistics::Summary;

use super::claims::claims;
use super::data::{Data, Fragmented, Timed};
use super::figures::sections;
use super::kernel::Kernel;
use super::page::{GENERATOR, page};

/// The page.
pub const PAGE: &str = "index.html";
const DATA: [&str; 4] = ["report.json", "times.csv", "frag.csv", "traces.csv"];
/// What is drawn as a file of its own in every report, without its `.svg`. What was measured inside a
/// kernel comes beside it.
pub const FIGURES: [&str; 19] = [
    "figure-5",
    "figure-6",
    "figure-7",
    "figure-8",
    "figure-9",
    "nbbs-table-1",
    "nbbs-sizes",
    "figure-10",
    "recovery",
    "traces",
    "freebsd-figure-6",
    "freebsd-figure-7",
    "churn",
    "kmem-figure-7",
    "kmem-figure-9",
    "kmem-section-5-5",
    "kmem-today",
    "kmem-memory",
    "kmem-preload",
];
/// More than a report needs.
const ROOM: usize = 8 << 20;

/// Sees that a report can be written to a folder before hours of work, and that nothing in it would
/// be lost: only an earlier report is replaced. What it returns keeps the room for the report, without
/// a name, until it is dropped.
///
/// # Errors
/// What is in the way.
pub fn check(folder: &Path, kernel: &Kernel) -> Result<File, Failure> {
    let joined = kernel.sections().into_iter().map(|section| section.id);
    let figures = FIGURES.iter().map(|figure| figure.to_string()).chain(joined);
    let figures = figures.map(|figure| format!("{figure}.svg"));
    let mut names = [PAGE].iter().chain(&DATA).map(|name| name.to_string()).chain(figures);
    if let Some(name) = names.find(|name| folder.join(name).exists())
        && !is_report(folder)
    {
        let why = "is there already, and not from a report: name another folder (--out)";
        return Err(Failure::at(&folder.join(name), why));
    }
    let full = |error| Failure::at(folder, format!("has no room for a report: {error}"));
    let mut room = tempfile::tempfile_in(folder).map_err(full)?;
    room.write_all(&vec![0; ROOM]).and_then(|()| room.sync_data()).map_err(full)?;
    Ok(room)
}

/// Is what the folder holds an earlier report?
fn is_report(folder: &Path) -> bool {
    fs::read_to_string(folder.join(PAGE)).is_ok_and(|page| page.contains(GENERATOR))
}

/// The figures of the report that the folder holds, if any; what was measured in a kernel is its own.
pub fn earlier(folder: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let figure = |name: &String| {
        name.strip_suffix(".svg")
            .is_some_and(|id| FIGURES.contains(&id) || id.starts_with("kernel-"))
    };
    let figures = names.filter(|_| is_report(folder)).filter(figure);
    figures.map(|name| folder.join(name)).collect()
}

/// All files of a report.
///
/// # Errors
/// When something cannot be drawn or written down, which is a defect.
pub fn files(data: &Data, folder: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>, Failure> {
    let sections = sections(data);
    let mut files = vec![(PAGE.to_string(), page(data, &sections, &claims(data))?.into_bytes())];
    let contents = [data.json()?, times_csv(data)?, frag_csv(data)?, traces_csv(data)?];
    files.extend(DATA.map(String::from).into_iter().zip(contents));
    for section in sections.iter().filter(|section| !section.panels.is_empty()) {
        files.push((format!("{}.svg", section.id), section.figure().svg()?.into_bytes()));
    }
    Ok(files.into_iter().map(|(name, bytes)| (folder.join(name), bytes)).collect())
}

/// Rows as comma-separated values.
fn csv(rows: impl Iterator<Item = impl Serialize>) -> Result<Vec<u8>, Failure> {
    let mut csv = ::csv::Writer::from_writer(Vec::new());
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(format!("as CSV: {error}"));
    for row in rows {
        csv.serialize(row).map_err(|error| failed(&error))?;
    }
    csv.into_inner().map_err(|error| failed(&error))
}

#[derive(Serialize)]
struct Time {
    engine: Engine,
    pattern: Pattern,
    metric: Metric,
    order: u8,
    threads: usize,
    oversubscribed: bool,
    memory: Size,
    repetitions: usize,
    cpu_ns_median: Option<f64>,
    cpu_ns_min: Option<f64>,
    cpu_ns_max: Option<f64>,
    wall_ns_median: Option<f64>,
    times_hot_cas: Option<f64>,
}

fn times_csv(data: &Data) -> Result<Vec<u8>, Failure> {
    csv(data.times.iter().map(|timed| {
        let &Timed { engine, pattern, metric, order, threads, memory, .. } = timed;
        let cpu = timed.cpu();
        Time {
            engine,
            pattern,
            metric,
            order,
            threads,
            oversubscribed: threads > data.machine.cpus(),
            memory,
            repetitions: timed.cpu_ns.len(),
            cpu_ns_median: cpu.map(|cpu| cpu.median),
            cpu_ns_min: cpu.map(|cpu| cpu.min),
            cpu_ns_max: cpu.map(|cpu| cpu.max),
            wall_ns_median: Summary::of(&timed.wall_ns).map(|wall| wall.median),
            times_hot_cas: cpu.map(|cpu| cpu.median / timed.hot_cas_ns),
        }
    }))
}

#[derive(Serialize)]
struct Huge {
    engine: Engine,
    memory: Size,
    slots: usize,
    iteration: usize,
    free_huge: usize,
    possible_huge: usize,
    moves: usize,
}

fn frag_csv(data: &Data) -> Result<Vec<u8>, Failure> {
    csv(data.frag.iter().flat_map(|frag| {
        let &Fragmented { engine, memory, slots, .. } = frag;
        frag.states.iter().map(move |state| Huge {
            engine,
            memory,
            slots,
            iteration: state.iteration,
            free_huge: state.free_huge,
            possible_huge: state.possible_huge,
            moves: state.moves,
        })
    }))
}

#[derive(Serialize)]
struct Beside<'a> {
    trace: &'a str,
    operations: usize,
    llfree_free_huge: usize,
    llfree_free_frames: usize,
    linux_free_huge: usize,
    linux_free_frames: usize,
}

fn traces_csv(data: &Data) -> Result<Vec<u8>, Failure> {
    csv(data.traces.iter().flat_map(|replayed| {
        replayed.moments.iter().map(|moment| Beside {
            trace: &replayed.trace,
            operations: moment.after,
            llfree_free_huge: moment.ours.0,
            llfree_free_frames: moment.ours.1,
            linux_free_huge: moment.linux.0,
            linux_free_frames: moment.linux.1,
        })
    }))
}
