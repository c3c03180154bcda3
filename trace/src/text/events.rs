//! Events as ftrace prints them.
//!
//! ```text
//!   comm-pid [cpu] seconds.microseconds: event: field=value field=value …
//! ```
//!
//! Frames change hands in `mm_page_alloc`, `bulk_alloc`, `cmpct_alloc`, `cmpct_release` and
//! `mm_page_free`. `mm_page_free_batched` repeats a free that was printed already, so it is one of
//! the names that are known and skipped. A name that is not known is skipped as well and counted.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use super::lines::Lines;
use super::{block, hex, microseconds, number};
use crate::limits::{MAX_CPUS, MAX_ORDER};
use crate::{Event, EventKind, Migrate, Pfn, Result, Source};

/// Events that say nothing about who owns a frame.
const WITHOUT_OWNER: &[&str] = &[
    "cmpct_isolate",
    "mark_victim",
    "mm_collapse_huge_page",
    "mm_compaction_begin",
    "mm_compaction_end",
    "mm_compaction_isolate_freepages",
    "mm_compaction_isolate_migratepages",
    "mm_compaction_migratepages",
    "mm_page_alloc_extfrag",
    "mm_page_alloc_zone_locked",
    "mm_page_free_batched",
    "mm_page_pcpu_drain",
    "mm_vmscan_direct_reclaim_begin",
    "mm_vmscan_direct_reclaim_end",
    "mm_vmscan_kswapd_sleep",
    "mm_vmscan_kswapd_wake",
    "sched_process_exit",
    "task_newtask",
    "task_rename",
];

/// Lines that were read and hold no event of ours.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Lines with a name that says nothing about ownership.
    pub known: usize,
    /// Lines with a name that this reader has never heard of, by name.
    pub unknown: BTreeMap<String, usize>,
}

/// What a file of events holds: the events, the texts of its markers, and what was skipped.
pub type Events = (Vec<Event>, Vec<String>, Skipped);

/// Reads events; `path` is for messages.
///
/// # Errors
/// The first line that is not of the format, or a failure to read.
pub fn read_events(reader: impl BufRead, path: &Path) -> Result<Events> {
    let mut lines = Lines::new(reader, path);
    let mut events = Vec::new();
    let mut markers = Vec::new();
    let mut skipped = Skipped::default();
    while let Some(line) = lines.next_line()? {
        match parse(line, &mut markers) {
            Ok(Parsed::Event(event)) => events.push(event),
            Ok(Parsed::Known) => skipped.known += 1,
            Ok(Parsed::Unknown(name)) => match skipped.unknown.get_mut(name) {
                Some(count) => *count += 1,
                None => {
                    skipped.unknown.insert(name.to_string(), 1);
                }
            },
            Err(what) => return Err(lines.error(what)),
        }
    }
    Ok((events, markers, skipped))
}

enum Parsed<'a> {
    Event(Event),
    Known,
    Unknown(&'a str),
}

fn parse<'a>(line: &'a str, markers: &mut Vec<String>) -> Result<Parsed<'a>, String> {
    const SHAPE: &str = "expected `comm-pid [cpu] seconds.microseconds: event: fields`";
    let mut words = line.splitn(5, ' ');
    let (Some(_task), Some(cpu), Some(time), Some(name)) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(SHAPE.into());
    };
    let cpu = cpu.strip_prefix('[').and_then(|cpu| cpu.strip_suffix(']')).ok_or(SHAPE)?;
    let cpu: u16 = number("CPU", cpu)?;
    if cpu >= MAX_CPUS {
        return Err(format!("CPU {cpu} is above the largest, {}", MAX_CPUS - 1));
    }
    let time_us = microseconds(time.strip_suffix(':').ok_or(SHAPE)?)?;
    let name = name.strip_suffix(':').ok_or(SHAPE)?;
    let fields = Fields(words.next().unwrap_or(""));
    let kind = match name {
        "mm_page_alloc" => fields.allocation(Source::Page)?,
        "bulk_alloc" => fields.allocation(Source::Bulk)?,
        "cmpct_alloc" => fields.allocation(Source::CompactionTarget)?,
        "cmpct_release" => fields.allocation(Source::CompactionRelease)?,
        "mm_page_free" => fields.free()?,
        "tracing_mark_write" => {
            markers.push(fields.0.to_string());
            EventKind::Marker(markers.len() as u32 - 1)
        }
        _ if WITHOUT_OWNER.contains(&name) => return Ok(Parsed::Known),
        "" => return Err(SHAPE.into()),
        _ => return Ok(Parsed::Unknown(name)),
    };
    Ok(Parsed::Event(Event { time_us, cpu, kind }))
}

/// The `name=value` words at the end of a line.
struct Fields<'a>(&'a str);

impl<'a> Fields<'a> {
    fn get(&self, name: &str) -> Result<&'a str, String> {
        let mut words = self.0.split(' ');
        let value = |word: &'a str| word.strip_prefix(name)?.strip_prefix('=');
        words.find_map(value).ok_or_else(|| format!("the field `{name}=` is missing"))
    }

    fn order(&self) -> Result<u8, String> {
        let order = number("order", self.get("order")?)?;
        if order > MAX_ORDER {
            return Err(format!("order {order} is above the largest, {MAX_ORDER}"));
        }
        Ok(order)
    }

    fn allocation(&self, source: Source) -> Result<EventKind, String> {
        // The bulk allocator hands out single frames and does not say so; compaction moves what is
        // movable and does not say that.
        let order = if source == Source::Bulk { 0 } else { self.order()? };
        let migrate = match source {
            Source::Page | Source::Bulk => migrate(self.get("migratetype")?)?,
            Source::CompactionTarget | Source::CompactionRelease => Migrate::Movable,
        };
        let pfn = match self.get("pfn")? {
            "FAILED" => None,
            word => Some(block(hex(word)?, order)?.start),
        };
        Ok(EventKind::Alloc { pfn, order, migrate, source })
    }

    fn free(&self) -> Result<EventKind, String> {
        let order = self.order()?;
        let Pfn(pfn) = block(hex(self.get("pfn")?)?, order)?.start;
        Ok(EventKind::Free { pfn: Pfn(pfn), order })
    }
}

/// A migrate type by its number.
pub(super) fn migrate(word: &str) -> Result<Migrate, String> {
    Migrate::from_number(number("migratetype", word)?)
        .ok_or_else(|| format!("migratetype {word} is not 0, 1 or 2"))
}
