//! A zone file: mapped, locked, and long enough.
//!
//! The blocks of a new file are allocated before it is mapped: a full disk is an error then, and never a signal. One
//! program opens a zone file at a time: it holds an exclusive lock (`flock`) for as long as it has it open; who only
//! looks holds a shared one, as those do who share it, and who watches what others do holds none.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::ptr::null_mut;
use std::slice::from_raw_parts;

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use woodlot_bench::Failure;
use woodlot_frame::atomics::AtomicU32;
use woodlot_zone::{Memory, NotDurable};

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
}

impl Mapped {
    /// Makes a new file of `len` bytes, all zero and with blocks of their own.
    pub fn create(path: &Path, len: usize) -> Result<Mapped, Failure> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = file.map_err(|cause| Failure::at(path, cause))?;
        let made = Self::fill(file, len).map_err(|cause| Failure::at(path, cause));
        made.inspect_err(|_| remove(path))
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
        Self::map(file, len, access).map_err(at)
    }

    fn map(file: File, len: usize, access: Access) -> io::Result<Mapped> {
        let write = if access.writes() { ProtFlags::WRITE } else { ProtFlags::empty() };
        let protection = ProtFlags::READ | write;
        // SAFETY: the system chooses where, so nothing that is mapped is replaced.
        let start = unsafe { mmap(null_mut(), len, protection, MapFlags::SHARED, &file, 0) }?;
        Ok(Mapped { start: start.cast(), len, file })
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

    /// Is the file still as long as what is mapped of it? Reading behind its end would be a signal.
    pub fn check_length(&self, path: &Path) -> Result<(), Failure> {
        let about = self.file.metadata().map_err(|cause| Failure::at(path, cause))?;
        match about.len() < self.len as u64 {
            true => {
                let (now, before) = (about.len(), self.len);
                Err(Failure::at(
                    path,
                    format!("was truncated: it has {now} bytes, and had {before}"),
                ))
            }
            false => Ok(()),
        }
    }

    /// The memory of a zone.
    pub fn memory(&self, path: &Path) -> Result<Memory<'_>, Failure> {
        // SAFETY: it is mapped until `drop`; the lock keeps those away who keep it, and looking needs reads alone.
        unsafe { Memory::new(self.start, self.len) }.map_err(|cause| Failure::at(path, cause))
    }

    /// Writes bytes of the mapping to the file.
    pub fn sync(&self, bytes: Range<usize>) -> Result<(), NotDurable> {
        let end = bytes.end.min(self.len);
        let start = bytes.start.min(end);
        // SAFETY: the bytes lie in the mapping.
        let done = unsafe { msync(self.start.add(start).cast(), end - start, MsyncFlags::SYNC) };
        done.map_err(|error| NotDurable(error.raw_os_error()))
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it was mapped so, and whatever used it borrowed it. Nothing can be done about an error.
        let _ = unsafe { munmap(self.start.cast(), self.len) };
    }
}

/// Removes a file that was made in vain. That it cannot be removed is not worth more than why it was in vain.
pub fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}
