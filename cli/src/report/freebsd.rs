//! What the paper on anti-fragmentation in FreeBSD has in tables I and II and figures 5 and 7, from this machine.
//!
//! ```text
//!   table I    free blocks before and after a build     the shipped build, replayed on LLFree, and Linux's own
//!   figure 7   superpages over builds in a row          the same again and again, with a daemon that compacts and without
//!   table II   memory that is wired                     in large pieces, beside a fault for each page
//!   figure 5   what guards of stacks leave              counted in a zone of LLFree
//! ```

pub mod figures;

use serde::{Deserialize, Serialize};
use woodlot_bench::Failure;
use woodlot_bench::size::Size;
use woodlot_bench::stacks::{Left, Shape, by_address, packed};
#[cfg(target_os = "linux")]
use woodlot_bench::wiring::{self, Way};
use woodlot_frame::{Base4K, InitError, Order};
use woodlot_llfree::LLFree;
use woodlot_rivals::LinuxBuddy;
use woodlot_trace::{LinuxFrames, Trace, shipped};

use crate::replay::{Compacted, Options, Plan, Report, Thrift, ZoneLayout, replay};

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Builds in a row.
    pub builds: usize,
    /// Memory that is wired, and how often.
    pub wired: (Size, usize),
}

/// Free memory after a build.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Built {
    /// Free huge frames: superpages that there could be at once.
    pub free_huge: usize,
    /// Free frames.
    pub free_frames: usize,
}

/// The runs of a daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Runs {
    /// Huge frames that it has emptied: also those that others broke again.
    pub won: usize,
    /// How many.
    pub all: usize,
    /// How many of them won nothing.
    pub in_vain: usize,
    /// What a huge frame might cost, where it began by the index alone. Reports of older versions rested where there was
    /// little to win.
    #[serde(default)]
    pub price: Option<usize>,
}

/// Builds in a row.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Builds {
    /// Free blocks by order, before the first build and after it.
    pub free_blocks: [Vec<usize>; 2],
    /// What Linux, of which the trace is, had after that build. Reports of older versions do not say.
    #[serde(default)]
    pub linux_blocks: Option<Vec<usize>>,
    /// After each build on LLFree, without a daemon.
    pub without: Vec<Built>,
    /// The same with one.
    pub with: Vec<Built>,
    /// After each build on the rival like Linux's buddy, without a daemon.
    pub buddy: Vec<Built>,
    /// How many huge frames could be free, were all frames that can move moved: with the daemon.
    pub possible: Vec<usize>,
    /// Frames that the daemon has moved in all builds.
    pub moves: usize,
    /// What it won by that. Reports of older versions do not say.
    #[serde(default)]
    pub runs: Option<Runs>,
    /// Memory of the machine of the trace.
    pub frames: usize,
}

/// A way to wire memory.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Wired {
    /// What it is called.
    pub name: String,
    /// Milliseconds on the wall for all of it, a number for each repetition.
    pub wall_ms: Vec<f64>,
    /// The least share that was mapped by huge pages, where the system says.
    pub huge: Option<f64>,
}

/// Memory that is wired.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Wiring {
    /// How much.
    pub memory: Size,
    /// By a fault for each page.
    pub one_by_one: Wired,
    /// In the largest pieces.
    pub largest: Wired,
    /// By `mlock`, with small pages and with huge ones, where a process may lock so much.
    pub locked: Vec<Wired>,
    /// Memory that others have brought, by a fault for each page and in the largest pieces. Reports of older versions have
    /// none.
    #[serde(default)]
    pub left: Vec<Wired>,
    /// Fresh memory by a thread for each CPU, by a fault for each page and in the largest pieces. Reports of older versions have
    /// none.
    #[serde(default)]
    pub threads: Vec<Wired>,
}

/// What stacks leave.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Stacks {
    /// Pages of a stack, without its guard.
    pub pages: usize,
    /// How many stacks.
    pub stacks: usize,
    /// Where frames lie as their pages do.
    pub by_address: Left,
    /// Where guards have no frames.
    pub packed: Left,
}

/// All of it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Freebsd {
    /// Table I and figure 7.
    pub builds: Option<Builds>,
    /// Table II.
    pub wiring: Option<Wiring>,
    /// Figure 5.
    pub stacks: Option<Stacks>,
}

/// How many steps there are to be told of.
pub const STEPS: usize = 3;

/// Measures. What cannot be is noted.
///
/// # Errors
/// When a shipped trace cannot be replayed, which is a defect.
pub fn of(
    effort: Effort,
    missing: &mut Vec<String>,
    step: &dyn Fn(&str),
) -> Result<Freebsd, Failure> {
    step("builds in a row");
    let builds = builds(effort.builds)?;
    step("wiring");
    let wiring = wire(effort.wired, missing);
    step("stacks");
    Ok(Freebsd { builds: Some(builds), wiring, stacks: Some(stacks()?) })
}

