//! The run: processes are started, killed and recovered from, until there were enough kills.
//!
//! ```text
//!   for each number of processes
//!     start those that are missing ── wait until each has made a call
//!     sleep 0.1 to 20 ms ── kill one, some or all
//!     at times free what the dead have owned, while the survivors go on
//!     with intents a slot rests whose last operation may be in doubt, until the next recovery
//!     at times kill everybody ── at times a process that recovers, killed as well ── recover, compare with the log
//! ```

use std::env::current_exe;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use rustix::process::Signal;
use woodlot_bench::Failure;
use woodlot_bench::random::Random;
use woodlot_frame::Slot;
use woodlot_zone::{Intents, Owners, OwnersError, Shared, Tagged};

use super::actor::Defect;
use super::arena::{Arena, Place};
use super::child::{FOUND, VERB};
use super::judge::{self, Found, JUDGE, OWN_SLOT, judge, release};
use super::kept::{Bare, Keeping, Kept};
use super::log::{Log, SEATS, Seat};
use crate::stop;
use crate::zone::file::{Access, Mapped};

/// What is to be done.
pub struct Plan {
    pub engine: Kept,
    pub place: Place,
    /// How many processes, one number after the other.
    pub processes: Vec<usize>,
    /// How often one is killed, in all.
    pub kills: usize,
    /// The most time that it may take.
    pub limit: Option<Duration>,
    pub seed: u64,
    /// Is there a table of the owners?
    pub owners: bool,
    /// Does a record of each slot name its last operation?
    pub intents: bool,
    pub defect: Option<Defect>,
}

/// What was counted with a number of processes.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub processes: usize,
    pub kills: usize,
    /// How many of the killed were in a call.
    pub in_a_call: usize,
    pub calls: u64,
    pub seconds: f64,
    /// Microseconds, one for each.
    pub recoveries: Vec<f64>,
    /// Processes that were killed while they recovered.
    pub recoverers: usize,
    pub overlaps: usize,
    /// Frames that the intents named, or the log as about to be freed, and that were freed.
    pub resolved: usize,
    /// Recoveries that found frames lost, how many frames, and in how many pieces.
    pub with_losses: usize,
    pub lost: usize,
    pub pieces: usize,
    /// How many frames the calls of the killed concerned, and may have hidden beside them: no more may be lost.
    pub bound: usize,
}

/// How a run ended.
pub struct Ended {
    pub tallies: Vec<Tally>,
    /// What is wrong with the zone; nothing, as a rule.
    pub wrong: Vec<String>,
    /// Was it asked to stop before its end?
    pub interrupted: bool,
}

/// A process that lives.
struct Running {
    process: Child,
    id: u32,
    slot: usize,
}

/// One number of processes.
struct Phase<'a, K> {
    arena: &'a Arena<K>,
    plan: &'a Plan,
    random: &'a mut Random,
    /// The last number that a process was given.
    last: &'a mut u32,
    tally: Tally,
    wrong: Vec<String>,
    seats: Vec<Option<Running>>,
    /// The slots that no process has: that of the one killed last is the last.
    slots: Vec<usize>,
    /// What may be lost until the next recovery.
    bound: usize,
    ends: Ends,
}

/// When a phase is over.
struct Ends {
    kills: usize,
    at: Option<Instant>,
}

/// How long a process may take until it has made its first call.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many threads recover at most.
const THREADS: usize = 3;
/// Between two kills, in microseconds.
const SLEEP: (f64, f64) = (100.0, 20_000.0);

/// Runs the plan.
///
/// # Errors
/// What keeps processes from being started, or the zone from being opened. What is wrong with the zone itself is in
/// what is returned.
pub fn run(plan: &Plan, progress: &dyn Fn(usize)) -> Result<Ended, Failure> {
    match (plan.engine, plan.intents) {
        (Kept::Onewrite, _) => run_on::<Bare>(plan, progress),
        (Kept::Llfree, false) => run_on::<Shared>(plan, progress),
        (Kept::Llfree, true) => run_on::<Intents<Shared>>(plan, progress),
    }
}

