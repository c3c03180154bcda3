//! Linux's own curve (`curve.csv`) and where its rows stand in a trace.
//!
//! The file covers a whole boot and names moments by their time alone; several events can share a
//! microsecond. A row is placed after the event of that microsecond that leaves exactly as many
//! frames and huge frames free as the row says. That every row finds its place proves that trace,
//! lists and curve belong together.

use std::io::Read;
use std::path::Path;

use serde::Deserialize;

use super::microseconds;
use crate::{CurveRow, Error, LinuxFrames, Result, Trace};

/// A row as it is in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedRow {
    line: usize,
    time_us: u64,
    label: String,
    free_huge: u32,
    free_frames: u32,
}

/// The columns that are used; others may be there.
#[derive(Deserialize)]
struct Columns {
    time: String,
    label: String,
    #[serde(rename = "free2MiB_replay_incl_pcp")]
    free_huge: u32,
    #[serde(rename = "free_pages_replay_incl_pcp")]
    free_frames: u32,
}

/// Reads a curve; `path` is for messages.
///
/// # Errors
/// The first line that is not of the format, or a failure to read.
pub fn read_curve(reader: impl Read, path: &Path) -> Result<Vec<RecordedRow>> {
    let mut rows = Vec::new();
    for row in csv::Reader::from_reader(reader).into_deserialize::<Columns>() {
        let line = rows.len() + 2;
        let row = row.map_err(|error| match error.into_kind() {
            csv::ErrorKind::Io(cause) => Error::io(path, cause),
            csv::ErrorKind::Deserialize { err, .. } => Error::line(path, line, err.to_string()),
            csv::ErrorKind::UnequalLengths { .. } => {
                Error::line(path, line, "the row has more or fewer columns than the first line")
            }
            _ => Error::line(path, line, "the row is not comma-separated text"),
        })?;
        let time_us = microseconds(&row.time).map_err(|what| Error::line(path, line, what))?;
        let Columns { label, free_huge, free_frames, .. } = row;
        rows.push(RecordedRow { line, time_us, label, free_huge, free_frames });
    }
    Ok(rows)
}

/// Gives the trace the rows that fall into its time.
///
/// # Errors
/// The first row that fits no event.
pub fn place_curve(trace: &mut Trace, rows: &[RecordedRow], path: &Path) -> Result<()> {
    let (Some(first), Some(last)) = (trace.events.first(), trace.events.last()) else {
        return Ok(());
    };
    let inside = |row: &&RecordedRow| (first.time_us..=last.time_us).contains(&row.time_us);
    let mut rows = rows.iter().filter(inside).peekable();
    let mut linux = LinuxFrames::new(trace);
    let mut placed = Vec::new();
    for (index, event) in trace.events.iter().enumerate() {
        if rows.peek().is_some_and(|row| event.time_us > row.time_us) {
            break;
        }
        linux.apply(event.kind);
        let fits = |row: &&RecordedRow| {
            row.time_us == event.time_us
                && row.free_frames as usize == linux.recorded_free()
                && row.free_huge as usize == linux.owned().free_huge()
        };
        if let Some(row) = rows.next_if(fits) {
            placed.push(CurveRow {
                after: index as u32 + 1,
                time_us: row.time_us,
                label: row.label.clone(),
                free_huge: row.free_huge,
                free_frames: row.free_frames,
            });
        }
    }
    if let Some(row) = rows.peek() {
        let (name, frames, huge) = (&trace.name, row.free_frames, row.free_huge);
        let what = format!(
            "no event of {name} at this time leaves {frames} frames and {huge} huge frames free \
             (the last before it leaves {} and {}): the curve or a list belongs to another trace",
            linux.recorded_free(),
            linux.owned().free_huge()
        );
        return Err(Error::line(path, row.line, what));
    }
    trace.curve = placed;
    Ok(())
}
