//! Replaying a trace on an allocator.
//!
//! ```text
//!   Trace ──► Plan ──► sequential: one thread, verified, the curve; then the list of calls ──► timing
//!                 ├──► threads: one for each CPU, verified at the end
//!                 └──► compacting: one thread, and a daemon that moves frames
//! ```
//!
//! A [`Plan`] is the trace seen from an allocator that chooses its own frames: which allocation a
//! free belongs to, and which part of it. It depends on the trace alone, so that every engine and
//! both ways of replaying share it.
//!
//! # The rules
//!
//! * Frames that are owned at the start are claimed at the trace's own numbers, in the largest
//!   aligned blocks; hidden-owned frames too, and those are never freed.
//! * What Linux's compaction allocated is an ordinary movable allocation.
//! * A free names Linux's frames: it frees ours in their place, as one block where they are one
//!   aligned block, otherwise in the largest aligned pieces.
//! * CPUs become slots, migrate types become classes ([`plan::class_of`]).
//! * What failed in Linux is tried, given back at once if it succeeds, and counted apart.
//! * What we cannot serve is counted by order; its later frees are skipped.
//! * What an engine cannot do is done otherwise and said ([`manner`]).

mod again;
mod compacting;
mod manner;
mod plan;
mod report;
mod sequential;
#[cfg(test)]
mod tests;
mod threads;
mod timing;
mod worker;
mod zones;

use manner::Manner;

pub use plan::{Plan, ZoneLayout};
pub use report::{Checks, Compacted, Failures, Means, Report, Row, Side, Timing};

use woodlot_frame::{Base4K, Construct, FrameAllocator, InitError};

/// For how little a daemon works that nobody has asked: as [`woodlot_compact::Settings`] has it.
#[derive(Clone, Copy, Debug)]
pub struct Thrift {
    /// It rests where no more than so many thousandths of the free memory could be won as huge frames.
    pub gain: usize,
    /// What a huge frame may cost, in base frames.
    pub price: usize,
}

/// How to replay.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Each CPU's events on a thread of its own.
    pub threads: bool,
    /// A daemon compacts beside. Not with threads.
    pub compact: Option<Thrift>,
    /// How often the calls are made again to measure their time.
    pub rounds: u32,
    /// From how many starts it is replayed, that differ by who allocated and freed a few frames before. One, with threads or a daemon.
    pub starts: u32,
    /// Does the engine have base frames only?
    pub base_frames: bool,
}

/// Frames by which a start has more allocated and freed before than the start before it.
const AHEAD: usize = 113;

/// Replays a plan. `progress` is told now and then how many steps are done, those of all starts.
///
/// # Errors
/// When the engine cannot manage such zones.
pub fn replay<A: Construct + FrameAllocator<Geometry = Base4K>>(
    plan: &Plan,
    options: Options,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Report, InitError> {
    let manner = Manner::of::<A>(options.base_frames);
    let mut report = match options {
        Options { threads: true, .. } => threads::replay::<A>(plan, manner, progress)?,
        Options { compact: Some(thrift), .. } => {
            compacting::replay::<A>(plan, manner, thrift, progress)?
        }
        _ => starts::<A>(plan, manner, options.starts, progress)?,
    };
    report.remarks = manner.remarks();
    if !options.threads && options.compact.is_none() && options.rounds > 0 {
        let calls = sequential::calls::<A>(plan, manner)?;
        if !calls.is_empty() {
            report.timing = Some(timing::measure::<A>(plan, manner, &calls, options.rounds)?);
        }
    }
    Ok(report)
}

/// Replays from so many starts: what the first one found, and of all the shares of free memory in free huge frames.
fn starts<A: Construct + FrameAllocator<Geometry = Base4K>>(
    plan: &Plan,
    manner: Manner,
    starts: u32,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Report, InitError> {
    let mut first = sequential::replay::<A>(plan, manner, 0, progress)?;
    let mut ratios = vec![first.ratio()];
    for start in 1..starts as usize {
        let so_far = start * plan.steps.len();
        let progress = &|done| progress(so_far + done);
        let report = sequential::replay::<A>(plan, manner, start * AHEAD, progress)?;
        ratios.push(report.ratio());
        let defect = report.defects().into_iter().next();
        let defect = defect.map(|defect| format!("start {start}: {defect}"));
        first.first_error = first.first_error.or(defect);
    }
    ratios.sort_by(f64::total_cmp);
    first.ratios = ratios;
    Ok(first)
}
