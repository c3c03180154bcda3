//! Reading the binary form.

use std::io::Read;
use std::path::Path;

use super::predict::{Predictor, Taken};
use super::shape::{Shape, What};
use super::varint::{Reader, unzigzag};
use super::{HEADER, MAGIC, VERSION};
use crate::limits::{MAX_PAYLOAD, MAX_ZONES};
use crate::{
    CurveRow, Error, Event, EventKind, Migrate, Pfn, Span, StartSpan, StartUse, Trace, Zone,
    archive,
};

/// A trace from its binary form; `path` is for messages.
///
/// # Errors
/// How the bytes are damaged.
pub fn read_binary(bytes: &[u8], path: &Path) -> crate::Result<Trace> {
    let damaged = |what: String| Error::damaged(path, format!("the trace is damaged: {what}"));
    let payload = unpack(bytes).map_err(damaged)?;
    let mut reader = Reader::new(&payload);
    let mut trace = get_description(&mut reader).map_err(damaged)?;
    trace.events = get_events(&mut reader, &trace).map_err(damaged)?;
    reader.finish().map_err(damaged)?;
    Ok(trace)
}

/// Checks the header and the checksum.
fn unpack(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let (header, packed) = bytes.split_at_checked(HEADER).ok_or("it has no whole header")?;
    let number = |at: usize, len: usize| {
        header[at..at + len].iter().rev().fold(0u64, |n, &byte| n << 8 | u64::from(byte))
    };
    let (version, len, checksum) = (number(8, 4), number(12, 8), number(20, 4));
    if header[..8] != MAGIC {
        return Err("it does not begin like one".into());
    }
    if version != u64::from(VERSION) {
        return Err(format!("its version is {version}, and this program reads {VERSION}"));
    }
    if len > MAX_PAYLOAD {
        return Err(format!("it claims to hold {len} bytes"));
    }
    let mut payload = Vec::new();
    let unpacked = archive::xz(packed).and_then(|xz| xz.take(len + 1).read_to_end(&mut payload));
    unpacked.map_err(|cause| format!("its archive is truncated or damaged ({cause})"))?;
    if payload.len() as u64 != len || u64::from(crc32fast::hash(&payload)) != checksum {
        return Err("its checksum is wrong".into());
    }
    Ok(payload)
}

fn get_description(reader: &mut Reader) -> Result<Trace, String> {
    let mut trace = Trace { name: reader.get_text()?, ..Trace::default() };
    let mut end = 0;
    for _ in 0..reader.get_count()? {
        let name = reader.get_text()?;
        let span = span(end, reader.get()?)?;
        end = span.end().into();
        trace.zones.push(Zone { name, span });
    }
    if trace.zones.len() > MAX_ZONES {
        return Err(format!("it claims to have {} zones", trace.zones.len()));
    }
    let frames = trace.frames() as u64;
    let inside = |span: Span| match u64::from(span.end()) <= frames {
        true => Ok(span),
        false => Err("frames outside the zones"),
    };
    let mut end = 0u64;
    for _ in 0..reader.get_count()? {
        let start = end.saturating_add(reader.get()?);
        let span = inside(span(start, reader.get()?)?)?;
        end = span.end().into();
        trace.start.push(StartSpan { span, usage: start_use(reader.get()?)? });
    }
    for _ in 0..reader.get_count()? {
        let start = reader.get()?;
        trace.hidden.push(inside(span(start, reader.get()?)?)?);
    }
    for _ in 0..reader.get_count()? {
        trace.markers.push(reader.get_text()?);
    }
    for _ in 0..reader.get_count()? {
        trace.curve.push(CurveRow {
            after: reader.get_as()?,
            time_us: reader.get()?,
            label: reader.get_text()?,
            free_huge: reader.get_as()?,
            free_frames: reader.get_as()?,
        });
    }
    Ok(trace)
}

fn span(start: u64, frames: u64) -> Result<Span, String> {
    Span::checked(start, frames)
        .ok_or_else(|| format!("{frames} frames from {start:#x} are not a range of frames"))
}

