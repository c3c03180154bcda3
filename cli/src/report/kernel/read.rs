//! Reading a file, and saying what is wrong with it: where, and what was expected.

use std::path::Path;

use csv::{ErrorKind, StringRecord};
use serde::de::DeserializeOwned;
use woodlot_bench::Failure;

use super::{KernelFile, KernelTime, Lines, METRICS};

/// What a file of times must have beside the times, and what one of huge frames must.
const TIMES: [&str; 4] = ["allocator", "pattern", "threads", "order"];
const HUGE: [&str; 5] = ["allocator", "boot", "iteration", "free_huge", "possible"];

impl KernelFile {
    /// Reads a file of either kind.
    ///
    /// # Errors
    /// What is wrong with it: the file, the line and the column, and what was expected.
    pub fn read(path: &Path) -> Result<KernelFile, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| Failure::at(path, error))?;
        let lines = Lines::read(&text).map_err(|why| Failure::at(path, why))?;
        let remarks = text.lines().filter_map(|line| line.strip_prefix('#'));
        Ok(KernelFile {
            name: name_of(path),
            remarks: remarks.map(|remark| remark.trim().to_string()).collect(),
            lines,
        })
    }
}

impl Lines {
    fn read(text: &str) -> Result<Lines, String> {
        let mut csv = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
        let heading = csv.headers().map_err(|error| error.to_string())?.clone();
        let mut records = Vec::new();
        for record in csv.into_records() {
            records.push(record.map_err(torn)?);
        }
        let lines = match heading.iter().any(|column| column == "iteration") {
            true => {
                has(&heading, &HUGE, "a file of linux/run frag")?;
                Lines::Huge(rows(&records, &heading)?)
            }
            false => {
                let what =
                    "and alloc_ns, free_ns or pair_ns: a file of linux/run bench, the boots joined";
                has(&heading, &TIMES, what)?;
                Lines::Times(rows(&records, &heading)?)
            }
        };
        lines.check()?;
        Ok(lines)
    }

    /// Says what no figure can be drawn from.
    fn check(&self) -> Result<(), String> {
        let empty = match self {
            Lines::Times(times) => times.is_empty(),
            Lines::Huge(lines) => lines.is_empty(),
        };
        if empty {
            return Err("has no line of figures".into());
        }
        let Lines::Times(times) = self else { return Ok(()) };
        for time in times {
            if time.all_times().flatten().any(|ns| !ns.is_finite() || ns <= 0.0) {
                let KernelTime { allocator, pattern, order, .. } = time;
                return Err(format!(
                    "{allocator}, {pattern}, order {order}: a time is not above 0"
                ));
            }
        }
        let none =
            |time: &KernelTime| METRICS.iter().all(|&metric| time.times(metric)[0].is_none());
        match times.iter().all(none) {
            true => {
                Err("has no times: alloc_ns, free_ns or pair_ns (if it has a row for each boot, \
                name the file of the boots joined)"
                    .into())
            }
            false => Ok(()),
        }
    }
}

/// Sees that the heading has these columns.
fn has(heading: &StringRecord, columns: &[&str], what: &str) -> Result<(), String> {
    let missing = columns.iter().filter(|&&column| heading.iter().all(|found| found != column));
    let missing: Vec<&str> = missing.copied().collect();
    match missing.len() {
        0 => Ok(()),
        more => Err(format!(
            "has no column{} {}: expected {} ({what})",
            if more > 1 { "s" } else { "" },
            missing.join(", "),
            columns.join(", ")
        )),
    }
}

fn rows<T: DeserializeOwned>(
    records: &[StringRecord],
    heading: &StringRecord,
) -> Result<Vec<T>, String> {
    let row = |record: &StringRecord| {
        record.deserialize(Some(heading)).map_err(|error| misread(&error, record, heading))
    };
    records.iter().map(row).collect()
}

/// A line that is no row of the table.
fn torn(error: csv::Error) -> String {
    match error.kind() {
        ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            format!("line {line}: has {len} values where the heading has {expected_len} columns")
        }
        _ => error.to_string(),
    }
}

/// A value that is not what its column holds.
fn misread(error: &csv::Error, record: &StringRecord, heading: &StringRecord) -> String {
    let line = record.position().map_or(0, csv::Position::line);
    let ErrorKind::Deserialize { err, .. } = error.kind() else { return error.to_string() };
    let Some(at) = err.field().map(|field| field as usize) else {
        return format!("line {line}: {err}");
    };
    let (column, value) = (heading.get(at).unwrap_or("?"), record.get(at).unwrap_or(""));
    let expected =
        if column.contains("_ns") { "a time in ns or nothing" } else { "a whole number" };
    format!("line {line}, column {column}: expected {expected}, found `{value}`")
}

/// The file's name without its extension, in letters that suit links and other names.
fn name_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
