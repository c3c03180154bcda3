//! Runs of frames in a history: allocated, freed, and asked for wrongly.

use std::ops::Range;

use woodlot_frame::{
    AllocError, Class, FrameId, FreeError, HugeId, Order, Place, RangeRequest, Request, Slot,
    blocks,
};

use crate::history::{Geo, Zone, refused};
use crate::ledger::{Block, Judged, Passing, Refusal};
use crate::plan::Mistake;
use crate::reclaim::Called;

impl<A: Called> Zone<'_, A> {
    /// The refusal of a run that was to lie between these frames.
    pub(crate) fn no_run(&self, frames: usize, align: Order, place: Range<FrameId>) -> Refusal {
        let zone = self.engine.zone().range();
        let window = place.start.max(zone.start).0..place.end.min(zone.end).0;
        Refusal::Run { frames, align, window }
    }

    pub(crate) fn alloc_range(&self, me: usize, request: RangeRequest) -> Judged {
        let RangeRequest { frames, align, place, .. } = request;
        let id = self.books.with(|ledger| ledger.begin(me, Passing::Run(frames)));
        let answer = self.engine.alloc_range(request);
        let refusal = match (&answer, place) {
            (Err(AllocError::OutOfMemory), Place::Anywhere) => {
                Some(self.no_run(frames, align, self.engine.zone().range()))
            }
            (Err(AllocError::OutOfMemory), Place::Within { start, end }) => {
                Some(self.no_run(frames, align, start..end))
            }
            // One of the blocks that the run consists of was in the way: the one with this frame.
            (Err(AllocError::InUse(frame)), Place::At(start)) => {
                let run = start..FrameId(start.0 + frames);
                let mut blocks = blocks::<Geo<A>>(run).map(|(first, order)| Block(first, order));
                let block = blocks.find(|block| block.range().contains(&frame.0));
                block.map(|block| Refusal::Frames(block.range()))
            }
            _ => None,
        };
        self.books.with(|ledger| match (&answer, refusal) {
            (_, Some(refusal)) => {
                ledger.refused(me, id, refusal);
                Ok(())
            }
            (Ok(run), None) => {
                self.fresh.clone().alloc_range(request, &answer)?;
                let blocks = blocks::<Geo<A>>(run.clone());
                let blocks: Vec<_> = blocks.map(|(frame, order)| Block(frame, order)).collect();
                ledger.allocated(me, id, &blocks, None)
            }
            (Err(_), None) => {
                ledger.done(me, id);
                self.fresh.clone().alloc_range(request, &answer)
            }
        })
    }

    pub(crate) fn free_range(&self, me: usize, pick: usize, most: usize, slot: Slot) -> Judged {
        let blocks = self.books.with(|ledger| ledger.take_neighbours(me, pick, most));
        let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else { return Ok(()) };
        let run = first.0..FrameId(last.range().end);
        let id = self.books.with(|ledger| ledger.begin_free(me, &blocks))?;
        let answer = self.engine.free_range(run.clone(), slot);
        self.books.with(|ledger| ledger.done(me, id));
        answer.map_err(|error| format!("{error:?}, but all of {run:?} was thread {me}'s"))
    }

    // ---- Wrong calls ----

    pub(crate) fn mistaken_run(
        &self,
        (me, owned): (usize, Option<Block>),
        pick: usize,
        how: Mistake,
        slot: Slot,
    ) -> Judged {
        match (how, owned) {
            (Mistake::Run, _) => self.runs_that_no_zone_has(slot),
            (Mistake::FreeRun, Some(block)) => self.frees_of_runs_that_no_zone_has(block, slot),
            (Mistake::OwnedRun(before), Some(block)) => self.run_into(block, before, slot),
            (Mistake::FreeRunOffline(_), _) => {
                let huge = self.books.with(|ledger| ledger.out(me, pick));
                huge.map_or(Ok(()), |huge| self.free_into_offline(me, huge, slot))
            }
            (Mistake::PartOfRun, Some(block)) if A::UNSUPPORTED.partial_free && block.1.0 > 0 => {
                let run = block.0..FrameId(block.range().end - 1);
                refused(self.engine.free_range(run, slot), FreeError::Unsupported)
            }
            _ => Ok(()),
        }
    }

    fn runs_that_no_zone_has(&self, slot: Slot) -> Judged {
        let (zone, engine) = (self.engine.zone(), self.engine);
        let one = RangeRequest::new(1, Class(0), slot);
        let frames = |frames| RangeRequest { frames, ..one };
        let (start, end) = (zone.start, zone.end());
        let wrong = [
            frames(0),
            frames(zone.frames + 1),
            frames(usize::MAX),
            one.aligned(Order(64)),
            one.at(end),
            frames(2).at(FrameId(end.0 - 1)),
            one.within(end..start),
            one.within(start..start),
            one.within(end..FrameId(usize::MAX)),
            RangeRequest { slot: Slot(zone.slots), ..one },
            RangeRequest { class: Class(zone.classes.count() as u8), ..one },
        ];
        let mut judged = wrong
            .into_iter()
            .map(|request| self.fresh.clone().alloc_range(request, &engine.alloc_range(request)));
        judged.find(Result::is_err).unwrap_or(Ok(()))
    }

    fn frees_of_runs_that_no_zone_has(&self, owned: Block, slot: Slot) -> Judged {
        let (zone, engine) = (self.engine.zone(), self.engine);
        let (own, end) = (owned.0..FrameId(owned.range().end), zone.end());
        let wrong = [
            (own.end..own.start, slot),
            (own.start..FrameId(end.0 + 1), slot),
            (end..FrameId(usize::MAX), slot),
            (own, Slot(zone.slots)),
        ];
        let mut judged = wrong.into_iter().map(|(run, slot)| {
            self.fresh.clone().free_range(run.clone(), slot, engine.free_range(run, slot))
        });
        judged.find(Result::is_err).unwrap_or(Ok(()))
    }

    /// Asks for a run that ends with a block of the thread's own.
    fn run_into(&self, owned: Block, before: usize, slot: Slot) -> Judged {
        let start = FrameId(owned.0.0.saturating_sub(before)).max(self.engine.zone().start);
        let frames = owned.range().end - start.0;
        let answer = self.engine.alloc_range(RangeRequest::new(frames, Class(0), slot).at(start));
        match answer {
            // Others may have frames before it.
            Err(AllocError::InUse(frame)) if (start..=owned.0).contains(&frame) => Ok(()),
            _ => Err(format!("answered {answer:?} to a run into {owned:?}, which is in use")),
        }
    }

    /// Frees the frame before an offline huge frame together with a part of that.
    fn free_into_offline(&self, me: usize, huge: HugeId, slot: Slot) -> Judged {
        let offline = huge.first::<Geo<A>>();
        let Some(before) = offline.0.checked_sub(1).map(FrameId) else { return Ok(()) };
        if before < self.engine.zone().start {
            return Ok(());
        }
        self.alloc(me, Request::new(Order::BASE, Class(0), slot).at(before))?;
        let block = Block(before, Order::BASE);
        if !self.books.with(|ledger| ledger.take_this(me, block)) {
            return Ok(());
        }
        let id = self.books.with(|ledger| ledger.begin(me, Passing::NOTHING));
        let answer = self.engine.free_range(before..FrameId(offline.0 + 1), slot);
        self.books.with(|ledger| {
            ledger.keep(me, block);
            ledger.done(me, id);
        });
        refused(answer, FreeError::Offline(offline))
    }
}
