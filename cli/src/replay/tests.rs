//! The replay against an allocator that is simple enough to be right, and against broken ones: a
//! check that cannot fail is worth nothing.

use std::sync::Mutex;

use woodlot_frame::{
    AllocError, BadSlot, Base4K, Construct, FrameAllocator, FrameId, FreeError, HugeId, Init,
    InitError, MetadataSize, OfflineError, Order, Place, RawMetadata, Request, Slot, Stats,
    Unsupported, ZoneConfig,
};
use woodlot_llfree::LLFree;
use woodlot_nbbs::Nbbs4;
use woodlot_rivals::{LinuxBuddy, ListCas};
use woodlot_trace::{FrameSet, shipped};

use super::{Options, Plan, Report, Thrift, ZoneLayout, replay};

/// What is wrong with a [`NextFit`].
const NOTHING: u8 = 0;
const HANDS_OUT_TWICE: u8 = 1;
const LOSES_FRAMES: u8 = 2;
const LIES_ABOUT_HUGE: u8 = 3;

/// First block that is free after the last one handed out.
struct NextFit<const DEFECT: u8> {
    zone: ZoneConfig,
    state: Mutex<State>,
}

struct State {
    owned: FrameSet,
    cursor: usize,
    calls: usize,
}

impl State {
    fn is_free(&self, frame: usize, order: Order) -> bool {
        (frame..frame + order.frames()).all(|frame| !self.owned.contains(frame))
    }
}

impl<const DEFECT: u8> FrameAllocator for NextFit<DEFECT> {
    type Geometry = Base4K;
    const NAME: &'static str = "next fit";
    const UNSUPPORTED: Unsupported = Unsupported {
        exact_frame: false,
        partial_free: false,
        classes: true,
        offline: true,
        isolation: true,
        recovery: true,
        exact_exhaustion: false,
    };

    fn zone(&self) -> &ZoneConfig {
        &self.zone
    }

    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        let mut state = self.state.lock().expect("no panic while locked");
        let order = request.order;
        state.calls += 1;
        let found = match request.place {
            Place::At(frame) if state.is_free(frame.0, order) => frame.0,
            Place::At(frame) => return Err(AllocError::InUse(frame)),
            Place::Within { .. } => return Err(AllocError::Unsupported),
            Place::Anywhere => {
                let step = order.frames();
                let (start, end) = (self.zone.start.0, self.zone.end().0);
                let cursor = state.cursor.next_multiple_of(step);
                let mut all = (cursor..end).chain(start..cursor.min(end)).step_by(step);
                let fits = |&frame: &usize| frame + step <= end && state.is_free(frame, order);
                all.find(fits).ok_or(AllocError::OutOfMemory)?
            }
        };
        if DEFECT != HANDS_OUT_TWICE || !state.calls.is_multiple_of(1000) {
            state.cursor = found;
            state.owned.take(found..found + order.frames());
        }
        Ok(FrameId(found))
    }

    fn free(&self, frame: FrameId, order: Order, _slot: Slot) -> Result<(), FreeError> {
        let mut state = self.state.lock().expect("no panic while locked");
        state.calls += 1;
        let range = frame.0..frame.0 + order.frames();
        if range.clone().any(|frame| !state.owned.contains(frame)) {
            return Err(FreeError::NotAllocated(frame));
        }
        if DEFECT != LOSES_FRAMES || !state.calls.is_multiple_of(1000) {
            state.owned.give(range);
        }
        Ok(())
    }

    fn can_free(&self, frame: FrameId, order: Order, _slot: Slot) -> Result<(), FreeError> {
        let state = self.state.lock().expect("no panic while locked");
        match (frame.0..frame.0 + order.frames()).all(|frame| state.owned.contains(frame)) {
            true => Ok(()),
            false => Err(FreeError::NotAllocated(frame)),
        }
    }

    fn drain(&self, _slot: Slot) -> Result<(), BadSlot> {
        Ok(())
    }

    fn offline(&self, _first: HugeId, _count: usize) -> Result<(), OfflineError> {
        Err(OfflineError::Unsupported)
    }

    fn online(&self, _first: HugeId, _count: usize) -> Result<(), OfflineError> {
        Err(OfflineError::Unsupported)
    }

    fn is_available(&self, _order: Order) -> bool {
        self.free_frames() > 0
    }

    fn free_frames(&self) -> usize {
        self.stats().free_frames
    }

    fn stats(&self) -> Stats {
        let state = self.state.lock().expect("no panic while locked");
        Stats {
            free_frames: state.owned.free_frames(),
            free_huge: state.owned.free_huge() + usize::from(DEFECT == LIES_ABOUT_HUGE),
            ..Stats::default()
        }
    }

    fn is_free(&self, frame: FrameId, order: Order) -> bool {
        let state = self.state.lock().expect("no panic while locked");
        self.zone.contains(frame, order) && state.is_free(frame.0, order)
    }

    fn free_in_huge(&self, huge: HugeId) -> usize {
        let state = self.state.lock().expect("no panic while locked");
        state.owned.free_by_huge().nth(huge.0).unwrap_or(0)
    }
}

