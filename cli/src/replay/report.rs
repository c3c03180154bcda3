//! What a replay found.

use std::collections::BTreeMap;

use serde::Serialize;
use woodlot_trace::free_huge_ratio;

use super::plan::Plan;

/// What is free at some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Side {
    /// Wholly free huge frames.
    pub free_huge: usize,
    /// Free base frames.
    pub free_frames: usize,
    /// The fewest base-frame moves that would free every possible huge frame (LLFree section 5.6).
    pub moves: usize,
}

impl Side {
    /// The share of the free memory that lies in free huge frames.
    pub fn ratio(&self) -> f64 {
        free_huge_ratio(self.free_huge, self.free_frames)
    }
}

/// One moment, ours beside Linux's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// After this many allocations and frees.
    pub after: usize,
    /// In microseconds since the kernel's clock began.
    pub time_us: u64,
    /// What the moment is called.
    pub label: String,
    /// Does it count for the mean?
    pub regular: bool,
    /// What our engine has.
    pub ours: Side,
    /// What Linux had.
    pub linux: Side,
    /// Of ours, how many huge frames could be free, were the frames that can move moved: known with a daemon beside.
    pub possible: Option<usize>,
}

/// What must all be zero.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Checks {
    /// Frames handed out while somebody owned them, or from outside the zone.
    pub overlapping_frames: usize,
    /// Frames that nobody owns and the engine does not think free, at the end.
    pub lost_frames: usize,
    /// Frames that somebody owns and the engine thinks free, at the end.
    pub forgotten_frames: usize,
    /// Frees that the engine refused.
    pub refused_frees: usize,
    /// Exact-frame claims at the start that the engine refused.
    pub refused_claims: usize,
    /// Moments at which the engine's statistics differ from a count of the frames.
    pub wrong_statistics: usize,
    /// Frames by which the trace contradicts itself.
    pub trace_conflicts: usize,
    /// Rows of the recorded curve that the trace does not confirm.
    pub unconfirmed_rows: usize,
}

impl Checks {
    /// Adds what is known before the first step.
    pub fn of_plan(&mut self, plan: &Plan, refused_claims: usize) {
        self.refused_claims += refused_claims;
        self.trace_conflicts += plan.conflicts;
        self.unconfirmed_rows += plan.unconfirmed_rows;
    }

    /// Each check with its name.
    pub fn list(&self) -> [(&'static str, usize); 8] {
        [
            ("overlapping frames", self.overlapping_frames),
            ("lost frames", self.lost_frames),
            ("forgotten frames", self.forgotten_frames),
            ("refused frees", self.refused_frees),
            ("refused claims", self.refused_claims),
            ("wrong statistics", self.wrong_statistics),
            ("contradictions in the trace", self.trace_conflicts),
            ("unconfirmed curve rows", self.unconfirmed_rows),
        ]
    }
}

/// How often something of each order happened.
pub type Failures = BTreeMap<u8, usize>;

/// How long an allocator call takes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Timing {
    /// Nanoseconds for each call, one entry for each round, rising.
    pub ns_per_call: Vec<f64>,
    /// Nanoseconds for each entry of the list when it is only walked, at best: included above.
    pub ns_walk: f64,
    /// Answers that differed from those that were written down, over all rounds; 0 for a deterministic engine.
    pub different: usize,
}

impl Timing {
    /// The median of the rounds.
    pub fn median(&self) -> f64 {
        self.ns_per_call.get(self.ns_per_call.len() / 2).copied().unwrap_or(0.0)
    }
}

/// What the daemon did beside a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compacted {
    /// All of its runs.
    pub work: woodlot_compact::Report,
    /// How many.
    pub runs: usize,
    /// How many of them won nothing.
    pub in_vain: usize,
}

impl Compacted {
    /// Moves done, as a multiple of the fewest that could have won as much at the beginning of each run.
    pub fn over_fewest(&self) -> f64 {
        self.work.moves as f64 / self.work.fewest.max(1) as f64
    }
}

