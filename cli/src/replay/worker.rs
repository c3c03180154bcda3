//! Doing the steps of a plan: what both ways of replaying have in common.

use woodlot_frame::{
    AllocError, Base4K, Construct, FrameAllocator, FrameId, InitError, Order, Slot,
};
use woodlot_trace::{FrameSet, aligned_pieces};

use super::plan::{Action, Plan, Want};
use super::report::{Checks, Report};
use super::timing::Call;
use super::zones::Zones;

/// Progress is told every so many steps.
pub const PROGRESS: usize = 1 << 14;

/// Who owns what, by the answers that the engine gave: the judge that knows nothing of engines.
pub trait Ledger {
    /// The first frame of a block; `None` where it could not be served.
    fn place(&self, block: u32) -> Option<usize>;
    /// Where a block is from now on.
    fn set_place(&mut self, block: u32, frame: Option<FrameId>);
    /// Frames were handed out. Returns how many were owned already, or do not exist.
    fn take(&mut self, frame: usize, order: u8) -> usize;
    /// Frames are about to be freed.
    fn give(&mut self, frame: usize, order: u8);
    /// A call was made.
    fn called(&mut self, _call: Call) {}
}

/// Does steps on the zones and writes down what happens.
pub struct Worker<'a, A, L> {
    plan: &'a Plan,
    zones: &'a Zones<A>,
    /// The judge.
    pub ledger: L,
    /// What was found so far.
    pub report: Report,
}

impl<'a, A: Construct + FrameAllocator<Geometry = Base4K>, L: Ledger> Worker<'a, A, L> {
    /// Has done nothing yet.
    pub fn new(plan: &'a Plan, zones: &'a Zones<A>, ledger: L) -> Self {
        Self { plan, zones, ledger, report: Report::new(A::NAME) }
    }

    /// Does one step.
    pub fn step(&mut self, slot: Slot, action: Action) {
        match action {
            Action::Alloc { block, want } => {
                let frame = self.alloc(want, slot);
                self.ledger.set_place(block, frame);
                self.report.allocs += 1;
                if frame.is_none() {
                    *self.report.failures.entry(want.order).or_default() += 1;
                }
            }
            Action::Probe { want } => {
                *self.report.linux_failures.entry(want.order).or_default() += 1;
                if let Some(frame) = self.alloc(want, slot) {
                    self.report.probes_served += 1;
                    self.free(frame.0, want.order, slot);
                }
            }
            Action::Free { first, count } => {
                self.report.frees += 1;
                let mut runs = Vec::new();
                let place = |block| self.ledger.place(block);
                self.plan.runs(first, count, place, |run| runs.push(run));
                let largest = Order::max::<Base4K>().0;
                for (frame, order) in runs.into_iter().flat_map(|r| aligned_pieces(r, largest)) {
                    self.free(frame, order, slot);
                }
            }
        }
    }

    fn alloc(&mut self, want: Want, slot: Slot) -> Option<FrameId> {
        let result = self.zones.alloc(want, slot);
        self.ledger.called(Call::alloc(want, slot, result.ok()));
        match result {
            Ok(frame) => {
                self.report.checks.overlapping_frames += self.ledger.take(frame.0, want.order);
                Some(frame)
            }
            // Other kernels have larger orders than this geometry.
            Err(AllocError::OutOfMemory | AllocError::OrderTooLarge(_)) => None,
            Err(error) => {
                self.report.first_error.get_or_insert_with(|| error.to_string());
                None
            }
        }
    }

    fn free(&mut self, frame: usize, order: u8, slot: Slot) {
        self.ledger.give(frame, order);
        self.ledger.called(Call::free(frame, order, slot));
        if let Err(error) = self.zones.free(FrameId(frame), Order(order), slot) {
            self.report.checks.refused_frees += 1;
            self.report.first_error.get_or_insert_with(|| error.to_string());
        }
    }
}

/// The zones with the plan's claims made, the frames that are owned now, and how many claims were
/// refused.
pub fn start<A: Construct + FrameAllocator<Geometry = Base4K>>(
    plan: &Plan,
) -> Result<(Zones<A>, FrameSet, usize), InitError> {
    let (zones, refused) = Zones::claimed(plan)?;
    let mut owned = FrameSet::new(plan.frames());
    for claim in &plan.claims {
        owned.take(claim.frame..claim.frame + (1 << claim.order));
    }
    Ok((zones, owned, refused))
}

/// Asks the engine about every frame, and compares its statistics with the count.
pub fn check_end<A: Construct + FrameAllocator<Geometry = Base4K>>(
    zones: &Zones<A>,
    owned: &FrameSet,
    checks: &mut Checks,
) {
    for frame in 0..owned.frames() {
        match (owned.contains(frame), zones.is_free(frame)) {
            (false, false) => checks.lost_frames += 1,
            (true, true) => checks.forgotten_frames += 1,
            _ => {}
        }
    }
    let counted = (owned.free_frames(), owned.free_huge());
    checks.wrong_statistics += usize::from(zones.free_counts() != counted);
}
