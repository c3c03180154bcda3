//! The command line.

use std::path::PathBuf;

use clap::builder::PathBufValueParser;
use clap::{Args, Parser, Subcommand};
use woodlot_bench::command::{
    BenchArgs, FragArgs, InstructionsArgs, KmemPairsArgs, KmemSampleArgs,
};
use woodlot_bench::engine::{Engine, Engines};
use woodlot_bench::{instructions, kmem};

#[cfg(target_os = "linux")]
use crate::crash::{self, ChildArgs, CrashArgs};
use crate::domains::DomainsCommand;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
use crate::kmem::KmemCommand;
use crate::replay::ZoneLayout;
use crate::report::ReportArgs;
#[cfg(target_os = "linux")]
use crate::top::TopArgs;
#[cfg(target_os = "linux")]
use crate::zone::ZoneCommand;

const EXAMPLES: &str = "\
Examples:
  woodlot
      Replay the three traces that ship (boot, build, pressure) on LLFree, print what it keeps
      whole beside what Linux kept, and draw the curves to woodlot-out/.
  woodlot replay 4-pressure.trace.txt.xz
      The same for a trace of your own; its start-owned, hidden-owned and curve files are looked
      for beside it.
  woodlot replay --threads --zones linux trace.wtrace
      A thread for each CPU, an allocator for each of Linux's zones.
  woodlot --engine llfree,nbbs,linux
      The shipped traces on three engines, on one chart beside Linux's own curve.
  woodlot trace convert 2-build.trace.txt.xz build.wtrace
      Into the compact form: a tenth of the size, read in a tenth of a second.
  woodlot trace info build.wtrace
      What is in a trace.
  woodlot bench repeat --engine llfree,linux --order 0,9
      What a pair of calls costs, beside what the processor's atomics cost in the same run.
  woodlot bench repeat --threads 1,2 --order 0-10 --fill 50,90 --csv sweep.csv
      Every combination, in one run; what is finished is in the file while it goes on.
  woodlot bench thread-test --engine nbbs,linux-no-pcp --threads 2 --fill 50
      A benchmark of the NBBS paper, in a zone of which a random half is in use.
  woodlot bench churn --engine llfree,linux --svg churn.svg
      One of many blocks freed at random and one allocated: time, and the huge frames that stay free.
  woodlot bench out-of-step
      Threads that do not do the same at the same time, beside the same in step.
  woodlot bench scale --engine llfree,linux --svg scale.svg
      Simulated CPUs, 1 to 256: cache lines that move between them, and which.
  woodlot bench kmem pair
      The kernel memory allocator over page frames, beside malloc: the paper's benchmarks.
  woodlot bench kmem preload
      The same loops through malloc and free, with each heap that is installed preloaded.
  woodlot bench domains --svg batches.svg
      Batches of pages from two domains, beside one by one with a mutex, as the FreeBSD paper has it.
  woodlot bench --check
      Measure every target of this repository and say which are met.
  woodlot frag --slots 8
      Fill, free at random, and watch huge frames come back.
  woodlot report --quick --out report
      The papers' figures on this machine, in three minutes: open report/index.html.
  woodlot report --compare old/report.json new/report.json
      What is faster and slower, as far as the noise lets one say.
  woodlot zone create pool.zone --memory 128GiB
      A file with the metadata of a zone that survives; then zone info, verify and repair.
  woodlot zone map pool.zone --out map.png
      Every huge frame of a zone as a cell; without --out in the terminal.
  woodlot top pool.zone
      A zone in use, live.
  woodlot domains map /sys
      The memory of a machine, from a kernel's log, a device tree, E820, UEFI or Linux: domains, holes, metadata.
  woodlot kmem stat 4711
      The heap of a program that runs with libwoodlot_malloc.so preloaded: blocks and misses by size.
  woodlot crash --kills 10000
      Processes that share a zone, killed at any moment; what is left is compared with a log.

Exit code: 0 when all is well, 1 when something failed, 2 for a wrong command line, 130 for Ctrl-C.";

/// Page-frame allocators on real load: replays what a Linux kernel asked of its page allocator on
/// Woodlot's, and shows how many huge frames each keeps whole.
///
/// Without a command it does so for three traces that ship with the program.
#[derive(Parser, Debug)]
#[command(name = "woodlot", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// What to do instead of the main job.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// How to do the main job.
    #[command(flatten)]
    pub replay: ReplayArgs,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Replay traces of your own
    Replay {
        /// Traces: text as ftrace prints it, plain, .xz or .zst, or the compact form
        #[arg(required = true, value_name = "FILE", value_parser = PathBufValueParser::new())]
        files: Vec<PathBuf>,
        #[command(flatten)]
        lists: Lists,
        #[command(flatten)]
        replay: ReplayArgs,
    },
    /// Convert and inspect traces
    #[command(subcommand)]
    Trace(TraceCommand),
    /// Measure allocators against the processor, each other and the targets
    #[command(after_help = Engine::list())]
    Bench(Box<BenchArgs>),
    /// Fragment memory and see what recovers (LLFree section 5.6)
    #[command(after_help = Engine::list())]
    Frag(FragArgs),
    /// Measure what the papers measure and draw their figures, as one page
    Report(ReportArgs),
    /// Look at the memory of a machine: what firmware says, and from which domain memory comes
    #[command(subcommand)]
    Domains(DomainsCommand),
    /// Make, inspect and repair files that hold a zone
    #[cfg(target_os = "linux")]
    #[command(subcommand)]
    Zone(ZoneCommand),
    /// Watch a zone file that is in use: free memory, classes, slots and huge frames, live
    #[cfg(target_os = "linux")]
    Top(TopArgs),
    /// Look at the heap of a program that runs with libwoodlot_malloc.so
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    #[command(subcommand)]
    Kmem(KmemCommand),
    /// Kill processes that share a zone, at random moments, and compare what is left with a log
    #[cfg(target_os = "linux")]
    Crash(CrashArgs),
    /// A process of crash
    #[cfg(target_os = "linux")]
    #[command(name = crash::VERB, hide = true)]
    CrashProcess(ChildArgs),
    /// Count the instructions of an allocation and its free (cargo xtask callgrind); bench --check runs it
    #[command(name = instructions::VERB, hide = true)]
    Instructions(InstructionsArgs),
    /// Pairs of an allocation and its free, for counting them: what bench kmem instructions runs
    #[command(name = kmem::VERB, hide = true)]
    KmemPairs(KmemPairsArgs),
    /// A case of bench kmem, in a process of its own: what bench kmem preload and memory run
    #[command(name = kmem::SAMPLE_VERB, hide = true)]
    KmemSample(KmemSampleArgs),
}

