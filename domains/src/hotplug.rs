//! Memory that is added and removed while all of it is in use.
//!
//! ```text
//!   add_range      what was never here: a zone of its own, with its metadata at the end of the range, or elsewhere
//!                  what was removed in part: its huge frames are put back
//!   remove_range   all huge frames of the range are taken out, or none: free ones, or those that its caller has isolated
//!                  a zone that was added and has none left goes, and what it was made from after its reclaim
//! ```
//!
//! *Progress*: one call at a time; another one is told so. Allocations and frees go on.

use core::fmt;
use core::ops::Range;

use woodlot_frame::{
    Construct, FrameAllocator, FrameId, Geometry, HugeId, Init, InitError, METADATA_ALIGN,
    MetadataSize, OfflineError, RawMetadata, ZoneConfig,
};

use crate::added::{Lock, Removal};
use crate::chunk;
use crate::domains::Domains;
use crate::map::{DomainId, Map, MapError, Present};
use crate::zone::{Before, Frames, Zone};

/// Where the metadata of a range lies.
#[derive(Clone, Copy, Debug)]
pub enum Metadata {
    /// In its last frames. The range is mapped from here on.
    Carved(*mut u8),
    /// Here.
    Given(RawMetadata),
}

/// Why a range is not added. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddError {
    /// What is wrong with the range itself.
    Range(MapError),
    /// The machine does not know the domain: neither its map nor its homes nor its distances name it.
    NoSuchDomain(DomainId),
    /// Another call adds or removes a range.
    Busy,
    /// This frame is there already, in this domain.
    Overlap(FrameId, DomainId),
    /// The range is not made of whole sections of the room for more memory.
    OutsideRoom(Present),
    /// There are as many added ranges as there is room for.
    TooManyRanges,
    /// The range has fewer frames than these, which its metadata takes.
    TooSmall(usize),
    /// The zone cannot be made.
    Zone(InitError),
}

impl fmt::Display for AddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(error) => error.fmt(f),
            Self::NoSuchDomain(domain) => write!(f, "the machine has no {domain}"),
            Self::Busy => f.write_str("another range is being added or removed"),
            Self::Overlap(frame, domain) => {
                write!(f, "frame {frame} is there already, in {domain}")
            }
            Self::OutsideRoom(Present { start, end, .. }) => write!(
                f,
                "the range from frame {start} to {end} is not made of whole sections of the room"
            ),
            Self::TooManyRanges => f.write_str("there is no room for another range"),
            Self::TooSmall(frames) => {
                write!(f, "the range has not the {frames} frames that its metadata takes")
            }
            Self::Zone(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for AddError {}

/// Why a range is not removed. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemoveError {
    /// The range ends where it begins, or before.
    Empty,
    /// This end of it is not that of a huge frame.
    Misaligned(FrameId),
    /// Another call adds or removes a range.
    Busy,
    /// This frame is allocated, is offline already, does not exist, or holds metadata that is in use; or its huge
    /// frame is not isolated although others of the range are. Metadata goes with the last of
    /// the range that it was carved from.
    InUse(FrameId),
    /// Some huge frame does not exist, or not all of it.
    OutOfRange,
    /// The engine cannot take memory out.
    Unsupported,
}

impl fmt::Display for RemoveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the range has no frames"),
            Self::Misaligned(frame) => write!(f, "no huge frame begins at frame {frame}"),
            Self::Busy => f.write_str("another range is being added or removed"),
            Self::InUse(frame) => write!(f, "frame {frame} is in use"),
            Self::OutOfRange => f.write_str("not whole huge frames of the machine"),
            Self::Unsupported => f.write_str("this engine cannot take memory out"),
        }
    }
}

impl core::error::Error for RemoveError {}

/// A range that was removed.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "what it was made from is in use until its reclaim"]
pub struct Removed {
    frames: Range<FrameId>,
    zones: usize,
    removal: Removal,
}

impl Removed {
    /// The frames.
    pub fn frames(&self) -> Range<FrameId> {
        self.frames.clone()
    }