fn run_on<K: Keeping>(plan: &Plan, progress: &dyn Fn(usize)) -> Result<Ended, Failure> {
    let most = plan.processes.iter().copied().max().unwrap_or(1);
    // With intents who judges has one of its own, and as many slots as there are processes can rest.
    let slots = if K::INTENTS { 1 + 2 * most } else { most };
    let (arena, _keeper) = Arena::<K>::make(&plan.place, slots, plan.owners)?;
    let (mut random, mut last) = (Random::new(plan.seed), JUDGE);
    let mut ended = Ended { tallies: Vec::new(), wrong: Vec::new(), interrupted: false };
    let (begun, phases) = (Instant::now(), plan.processes.len());
    for (index, &processes) in plan.processes.iter().enumerate() {
        let until = |part: usize| plan.kills * part / phases;
        let share =
            plan.limit.map(|limit| begun + limit.mul_f64((index + 1) as f64 / phases as f64));
        let mut phase = Phase {
            arena: &arena,
            plan,
            random: &mut random,
            last: &mut last,
            tally: Tally { processes, ..Tally::default() },
            wrong: Vec::new(),
            seats: (0..processes).map(|_| None).collect(),
            slots: (usize::from(K::INTENTS)..slots).collect(),
            bound: 0,
            ends: Ends { kills: until(index + 1) - until(index), at: share },
        };
        let done = phase.run(index + 1 == phases, &|kills| progress(until(index) + kills));
        // Whatever happened, nobody is left behind.
        phase.kill_all();
        ended.tallies.push(phase.tally);
        ended.wrong.extend(phase.wrong);
        done?;
        ended.interrupted = stop::asked();
        if ended.interrupted || !ended.wrong.is_empty() {
            break;
        }
    }
    Ok(ended)
}

