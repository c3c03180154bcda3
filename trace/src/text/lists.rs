//! The lists of owned frames that belong to a trace.
//!
//! ```text
//!   start-owned    U pfn frames                    taken before the allocator existed
//!                  pfn order migratetype kind      allocated before the trace begins
//!   hidden-owned   pfn frames                      owned throughout
//! ```
//!
//! Frame numbers are hexadecimal, everything else is decimal.

use std::io::BufRead;
use std::path::Path;

use super::events::migrate;
use super::lines::Lines;
use super::{block, hex, number};
use crate::{Error, Result, Span, StartSpan, StartUse};

/// Reads a start-owned list: rising, and joined where neighbours have one use.
///
/// # Errors
/// The first line that is not of the format or names a frame twice, or a failure to read.
pub fn read_start_owned(reader: impl BufRead, path: &Path) -> Result<Vec<StartSpan>> {
    let mut lines = Lines::new(reader, path);
    let mut spans: Vec<(StartSpan, usize)> = Vec::new();
    while let Some(line) = lines.next_line()? {
        let span = start_line(line).map_err(|what| lines.error(what))?;
        spans.push((span, lines.number()));
    }
    spans.sort_by_key(|(start, _)| start.span.start);
    let mut joined: Vec<StartSpan> = Vec::new();
    for (start, line) in spans {
        match joined.last_mut() {
            Some(last) if last.span.end() > start.span.start.0 => {
                let what = format!("frame {} is owned twice", start.span.start);
                return Err(Error::line(path, line, what));
            }
            Some(last) if last.span.end() == start.span.start.0 && last.usage == start.usage => {
                last.span.frames += start.span.frames;
            }
            _ => joined.push(start),
        }
    }
    Ok(joined)
}

fn start_line(line: &str) -> Result<StartSpan, String> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    match words[..] {
        ["U", pfn, frames] => Ok(StartSpan { span: span(pfn, frames)?, usage: StartUse::Boot }),
        [pfn, order, kind, _path] => {
            let span = block(hex(pfn)?, number("order", order)?)?;
            Ok(StartSpan { span, usage: StartUse::Allocated(migrate(kind)?) })
        }
        _ => Err("expected `U pfn frames` or `pfn order migratetype kind`".into()),
    }
}

fn span(pfn: &str, frames: &str) -> Result<Span, String> {
    let frames = number("the count of frames", frames)?;
    Span::checked(hex(pfn)?, frames)
        .ok_or_else(|| format!("{frames} frames from {pfn} are not a range of frames"))
}

/// Reads a hidden-owned list.
///
/// # Errors
/// The first line that is not of the format, or a failure to read.
pub fn read_hidden_owned(reader: impl BufRead, path: &Path) -> Result<Vec<Span>> {
    let mut lines = Lines::new(reader, path);
    let mut spans = Vec::new();
    while let Some(line) = lines.next_line()? {
        let parsed = match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
            [pfn, frames] => span(pfn, frames),
            _ => Err("expected `pfn frames`".into()),
        };
        spans.push(parsed.map_err(|what| lines.error(what))?);
    }
    Ok(spans)
}