/// What one replay found.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The engine's own name.
    pub engine: &'static str,
    /// Allocations asked for, those that failed in Linux left out.
    pub allocs: usize,
    /// Frees, as the trace has them.
    pub frees: usize,
    /// Allocations that Linux served and we did not, by order.
    pub failures: Failures,
    /// Allocations that failed in Linux, by order.
    pub linux_failures: Failures,
    /// How many of those were tried on our engine.
    pub probes: usize,
    /// How many of those we would have served.
    pub probes_served: usize,
    /// What was done otherwise because the engine cannot do it, in words.
    pub remarks: Vec<&'static str>,
    /// Frames that the trace has freed and the engine holds until all of their block are freed.
    pub held: isize,
    /// The most of them at any row of the curve.
    pub most_held: isize,
    /// The curve.
    pub rows: Vec<Row>,
    /// What must be zero.
    pub checks: Checks,
    /// An error that no replay should see, the first one, in words.
    pub first_error: Option<String>,
    /// Free blocks by order, before the first step and after the last: replayed by one thread without a daemon.
    pub free_blocks: [Vec<usize>; 2],
    /// What the daemon did, where there was one.
    pub compacted: Option<Compacted>,
    /// How long calls take, where it was measured.
    pub timing: Option<Timing>,
    /// The mean share of the free memory that lies in free huge frames, of each start, rising; nothing with threads or a daemon.
    pub ratios: Vec<f64>,
    /// Wall-clock seconds of the replay itself.
    pub seconds: f64,
}

/// Means over the rows of the regular grid; over all rows where there is no such row.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Means {
    /// How many rows.
    pub rows: usize,
    /// Share of the free memory that lies in free huge frames.
    pub ratio: f64,
    /// Frame moves.
    pub moves: f64,
}

impl Report {
    /// A report of nothing yet.
    pub fn new(engine: &'static str) -> Report {
        Report {
            engine,
            allocs: 0,
            frees: 0,
            failures: Failures::new(),
            linux_failures: Failures::new(),
            probes: 0,
            probes_served: 0,
            remarks: Vec::new(),
            held: 0,
            most_held: 0,
            rows: Vec::new(),
            checks: Checks::default(),
            first_error: None,
            free_blocks: Default::default(),
            compacted: None,
            timing: None,
            ratios: Vec::new(),
            seconds: 0.0,
        }
    }

    /// Adds what another thread found while it did its steps.
    pub fn add(&mut self, part: Report) {
        self.allocs += part.allocs;
        self.frees += part.frees;
        self.probes += part.probes;
        self.probes_served += part.probes_served;
        self.held += part.held;
        self.checks.overlapping_frames += part.checks.overlapping_frames;
        self.checks.refused_frees += part.checks.refused_frees;
        self.first_error = self.first_error.take().or(part.first_error);
        let pairs =
            [(&mut self.failures, part.failures), (&mut self.linux_failures, part.linux_failures)];
        for (sum, part) in pairs {
            for (order, count) in part {
                *sum.entry(order).or_default() += count;
            }
        }
    }

    /// What is not as it must be, in words.
    pub fn defects(&self) -> Vec<String> {
        let wrong = self.checks.list().into_iter().filter(|&(_, count)| count > 0);
        let mut wrong: Vec<String> = wrong.map(|(name, count)| format!("{count} {name}")).collect();
        wrong.extend(self.first_error.iter().map(|error| format!("first error: {error}")));
        let different = self.timing.as_ref().map_or(0, |timing| timing.different);
        if different > 0 {
            wrong.push(format!("{different} calls with another answer when made again"));
        }
        wrong
    }

    /// The means of one side.
    pub fn means(&self, side: impl Fn(&Row) -> Side) -> Means {
        let any_regular = self.rows.iter().any(|row| row.regular);
        let rows = self.rows.iter().filter(|row| row.regular || !any_regular).map(side);
        let sides: Vec<Side> = rows.collect();
        let mean = |value: fn(&Side) -> f64| {
            sides.iter().map(value).sum::<f64>() / sides.len().max(1) as f64
        };
        let (ratio, moves) = (mean(Side::ratio), mean(|side| side.moves as f64));
        Means { rows: sides.len(), ratio, moves }
    }

    /// The mean share of the free memory that lies in free huge frames.
    pub fn ratio(&self) -> f64 {
        self.means(|row| row.ours).ratio
    }

    /// The means of what could be free at the most.
    pub fn means_possible(&self) -> Means {
        self.means(|row| Side { free_huge: row.possible.unwrap_or(0), moves: 0, ..row.ours })
    }

    /// Allocator calls that the trace asks for.
    pub fn operations(&self) -> usize {
        self.allocs + self.frees
    }
}
