//! What a run of the report measured: what `report.json` holds, and what every figure is drawn from.

use std::path::Path;

use serde::{Deserialize, Serialize};
use woodlot_bench::Failure;
use woodlot_bench::batches::Batches;
use woodlot_bench::dispersion::Dispersion;
use woodlot_bench::engine::Engine;
use woodlot_bench::floor::Loop;
use woodlot_bench::frag::State;
use woodlot_bench::output::Machine;
use woodlot_bench::patterns::{Metric, Pattern};
use woodlot_bench::size::Size;
use woodlot_bench::statistics::Summary;

use super::freebsd::Freebsd;
use super::heaps::Heaps;
use super::kernel::Kernel;
use super::load::Load;
use super::scope::BURST_ORDER;

/// The form of the file. Another number means that this program cannot read it.
pub const FORMAT: u32 = 2;

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Everything is drawn, from next to nothing: its figures mean little.
    Smoke,
    /// Within minutes.
    Quick,
    /// As much as the figures deserve.
    Full,
}

/// Times of one metric of one engine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Timed {
    /// Who.
    pub engine: Engine,
    /// How it was asked for blocks.
    pub pattern: Pattern,
    /// What an operation is.
    pub metric: Metric,
    /// The size of the blocks.
    pub order: u8,
    /// How many threads.
    pub threads: usize,
    /// The zone.
    pub memory: Size,
    /// CPU nanoseconds for each operation, a number for each repetition.
    pub cpu_ns: Vec<f64>,
    /// Time on the wall likewise.
    pub wall_ns: Vec<f64>,
    /// The median of hot CAS in the same run.
    pub hot_cas_ns: f64,
}

impl Timed {
    /// Of the CPU times.
    pub fn cpu(&self) -> Option<Summary> {
        Summary::of(&self.cpu_ns)
    }
}

/// One loop of the floor, in every repetition of the whole report.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FloorLoop {
    /// Which.
    pub which: Loop,
    /// CPU nanoseconds for each operation.
    pub cpu_ns: Vec<f64>,
}

/// What became of a fragmented zone.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Fragmented {
    /// Who.
    pub engine: Engine,
    /// The zone.
    pub memory: Size,
    /// How many slots the calls went through.
    pub slots: usize,
    /// Before the first iteration and after each.
    pub states: Vec<State>,
}

/// One moment of a replayed trace, ours beside Linux's.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Moment {
    /// After this many allocations and frees.
    pub after: usize,
    /// Does it count for the mean?
    pub regular: bool,
    /// Free huge frames and free frames, ours.
    pub ours: (usize, usize),
    /// The same, Linux's.
    pub linux: (usize, usize),
}

/// A trace, replayed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Replayed {
    /// What the trace is called.
    pub trace: String,
    /// The means of the share of free memory in free huge frames: ours and Linux's.
    pub means: (f64, f64),
    /// The curve.
    pub moments: Vec<Moment>,
}

/// Openings of a zone of which a random half is allocated, in microseconds, one for each repetition.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Openings {
    /// The zone.
    pub memory: Size,
    /// After a crash: one thread recovers it.
    pub dirty_us: Vec<f64>,
    /// The same by two threads.
    pub dirty_two_us: Vec<f64>,
    /// After a clean shutdown.
    pub clean_us: Vec<f64>,
    /// The same; what survived is compared with its checksum.
    pub clean_compared_us: Vec<f64>,
}

/// What was found of processes that were killed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Crashes {
    /// How many processes shared the zone, one number after the other.
    pub processes: Vec<usize>,
    /// Processes that were killed, and how many of them in a call.
    pub kills: usize,
    pub in_a_call: usize,
    /// Recoveries, and how many of them found frames lost.
    pub recoveries: usize,
    pub with_losses: usize,
    /// Frames with two owners, or free and owned.
    pub overlaps: usize,
    /// Frames lost, and the frames that the calls of the killed concerned.
    pub lost: usize,
    pub bound: usize,
    /// What else was wrong.
    pub wrong: Vec<String>,
}

impl Crashes {
    /// Was everything recovered, and no more lost than may be?
    pub fn is_right(&self) -> bool {
        self.overlaps == 0 && self.lost <= self.bound && self.wrong.is_empty()
    }
}

/// A target and what came of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Held {
    /// What it is about.
    pub name: String,
    /// Was it met?
    pub met: bool,
    /// The figure and its limit, or why there is none.
    pub text: String,
}

