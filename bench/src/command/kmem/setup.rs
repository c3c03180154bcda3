//! What was asked for, completed; and in words.

use super::args::KmemArgs;
use crate::Failure;
use crate::command::values::{numbers, once};
use crate::kmem::{Contenders, EMPTIED_CPUS, LINKED, LOOPS, Libraries, MOST_CPUS, Setup, What};
use crate::output::Machine;
use crate::size::Size;

/// The most bytes of blocks: the heap that is measured has twice as much memory.
const MOST_MEMORY: Size = Size::gib(1);
/// The most rounds of *transfers*, each access of which takes two signals.
const MOST_ROUNDS: usize = 4096;

fn refused<T>(args: &KmemArgs, why: &str) -> Result<T, Failure> {
    Err(Failure::Usage(format!("{}: {why}", args.what)))
}

/// The setup of the benchmark.
///
/// # Errors
/// The arguments make no sense together.
pub fn setup(args: &KmemArgs) -> Result<Setup, Failure> {
    check(args)?;
    let setup = setup_of(args.what, args);
    if args.what == What::Transfers && setup.operations > MOST_ROUNDS {
        let why = format!("{} pairs for each CPU are more than {MOST_ROUNDS}", setup.operations);
        return refused(args, &why);
    }
    Ok(setup)
}

fn check(args: &KmemArgs) -> Result<(), Failure> {
    let named = numbers(&args.threads);
    match args.what {
        What::LockManager | What::Emptied if named.len() > 1 => {
            return refused(args, "one number of threads at a time");
        }
        What::Worst
        | What::Zeroed
        | What::Waste
        | What::Instructions
        | What::Memory
        | What::Returned
            if named.iter().any(|&n| n != 1) =>
        {
            return refused(args, "it has one thread");
        }
        What::ProducerConsumer if named.iter().any(|&n| n != 2) => {
            return refused(args, "it has two threads");
        }
        What::Preload if !named.is_empty() => {
            return refused(args, "each loop has its threads: --threads is not for it");
        }
        What::Check if !named.is_empty() => {
            return refused(args, "the targets say how many threads: --threads is not for it");
        }
        What::Purity | What::Transfers if !named.is_empty() => {
            return refused(args, "one thread plays its CPUs: --threads is not for it");
        }
        _ => {}
    }
    let own_sizes = [
        What::Churn,
        What::Larson,
        What::Memory,
        What::LockManager,
        What::Waste,
        What::Purity,
        What::Transfers,
        What::Check,
    ];
    if !args.bytes.is_empty() && own_sizes.contains(&args.what) {
        return refused(args, "its sizes are its own: --bytes is not for it");
    }
    let preloads = [What::Preload, What::Memory, What::Returned, What::Check];
    if args.library.is_some() && !preloads.contains(&args.what) {
        return refused(
            args,
            "nothing is preloaded: --library is for preload, memory, returned and check",
        );
    }
    if args.rounds.is_some() && !matches!(args.what, What::Worst | What::Preload | What::Check) {
        return refused(args, "it has no rounds: --rounds is for worst, preload and check");
    }
    if args.idle > 0 && args.what != What::Returned {
        return refused(args, "nobody waits: --idle is for returned");
    }
    if (args.targets.is_some() || args.only.is_some()) && args.what != What::Check {
        return refused(args, "it has no targets: --targets and --only are for check");
    }
    let own_heap = [
        What::Preload,
        What::LockManager,
        What::Waste,
        What::Purity,
        What::Transfers,
        What::Emptied,
        What::Check,
    ];
    if args.engine.is_some() && own_heap.contains(&args.what) {
        return refused(args, "whom it measures is its own: --engine is not for it");
    }
    if args.memory > MOST_MEMORY {
        return refused(args, &format!("--memory {} is more than {MOST_MEMORY}", args.memory));
    }
    Ok(())
}

