//! Processes that share a zone in a file. Some are killed at any moment; the others go on.
//!
//! Behind the zone lies a word for each frame, which says what process owns it. Its owner sets the word after the
//! allocation and clears it before the free. So two owners of a frame meet there, and what a killed process owned
//! can be counted. With intents another word for each slot says what block its owner is about to free.
#![cfg(target_os = "linux")]

mod common;

use std::env;
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{self, Child, Command};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

use common::{G, config};
use fastrand::Rng;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use woodlot_frame::{Class, FrameAllocator, FrameId, Geometry, Init, Order, Request, Slot};
use woodlot_zone::{Check, Intents, Layout, Medium, Memory, Opened, Shared, Zone, verify};

/// Where a child finds the file, and the slot that it uses with intents.
const CHILD: &str = "WOODLOT_ZONE_CHILD";
const SLOT: &str = "WOODLOT_ZONE_SLOT";

/// The memory of the zone, and the owners of its frames; then what each slot is about to free.
fn map(path: &Path, layout: &Layout) -> (Memory<'static>, &'static [AtomicU32]) {
    let file: File = OpenOptions::new().read(true).write(true).open(path).expect("the file");
    let (len, words) = (layout.len, config().end().0 + config().slots);
    let all = len + words * 4;
    file.set_len(all as u64).expect("it grows");
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the system chooses the place, and nobody unmaps it. The file is the test's, and written by zones in its
    // first part and by atomics in its second.
    unsafe {
        let start =
            mmap(null_mut(), all, protection, MapFlags::SHARED, file, 0).expect("a mapping");
        let owners = std::slice::from_raw_parts(start.cast::<u8>().add(len).cast(), words);
        (Memory::new(start.cast(), len).expect("it is aligned"), owners)
    }
}

fn attach<M: Medium>(memory: Memory<'static>, medium: M) -> Zone<'static, G, M> {
    // SAFETY: the parent keeps the zone open while it has children.
    unsafe { Zone::attach(memory, Some(&config()), medium) }.expect("it is in use")
}

/// Allocates and frees what it has, as `me`.
struct Owner<'a, M: Medium> {
    zone: &'a Zone<'static, G, M>,
    owners: &'a [AtomicU32],
    me: u32,
    /// The only slot that it uses.
    slot: Option<usize>,
    blocks: Vec<(usize, u8)>,
    rng: Rng,
}

impl<M: Medium> Owner<'_, M> {
    fn set(&self, first: usize, order: u8, from: u32, to: u32) {
        for owner in &self.owners[first..first + (1 << order)] {
            assert_eq!(owner.swap(to, Ordering::AcqRel), from, "frame {first}, order {order}");
        }
    }

    fn call(&mut self) {
        let any = self.rng.usize(..config().slots);
        let slot = Slot(self.slot.unwrap_or(any));
        if self.blocks.is_empty() || self.rng.u8(..5) < 3 && self.blocks.len() < 200 {
            let order = self.rng.u8(..=G::MAX_ORDER as u8);
            let request = Request::new(Order(order), Class(self.rng.u8(..4)), slot);
            if let Ok(frame) = self.zone.alloc(request) {
                self.set(frame.0, order, 0, self.me);
                self.blocks.push((frame.0, order));
            }
        } else {
            let (first, order) = self.blocks.swap_remove(self.rng.usize(..self.blocks.len()));
            let freeing = &self.owners[config().end().0 + slot.0];
            if self.slot.is_some() {
                freeing.store((first as u32) << 4 | order as u32 | 1 << 31, Ordering::Release);
            }
            self.set(first, order, self.me, 0);
            self.zone.free(FrameId(first), Order(order), slot).expect("it is owned");
            if self.slot.is_some() {
                freeing.store(0, Ordering::Release);
            }
        }
    }
}

/// Calls until it is killed, or meets another owner.
fn live<M: Medium>(path: &str, layout: &Layout, medium: M, slot: Option<usize>) -> ! {
    let (memory, owners) = map(Path::new(path), layout);
    let (zone, me) = (attach(memory, medium), process::id());
    let rng = Rng::with_seed(me as u64);
    let mut owner = Owner { zone: &zone, owners, me, slot, blocks: Vec::new(), rng };
    loop {
        owner.call();
    }
}

fn spawn(path: &Path, test: &str, slot: usize) -> Child {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--exact", test]).env(SLOT, slot.to_string());
    command.env(CHILD, path).spawn().expect("a child")
}

const PLAIN: &str = "who_is_killed_takes_nothing_but_what_it_owned";
const NAMED: &str = "with_intents_nothing_is_lost";

#[test]
fn who_is_killed_takes_nothing_but_what_it_owned() {
    if let Ok(path) = env::var(CHILD) {
        live(&path, &Layout::of::<G>(&config()).expect("a zone"), Shared, None);
    }
    const KILLS: usize = 24;
    let file = tempfile::NamedTempFile::new().expect("a file");
    let (memory, owners) = map(file.path(), &Layout::of::<G>(&config()).expect("a zone"));
    // SAFETY: there are no children yet.
    let zone = unsafe { Zone::<G, _>::format(memory, &config(), Init::Free, Shared) };
    let zone = zone.expect("a zone");
    let rng = Rng::with_seed(12);
    let mut owner = Owner { zone: &zone, owners, me: 1, slot: None, blocks: Vec::new(), rng };
    let mut given_back = 0;
    for round in 0..KILLS / 2 {
        let mut children = [spawn(file.path(), PLAIN, 0), spawn(file.path(), PLAIN, 0)];
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

    // SAFETY: all children have ended, and the zone here is not used any more.
    let (verdict, opened) = unsafe {
        let verdict = verify::<G>(memory, None).expect("a zone");
        (verdict, Zone::<G, _>::open(memory, None, Check::Quick, Shared))
    };
    let (zone, opened) = opened.expect("it opens");
    let Opened::Recovered { repairs, .. } = opened else { panic!("{opened:?}") };
    assert_eq!(repairs, verdict.repairs);
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
    zone.close().expect("nothing fails");
}

/// Each process has a slot of its own. After their death the zone is recovered, and what the records name, what is
/// allocated and nobody's is freed, and what was about to be freed: then every frame that nobody owns is free.
#[test]
fn with_intents_nothing_is_lost() {
    let layout = Layout::with_intents::<G>(&config()).expect("a zone");
    if let Ok(path) = env::var(CHILD) {
        let slot = env::var(SLOT).expect("a slot").parse().expect("a number");
        live(&path, &layout, Intents(Shared), Some(slot));
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    let (memory, owners) = map(file.path(), &layout);
    // SAFETY: there are no children yet.
    let zone = unsafe { Zone::<G, _>::format(memory, &config(), Init::Free, Intents(Shared)) };
    zone.and_then(Zone::close).expect("a zone");
    let (owners, freeing) = owners.split_at(config().end().0);
    let (mut resolved, mut given_back) = (0, 0);
    for round in 0..16 {
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
        let mut children = [0, 1, 2].map(|slot| spawn(file.path(), NAMED, slot));
        sleep(Duration::from_millis(20 + 3 * round));
        for child in &mut children {
            child.kill().expect("it lives");
            let ended = child.wait().expect("it ends");
            assert_eq!(ended.code(), None, "it met another owner, and was not killed");
        }
    }
    assert!(given_back > 100, "they did something before they were killed: {given_back}");
    println!("45 processes killed, {resolved} frames in doubt freed, none lost");
}