impl<const DEFECT: u8> Construct for NextFit<DEFECT> {
    fn metadata_size(_config: &ZoneConfig) -> Result<MetadataSize, InitError> {
        Ok(MetadataSize { durable: 64, volatile: 64 })
    }

    unsafe fn construct(
        config: &ZoneConfig,
        _metadata: RawMetadata,
        _init: Init,
    ) -> Result<Self, InitError> {
        let mut owned = FrameSet::new(config.end().0);
        owned.take(0..config.start.0);
        let state = State { owned, cursor: config.start.0, calls: 0 };
        Ok(Self { zone: *config, state: Mutex::new(state) })
    }
}

fn replay_boot<const DEFECT: u8>(layout: ZoneLayout, threads: bool) -> Report {
    let trace = shipped()[0].trace().expect("the shipped trace is whole");
    let plan = Plan::new(&trace, layout, 20000);
    let options = Options { threads, compact: None, starts: 1, rounds: 0, base_frames: false };
    replay::<NextFit<DEFECT>>(&plan, options, &|_| {}).expect("the zone is fine")
}

#[test]
fn a_correct_allocator_passes_every_check() {
    for layout in [ZoneLayout::One, ZoneLayout::Linux] {
        for threads in [false, true] {
            let report = replay_boot::<NOTHING>(layout, threads);
            assert_eq!(report.defects(), [""; 0], "{layout:?} threads={threads}");
            assert_eq!((report.allocs, report.frees), (69755, 53611), "320 hidden frees ignored");
        }
    }
}

/// A boot on an engine that cannot do all of it.
fn with_less<A: Construct + FrameAllocator<Geometry = Base4K>>(
    base_frames: bool,
    threads: bool,
) -> Report {
    let trace = shipped()[0].trace().expect("the shipped trace is whole");
    let plan = Plan::new(&trace, ZoneLayout::One, 20000);
    let options =
        Options { threads, compact: None, starts: 1, rounds: u32::from(!threads), base_frames };
    let report = replay::<A>(&plan, options, &|_| {}).expect("the zone is fine");
    assert_eq!(report.defects(), [""; 0], "{} threads={threads}", A::NAME);
    report
}

#[test]
fn engines_that_can_do_less_pass_every_check_and_hold_no_less() {
    let all = replay_boot::<NOTHING>(ZoneLayout::One, false);
    for threads in [false, true] {
        let whole = with_less::<Nbbs4<'static, Base4K>>(false, threads);
        let inexact = with_less::<LinuxBuddy<Base4K>>(false, threads);
        let frames = with_less::<ListCas<Base4K, 0>>(true, threads);
        for report in [&whole, &inexact, &frames] {
            assert_eq!(
                (report.allocs, report.failures.len()),
                (all.allocs, 0),
                "{}",
                report.engine
            );
            let pairs = report.rows.iter().zip(&all.rows);
            let mut held =
                pairs.map(|(row, all)| all.ours.free_frames.checked_sub(row.ours.free_frames));
            assert!(held.all(|held| held.is_some()), "{} holds less than the trace", report.engine);
        }
        assert!(whole.remarks[0].contains("parts of a block"));
        // Only an engine that frees blocks as a whole holds more.
        assert!(threads || whole.most_held > 0);
        assert_eq!((inexact.held, frames.held), (0, 0));
    }
}

#[test]
fn the_shipped_curve_is_confirmed_and_linux_is_where_it_was() {
    for (shipped, mean) in shipped().iter().zip([0.987, 0.977, 0.592]) {
        let trace = shipped.trace().expect("the shipped trace is whole");
        let plan = Plan::new(&trace, ZoneLayout::One, 20000);
        assert_eq!((plan.unconfirmed_rows, plan.conflicts), (0, 0), "{}", shipped.name);
        let regular = plan.rows.iter().filter(|row| row.regular);
        let ratios: Vec<f64> = regular.map(|row| row.linux.ratio()).collect();
        let found = ratios.iter().sum::<f64>() / ratios.len() as f64;
        assert!((found - mean).abs() < 0.001, "{}: {found}", shipped.name);
    }
}

