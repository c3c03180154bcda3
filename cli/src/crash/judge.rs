//! Recovery after everybody was killed, and what is found then: the zone against the log.

use std::num::NonZeroU64;
use std::time::Duration;

use woodlot_bench::Failure;
use woodlot_bench::random::Random;
use woodlot_frame::{FrameAllocator, FrameId, Order, Slot};
use woodlot_zone::{Owners, Tagged};

use super::actor::{Actor, Defect};
use super::arena::Arena;
use super::kept::{Keeping, Recovered};
use super::log::{Log, Owner, SEATS};
use crate::zone::file::{Access, Mapped};

/// The number of who judges, and frees what the dead have owned: no other process has it.
pub const JUDGE: u32 = 1;

/// The same, as who sweeps.
const BY: NonZeroU64 = NonZeroU64::new(JUDGE as u64).unwrap();

/// The slot of who judges: with intents no other process has it.
pub const OWN_SLOT: usize = 0;

/// What a recovery found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub time: Duration,
    /// Frames that are free and owned.
    pub overlaps: usize,
    /// Frames that were allocated and nobody's, and that the intents named, or the log as about to be freed: so they
    /// were freed.
    pub resolved: usize,
    /// Frames that are allocated and nobody's, and in how many pieces.
    pub lost: usize,
    pub pieces: usize,
    /// What else is wrong.
    pub wrong: Vec<String>,
}

/// Recovers the zone by so many threads, compares it with the log, and frees what is lost and a part of what the dead
/// have owned: all of it at the end.
///
/// # Errors
/// When the zone cannot be opened.
pub fn recover<K: Keeping>(
    arena: &Arena<K>,
    threads: usize,
    random: &mut Random,
    defect: Option<Defect>,
    at_the_end: bool,
) -> Result<Found, Failure> {
    let mapped = arena.map(Access::Change)?;
    mapped.whole(arena.path(), recover_on(arena, &mapped, threads, random, defect, at_the_end))
}

fn recover_on<K: Keeping>(
    arena: &Arena<K>,
    mapped: &Mapped,
    threads: usize,
    random: &mut Random,
    defect: Option<Defect>,
    at_the_end: bool,
) -> Result<Found, Failure> {
    let log = arena.log(mapped)?;
    // SAFETY: everybody else has ended, and the file is locked.
    let recovered = unsafe { K::open(arena.site(mapped), threads, random) }?;
    let Recovered { zone, time, mut wrong } = recovered;
    let resolved = match K::INTENTS && defect != Some(Defect::Unresolved) {
        true => resolve::<K>(&zone, &log),
        false => Ok(0),
    };
    let resolved = resolved.unwrap_or_else(|what| {
        wrong.push(what);
        0
    });
    let (mut found, lost) = compare(&*zone, &log);
    found.wrong.extend(wrong);
    found = Found { time, resolved, ..found };
    if found.overlaps > 0 {
        return Ok(found);
    }
    // What the dead were about to free and have freed is nobody's.
    for (frame, owner) in log.owners().filter(|(_, owner)| matches!(owner, Owner::Freeing(_))) {
        let _ = log.change(frame, owner, Owner::Nobody);
    }
    match arena.owners(mapped)? {
        Some(owners) => found.wrong.extend(sweep::<K>(&zone, &log, owners, random, at_the_end)),
        None => found.wrong.extend(bury::<K>(&zone, log, &lost, random, at_the_end)),
    }
    let free = zone.stats().free_frames;
    if at_the_end && free != arena.config.frames {
        let all = arena.config.frames;
        found.wrong.push(format!("{free} of {all} frames are free when all are freed"));
    }
    if at_the_end {
        found.wrong.extend(K::close(zone));
    }
    Ok(found)
}

/// Frees what is allocated and nobody's, and was about to be freed, or is named by the record of a slot: what the killed
/// allocated and had not logged yet. Returns how many frames that were; or what is wrong.
fn resolve<K: Keeping>(zone: &K::Engine<'_>, log: &Log<'_>) -> Result<usize, String> {
    // A free overwrites the record of its slot: so all are read before.
    let named = K::named(zone);
    let mut resolved = 0;
    for (frame, owner) in log.owners() {
        let nobodys = match owner {
            Owner::Owned(_) => false,
            Owner::Freeing(_) => true,
            Owner::Nobody => named.contains(&frame),
        };
        let id = FrameId(frame);
        if nobodys && !zone.is_free(id, Order(0)) {
            let freed = zone.free(id, Order(0), Slot(OWN_SLOT));
            freed.map_err(|cause| format!("frame {frame:#x} in doubt cannot be freed: {cause}"))?;
            resolved += 1;
        }
    }
    Ok(resolved)
}

/// Frees what is lost and a part of what the dead have owned, by the log. What is wrong, if something is.
fn bury<K: Keeping>(
    zone: &K::Engine<'_>,
    log: Log<'_>,
    lost: &[usize],
    random: &mut Random,
    all: bool,
) -> Option<String> {
    let mut judge = judge::<K>(zone, log, Random::new(random.bits()));
    for &frame in lost {
        // Nobody else is there to change it.
        let _ = log.change(frame, Owner::Nobody, Owner::Owned(JUDGE));
    }
    let keep = if all { 0 } else { random.below(3) as u32 };
    let buried = judge.give_frames(lost).and_then(|()| judge.bury(|id| id % 3 >= keep));
    buried.err().map(|finding| finding.describe())
}