/// Wires memory, again and again.
#[cfg(target_os = "linux")]
fn wire((memory, repetitions): (Size, usize), missing: &mut Vec<String>) -> Option<Wiring> {
    let locked = [Way::LockedSmall, Way::LockedHuge];
    let left = [Way::LeftOneByOne, Way::LeftWiredHuge];
    let threads = [Way::FreshOneByOneThreads, Way::FreshWiredHugeThreads];
    let ways = [&[Way::FreshOneByOne, Way::FreshWiredHuge], &threads, &locked[..], &left].concat();
    let measured = wiring::measure(&ways, memory.frames() * 4096, repetitions, &|| {});
    let (found, failed) = measured.map_err(|why| missing.push(why.to_string())).ok()?;
    missing.extend(failed);
    let wired = |of: &wiring::Wired| Wired {
        name: of.way.name().into(),
        wall_ms: of.wall_ms.clone(),
        huge: of.least_huge(),
    };
    let of = |way| found.iter().find(|wired| wired.way == way).map(wired);
    Some(Wiring {
        memory,
        one_by_one: of(Way::FreshOneByOne)?,
        largest: of(Way::FreshWiredHuge)?,
        locked: locked.into_iter().filter_map(of).collect(),
        left: left.into_iter().filter_map(of).collect(),
        threads: threads.into_iter().filter_map(of).collect(),
    })
}

/// Memory is wired by what Linux has.
#[cfg(not(target_os = "linux"))]
fn wire((memory, _): (Size, usize), missing: &mut Vec<String>) -> Option<Wiring> {
    missing.push(format!("{memory} wired: only on Linux"));
    None
}

/// The paper's stacks: four pages and a guard.
fn stacks() -> Result<Stacks, Failure> {
    let (pages, stacks) = (4, 1000);
    let shape = Shape::new(pages, stacks);
    let shape = shape.ok_or_else(|| Failure::Failed("no such stacks".into()))?;
    type Zone = LLFree<'static, Base4K>;
    let (by_address, packed) = (by_address::<Zone>(shape)?, packed::<Zone>(shape)?);
    Ok(Stacks { pages, stacks, by_address, packed })
}

/// As the paper's, the daemon works for whatever there is to win; but a huge frame may cost an eighth of its frames.
const PAPERS: Thrift = Thrift { gain: 0, price: 64 };

fn builds(times: usize) -> Result<Builds, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(format!("builds: {error}"));
    let build = shipped().into_iter().find(|shipped| shipped.name == "build");
    let build = build.ok_or_else(|| failed(&"there is no build among the shipped traces"))?;
    let trace: Trace = build.trace().map_err(|error| failed(&error))?;
    let plan = || Plan::new(&trace, ZoneLayout::default(), 20_000);
    let options =
        |compact| Options { threads: false, compact, starts: 1, rounds: 0, base_frames: false };
    let checked = |report: Result<Report, _>| -> Result<Report, Failure> {
        let report = report.map_err(|error: InitError| failed(&error))?;
        match report.defects().as_slice() {
            [] => Ok(report),
            wrong => Err(failed(&wrong.join(", "))),
        }
    };
    let replayed =
        |plan: &Plan, compact| checked(replay::<LLFree<Base4K>>(plan, options(compact), &|_| {}));
    let first = replayed(&plan(), None)?;
    let mut again = plan().again(times);
    let without = replayed(&again, None)?;
    let buddy = checked(replay::<LinuxBuddy<Base4K>>(&again, options(None), &|_| {}))?;
    // The daemon's.
    again.slots += 1;
    let with = replayed(&again, Some(PAPERS))?;
    let mut linux = LinuxFrames::new(&trace);
    trace.events.iter().for_each(|event| _ = linux.apply(event.kind));
    let built = |report: &Report| {
        let rows = report.rows.iter().map(|row| row.ours);
        rows.map(|ours| Built { free_huge: ours.free_huge, free_frames: ours.free_frames })
            .collect()
    };
    Ok(Builds {
        free_blocks: first.free_blocks,
        linux_blocks: Some(linux.owned().free_blocks(Order::max::<Base4K>().0)),
        without: built(&without),
        with: built(&with),
        buddy: built(&buddy),
        possible: with.rows.iter().filter_map(|row| row.possible).collect(),
        moves: with.compacted.map_or(0, |compacted| compacted.work.moves),
        runs: with.compacted.map(|Compacted { work, runs, in_vain }| Runs {
            won: work.won,
            all: runs,
            in_vain,
            price: Some(PAPERS.price),
        }),
        frames: again.frames(),
    })
}
