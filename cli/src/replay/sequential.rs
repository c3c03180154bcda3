//! The replay on one thread, in the trace's order: deterministic, and verified at every step.

use std::time::Instant;

use woodlot_frame::{Base4K, Construct, FrameAllocator, FrameId, InitError, compaction_cost};
use woodlot_trace::{FrameSet, HUGE_FRAMES};

use super::plan::{GridRow, Plan};
use super::report::{Report, Row, Side};
use super::timing::Call;
use super::worker::{Ledger, PROGRESS, Worker, check_end, start};
use super::zones::Zones;

/// Replays; returns the list of allocator calls that were made, too.
pub fn replay<A: Construct + FrameAllocator<Geometry = Base4K>>(
    plan: &Plan,
    progress: &dyn Fn(usize),
) -> Result<(Report, Vec<Call>), InitError> {
    let (zones, owned, refused) = start::<A>(plan)?;
    let calls = Vec::with_capacity(plan.steps.len());
    let book = Book { owned, places: vec![None; plan.blocks], calls };
    let mut worker = Worker::new(plan, &zones, book);
    worker.report.checks.of_plan(plan, refused);
    let started = Instant::now();
    let mut rows = plan.rows.iter().peekable();
    for (done, step) in plan.steps.iter().enumerate() {
        while let Some(row) = rows.next_if(|row| row.after <= done) {
            compare(row, &zones, &worker.ledger.owned, &mut worker.report);
        }
        if done % PROGRESS == 0 {
            progress(done);
        }
        worker.step(step.slot, step.action);
    }
    let Worker { ledger, mut report, .. } = worker;
    rows.for_each(|row| compare(row, &zones, &ledger.owned, &mut report));
    report.seconds = started.elapsed().as_secs_f64();
    check_end(&zones, &ledger.owned, &mut report.checks);
    Ok((report, ledger.calls))
}

/// The ledger of one thread, with every call in order.
struct Book {
    owned: FrameSet,
    places: Vec<Option<FrameId>>,
    calls: Vec<Call>,
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
fn compare<A: Construct + FrameAllocator<Geometry = Base4K>>(
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
    report.rows.push(Row {
        after: row.after,
        time_us: row.time_us,
        label: row.label.clone(),
        regular: row.regular,
        ours: Side { free_huge, free_frames, moves },
        linux: row.linux,
    });
}
