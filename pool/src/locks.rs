//! Locks of a shared pool: on bytes of its file, which need not be there.
//!
//! ```text
//!   byte 0       opening      who joins, or frees what the dead had
//!   byte 1       traffic      who moves memory between the pool and the system
//!   byte 1 + id  alive        the member with this number, for as long as it lives
//! ```
//!
//! 1. The locks belong to an open file description that nobody else has (`F_OFD_SETLK`). The system lets go of them when
//!    it is closed, which is after the last instruction of a process that dies. A number of a process can be another
//!    one's by then; a lock cannot. A child after a `fork` has its parent's description, and opens one of its own for
//!    *opening* and *traffic*.
//! 2. Threads of one pool do not keep each other out here. They take a mutex before.
//! 3. Whoever has *traffic* does not wait for *opening*, nor the other way round.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::process;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// What a lock is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Opening,
    Traffic,
    Alive(u16),
}

impl Part {
    fn byte(self) -> i64 {
        match self {
            Part::Opening => 0,
            Part::Traffic => 1,
            Part::Alive(id) => 1 + i64::from(id),
        }
    }
}

/// The locks that one pool of a process has.
pub(crate) struct Locks {
    /// Where *alive* is: a child after a `fork` is the same member, which is alive as long as either of them.
    file: File,
    /// The process, and where it has the other locks, if it is such a child: it and its parent keep each other out.
    child: Mutex<(u32, Option<File>)>,
}

/// A lock, until it is dropped.
pub(crate) struct Held<'l> {
    /// None where a pool is not shared.
    lock: Option<(&'l Locks, Part)>,
}

impl Held<'_> {
    /// Of a pool that no other process has.
    pub(crate) fn nothing() -> Self {
        Held { lock: None }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some((locks, part)) = self.lock {
            let freed = locks.call(libc::F_OFD_SETLK, libc::F_UNLCK, part.byte(), 1);
            debug_assert!(freed.is_ok(), "{freed:?}: a lock that is held can be let go of");
        }
    }
}

impl Locks {
    /// On the file of a descriptor, by a description of its own.
    pub(crate) fn of(file: impl AsFd) -> io::Result<Locks> {
        Ok(Self::of_others(reopen(file)?))
    }

    /// Those that others have, by a description of its own that need not be for writing.
    pub(crate) fn of_others(file: File) -> Locks {
        Locks { file, child: Mutex::new((process::id(), None)) }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Waits for a lock.
    ///
    /// # Errors
    /// The system does not lock this file.
    pub(crate) fn wait(&self, part: Part) -> io::Result<Held<'_>> {
        loop {
            match self.call(libc::F_OFD_SETLKW, libc::F_WRLCK, part.byte(), 1) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                taken => return taken.map(|_| Held { lock: Some((self, part)) }),
            }
        }
    }

    /// The same, of a file that the system has locked before: it has no room for a lock at this moment.
    pub(crate) fn take(&self, part: Part) -> Held<'_> {
        loop {
            match self.wait(part) {
                Ok(held) => return held,
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// A lock, if nobody else has it.
    pub(crate) fn try_take(&self, part: Part) -> Option<Held<'_>> {
        let taken = self.call(libc::F_OFD_SETLK, libc::F_WRLCK, part.byte(), 1);
        taken.is_ok().then_some(Held { lock: Some((self, part)) })
    }

    /// Has somebody else this lock? If the system does not say, somebody has.
    pub(crate) fn is_taken(&self, part: Part) -> bool {
        self.is_any_taken(part.byte(), 1)
    }

    /// Is any other member alive?
    pub(crate) fn is_anybody_alive(&self) -> bool {
        // Zero bytes are all to the end.
        self.is_any_taken(Part::Alive(1).byte(), 0)
    }

    fn is_any_taken(&self, start: i64, len: i64) -> bool {
        let found = self.call(libc::F_OFD_GETLK, libc::F_WRLCK, start, len);
        found.map_or(true, |found| found != libc::F_UNLCK as libc::c_short)
    }

    /// The descriptor by which this process locks.
    fn descriptor(&self) -> io::Result<RawFd> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if child.0 != process::id() {
            *child = (process::id(), Some(reopen(&self.file)?));
        }
        Ok(child.1.as_ref().unwrap_or(&self.file).as_raw_fd())
    }

    /// Returns the kind of lock that the system says.
    fn call(
        &self,
        command: libc::c_int,
        kind: libc::c_int,
        start: i64,
        len: i64,
    ) -> io::Result<libc::c_short> {
        // SAFETY: all bytes zero are a value.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = kind as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        (lock.l_start, lock.l_len) = (start, len);
        let descriptor = self.descriptor()?;
        // SAFETY: these commands read and write one such value.
        let said = unsafe { libc::fcntl(descriptor, command, &mut lock) };
        if said == 0 { Ok(lock.l_type) } else { Err(io::Error::last_os_error()) }
    }
}

/// The file of a descriptor, by a description of its own: locks and lifetime are not those of the descriptor.
pub(crate) fn reopen(file: impl AsFd) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    OpenOptions::new().read(true).write(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_descriptions_keep_each_other_out() {
        let file = tempfile::tempfile().expect("a file");
        let [one, other] = [(); 2].map(|()| Locks::of(&file).expect("it can be opened again"));
        let alive = one.try_take(Part::Alive(7)).expect("nobody has it");
        assert!(other.is_taken(Part::Alive(7)) && other.is_anybody_alive());
        assert!(!other.is_taken(Part::Alive(6)) && !other.is_taken(Part::Alive(8)));
        assert!(other.try_take(Part::Alive(7)).is_none());
        assert!(!one.is_taken(Part::Alive(7)), "its own locks are not others'");
        drop(alive);
        let traffic = other.take(Part::Traffic);
        assert!(!one.is_anybody_alive() && one.is_taken(Part::Traffic));
        assert!(one.try_take(Part::Opening).is_some());
        std::mem::forget(traffic);
        drop(other);
        assert!(one.try_take(Part::Traffic).is_some(), "who dies lets go of it");
        // Not beside this: a child of the whole process has all descriptions for as long as it lives.
        a_child_and_its_parent_keep_each_other_out(&file);
    }

    #[test]
    fn a_file_that_cannot_be_locked_is_an_error() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut locks = Locks::of(&file).expect("it can be opened again");
        locks.file = File::open(file.path()).expect("it can be read");
        assert!(locks.wait(Part::Opening).is_err(), "a lock for writers needs a file to write to");
    }

    fn a_child_and_its_parent_keep_each_other_out(file: &File) {
        let [one, other] = [(); 2].map(|()| Locks::of(file).expect("it can be opened again"));
        std::mem::forget(one.try_take(Part::Alive(1)).expect("nobody has it"));
        let traffic = one.try_take(Part::Traffic).expect("nobody has it");
        // SAFETY: the child asks the system for a lock, and ends. Nobody else has the mutex of these locks.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let taken = one.try_take(Part::Traffic).is_some();
            // SAFETY: the child ends, and runs nothing of the test.
            unsafe { libc::_exit(taken.into()) };
        }
        let mut status = -1;
        // SAFETY: the status is written to a variable.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child has what its parent has");
        drop(traffic);
        assert!(other.is_taken(Part::Alive(1)), "the end of a child is not the parent's");
        assert!(other.try_take(Part::Traffic).is_some());
    }
}
