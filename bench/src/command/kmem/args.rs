//! Its arguments.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::Args;
use clap::builder::PathBufValueParser;

use crate::command::values::range;
use crate::kmem::{Contenders, Interface, Libraries, MOST_CPUS, What};
use crate::size::Size;

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
    /// what the program was built with; by its name alone kmem-onewrite, over
    /// the one-write engine [default: all]
    #[arg(long, value_name = "NAMES")]
    pub engine: Option<Contenders>,
    /// For preload, memory, returned and check: what is preloaded, separated by commas, or all: glibc, woodlot,
    /// jemalloc, tcmalloc, mimalloc, snmalloc, or NAME=FILE [default: all that are there]
    #[arg(long, value_name = "NAMES")]
    pub library: Option<Libraries>,
    /// The sizes of blocks, separated by commas: powers of two from 16 to 4096 [default: 32,256,2048
    /// for pair and instructions, all nine for worst and emptied, 16,256,4096 for producer-consumer, 64,1024,4096 for returned, 16,64 for
    /// cache-scratch; for preload as for its three]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = power_of_two)]
    pub bytes: Vec<usize>,
    /// How many threads, separated by commas, or a range such as 1-4 [default: 1 and all CPUs for
    /// pair, churn and larson, all CPUs, 2 at least, for cache-scratch, all CPUs for lock-manager, 4
    /// for emptied]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = range::<1, { MOST_CPUS as u16 }>)]
    pub threads: Vec<RangeInclusive<u16>>,
    /// How many bytes of blocks worst, waste, memory and returned have in use, and how many emptied has, 4MiB to
    /// 1GiB
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pub memory: Size,
    /// For worst, preload and check: how often the sizes come one after another; of several rounds the
    /// first one gets the memory, and its times do not count [default: 1, for check 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: Option<u32>,
    /// For returned: how many seconds a program with little to do goes on when everything is free
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=600))]
    pub idle: u64,
    /// How often everything is measured, after a first time that does not count
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repetitions: u32,
    /// How many pairs, blocks, writes or transactions each repetition does at least [default: 262144
    /// for producer-consumer and lock-manager, 65536 for purity, otherwise 1048576]; for transfers
    /// how many pairs each CPU makes [default: 128, 4096 at most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub operations: Option<u32>,
    /// For check: the targets [default: bench/kmem-targets.toml of the repository, as it was when
    /// this was built]
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new())]
    pub targets: Option<PathBuf>,
    /// For check: only targets whose name or row contains this
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// What random choices follow from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write everything to a file, every repetition included
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new())]
    pub json: Option<PathBuf>,
}

impl KmemArgs {
    /// Who is measured.
    pub(super) fn contenders(&self) -> Contenders {
        self.engine.clone().unwrap_or_default()
    }
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

/// A case that another process of this program asks for.
#[derive(Args, Debug)]
pub struct KmemSampleArgs {
    /// Which, as JSON
    pub ask: String,
}
