//! `bench kmem`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::builder::PathBufValueParser;
use serde::Serialize;
use woodlot_kmem::{Octaves, Quarters};

use super::values::{numbers, once, range};
use crate::Failure;
use crate::kmem::{
    self, Contenders, Interface, MOST_CPUS, OneBlock, Setup, What, describe, describe_locks,
    describe_waste, document, lock_manager, make_pairs, waste,
};
use crate::output::{Machine, Screen, check_writable, progress, write_files};
use crate::size::Size;

/// The most bytes of blocks: the heap that is measured has twice as much memory.
const MOST_MEMORY: Size = Size::gib(1);

/// A size of blocks: one of the paper's.
fn power_of_two(text: &str) -> Result<usize, String> {
    let bytes = text.parse().ok().filter(|bytes: &usize| bytes.is_power_of_two());
    bytes
        .filter(|bytes| (16..=4096).contains(bytes))
        .ok_or_else(|| "expected a power of two from 16 to 4096".into())
}

/// What to measure of heaps, and how.
#[derive(Args, Debug)]
pub struct KmemArgs {
    /// The benchmark
    #[arg(value_enum)]
    pub what: What,
    /// Who is measured, separated by commas, or all: kmem, malloc, system, and
    /// what the program was built with
    #[arg(long, value_name = "NAMES", default_value = "all")]
    pub engine: Contenders,
    /// The sizes of blocks, separated by commas: powers of two from 16 to 4096 [default: 32,256,2048
    /// for pair and instructions, all nine for worst, 16,256,4096 for producer-consumer]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = power_of_two)]
    pub bytes: Vec<usize>,
    /// How many threads, separated by commas, or a range such as 1-4 [default: 1 and all CPUs for
    /// pair and churn, all CPUs for lock-manager]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = range::<1, { MOST_CPUS as u16 }>)]
    pub threads: Vec<RangeInclusive<u16>>,
    /// How many bytes of blocks worst and waste have in use, 4MiB to 1GiB
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pub memory: Size,
    /// How often everything is measured, after a first time that does not count
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repetitions: u32,
    /// How many pairs, blocks or transactions each repetition does at least [default: 262144 for
    /// producer-consumer and lock-manager, otherwise 1048576]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub operations: Option<u32>,
    /// What random choices follow from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write everything to a file, every repetition included
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new())]
    pub json: Option<PathBuf>,
}

/// A run that is counted: so many pairs, and nothing else.
#[derive(Args, Debug)]
pub struct KmemPairsArgs {
    /// The loop alone, around a heap that does nothing
    #[arg(long)]
    pub bare: bool,
    /// Who
    pub engine: Contenders,
    /// Bytes of a block
    #[arg(value_parser = power_of_two)]
    pub bytes: usize,
    /// How the size is said
    #[arg(value_enum)]
    pub interface: Interface,
    /// How many pairs
    pub pairs: usize,
}

