//! Whose each frame is, and what a crash may make of it.

use std::ops::Range;

/// A call, as the judge has to know it.
#[derive(Clone, Default, Debug)]
pub struct Call {
    /// For messages.
    pub text: String,
    /// The frames that it takes, known when it has returned.
    pub took: Vec<Range<usize>>,
    /// The frames that it gives back.
    pub gave: Vec<Range<usize>>,
    /// The frames that it takes out of use.
    pub outside: Vec<Range<usize>>,
    /// The frames that it takes out of use, and whose memory is gone.
    pub reclaimed: Vec<Range<usize>>,
    /// The frames that it tried to take out of use, and put back.
    pub tried: Vec<Range<usize>>,
    /// It has either happened or not.
    pub one_write: bool,
    /// With intents: it has either happened or not, but for one write that is named.
    pub atomic: bool,
    /// So many more frames it may take for a time.
    pub stray: usize,
}

impl Call {
    /// The frames that it takes, gives back, takes out of use or puts back.
    pub fn frames(&self) -> impl Iterator<Item = usize> {
        let all = self.took.iter().chain(&self.gave).chain(self.out_of_use());
        all.flat_map(Range::clone)
    }

    /// The frames that it takes out of use, for a time or for good.
    fn out_of_use(&self) -> impl Iterator<Item = &Range<usize>> {
        self.outside.iter().chain(&self.reclaimed).chain(&self.tried)
    }
}

/// Whose a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    Nobody,
    Somebody,
    /// Out of use.
    Offline,
    /// Out of use, and without memory.
    Reclaimed,
    /// A call under way gives it back, takes it out, or puts it back.
    InDoubt(usize),
}

/// What a recovery says of each frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    pub allocated: Vec<bool>,
    pub offline: Vec<bool>,
    pub reclaimed: Vec<bool>,
    /// With intents: what records name each frame.
    pub named: Option<Vec<Named>>,
}

/// How a frame is named.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Named {
    Not,
    /// By an operation that has happened entirely or not at all.
    Whole,
    /// By one that was cut off.
    CutOff,
}

/// Who owns what, at some point of a history; frames are counted from the first of the zone.
pub struct Owners<'h> {
    calls: &'h [Call],
    owners: Vec<Owner>,
    under_way: Vec<usize>,
}

impl<'h> Owners<'h> {
    pub fn new(frames: usize, calls: &'h [Call], allocated: bool) -> Self {
        let owner = if allocated { Owner::Somebody } else { Owner::Nobody };
        Self { calls, owners: vec![owner; frames], under_way: Vec::new() }
    }

    /// A call begins, or has returned: twice its number, and one more.
    ///
    /// # Errors
    /// It has taken what has an owner, or is out of use.
    pub fn mark(&mut self, what: usize) -> Result<(), String> {
        let (number, ended) = (what / 2, what % 2 == 1);
        let Call { took, gave, outside, reclaimed, .. } = &self.calls[number];
        if ended {
            self.under_way.retain(|&other| other != number);
            for frame in gave.iter().flat_map(Range::clone) {
                if self.owners[frame] == Owner::InDoubt(number) {
                    self.owners[frame] = Owner::Nobody;
                }
            }
            for frame in took.iter().flat_map(Range::clone) {
                // What a call under way gives back is another call's as soon as it is free.
                if !matches!(self.owners[frame], Owner::Nobody | Owner::InDoubt(_)) {
                    let text = &self.calls[number].text;
                    return Err(format!(
                        "frame +{frame} is given to {text}, and has another owner"
                    ));
                }
                self.owners[frame] = Owner::Somebody;
            }
            let outside = outside.iter().flat_map(Range::clone);
            outside.for_each(|frame| self.owners[frame] = Owner::Offline);
            let reclaimed = reclaimed.iter().flat_map(Range::clone);
            reclaimed.for_each(|frame| self.owners[frame] = Owner::Reclaimed);
        } else {
            self.under_way.push(number);
            let doubt = gave.iter().flat_map(Range::clone);
            doubt.for_each(|frame| self.owners[frame] = Owner::InDoubt(number));
        }
        Ok(())
    }

    /// Is this what a crash may leave?
    pub fn judge(&self, found: &Found) -> Result<(), String> {
        let calls = || self.calls_under_way();
        let mut may = vec![false; self.owners.len()];
        let named = |frame: usize| match &found.named {
            Some(named) => named[frame],
            None => Named::Not,
        };
        for call in calls() {
            // What a call with intents takes must be named.
            let took = if call.atomic { &[][..] } else { &call.took };
            let frames = took.iter().chain(call.out_of_use());
            let frames = frames.flat_map(Range::clone);
            frames.for_each(|frame| may[frame] = true);
        }
        let mut stray = 0;
        for (frame, owner) in self.owners.iter().enumerate() {
            let (allocated, offline) = (found.allocated[frame], found.offline[frame]);
            match owner {
                Owner::Somebody if !allocated || offline => {
                    return Err(format!(
                        "frame +{frame} is owned, and free or offline: two owners"
                    ));
                }
                Owner::Nobody if offline && !may[frame] => {
                    return Err(format!("frame +{frame} is offline, and should be free"));
                }
                Owner::Nobody if allocated && !may[frame] => {
                    stray += (named(frame) == Named::Not) as usize;
                }
                Owner::Reclaimed if !found.reclaimed[frame] => {
                    return Err(format!(
                        "frame +{frame} has no memory, and is not said to have none"
                    ));
                }
                Owner::Offline | Owner::Reclaimed if !offline => {
                    return Err(format!("frame +{frame} was taken out, and is not offline"));
                }
                _ => {}
            }
        }
        let most: usize = calls().filter(|call| !call.atomic).map(|call| call.stray).sum();
        if stray > most {
            return Err(format!("{stray} frames are lost, {most} could be"));
        }
        calls().filter(|call| call.one_write).try_for_each(|call| self.judge_write(call, found))?;
        calls().filter(|call| call.atomic).try_for_each(|call| self.judge_free(call, found))
    }

