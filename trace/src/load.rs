//! From files to a [`Trace`].

use std::fs;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use crate::binary::{MAGIC, read_binary};
use crate::text::{place_curve, read_curve, read_events, read_hidden_owned, read_start_owned};
use crate::{
    Error, EventKind, FrameSet, Migrate, Result, Skipped, Span, StartSpan, StartUse, Trace, Zone,
    archive,
};

/// Where the lists of a text trace are. What is `None` is looked for beside the trace.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Who owns what at the start; otherwise `NAME.start-owned.txt`.
    pub start_owned: Option<PathBuf>,
    /// Frames that are owned throughout; otherwise `hidden-owned.txt`.
    pub hidden_owned: Option<PathBuf>,
    /// Linux's own curve; otherwise `curve.csv`.
    pub curve: Option<PathBuf>,
}

/// A trace, and what its reader ought to be told.
#[derive(Debug)]
pub struct Loaded {
    /// The trace.
    pub trace: Trace,
    /// What was skipped, inferred or missing, in words.
    pub notes: Vec<String>,
}

/// Loads a trace of any form: text or binary, plain or compressed.
///
/// # Errors
/// What is wrong with the first file that cannot be used.
pub fn load(path: &Path, sources: &Sources) -> Result<Loaded> {
    let mut reader = archive::open(path)?;
    let start = reader.fill_buf().map_err(|cause| Error::io(path, cause))?;
    if !start.starts_with(&MAGIC) {
        return load_text(reader, path, sources);
    }
    let given = [&sources.start_owned, &sources.hidden_owned, &sources.curve];
    if let Some(list) = given.into_iter().flatten().next() {
        let list = list.display();
        return Err(Error::damaged(path, format!("the binary form has its own lists, not {list}")));
    }
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).map_err(|cause| Error::io(path, cause))?;
    Ok(Loaded { trace: read_binary(&bytes, path)?, notes: Vec::new() })
}

fn load_text(reader: Box<dyn BufRead>, path: &Path, sources: &Sources) -> Result<Loaded> {
    let name = trace_name(path);
    let (events, markers, skipped) = read_events(reader, path)?;
    if events.is_empty() {
        return Err(Error::damaged(path, "it holds no event that allocates, frees or marks"));
    }
    let mut trace = Trace { name, events, markers, ..Trace::default() };
    let mut notes = skipped_note(path, &skipped);
    if let Some(list) = find(path, &sources.hidden_owned, "hidden-owned.txt") {
        trace.hidden = read_hidden_owned(archive::open(&list)?, &list)?;
    }
    match find(path, &sources.start_owned, &format!("{}.start-owned.txt", trace.name)) {
        Some(list) => trace.start = read_start_owned(archive::open(&list)?, &list)?,
        None => {
            trace.start = infer_start(&trace);
            let frames: u64 = trace.start.iter().map(|s| u64::from(s.span.frames)).sum();
            notes.push(format!(
                "{}: no list of frames owned at the start ({}.start-owned.txt): only the {frames} \
                 frames that are freed before they are allocated are taken to be owned",
                path.display(),
                trace.name
            ));
        }
    }
    trace.zones = x86_zones(highest_frame(&trace));
    match find(path, &sources.curve, "curve.csv") {
        Some(curve) => {
            place_curve(&mut trace, &read_curve(archive::open(&curve)?, &curve)?, &curve)?;
            if trace.curve.is_empty() {
                notes.push(format!(
                    "{}: no row of the time of {}: Linux's side is computed from the trace alone",
                    curve.display(),
                    path.display()
                ));
            }
        }
        None => notes.push(format!(
            "{}: no recorded curve (curve.csv): Linux's side is computed from the trace alone",
            path.display()
        )),
    }
    Ok(Loaded { trace, notes })
}

fn skipped_note(path: &Path, skipped: &Skipped) -> Vec<String> {
    let names: Vec<_> = skipped.unknown.iter().map(|(name, n)| format!("{name} ({n})")).collect();
    match names.is_empty() {
        true => Vec::new(),
        false => vec![format!("{}: skipped unknown events: {}", path.display(), names.join(", "))],
    }
}

/// The file's name up to what says how it is kept.
fn trace_name(path: &Path) -> String {
    let mut name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for end in [".xz", ".zst", ".txt", ".trace"] {
        if let Some(shorter) = name.strip_suffix(end).filter(|shorter| !shorter.is_empty()) {
            name.truncate(shorter.len());
        }
    }
    name
}

/// The list that was given, or the one beside the trace.
fn find(trace: &Path, given: &Option<PathBuf>, beside: &str) -> Option<PathBuf> {
    given.clone().or_else(|| {
        let candidates =
            ["", ".xz", ".zst"].map(|end| trace.with_file_name(format!("{beside}{end}")));
        candidates.into_iter().find(|path| fs::exists(path).unwrap_or(false))
    })
}

/// The frames whose first event is a free: somebody must have owned them.
fn infer_start(trace: &Trace) -> Vec<StartSpan> {
    let frames = highest_frame(trace) as usize;
    let (mut seen, mut owned) = (FrameSet::new(frames), FrameSet::new(frames));
    for span in &trace.hidden {
        seen.take(span.start.0 as usize..span.end() as usize);
    }
    for event in &trace.events {
        let (EventKind::Alloc { pfn: Some(pfn), order, .. } | EventKind::Free { pfn, order }) =
            event.kind
        else {
            continue;
        };
        for frame in (pfn.0..pfn.0 + (1 << order)).map(|frame| frame as usize) {
            let first = seen.take(frame..frame + 1) == 0;
            if first && matches!(event.kind, EventKind::Free { .. }) {
                owned.take(frame..frame + 1);
            }
        }
    }
    let usage = StartUse::Allocated(Migrate::Movable);
    runs(&owned).map(|span| StartSpan { span, usage }).collect()
}

/// The maximal runs of owned frames.
fn runs(set: &FrameSet) -> impl Iterator<Item = Span> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = (at..set.frames()).find(|&frame| set.contains(frame))?;
        let end = (start..set.frames()).find(|&frame| !set.contains(frame));
        at = end.unwrap_or(set.frames());
        Span::checked(start as u64, (at - start) as u64)
    })
}

/// One more than the largest frame that is named anywhere, rounded up to whole blocks of order 10.
fn highest_frame(trace: &Trace) -> u32 {
    let events = trace.events.iter().filter_map(|event| match event.kind {
        EventKind::Alloc { pfn: Some(pfn), order, .. } | EventKind::Free { pfn, order } => {
            Some(pfn.0 + (1 << order))
        }
        EventKind::Alloc { pfn: None, .. } | EventKind::Marker(_) => None,
    });
    let start = trace.start.iter().map(|start| start.span.end());
    let hidden = trace.hidden.iter().map(|span| span.end());
    events.chain(start).chain(hidden).max().unwrap_or(1).next_multiple_of(1024)
}

/// The zones of x86-64, where the text form comes from: DMA below 16 MiB, DMA32 below 4 GiB.
fn x86_zones(frames: u32) -> Vec<Zone> {
    let borders: [(&str, u32, u32); 3] =
        [("DMA", 0, 1 << 12), ("DMA32", 1 << 12, 1 << 20), ("Normal", 1 << 20, u32::MAX)];
    let zones = borders.into_iter().filter_map(|(name, start, end)| {
        let frames = u64::from(frames.min(end)).checked_sub(u64::from(start))?;
        Some(Zone { name: name.into(), span: Span::checked(u64::from(start), frames)? })
    });
    zones.collect()
}
