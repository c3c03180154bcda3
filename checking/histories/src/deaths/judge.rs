//! What a recovery made of the zone, beside the log.

use std::collections::HashSet;

use woodlot_frame::{FrameAllocator, FrameId, Geometry, Order, Slot};
use woodlot_llfree::{End, LastOperation};

use super::calls::Zone;
use super::log::{Call, Owner, State};
use crate::ledger::Judged;

/// What the record of a slot says after a recovery.
struct Said {
    end: End,
    frames: HashSet<usize>,
}

/// A zone after its recovery.
pub struct Found {
    /// Which frames are allocated.
    allocated: Vec<bool>,
    /// What each slot's record says, and what it said before the recovery.
    said: Vec<Option<Said>>,
    before: Vec<Option<LastOperation>>,
}

impl Found {
    /// Looks at a zone, of whose frames the first is 0, and whose records said this before.
    ///
    /// # Errors
    /// Where it contradicts itself.
    pub fn of<G: Geometry>(
        zone: &Zone<'_, G>,
        before: Vec<Option<LastOperation>>,
    ) -> Judged<Found> {
        let is_allocated = |frame| !zone.is_free(FrameId(frame), Order::BASE);
        let allocated: Vec<bool> = (0..zone.zone().frames).map(is_allocated).collect();
        let free = allocated.iter().filter(|&&allocated| !allocated).count();
        let counted = (zone.stats().free_frames, zone.free_frames());
        if counted != (free, free) {
            return Err(format!("{counted:?} frames are counted as free, and {free} are"));
        }
        let mut said = Vec::new();
        for slot in (0..zone.zone().slots).map(Slot) {
            let Some(last) = zone.last_operation(slot) else {
                said.push(None);
                continue;
            };
            if last.end == End::UnderWay {
                return Err(format!("slot {} is in a call after a recovery", slot.0));
            }
            let mut frames = HashSet::new();
            for run in zone.frames_of(last) {
                let named = run.start.0..run.start.0 + run.count;
                let free = named.clone().filter(|&frame| !allocated[frame]).count();
                if free != run.free {
                    return Err(format!("{run:?} is named, of which {free} are free"));
                }
                frames.extend(named);
            }
            said.push(Some(Said { end: last.end, frames }));
        }
        Ok(Found { allocated, said, before })
    }

    /// Is a frame allocated?
    pub fn is_allocated(&self, frame: usize) -> bool {
        self.allocated[frame]
    }

    /// Of how many of the dead's calls it is said that they were cut off.
    pub fn cut_off(&self, log: &State) -> usize {
        let said = log.dead_calls().filter_map(|(slot, _)| self.said[slot.0].as_ref());
        said.filter(|said| said.end == End::CutOff).count()
    }

    /// The frames that are named by an allocation under way of somebody other than a slot.
    fn taken(&self, log: &State, but: Option<Slot>) -> HashSet<usize> {
        let taking =
            log.dead_calls().filter(|(slot, call)| call.gives.is_empty() && but != Some(*slot));
        let said = taking.filter_map(|(slot, _)| self.said[slot.0].as_ref());
        said.flat_map(|said| said.frames.iter().copied()).collect()
    }

    /// Is this what the death of some threads may leave? Returns how many frames are allocated and nobody's.
    ///
    /// # Errors
    /// What is wrong.
    pub fn judge(&self, log: &State) -> Judged<usize> {
        let named = self.taken(log, None);
        let mut lost = 0;
        for (frame, &owner) in log.owners.iter().enumerate() {
            match (owner, self.allocated[frame]) {
                (Owner::Thread(thread), false) => {
                    return Err(format!("frame {frame} is thread {thread}'s, and is free"));
                }
                (Owner::Nobody, true) if !named.contains(&frame) => {
                    return Err(format!("frame {frame} is allocated, nobody's, and not named"));
                }
                (Owner::Nobody, true) => lost += 1,
                _ => {}
            }
        }
        for (slot, call) in log.dead_calls() {
            match call.gives.is_empty() {
                true => self.judge_alloc(log, slot, call)?,
                false => self.judge_free(log, slot, call, &named)?,
            }
        }
        Ok(lost)
    }

    /// Of what an allocation under way has named at last, all is allocated, or nothing. Where it is not certain whose a
    /// frame is, since another one names it, too, or it is being freed, nothing follows from it.
    fn judge_alloc(&self, log: &State, slot: Slot, call: &Call) -> Judged {
        // What the record said before the call is about frames that may be others' since.
        let fresh = self.before[slot.0] != call.before;
        let Some(said) = self.said[slot.0].as_ref().filter(|_| fresh) else { return Ok(()) };
        let others = self.taken(log, Some(slot));
        let certain = |frame: &&usize| {
            !others.contains(*frame) && !matches!(log.owners[**frame], Owner::Giving(_))
        };
        let certain: Vec<usize> = said.frames.iter().filter(certain).copied().collect();
        let taken = |&&frame: &&usize| log.owners[frame] == Owner::Nobody && self.allocated[frame];
        let count = certain.iter().filter(taken).count();
        if count > 0 && count < certain.len() {
            let all = certain.len();
            return Err(format!("{count} of {all} frames of one allocation are left: {certain:?}"));
        }
        Ok(())
    }

    /// A free under way has freed all or nothing, but for one write, which is named.
    fn judge_free(&self, log: &State, slot: Slot, call: &Call, taken: &HashSet<usize>) -> Judged {
        let left =
            |&&frame: &&usize| log.owners[frame] == Owner::Giving(slot.0) && self.allocated[frame];
        let left: Vec<usize> = call.gives.iter().filter(left).copied().collect();
        if left.len() == call.gives.len() {
            return Ok(());
        }
        let said = self.said[slot.0].as_ref().filter(|said| said.end == End::CutOff);
        let in_doubt = |frame| said.is_some_and(|said| said.frames.contains(frame));
        match left.iter().find(|&frame| !in_doubt(frame) && !taken.contains(frame)) {
            Some(frame) => Err(format!("frame {frame} is left of a free that has begun")),
            None => Ok(()),
        }
    }
}