    /// How many added ranges went with it altogether: with none, there is nothing to reclaim. A range that is removed in
    /// parts goes with the last of them.
    pub const fn zones(&self) -> usize {
        self.zones
    }
}

impl<'a, A: FrameAllocator> Domains<'a, A> {
    /// Removes a range: from now on nobody allocates its frames. It is made of huge frames, all of which are free, or all of
    /// which are isolated and empty. What was [taken offline](FrameAllocator::offline) before counts as in use, unless it is
    /// not in the range.
    ///
    /// To remove what is in use, [isolate](FrameAllocator::isolate) the range, free or move what is in it, and remove it as it
    /// is: nobody allocates there in between. What holds carved metadata is not isolated, nor is what shares its huge frame; it is
    /// free when the range is removed. As no call knows who isolated a huge frame, only its isolator removes an isolated range, as it
    /// would [claim](FrameAllocator::claim_isolated) it: for anybody else it is still being emptied.
    ///
    /// The memory may be unplugged, if nothing of an added range is left, after the [reclaim](Self::reclaim).
    ///
    /// No call for huge frames of an added range and of other memory ([`offline`](FrameAllocator::offline),
    /// [`claim_isolated`](FrameAllocator::claim_isolated)) may be under way that takes the last of it: if it fails, it puts
    /// back what it took, perhaps into a zone that has just gone. Frames of it that are handed out then cannot be freed.
    ///
    /// # Errors
    /// Why it is not removed: a frame in use is named. Nothing has changed then, but that others may have found no
    /// memory meanwhile; what was isolated is isolated still, and when another call changed the same huge frames just then, may
    /// be in use.
    ///
    /// # Progress
    /// Linear in the huge frames of the range, beside allocations and frees.
    pub fn remove_range(&self, range: Range<FrameId>) -> Result<Removed, RemoveError> {
        if range.start >= range.end {
            return Err(RemoveError::Empty);
        }
        let ragged = |frame: &&FrameId| frame.0 & (A::Geometry::HUGE_FRAMES - 1) != 0;
        if let Some(&frame) = [&range.start, &range.end].into_iter().find(ragged) {
            return Err(RemoveError::Misaligned(frame));
        }
        let lock = self.zones.added.lock().ok_or(RemoveError::Busy)?;
        let (first, count) = huge_of::<A::Geometry>(&range);
        let mut there = (first.0..first.0 + count).map_while(|huge| self.at_huge(HugeId(huge)));
        let before = match there.any(|(zone, huge)| zone.allocator.is_isolated(huge)) {
            true => Before::Isolated,
            false => Before::Free,
        };
        self.take_out(first, count, before).map_err(|error| match error {
            OfflineError::InUse(frame) => RemoveError::InUse(frame),
            OfflineError::Unsupported => RemoveError::Unsupported,
            _ => RemoveError::OutOfRange,
        })?;
        let removal = self.zones.added.removal(&lock);
        let zones = self.retire(&lock, &range, removal);
        self.look_for_memory();
        Ok(Removed { frames: range, zones, removal })
    }

    /// Takes huge frames out, all or none. What is isolated is looked at first: an undo would give it away for a moment.
    fn take_out(&self, first: HugeId, count: usize, before: Before) -> Result<(), OfflineError> {
        if before == Before::Isolated {
            self.look_at_huge(first, count, Zone::may_go)?;
        }
        let does = |zone: &Zone<'a, A>, first, count| zone.take_out(first, count, before);
        let undoes = |zone: &Zone<'a, A>, first, count| zone.put_back(first, count, before);
        self.each_huge(first, count, does, undoes)
    }

    /// Takes the zones away of which nothing is left; how many.
    fn retire(&self, lock: &Lock<'_>, removed: &Range<FrameId>, removal: Removal) -> usize {
        let mut gone = 0;
        let mut next = removed.start;
        while next < removed.end {
            let found = self.zones.added.place_of(next);
            let found = found.and_then(|at| Some((at, self.zones.added.get(at)?)));
            let Some((at, zone)) = found else {
                // The last chunk may end with the number space.
                next = FrameId((next.0 | (A::Geometry::MAX_FRAMES - 1)).saturating_add(1));
                continue;
            };
            let Frames { start, count } = zone.longest;
            let range = FrameId(start)..FrameId(start + count);
            if removed.contains(&zone.metadata.start) && !zone.metadata.is_empty() || zone.is_gone()
            {
                self.zones.added.retire(lock, at, &range, removal);
                self.ask_no_more(at);
                gone += 1;
            }
            next = range.end;
        }
        gone
    }