/// Frees what a part of the dead has left, by the table of the owners, or of all: nothing is lost then. What is wrong, if
/// something is.
fn sweep<K: Keeping>(
    zone: &K::Zone<'_>,
    log: &Log<'_>,
    owners: Owners<'_>,
    random: &mut Random,
    all: bool,
) -> Option<String> {
    let kept = if all { 0 } else { random.below(3) as u32 };
    let keeps = |id: u32| id != JUDGE && id % 3 < kept;
    let tag = |frame| owners.owner(FrameId(frame)).map(|member| member.identity() as u32);
    for (frame, owner) in log.owners() {
        if let (Owner::Owned(id), tagged) = (owner, tag(frame))
            && tagged != Some(id)
        {
            return Some(format!("frame {frame:#x} of process {id} has the tag of {tagged:?}"));
        }
    }
    // Whoever had the right is dead, as everybody is.
    let sweeper = owners.sweeper(BY, |_| true);
    let swept = sweeper.map_err(|cause| cause.to_string());
    let swept = swept.and_then(|by| K::sweep(zone, &by, |member| keeps(member.identity() as u32)));
    if let Err(cause) = swept {
        return Some(format!("the owners cannot be swept: {cause}"));
    }
    let mut used = 0;
    for (frame, owner) in log.owners() {
        let owned = matches!(owner, Owner::Owned(id) if keeps(id)).then_some(owner);
        let tagged = tag(frame).map(Owner::Owned);
        // Without intents a sweep may leave to those who are kept what their last calls were about, and only the tags
        // say so.
        let agrees = owned == tagged || !K::INTENTS && owned.is_none() && owner == Owner::Nobody;
        if !agrees || zone.is_free(FrameId(frame), Order(0)) != tagged.is_none() {
            return Some(format!("a sweep left frame {frame:#x} of {owned:?} to {tagged:?}"));
        }
        used += usize::from(tagged.is_some());
        // Nobody else is there to change it.
        let _ = log.change(frame, owner, tagged.unwrap_or(Owner::Nobody));
    }
    let (free, all) = (zone.stats().free_frames, zone.zone().frames);
    (free + used != all).then(|| {
        format!("{free} of {all} frames are free after a sweep, and those who are kept own {used}")
    })
}

/// Frees what the dead have owned, by the table of the owners, while others go on.
///
/// # Errors
/// What is wrong.
pub fn release<K: Keeping>(
    tagged: &Tagged<'_, '_, K::Engine<'_>>,
    log: &Log<'_>,
    is_dead: impl Fn(u32) -> bool,
) -> Result<(), String> {
    // What is freed may be another's at once: so the log knows before.
    let freeing = Owner::Freeing(JUDGE);
    let theirs =
        log.owners().filter(|(_, owner)| matches!(owner, Owner::Owned(id) if is_dead(*id)));
    let theirs: Vec<usize> = theirs
        .filter(|&(frame, owner)| log.change(frame, owner, freeing).is_ok())
        .map(|(frame, _)| frame)
        .collect();
    for member in tagged.owners().members() {
        if is_dead(member.identity() as u32) {
            let released = tagged.release_owner(member, Slot(OWN_SLOT));
            released.map_err(|cause| {
                format!("process {} cannot be released: {cause}", member.identity())
            })?;
        }
    }
    for frame in theirs {
        // Who has allocated it meanwhile has written its own.
        let _ = log.change(frame, freeing, Owner::Nobody);
    }
    Ok(())
}

/// Who frees what others have left: beside the processes, at the last seat.
pub fn judge<'a, 'z, K: Keeping>(
    zone: &'a K::Engine<'z>,
    log: Log<'a>,
    random: Random,
) -> Actor<'a, K::Engine<'z>> {
    let mut judge = Actor::new(zone, log, log.seat(SEATS - 1), (JUDGE, OWN_SLOT), 0, random);
    judge.intents = K::INTENTS;
    judge
}

/// The zone beside the log, frame by frame; and the frames that are lost.
fn compare(zone: &impl FrameAllocator, log: &Log<'_>) -> (Found, Vec<usize>) {
    let mut found = Found::default();
    let mut lost: Vec<usize> = Vec::new();
    let (mut map, mut all_free) = (0, 0);
    for (frame, owner) in log.owners() {
        if frame % 64 == 0 || frame == zone.zone().start.0 {
            map = zone.free_map(FrameId(frame));
        }
        let free = map >> (frame % 64) & 1 != 0;
        all_free += usize::from(free);
        match (owner, free) {
            (Owner::Owned(_), true) => found.overlaps += 1,
            (Owner::Nobody | Owner::Freeing(_), false) => lost.push(frame),
            (Owner::Owned(_), false) | (Owner::Nobody | Owner::Freeing(_), true) => {}
        }
    }
    found.lost = lost.len();
    let counts = (zone.stats().free_frames, zone.free_frames());
    if counts != (all_free, all_free) {
        found.wrong.push(format!("{all_free} frames are free, and {counts:?} are counted"));
    }
    found.pieces = lost.chunk_by(|a, b| a + 1 == *b).count();
    (found, lost)
}
