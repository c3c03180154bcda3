//! Processes that share a zone are killed at any moment. What is left is recovered, and compared with what they have logged.
//!
//! ```text
//!   memory without a name    metadata │ log: a word for each frame │ seats: how many frames the call under way concerns
//!        ▲                                                   ▲
//!        ├── process: this program again ── attaches, calls, logs, until it is killed by SIGKILL
//!        └── judge: everybody is dead: recovers, compares frame by frame, frees what is lost
//! ```
//!
//! Processes die here, and the machine does not: what was written stays. `WOODLOT_KILLS=N` kills so many [default: 60]. Every other
//! state that a crash could leave in small zones is recovered by the models, in each state that they reach.
#![cfg(all(target_os = "linux", not(miri)))]

use std::env;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread::sleep;
use std::time::Duration;

use fastrand::Rng;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::process::{Signal, set_parent_process_death_signal};
use woodlot_frame::{
    Base4K, Batch, Class, Construct, FrameAllocator, FrameId, Geometry, Init, Order, RangeRequest,
    RawMetadata, Request, Slot, ZoneConfig, blocks,
};
use woodlot_onewrite::OneWrite;

type G = Base4K;
type Zone = OneWrite<'static, G>;

/// The most processes at a time; each has a slot, and a seat.
const PROCESSES: usize = 6;
/// Kills between two recoveries.
const KILLS: usize = 6;
/// How many frames a process owns at most, about.
const QUOTA: usize = 6000;
/// Rows that an allocation opens, or a search closes, are those of one huge frame. Of each, a call that is cut off may leave all allocated.
const STRAYS: usize = 2 * G::HUGE_FRAMES;

/// The number of who judges.
const JUDGE: u64 = 1;
const NOBODY: u64 = 0;
/// Bit 0 of an owner: it is about to free the frame.
const FREEING: u64 = 1;

const fn owned(by: u64) -> u64 {
    by << 1
}

/// What a process is told by its environment: the path of the memory, its seat, its number, and its mistake.
const TOLD: &str = "WOODLOT_KILLED";

/// A zone that begins and ends in the middle of a huge frame.
fn config() -> ZoneConfig {
    ZoneConfig::new(2 * G::TREE_FRAMES - 333, PROCESSES).starting_at(FrameId(77))
}

/// What the processes share.
struct Shared {
    metadata: RawMetadata,
    /// All words of the volatile part.
    volatile: &'static [AtomicU64],
    log: &'static [AtomicU64],
    seats: &'static [AtomicU64],
}

impl Shared {
    /// Bytes of each part of it.
    fn lengths() -> [usize; 4] {
        let size = Zone::metadata_size(&config()).expect("a zone");
        [size.durable, size.volatile, config().frames * 8, PROCESSES * 8]
    }

    /// Maps it, until the process ends.
    fn map(file: &File) -> Shared {
        let lengths = Self::lengths();
        let (len, flags) = (lengths.iter().sum(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: nothing else is mapped there.
        let at = unsafe { mmap(std::ptr::null_mut(), len, flags, MapFlags::SHARED, file, 0) };
        let at = at.expect("the memory is mapped").cast::<u8>();
        let part = |n: usize| {
            // SAFETY: the file is as long as all parts.
            (unsafe { at.add(lengths[..n].iter().sum()) }, lengths[n])
        };
        let words = |n| {
            let (first, len) = part(n);
            // SAFETY: it stays mapped, and everybody accesses it by atomics.
            unsafe { std::slice::from_raw_parts(first.cast::<AtomicU64>(), len / 8) }
        };
        let metadata = RawMetadata { durable: part(0), volatile: part(1) };
        Shared { metadata, volatile: words(1), log: words(2), seats: words(3) }
    }

    fn attach(&self) -> Zone {
        // SAFETY: who started this process has made the zone there, and it stays mapped.
        unsafe { Zone::attach(&config(), self.metadata) }.expect("a zone")
    }

    /// Makes the zone, or recovers it, whatever the volatile part holds.
    fn start(&self, init: Init, rng: &mut Rng) -> Zone {
        self.volatile.iter().for_each(|word| word.store(rng.u64(..), SeqCst));
        // SAFETY: no other process is alive, and it stays mapped.
        unsafe { Zone::construct(&config(), self.metadata, init) }.expect("a zone")
    }

    fn word(&self, frame: usize) -> &AtomicU64 {
        &self.log[frame - config().start.0]
    }
}

// ---- A process ----

/// A mistake that a process makes on purpose, to see that it is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    None,
    /// It frees a block that it has just freed.
    FreesTwice,
    /// It uses a frame that it was not given.
    Claims,
    /// It forgets a block.
    Forgets,
}

const MISTAKES: [Mistake; 4] =
    [Mistake::None, Mistake::FreesTwice, Mistake::Claims, Mistake::Forgets];

#[derive(Clone, Copy)]
struct Block {
    first: usize,
    order: u8,
}

impl Block {
    fn frames(self) -> std::ops::Range<usize> {
        self.first..self.first + (1 << self.order)
    }
}

struct Process {
    shared: Shared,
    zone: Zone,
    me: u64,
    seat: usize,
    mistake: Mistake,
    rng: Rng,
    held: Vec<Block>,
    frames: usize,
}

impl Process {
    fn live(mut self) -> ! {
        loop {
            let allocates = self.frames < QUOTA && self.rng.u8(..5) < 3;
            if self.held.is_empty() || allocates {
                self.allocate()
            } else {
                self.free()
            }
            if self.rng.u8(..64) == 0 {
                self.err();
            }
        }
    }