    /// Makes slots that ask a place first ask the zone that their domain began with.
    fn ask_no_more(&self, at: usize) {
        let number = self.zones.number_of(at);
        let homes = self.turns.homes.iter().filter(|home| home.nearest() == number);
        homes.for_each(|home| home.ask(self.turns.head(home.domain)));
    }

    /// Lets go of what a removed range was made from: its metadata, wherever it is, is the caller's again. What another
    /// removal took away is not let go.
    ///
    /// # Errors
    /// The range, where another call adds or removes one.
    ///
    /// # Safety
    /// These domains removed it. No call of theirs is under way that began before
    /// [`remove_range`](Self::remove_range) returned: a grace period of RCU has passed, or all threads have been seen
    /// outside of the allocator.
    pub unsafe fn reclaim(&self, removed: Removed) -> Result<(), Removed> {
        match self.zones.added.lock() {
            Some(lock) => {
                for at in self.zones.added.gone(&lock, removed.removal) {
                    // A call that had found the zone before it was gone may have made a slot ask it since.
                    self.ask_no_more(at);
                    // SAFETY: as the caller says.
                    unsafe { self.zones.added.reclaim(&lock, at) };
                }
                Ok(())
            }
            None => Err(removed),
        }
    }
}

/// The huge frames of a range.
fn huge_of<G: Geometry>(range: &Range<FrameId>) -> (HugeId, usize) {
    (range.start.huge::<G>(), (range.end.0 - range.start.0) >> G::HUGE_ORDER)
}

impl<'a, A: Construct> Domains<'a, A> {
    /// Adds a range of memory, which can be allocated from now on: one that was never here and is made of whole sections of
    /// the [room](crate::Room), or one that was [removed](Self::remove_range) and whose zone is still here. Then the
    /// metadata is where it was, and what holds carved metadata is not of the range: it was not removed.
    ///
    /// # Errors
    /// Why it is not added.
    ///
    /// # Progress
    /// Linear in what of the range lies between the first and the last frame of the machine and its room, beside
    /// allocations and frees.
    ///
    /// # Safety
    /// The frames of the range are memory, nobody else's, until the range is removed, and so is its metadata until the
    /// [reclaim](Self::reclaim): as [`Construct::construct`] says.
    pub unsafe fn add_range(&self, range: Present, metadata: Metadata) -> Result<(), AddError> {
        Map::check(&range).map_err(AddError::Range)?;
        if !self.known.has(range.domain) {
            return Err(AddError::NoSuchDomain(range.domain));
        }
        let lock = self.zones.added.lock().ok_or(AddError::Busy)?;
        if let Some((frame, domain)) = self.first_of(range) {
            return self.add_again(range).ok_or(AddError::Overlap(frame, domain));
        }
        if !self.zones.added.fits(&range.range()) {
            return Err(AddError::OutsideRoom(range));
        }
        let place = self.zones.added.free(&lock).ok_or(AddError::TooManyRanges)?;
        // SAFETY: as the caller says.
        let zone = unsafe { self.zone_of(range, metadata) }?;
        self.zones.added.publish(&lock, place, zone, &range.range());
        // Slots at home there find it when they ask for memory.
        self.look_for_memory();
        Ok(())
    }

    /// The first frame of a range that is here, of those that begin a unit. There are none outside of the machine and its
    /// room.
    fn first_of(&self, range: Present) -> Option<(FrameId, DomainId)> {
        let step = 1 << chunk::UNIT;
        let ZoneConfig { start, frames, .. } = self.config;
        let mut next = range.start.0.max(start.0 & !(step - 1));
        let end = range.end.0.min(start.0 + frames);
        while next < end {
            if let Some(domain) = self.domain_of(FrameId(next)) {
                return Some((FrameId(next), domain));
            }
            next = (next & !(step - 1)).checked_add(step)?;
        }
        None
    }

