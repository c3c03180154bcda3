//! A buffer pool of a database that is killed again and again, and loses no frame and no change of a page.
//!
//! ```text
//!   fetch    alloc ▶ read from the disk ▶ place := in, frame
//!   evict    write to the disk ▶ place := leaving, frame ▶ free ▶ place := disk
//! ```
//!
//! A death between two steps leaves frames that are allocated and in no place, or that are *leaving*. The zone names the
//! first kind: each slot has a record of its last operation. So whoever opens the files frees what is named or
//! leaving, allocated, and no page's. All else stays in memory as it was, changes that the disk does not have among it.
//! That holds for deaths of processes. Nothing is synchronised, so a loss of power is another matter.
//!
//! ```text
//!   cargo run --release -p woodlot-zone --example durable_buffer_pool
//!   cargo run --release -p woodlot-zone --example durable_buffer_pool -- --forget
//! ```
//!
//! The second one does not look at the records, and finds what is lost then.
#![cfg(target_os = "linux")]

mod files;

use std::io::{self, BufRead, BufReader, Write, stdout};
use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use files::{Files, IN, LEAVING, PAGES, Result, ZONE, order};
use woodlot_frame::atomics::Ordering::{Acquire, Release};
use woodlot_frame::{AllocError, Base4K, FrameAllocator, FrameId, Init, Order, Request, Slot};
use woodlot_zone::{Check, Closed, Intents, Shared, Zone};

/// The slot of the database. With intents a slot has one call at a time: each thread would need its own.
const DATABASE: Slot = Slot(0);
/// The slot of whoever opens the files: what it frees overwrites no record of the database.
const OPENER: Slot = Slot(1);

/// The pool of whoever has the files open.
struct Pool<'f> {
    files: &'f Files,
    zone: Zone<'static, Base4K, Intents<Shared>>,
}

impl<'f> Pool<'f> {
    /// Opens the zone, which is recovered after a death. Says how many frames were in doubt and are free now.
    fn open(files: &'f Files, forget: bool) -> Result<(Self, usize)> {
        // SAFETY: who had the zone before is dead, or has closed it.
        let opened = unsafe { Zone::open(files.zone, Some(&ZONE), Check::Quick, Intents(Shared)) };
        let pool = Pool { files, zone: opened?.0 };
        let freed = pool.reconcile(forget)?;
        Ok((pool, freed))
    }

    /// Frees what a death has left between two steps. A death in the middle of this leaves the rest to the next one.
    fn reconcile(&self, forget: bool) -> Result<usize> {
        let named = self.zone.last_operations().flat_map(|last| self.zone.frames_of(last));
        let named = named.flat_map(|run| run.start.0..run.start.0 + run.count);
        let mut doubt: Vec<usize> = if forget { Vec::new() } else { named.collect() };
        let leaving = || (0..PAGES).filter(|&page| self.files.place(page).0 == LEAVING);
        doubt.extend(leaving().flat_map(|page| self.frames(page)));
        let (owners, mut freed) = (self.owners()?, 0);
        for frame in doubt {
            if owners[frame].is_none() && !self.is_free(frame) {
                self.zone.free(FrameId(frame), Order::BASE, OPENER)?;
                freed += 1;
            }
        }
        leaving().for_each(|page| self.files.set_place(page, 0, FrameId(0)));
        Ok(freed)
    }

    fn close(self) -> Result<()> {
        match self.zone.close()? {
            Closed::Clean => Ok(()),
            Closed::ToRecover(hidden) => Err(format!("something is hidden: {hidden:?}").into()),
        }
    }

    fn is_free(&self, frame: usize) -> bool {
        self.zone.is_free(FrameId(frame), Order::BASE)
    }

    /// The frames of a page that has some.
    fn frames(&self, page: usize) -> Range<usize> {
        let first = self.files.place(page).1.0;
        first..first + order(page).frames()
    }

    /// The page that has each frame, by the table.
    fn owners(&self) -> Result<Vec<Option<usize>>> {
        let mut owners = vec![None; ZONE.frames];
        for page in (0..PAGES).filter(|&page| self.files.place(page).0 == IN) {
            for frame in self.frames(page) {
                if let Some(other) = owners[frame].replace(page) {
                    return Err(format!("pages {other} and {page} have frame {frame}").into());
                }
            }
        }
        Ok(owners)
    }