    fn says(&self, frames: usize) {
        self.shared.seats[self.seat].store(frames as u64, SeqCst);
    }

    fn slot(&mut self) -> Slot {
        Slot(if self.rng.u8(..4) == 0 { self.rng.usize(..PROCESSES) } else { self.seat })
    }

    fn allocate(&mut self) {
        let most = G::MAX_ORDER as u8;
        let order = Order(self.rng.u8(..=most).min(self.rng.u8(..=most)));
        let class = Class(self.rng.u8(..self.zone.classes().count() as u8));
        let request = Request::new(order, class, self.slot());
        let block = |frame: FrameId| Block { first: frame.0, order: order.0 };
        match self.rng.u8(..10) {
            0 => {
                let zone = config().range();
                let at = self.rng.usize(zone.start.0..zone.end.0) & !(order.frames() - 1);
                self.says(order.frames());
                let taken = self.zone.alloc(request.at(FrameId(at)));
                taken.into_iter().for_each(|frame| self.take(block(frame)));
            }
            1 => {
                let mut out = [FrameId(0); 24];
                let count = 1 + self.rng.usize(..out.len() >> order.0.min(3));
                self.says(count * order.frames());
                let taken = self.zone.alloc_batch(request, Batch::UpTo, &mut out[..count]);
                out[..taken.unwrap_or(0)].iter().for_each(|&frame| self.take(block(frame)));
            }
            2 => {
                let count = 1 + self.rng.usize(..2 * G::HUGE_FRAMES);
                self.says(count);
                let taken = self.zone.alloc_range(RangeRequest::new(count, class, request.slot));
                taken.into_iter().flat_map(blocks::<G>).for_each(|(first, order)| {
                    self.take(Block { first: first.0, order: order.0 });
                });
            }
            _ => {
                self.says(order.frames());
                let taken = self.zone.alloc(request);
                taken.into_iter().for_each(|frame| self.take(block(frame)));
            }
        }
        self.says(0);
    }

    /// Logs that the block is this process's.
    fn take(&mut self, block: Block) {
        for frame in block.frames() {
            let before = self.shared.word(frame).swap(owned(self.me), SeqCst);
            assert!(before == NOBODY || before & FREEING != 0, "{frame:#x} is {before:#x}'s");
        }
        self.frames += block.frames().len();
        self.held.push(block);
    }

    fn free(&mut self) {
        let block = self.held.swap_remove(self.rng.usize(..self.held.len()));
        match self.rng.u8(..6) {
            0 => {
                let order = self.rng.u8(..=block.order);
                let parts = block.frames().step_by(1 << order);
                let chosen = self.rng.usize(..parts.len());
                for (n, first) in parts.enumerate() {
                    let part = Block { first, order };
                    if n == chosen { self.give(&[part]) } else { self.held.push(part) }
                }
            }
            1 => {
                let (mut all, others) = (vec![block], std::mem::take(&mut self.held));
                for other in others {
                    let goes = other.order == block.order && all.len() < 24;
                    if goes { all.push(other) } else { self.held.push(other) }
                }
                self.give(&all);
            }
            _ => self.give(&[block]),
        }
    }

