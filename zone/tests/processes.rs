//! Processes that share a zone in a file. Some are killed at any moment; the others go on.
//!
//! Behind the zone lies a word for each frame, which says what process owns it. Its owner sets the word after the
//! allocation and clears it before the free. So two owners of a frame meet there, and what a killed process owned
//! can be counted.
//!
//! Behind that lies the owner table, by which the others free what a killed process owned. With intents another word for
//! each slot says what block its owner is about to free.
#![cfg(target_os = "linux")]

mod common;

use std::env;
use std::fs::{File, OpenOptions};
use std::num::NonZeroU64;
use std::path::Path;
use std::process::{self, Child, Command};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

use common::{G, close, config};
use fastrand::Rng;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use woodlot_frame::{Batch, Class, FrameAllocator, FrameId, Geometry, Init, Order, Request, Slot};
use woodlot_llfree::LLFree;
use woodlot_zone::{
    Check, Closed, Hidden, Intents, Layout, Medium, Memory, Opened, Owners, OwnersError, Shared,
    Sweeper, Tagged, Zone, verify,
};

/// Where a child finds the file, and with intents the slot that it uses.
const CHILD: &str = "WOODLOT_ZONE_CHILD";
const SLOT: &str = "WOODLOT_ZONE_SLOT";

type Engine = LLFree<'static, G>;

/// Members that the owner table has room for.
const MEMBERS: usize = 6;

/// The file, mapped.
#[derive(Clone, Copy)]
struct Mapped {
    memory: Memory<'static>,
    owners: &'static [AtomicU32],
    /// What each slot is about to free.
    freeing: &'static [AtomicU32],
    /// Where the owner table is.
    table: Memory<'static>,
}

fn map(path: &Path) -> Mapped {
    map_for(path, &Layout::of::<G>(&config()).expect("a zone"))
}

fn map_for(path: &Path, layout: &Layout) -> Mapped {
    let file: File = OpenOptions::new().read(true).write(true).open(path).expect("the file");
    let (len, frames) = (layout.len, config().end().0);
    let (words, table) =
        ((frames + config().slots) * 4, Owners::len(&config(), MEMBERS).expect("a table"));
    let at = (len + words).next_multiple_of(4096);
    let all = at + table;
    file.set_len(all as u64).expect("it grows");
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the system chooses the place, and nobody unmaps it. The file is the test's, and written by zones in its
    // first part, by atomics in its second, and by owner tables in its last.
    unsafe {
        let start =
            mmap(null_mut(), all, protection, MapFlags::SHARED, file, 0).expect("a mapping");
        let owners = std::slice::from_raw_parts(start.cast::<u8>().add(len).cast(), words / 4);
        let (owners, freeing) = owners.split_at(frames);
        let table = Memory::new(start.cast::<u8>().add(at), table).expect("it is aligned");
        let memory = Memory::new(start.cast(), len).expect("it is aligned");
        Mapped { memory, owners, freeing, table }
    }
}

fn attach<M: Medium>(memory: Memory<'static>, medium: M) -> Zone<'static, G, M> {
    // SAFETY: the parent keeps the zone open while it has children.
    unsafe { Zone::attach(memory, Some(&config()), medium) }.expect("it is in use")
}

/// A zone that can only be read is verified like any other.
#[test]
fn a_mapping_that_can_only_be_read_is_verified() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let Mapped { memory, owners, .. } = map(file.path());
    // SAFETY: the file is the test's.
    let zone = unsafe { Zone::<G, _>::format(memory, &config(), Init::Free, Shared) };
    let zone = zone.expect("a zone");
    let mut owner = Owner::new(&*zone, owners, 7);
    (0..2000).for_each(|_| owner.call());
    let file = File::open(file.path()).expect("the file");
    let len = zone.layout().len;
    // SAFETY: as in `map`. A write would end the process.
    let read = unsafe {
        let start = mmap(null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, 0);
        Memory::new(start.expect("a mapping").cast(), len).expect("it is aligned")
    };
    // SAFETY: nobody opens, formats or closes the zone meanwhile.
    let verdicts = || unsafe { [memory, read].map(|memory| verify::<G>(memory, Some(&config()))) };
    let [written, read_only] = verdicts();
    assert_eq!(written, read_only);
    assert!(!read_only.expect("a zone").is_clean());
    close(zone);
    let [written, read_only] = verdicts();
    assert_eq!(written, read_only);
    assert!(read_only.expect("a zone").is_clean());
}

