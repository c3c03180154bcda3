//! A zone file: mapped, locked, and long enough.
//!
//! The blocks of a new file are allocated before it is mapped: a full disk is an error then, and never a signal. A file that
//! is truncated while it is mapped is [watched](super::shrunk), and an error when the work is done. One
//! program opens a zone file at a time: it holds an exclusive lock (`flock`) for as long as it has it open; who only
//! looks holds a shared one, as those do who share it, and who watches what others do holds none.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::ptr::null_mut;
use std::slice::from_raw_parts;

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use woodlot_bench::Failure;
use woodlot_bench::output::Making;
use woodlot_frame::atomics::AtomicU32;
use woodlot_zone::{Memory, NotDurable};

use super::shrunk::Watched;

/// What a file is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To read it while others use it: it is not locked.
    Watch,
    /// To read it while nobody changes it.
    Look,
    /// To change it together with others.
    Join,
    /// To change it while nobody else has it open.
    Change,
}

impl Access {
    fn writes(self) -> bool {
        matches!(self, Access::Join | Access::Change)
    }
}

/// A file with all of its bytes mapped. The lock goes with the file.
pub struct Mapped {
    start: *mut u8,
    len: usize,
    /// Kept open for its lock, and for its length.
    file: File,
    watched: Watched,
}

impl Mapped {
    /// Makes a new file of `len` bytes, all zero and with blocks of their own.
    pub fn create(path: &Path, len: usize) -> Result<(Mapped, Making), Failure> {
        let open = || OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let made = Making::begin(path, open);
        let made = made.and_then(|(file, making)| Ok((Self::fill(file, len)?, making)));
        made.map_err(|cause| Failure::at(path, cause))
    }

    /// Makes an empty file one of `len` bytes, all zero and with blocks of their own.
    pub fn fill(file: File, len: usize) -> io::Result<Mapped> {
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        fallocate(&file, FallocateFlags::empty(), 0, len as u64)?;
        file.sync_all()?;
        Self::map(file, len, Access::Change)
    }

    /// Maps a file that is there.
    pub fn open(path: &Path, access: Access) -> Result<Mapped, Failure> {
        let at = |cause: io::Error| Failure::at(path, cause);
        let file = OpenOptions::new().read(true).write(access.writes()).open(path);
        let file = file.map_err(at)?;
        let about = file.metadata().map_err(at)?;
        if !about.is_file() {
            return Err(Failure::at(path, "is no regular file"));
        }
        let lock = match access {
            Access::Watch => None,
            Access::Look | Access::Join => Some(FlockOperation::NonBlockingLockShared),
            Access::Change => Some(FlockOperation::NonBlockingLockExclusive),
        };
        match lock.map_or(Ok(()), |lock| flock(&file, lock)) {
            Err(Errno::WOULDBLOCK) => return Err(Failure::at(path, "another program has it open")),
            locked => locked.map_err(|cause| at(cause.into()))?,
        }
        let len = usize::try_from(about.len()).unwrap_or(usize::MAX);
        if len == 0 {
            return Err(Failure::at(path, "is empty"));
        }
        if access == Access::Change {
            // A copy may have holes, for which a full disk has no blocks.
            match fallocate(&file, FallocateFlags::KEEP_SIZE, 0, len as u64) {
                Err(Errno::OPNOTSUPP) => {}
                filled => filled.map_err(|cause| at(cause.into()))?,
            }
        }
        Self::map(file, len, access).map_err(at)
    }

    fn map(file: File, len: usize, access: Access) -> io::Result<Mapped> {
        let write = if access.writes() { ProtFlags::WRITE } else { ProtFlags::empty() };
        let protection = ProtFlags::READ | write;
        // SAFETY: the system chooses where, so nothing that is mapped is replaced.
        let start = unsafe { mmap(null_mut(), len, protection, MapFlags::SHARED, &file, 0) }?;
        let watched = Watched::new(start as usize..start as usize + len);
        // SAFETY: it was just mapped so, and nothing uses it.
        let watched = watched.inspect_err(|_| _ = unsafe { munmap(start, len) })?;
        Ok(Mapped { start: start.cast(), len, file, watched })
    }

    /// How many bytes are mapped.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The words of a part of the mapping, for atomic accesses.
    ///
    /// # Panics
    /// Where the part does not lie in the mapping or is not aligned, which is a defect.
    pub fn words(&self, bytes: Range<usize>) -> &[AtomicU32] {
        assert!(bytes.start.is_multiple_of(4) && bytes.start <= bytes.end && bytes.end <= self.len);
        // SAFETY: it lies in the mapping, which begins at a page; atomics may have any value. Who shares the file
        // accesses these words by atomics only.
        unsafe { from_raw_parts(self.start.add(bytes.start).cast(), bytes.len() / 4) }
    }

    /// What was `done` with the mapping, if the file still has all of it, and had when it was used.
    pub fn whole<T>(&self, path: &Path, done: Result<T, Failure>) -> Result<T, Failure> {
        let (now, before) = (self.length().map_err(|cause| Failure::at(path, cause))?, self.len);
        match now < before as u64 {
            true => {
                let lost = format!("was truncated: it has {now} bytes, and had {before}");
                Err(Failure::at(path, lost))
            }
            false if self.watched.was_hit() => {
                let lost = "a part of it cannot be read or written: the disk is full or damaged, or it was truncated";
                Err(Failure::at(path, lost))
            }
            false => done,
        }
    }

    /// The bytes that the file has now.
    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// The memory of a zone.
    pub fn memory(&self, path: &Path) -> Result<Memory<'_>, Failure> {
        // SAFETY: it is mapped until `drop`; the lock keeps those away who keep it, and looking needs reads alone.
        unsafe { Memory::new(self.start, self.len) }.map_err(|cause| Failure::at(path, cause))
    }

    /// Writes bytes of the mapping to the file; refused where it does not have them any more.
    pub fn sync(&self, bytes: Range<usize>) -> Result<(), NotDurable> {
        if self.watched.was_hit() || self.length().is_ok_and(|now| now < self.len as u64) {
            return Err(NotDurable(Errno::NXIO.raw_os_error()));
        }
        let end = bytes.end.min(self.len);
        let start = bytes.start.min(end);
        // SAFETY: the bytes lie in the mapping.
        let done = unsafe { msync(self.start.add(start).cast(), end - start, MsyncFlags::SYNC) };
        done.map_err(|error| NotDurable(error.raw_os_error()))
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        self.watched.end();
        // SAFETY: it was mapped so, and whatever used it borrowed it. Nothing can be done about an error.
        let _ = unsafe { munmap(self.start.cast(), self.len) };
    }
}
