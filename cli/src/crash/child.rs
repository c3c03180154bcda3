//! A process of the test: this program, started again. It makes calls until it is killed, or recovers the zone
//! again and again.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PathBufValueParser;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use woodlot_bench::Failure;
use woodlot_bench::random::Random;
use woodlot_frame::{FrameAllocator, Slot};
use woodlot_zone::{Intents, Member, Owners, OwnersError, Shared, Tagged};

use super::actor::{Actor, Defect, G};
use super::arena::Arena;
use super::kept::{Bare, Keeping, Kept};
use super::log::SEATS;
use crate::zone::file::{Access, Mapped};

/// The verb that a process is started with.
pub const VERB: &str = "crash-process";

/// The exit code of a process that has found a defect.
pub const FOUND: u8 = 3;

/// What a process is told.
#[derive(Args, Debug)]
pub struct ChildArgs {
    #[arg(value_parser = PathBufValueParser::new())]
    file: PathBuf,
    /// Who started it
    #[arg(long)]
    parent: i32,
    #[arg(long)]
    seat: usize,
    /// The slot that it uses; with owners and without intents, it takes one that nobody has
    #[arg(long, default_value_t = 0)]
    slot: usize,
    #[arg(long)]
    id: u32,
    #[arg(long)]
    seed: u64,
    #[arg(long, default_value_t = 0)]
    quota: usize,
    #[arg(long)]
    defect: Option<Defect>,
    #[arg(long)]
    engine: Kept,
    #[arg(long)]
    slots: usize,
    /// The zone has a table of its owners
    #[arg(long)]
    owners: bool,
    /// Each slot has a record of its last operation
    #[arg(long)]
    intents: bool,
    /// Recover the zone, in place of using it
    #[arg(long)]
    recover: bool,
}

/// Lives until it is killed. True: it has found a defect, and the log says which.
pub fn child(args: &ChildArgs) -> Result<bool, Failure> {
    // Who started it may die at any moment as well, also before this.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Failure::Failed(error.to_string()))?;
    if getppid().map(|parent| parent.as_raw_pid()) != Some(args.parent) {
        return Ok(false);
    }
    if args.seat >= SEATS {
        return Err(Failure::Usage(format!("there are {SEATS} seats")));
    }
    match (args.engine, args.intents) {
        (Kept::Onewrite, _) => sit_down::<Bare>(args),
        (Kept::Llfree, false) => sit_down::<Shared>(args),
        (Kept::Llfree, true) => sit_down::<Intents<Shared>>(args),
    }
}

/// Takes the seat, and recovers the zone or uses it.
fn sit_down<K: Keeping>(args: &ChildArgs) -> Result<bool, Failure> {
    let access = if args.recover { Access::Change } else { Access::Join };
    let mapped = Mapped::open(&args.file, access)?;
    let arena = Arena::<K>::at(args.file.clone(), args.slots, args.owners)?;
    let log = arena.log(&mapped)?;
    let seat = log.seat(args.seat);
    seat.take(args.id);
    if args.recover {
        loop {
            // SAFETY: the lock keeps everybody else away; the zone before was dropped.
            unsafe { K::recover(arena.site(&mapped)) }?;
            seat.end();
        }
    }
    let zone = arena.attach(&mapped)?;
    let (zone, random) = (&*zone, Random::new(args.seed));
    let Some(owners) = arena.owners(&mapped)? else {
        let mut actor = Actor::new(zone, log, seat, (args.id, args.slot), args.quota, random);
        actor.intents = K::INTENTS;
        return Ok(live(actor, args.defect));
    };
    let refused = |cause: OwnersError| Failure::at(&args.file, cause);
    let me = owners.join(args.id.into()).map_err(refused)?;
    let slot = match K::INTENTS {
        true => claim(owners, me, args)?,
        // The slots of those who were killed may not be free yet. To have none is no matter.
        false => owners.claim_free_slot(me).unwrap_or_default(),
    };
    let tagged = Tagged::new(zone, owners, me).map_err(refused)?;
    let mut actor = Actor::new(&tagged, log, seat, (args.id, slot.0), args.quota, random);
    actor.intents = K::INTENTS;
    Ok(live(actor, args.defect))
}

/// Claims the slot that the process was given, which is nobody's.
fn claim(owners: Owners<'_>, me: Member, args: &ChildArgs) -> Result<Slot, Failure> {
    let slot = Slot(args.slot);
    match owners.claim_slot(me, slot) {
        Err(OwnersError::SlotTaken { .. }) if args.defect == Some(Defect::ReuseSlots) => Ok(slot),
        claimed => claimed.map(|()| slot).map_err(|cause| Failure::at(&args.file, cause)),
    }
}

/// Makes calls until it is killed, or finds a defect.
fn live<A: FrameAllocator<Geometry = G>>(mut actor: Actor<'_, A>, defect: Option<Defect>) -> bool {
    actor.defect = defect;
    loop {
        if let Err(finding) = actor.step() {
            actor.log.report(finding);
            return true;
        }
    }
}