impl<K: Keeping> Phase<'_, K> {
    /// Until there were enough kills, or something is wrong, or it is asked to stop.
    fn run(&mut self, last: bool, progress: &dyn Fn(usize)) -> Result<(), Failure> {
        let begun = Instant::now();
        while self.epoch(progress)? {}
        if self.wrong.is_empty() && (last || stop::asked()) {
            // Nothing was done since: this is the zone that was just recovered.
            self.recover(true)?;
        }
        self.tally.seconds = begun.elapsed().as_secs_f64();
        Ok(())
    }

    fn is_over(&self) -> bool {
        let late = self.ends.at.is_some_and(|at| Instant::now() >= at);
        self.tally.kills >= self.ends.kills || late || stop::asked()
    }

    /// From an opening to the next one. False: it was the last one.
    fn epoch(&mut self, progress: &dyn Fn(usize)) -> Result<bool, Failure> {
        self.live_and_die(progress)?;
        if !self.wrong.is_empty() {
            return Ok(false);
        }
        if self.random.below(4) == 0 {
            self.kill_a_recoverer()?;
        }
        self.recover(false)?;
        Ok(!self.is_over() && self.wrong.is_empty())
    }

    /// Until everybody was killed, and nobody is to take their place.
    fn live_and_die(&mut self, progress: &dyn Fn(usize)) -> Result<(), Failure> {
        let mapped = self.arena.map(Access::Join)?;
        let done = self.live_and_die_on(&mapped, progress);
        mapped.whole(self.arena.path(), done)
    }

    fn live_and_die_on(
        &mut self,
        mapped: &Mapped,
        progress: &dyn Fn(usize),
    ) -> Result<(), Failure> {
        let log = self.arena.log(mapped)?;
        let zone = self.arena.attach(mapped)?;
        let mut judge = judge::<K>(&zone, log, Random::new(self.random.bits()));
        let owners = self.arena.owners(mapped)?;
        let refused = |cause: OwnersError| Failure::at(self.arena.path(), cause);
        let joined = owners.map(|owners| Tagged::new(&*zone, owners, owners.join(JUDGE.into())?));
        let tagged = joined.transpose().map_err(refused)?;
        loop {
            self.start(&zone, &log, owners)?;
            let (least, most) = SLEEP;
            let part = self.random.below(1 << 20) as f64 / f64::from(1 << 20);
            sleep(Duration::from_secs_f64(least * (most / least).powf(part) / 1e6));
            let victims = self.victims();
            self.kill(&log, &victims);
            progress(self.tally.kills);
            let all_dead = self.seats.iter().all(Option::is_none);
            let one_in = if all_dead { 2 } else { 8 };
            // Or so much may be lost that it says nothing how much is.
            let much = self.bound > self.arena.config.frames / 4;
            if self.is_over() || self.is_wrong(&log) || much || self.random.below(one_in) == 0 {
                let left: Vec<usize> = (0..self.seats.len()).collect();
                self.kill(&log, &left);
                self.is_wrong(&log);
                return Ok(());
            }
            if self.random.below(4) > 0 {
                let living: Vec<u32> = self.seats.iter().flatten().map(|one| one.id).collect();
                let is_dead = |id| id != JUDGE && !living.contains(&id);
                match &tagged {
                    Some(tagged) => self.wrong.extend(release::<K>(tagged, &log, is_dead).err()),
                    None => judge.bury(is_dead).unwrap_or_else(|finding| log.report(finding)),
                }
            }
        }
    }

    /// Recovers, and judges what was found.
    fn recover(&mut self, at_the_end: bool) -> Result<(), Failure> {
        let threads = 1 + self.random.below(THREADS);
        let found = judge::recover(self.arena, threads, self.random, self.plan.defect, at_the_end)?;
        let Found { time, overlaps, resolved, lost, pieces, wrong } = found;
        let (tally, bound) = (&mut self.tally, self.bound);
        tally.recoveries.push(time.as_secs_f64() * 1e6);
        tally.overlaps += overlaps;
        tally.resolved += resolved;
        tally.with_losses += usize::from(lost > 0);
        tally.lost += lost;
        tally.pieces += pieces;
        if overlaps > 0 {
            let said = "frames were free that processes owned when they were killed";
            self.wrong.push(format!("{overlaps} {said}"));
        }
        if K::INTENTS && lost > 0 {
            self.wrong.push(format!("{lost} frames are lost, and no record of a slot names them"));
        } else if lost > bound {
            let said = "frames are lost, and the calls of the killed processes concerned or hid";
            self.wrong.push(format!("{lost} {said} {bound}"));
        }
        self.wrong.extend(wrong);
        self.bound = 0;
        Ok(())
    }

    /// Starts processes at the empty seats, and waits until each has made a call.
    fn start(
        &mut self,
        zone: &K::Engine<'_>,
        log: &Log<'_>,
        owners: Option<Owners<'_>>,
    ) -> Result<(), Failure> {
        let quota = self.arena.config.frames * 3 / 4 / self.seats.len();
        for seat in 0..self.seats.len() {
            if self.seats[seat].is_none()
                && let Some(slot) = self.take_slot(zone, log, owners)
            {
                self.seats[seat] = Some(self.spawn(seat, slot, quota, false)?);
            }
        }
        let begun = Instant::now();
        for seat in 0..self.seats.len() {
            if let Some(running) = &mut self.seats[seat] {
                running.wait_for_a_call(&log.seat(seat), begun)?;
            }
        }
        Ok(())
    }

    /// A slot for a new process: that of the last dead, if it may be had. With intents there may be none until the next
    /// recovery, or release of an owner.
    fn take_slot(
        &mut self,
        zone: &K::Engine<'_>,
        log: &Log<'_>,
        owners: Option<Owners<'_>>,
    ) -> Option<usize> {
        let all = !K::INTENTS || self.plan.defect == Some(Defect::ReuseSlots);
        let unclaimed = |slot| owners.is_none_or(|owners| owners.slot_owner(Slot(slot)).is_none());
        let may = |&slot: &usize| all || unclaimed(slot) && K::is_settled(zone, log, slot);
        let at = self.slots.iter().rposition(may)?;
        Some(self.slots.remove(at))
    }

    /// Starts this program again.
    fn spawn(
        &mut self,
        seat: usize,
        slot: usize,
        quota: usize,
        recover: bool,
    ) -> Result<Running, Failure> {
        *self.last += 1;
        let (id, seed) = (*self.last, self.random.bits());
        let cannot = |cause| Failure::Failed(format!("a process cannot be started: {cause}"));
        let mut command = Command::new(current_exe().map_err(cannot)?);
        command.arg(VERB).arg(self.arena.path());
        let numbers = [
            ("--parent", u64::from(std::process::id())),
            ("--seat", seat as u64),
            ("--slot", slot as u64),
            ("--id", u64::from(id)),
            ("--seed", seed),
            ("--quota", quota as u64),
            ("--slots", self.arena.config.slots as u64),
        ];
        for (name, number) in numbers {
            command.args([name, &number.to_string()]);
        }
        let names = [
            ("--engine", self.plan.engine.to_possible_value()),
            ("--defect", self.plan.defect.and_then(|defect| defect.to_possible_value())),
        ];
        for (option, name) in names {
            command.args(name.iter().flat_map(|name| [option, name.get_name()]));
        }
        let flags =
            [("--owners", self.plan.owners), ("--intents", K::INTENTS), ("--recover", recover)];
        command.args(flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag));
        // What a terminal sends to the processes in the foreground is for this one alone.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Running { process: command.spawn().map_err(cannot)?, id, slot })
    }

    /// Whom to kill.
    fn victims(&mut self) -> Vec<usize> {
        let mut seats: Vec<usize> = (0..self.seats.len()).collect();
        self.random.shuffle(&mut seats);
        let count = match self.random.below(20) {
            0..12 => 1,
            12..17 => 1 + self.random.below(seats.len()),
            _ => seats.len(),
        };
        seats.truncate(count);
        seats
    }

    /// Kills those who live at these seats, all at once, and counts what they say of themselves.
    fn kill(&mut self, log: &Log<'_>, victims: &[usize]) {
        for &seat in victims {
            if let Some(running) = &mut self.seats[seat] {
                // One that has ended already is told below.
                let _ = running.process.kill();
            }
        }
        for &seat in victims {
            let Some(mut running) = self.seats[seat].take() else { continue };
            let ended = running.process.wait();
            self.slots.push(running.slot);
            let said = log.seat(seat);
            // Until it has sat down, the seat speaks of another.
            let (calls, doubt) = match said.id() == running.id {
                true => (said.calls(), said.doubt()),
                false => (0, 0),
            };
            self.tally.calls += calls;
            match ended {
                Ok(status) if status.signal() == Some(Signal::KILL.as_raw()) => {
                    self.tally.kills += 1;
                    self.tally.in_a_call += usize::from(doubt > 0);
                    let lost = doubt + usize::from(doubt > 0) * K::BESIDE;
                    self.bound += lost;
                    self.tally.bound += lost;
                }
                Ok(status) if status.code() == Some(FOUND.into()) => {}
                Ok(status) => self.wrong.push(format!("a process ended by itself: {status}")),
                Err(cause) => self.wrong.push(format!("a process cannot be waited for: {cause}")),
            }
        }
    }

    /// Kills those who are left, where nobody counts any more.
    fn kill_all(&mut self) {
        for mut running in self.seats.iter_mut().filter_map(Option::take) {
            let _ = running.process.kill();
            let _ = running.process.wait();
        }
    }

    /// Has somebody found a defect?
    fn is_wrong(&mut self, log: &Log<'_>) -> bool {
        let found = log.finding().map(|finding| finding.describe());
        if let Some(found) = found.filter(|found| !self.wrong.contains(found)) {
            self.tally.overlaps += 1;
            self.wrong.push(found);
        }
        !self.wrong.is_empty()
    }

    /// Starts a process that recovers the zone again and again, and kills it meanwhile.
    fn kill_a_recoverer(&mut self) -> Result<(), Failure> {
        let mapped = self.arena.map(Access::Watch)?;
        let log = self.arena.log(&mapped)?;
        let seat = SEATS - 2;
        let mut running = self.spawn(seat, OWN_SLOT, 0, true)?;
        let ready = running.wait_for_a_call(&log.seat(seat), Instant::now());
        sleep(Duration::from_micros(self.random.below(1000) as u64));
        let _ = running.process.kill();
        let ended = running.process.wait();
        mapped.whole(self.arena.path(), ready)?;
        self.tally.recoverers += 1;
        match ended {
            Ok(status) if status.signal() == Some(Signal::KILL.as_raw()) => {}
            ended => self.wrong.push(format!("a process that recovers ended by itself: {ended:?}")),
        }
        Ok(())
    }
}

impl Running {
    /// Waits until it has made a call, or has ended: why is said when it is to be killed.
    fn wait_for_a_call(&mut self, seat: &Seat<'_>, begun: Instant) -> Result<(), Failure> {
        while seat.id() != self.id || seat.calls() == 0 {
            if let Ok(Some(_)) = self.process.try_wait() {
                break;
            }
            if begun.elapsed() > PATIENCE {
                return Err(Failure::Failed("a process was started and makes no calls".into()));
            }
            sleep(Duration::from_micros(100));
        }
        Ok(())
    }
}