    /// Puts a range back that was removed; `None`, if it is anything else.
    fn add_again(&self, range: Present) -> Option<()> {
        let (first, count) = huge_of::<A::Geometry>(&range.range());
        let ragged = (range.start.0 | range.end.0) & (A::Geometry::HUGE_FRAMES - 1) != 0;
        // Metadata is there for as long as its zone, and what shares a huge frame with it was never taken out.
        let own = |huge: usize| {
            self.at_huge(HugeId(huge))
                .is_some_and(|(zone, there)| zone.domain == range.domain && zone.is_whole(there))
        };
        if ragged || !(first.0..first.0 + count).all(own) {
            return None;
        }
        let does = |zone: &Zone<'a, A>, first, count| zone.put_back(first, count, Before::Free);
        let undoes = |zone: &Zone<'a, A>, first, count| zone.take_out(first, count, Before::Free);
        self.each_huge(first, count, does, undoes).ok()
    }

    /// The configuration of a zone of these frames.
    const fn config_of(&self, range: Range<FrameId>) -> ZoneConfig {
        ZoneConfig { start: range.start, frames: range.end.0 - range.start.0, ..self.config }
    }

    /// How much metadata a range takes that is [added](Self::add_range).
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn metadata_of(&self, range: Range<FrameId>) -> Result<MetadataSize, AddError> {
        Map::check(&Present::new(range.clone(), DomainId(0))).map_err(AddError::Range)?;
        A::metadata_size(&self.config_of(range)).map_err(AddError::Zone)
    }

    /// The zone of a range.
    ///
    /// # Safety
    /// As for [`add_range`](Self::add_range).
    unsafe fn zone_of(&self, range: Present, metadata: Metadata) -> Result<Zone<'a, A>, AddError> {
        let size = self.metadata_of(range.range())?;
        let (own, carved) = match metadata {
            Metadata::Given(metadata) => (metadata, range.end..range.end),
            Metadata::Carved(at) => {
                let durable = size.durable.next_multiple_of(METADATA_ALIGN);
                let frames = (durable + size.volatile).div_ceil(A::Geometry::BASE_BYTES);
                if frames >= range.frames() {
                    return Err(AddError::TooSmall(frames));
                }
                let before = range.frames() - frames;
                let at = at.wrapping_add(before * A::Geometry::BASE_BYTES);
                let durable_at = (at, size.durable);
                let volatile = (at.wrapping_add(durable), size.volatile);
                let carved = FrameId(range.start.0 + before)..range.end;
                (RawMetadata { durable: durable_at, volatile }, carved)
            }
        };
        own.check(size).map_err(AddError::Zone)?;
        let config = self.config_of(range.start..carved.start);
        // SAFETY: as the caller says.
        let allocator =
            unsafe { A::construct(&config, own, Init::Free) }.map_err(AddError::Zone)?;
        Ok(Zone {
            allocator,
            domain: range.domain,
            longest: Frames { start: range.start.0, count: range.frames() },
            first: (0, 0),
            chunks: &[],
            metadata: carved,
        })
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;
    use super::*;
    use crate::{Room, Setup};
    use core::cell::Cell;
    use std::vec;
    use woodlot_frame::Base4K;
    use woodlot_llfree::LLFree;

    const CHUNK: usize = Base4K::MAX_FRAMES;
    const HUGE: usize = CHUNK / Base4K::HUGE_FRAMES;

    type Machine = Domains<'static, LLFree<'static, Base4K>>;

    /// Memory that stays.
    fn metadata(size: MetadataSize) -> RawMetadata {
        let memory = |bytes| {
            let memory = vec![0_u8; bytes + METADATA_ALIGN].leak().as_mut_ptr();
            (memory.wrapping_add(memory.align_offset(METADATA_ALIGN)), bytes)
        };
        RawMetadata { durable: memory(size.durable), volatile: memory(size.volatile) }
    }