/// What can be done with a trace.
#[derive(Subcommand, Debug)]
pub enum TraceCommand {
    /// Write a trace in the compact form, with its lists and its part of Linux's curve
    Convert {
        /// The trace to read
        #[arg(value_name = "IN", value_parser = PathBufValueParser::new())]
        from: PathBuf,
        /// The file to write; .wtrace is the custom
        #[arg(value_name = "OUT", value_parser = PathBufValueParser::new())]
        to: PathBuf,
        /// What to call it in reports; otherwise what its file is called
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        lists: Lists,
    },
    /// Say what is in a trace
    Info {
        /// The trace to read
        #[arg(value_parser = PathBufValueParser::new())]
        file: PathBuf,
        #[command(flatten)]
        lists: Lists,
    },
}

/// Files that belong to a text trace.
#[derive(Args, Debug, Default)]
pub struct Lists {
    /// Who owns which frames at the start [default: NAME.start-owned.txt beside the trace]
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new())]
    pub start_owned: Option<PathBuf>,
    /// Frames that are owned throughout [default: hidden-owned.txt beside the trace]
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new())]
    pub hidden_owned: Option<PathBuf>,
    /// Linux's own curve [default: curve.csv beside the trace]
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new())]
    pub curve: Option<PathBuf>,
}

/// The engines that can serve a trace.
fn replayed(text: &str) -> Result<Engines, String> {
    let foreign = |name: &str| name.parse::<Engine>().is_ok_and(|engine| !engine.keeps_contract());
    let why = match text.split(',').find(|&name| foreign(name)) {
        Some(name) => {
            format!("{name} does not keep woodlot_frame's contract, which a replay needs: ")
        }
        None => String::new(),
    };
    Engines::among(text, Engine::keeps_contract).map_err(|expected| why + &expected)
}

/// How to replay.
#[derive(Args, Debug)]
pub struct ReplayArgs {
    /// Where figures and data go; made if it is not there. docs/csv.md in the repository has the
    /// columns of the data
    #[arg(long, value_name = "DIR", default_value = "woodlot-out", value_parser = PathBufValueParser::new())]
    pub out: PathBuf,
    /// Who serves the trace, separated by commas, or all: llfree, nbbs, nbbs-4level, linux,
    /// linux-no-pcp, list-locked, list-cas, list-local. What an engine cannot do is done otherwise,
    /// and said
    #[arg(long, value_name = "NAMES", default_value = "llfree", value_parser = replayed)]
    pub engine: Engines,
    /// How frames are divided among allocators
    #[arg(long, value_enum, default_value_t)]
    pub zones: ZoneLayout,
    /// Replay each CPU's events on a thread of its own; checks the end, draws no curve
    #[arg(long)]
    pub threads: bool,
    /// A daemon compacts beside: movable frames of the trace may move, the others stay. Not with --threads
    #[arg(long, conflicts_with = "threads")]
    pub compact: bool,
    /// The daemon rests where no more than so many thousandths of the free memory could be won as huge frames
    #[arg(long, value_name = "THOUSANDTHS", default_value_t = 50, requires = "compact", value_parser = clap::value_parser!(u16).range(..=1000))]
    pub gain: u16,
    /// The daemon does not empty a huge frame of which more base frames are in use
    #[arg(long, value_name = "FRAMES", default_value_t = 512, requires = "compact", value_parser = clap::value_parser!(u16).range(..=512))]
    pub price: u16,
    /// How often the calls are made again, with nothing between them, to measure their time; 0
    /// measures nothing. Not with --threads
    #[arg(long, value_name = "N", default_value_t = 5, conflicts_with = "threads", value_parser = clap::value_parser!(u32).range(..=1000))]
    pub rounds: u32,
    /// Replay from so many starts, which differ by 113 frames each that the first CPU has allocated and freed before, and say how much
    /// of the result is chance. Not with --threads or --compact
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with_all = ["threads", "compact"], value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub starts: u32,
    /// Compare every N allocations and frees where a trace has no recorded curve. Not with --threads
    #[arg(long, value_name = "N", default_value_t = 20_000, conflicts_with = "threads", value_parser = clap::value_parser!(u32).range(1..))]
    pub every: u32,
}
