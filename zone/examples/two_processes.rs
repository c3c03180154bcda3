//! Two processes share a zone in a file. One is killed; the other one frees what it owned, and goes on.
//!
//! ```text
//!   cargo run --release -p woodlot-zone --example two_processes
//! ```
#![cfg(target_os = "linux")]

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write, stdout};
use std::num::NonZeroU64;
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::ptr::null_mut;
use std::thread::sleep;
use std::time::Duration;

use rustix::mm::{MapFlags, ProtFlags, mmap};
use woodlot_frame::{Base4K, FrameAllocator, Init, Order, Request, ZoneConfig};
use woodlot_zone::{Check, Closed, Layout, Memory, Owners, Shared, Tagged, Zone};

/// 1 GiB of 4 KiB frames, and a slot for each process.
const ZONE: ZoneConfig = ZoneConfig::new(1 << 18, 2);
/// Members that the table has room for.
const MEMBERS: usize = 8;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[cfg_attr(test, expect(dead_code, reason = "a test has its own"))]
fn main() -> Result<()> {
    match std::env::args_os().nth(1) {
        Some(path) => child(Path::new(&path)),
        None => run(|path| {
            let mut child = Command::new(std::env::current_exe().expect("this program"));
            child.arg(path);
            child
        }),
    }
}

/// The memory of the zone, and that of the owner table behind it. A file as large as they need.
fn map(file: &File) -> Result<(Memory<'static>, Memory<'static>)> {
    let zone = Layout::of::<Base4K>(&ZONE)?.len;
    let len = zone + Owners::len(&ZONE, MEMBERS)?;
    file.set_len(len as u64)?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the system chooses the place, nobody unmaps it, and both processes use the file in this way only.
    let memory = unsafe {
        Memory::new(mmap(null_mut(), len, protection, MapFlags::SHARED, file, 0)?.cast(), len)?
    };
    Ok((memory, memory.behind(zone)?))
}

/// The first process. `again` is the command for the second one, which calls [`child`] with this path.
pub fn run(again: impl FnOnce(&Path) -> Command) -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    let (memory, table) = map(file.as_file())?;
    // SAFETY: the file is new.
    let (zone, owners) = unsafe {
        let zone = Zone::<Base4K, _>::format(memory, &ZONE, Init::Free, Shared)?;
        (zone, Owners::format::<Base4K>(table, &ZONE, MEMBERS)?)
    };
    let me = owners.join(process::id().into())?;
    let slot = owners.claim_free_slot(me)?;
    let mine = Tagged::new(&*zone, owners, me)?;
    let kept = mine.alloc(Request::movable(Order(9), slot))?;

    let mut child = again(file.path()).stdout(Stdio::piped()).spawn()?;
    let said = BufReader::new(child.stdout.take().ok_or("the child says nothing")?);
    // It has what it wants, and goes on without end.
    let ready = said.lines().find(|line| line.as_ref().is_ok_and(|line| line.contains("ready")));
    ready.ok_or("the child has not come so far")??;
    sleep(Duration::from_millis(20));
    child.kill()?;
    child.wait()?;

    let dead = owners.members().find(|member| member.identity() == u64::from(child.id()));
    let dead = dead.ok_or("the child was no member")?;
    println!("process {} was killed; {} frames are free", child.id(), zone.free_frames());
    let frames = mine.release_owner(dead, slot)?;
    println!("it owned {frames} frames, which are free again: {} are", zone.stats().free_frames);

    // All that the child had can be had again.
    let block = mine.alloc(Request::movable(Order(10), slot))?;
    mine.free(block, Order(10), slot)?;
    // If it was killed in the middle of a call, that call has hidden a block. Who opens the zone next, alone, finds it.
    let hidden = match zone.close()? {
        Closed::Clean => "nothing".into(),
        Closed::ToRecover(hidden) => format!("{hidden:?}"),
    };
    // SAFETY: the child is dead, and the zone here is closed.
    let (zone, _) = unsafe { Zone::<Base4K, _>::open(memory, Some(&ZONE), Check::Quick, Shared)? };
    // Nobody else sweeps: whoever has died in a sweep has the right no more.
    let by = NonZeroU64::new(process::id().into()).ok_or("no process is zero")?;
    let sweeper = owners.sweeper(by, |_| true)?;
    let swept = sweeper.sweep(&zone, |member| member == me)?;
    drop(sweeper);
    println!("its last call had hidden {hidden} in the allocator and {} frames", swept.frames);
    assert!(!zone.is_free(kept, Order(9)), "this process lives, and keeps its own");
    assert_eq!(zone.stats().free_frames + 512, ZONE.frames, "nothing is lost");
    Ok(())
}

/// The second process: allocates and frees until it is killed.
pub fn child(path: &Path) -> Result<()> {
    let (memory, table) = map(&OpenOptions::new().read(true).write(true).open(path)?)?;
    // SAFETY: the other process has formatted both, and keeps them.
    let (zone, owners) = unsafe {
        let zone = Zone::<Base4K, _>::attach(memory, Some(&ZONE), Shared)?;
        (zone, Owners::open::<Base4K>(table, &ZONE)?)
    };
    let me = owners.join(process::id().into())?;
    let slot = owners.claim_free_slot(me)?;
    let mine = Tagged::new(&*zone, owners, me)?;
    for _ in 0..5000 {
        mine.alloc(Request::movable(Order::BASE, slot))?;
    }
    println!("ready");
    stdout().flush()?;
    loop {
        let block = mine.alloc(Request::movable(Order(3), slot))?;
        mine.free(block, Order(3), slot)?;
    }
}