    fn chunk(at: usize, domain: u8) -> Present {
        Present::new(FrameId(at * CHUNK)..FrameId((at + 1) * CHUNK), DomainId(domain))
    }

    /// Chunks of domains 0, where slot 0 is at home, 1 and 0. Behind the first one, another one of domain 0 is added.
    fn grown() -> Machine {
        let mut ranges = [chunk(0, 0), chunk(2, 1), chunk(3, 0)];
        let map = Map::new(&mut ranges).expect("it is right");
        let room = Room::new(FrameId(0)..FrameId(4 * CHUNK), 1);
        let setup = Setup::new(map, 1).at_home(&[DomainId(0)]).growing(room);
        // SAFETY: the memory is new, and stays.
        let machine = unsafe { setup.make(|_, size| Ok(metadata(size)), Init::Free) };
        let machine = machine.expect("it is right");
        add(&machine, chunk(1, 0));
        machine
    }

    fn add(machine: &Machine, range: Present) {
        let given = metadata(machine.metadata_of(range.range()).expect("it is small"));
        // SAFETY: the memory is new, and stays; no frame is looked at.
        assert_eq!(unsafe { machine.add_range(range, Metadata::Given(given)) }, Ok(()));
    }

    /// Calls for all huge frames, of which those added are removed by the call for the zone with this number, which then
    /// does what `then` says. Others are taken offline. What it returned, and whether nothing is offline.
    fn call_while_one_goes(
        by: usize,
        then: Result<(), OfflineError>,
    ) -> (Result<(), OfflineError>, bool) {
        let (machine, calls) = (grown(), Cell::new(0));
        let added = chunk(1, 0);
        let does = |zone: &Zone<'_, LLFree<'_, Base4K>>, first, count| {
            let call = calls.replace(calls.get() + 1);
            if call == by {
                let removed = machine.remove_range(added.range()).expect("it is free");
                assert_eq!(removed.zones(), 1);
                then?;
            }
            if zone.longest.has(added.start) {
                return Ok(());
            }
            zone.allocator.offline(first, count)
        };
        let undoes =
            |zone: &Zone<'_, LLFree<'_, Base4K>>, first, count| zone.allocator.online(first, count);
        let done = machine.each_huge(HugeId(0), 4 * HUGE, does, undoes);
        (done, machine.stats().offline_huge == 0)
    }

    #[test]
    fn what_was_done_is_undone_if_a_later_zone_goes_meanwhile() {
        let done = call_while_one_goes(0, Ok(()));
        assert_eq!(done, (Err(OfflineError::OutOfRange), true));
    }

    #[test]
    fn an_undo_skips_a_zone_that_went_meanwhile() {
        let done = call_while_one_goes(3, Err(OfflineError::NotOffline));
        assert_eq!(done, (Err(OfflineError::NotOffline), true));
    }

    #[test]
    fn a_slot_does_not_ask_a_place_that_was_reclaimed() {
        let machine = grown();
        let [home] = machine.turns.homes else { panic!("there is one slot") };
        let removed = machine.remove_range(chunk(1, 0).range()).expect("it is free");
        // A call that had found the zone before makes the slot ask it.
        home.ask(machine.zones.number_of(0));
        // SAFETY: no other thread has the machine.
        assert_eq!(unsafe { machine.reclaim(removed) }, Ok(()));
        add(&machine, chunk(1, 1));
        assert_eq!(home.nearest(), machine.turns.head(DomainId(0)));
    }

    #[test]
    fn nothing_comes_online_in_a_zone_that_may_be_about_to_go() {
        let machine = grown();
        let huge = HugeId(HUGE);
        assert_eq!(machine.offline(huge, 1), Ok(()));
        assert_eq!(machine.offline(HugeId(0), 1), Ok(()));
        let lock = machine.zones.added.lock().expect("it is free");
        assert_eq!(machine.online(huge, 1), Err(OfflineError::Busy));
        assert_eq!(machine.online(HugeId(0), 1), Ok(()), "that zone stays");
        drop(lock);
        assert_eq!(machine.online(huge, 1), Ok(()));
    }
}