/// Allocates and frees what it has, as `me`.
struct Owner<'a, A> {
    zone: &'a A,
    owners: &'a [AtomicU32],
    me: u32,
    /// The only slot that it uses, and the word that says what it is about to free.
    own: Option<(Slot, &'a AtomicU32)>,
    blocks: Vec<(usize, u8)>,
    rng: Rng,
}

impl<'a, A: FrameAllocator<Geometry = G>> Owner<'a, A> {
    fn new(zone: &'a A, owners: &'a [AtomicU32], me: u32) -> Self {
        Self { zone, owners, me, own: None, blocks: Vec::new(), rng: Rng::with_seed(me as u64) }
    }

    fn set(&self, first: usize, order: u8, from: u32, to: u32) {
        for owner in &self.owners[first..first + (1 << order)] {
            assert_eq!(owner.swap(to, Ordering::AcqRel), from, "frame {first}, order {order}");
        }
    }

    fn say_freeing(&self, block: u32) {
        self.own.into_iter().for_each(|(_, word)| word.store(block, Ordering::Release));
    }

    fn call(&mut self) {
        let any = Slot(self.rng.usize(..config().slots));
        let slot = self.own.map_or(any, |(own, _)| own);
        if self.blocks.is_empty() || self.rng.u8(..5) < 3 && self.blocks.len() < 200 {
            let order = self.rng.u8(..=G::MAX_ORDER as u8);
            let request = Request::new(Order(order), Class(self.rng.u8(..4)), slot);
            if let Ok(frame) = self.zone.alloc(request) {
                self.set(frame.0, order, 0, self.me);
                self.blocks.push((frame.0, order));
            }
        } else {
            let (first, order) = self.blocks.swap_remove(self.rng.usize(..self.blocks.len()));
            self.say_freeing((first as u32) << 4 | order as u32 | 1 << 31);
            self.set(first, order, self.me, 0);
            self.zone.free(FrameId(first), Order(order), slot).expect("it is owned");
            self.say_freeing(0);
        }
    }
}

/// Calls until it is killed, or meets another owner.
fn live(path: &str) -> ! {
    let Mapped { memory, owners, .. } = map(Path::new(path));
    let zone = attach(memory, Shared);
    let mut owner = Owner::new(&*zone, owners, process::id());
    loop {
        owner.call();
    }
}

/// This program once more, as a child in this test.
fn child(path: &Path, test: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--exact", test]).env(CHILD, path);
    command
}

fn spawn(path: &Path, test: &str) -> Child {
    child(path, test).spawn().expect("a child")
}

