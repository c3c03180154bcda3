//! A shared pool as others see it, who have not joined it.
//!
//! ```text
//!   zone page ── which zone ──▶ owner table ── how long it is ──▶ pool page
//!               size              processes                       cap, resident
//! ```
//!
//! 1. Nothing is written: the mapping and the file are for reading alone. No lock is taken, only asked for.
//! 2. Every access is an atomic load. The file had the length of the pool when it was opened, and each look checks that it
//!    still has all of it.
//!
//! *Progress*: nobody waits for a view, and it waits for nobody.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null_mut};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use woodlot_frame::Base4K;
use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_zone::{Info, Memory, Owners, OwnersError, PAGE, ZoneError};

use crate::error::{BuildError, SharedError};
use crate::locks::{Locks, Part};
use crate::mapping::{FRAME, HUGE};
use crate::plan::{CAP, HEAD, MARK, Plan};
use crate::resident;

/// A pool that processes share, seen without joining it: a file that can be read is enough, and nothing in it changes.
pub struct View {
    path: PathBuf,
    mapping: Mapped,
    locks: Locks,
    plan: Plan,
}

/// A shared pool at about one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Seen {
    /// How many bytes are resident.
    pub resident: usize,
    /// Who has the pool, or has died with frames that are not freed yet.
    pub processes: Vec<Process>,
}

/// A process that has joined a shared pool.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Process {
    /// Its number in the pool, 1 to 72.
    pub member: u16,
    /// Its number in the system, where it joined. Another process may have it by now.
    pub id: u64,
    /// Does it live? One that is just joining may look dead.
    pub is_alive: bool,
    /// The bytes of the frames that it owns.
    pub bytes: usize,
}

impl View {
    /// Looks whether a file is a shared pool.
    ///
    /// # Errors
    /// [`BuildError::File`]: it cannot be read, or is no regular file. [`BuildError::Shared`] with
    /// [`SharedError::NotAPool`] if there is a zone and no pool, and with what else is wrong otherwise:
    /// [`SharedError::Length`] if it was truncated, or grew.
    pub fn open(path: impl AsRef<Path>) -> Result<View, BuildError> {
        let path = path.as_ref().to_path_buf();
        let failed = |cause| BuildError::File { path: path.clone(), doing: "open it", cause };
        // To open a pipe would wait for who writes to it.
        if !fs::metadata(&path).map_err(failed)?.is_file() {
            return Err(failed(io::Error::other("is no regular file")));
        }
        let file = File::open(&path).map_err(failed)?;
        let len = length(&path, &file)?;
        let wrong = |cause| BuildError::Shared { path: path.clone(), cause };
        if len < PAGE as u64 {
            let short = ZoneError::Short { needed: PAGE, given: len as usize };
            return Err(wrong(short.into()));
        }
        let mapping = Mapped::of(&file, len as usize)
            .map_err(|cause| BuildError::Map { bytes: len as usize, cause })?;
        let plan = mapping.plan().map_err(wrong)?;
        let view = View { locks: Locks::of_others(file), path, mapping, plan };
        view.check_length(|bytes, expected| bytes == expected)?;
        Ok(view)
    }

    /// The bytes of the pool's frames.
    pub fn size(&self) -> usize {
        self.plan.size
    }

    /// Where the file is mapped, for a program that handles `SIGBUS` where a read meets what was cut off of it.
    pub fn addresses(&self) -> Range<usize> {
        let start = self.mapping.start.as_ptr() as usize;
        start..start + self.mapping.len
    }

    /// The most bytes that are resident at any time.
    pub fn cap(&self) -> usize {
        self.plan.cap
    }

