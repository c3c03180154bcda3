//! Writing the binary form.

use std::collections::HashMap;
use std::io::{self, Read};

use liblzma::read::XzEncoder;
use liblzma::stream::{Check, Filters, LzmaOptions, Stream};

use super::predict::{Predictor, Taken};
use super::shape::Shape;
use super::varint::{put, put_bytes, put_signed, zigzag};
use super::{HEADER, MAGIC, VERSION};
use crate::{EventKind, Migrate, Pfn, StartUse, Trace};

/// The binary form of a trace.
///
/// # Errors
/// When the trace is larger than the form allows, or the packer fails.
pub fn write_binary(trace: &Trace) -> io::Result<Vec<u8>> {
    pack(&payload(trace).map_err(io::Error::other)?)
}

/// Everything about the trace, not packed yet.
pub(super) fn payload(trace: &Trace) -> Result<Vec<u8>, String> {
    let mut payload = Vec::new();
    put_description(&mut payload, trace);
    put_events(&mut payload, trace)?;
    Ok(payload)
}

/// The header and the packed payload.
pub(super) fn pack(payload: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(HEADER + payload.len() / 4);
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
    out.extend((payload.len() as u64).to_le_bytes());
    out.extend(crc32fast::hash(payload).to_le_bytes());
    packer(payload)?.read_to_end(&mut out)?;
    Ok(out)
}

/// The columns are bytes without alignment (`pb` 0), and no match is further away than 8 MiB, so
/// that unpacking needs little memory.
fn packer(payload: &[u8]) -> io::Result<XzEncoder<&[u8]>> {
    let mut options = LzmaOptions::new_preset(9)?;
    options.dict_size(8 << 20).position_bits(0);
    let stream = Stream::new_stream_encoder(Filters::new().lzma2(&options), Check::Crc64)?;
    Ok(XzEncoder::new_stream(payload, stream))
}

/// Everything but the events.
fn put_description(out: &mut Vec<u8>, trace: &Trace) {
    put_bytes(out, trace.name.as_bytes());
    put(out, trace.zones.len() as u64);
    for zone in &trace.zones {
        put_bytes(out, zone.name.as_bytes());
        put(out, zone.span.frames.into());
    }
    put(out, trace.start.len() as u64);
    let mut end = 0;
    for start in &trace.start {
        put(out, (start.span.start.0 - end).into());
        put(out, start.span.frames.into());
        put(out, use_number(start.usage));
        end = start.span.end();
    }
    put(out, trace.hidden.len() as u64);
    for span in &trace.hidden {
        put(out, span.start.0.into());
        put(out, span.frames.into());
    }
    put(out, trace.markers.len() as u64);
    for marker in &trace.markers {
        put_bytes(out, marker.as_bytes());
    }
    put(out, trace.curve.len() as u64);
    for row in &trace.curve {
        put(out, row.after.into());
        put(out, row.time_us);
        put_bytes(out, row.label.as_bytes());
        put(out, row.free_huge.into());
        put(out, row.free_frames.into());
    }
}

/// 0 for boot memory, otherwise the migrate type plus one.
fn use_number(usage: StartUse) -> u64 {
    match usage {
        StartUse::Boot => 0,
        StartUse::Allocated(migrate) => migrate as u64 + 1,
    }
}

#[derive(Default)]
struct Columns {
    shape: Vec<u8>,
    time: Vec<u8>,
    rank: Vec<u8>,
    fresh: Vec<u8>,
    freed: Vec<u8>,
    stray: Vec<u8>,
    marker: Vec<u8>,
}

fn put_events(out: &mut Vec<u8>, trace: &Trace) -> Result<(), String> {
    let mut shapes = Shapes::default();
    let mut columns = Columns::default();
    let mut frames = Frames::new(trace)?;
    let mut time = 0u64;
    for event in &trace.events {
        put(&mut columns.shape, shapes.index(Shape::of(event)));
        put_signed(&mut columns.time, event.time_us.wrapping_sub(time) as i64);
        time = event.time_us;
        match event.kind {
            EventKind::Alloc { pfn: Some(pfn), order, migrate, .. } => {
                frames.alloc(&mut columns, event.cpu, pfn, order, migrate)?;
            }
            EventKind::Alloc { pfn: None, .. } => {}
            EventKind::Free { pfn, order } => frames.free(&mut columns, event.cpu, pfn, order)?,
            EventKind::Marker(marker) => put(&mut columns.marker, marker.into()),
        }
    }
    put(out, shapes.list.len() as u64);
    for shape in shapes.list {
        shape.put(out);
    }
    put(out, trace.events.len() as u64);
    let Columns { shape, time, rank, fresh, freed, stray, marker } = columns;
    for column in [shape, time, rank, fresh, freed, stray, marker] {
        put_bytes(out, &column);
    }
    Ok(())
}

/// The shapes that occurred, by index and back.
#[derive(Default)]
struct Shapes {
    list: Vec<Shape>,
    index: HashMap<Shape, u64>,
}

impl Shapes {
    fn index(&mut self, shape: Shape) -> u64 {
        *self.index.entry(shape).or_insert_with(|| {
            self.list.push(shape);
            self.list.len() as u64 - 1
        })
    }
}

/// The predictor, and which number each owned frame has.
struct Frames {
    predictor: Predictor,
    /// The number of each owned frame plus one; 0 for a frame that nobody is known to own.
    number: Vec<u32>,
}

impl Frames {
    fn new(trace: &Trace) -> Result<Self, String> {
        let predictor = Predictor::new(&trace.start)?;
        let mut number = vec![0; trace.frames()];
        let owned = trace.start.iter().flat_map(|start| start.span.range());
        for (frame, next) in owned.zip(1..) {
            if let Some(number) = number.get_mut(frame as usize) {
                *number = next;
            }
        }
        Ok(Self { predictor, number })
    }

    fn alloc(
        &mut self,
        columns: &mut Columns,
        cpu: u16,
        pfn: Pfn,
        order: u8,
        migrate: Migrate,
    ) -> Result<(), String> {
        let from = self.predictor.locate(cpu, migrate, order, pfn);
        match from {
            Taken::Rank(rank) => put(&mut columns.rank, rank as u64 + 1),
            Taken::Fresh(step) => {
                put(&mut columns.rank, 0);
                put_signed(&mut columns.fresh, step);
            }
        }
        let first = self.predictor.numbered() as u32 + 1;
        self.predictor.take(cpu, migrate, order, from);
        self.predictor.number(pfn, 1 << order, migrate)?;
        for (entry, number) in self.block(pfn, order)?.iter_mut().zip(first..) {
            *entry = number;
        }
        Ok(())
    }

    fn free(&mut self, columns: &mut Columns, cpu: u16, pfn: Pfn, order: u8) -> Result<(), String> {
        let block = self.block(pfn, order)?;
        let number = block[0];
        block.fill(0);
        match number.checked_sub(1) {
            Some(number) => {
                let step = self.predictor.step_to(cpu, number as usize);
                put(&mut columns.freed, zigzag(step) + 1);
                self.predictor.free_step(cpu, order, step);
            }
            None => {
                put(&mut columns.freed, 0);
                let step = self.predictor.stray_to(pfn);
                put_signed(&mut columns.stray, step);
                self.predictor.free_stray(step);
            }
        }
        Ok(())
    }

    /// The numbers of a block's frames.
    fn block(&mut self, pfn: Pfn, order: u8) -> Result<&mut [u32], String> {
        let start = pfn.0 as usize;
        let block = self.number.get_mut(start..start + (1 << order));
        block.ok_or_else(|| format!("the block of order {order} at {pfn} is outside the zones"))
    }
}