    /// A call of one write has either happened or not, if nobody else has to do with its frames.
    fn judge_write(&self, call: &Call, found: &Found) -> Result<(), String> {
        let alone = |range: &Range<usize>, taken: bool| {
            range.clone().all(|frame| match self.owners[frame] {
                Owner::Nobody => taken,
                Owner::InDoubt(number) => {
                    !taken && std::ptr::eq(&raw const self.calls[number], call)
                }
                _ => false,
            })
        };
        let frames = |taken: bool| if taken { &call.took } else { &call.gave };
        for (taken, block) in
            [false, true].iter().flat_map(|&t| frames(t).iter().map(move |b| (t, b)))
        {
            let count = found.allocated[block.clone()].iter().filter(|&&is| is).count();
            // Another call under way may take some of these frames, for a time or for good.
            let takes = |other: &Call| {
                let meets =
                    |range: &Range<usize>| range.start < block.end && block.start < range.end;
                other.stray > 0 || other.took.iter().chain(other.out_of_use()).any(meets)
            };
            let met = self.others(call).any(takes);
            if alone(block, taken) && !met && count != 0 && count != block.len() {
                return Err(format!(
                    "{count} of {} frames of {block:?} are allocated",
                    block.len()
                ));
            }
        }
        Ok(())
    }

    /// A free with intents has happened entirely or not at all, but for frames that are named.
    fn judge_free(&self, call: &Call, found: &Found) -> Result<(), String> {
        let Some(named) = &found.named else { return Ok(()) };
        let frames = || call.gave.iter().flat_map(Range::clone);
        // Others may have taken out of use what was freed.
        let is_out = |frame: usize| {
            let mut ranges = self.others(call).flat_map(Call::out_of_use);
            found.offline[frame] && ranges.any(|range| range.contains(&frame))
        };
        let left = || frames().filter(|&frame| found.allocated[frame] && !is_out(frame));
        // Others may have taken again what was freed, and then name it.
        let least = if self.under_way.len() == 1 { Named::CutOff } else { Named::Whole };
        let own = |frame: &usize| {
            matches!(self.owners[*frame], Owner::InDoubt(number)
                if std::ptr::eq(&raw const self.calls[number], call))
        };
        let partly = frames().all(|frame| own(&frame)) && left().count() < frames().count();
        match left().find(|&frame| partly && named[frame] < least) {
            Some(frame) => Err(format!("frame +{frame} is left of a free that was cut off")),
            None => Ok(()),
        }
    }

    /// Whose each frame is.
    pub fn owners(&self) -> &[Owner] {
        &self.owners
    }

    /// The calls that are under way.
    pub fn calls_under_way(&self) -> impl Iterator<Item = &'h Call> {
        self.under_way.iter().map(|&number| &self.calls[number])
    }

    /// Those beside this one.
    fn others(&self, call: &Call) -> impl Iterator<Item = &'h Call> {
        self.calls_under_way().filter(move |&other| !std::ptr::eq(other, call))
    }

    /// All of them, for messages.
    pub fn under_way(&self) -> String {
        let texts = self.under_way.iter().map(|&number| self.calls[number].text.as_str());
        let texts: Vec<&str> = texts.collect();
        if texts.is_empty() { "no call".into() } else { texts.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_freed_and_then_taken_out_of_use_is_not_left() {
        let free = Call { gave: vec![0..2, 2..4], atomic: true, ..Call::default() };
        let reclaim = Call { reclaimed: vec![0..1, 1..2], ..Call::default() };
        let calls = [free, reclaim];
        let mut owners = Owners::new(4, &calls, true);
        [0, 2].into_iter().for_each(|call| owners.mark(call).unwrap());
        let found = |offline: [bool; 4], allocated: [bool; 4]| Found {
            allocated: allocated.into(),
            offline: offline.into(),
            reclaimed: offline.into(),
            named: Some(vec![Named::Not; 4]),
        };
        let out = [true, true, false, false];
        assert_eq!(owners.judge(&found(out, out)), Ok(()));
        for (offline, allocated) in [([false; 4], out), (out, [true; 4])] {
            let left = owners.judge(&found(offline, allocated));
            assert!(left.is_err_and(|why| why.contains("left of a free")), "{allocated:?}");
        }
    }
}
