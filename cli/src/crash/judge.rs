//! Recovery after everybody was killed, and what is found then: the zone against the log.

use std::time::Duration;

use woodlot_bench::Failure;
use woodlot_bench::random::Random;
use woodlot_bench::recovery::opened;
use woodlot_frame::{FrameAllocator, FrameId};
use woodlot_zone::{Check, Closed, Hidden, Opened, Repairs, Shared, Zone, verify};

use super::actor::{Actor, G};
use super::arena::Arena;
use super::log::{Log, Owner, SEATS};
use crate::zone::file::Access;

/// The number of who judges, and frees what the dead have owned: no other process has it.
pub const JUDGE: u32 = 1;

/// What a recovery found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub time: Duration,
    /// Frames that are free and owned.
    pub overlaps: usize,
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
pub fn recover(
    arena: &Arena,
    threads: usize,
    random: &mut Random,
    at_the_end: bool,
) -> Result<Found, Failure> {
    let mapped = arena.map(Access::Change)?;
    let (memory, log) = arena.parts(&mapped)?;
    let at = |cause| Failure::at(arena.path(), cause);
    // SAFETY: everybody else has ended, and the file is locked.
    let before = unsafe { verify::<G>(memory, Some(&arena.config)) }.map_err(at)?.repairs;
    // SAFETY: as above.
    let opened = unsafe { opened(memory, Some(&arena.config), Check::Quick, Shared, threads) };
    let (zone, how, time): (Zone<'_, G, _>, _, _) = opened.map_err(at)?;

    let (mut found, lost) = compare(&zone, &log);
    found.time = time;
    found.wrong.extend(doubts(&how, &before, &zone));
    if found.overlaps > 0 {
        return Ok(found);
    }
    // What the dead were about to free and have freed is nobody's.
    for (frame, owner) in log.owners().filter(|(_, owner)| matches!(owner, Owner::Freeing(_))) {
        let _ = log.change(frame, owner, Owner::Nobody);
    }
    let mut judge = judge(&zone, log, Random::new(random.bits()));
    for &frame in &lost {
        // Nobody else is there to change it.
        let _ = log.change(frame, Owner::Nobody, Owner::Owned(JUDGE));
    }
    let keep = if at_the_end { 0 } else { random.below(3) as u32 };
    let buried = judge.give_frames(&lost).and_then(|()| judge.bury(|id| id % 3 >= keep));
    if let Err(finding) = buried {
        found.wrong.push(finding.describe());
    }
    if at_the_end {
        let free = zone.stats().free_frames;
        if free != arena.config.frames {
            found.wrong.push(format!(
                "{free} of {} frames are free when all are freed",
                arena.config.frames
            ));
        }
        let closed = zone.close().map_err(at)?;
        if closed != Closed::Clean {
            found.wrong.push(format!("the zone cannot be closed after a recovery: {closed:?}"));
        }
    }
    Ok(found)
}

/// Who frees what others have left: beside the processes, at the last seat.
pub fn judge<'a>(zone: &'a Zone<'a, G, Shared>, log: Log<'a>, random: Random) -> Actor<'a> {
    Actor::new(zone, log, log.seat(SEATS - 1), (JUDGE, 0), 0, random)
}

/// The zone beside the log, frame by frame; and the frames that are lost.
fn compare(zone: &Zone<'_, G, Shared>, log: &Log<'_>) -> (Found, Vec<usize>) {
    let mut found = Found::default();
    let mut lost: Vec<usize> = Vec::new();
    let mut map = 0;
    for (frame, owner) in log.owners() {
        if frame % 64 == 0 || frame == zone.zone().start.0 {
            map = zone.free_map(FrameId(frame));
        }
        let free = map >> (frame % 64) & 1 != 0;
        match (owner, free) {
            (Owner::Owned(_), true) => found.overlaps += 1,
            (Owner::Nobody | Owner::Freeing(_), false) => lost.push(frame),
            (Owner::Owned(_), false) | (Owner::Nobody | Owner::Freeing(_), true) => {}
        }
    }
    found.lost = lost.len();
    found.pieces = lost.chunk_by(|a, b| a + 1 == *b).count();
    (found, lost)
}

/// What is wrong with how a zone was opened, and its counts.
fn doubts(how: &Opened, before: &Repairs, zone: &Zone<'_, G, Shared>) -> Vec<String> {
    let mut wrong = Vec::new();
    let Opened::Recovered { repairs, .. } = how else {
        return vec!["the zone was opened as one that was closed".into()];
    };
    if repairs != before {
        wrong.push(format!("verify said {before:?}, and the recovery {repairs:?}"));
    }
    let damage = [repairs.rows_reset, repairs.outside, repairs.cut_open, repairs.states_cleared];
    if damage != [0; 4] {
        wrong.push(format!("the recovery repaired damage: {repairs:?}"));
    }
    let hidden = zone.hidden();
    if hidden != Hidden::default() {
        wrong.push(format!("the recovery has left something hidden: {hidden:?}"));
    }
    let stats = zone.stats();
    if (stats.free_frames, stats.free_huge) != (repairs.free_frames, repairs.free_huge) {
        wrong.push(format!("the zone counts {stats:?} after the recovery {repairs:?}"));
    }
    wrong
}
