//! `woodlot domains map`: what there is, and what it costs.

use std::fmt::Write;

use clap::Args;
use serde::Serialize;
use woodlot_bench::Failure;
use woodlot_bench::output::Screen;
use woodlot_domains::{DomainId, Map, Present, Setup};
use woodlot_frame::{Base4K, FrameId, MetadataSize};
use woodlot_llfree::LLFree;
use woodlot_onewrite::OneWrite;
use woodlot_pool::Engine;

use super::firmware::Firmware;
use super::machine::MachineArgs;

const FRAME: u64 = 4096;

/// Which machine.
#[derive(Args, Debug)]
pub struct MapArgs {
    #[command(flatten)]
    machine: MachineArgs,
}

/// Shows a machine's memory.
///
/// # Errors
/// What cannot be read, or what is wrong with it.
pub fn map(MapArgs { machine }: &MapArgs, screen: &mut Screen) -> Result<(), Failure> {
    let (firmware, mut present) = machine.read()?;
    let map = machine.map(&mut present)?;
    let shown = Shown::new(map, &firmware, machine.slots as usize, machine.engine);
    let shown = shown.map_err(|what| Failure::at(&machine.machine, what))?;
    screen.print(&if machine.json { shown.json()? } else { shown.text() })
}

/// A range, in bytes.
#[derive(Serialize)]
struct Range {
    start: u64,
    end: u64,
    domain: u8,
}

/// What a domain has, in bytes.
#[derive(Serialize)]
struct Domain {
    domain: u8,
    memory: u64,
    ranges: usize,
    metadata: u64,
    distances: Vec<u8>,
}

/// What is shown.
#[derive(Serialize)]
pub struct Shown {
    memory: u64,
    /// Between the first range and the last one.
    holes: u64,
    largest_hole: u64,
    metadata: u64,
    /// What the same memory would take without its holes.
    metadata_without_holes: u64,
    domains: Vec<Domain>,
    ranges: Vec<Range>,
}

impl Shown {
    /// What is to be said of a machine with so many slots.
    ///
    /// # Errors
    /// Why there can be no such machine.
    pub fn new(
        map: Map<'_>,
        firmware: &Firmware,
        slots: usize,
        engine: Engine,
    ) -> Result<Shown, String> {
        let distances = firmware.apart().map_err(|error| error.to_string())?;
        let setup = Setup::new(map, slots).apart(distances);
        setup.check::<Base4K>().map_err(|error| error.to_string())?;
        let sizes = sizes_of(&setup, engine)?;
        let known: Vec<DomainId> = map.domains().collect();
        let domain = |(domain, metadata): (DomainId, u64)| Domain {
            domain: domain.0,
            memory: map.of(domain).map(|range| bytes(range.frames())).sum(),
            ranges: map.of(domain).count(),
            metadata,
            distances: known.iter().map(|&to| distances.between(domain, to)).collect(),
        };
        let span = map.span();
        let mut dense = Vec::new();
        for &domain in &known {
            let frames = map.of(domain).map(|range| range.frames()).sum::<usize>();
            // Domains begin at gibibytes here, so that no two have frames of the same chunk.
            let start =
                dense.last().map_or(0, |last: &Present| last.end.0.next_multiple_of(1 << 18));
            let end = start.checked_add(frames).ok_or("the machine is too large")?;
            dense.push(Present::new(FrameId(start)..FrameId(end), domain));
        }
        let dense = Map::new(&mut dense).map_err(|error| error.to_string())?;
        let whole = sizes_of(&Setup::new(dense, slots).apart(distances), engine)?;
        let holes = map.ranges().windows(2).filter_map(|pair| match pair {
            [one, other] => Some(bytes(other.start.0 - one.end.0)),
            _ => None,
        });
        Ok(Shown {
            memory: bytes(map.frames()),
            holes: bytes(span.end.0 - span.start.0 - map.frames()),
            largest_hole: holes.max().unwrap_or(0),
            metadata: sizes.iter().map(|(_, metadata)| metadata).sum(),
            metadata_without_holes: whole.iter().map(|(_, metadata)| metadata).sum(),
            domains: sizes.into_iter().map(domain).collect(),
            ranges: map
                .ranges()
                .iter()
                .map(|range| Range {
                    start: bytes(range.start.0),
                    end: bytes(range.end.0),
                    domain: range.domain.0,
                })
                .collect(),
        })
    }

    /// For programs.
    fn json(&self) -> Result<String, Failure> {
        let json = serde_json::to_string_pretty(self);
        json.map(|json| json + "\n").map_err(|cause| Failure::Failed(cause.to_string()))
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::from("from               to                 size       domain\n");
        let mut last = None;
        for Range { start, end, domain } in &self.ranges {
            if let Some(hole) = last.map(|last| start - last).filter(|&hole| hole > 0) {
                let _ = writeln!(text, "{:<38}{:<11}hole", "", size(hole));
            }
            let _ = writeln!(text, "{start:#018x} {end:#018x} {:<10} {domain}", size(end - start));
            last = Some(*end);
        }
        text += "\ndomain  memory     ranges  metadata   share      distances\n";
        for Domain { domain, memory, ranges, metadata, distances } in &self.domains {
            let distances: Vec<_> = distances.iter().map(u8::to_string).collect();
            let _ = writeln!(
                text,
                "{domain:<7} {:<10} {ranges:<7} {:<10} {:<10} {}",
                size(*memory),
                size(*metadata),
                percent(*metadata, *memory),
                distances.join(" ")
            );
        }
        let more = self.metadata.saturating_sub(self.metadata_without_holes);
        let _ = writeln!(
            text,
            "\n{} of memory, {} of holes (the largest {}), {} of metadata ({}); the holes cost {} of it",
            size(self.memory),
            size(self.holes),
            size(self.largest_hole),
            size(self.metadata),
            percent(self.metadata, self.memory),
            size(more)
        );
        text
    }
}

/// The bytes of metadata of each domain.
fn sizes_of(setup: &Setup<'_>, engine: Engine) -> Result<Vec<(DomainId, u64)>, String> {
    let size = |size: Result<(DomainId, MetadataSize), _>| {
        let (domain, MetadataSize { durable, volatile }) =
            size.map_err(|error: woodlot_domains::SetupError| error.to_string())?;
        Ok((domain, durable as u64 + volatile as u64))
    };
    match engine {
        Engine::OneWrite => setup.sizes::<OneWrite<'_, Base4K>>().map(size).collect(),
        _ => setup.sizes::<LLFree<'_, Base4K>>().map(size).collect(),
    }
}

fn bytes(frames: usize) -> u64 {
    (frames as u64).saturating_mul(FRAME)
}

fn percent(part: u64, of: u64) -> String {
    format!("{:.4} %", 100.0 * part as f64 / of.max(1) as f64)
}

/// Bytes as people read them.
fn size(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.into_iter().find(|(_, shift)| bytes >> shift > 0);
    match unit {
        Some((unit, shift)) if bytes.is_multiple_of(1 << shift) => {
            format!("{} {unit}", bytes >> shift)
        }
        Some((unit, shift)) => format!("{:.2} {unit}", bytes as f64 / (1u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}
