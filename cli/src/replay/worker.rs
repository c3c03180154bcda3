//! Doing the steps of a plan: what both ways of replaying have in common.

use std::ops::Range;

use woodlot_frame::{
    AllocError, Base4K, Construct, FrameAllocator, FrameId, InitError, Order, Slot,
};
use woodlot_trace::{FrameSet, aligned_pieces};

use super::manner::{Blocks, Manner, Remains};
use super::plan::{AT_START, Action, Piece, Plan, Want};
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
    /// What a free of these pieces frees of ours.
    fn runs(&self, plan: &Plan, first: u32, count: u32) -> Vec<Range<usize>> {
        let mut runs = Vec::new();
        plan.runs(first, count, |block| self.place(block), |run| runs.push(run));
        runs
    }
    /// A call was made.
    fn called(&mut self, _call: Call) {}
}

/// Does steps on the zones and writes down what happens.
pub struct Worker<'a, A, L> {
    plan: &'a Plan,
    scene: &'a Scene<A>,
    /// The judge.
    pub ledger: L,
    /// What was found so far.
    pub report: Report,
}

impl<'a, A: Construct + FrameAllocator<Geometry = Base4K>, L: Ledger> Worker<'a, A, L> {
    /// Has done nothing yet.
    pub fn new(plan: &'a Plan, scene: &'a Scene<A>, ledger: L) -> Self {
        Self { plan, scene, ledger, report: Report::new(A::NAME) }
    }

    /// Does one step.
    pub fn step(&mut self, slot: Slot, action: Action) {
        match action {
            Action::Alloc { block, want } => {
                let frame = match self.scene.manner.blocks {
                    Blocks::Frames => self.alloc_frames(block, want, slot),
                    Blocks::InParts | Blocks::Whole => self.alloc(want, slot),
                };
                self.ledger.set_place(block, frame);
                self.report.allocs += 1;
                if frame.is_none() {
                    *self.report.failures.entry(want.order).or_default() += 1;
                }
            }
            Action::Probe { want } => {
                *self.report.linux_failures.entry(want.order).or_default() += 1;
                // Base frames in the place of a larger block would prove nothing.
                if self.scene.manner.blocks == Blocks::Frames && want.order > 0 {
                    return;
                }
                self.report.probes += 1;
                if let Some(frame) = self.alloc(want, slot) {
                    self.report.probes_served += 1;
                    self.free(frame.0, want.order, slot);
                }
            }
            Action::Free { first, count } => {
                self.report.frees += 1;
                match self.scene.manner.blocks {
                    Blocks::InParts => self.free_in_parts(first, count, slot),
                    Blocks::Whole | Blocks::Frames => {
                        let pieces = &self.plan.pieces[first as usize..][..count as usize];
                        pieces.iter().for_each(|piece| self.free_piece(*piece, slot));
                    }
                }
            }
        }
    }

    /// As the trace does: across blocks, in the largest pieces.
    fn free_in_parts(&mut self, first: u32, count: u32, slot: Slot) {
        let runs = self.ledger.runs(self.plan, first, count);
        let largest = Order::max::<Base4K>().0;
        for (frame, order) in runs.into_iter().flat_map(|run| aligned_pieces(run, largest)) {
            self.free(frame, order, slot);
        }
    }

    /// As an engine does that cannot free parts.
    fn free_piece(&mut self, piece: Piece, slot: Slot) {
        let Piece { block, offset, frames } = piece;
        let own = offset..offset + frames;
        if block == AT_START {
            own.for_each(|frame| self.free(frame as usize, 0, slot));
            return;
        }
        // What could not be served has no frames.
        let Some(place) = self.ledger.place(block) else { return };
        if self.scene.manner.blocks == Blocks::Frames {
            own.for_each(|offset| self.free(self.scene.remains.frame(block, offset), 0, slot));
            return;
        }
        self.report.held += frames as isize;
        if self.scene.remains.free(block, frames) {
            let order = self.plan.orders[block as usize];
            self.report.held -= 1 << order;
            self.free(place, order, slot);
        }
    }

    /// A block as so many base frames: all or none; the first of them.
    fn alloc_frames(&mut self, block: u32, want: Want, slot: Slot) -> Option<FrameId> {
        let base = Want { order: 0, ..want };
        let mut frames = Vec::with_capacity(1 << want.order);
        while frames.len() < 1 << want.order {
            let Some(frame) = self.alloc(base, slot) else {
                frames.iter().for_each(|frame: &FrameId| self.free(frame.0, 0, slot));
                return None;
            };
            frames.push(frame);
        }
        self.scene.remains.set_frames(block, &frames);
        frames.first().copied()
    }

    fn alloc(&mut self, want: Want, slot: Slot) -> Option<FrameId> {
        let result = self.scene.zones.alloc(want, slot);
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
        if let Err(error) = self.scene.zones.free(FrameId(frame), Order(order), slot) {
            self.report.checks.refused_frees += 1;
            self.report.first_error.get_or_insert_with(|| error.to_string());
        }
    }
}

/// What the steps are done on.
pub struct Scene<A> {
    /// The zones, with the plan's claims made.
    pub zones: Zones<A>,
    /// How the engine is asked.
    pub manner: Manner,
    remains: Remains,
}

impl<A: Construct + FrameAllocator<Geometry = Base4K>> Scene<A> {
    /// Before the first step: with the frames that are owned now, and how many claims were refused.
    pub fn new(plan: &Plan, manner: Manner) -> Result<(Self, FrameSet, usize), InitError> {
        let (zones, refused) = Zones::claimed(plan, manner)?;
        let mut owned = FrameSet::new(plan.frames());
        for claim in &plan.claims {
            owned.take(claim.frame..claim.frame + (1 << claim.order));
        }
        let remains = Remains::new(plan, manner.blocks);
        Ok((Self { zones, manner, remains }, owned, refused))
    }
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