#[test]
fn double_allocations_are_seen() {
    for threads in [false, true] {
        let checks = replay_boot::<HANDS_OUT_TWICE>(ZoneLayout::One, threads).checks;
        assert!(checks.overlapping_frames > 0, "{checks:?}");
    }
}

#[test]
fn lost_frames_are_seen() {
    for threads in [false, true] {
        let checks = replay_boot::<LOSES_FRAMES>(ZoneLayout::One, threads).checks;
        assert!(checks.lost_frames > 0 && checks.wrong_statistics > 0, "{checks:?}");
    }
}

#[test]
fn wrong_statistics_are_seen_at_every_row() {
    let report = replay_boot::<LIES_ABOUT_HUGE>(ZoneLayout::One, false);
    assert_eq!(report.checks.wrong_statistics, report.rows.len() + 1);
}

#[test]
fn the_list_of_calls_gives_the_same_answers_again() {
    let trace = shipped()[0].trace().expect("the shipped trace is whole");
    let plan = Plan::new(&trace, ZoneLayout::One, 20000);
    let options =
        Options { threads: false, compact: None, starts: 1, rounds: 2, base_frames: false };
    let report = replay::<NextFit<NOTHING>>(&plan, options, &|_| {}).expect("the zone is fine");
    let timing = report.timing.expect("rounds were asked for");
    assert_eq!((timing.different, timing.ns_per_call.len()), (0, 2));
}

#[test]
fn each_start_is_a_replay_of_its_own_and_their_means_rise() {
    let trace = shipped()[0].trace().expect("the shipped trace is whole");
    let plan = Plan::new(&trace, ZoneLayout::One, 20000);
    let steps = std::sync::atomic::AtomicUsize::new(0);
    let replay_from = |starts| {
        let options =
            Options { threads: false, compact: None, starts, rounds: 0, base_frames: false };
        let progress = |done| _ = steps.fetch_max(done, std::sync::atomic::Ordering::Relaxed);
        replay::<LLFree<'static, Base4K>>(&plan, options, &progress).expect("the zone is fine")
    };
    let (one, three) = (replay_from(1), replay_from(3));
    assert_eq!((one.defects(), three.defects()), (vec![], vec![]));
    assert_eq!((one.ratios, three.ratios.len()), (vec![three.ratio()], 3), "the first is told");
    assert!(three.ratios.is_sorted() && three.ratios[0] < three.ratios[2], "{:?}", three.ratios);
    assert!(steps.into_inner() > 2 * plan.steps.len(), "of all starts");
    // What a later start finds wrong is told, too.
    let options =
        Options { threads: false, compact: None, starts: 2, rounds: 0, base_frames: false };
    let wrong = replay::<NextFit<LOSES_FRAMES>>(&plan, options, &|_| {}).expect("the zone is fine");
    assert!(wrong.first_error.expect("an error").starts_with("start 1: "));
}

#[test]
fn a_plan_that_is_done_again_has_the_same_frames_in_use_each_time() {
    let trace = shipped()[0].trace().expect("the shipped trace is whole");
    let plan = || Plan::new(&trace, ZoneLayout::One, 20000);
    let options =
        Options { threads: false, compact: None, starts: 1, rounds: 0, base_frames: false };
    let replayed = |plan: &Plan, options| {
        let report = replay::<LLFree<'static, Base4K>>(plan, options, &|_| {});
        let report = report.expect("the zone is fine");
        assert_eq!(report.defects(), [""; 0]);
        assert!(report.failures.is_empty(), "{:?}", report.failures);
        report
    };
    let (once, again) = (plan().again(1), plan().again(3));
    let end = replayed(&once, options).rows.last().expect("there is an end").ours.free_frames;
    for compact in [None, Some(Thrift { gain: 0, price: 512 })] {
        let report = replayed(&again, Options { compact, ..options });
        let free: Vec<_> = report.rows.iter().map(|row| row.ours.free_frames).collect();
        assert_eq!(free, [end; 3], "with a daemon: {compact:?}");
    }
    // All that the plan does, and what comes back.
    assert!(again.steps.len() > 3 * once.steps.len());
    let starts = again.rows.iter().map(|row| row.label.as_str());
    assert!(starts.eq(["round 1", "round 2", "round 3"]));
}
