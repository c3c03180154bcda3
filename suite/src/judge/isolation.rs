//! Judgement of isolation: huge frames of which nobody gets a frame, and that empty.

use woodlot_frame::{Claim, FrameId, HugeId, IsolateError};

use super::{Judged, refused, wrong};
use crate::model::{ALLOCATED, Model, OFFLINE};

impl Model {
    /// What is wrong with a range of huge frames, and what is wrong with the first of them that is.
    fn isolation_faults(
        &self,
        first: HugeId,
        count: usize,
        fault: impl Fn(HugeId) -> Option<IsolateError>,
    ) -> Vec<IsolateError> {
        let mut faults = Vec::new();
        if self.unsupported.isolation {
            faults.push(IsolateError::Unsupported);
        }
        let range = self.huge_range();
        let end = first.0.checked_add(count);
        if count == 0 || first.0 < range.start || end.is_none_or(|end| end > range.end) {
            faults.push(IsolateError::OutOfRange);
        } else {
            faults.extend((first.0..first.0 + count).map(HugeId).find_map(fault));
        }
        faults
    }

    fn follow(
        &mut self,
        (first, count): (HugeId, usize),
        faults: &[IsolateError],
        answer: Result<(), IsolateError>,
        mut change: impl FnMut(&mut Model, HugeId),
    ) -> Judged {
        if let Some(judged) = refused(faults, &answer) {
            return judged;
        }
        if let Err(error) = answer {
            return wrong(format!("{error:?}, but nothing stands against it"));
        }
        (first.0..first.0 + count).for_each(|huge| change(self, HugeId(huge)));
        Ok(())
    }

    /// The first frame of a huge frame of the zone that is in this state.
    fn first_in(&self, huge: HugeId, state: u8) -> Option<FrameId> {
        let first = huge.0 << self.huge_order;
        let mut frames = first..first + (1 << self.huge_order);
        frames.find(|frame| self.state[frame - self.config.start.0] == state).map(FrameId)
    }

    /// Was this a legal answer to `isolate`? If so the model follows it.
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub fn isolate(
        &mut self,
        first: HugeId,
        count: usize,
        answer: Result<(), IsolateError>,
    ) -> Judged {
        let faults = self.isolation_faults(first, count, |huge| {
            let offline = self.first_in(huge, OFFLINE).map(|_| IsolateError::Offline(huge));
            offline.or_else(|| self.is_isolated(huge).then_some(IsolateError::Isolated(huge)))
        });
        self.follow((first, count), &faults, answer, |model, huge| model.set_isolated(huge, true))
    }

    /// What is wrong with the end of an isolation.
    fn not_isolated(&self, first: HugeId, count: usize) -> Vec<IsolateError> {
        self.isolation_faults(first, count, |huge| {
            (!self.is_isolated(huge)).then_some(IsolateError::NotIsolated(huge))
        })
    }

    /// Was this a legal answer to `unisolate`? If so the model follows it.
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub fn unisolate(
        &mut self,
        first: HugeId,
        count: usize,
        answer: Result<(), IsolateError>,
    ) -> Judged {
        let faults = self.not_isolated(first, count);
        self.follow((first, count), &faults, answer, |model, huge| model.set_isolated(huge, false))
    }

    /// Was this a legal answer to `claim_isolated`? If so the model follows it.
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub fn claim_isolated(
        &mut self,
        first: HugeId,
        count: usize,
        claim: Claim,
        answer: Result<(), IsolateError>,
    ) -> Judged {
        let mut faults = self.not_isolated(first, count);
        let in_use = |huge| self.first_in(huge, ALLOCATED).map(IsolateError::InUse);
        faults.extend(self.isolation_faults(first, count, in_use));
        if let Claim::Block(slot) = claim
            && slot.0 >= self.config.slots
        {
            faults.push(IsolateError::BadSlot(slot));
        }
        let (order, frames) = (self.huge_order, 1 << self.huge_order);
        self.follow((first, count), &faults, answer, |model, huge| {
            let frame = FrameId(huge.0 << order);
            model.set_isolated(huge, false);
            match claim {
                Claim::Block(_) => model.allocate(frame, woodlot_frame::Order(order as u8)),
                Claim::Offline => model.set(frame, frames, OFFLINE),
            }
        })
    }
}