    /// Frees blocks of one order by one call.
    fn give(&mut self, blocks: &[Block]) {
        let frames = || blocks.iter().flat_map(|block| block.frames());
        let (mine, freeing) = (owned(self.me), owned(self.me) | FREEING);
        self.says(frames().count());
        for frame in frames() {
            let taken = self.shared.word(frame).compare_exchange(mine, freeing, SeqCst, SeqCst);
            assert_eq!(taken, Ok(mine), "{frame:#x} was taken");
        }
        let slot = self.slot();
        let order = Order(blocks[0].order);
        let done = match *blocks {
            [Block { first, .. }] => self.zone.free(FrameId(first), order, slot),
            _ => {
                let firsts: Vec<_> = blocks.iter().map(|block| FrameId(block.first)).collect();
                self.zone.free_batch(&firsts, order, slot).map_err(|error| error.cause)
            }
        };
        assert_eq!(done, Ok(()), "a free was refused");
        for frame in frames() {
            // Who has allocated it meanwhile has written its own number.
            let _ = self.shared.word(frame).compare_exchange(freeing, NOBODY, SeqCst, SeqCst);
        }
        self.frames -= frames().count();
        self.says(0);
        if self.mistake == Mistake::FreesTwice {
            let _ = self.zone.free(FrameId(blocks[0].first), order, slot);
        }
    }

    fn err(&mut self) {
        match self.mistake {
            Mistake::Claims => {
                let word = &self.shared.log[self.rng.usize(..self.shared.log.len())];
                let _ = word.compare_exchange(NOBODY, owned(self.me), SeqCst, SeqCst);
            }
            Mistake::Forgets => {
                let block = self.held.pop().into_iter();
                block.flat_map(Block::frames).for_each(|frame| {
                    self.shared.word(frame).store(NOBODY, SeqCst);
                    self.frames -= 1;
                });
            }
            Mistake::None | Mistake::FreesTwice => {}
        }
    }
}

/// What a process does that the other tests start; by itself, nothing.
#[test]
fn process() {
    let Ok(told) = env::var(TOLD) else { return };
    // Or it would go on for ever where the test is killed.
    set_parent_process_death_signal(Some(Signal::KILL)).expect("it dies with who started it");
    let [path, seat, me, mistake] = told.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{told}")
    };
    let [seat, me, mistake] = [seat, me, mistake].map(|n| n.parse().expect("a number"));
    let file = File::options().read(true).write(true).open(path).expect("the memory is there");
    let shared = Shared::map(&file);
    let (zone, mistake) = (shared.attach(), MISTAKES[mistake]);
    let (rng, held, me) = (Rng::with_seed(me as u64), Vec::new(), me as u64);
    Process { shared, zone, me, seat, mistake, rng, held, frames: 0 }.live();
}

// ---- Who starts and kills them, and judges ----

/// What a run has seen.
#[derive(Default, Debug)]
struct Seen {
    kills: usize,
    in_a_call: usize,
    recoveries: usize,
    lost: usize,
}

struct Run {
    file: File,
    shared: Shared,
    rng: Rng,
    mistake: Mistake,
    /// The number of the next process.
    next: u64,
    seen: Seen,
    /// How many were killed in a call since the last recovery, and how many frames their calls concerned.
    cut_off: usize,
    concerned: usize,
}