/// The setup of a benchmark, or of one that *preload* runs.
pub fn setup_of(what: What, args: &KmemArgs) -> Setup {
    let (named, cpus) = (numbers(&args.threads), Machine::here().cpus().min(MOST_CPUS));
    let threads: Vec<usize> = match what {
        _ if args.what == What::Preload => vec![1],
        What::Pair | What::Churn | What::Larson if named.is_empty() => once([1, cpus]),
        What::CacheScratch if named.is_empty() => vec![cpus.max(2)],
        What::LockManager if named.is_empty() => vec![cpus],
        What::Emptied if named.is_empty() => vec![EMPTIED_CPUS],
        _ => named.into_iter().map(usize::from).collect(),
    };
    let bytes: Vec<usize> = match what {
        _ if !args.bytes.is_empty() => once(args.bytes.iter().copied()),
        What::Zeroed => vec![4096, 64 << 10, 1 << 20],
        What::Worst | What::Emptied => (4..=12).map(|log| 1 << log).collect(),
        What::ProducerConsumer => vec![16, 256, 4096],
        What::Returned => vec![64, 1024, 4096],
        What::CacheScratch => vec![16, 64],
        _ => Setup::default().bytes,
    };
    let operations = match (args.operations, what) {
        (Some(named), _) => named as usize,
        (None, What::ProducerConsumer | What::LockManager) => 1 << 18,
        (None, What::Purity) => 1 << 16,
        (None, What::Transfers) => 128,
        (None, _) => 1 << 20,
    };
    let (memory, seed) = (args.memory, args.seed);
    let rounds = args.rounds.unwrap_or(if args.what == What::Check { 3 } else { 1 }) as usize;
    Setup { threads, bytes, operations, memory, rounds, idle: args.idle, seed }
}

/// What is done, and who does it.
pub fn describe_setup(
    args: &KmemArgs,
    setup: &Setup,
    contenders: &Contenders,
    libraries: &Libraries,
) -> String {
    let Setup { operations, memory, seed, .. } = setup;
    let mut text = format!("kmem {}: seed {seed}, ", args.what);
    text += &match args.what {
        What::Waste | What::Memory | What::Emptied => format!("{memory}\n"),
        What::Check => format!("{memory}, CPU time, medians of {} repetitions\n", args.repetitions),
        What::Instructions => "callgrind\n".into(),
        What::LockManager => {
            let threads = setup.threads.last().copied().unwrap_or(1);
            format!("{operations} transactions, {threads} threads, powers of two\n")
        }
        What::Worst => {
            let Setup { rounds, .. } = setup;
            format!("{memory}, {} repetitions, {rounds} rounds\n", args.repetitions)
        }
        What::Returned => {
            format!("{memory}, {} repetitions, {} s idle\n", args.repetitions, args.idle)
        }
        What::Zeroed => format!("{memory}, {} repetitions\n", args.repetitions),
        What::Purity => format!("{operations} allocations, 256 B\n"),
        What::Transfers => format!("{operations} pairs for each CPU, 256 B\n"),
        What::Preload => {
            let loops = LOOPS.map(|what| match what {
                What::Worst => format!("{what} {memory}, {} rounds", setup.rounds),
                _ => format!("{what} {} operations", setup_of(what, args).operations),
            });
            format!("{}, {} repetitions\n", loops.join(", "), args.repetitions)
        }
        _ => format!("{operations} operations, {} repetitions\n", args.repetitions),
    };
    for contender in &contenders.0 {
        text += &format!("  {:<16} {}\n", contender.name(), contender.about());
    }
    for child in &libraries.found {
        let file =
            child.library.as_ref().map_or(String::new(), |file| format!(", {}", file.display()));
        text += &format!("  {:<16} preloaded: {}{file}\n", child.name, child.about);
    }
    for why in &libraries.missing {
        text += &format!("  not there: {why}\n");
    }
    if args.what == What::Check {
        let is_there = |name: &&str| contenders.0.iter().any(|one| one.name() == *name);
        let missing: Vec<&str> = LINKED.into_iter().filter(|name| !is_there(name)).collect();
        if !missing.is_empty() {
            let missing = missing.join(", ");
            text += &format!("  not linked in: {missing}: the program of bench/mallocs has them\n");
        }
    }
    text + "\n"
}