fn start_use(number: u64) -> Result<StartUse, String> {
    let migrate = |number: u64| Migrate::from_number(u8::try_from(number).ok()?);
    match number.checked_sub(1) {
        None => Ok(StartUse::Boot),
        Some(number) => migrate(number)
            .map(StartUse::Allocated)
            .ok_or_else(|| format!("there is no migrate type {number}")),
    }
}

/// One reader for each column, in the order in which they are written.
struct Columns<'a> {
    shape: Reader<'a>,
    time: Reader<'a>,
    rank: Reader<'a>,
    fresh: Reader<'a>,
    freed: Reader<'a>,
    stray: Reader<'a>,
    marker: Reader<'a>,
}

impl<'a> Columns<'a> {
    fn get(reader: &mut Reader<'a>) -> Result<Self, String> {
        let mut next = || reader.get_bytes().map(Reader::new);
        Ok(Self {
            shape: next()?,
            time: next()?,
            rank: next()?,
            fresh: next()?,
            freed: next()?,
            stray: next()?,
            marker: next()?,
        })
    }

    fn finish(&self) -> Result<(), String> {
        let Self { shape, time, rank, fresh, freed, stray, marker } = self;
        [shape, time, rank, fresh, freed, stray, marker].into_iter().try_for_each(Reader::finish)
    }
}

fn get_events(reader: &mut Reader, trace: &Trace) -> Result<Vec<Event>, String> {
    let shapes =
        (0..reader.get_count()?).map(|_| Shape::get(reader)).collect::<Result<Vec<_>, _>>()?;
    // Each event takes at least a byte of the columns that follow.
    let count = reader.get_count()?;
    let mut columns = Columns::get(reader)?;
    let mut predictor = Predictor::new(&trace.start)?;
    let mut events = Vec::with_capacity(count);
    let mut time_us = 0u64;
    for _ in 0..count {
        let index: usize = columns.shape.get_as()?;
        let shape = *shapes.get(index).ok_or("an event has no shape")?;
        time_us = time_us.wrapping_add(columns.time.get_signed()? as u64);
        let kind = get_kind(&mut columns, &mut predictor, shape, trace)?;
        events.push(Event { time_us, cpu: shape.cpu, kind });
    }
    columns.finish()?;
    let ordered = trace.curve.is_sorted_by_key(|row| row.after);
    if !ordered || trace.curve.last().is_some_and(|row| row.after as usize > count) {
        return Err("a row of the curve is out of place".into());
    }
    Ok(events)
}

fn get_kind(
    columns: &mut Columns,
    predictor: &mut Predictor,
    shape: Shape,
    trace: &Trace,
) -> Result<EventKind, String> {
    let cpu = shape.cpu;
    match shape.what {
        What::Alloc { order, migrate, source, failed: true } => {
            Ok(EventKind::Alloc { pfn: None, order, migrate, source })
        }
        What::Alloc { order, migrate, source, failed: false } => {
            let from = match columns.rank.get()? {
                0 => Taken::Fresh(columns.fresh.get_signed()?),
                rank => Taken::Rank((rank - 1).min(u32::MAX.into()) as usize),
            };
            let pfn = in_trace(predictor.take(cpu, migrate, order, from), order, trace)?;
            predictor.number(pfn, 1 << order, migrate)?;
            Ok(EventKind::Alloc { pfn: Some(pfn), order, migrate, source })
        }
        What::Free { order } => {
            let pfn = match columns.freed.get()?.checked_sub(1) {
                Some(step) => predictor.free_step(cpu, order, unzigzag(step)),
                None => predictor.free_stray(columns.stray.get_signed()?),
            };
            Ok(EventKind::Free { pfn: in_trace(pfn, order, trace)?, order })
        }
        What::Marker => match columns.marker.get_as::<u32>()? {
            marker if (marker as usize) < trace.markers.len() => Ok(EventKind::Marker(marker)),
            _ => Err("a marker has no text".into()),
        },
    }
}

/// The frame, if there is one and its block lies in the zones.
fn in_trace(pfn: Option<Pfn>, order: u8, trace: &Trace) -> Result<Pfn, String> {
    let block = pfn.and_then(|pfn| Span::block(pfn.0.into(), order));
    let block = block.filter(|block| block.end() as usize <= trace.frames());
    block.map(|block| block.start).ok_or_else(|| "an event names a frame that is not there".into())
}