impl Run {
    fn spawn(&mut self, seat: usize) -> Child {
        let path = format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd());
        self.next += 1;
        let told = format!("{path} {seat} {} {}", self.next, self.mistake as usize);
        let mut command = Command::new(env::current_exe().expect("this program"));
        command.args(["--exact", "process", "--nocapture"]).env(TOLD, told);
        // What a process says that makes a mistake is no news.
        let said = if self.mistake == Mistake::None { Stdio::inherit() } else { Stdio::null() };
        command.stdout(Stdio::null()).stderr(said).spawn().expect("a process")
    }

    /// Kills a process some time after its first call, unless it has ended.
    fn kill(&mut self, seat: usize, child: &mut Child) -> Result<(), String> {
        let has_ended = |child: &mut Child| child.try_wait().expect("its state").is_some();
        while self.shared.seats[seat].load(SeqCst) == 0 && !has_ended(child) {
            sleep(Duration::from_millis(1));
        }
        sleep(Duration::from_micros(self.rng.u64(..20_000)));
        let ended = child.try_wait().expect("its state");
        let _ = child.kill();
        let _ = child.wait();
        if let Some(status) = ended {
            return Err(format!("a process has found something: {status}"));
        }
        let concerned = self.shared.seats[seat].swap(0, SeqCst) as usize;
        self.concerned += concerned;
        self.cut_off += usize::from(concerned > 0);
        self.seen.kills += 1;
        self.seen.in_a_call += usize::from(concerned > 0);
        Ok(())
    }

    /// Starts some processes, kills one after the other, starts others in their places, and kills all.
    fn round(&mut self) -> Result<(), String> {
        let count = 1 + self.seen.recoveries % PROCESSES;
        let mut children: Vec<Child> = (0..count).map(|seat| self.spawn(seat)).collect();
        let mut ended = Ok(());
        for _ in 0..KILLS {
            let seat = self.rng.usize(..count);
            ended = ended.and(self.kill(seat, &mut children[seat]));
            children[seat] = self.spawn(seat);
        }
        for (seat, child) in children.iter_mut().enumerate() {
            ended = ended.and(self.kill(seat, child));
        }
        ended
    }

    /// Recovers the zone, compares it with the log, and frees what is lost and what some of the dead have owned, or all.
    fn judge(&mut self, all: bool) -> Result<(), String> {
        let zone = self.shared.start(Init::Recover, &mut self.rng);
        self.seen.recoveries += 1;
        let (mut lost, mut free) = (0, 0);
        for frame in config().start.0..config().end().0 {
            let (word, id) = (self.shared.word(frame), FrameId(frame));
            let (owner, is_free) = (word.load(SeqCst), zone.is_free(id, Order(0)));
            free += usize::from(is_free);
            match (owner != NOBODY && owner & FREEING == 0, is_free) {
                (true, true) => return Err(format!("{frame:#x} is free, and {owner:#x}'s")),
                (false, false) => lost += 1,
                _ => {}
            }
        }
        let counts = (zone.stats().free_frames, zone.free_frames());
        if counts != (free, free) {
            return Err(format!("{free} frames are free, and {counts:?} counted"));
        }
        let most = self.concerned + STRAYS * self.cut_off;
        if lost > most {
            return Err(format!("{lost} frames are lost, of {most} at most"));
        }
        self.seen.lost += lost;
        (self.concerned, self.cut_off) = (0, 0);
        for frame in config().start.0..config().end().0 {
            let (word, id) = (self.shared.word(frame), FrameId(frame));
            let owner = word.load(SeqCst);
            let kept = !all && owner & FREEING == 0 && owner >> 1 & 3 == 1;
            word.store(if kept { owned(JUDGE) } else { NOBODY }, SeqCst);
            if !kept && !zone.is_free(id, Order(0)) {
                let freed = zone.free(id, Order(0), Slot(0));
                freed.map_err(|why| format!("{frame:#x}, which is lost: {why}"))?;
            }
        }
        if all && zone.stats().free_frames != config().frames {
            return Err("not everything is free when all was freed".into());
        }
        Ok(())
    }
}

/// Kills so many, and judges again and again.
fn run(kills: usize, mistake: Mistake) -> Result<Seen, String> {
    let file = File::from(memfd_create("woodlot-killed", MemfdFlags::CLOEXEC).expect("memory"));
    ftruncate(&file, Shared::lengths().iter().sum::<usize>() as u64).expect("as much as it takes");
    let (shared, rng) = (Shared::map(&file), Rng::with_seed(1));
    let mut run = Run {
        file,
        shared,
        rng,
        mistake,
        next: JUDGE,
        seen: Seen::default(),
        cut_off: 0,
        concerned: 0,
    };
    run.shared.start(Init::Free, &mut run.rng);
    while run.seen.kills < kills {
        run.round()?;
        run.judge(run.seen.kills >= kills)?;
    }
    Ok(run.seen)
}

#[test]
fn what_killed_processes_leave_is_recovered() {
    let kills = env::var("WOODLOT_KILLS").map_or(60, |kills| kills.parse().expect("a number"));
    let seen = run(kills, Mistake::None).unwrap_or_else(|wrong| panic!("{wrong}"));
    let Seen { kills, in_a_call, recoveries, lost } = seen;
    println!(
        "one-write: {kills} kills, {in_a_call} of them in a call; {recoveries} recoveries found {lost} frames lost, 0 overlaps"
    );
    assert!(2 * seen.in_a_call > seen.kills, "too few were killed in a call: {seen:?}");
}

#[test]
fn mistakes_of_processes_are_found() {
    for mistake in &MISTAKES[1..] {
        let seen = run(400, *mistake);
        assert!(seen.is_err(), "{mistake:?} was not found: {seen:?}");
    }
}