#[test]
fn who_is_killed_takes_nothing_but_what_it_owned() {
    if let Ok(path) = env::var(CHILD) {
        live(&path);
    }
    const NAME: &str = "who_is_killed_takes_nothing_but_what_it_owned";
    const KILLS: usize = 24;
    let file = tempfile::NamedTempFile::new().expect("a file");
    let Mapped { memory, owners, .. } = map(file.path());
    // SAFETY: there are no children yet.
    let zone = unsafe { Zone::<G, _>::format(memory, &config(), Init::Free, Shared) };
    let zone = zone.expect("a zone");
    let mut owner = Owner::new(&*zone, owners, 1);
    let mut given_back = 0;
    for round in 0..KILLS / 2 {
        let mut children = [spawn(file.path(), NAME), spawn(file.path(), NAME)];
        sleep(Duration::from_millis(30 + 7 * round as u64));
        for child in &mut children {
            (0..500).for_each(|_| owner.call());
            child.kill().expect("it lives");
            let ended = child.wait().expect("it ends");
            assert_eq!(ended.code(), None, "it met another owner, and was not killed");
        }
        // What they owned is theirs for ever here; so half of it is given back, to have something to go on with.
        for (frame, word) in owners.iter().enumerate() {
            let of = word.load(Ordering::Acquire);
            if of > 1 && frame % 2 == 0 {
                word.store(0, Ordering::Release);
                zone.free(FrameId(frame), Order::BASE, Slot(0)).expect("a killed process owned it");
                given_back += 1;
            }
        }
    }
    (0..2000).for_each(|_| owner.call());
    assert!(given_back > KILLS, "they did something before they were killed: {given_back}");
    let of_owner = owner.blocks.clone();

    // Who lives on closes it, if the dead have hidden nothing.
    let closed = zone.close().expect("nothing fails");
    // SAFETY: all children have ended, and the zone here is not used any more.
    let (verdict, opened) = unsafe {
        let verdict = verify::<G>(memory, None).expect("a zone");
        (verdict, Zone::<G, _>::open(memory, None, Check::Quick, Shared))
    };
    let (zone, opened) = opened.expect("it opens");
    let repairs = verdict.repairs;
    match opened {
        Opened::Clean => assert!(closed == Closed::Clean && verdict.is_clean(), "{verdict:?}"),
        Opened::Recovered { repairs: found, .. } => {
            assert!(found == repairs && closed != Closed::Clean, "{closed:?}, {found:?}");
        }
    }
    assert_eq!(zone.hidden(), Hidden::default());
    assert_eq!(
        [repairs.rows_reset, repairs.outside, repairs.cut_open, repairs.states_cleared],
        [0; 4]
    );
    let owned = owners.iter().filter(|owner| owner.load(Ordering::Acquire) != 0).count();
    let lost = (config().frames - owned).checked_sub(repairs.free_frames);
    let lost = lost.expect("nothing that is owned is free");
    assert!(lost <= KILLS << G::MAX_ORDER, "a block for each at most: {lost}");
    println!(
        "{KILLS} processes killed, {lost} frames of calls under way lost, {given_back} frames given back"
    );
    for (frame, owner) in owners.iter().enumerate() {
        let is_owned = owner.load(Ordering::Acquire) != 0;
        assert!(!is_owned || !zone.is_free(FrameId(frame), Order::BASE), "frame {frame}");
    }
    for (first, order) in of_owner {
        zone.free(FrameId(first), Order(order), Slot(0)).expect("it is owned");
    }
    close(zone);
}

