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
    /// So many more frames it may take for a time.
    pub stray: usize,
}

impl Call {
    /// The frames that it takes out of use, for a time or for good.
    fn out_of_use(&self) -> impl Iterator<Item = &Range<usize>> {
        self.outside.iter().chain(&self.reclaimed).chain(&self.tried)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
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
    pub fn mark(&mut self, what: usize) {
        let (number, ended) = (what / 2, what % 2 == 1);
        let Call { took, gave, outside, reclaimed, .. } = &self.calls[number];
        if ended {
            self.under_way.retain(|&other| other != number);
            for frame in gave.iter().flat_map(Range::clone) {
                if self.owners[frame] == Owner::InDoubt(number) {
                    self.owners[frame] = Owner::Nobody;
                }
            }
            took.iter()
                .flat_map(Range::clone)
                .for_each(|frame| self.owners[frame] = Owner::Somebody);
            let outside = outside.iter().flat_map(Range::clone);
            outside.for_each(|frame| self.owners[frame] = Owner::Offline);
            let reclaimed = reclaimed.iter().flat_map(Range::clone);
            reclaimed.for_each(|frame| self.owners[frame] = Owner::Reclaimed);
        } else {
            self.under_way.push(number);
            let doubt = gave.iter().flat_map(Range::clone);
            doubt.for_each(|frame| self.owners[frame] = Owner::InDoubt(number));
        }
    }

    /// Is this what a crash may leave?
    pub fn judge(&self, found: &Found) -> Result<(), String> {
        let calls = || self.under_way.iter().map(|&number| &self.calls[number]);
        let mut may = vec![false; self.owners.len()];
        for call in calls() {
            let frames = call.took.iter().chain(call.out_of_use());
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
                Owner::Nobody if allocated && !may[frame] => stray += 1,
                Owner::Nobody if offline && !may[frame] => {
                    return Err(format!("frame +{frame} is offline, and should be free"));
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
        let most: usize = calls().map(|call| call.stray).sum();
        if stray > most {
            return Err(format!("{stray} frames are lost, {most} could be"));
        }
        calls().filter(|call| call.one_write).try_for_each(|call| self.judge_write(call, found))
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
            let others = self.under_way.iter().map(|&number| &self.calls[number]);
            let takes = |other: &Call| {
                let meets =
                    |range: &Range<usize>| range.start < block.end && block.start < range.end;
                other.stray > 0 || other.took.iter().chain(other.out_of_use()).any(meets)
            };
            let met = others.filter(|&other| !std::ptr::eq(other, call)).any(takes);
            if alone(block, taken) && !met && count != 0 && count != block.len() {
                return Err(format!(
                    "{count} of {} frames of {block:?} are allocated",
                    block.len()
                ));
            }
        }
        Ok(())
    }

    /// The calls that are under way.
    pub fn under_way(&self) -> String {
        let texts = self.under_way.iter().map(|&number| self.calls[number].text.as_str());
        let texts: Vec<&str> = texts.collect();
        if texts.is_empty() { "no call".into() } else { texts.join(", ") }
    }
}
