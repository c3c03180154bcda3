//! `woodlot domains fill`: from which domain memory comes. The machine has no memory here, only its metadata.

use std::fmt::Write;
use std::str::FromStr;

use clap::Args;
use serde::Serialize;
use woodlot_bench::Failure;
use woodlot_bench::output::Screen;
use woodlot_bench::size::Size;
use woodlot_compact::Fmfi;
use woodlot_domains::{
    DomainId, DomainSet, Domains, MAX_DOMAINS, NumaStats, Policy, Rounds, Setup, SetupError,
};
use woodlot_frame::{
    AllocError, Base4K, Construct, Init, METADATA_ALIGN, MetadataSize, Order, RawMetadata, Request,
    Slot,
};
use woodlot_llfree::LLFree;
use woodlot_onewrite::OneWrite;
use woodlot_pool::Engine;

use super::machine::MachineArgs;

/// What is allocated.
#[derive(Args, Debug)]
pub struct FillArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// From which domain: first-touch, prefer:N, round-robin, interleave, bind:N,M
    #[arg(long, default_value = "first-touch")]
    policy: Named,
    /// How much; by the slots in turn. Less, if there is no more
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    memory: Size,
    /// In blocks of this order
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=10))]
    order: u8,
}

/// A policy as the command line says it.
#[derive(Clone, Copy, Debug)]
enum Named {
    FirstTouch,
    Prefer(DomainId),
    RoundRobin,
    Interleave,
    Bind(DomainSet),
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Named, String> {
        let domain = |number: &str| {
            let small = number.parse().ok().filter(|&small: &u8| usize::from(small) < MAX_DOMAINS);
            small.map(DomainId).ok_or_else(|| format!("{number:?} is no domain"))
        };
        Ok(match text.split_once(':') {
            None if text == "first-touch" => Named::FirstTouch,
            None if text == "round-robin" => Named::RoundRobin,
            None if text == "interleave" => Named::Interleave,
            Some(("prefer", number)) => Named::Prefer(domain(number)?),
            Some(("bind", numbers)) => {
                let all: Result<Vec<_>, _> = numbers.split(',').map(domain).collect();
                Named::Bind(DomainSet::of(&all?))
            }
            _ => {
                return Err(
                    "it is first-touch, prefer:N, round-robin, interleave or bind:N,M".into()
                );
            }
        })
    }
}

/// What a domain was asked for, and gave, in frames: as numastat calls it.
#[derive(Serialize)]
struct Counted {
    domain: u8,
    numa_hit: u64,
    numa_miss: u64,
    numa_foreign: u64,
    interleave_hit: u64,
    local_node: u64,
    other_node: u64,
    free: usize,
    /// How fragmented that is, for huge frames: in thousandths, from counters.
    fmfi: i32,
}

/// Allocates, and prints from where.
///
/// # Errors
/// What is wrong with the machine.
pub fn fill(args: &FillArgs, screen: &mut Screen) -> Result<(), Failure> {
    match args.machine.engine {
        Engine::OneWrite => fill_in::<OneWrite<'_, Base4K>>(args, screen),
        _ => fill_in::<LLFree<'_, Base4K>>(args, screen),
    }
}

fn fill_in<A: Construct<Geometry = Base4K>>(
    args: &FillArgs,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let (firmware, mut present) = args.machine.read()?;
    let failed = |what: String| Failure::at(&args.machine.machine, what);
    let map = args.machine.map(&mut present)?;
    let distances = firmware.apart().map_err(|error| failed(error.to_string()))?;
    let all: Vec<DomainId> = map.domains().collect();
    let homes: Vec<_> = all.iter().copied().cycle().take(args.machine.slots as usize).collect();
    let setup = Setup::new(map, homes.len()).at_home(&homes).apart(distances);
    let mut memory = Vec::new();
    let metadata = |domain, MetadataSize { durable, volatile }| {
        let mut piece =
            |bytes| piece(&mut memory, bytes).ok_or(SetupError::TooSmall(domain, bytes));
        Ok(RawMetadata { durable: piece(durable)?, volatile: piece(volatile)? })
    };
    // SAFETY: the memory is new and initialised, nobody else's, and outlives the machine.
    let machine = unsafe { setup.make::<A>(metadata, Init::Free) };
    let machine = machine.map_err(|error| failed(error.to_string()))?;
    let taken = allocate(&machine, args, homes.len()).map_err(|error| failed(error.to_string()))?;
    let counted: Vec<_> = all.iter().map(|&domain| counted(&machine, domain)).collect();
    screen.print(&match args.machine.json {
        true => {
            serde_json::to_string_pretty(&counted).map_err(|cause| failed(cause.to_string()))?
                + "\n"
        }
        false => table(&counted, taken, args.memory.frames()),
    })
}