/// Releases every member whose process is not there any more; returns how many frames became free.
fn release_dead(tagged: &Tagged<'_, '_, Engine>, owners: &[AtomicU32]) -> usize {
    let dead = |identity: u64| !Path::new(&format!("/proc/{identity}")).exists();
    let gone = tagged.owners().members().filter(|member| dead(member.identity()));
    gone.map(|member| {
        for word in owners {
            let pid = member.identity() as u32;
            let _ = word.compare_exchange(pid, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
        // Somebody else may be doing it, or have done it.
        tagged.release_owner(member, Slot(0)).unwrap_or(0)
    })
    .sum()
}

/// The same as [`live`] with owners; now and then it releases who has died.
fn live_tagged(path: &str) -> ! {
    let Mapped { memory, owners, table, .. } = map(Path::new(path));
    let zone = attach(memory, Shared);
    // SAFETY: it is the table of this zone.
    let tags = unsafe { Owners::open::<G>(table, &config()) }.expect("a table");
    let member = tags.join(process::id().into()).expect("there is room");
    let _ = tags.claim_free_slot(member);
    let tagged = Tagged::new(&*zone, tags, member).expect("it is this zone's");
    let mut owner = Owner::new(&tagged, owners, process::id());
    loop {
        (0..300).for_each(|_| owner.call());
        release_dead(&tagged, owners);
    }
}

#[test]
fn what_the_dead_owned_is_released_while_others_go_on() {
    if let Ok(path) = env::var(CHILD) {
        live_tagged(&path);
    }
    const NAME: &str = "what_the_dead_owned_is_released_while_others_go_on";
    const KILLS: usize = 24;
    let file = tempfile::NamedTempFile::new().expect("a file");
    let Mapped { memory, owners, table, .. } = map(file.path());
    // SAFETY: there are no children yet.
    let (zone, tags) = unsafe {
        let zone = Zone::<G, _>::format(memory, &config(), Init::Free, Shared);
        let tags = Owners::format::<G>(table, &config(), MEMBERS);
        (zone.expect("a zone"), tags.expect("a table"))
    };
    let me = process::id();
    let member = tags.join(me.into()).expect("there is room");
    let tagged = Tagged::new(&*zone, tags, member).expect("it is this zone's");
    let mut owner = Owner::new(&tagged, owners, me);
    let mut released = 0;
    for round in 0..KILLS / 3 {
        let mut children = [(); 3].map(|()| spawn(file.path(), NAME));
        sleep(Duration::from_millis(30 + 7 * round as u64));
        for child in &mut children {
            (0..500).for_each(|_| owner.call());
            child.kill().expect("it lives");
            let ended = child.wait().expect("it ends");
            assert_eq!(ended.code(), None, "it met another owner, and was not killed");
            released += release_dead(&tagged, owners);
        }
        // One that died while it released another one was released itself, and so the other one can be.
        while tags.members().count() > 1 {
            released += release_dead(&tagged, owners);
        }
    }
    (0..500).for_each(|_| owner.call());
    let (of_owner, mine) =
        (owner.blocks.clone(), |word: &&AtomicU32| word.load(Ordering::Acquire) == me);
    let owned = owners.iter().filter(mine).count();

    // SAFETY: all children have ended, and the zone here is not used any more.
    let opened = unsafe { Zone::<G, _>::open(memory, None, Check::Quick, Shared) };
    let (zone, opened) = opened.expect("it opens");
    let Opened::Recovered { repairs, .. } = opened else { panic!("{opened:?}") };
    // SAFETY: it is the table of this zone.
    let tags = unsafe { Owners::open::<G>(table, &config()) }.expect("a table");
    let sweeper = tags.sweeper(identity(), |_| true).expect("nobody else lives");
    let swept = sweeper.sweep(&zone, |member| member.identity() == me.into()).expect("it fits");
    drop(sweeper);
    println!(
        "{KILLS} processes killed, {released} frames released by this one, {} hidden until the sweep",
        swept.frames
    );
    assert!(released > KILLS, "they had something: {released}");
    assert!(swept.frames <= (2 * KILLS) << G::MAX_ORDER, "two blocks for each at most: {swept:?}");
    assert_eq!(repairs.free_frames + swept.frames + owned, config().frames, "nothing is lost");
    assert_eq!(zone.stats().free_frames + owned, config().frames);
    let tagged = Tagged::new(&*zone, tags, member).expect("it is this zone's");
    for (first, order) in of_owner {
        tagged.free(FrameId(first), Order(order), Slot(0)).expect("it is owned");
    }
    assert_eq!(tagged.leave(Slot(0)), Ok(0));
    assert_eq!(zone.stats().free_frames, config().frames, "nothing is lost");
    close(zone);
}

/// Who sweeps here.
fn identity() -> NonZeroU64 {
    NonZeroU64::new(process::id().into()).expect("no process is zero")
}

fn wait_for_the_right(tags: Owners<'_>) -> Sweeper<'_> {
    loop {
        match tags.sweeper(identity(), |_| false) {
            Ok(sweeper) => return sweeper,
            Err(OwnersError::BeingSwept { .. }) => sleep(Duration::from_micros(50)),
            Err(refused) => panic!("{refused}"),
        }
    }
}

/// Turns of a process that sweeps, has a batch without tags for a while, and keeps another one. `alone` is a word that only
/// one has at a time.
fn sweep_in_turns(zone: &Zone<'_, G, Shared>, tags: Owners<'_>, slot: Slot, alone: &AtomicU32) {
    const TURNS: usize = 25;
    let request = Request::movable(Order::BASE, slot);
    let mut kept = [FrameId(0); 50];
    let right = wait_for_the_right(tags);
    let me = tags.join(identity().get()).expect("there is room");
    let tagged = Tagged::new(&**zone, tags, me).expect("it is this zone's");
    tagged.alloc_batch(request, Batch::All, &mut kept).expect("there is room");
    drop(right);
    for turn in 0..TURNS {
        let sweeper = wait_for_the_right(tags);
        assert_eq!(alone.swap(process::id(), Ordering::AcqRel), 0, "turn {turn}");
        let swept = sweeper.sweep(zone, |_| true).expect("it fits");
        assert_eq!(swept.frames, 0, "all that is allocated has an owner in turn {turn}");
        let mut batch = [FrameId(0); 50];
        zone.alloc_batch(request, Batch::All, &mut batch).expect("there is room");
        sleep(Duration::from_micros(200));
        zone.free_batch(&batch, Order::BASE, slot).expect("nobody else has freed them");
        assert_eq!(alone.swap(0, Ordering::AcqRel), process::id(), "turn {turn}");
    }
    assert!(kept.iter().all(|&frame| tags.owner(frame) == Some(me)));
}

/// Two processes that attach and sweep in turns: only one has the right to. The one that is killed with it has it until
/// the other finds it dead.
#[test]
fn two_processes_sweep_in_turns() {
    const NAME: &str = "two_processes_sweep_in_turns";
    /// What the second process says, and the first one at the end of its turns.
    const READY: u32 = 1;
    const DONE: u32 = 2;
    if let Ok(path) = env::var(CHILD) {
        let Mapped { memory, owners, freeing, table } = map(Path::new(&path));
        let zone = attach(memory, Shared);
        // SAFETY: it is the table of this zone.
        let tags = unsafe { Owners::open::<G>(table, &config()) }.expect("a table");
        freeing[0].store(READY, Ordering::Release);
        sweep_in_turns(&zone, tags, Slot(1), &owners[0]);
        while freeing[1].load(Ordering::Acquire) != DONE {
            sleep(Duration::from_micros(100));
        }
        let _right = wait_for_the_right(tags);
        let mut batch = [FrameId(0); 30];
        let request = Request::movable(Order::BASE, Slot(1));
        zone.alloc_batch(request, Batch::All, &mut batch).expect("there is room");
        freeing[0].store(DONE, Ordering::Release);
        loop {
            sleep(Duration::from_secs(1));
        }
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    let Mapped { memory, owners, freeing, table } = map(file.path());
    // SAFETY: there are no children yet.
    let (zone, tags) = unsafe {
        let zone = Zone::<G, _>::format(memory, &config(), Init::Free, Shared);
        let tags = Owners::format::<G>(table, &config(), MEMBERS);
        (zone.expect("a zone"), tags.expect("a table"))
    };
    let mut child = spawn(file.path(), NAME);
    let mut until = |said| {
        while freeing[0].load(Ordering::Acquire) != said {
            assert!(child.try_wait().expect("it is this one's").is_none(), "it has ended");
            sleep(Duration::from_micros(100));
        }
    };
    until(READY);
    sweep_in_turns(&zone, tags, Slot(0), &owners[0]);
    freeing[1].store(DONE, Ordering::Release);
    until(DONE);
    let other = u64::from(child.id());
    let refused = tags.sweeper(identity(), |_| false).expect_err("it lives, and has it");
    assert_eq!(refused, OwnersError::BeingSwept { by: other });
    child.kill().expect("it lives");
    child.wait().expect("it ends");
    let sweeper = tags.sweeper(identity(), |by| by == other).expect("it is dead");
    let me = process::id().into();
    let swept = sweeper.sweep(&zone, |member| member.identity() == me).expect("it fits");
    assert_eq!((swept.frames, swept.members), (50 + 30, 1), "what it had, and its last call");
    assert_eq!(zone.stats().free_frames + 50, config().frames);
    drop(sweeper);
    close(zone);
}

/// Each process has a slot of its own. After their death the zone is recovered, and what the records name, what is
/// allocated and nobody's is freed, and what was about to be freed: then every frame that nobody owns is free.
#[test]
fn with_intents_nothing_is_lost() {
    const NAME: &str = "with_intents_nothing_is_lost";
    /// Of the last one nobody looks what is lost.
    const ROUNDS: u64 = 16;
    let layout = Layout::with_intents::<G>(&config()).expect("a zone");
    if let Ok(path) = env::var(CHILD) {
        let Mapped { memory, owners, freeing, .. } = map_for(Path::new(&path), &layout);
        let zone = attach(memory, Intents(Shared));
        let slot: usize = env::var(SLOT).expect("a slot").parse().expect("a number");
        let own = Some((Slot(slot), &freeing[slot]));
        let mut owner = Owner { own, ..Owner::new(&*zone, owners, process::id()) };
        loop {
            owner.call();
        }
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    let Mapped { memory, owners, freeing, .. } = map_for(file.path(), &layout);
    // SAFETY: there are no children yet.
    let zone = unsafe { Zone::<G, _>::format(memory, &config(), Init::Free, Intents(Shared)) };
    close(zone.expect("a zone"));
    let (mut resolved, mut given_back) = (0, 0);
    for round in 0..ROUNDS {
        // SAFETY: all children have ended.
        let opened = unsafe { Zone::<G, _>::open(memory, None, Check::Recover, Intents(Shared)) };
        let (zone, _) = opened.expect("it opens");
        let nobodys = |frame: usize| {
            owners[frame].load(Ordering::Acquire) == 0 && !zone.is_free(FrameId(frame), Order(0))
        };
        let named = zone.last_operations().flat_map(|last| zone.frames_of(last));
        let named = named.flat_map(|run| run.start.0..run.start.0 + run.count);
        let about = freeing.iter().map(|word| word.swap(0, Ordering::AcqRel) as usize);
        let about = about.filter(|&about| about != 0);
        let about = about.flat_map(|about| {
            let first = about >> 4 & 0x7ff_ffff;
            first..first + (1 << (about & 15))
        });
        let in_doubt: Vec<usize> = named.chain(about).collect();
        for frame in in_doubt {
            if nobodys(frame) {
                zone.free(FrameId(frame), Order(0), Slot(0)).expect("it is allocated");
                resolved += 1;
            }
        }
        let owned = owners.iter().filter(|owner| owner.load(Ordering::Acquire) != 0).count();
        assert_eq!(zone.stats().free_frames + owned, config().frames, "round {round}");
        for (frame, word) in owners.iter().enumerate() {
            if word.swap(0, Ordering::AcqRel) != 0 {
                zone.free(FrameId(frame), Order(0), Slot(1)).expect("a killed process owned it");
                given_back += 1;
            }
        }
        let mut children = [0, 1, 2].map(|slot| {
            child(file.path(), NAME).env(SLOT, slot.to_string()).spawn().expect("a child")
        });
        sleep(Duration::from_millis(20 + 3 * round));
        for child in &mut children {
            child.kill().expect("it lives");
            let ended = child.wait().expect("it ends");
            assert_eq!(ended.code(), None, "it met another owner, and was not killed");
        }
    }
    assert!(given_back > 100, "they did something before they were killed: {given_back}");
    let killed = 3 * (ROUNDS - 1);
    println!("{killed} processes killed, {resolved} frames in doubt freed, none lost");
}
