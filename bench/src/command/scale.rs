//! `bench scale`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::builder::PathBufValueParser;
use serde::Serialize;
use woodlot_frame::Order;

use super::values::{numbers, once, range, tenths};
use crate::Failure;
use crate::engine::{Engine, Engines};
use crate::output::{Machine, Screen, check_writable, note, progress, write_files};
use crate::patterns::Placement;
use crate::scale::{Costs, Load, Scaled, Setup, describe, scale, svg};

/// What else there is to know.
pub(super) const SLOW: &str = "\
Each access of the allocator is a page fault here, 30 microseconds: two CPUs take seconds, and a sweep of an engine that looks \
far takes hours. `cargo xtask scale`, with the same arguments, has atomics that tell of each access, and takes seconds.";

/// What is simulated.
#[derive(Args, Debug)]
pub struct ScaleArgs {
    /// Who is simulated, separated by commas, or all that keep the contract
    #[arg(long, value_name = "NAMES", default_value = "llfree,onewrite,nbbs,nbbs-4level,linux,list-cas", value_parser = engines)]
    pub engine: Engines,
    /// How CPUs ask for blocks, separated by commas
    #[arg(
        long,
        value_enum,
        value_name = "LOADS",
        value_delimiter = ',',
        default_value = "bulk,random,repeat,churn,out-of-step,ring,remote"
    )]
    pub load: Vec<Load>,
    /// The sizes of blocks, 0 to 10, separated by commas, or a range
    #[arg(long, value_name = "ORDERS", value_delimiter = ',', default_value = "0", value_parser = range::<0, 10>)]
    pub order: Vec<RangeInclusive<u16>>,
    /// In churn: how full memory is, in percent, to a tenth, separated by commas
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "50", value_parser = tenths)]
    pub fill: Vec<f64>,
    /// In churn: where that lies, separated by commas; packed is another word for row, spread for random
    #[arg(long, value_enum, value_name = "WHERE", value_delimiter = ',', default_value = "packed")]
    pub placement: Vec<Placement>,
    /// How many CPUs, 1 to 256, separated by commas, or a range
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,2,4,8,16,32,64,128,256", value_parser = range::<1, 256>)]
    pub cpus: Vec<RangeInclusive<u16>>,
    /// How many blocks a list has, in bulk, random, ring and remote; out of step: at most
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=8192))]
    pub list: u16,
    /// How many calls each CPU makes before any is counted
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub warm: u32,
    /// How many calls are counted at least, of all CPUs together
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub calls: u32,
    /// Nanoseconds of a read of a line that the CPU has
    #[arg(long, value_name = "NS", default_value_t = 0.5, value_parser = nanoseconds)]
    pub read: f64,
    /// Of a write or read-modify-write of a line that it alone has
    #[arg(long, value_name = "NS", default_value_t = 2.5, value_parser = nanoseconds)]
    pub write: f64,
    /// Of a line that comes from another CPU
    #[arg(long, value_name = "NS", default_value_t = 60.0, value_parser = nanoseconds)]
    pub transfer: f64,
    /// What random choices follow from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write everything to a file
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new())]
    pub json: Option<PathBuf>,
    /// Draw it to a file
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new())]
    pub svg: Option<PathBuf>,
}

fn engines(text: &str) -> Result<Engines, String> {
    Engines::among(text, Engine::keeps_contract)
}

fn nanoseconds(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1e6).contains(number));
    number.ok_or_else(|| "expected nanoseconds, at most a million".into())
}

/// What is written.
#[derive(Serialize)]
struct Document<'a> {
    machine: &'a Machine,
    results: &'a [Scaled],
    not_simulated: &'a [String],
}

/// Every order and load; of churn also every fill and placement.
fn setups(args: &ScaleArgs) -> Vec<Setup> {
    let costs = Costs { read: args.read, write: args.write, transfer: args.transfer };
    let fills = once(args.fill.iter().copied());
    let before = once(args.placement.iter().copied())
        .into_iter()
        .flat_map(|placement| fills.iter().map(move |&fill| (placement, fill)))
        .collect::<Vec<_>>();
    let mut setups = Vec::new();
    for order in numbers(&args.order) {
        for load in once(args.load.iter().copied()) {
            let before = if load == Load::Churn { &before[..] } else { &before[..1] };
            setups.extend(before.iter().map(|&(placement, fill)| Setup {
                load,
                order: Order(order as u8),
                fill: (fill * 10.0).round() as usize,
                placement,
                list: args.list.into(),
                warm: args.warm as usize,
                calls: args.calls as usize,
                costs,
                seed: args.seed,
            }));
        }
    }
    setups
}

/// Simulates CPUs that use an allocator, and counts the lines that move between them.
///
/// # Errors
/// Nothing could be simulated, or a file cannot be written.
pub fn scale_command(args: &ScaleArgs) -> Result<ExitCode, Failure> {
    let (mut screen, machine) = (Screen::default(), Machine::here());
    check_writable(args.json.as_deref().into_iter().chain(args.svg.as_deref()))?;
    let (setups, cpus) = (setups(args), numbers(&args.cpus));
    screen.print(&format!(
        "simulated CPUs, a call at a time; a read {} ns, a write {} ns, a line from another CPU {} ns\n\n",
        args.read, args.write, args.transfer
    ))?;
    let bar = progress("scale", setups.len() * args.engine.0.len() * cpus.len());
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for setup in &setups {
        for &engine in &args.engine.0 {
            for &cpus in &cpus {
                match scale(engine, setup, cpus.into()) {
                    Ok(scaled) => found.push(scaled),
                    Err(why) => missing.push(format!("{}, {cpus} CPUs: {why}", setup.load.name())),
                }
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    missing.iter().for_each(|why| note(why));
    if found.is_empty() {
        return Err(Failure::Failed("nothing could be simulated".into()));
    }
    screen.print(&describe(&found))?;
    let mut files = Vec::new();
    if let Some(path) = &args.json {
        let document = Document { machine: &machine, results: &found, not_simulated: &missing };
        let failed = |cause: serde_json::Error| Failure::Failed(format!("as JSON: {cause}"));
        files.push((path.clone(), serde_json::to_vec_pretty(&document).map_err(failed)?));
    }
    if let Some(path) = &args.svg {
        files.push((path.clone(), svg(&found)?.into_bytes()));
    }
    write_files(&files)?;
    files.iter().try_for_each(|(path, _)| screen.print(&format!("wrote {}\n", path.display())))?;
    Ok(ExitCode::SUCCESS)
}
