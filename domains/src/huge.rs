//! Huge frames of several zones in one call: of all, or of none.
//!
//! ```text
//!   look      every huge frame lies in a zone, all of it, and nothing is seen to stand against any
//!   do        run by run, in each zone        one refuses ──► undo the runs before it
//! ```
//!
//! An undo is seen by others, and what they do meanwhile stays. So calls of which the undo would give away what the
//! caller has look first.

use core::ops::Range;

use woodlot_frame::{
    Claim, FrameAllocator, FrameId, Geometry, HugeId, IsolateError, OfflineError, Order,
};

use crate::DomainId;
use crate::chunk::UNIT;
use crate::domains::Domains;
use crate::policy::DomainSet;
use crate::zone::Zone;

impl<'a, A: FrameAllocator> Domains<'a, A> {
    /// The huge frames of a domain, in order, as ranges that do not touch: those all of which is in its zones. What shares a huge
    /// frame with another domain, with carved metadata of an added range or with what is behind an end of the memory, is none. Those of
    /// [removed](Self::remove_range) parts are there as long as their zone, and have nothing free.
    ///
    /// This is what a daemon of compaction serves that is over [one domain](crate::OneDomain). Ranges that are added later are
    /// not among them, and those of a zone that has gone are passed by.
    ///
    /// # Progress
    /// Linear in the domain's huge frames, and for each range in the domain's zones.
    pub fn huge_ranges(&self, domain: DomainId) -> impl Iterator<Item = Range<HugeId>> + '_ {
        let mut next = HugeId(0);
        core::iter::from_fn(move || {
            let zones = self.zones_of(domain).filter_map(|zone| self.first_whole(zone, next));
            let start = zones.min()?;
            let is_own = |&huge: &usize| self.is_whole_of(HugeId(huge), domain);
            let many = (start.0 + 1..).take_while(is_own).count() + 1;
            next = HugeId(start.0 + many);
            Some(start..next)
        })
    }

    /// The first huge frame of a zone from this one on.
    fn first_whole(&self, zone: &Zone<'a, A>, from: HugeId) -> Option<HugeId> {
        let outside = |huge: HugeId| zone.frame(huge.first::<A::Geometry>()).huge::<A::Geometry>();
        let mut all = zone.huge_from(from).map(outside);
        all.find(|&huge| huge >= from && self.is_whole_of(huge, zone.domain))
    }

    /// Is all of a huge frame in one zone of a domain?
    fn is_whole_of(&self, huge: HugeId, domain: DomainId) -> bool {
        self.whole_at(huge).is_some_and(|(zone, there)| {
            let own = zone.allocator.zone().huge_range::<A::Geometry>();
            zone.domain == domain && own.contains(&there)
        })
    }

    /// The zone that has all of a huge frame, and its number there.
    fn whole_at(&self, huge: HugeId) -> Option<(&Zone<'a, A>, HugeId)> {
        let (zone, there) = self.at_huge(huge)?;
        let first = huge.first::<A::Geometry>();
        let last = FrameId(first.0 + (A::Geometry::HUGE_FRAMES - 1));
        let is_here = |unit| self.at(unit).is_some_and(|(other, _)| core::ptr::eq(zone, other));
        let is_whole =
            zone.longest.has(first) && zone.longest.has(last) || Self::units(first).all(is_here);
        is_whole.then_some((zone, there))
    }

    /// The first frames of the units of the huge frame that begins here.
    fn units(first: FrameId) -> impl Iterator<Item = FrameId> {
        (first.0..=first.0 + (A::Geometry::HUGE_FRAMES - 1)).step_by(1 << UNIT).map(FrameId)
    }

    /// The huge frames that are free in these domains as blocks: each of one zone, which counts what it lacks as allocated.
    pub(crate) fn free_huge_in(
        &self,
        set: DomainSet,
    ) -> impl DoubleEndedIterator<Item = HugeId> + '_ {
        let all = self.config.huge_range::<A::Geometry>();
        let is_free = move |huge: &HugeId| {
            self.at_huge(*huge).is_some_and(|(zone, there)| {
                let free = zone.allocator.free_in_huge(there);
                set.has(zone.domain) && free == A::Geometry::HUGE_FRAMES
            })
        };
        (all.start.0..all.end.0).map(HugeId).filter(is_free)
    }

    /// How many frames of a huge frame are free in these domains.
    pub(crate) fn free_in(&self, huge: HugeId, set: DomainSet) -> usize {
        self.count_in(huge, set, A::free_in_huge, A::free_map)
    }

    /// How many are in use.
    pub(crate) fn used_in(&self, huge: HugeId, set: DomainSet) -> usize {
        self.count_in(huge, set, A::frames_in_use, A::used_map)
    }

    /// Counts frames of a huge frame in these domains: as the zone does that has all of it, or, where several share it, by the
    /// maps of their units.
    fn count_in(
        &self,
        huge: HugeId,
        set: DomainSet,
        all: impl Fn(&A, HugeId) -> usize,
        map: impl Fn(&A, FrameId) -> u64,
    ) -> usize {
        if huge.0 > usize::MAX >> A::Geometry::HUGE_ORDER {
            return 0;
        }
        if let Some((zone, there)) = self.whole_at(huge) {
            return if set.has(zone.domain) { all(&zone.allocator, there) } else { 0 };
        }
        let units = Self::units(huge.first::<A::Geometry>()).filter_map(|unit| self.at(unit));
        let own = units.filter(|(zone, _)| set.has(zone.domain));
        own.map(|(zone, there)| map(&zone.allocator, there).count_ones() as usize).sum()
    }

    /// Calls for the huge frames of a range, if each lies wholly in a zone and `may` says nothing against any of them.
    pub(crate) fn each_huge_that<E: Outer>(
        &self,
        (first, count): (HugeId, usize),
        may: impl Fn(&Zone<'a, A>, HugeId) -> Result<(), E>,
        does: impl Fn(&Zone<'a, A>, HugeId, usize) -> Result<(), E>,
        undoes: impl Fn(&Zone<'a, A>, HugeId, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        for huge in self.all_huge(first, count)?.map(HugeId) {
            let (zone, there) = self.at_huge(huge).ok_or(E::OUT_OF_RANGE)?;
            if !zone.allocator.zone().huge_range::<A::Geometry>().contains(&there) {
                return Err(E::OUT_OF_RANGE);
            }
        }
        self.look_at_huge(first, count, may)?;
        self.each_huge(first, count, does, undoes)
    }

    /// Does `may` say nothing against any huge frame of a range?
    pub(crate) fn look_at_huge<E: Outer>(
        &self,
        first: HugeId,
        count: usize,
        may: impl Fn(&Zone<'a, A>, HugeId) -> Result<(), E>,
    ) -> Result<(), E> {
        self.all_huge(first, count)?.map(HugeId).try_for_each(|huge| {
            let (zone, there) = self.at_huge(huge).ok_or(E::OUT_OF_RANGE)?;
            may(zone, there).map_err(|error| error.outside(zone))
        })
    }

    /// The numbers of huge frames each of which lies in a zone with all of its frames.
    fn all_huge<E: Outer>(&self, first: HugeId, count: usize) -> Result<Range<usize>, E> {
        let end = first.0.checked_add(count).filter(|_| count > 0).ok_or(E::OUT_OF_RANGE)?;
        match (first.0..end).all(|huge| self.whole_at(HugeId(huge)).is_some()) {
            true => Ok(first.0..end),
            false => Err(E::OUT_OF_RANGE),
        }
    }

    /// Calls for the huge frames of a range, run by run in each zone; undoes what it did if one refuses.
    pub(crate) fn each_huge<E: Outer>(
        &self,
        first: HugeId,
        count: usize,
        does: impl Fn(&Zone<'a, A>, HugeId, usize) -> Result<(), E>,
        undoes: impl Fn(&Zone<'a, A>, HugeId, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let Range { start: mut next, end } = self.all_huge(first, count)?;
        while next < end {
            let done = match self.huge_run(HugeId(next), end) {
                Some((zone, huge, many)) => {
                    does(zone, huge, many).map(|()| many).map_err(|error| error.outside(zone))
                }
                // Its zone was removed meanwhile.
                None => Err(E::OUT_OF_RANGE),
            };
            match done {
                Ok(many) => next += many,
                Err(error) => {
                    self.undo_huge(first.0..next, undoes);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Undoes what was just done to huge frames; what is removed by now has nothing to undo.
    fn undo_huge<E>(
        &self,
        done: Range<usize>,
        undoes: impl Fn(&Zone<'a, A>, HugeId, usize) -> Result<(), E>,
    ) {
        let mut back = done.start;
        while back < done.end {
            let Some((zone, huge, many)) = self.huge_run(HugeId(back), done.end) else {
                back += 1;
                continue;
            };
            let _ = undoes(zone, huge, many);
            back += many;
        }
    }

    /// Are some of these huge frames in no zone that the machine began with?
    pub(crate) fn reaches_added(&self, first: HugeId, count: usize) -> bool {
        let end = first.0.saturating_add(count).min(usize::MAX >> A::Geometry::HUGE_ORDER);
        (first.0..end).map(|huge| HugeId(huge).first::<A::Geometry>()).any(|frame| {
            !self.zones.first.longest.has(frame)
                && self.index.locate::<A::Geometry>(frame).is_none()
        })
    }

    /// Huge frames that follow one another in a zone, up to `end`.
    fn huge_run(&self, first: HugeId, end: usize) -> Option<(&Zone<'a, A>, HugeId, usize)> {
        if first.0 >= end {
            return None;
        }
        let (zone, huge) = self.at_huge(first)?;
        let follows = |&many: &usize| {
            self.at_huge(HugeId(first.0 + many)).is_some_and(|(other, there)| {
                core::ptr::eq(zone, other) && there.0 == huge.0 + many
            })
        };
        let many = (1..end - first.0).take_while(follows).count() + 1;
        Some((zone, huge, many))
    }
}

impl<A: FrameAllocator> Zone<'_, A> {
    /// Isolates again what was claimed, and gives it back, each by itself, for others may have isolated some meanwhile. A
    /// block stays its owner's until it is isolated.
    pub(crate) fn isolate_again(&self, first: HugeId, count: usize, claim: Claim) {
        let (zone, order) = (&self.allocator, Order::huge::<A::Geometry>());
        for huge in (first.0..first.0 + count).map(HugeId) {
            if claim == Claim::Offline {
                let _ = zone.online(huge, 1);
            }
            let _ = zone.isolate(huge, 1);
            if let Claim::Block(slot) = claim {
                let _ = zone.free(huge.first::<A::Geometry>(), order, slot);
            }
        }
    }
}

/// An error of a call for huge frames.
pub(crate) trait Outer {
    const OUT_OF_RANGE: Self;

    /// With frames as the caller counts them.
    fn outside<A: FrameAllocator>(self, zone: &Zone<'_, A>) -> Self;
}

impl Outer for OfflineError {
    const OUT_OF_RANGE: Self = OfflineError::OutOfRange;

    fn outside<A: FrameAllocator>(self, zone: &Zone<'_, A>) -> Self {
        match self {
            OfflineError::InUse(frame) => OfflineError::InUse(zone.frame(frame)),
            other => other,
        }
    }
}

impl Outer for IsolateError {
    const OUT_OF_RANGE: Self = IsolateError::OutOfRange;

    fn outside<A: FrameAllocator>(self, zone: &Zone<'_, A>) -> Self {
        let frame = |huge: HugeId| zone.frame(huge.first::<A::Geometry>());
        let outside = |huge| frame(huge).huge::<A::Geometry>();
        match self {
            IsolateError::Isolated(huge) => IsolateError::Isolated(outside(huge)),
            IsolateError::Offline(huge) => IsolateError::Offline(outside(huge)),
            IsolateError::NotIsolated(huge) => IsolateError::NotIsolated(outside(huge)),
            IsolateError::InUse(frame) => IsolateError::InUse(zone.frame(frame)),
            other => other,
        }
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;
    use super::*;
    use crate::{Map, Present, RemoveError, Setup};
    use std::vec;
    use woodlot_frame::{Base4K, Init, METADATA_ALIGN, MetadataSize, RawMetadata, Request, Slot};
    use woodlot_llfree::LLFree;

    type Machine = Domains<'static, LLFree<'static, Base4K>>;

    const CHUNK: usize = Base4K::MAX_FRAMES;
    const HUGE: usize = CHUNK / Base4K::HUGE_FRAMES;
    /// All huge frames of it.
    const ALL: (HugeId, usize) = (HugeId(0), 2 * HUGE);

    /// A chunk of each of two domains.
    fn two() -> Machine {
        let memory = |bytes| {
            let memory = vec![0_u8; bytes + METADATA_ALIGN].leak().as_mut_ptr();
            (memory.wrapping_add(memory.align_offset(METADATA_ALIGN)), bytes)
        };
        let metadata = |_, size: MetadataSize| {
            Ok(RawMetadata { durable: memory(size.durable), volatile: memory(size.volatile) })
        };
        let chunk = |at: usize| {
            let frames = FrameId(at * CHUNK)..FrameId((at + 1) * CHUNK);
            Present::new(frames, DomainId(at as u8))
        };
        let mut ranges = [chunk(0), chunk(1)];
        let map = Map::new(&mut ranges).expect("it is right");
        // SAFETY: the memory is new, and stays.
        let machine = unsafe { Setup::new(map, 1).make(metadata, Init::Free) };
        machine.expect("it is right")
    }

    /// Calls for all huge frames of a machine, which is refused. No huge frame of the first domain was free in between, of which none
    /// is before: that would be told as news.
    fn refused<E: PartialEq + core::fmt::Debug>(
        machine: &Machine,
        call: impl Fn(&Machine) -> Result<(), E>,
        why: E,
    ) {
        let before = machine.stats();
        let first = &machine.zones.first.allocator;
        let (news, _) = first.ask_for_news();
        assert_eq!(call(machine), Err(why));
        assert!(!first.has_news(news), "a huge frame of the first domain was free in between");
        assert_eq!(machine.stats(), before);
    }

    #[test]
    fn what_is_refused_gives_nothing_away_in_between() {
        let (machine, (first, all)) = (two(), ALL);
        let last = HugeId(all - 1);
        let (here, there) = ((first, HUGE), (HugeId(HUGE), HUGE - 1));
        for (first, count) in [here, there] {
            machine.isolate(first, count).expect("nothing is");
        }
        let not_isolated = IsolateError::NotIsolated(last);
        refused(&machine, |machine| machine.unisolate(first, all), not_isolated);
        let used = last.first::<Base4K>();
        machine.alloc(Request::movable(Order::BASE, Slot(0)).at(used)).expect("it is free");
        machine.isolate(last, 1).expect("it is not");
        for claim in [Claim::Block(Slot(0)), Claim::Offline] {
            let call = |machine: &Machine| machine.claim_isolated(first, all, claim);
            refused(&machine, call, IsolateError::InUse(used));
        }
        let range = FrameId(0)..FrameId(2 * CHUNK);
        let call = |machine: &Machine| machine.remove_range(range.clone()).map(drop);
        refused(&machine, call, RemoveError::InUse(used));
        for (first, count) in [here, there] {
            machine.claim_isolated(first, count, Claim::Offline).expect("they are empty");
        }
        let call = |machine: &Machine| machine.online(first, all);
        refused(&machine, call, OfflineError::NotOffline);
        machine.unisolate(last, 1).expect("it is isolated");
        refused(&machine, call, OfflineError::NotOffline);
        machine.free(used, Order::BASE, Slot(0)).expect("it is allocated");
        refused(&machine, call, OfflineError::NotOffline);
        machine.drain(Slot(0)).expect("it is a slot");
        machine.offline(last, 1).expect("it is free");
        machine.online(first, all).expect("all are offline");
        assert_eq!(machine.stats().free_huge, all);
    }
}