/// Everything.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Data {
    /// [`FORMAT`].
    pub format: u32,
    /// How much was measured.
    pub form: Form,
    /// Where and when.
    pub machine: Machine,
    /// How long it took.
    pub seconds: f64,
    /// How much CPU time of all threads that was, where there is such a clock.
    pub cpu_seconds: Option<f64>,
    /// The zone of what says nothing else.
    pub memory: Size,
    /// The floor.
    pub floor: Vec<FloorLoop>,
    /// Times.
    pub times: Vec<Timed>,
    /// Fragmentation.
    pub frag: Vec<Fragmented>,
    /// State dispersion.
    pub dispersion: Vec<Dispersion>,
    /// Real load.
    pub traces: Vec<Replayed>,
    /// Targets.
    pub targets: Vec<Held>,
    /// How long a zone takes to open.
    #[serde(default)]
    pub openings: Option<Openings>,
    /// Processes that were killed.
    #[serde(default)]
    pub crashes: Option<Crashes>,
    /// Batches of pages from two domains.
    #[serde(default)]
    pub batches: Option<Batches>,
    /// What else the paper on FreeBSD has.
    #[serde(default)]
    pub freebsd: Option<Freebsd>,
    /// Heaps.
    #[serde(default)]
    pub heaps: Option<Heaps>,
    /// What real load does.
    #[serde(default)]
    pub load: Option<Load>,
    /// What was measured inside a kernel, from files.
    #[serde(default)]
    pub kernel: Kernel,
    /// What was to be measured and could not be, and why.
    pub missing: Vec<String>,
}

impl Data {
    /// Reads a `report.json`.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn read(path: &Path) -> Result<Data, Failure> {
        let text = std::fs::read(path).map_err(|error| Failure::at(path, error))?;
        let wrong = |error: serde_json::Error| {
            Failure::at(path, format!("is no report.json of woodlot report: {error}"))
        };
        // The number first: the rest of another form may look like anything.
        let form: Formed = serde_json::from_slice(&text).map_err(wrong)?;
        if form.format != FORMAT {
            let found = form.format;
            let said = format!("has form {found}; this program reads form {FORMAT}");
            return Err(Failure::at(path, said));
        }
        serde_json::from_slice(&text).map_err(wrong)
    }

    /// The file.
    ///
    /// # Errors
    /// When it cannot be written down, which is a defect.
    pub fn json(&self) -> Result<Vec<u8>, Failure> {
        let json = serde_json::to_vec(self);
        let mut json = json.map_err(|error| Failure::Failed(format!("as JSON: {error}")))?;
        json.push(b'\n');
        Ok(json)
    }

    /// The samples of a loop of the floor.
    pub fn floor(&self, which: Loop) -> Option<Summary> {
        let found = self.floor.iter().find(|known| known.which == which)?;
        Summary::of(&found.cpu_ns)
    }

    /// The times of an engine at one metric, on the zone of the report.
    pub fn of(
        &self,
        engine: Engine,
        pattern: Pattern,
        metric: Metric,
    ) -> impl Iterator<Item = &Timed> {
        self.times.iter().filter(move |timed| {
            (timed.engine, timed.pattern, timed.metric) == (engine, pattern, metric)
                && timed.memory == self.memory
        })
    }

    /// The median of an engine's CPU times.
    pub fn median(
        &self,
        engine: Engine,
        pattern: Pattern,
        metric: Metric,
        order: u8,
        threads: usize,
    ) -> Option<f64> {
        let at = |timed: &&Timed| (timed.order, timed.threads) == (order, threads);
        Some(self.of(engine, pattern, metric).find(at)?.cpu()?.median)
    }

    /// The medians with some number of threads.
    pub fn with_threads(
        &self,
        threads: usize,
    ) -> impl Fn(Engine, Pattern, Metric, u8) -> Option<f64> {
        move |engine, pattern, metric, order| self.median(engine, pattern, metric, order, threads)
    }

    /// The four-level NBBS and Linux's buddy in bursts of NBBS's size, a thread on every CPU.
    pub fn burst(&self, pattern: Pattern) -> Option<(f64, f64)> {
        let cpus = self.machine.cpus();
        let of = |engine| self.median(engine, pattern, Metric::Pair, BURST_ORDER, cpus);
        Some((of(Engine::Nbbs4)?, of(Engine::LinuxNoPcp)?))
    }

    /// How many threads the figures by order have: as many as the paper's, where the machine can.
    pub fn threads_by_order(&self) -> usize {
        self.machine.cpus().min(8)
    }

    /// The states of an engine in the fragmented zone.
    pub fn states(&self, engine: Engine) -> Option<&[State]> {
        let found = self.frag.iter().find(|known| known.engine == engine)?;
        Some(&found.states)
    }
}

#[derive(Deserialize)]
struct Formed {
    format: u32,
}