    /// Is each frame allocated that a page has, and free that none has? Is each page as it was written?
    fn check(&self) -> Result<()> {
        let (mut lost, owners) = (0, self.owners()?);
        for (frame, owner) in owners.into_iter().enumerate() {
            match (owner, self.is_free(frame)) {
                (Some(page), true) => {
                    return Err(format!("frame {frame} of page {page} is free").into());
                }
                (None, false) => lost += 1,
                _ => {}
            }
        }
        if lost > 0 {
            return Err(format!("{lost} frames are lost: allocated, and no page's").into());
        }
        for page in 0..PAGES {
            if !self.files.is_whole(page)? {
                return Err(format!("page {page} is not as it was written").into());
            }
        }
        Ok(())
    }

    /// Changes a page.
    fn work(&self, page: usize) -> Result<()> {
        if self.files.place(page).0 != IN {
            self.fetch(page)?;
        }
        let count = &mut self.files.bytes(page, self.files.place(page).1)[0];
        *count = count.wrapping_add(1);
        self.files.count(page).fetch_add(1, Release);
        Ok(())
    }

    /// Takes a page into memory. While there is no room for it, others leave.
    fn fetch(&self, page: usize) -> Result<()> {
        let first = loop {
            match self.zone.alloc(Request::movable(order(page), DATABASE)) {
                Ok(first) => break first,
                Err(AllocError::OutOfMemory) => self.evict(fastrand::usize(..PAGES))?,
                Err(error) => return Err(error.into()),
            }
        };
        self.files.read(page, self.files.bytes(page, first))?;
        self.files.set_place(page, IN, first);
        Ok(())
    }

    fn evict(&self, page: usize) -> Result<()> {
        let (IN, first) = self.files.place(page) else { return Ok(()) };
        self.files.write(page, self.files.bytes(page, first))?;
        self.files.set_place(page, LEAVING, first);
        self.zone.free(first, order(page), DATABASE)?;
        self.files.set_place(page, 0, FrameId(0));
        Ok(())
    }
}

/// The database: works until it is killed.
pub fn child(folder: &Path) -> Result<()> {
    let files = Files::open(folder)?;
    let (pool, _) = Pool::open(&files, false)?;
    println!("ready");
    stdout().flush()?;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(30) {
        pool.work(fastrand::usize(..PAGES))?;
    }
    Ok(())
}

/// Kills the database so often, at any moment, and checks what it leaves. `again` is the command for a process that
/// calls [`child`] with the folder. With `forget`, the records are not looked at.
pub fn run(again: impl Fn(&Path) -> Command, kills: usize, forget: bool) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let files = Files::open(folder.path())?;
    files.fill_disk()?;
    // SAFETY: the file is new.
    let zone = unsafe { Zone::format(files.zone, &ZONE, Init::Free, Intents(Shared)) }?;
    Pool { files: &files, zone }.close()?;
    for kill in 1..=kills {
        let mut child = again(folder.path()).stdout(Stdio::piped()).spawn()?;
        let said = BufReader::new(child.stdout.take().ok_or("the database says nothing")?);
        let mut lines = said.lines().map_while(io::Result::ok);
        lines.find(|line| line.contains("ready")).ok_or("the files could not be opened")?;
        sleep(Duration::from_micros(fastrand::u64(..20_000)));
        child.kill()?;
        if child.wait()?.signal().is_none() {
            return Err("the database was to be killed, and ended by itself".into());
        }
        let (pool, freed) = Pool::open(&files, forget)?;
        pool.check()?;
        let changes: u64 = (0..PAGES).map(|page| files.count(page).load(Acquire)).sum();
        let used = ZONE.frames - pool.zone.stats().free_frames;
        println!("kill {kill}: {changes} changes; {used} frames in use, {freed} were in doubt");
        pool.close()?;
    }
    println!("nothing is lost");
    Ok(())
}

#[cfg_attr(test, expect(dead_code, reason = "a test has its own"))]
fn main() -> Result<()> {
    let (program, argument) = (std::env::current_exe()?, std::env::args_os().nth(1));
    let again = |folder: &Path| {
        let mut child = Command::new(&program);
        child.arg(folder);
        child
    };
    match argument {
        Some(folder) if folder != "--forget" => child(Path::new(&folder)),
        forget => run(again, 50, forget.is_some()),
    }
}
