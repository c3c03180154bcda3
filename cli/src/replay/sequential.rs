//! The replay on one thread, in the trace's order: deterministic, and verified at every step.

use std::time::Instant;

use woodlot_frame::{Base4K, Construct, FrameAllocator, FrameId, InitError, compaction_cost};
use woodlot_trace::{FrameSet, HUGE_FRAMES};

use super::manner::Manner;
use super::plan::{GridRow, Plan};
use super::report::{Report, Row, Side};
use super::timing::Call;
use super::worker::{Ledger, PROGRESS, Scene, Worker, check_end};
use super::zones::Zones;

/// Replays after so many frames were allocated and freed, and asks the engine at every row of the curve and in the end.
pub fn replay<A: Construct + FrameAllocator<Geometry = Base4K>>(
    plan: &Plan,
    manner: Manner,
    ahead: usize,
    progress: &dyn Fn(usize),
) -> Result<Report, InitError> {
    let (scene, owned, refused) = Scene::<A>::new(plan, manner)?;
    let zones = &scene.zones;
    zones.pass(ahead);
    let mut worker = Worker::new(plan, &scene, Book::new(plan, owned));
    worker.report.checks.of_plan(plan, refused);
    let before = zones.free_blocks();
    let started = Instant::now();
    let mut rows = plan.rows.iter().peekable();
    for (done, step) in plan.steps.iter().enumerate() {
        while let Some(row) = rows.next_if(|row| row.after <= done) {
            compare(row, zones, &worker.ledger.owned, &mut worker.report);
        }
        if done % PROGRESS == 0 {
            progress(done);
        }
        worker.step(step.slot, step.action);
    }
    let Worker { ledger, mut report, .. } = worker;
    rows.for_each(|row| compare(row, zones, &ledger.owned, &mut report));
    report.seconds = started.elapsed().as_secs_f64();
    report.free_blocks = [before, zones.free_blocks()];
    check_end(zones, &ledger.owned, &mut report.checks);
    Ok(report)
}

/// Replays without a question in between, for some engines put work off until they are asked: the list of
/// the allocator calls that are made then.
pub fn calls<A: Construct + FrameAllocator<Geometry = Base4K>>(
    plan: &Plan,
    manner: Manner,
) -> Result<Vec<Call>, InitError> {
    let (scene, owned, _) = Scene::<A>::new(plan, manner)?;
    let mut worker = Worker::new(plan, &scene, Book::new(plan, owned));
    plan.steps.iter().for_each(|step| worker.step(step.slot, step.action));
    Ok(worker.ledger.calls)
}

/// The ledger of one thread, with every call in order.
struct Book {
    owned: FrameSet,
    places: Vec<Option<FrameId>>,
    calls: Vec<Call>,
}

impl Book {
    fn new(plan: &Plan, owned: FrameSet) -> Book {
        let calls = Vec::with_capacity(plan.steps.len());
        Book { owned, places: vec![None; plan.orders.len()], calls }
    }
}

impl Ledger for Book {
    fn place(&self, block: u32) -> Option<usize> {
        self.places[block as usize].map(|frame| frame.0)
    }

    fn set_place(&mut self, block: u32, frame: Option<FrameId>) {
        self.places[block as usize] = frame;
    }

    fn take(&mut self, frame: usize, order: u8) -> usize {
        self.owned.take(frame..frame + (1 << order))
    }

    fn give(&mut self, frame: usize, order: u8) {
        self.owned.give(frame..frame + (1 << order));
    }

    fn called(&mut self, call: Call) {
        self.calls.push(call);
    }
}

/// A row of the curve. The engine's statistics must be what a count of the frames says.
pub(super) fn compare<A: Construct + FrameAllocator<Geometry = Base4K>>(
    row: &GridRow,
    zones: &Zones<A>,
    owned: &FrameSet,
    report: &mut Report,
) {
    let (free_frames, free_huge) = zones.free_counts();
    let counted = (owned.free_frames(), owned.free_huge());
    report.checks.wrong_statistics += usize::from((free_frames, free_huge) != counted);
    let huge = owned.frames() / HUGE_FRAMES;
    let by_huge: Vec<usize> = (0..huge).map(|huge| zones.free_in_huge(huge)).collect();
    let moves = compaction_cost::<Base4K>(&by_huge);
    report.most_held = report.most_held.max(report.held);
    report.rows.push(Row {
        after: row.after,
        time_us: row.time_us,
        label: row.label.clone(),
        regular: row.regular,
        ours: Side { free_huge, free_frames, moves },
        linux: row.linux,
        possible: None,
    });
}
