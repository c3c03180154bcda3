//! Processes that share a zone in a file. Some are killed at any moment; the others go on.
//!
//! Behind the zone lies a word for each frame, which says what process owns it. Its owner sets the word after the
//! allocation and clears it before the free. So two owners of a frame meet there, and what a killed process owned
//! can be counted.
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
use woodlot_zone::{Check, Layout, Memory, Opened, Shared, Zone, verify};

/// Where a child finds the file.
const CHILD: &str = "WOODLOT_ZONE_CHILD";

type Shared64 = Zone<'static, G, Shared>;

/// The memory of the zone, and the owners of its frames.
fn map(path: &Path) -> (Memory<'static>, &'static [AtomicU32]) {
    let file: File = OpenOptions::new().read(true).write(true).open(path).expect("the file");
    let len = Layout::of::<G>(&config()).expect("a zone").len;
    let frames = config().end().0;
    let all = len + frames * 4;
    file.set_len(all as u64).expect("it grows");
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the system chooses the place, and nobody unmaps it. The file is the test's, and written by zones in its
    // first part and by atomics in its second.
    unsafe {
        let start =
            mmap(null_mut(), all, protection, MapFlags::SHARED, file, 0).expect("a mapping");
        let owners = std::slice::from_raw_parts(start.cast::<u8>().add(len).cast(), frames);
        (Memory::new(start.cast(), len).expect("it is aligned"), owners)
    }
}

fn attach(memory: Memory<'static>) -> Shared64 {
    // SAFETY: the parent keeps the zone open while it has children.
    unsafe { Zone::attach(memory, Some(&config()), Shared) }.expect("it is in use")
}

/// Allocates and frees what it has, as `me`.
struct Owner<'a> {
    zone: &'a Shared64,
    owners: &'a [AtomicU32],
    me: u32,
    blocks: Vec<(usize, u8)>,
    rng: Rng,
}

impl Owner<'_> {
    fn set(&self, first: usize, order: u8, from: u32, to: u32) {
        for owner in &self.owners[first..first + (1 << order)] {
            assert_eq!(owner.swap(to, Ordering::AcqRel), from, "frame {first}, order {order}");
        }
    }

    fn call(&mut self) {
        let slot = Slot(self.rng.usize(..config().slots));
        if self.blocks.is_empty() || self.rng.u8(..5) < 3 && self.blocks.len() < 200 {
            let order = self.rng.u8(..=G::MAX_ORDER as u8);
            let request = Request::new(Order(order), Class(self.rng.u8(..4)), slot);
            if let Ok(frame) = self.zone.alloc(request) {
                self.set(frame.0, order, 0, self.me);
                self.blocks.push((frame.0, order));
            }
        } else {
            let (first, order) = self.blocks.swap_remove(self.rng.usize(..self.blocks.len()));
            self.set(first, order, self.me, 0);
            self.zone.free(FrameId(first), Order(order), slot).expect("it is owned");
        }
    }
}

/// Calls until it is killed, or meets another owner.
fn live(path: &str) -> ! {
    let (memory, owners) = map(Path::new(path));
    let (zone, me) = (attach(memory), process::id());
    let rng = Rng::with_seed(me as u64);
    let mut owner = Owner { zone: &zone, owners, me, blocks: Vec::new(), rng };
    loop {
        owner.call();
    }
}

fn spawn(path: &Path) -> Child {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--exact", "who_is_killed_takes_nothing_but_what_it_owned"]);
    command.env(CHILD, path).spawn().expect("a child")
}

#[test]
fn who_is_killed_takes_nothing_but_what_it_owned() {
    if let Ok(path) = env::var(CHILD) {
        live(&path);
    }
    const KILLS: usize = 24;
    let file = tempfile::NamedTempFile::new().expect("a file");
    let (memory, owners) = map(file.path());
    // SAFETY: there are no children yet.
    let zone = unsafe { Zone::<G, _>::format(memory, &config(), Init::Free, Shared) };
    let zone = zone.expect("a zone");
    let rng = Rng::with_seed(12);
    let mut owner = Owner { zone: &zone, owners, me: 1, blocks: Vec::new(), rng };
    let mut given_back = 0;
    for round in 0..KILLS / 2 {
        let mut children = [spawn(file.path()), spawn(file.path())];
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