/// Makes pairs, for callgrind.
///
/// # Errors
/// There is no memory.
pub fn kmem_pairs(args: &KmemPairsArgs) -> Result<ExitCode, Failure> {
    let size = (args.bytes, args.interface);
    let make = |contender| make_pairs(contender, size, args.pairs);
    match args.bare {
        true => make(&OneBlock)?,
        false => args.engine.0.iter().try_for_each(|&contender| make(contender))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Instructions of a pair.
#[derive(Serialize)]
struct Count {
    contender: &'static str,
    bytes: usize,
    interface: Interface,
    instructions: Option<f64>,
    not_counted: Option<String>,
}

/// Measures heaps.
///
/// # Errors
/// When the arguments make no sense together, or nothing could be measured.
pub fn kmem(args: &KmemArgs) -> Result<ExitCode, Failure> {
    let (mut screen, machine, setup) = (Screen::default(), Machine::here(), setup(args)?);
    check_writable(args.json.as_deref())?;
    screen.print(&machine.describe())?;
    screen.print(&describe_setup(args, &setup))?;
    let (text, bytes) = match args.what {
        What::LockManager => {
            let threads = setup.threads.last().copied().unwrap_or(1);
            let rows = lock_manager::<Octaves>(threads, &setup)?;
            (describe_locks(&rows), document(args.what, &setup, &machine, &rows)?)
        }
        What::Waste => {
            let rows = [
                ("powers of two", waste::<Octaves>(&setup)?),
                ("four sizes an octave", waste::<Quarters>(&setup)?),
            ];
            let text = rows.iter().map(|(sizes, rows)| describe_waste(sizes, rows)).collect();
            (text, document(args.what, &setup, &machine, &rows)?)
        }
        What::Instructions => {
            let counts = counts(args, &setup);
            (describe_counts(&counts)?, document(args.what, &setup, &machine, &counts)?)
        }
        _ => {
            let repetitions = args.repetitions as usize;
            let steps = (repetitions + 1) * setup.cases(args.what).len() * args.engine.0.len();
            let bar = progress("kmem", steps);
            let kept =
                kmem::measure(args.what, &args.engine, (&setup, repetitions), &|| bar.inc(1));
            bar.finish_and_clear();
            let kept = kept?;
            (describe(&kept), document(args.what, &setup, &machine, &kept)?)
        }
    };
    screen.print(&text)?;
    if let Some(path) = &args.json {
        write_files(&[(path.clone(), bytes)])?;
        screen.print(&format!("wrote {}\n", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What was asked for, completed.
fn setup(args: &KmemArgs) -> Result<Setup, Failure> {
    let refused = |why: &str| Err(Failure::Usage(format!("{}: {why}", args.what)));
    let (named, cpus) = (numbers(&args.threads), Machine::here().cpus().min(MOST_CPUS));
    let threads: Vec<usize> = match args.what {
        What::Pair | What::Churn if named.is_empty() => once([1, cpus]),
        What::LockManager if named.is_empty() => vec![cpus],
        What::LockManager if named.len() > 1 => return refused("one number of threads at a time"),
        What::Worst | What::Waste | What::Instructions if named.iter().any(|&n| n != 1) => {
            return refused("it has one thread");
        }
        What::ProducerConsumer if named.iter().any(|&n| n != 2) => {
            return refused("it has two threads");
        }
        _ => named.into_iter().map(usize::from).collect(),
    };
    let bytes: Vec<usize> = match args.what {
        What::Churn | What::LockManager | What::Waste if !args.bytes.is_empty() => {
            return refused("its sizes are its own: --bytes is not for it");
        }
        _ if !args.bytes.is_empty() => once(args.bytes.iter().copied()),
        What::Worst => (4..=12).map(|log| 1 << log).collect(),
        What::ProducerConsumer => vec![16, 256, 4096],
        _ => Setup::default().bytes,
    };
    if args.memory > MOST_MEMORY {
        return refused(&format!("--memory {} is more than {MOST_MEMORY}", args.memory));
    }
    let operations = match (args.operations, args.what) {
        (Some(named), _) => named as usize,
        (None, What::ProducerConsumer | What::LockManager) => 1 << 18,
        (None, _) => 1 << 20,
    };
    let (memory, seed) = (args.memory, args.seed);
    Ok(Setup { threads, bytes, operations, memory, seed })
}

fn describe_setup(args: &KmemArgs, setup: &Setup) -> String {
    let Setup { operations, memory, seed, .. } = setup;
    let mut text = format!("kmem {}: seed {seed}, ", args.what);
    text += &match args.what {
        What::Waste => format!("{memory}\n"),
        What::Instructions => "callgrind\n".into(),
        What::LockManager => {
            let threads = setup.threads.last().copied().unwrap_or(1);
            format!("{operations} transactions, {threads} threads, powers of two\n")
        }
        What::Worst => format!("{memory}, {} repetitions\n", args.repetitions),
        _ => format!("{operations} operations, {} repetitions\n", args.repetitions),
    };
    for contender in &args.engine.0 {
        text += &format!("  {:<16} {}\n", contender.name(), contender.about());
    }
    text + "\n"
}

fn counts(args: &KmemArgs, setup: &Setup) -> Vec<Count> {
    let mut counts = Vec::new();
    for &bytes in &setup.bytes {
        for interface in [Interface::Cookie, Interface::Standard] {
            for &contender in &args.engine.0 {
                let count = kmem::count(contender, bytes, interface);
                let not_counted = count.as_ref().err().map(ToString::to_string);
                let (contender, instructions) = (contender.name(), count.ok());
                counts.push(Count { contender, bytes, interface, instructions, not_counted });
            }
        }
    }
    counts
}

fn describe_counts(counts: &[Count]) -> Result<String, Failure> {
    let mut text = String::from("instructions of a pair, without the loop's own\n");
    for Count { contender, bytes, interface, instructions, not_counted } in counts {
        let found = match instructions {
            Some(count) => format!("{count:.1}"),
            None => not_counted.clone().unwrap_or_default(),
        };
        text += &format!("{contender:<16} {bytes:>4} B, {interface:<8} {found}\n");
    }
    match counts.iter().find_map(|count| count.not_counted.as_ref()) {
        Some(why) if counts.iter().all(|count| count.instructions.is_none()) => {
            Err(Failure::Failed(why.clone()))
        }
        _ => Ok(text),
    }
}
