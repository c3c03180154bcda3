//! `cargo xtask shuttle`: random histories of whole allocators under shuttle's schedulers. What they
//! do and what is judged: `checking/histories/`, `checking/kmem-histories/` for kmem, `checking/compact-histories/`
//! for compaction, and `checking/domains-histories/` for memory that is added and removed.

use std::process::Command;

use clap::Args;

use crate::outcome::{Length, Outcome};
use crate::shell::{CHECKING, capture, passed, this_cargo};

/// How many schedules, or which are run again.
#[derive(Args)]
pub struct Shuttle {
    #[command(flatten)]
    length: Length,
    /// Schedules of LLFree, and a tenth of it of each other engine [default: 10⁷; short 5 · 10⁴]
    #[arg(long)]
    schedules: Option<usize>,
    /// Schedules of LLFree with intents, in which threads stop for ever [default: 10⁶; short 8000]
    #[arg(long)]
    deaths: Option<usize>,
    /// Schedules of kmem [default: 3 · 10⁵; short 2000]
    #[arg(long)]
    kmem: Option<usize>,
    /// Schedules of compaction [default: 10⁶; short 2000]
    #[arg(long)]
    compact: Option<usize>,
    /// Only these histories
    #[arg(long, value_enum)]
    only: Option<Only>,
    /// Only the histories of zones of this engine: llfree, nbbs, nbbs4, onewrite
    #[arg(long, value_name = "ENGINE", conflicts_with = "only")]
    engine: Option<String>,
    /// Schedules of memory that is added and removed [default: 10⁵; short 2000]
    #[arg(long)]
    hotplug: Option<usize>,
    /// Another seed gives other histories and schedules
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Only the schedules of this batch, as a failure printed it
    #[arg(long, value_name = "ENGINE:SEED")]
    replay: Option<String>,
    /// Only the schedules of this history in which threads stop for ever, as a failure printed it
    #[arg(long, value_name = "SEED")]
    deaths_replay: Option<u64>,
    /// Only the schedules of this history of kmem, as a failure printed it
    #[arg(long, value_name = "SEED")]
    kmem_replay: Option<u64>,
    /// Only the schedules of this history of compaction, as a failure printed it
    #[arg(long, value_name = "SEED")]
    compact_replay: Option<u64>,
    /// Only the schedules of this history of memory that is added and removed, as a failure printed it
    #[arg(long, value_name = "SEED")]
    hotplug_replay: Option<u64>,
}

const SEED: u64 = 1;

/// Whose histories.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Only {
    Zones,
    Kmem,
    Compact,
    Hotplug,
}

/// Runs them; returns the figures.
type Histories = fn(&Shuttle) -> Result<String, String>;

impl From<Length> for Shuttle {
    fn from(length: Length) -> Self {
        Self {
            length,
            schedules: None,
            deaths: None,
            kmem: None,
            compact: None,
            only: None,
            engine: None,
            hotplug: None,
            seed: SEED,
            replay: None,
            deaths_replay: None,
            kmem_replay: None,
            compact_replay: None,
            hotplug_replay: None,
        }
    }
}

/// Runs the histories of zones, of kmem, of compaction and of hotplug, or what is replayed.
pub fn shuttle(shuttle: &Shuttle) -> Result<Outcome, String> {
    let replayed = [
        (Only::Zones, shuttle.replay.is_some() || shuttle.deaths_replay.is_some()),
        (Only::Kmem, shuttle.kmem_replay.is_some()),
        (Only::Compact, shuttle.compact_replay.is_some()),
        (Only::Hotplug, shuttle.hotplug_replay.is_some()),
    ];
    let replayed = replayed.into_iter().find_map(|(only, is_replayed)| is_replayed.then_some(only));
    let subjects: [(Only, Histories); 4] = [
        (Only::Zones, zones),
        (Only::Kmem, kmem),
        (Only::Compact, compact),
        (Only::Hotplug, hotplug),
    ];
    let only = replayed.or(shuttle.only).or(shuttle.engine.is_some().then_some(Only::Zones));
    let chosen = subjects.iter().filter(|(subject, _)| only.is_none_or(|only| only == *subject));
    let figures: Result<Vec<String>, String> = chosen.map(|(_, run)| run(shuttle)).collect();
    Ok(Outcome::Ran(figures?.join("; ")))
}

/// Histories of kmem, after the seeded defects.
fn kmem(shuttle: &Shuttle) -> Result<String, String> {
    let schedules = shuttle.kmem.unwrap_or(if shuttle.length.short { 2000 } else { 300_000 });
    of_package("woodlot-kmem-histories", schedules, shuttle.seed, shuttle.kmem_replay)
}

/// Histories of compaction, after the seeded defects.
fn compact(shuttle: &Shuttle) -> Result<String, String> {
    let schedules = shuttle.compact.unwrap_or(if shuttle.length.short { 2000 } else { 1_000_000 });
    of_package("woodlot-compact-histories", schedules, shuttle.seed, shuttle.compact_replay)
}

/// Histories of memory that is added and removed, after the seeded defects.
fn hotplug(shuttle: &Shuttle) -> Result<String, String> {
    let schedules = shuttle.hotplug.unwrap_or(if shuttle.length.short { 2000 } else { 100_000 });
    of_package("woodlot-domains-histories", schedules, shuttle.seed, shuttle.hotplug_replay)
}

/// Runs the histories of one package, or what is replayed of them.
fn of_package(
    package: &str,
    schedules: usize,
    seed: u64,
    replay: Option<u64>,
) -> Result<String, String> {
    let mut command = histories("run", package);
    command.args(["--quiet", "--", "--schedules", &schedules.to_string()]);
    command.args(["--seed", &seed.to_string()]);
    command.args(replay.iter().flat_map(|seed| ["--replay".into(), seed.to_string()]));
    capture(&mut command).map(|said| said.trim_end().to_owned())
}

/// Histories of zones, after their own tests and the seeded defects.
fn zones(shuttle: &Shuttle) -> Result<String, String> {
    let short = shuttle.length.short;
    let llfree = shuttle.schedules.unwrap_or(if short { 50_000 } else { 10_000_000 });
    passed(histories("test", ZONES).args(["--quiet", "--lib"]))?;
    let mut command = histories("run", ZONES);
    command.args(["--quiet", "--"]);
    command.args(["--llfree", &llfree.to_string(), "--others", &llfree.div_ceil(10).to_string()]);
    let deaths = shuttle.deaths.unwrap_or(if short { 8000 } else { 1_000_000 });
    command.args(["--deaths", &deaths.to_string(), "--seed", &shuttle.seed.to_string()]);
    command.args(shuttle.engine.iter().flat_map(|engine| ["--engine", engine]));
    command.args(shuttle.replay.iter().flat_map(|batch| ["--replay", batch]));
    let deaths_replay = shuttle.deaths_replay.iter();
    command.args(deaths_replay.flat_map(|seed| ["--deaths-replay".into(), seed.to_string()]));
    let said = capture(&mut command)?;
    let (lines, figure) = said.trim_end().rsplit_once('\n').unwrap_or(("", said.trim_end()));
    println!("{lines}");
    Ok(figure.to_owned())
}

/// The package of the histories of zones.
const ZONES: &str = "woodlot-histories";

/// Cargo on histories. The flag changes every crate, so there is a target folder for it.
fn histories(verb: &str, package: &str) -> Command {
    let mut command = this_cargo();
    command.arg(verb).args(CHECKING).args(["--release", "-p", package]);
    command.env("RUSTFLAGS", "--cfg woodlot_shuttle").env("CARGO_TARGET_DIR", "target/shuttle");
    command
}
