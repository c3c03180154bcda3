//! What is the same in many events: everything but the time and the frame.

use super::varint::{Reader, put};
use crate::limits::{MAX_CPUS, MAX_ORDER};
use crate::{Event, EventKind, Migrate, Source};

/// An event without its time and frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    pub cpu: u16,
    pub what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum What {
    Alloc { order: u8, migrate: Migrate, source: Source, failed: bool },
    Free { order: u8 },
    Marker,
}

impl Shape {
    pub fn of(event: &Event) -> Shape {
        let what = match event.kind {
            EventKind::Alloc { pfn, order, migrate, source } => {
                What::Alloc { order, migrate, source, failed: pfn.is_none() }
            }
            EventKind::Free { order, .. } => What::Free { order },
            EventKind::Marker(_) => What::Marker,
        };
        Shape { cpu: event.cpu, what }
    }

    pub fn put(self, out: &mut Vec<u8>) {
        put(out, self.cpu.into());
        match self.what {
            What::Alloc { order, migrate, source, failed } => {
                out.extend([u8::from(failed), order, migrate as u8, source as u8]);
            }
            What::Free { order } => out.extend([2, order]),
            What::Marker => out.push(3),
        }
    }

    pub fn get(reader: &mut Reader) -> Result<Shape, String> {
        let cpu: u16 = reader.get_as()?;
        let what = match reader.get()? {
            failed @ (0 | 1) => What::Alloc {
                order: order(reader)?,
                migrate: migrate(reader)?,
                source: source(reader)?,
                failed: failed == 1,
            },
            2 => What::Free { order: order(reader)? },
            3 => What::Marker,
            other => return Err(format!("there is no kind of event {other}")),
        };
        match cpu < MAX_CPUS {
            true => Ok(Shape { cpu, what }),
            false => Err(format!("CPU {cpu} is above the largest")),
        }
    }
}

fn order(reader: &mut Reader) -> Result<u8, String> {
    let order = reader.get_as()?;
    match order <= MAX_ORDER {
        true => Ok(order),
        false => Err(format!("order {order} is above the largest")),
    }
}

pub fn migrate(reader: &mut Reader) -> Result<Migrate, String> {
    let number = reader.get_as()?;
    Migrate::from_number(number).ok_or_else(|| format!("there is no migrate type {number}"))
}

fn source(reader: &mut Reader) -> Result<Source, String> {
    const ALL: [Source; 4] =
        [Source::Page, Source::Bulk, Source::CompactionTarget, Source::CompactionRelease];
    let number: usize = reader.get_as()?;
    ALL.get(number).copied().ok_or_else(|| format!("there is no source {number}"))
}
