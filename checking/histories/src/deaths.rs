//! Histories with intents, in which threads stop for ever in the middle of calls, and a recovery after them.
//!
//! ```text
//!   threads     calls on slots of their own; some stop, at steps that are chosen by chance; the others go on
//!      │           └─ log: who owns what, which call is under way
//!   scheduler   when all others have ended or stopped, the main thread goes on
//!      │
//!   recovery    of a copy of the durable words, as after a crash  ──▶  judge: the zone beside the log
//!      │
//!   resolution  what is in doubt is freed, then all else: every frame is there once
//! ```
//!
//! What is judged: no frame is handed out that somebody owns, beside those who have stopped; after the recovery whatever
//! has an owner is allocated; what is allocated and nobody's is named by the record of a slot that was allocating, and
//! all that the record names is, or nothing; a free has freed all or nothing, but for one write that is named as cut
//! off; what is named is said to be free if it is; all counts are exact; a second recovery changes nothing.

mod calls;
pub mod defects;
mod judge;
pub mod log;
mod scheduler;

use std::collections::HashSet;
use std::fmt;

use fastrand::Rng;
use shuttle::{MaxSteps, thread};
use woodlot_frame::atomics::Ordering::Relaxed;
use woodlot_frame::{
    ClassPolicy, FrameAllocator, FrameId, Geometry, Init, Intents, Order, Request, Slot, Volatile,
    ZoneConfig,
};
use woodlot_llfree::{LLFree, Tuning};

use crate::engine::{LLFreeWords, Tiny};
use crate::executions::{config, execute as execute_all};
use crate::ledger::{Block, Judged};
use calls::{Thread, Zone};
use defects::Defect;
use judge::Found;
use log::{Figures, Log, Phase, State};
use scheduler::Mortal;

/// How many schedules a batch has.
pub const SCHEDULES: usize = 32;

/// The room of a record: more than any batch here has writes.
const ROOM: usize = 31;

type Model = Intents<Volatile>;

/// Runs the histories of a seed, with a defect or as they are.
///
/// # Errors
/// What went wrong.
pub fn run(seed: u64, defect: Defect) -> Judged<Figures> {
    match seed % 8 {
        0 | 1 => batch::<Tiny<8, 2>>(seed, 1, defect),
        2 => batch::<Tiny<6, 4>>(seed, 1, defect),
        _ => batch::<Tiny<3, 2>>(seed, 3, defect),
    }
}

/// What the histories of a seed have in common.
#[derive(Clone, Copy)]
struct Plan {
    config: ZoneConfig,
    threads: usize,
    calls: usize,
    reserve_after_frees: u8,
    /// How many of the frames are taken before the threads begin.
    taken: usize,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { config, threads, calls, reserve_after_frees, taken } = self;
        write!(
            f,
            "{calls} calls of {threads} threads on {} frames, {taken} of them taken, with {} classes, reserving after \
             {reserve_after_frees} frees",
            config.frames,
            config.classes.count()
        )
    }
}

impl Plan {
    fn new<G: Geometry>(seed: u64, trees: usize) -> Plan {
        let mut rng = Rng::with_seed(seed);
        let threads = rng.usize(2..=4);
        let classes = if rng.bool() { ClassPolicy::SINGLE } else { ClassPolicy::SHIPPED };
        let frames = rng.usize(1..=trees) * G::TREE_FRAMES;
        let config = ZoneConfig::new(frames, threads + 1).with_classes(classes);
        let taken = [0, frames / 2, frames * 7 / 8][rng.usize(..3)];
        let (calls, reserve_after_frees) = (rng.usize(3..=6), [0, 1, 4][rng.usize(..3)]);
        let config = config.with_record_room(ROOM);
        Plan { config, threads, calls, reserve_after_frees, taken }
    }

    fn zone<'a, G: Geometry>(&self, words: &'a LLFreeWords, init: Init) -> Zone<'a, G> {
        let mut tuning = Tuning::DEFAULT;
        tuning.reserve_after_frees = self.reserve_after_frees;
        let persistence = Intents(Volatile);
        let zone =
            LLFree::persistent_from_parts(&self.config, tuning, persistence, words.parts(), init);
        zone.expect("the words suffice")
    }
}

fn batch<G: Geometry>(seed: u64, trees: usize, defect: Defect) -> Judged<Figures> {
    let plan = Plan::new::<G>(seed, trees);
    let log = Log::default();
    let scheduler = Mortal::new(seed, SCHEDULES, plan.threads, log.clone());
    let kept = log.clone();
    let execution = move || match execute::<G>(&plan, seed, defect, &log) {
        Ok(()) => log.open().figures.schedules += 1,
        Err(why) => log.fail(why),
    };
    let ended = execute_all(scheduler, config(MaxSteps::None), execution);
    let mut state = kept.open();
    if let Err(said) = ended {
        state.failure.get_or_insert(format!("panicked: {said}"));
    }
    match state.failure.take() {
        Some(why) => Err(format!("{why}\n  in schedule {} of {plan}", state.figures.schedules)),
        None => Ok(state.figures),
    }
}