    /// What is there now. While others use the pool, the numbers are of no one moment.
    ///
    /// # Errors
    /// [`BuildError::Shared`] with [`SharedError::Length`] if the file was truncated. (If that happens in the middle of a
    /// look, it can be `SIGBUS` at one of the [addresses](Self::addresses).) Or the page of the owner table is damaged.
    ///
    /// # Progress
    /// Linear in the pool's size for each process.
    pub fn look(&self) -> Result<Seen, BuildError> {
        self.check_length(|bytes, expected| bytes >= expected)?;
        let wrong = |cause| BuildError::Shared { path: self.path.clone(), cause };
        let owners = self.mapping.memory().map_err(SharedError::from);
        let owners = owners.and_then(|memory| owners_of(memory, &self.plan)).map_err(wrong)?;
        let process = |member: woodlot_zone::Member| Process {
            member: member.id(),
            id: member.identity(),
            is_alive: self.locks.is_taken(Part::Alive(member.id())),
            bytes: owners.owned_by(member) * FRAME,
        };
        let processes = owners.members().map(process).collect();
        let bits = &self.mapping.words(self.plan.page, self.plan.words())[HEAD..];
        Ok(Seen { resident: resident::count(bits) * HUGE * FRAME, processes })
    }

    fn check_length(&self, is_right: impl Fn(u64, u64) -> bool) -> Result<(), BuildError> {
        let (bytes, pool) = (length(&self.path, self.locks.file())?, self.plan.len());
        let cause = SharedError::Length { bytes, pool };
        match is_right(bytes, pool as u64) {
            true => Ok(()),
            false => Err(BuildError::Shared { path: self.path.clone(), cause }),
        }
    }
}

fn length(path: &Path, file: &File) -> Result<u64, BuildError> {
    let failed =
        |cause| BuildError::File { path: path.to_path_buf(), doing: "read its length", cause };
    Ok(file.metadata().map_err(failed)?.len())
}

fn owners_of<'m>(memory: Memory<'m>, plan: &Plan) -> Result<Owners<'m>, SharedError> {
    // SAFETY: whoever shares the file uses this memory as owner tables of this zone, and nothing else is there.
    Ok(unsafe { Owners::open::<Base4K>(memory.behind(plan.owners)?, &plan.config) }?)
}

/// A file, mapped for reading from its begin on.
struct Mapped {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is a range of addresses of the process; no thread has a special part in it.
unsafe impl Send for Mapped {}
// SAFETY: it is read only, by atomic loads.
unsafe impl Sync for Mapped {}

impl Mapped {
    fn of(file: &File, len: usize) -> io::Result<Mapped> {
        // SAFETY: the system chooses the place.
        let start = unsafe { mmap(null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast()).expect("not at address zero");
        Ok(Mapped { start, len })
    }

    /// The file from its begin on, with the zone.
    fn memory(&self) -> Result<Memory<'_>, ZoneError> {
        // SAFETY: it is mapped for as long as `self` is there, and is read only.
        unsafe { Memory::new(self.start.as_ptr(), self.len) }
    }

    /// So many words from a byte on, which is aligned to them. None, if they are not all mapped.
    fn words(&self, at: usize, count: usize) -> &[AtomicU64] {
        let end = count.checked_mul(size_of::<AtomicU64>()).and_then(|len| len.checked_add(at));
        if end.is_none_or(|end| end > self.len) {
            return &[];
        }
        // SAFETY: the words lie in the mapping, and atomics may have any value.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(at).cast(), count) }
    }

    /// The plan of the pool that lies here.
    fn plan(&self) -> Result<Plan, SharedError> {
        let memory = self.memory()?;
        let info = Info::read(memory)?;
        let none = |_| SharedError::NotAPool { magic: 0 };
        let mut plan = Plan::over(info.config, 0).map_err(none)?;
        let words = self.words(plan.page, HEAD);
        let mut head = [0; HEAD];
        head.iter_mut().zip(words).for_each(|(word, at)| *word = at.load(Ordering::Acquire));
        match head[0] {
            MARK => return Err(ZoneError::Unfinished.into()),
            // The file ends before the page. If it ends in the owner table, it was longer.
            0 if words.is_empty() => match owners_of(memory, &plan) {
                Err(cut @ SharedError::Owners(OwnersError::Page(ZoneError::Short { .. }))) => {
                    return Err(cut);
                }
                _ => return Err(SharedError::NotAPool { magic: 0 }),
            },
            _ => {}
        }
        plan.cap = usize::try_from(head[CAP]).unwrap_or(usize::MAX);
        plan.check(&head)?;
        owners_of(memory, &plan)?;
        Ok(plan)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it was mapped so, and whatever reads it borrows it.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "a mapping is unmapped once");
    }
}