/// Memory that stays where it is, as the vector grows.
fn piece(memory: &mut Vec<Vec<u64>>, bytes: usize) -> Option<(*mut u8, usize)> {
    let mut words = Vec::new();
    words.try_reserve_exact(bytes.div_ceil(8) + METADATA_ALIGN / 8).ok()?;
    words.resize(words.capacity(), 0u64);
    let start = words.as_mut_ptr().cast::<u8>();
    memory.push(words);
    Some((start.wrapping_add(start.align_offset(METADATA_ALIGN)), bytes))
}

/// Allocates by the policy; how many frames.
fn allocate(
    machine: &Domains<'_, impl Construct>,
    args: &FillArgs,
    slots: usize,
) -> Result<usize, AllocError> {
    let (order, rounds) = (Order(args.order), Rounds::new());
    for page in 0..args.memory.frames() >> order.0 {
        let policy = match args.policy {
            Named::FirstTouch => Policy::FirstTouch,
            Named::Prefer(domain) => Policy::Prefer(domain),
            Named::RoundRobin => Policy::RoundRobin(&rounds),
            Named::Interleave => Policy::Interleave { page },
            Named::Bind(set) => Policy::Bind(set),
        };
        match machine.alloc_by(Request::movable(order, Slot(page % slots)), policy) {
            Ok(_) => {}
            Err(AllocError::OutOfMemory) => return Ok(page << order.0),
            Err(error) => return Err(error),
        }
    }
    Ok(args.memory.frames())
}

fn counted(machine: &Domains<'_, impl Construct>, domain: DomainId) -> Counted {
    let NumaStats { hit, miss, foreign, interleave_hit, local_node, other_node } =
        machine.numa_stats(domain);
    let stats = machine.stats_of(domain).unwrap_or_default();
    Counted {
        domain: domain.0,
        numa_hit: hit,
        numa_miss: miss,
        numa_foreign: foreign,
        interleave_hit,
        local_node,
        other_node,
        free: stats.free_frames,
        fmfi: Fmfi::of::<Base4K>(&stats).index(Order::huge::<Base4K>()),
    }
}

/// As numastat prints it: a column for each domain.
fn table(counted: &[Counted], taken: usize, asked: usize) -> String {
    let mut text = format!("{:<16}", "frames");
    counted.iter().for_each(|of| _ = write!(text, "{:>14}", format!("domain {}", of.domain)));
    type Row = (&'static str, fn(&Counted) -> i128);
    let rows: [Row; 8] = [
        ("numa_hit", |of| of.numa_hit.into()),
        ("numa_miss", |of| of.numa_miss.into()),
        ("numa_foreign", |of| of.numa_foreign.into()),
        ("interleave_hit", |of| of.interleave_hit.into()),
        ("local_node", |of| of.local_node.into()),
        ("other_node", |of| of.other_node.into()),
        ("free", |of| of.free as i128),
        ("fmfi", |of| of.fmfi.into()),
    ];
    for (name, of) in rows {
        let _ = write!(text, "\n{name:<16}");
        counted.iter().for_each(|domain| _ = write!(text, "{:>14}", of(domain)));
    }
    text.push('\n');
    if taken < asked {
        let _ = writeln!(text, "there was no more than {taken} of {asked} frames");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use woodlot_domains::{Map, Present};
    use woodlot_frame::FrameId;

    #[test]
    fn each_domain_says_how_fragmented_it_is() {
        let present = |number: usize, domain| {
            Present::new(FrameId(number * 2048)..FrameId((number + 1) * 2048), DomainId(domain))
        };
        let mut ranges = [present(0, 0), present(1, 1)];
        let setup = Setup::new(Map::new(&mut ranges).expect("it is right"), 1);
        let mut memory = Vec::new();
        let mut piece = |bytes| piece(&mut memory, bytes).expect("it is small");
        let metadata = |_, MetadataSize { durable, volatile }| {
            Ok(RawMetadata { durable: piece(durable), volatile: piece(volatile) })
        };
        // SAFETY: the memory is new and initialised, nobody else's, and outlives the machine.
        let machine = unsafe { setup.make::<LLFree<'_, Base4K>>(metadata, Init::Free) };
        let machine = machine.expect("it is right");
        let one = Request::movable(Order(0), Slot(0));
        machine.alloc_by(one, Policy::Prefer(DomainId(1))).expect("there is memory");
        let counted = [0, 1].map(|domain| counted(&machine, DomainId(domain)));
        // 3 huge frames and 511 single ones: 1 - (2047 / 512) / 514.
        assert_eq!(counted.each_ref().map(|of| of.fmfi), [0, 993]);
        let table = table(&counted, 1, 1);
        let last = table.lines().last().expect("it has lines");
        assert_eq!(last.split_whitespace().collect::<Vec<_>>(), ["fmfi", "0", "993"]);
    }
}