/// One execution: the threads, a crash when all have ended or stopped, and the recovery.
fn execute<G: Geometry>(plan: &Plan, seed: u64, defect: Defect, log: &Log) -> Judged {
    log.open().begin(plan.config.frames, plan.threads + 1);
    let words = LLFreeWords::new::<G, Model>(&plan.config);
    let zone = plan.zone::<G>(&words, Init::Free);
    prepare(&zone, plan, seed, log)?;
    thread::scope(|scope| {
        for me in 1..=plan.threads {
            let thread = Thread::new(&zone, log, me, seed, defect);
            scope.spawn(move || thread.run(plan.calls));
        }
        log.open().phase = Phase::Running;
        thread::yield_now();
        log.open().phase = Phase::Judging;
        let judged = judge(&zone, &words, plan, defect, log);
        log.open().phase = Phase::Over;
        judged
    })
}

/// Gives the threads, and the main one, blocks of all sizes.
fn prepare<G: Geometry>(zone: &Zone<'_, G>, plan: &Plan, seed: u64, log: &Log) -> Judged {
    let mut rng = Rng::with_seed(!seed);
    let mut taken = 0;
    while taken < plan.taken {
        let order = Order(rng.u8(..=Order::max::<G>().0));
        let me = rng.usize(..=plan.threads);
        if let Ok(frame) = zone.alloc(Request::movable(order, Slot(me))) {
            log.open().allocated(me, &[Block(frame, order)])?;
            taken += order.frames();
        } else if order == Order::BASE {
            break;
        }
    }
    Ok(())
}

/// Recovers what a crash would leave now, and judges it.
fn judge<G: Geometry>(
    zone: &Zone<'_, G>,
    words: &LLFreeWords,
    plan: &Plan,
    defect: Defect,
    log: &Log,
) -> Judged {
    let before = (0..plan.config.slots).map(|slot| zone.last_operation(Slot(slot))).collect();
    let left = words.after_a_crash::<G, Model>(&plan.config);
    defect.mislead(&left, plan.config.slots);
    let zone = plan.zone::<G>(&left, Init::Recover);
    let found = Found::of(&zone, before)?;
    let again = left.after_a_crash::<G, Model>(&plan.config);
    plan.zone::<G>(&again, Init::Recover);
    if left.durable().zip(again.durable()).any(|(one, two)| one.load(Relaxed) != two.load(Relaxed))
    {
        return Err("a second recovery changes the durable words".into());
    }
    // A copy: the log may not be open at a call.
    let state = log.open().clone();
    let named = found.judge(&state).map_err(|why| explained(&state, &why))?;
    resolve(&zone, &found, &state).map_err(|why| explained(&state, &why))?;
    let figures = &mut log.open().figures;
    figures.named += named;
    figures.cut_off += found.cut_off(&state);
    Ok(())
}

/// What is wrong, with the calls that were under way.
fn explained(log: &State, why: &str) -> String {
    let calls: Vec<String> =
        log.dead_calls().map(|(slot, call)| format!("thread {}: {}", slot.0, call.text)).collect();
    format!("{why}; under way were {calls:?}")
}

/// Frees what is in doubt, as an embedder does by its log, then all that has an owner; then all is free, and can be had.
fn resolve<G: Geometry>(zone: &Zone<'_, G>, found: &Found, log: &State) -> Judged {
    let listed: HashSet<usize> =
        log.blocks.iter().flatten().flat_map(|block| block.range()).collect();
    // In no list is what is nobody's, what a call was about to free, and what was taken from a list for that.
    let single = (0..log.owners.len()).filter(|frame| !listed.contains(frame));
    let single = single.filter(|&frame| found.is_allocated(frame));
    let single = single.map(|frame| Block(FrameId(frame), Order::BASE));
    for block in single.chain(log.blocks.iter().flatten().copied()) {
        let freed = zone.free(block.0, block.1, Slot(0));
        freed.map_err(|error| format!("{block:?} cannot be freed after a recovery: {error:?}"))?;
    }
    let (free, all) = (zone.stats().free_frames, zone.zone().frames);
    if free != all {
        return Err(format!("{free} of {all} frames are free when all are freed"));
    }
    let mut had = 0;
    let order = Order::max::<G>();
    while zone.alloc(Request::movable(order, Slot(0))).is_ok() {
        had += order.frames();
    }
    if had == all { Ok(()) } else { Err(format!("{had} of {all} frames can be allocated again")) }
}
