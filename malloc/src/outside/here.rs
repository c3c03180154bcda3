//! This very process, looked at as another one would.
//!
//! The system reads the memory: while other threads change it, a program must not.

use core::fmt;

use super::page;
use super::read::{LookError, Memory, look};
use super::snapshot::Snapshot;

/// The system does not let the process read its own memory: a filter of system calls, say. The number of its error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoReading(pub i32);

impl fmt::Display for NoReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process_vm_readv: error {}", self.0)
    }
}

impl core::error::Error for NoReading {}

struct Here;

impl Memory for Here {
    type Error = NoReading;

    fn read(&self, address: usize, into: &mut [u8]) -> Result<(), NoReading> {
        let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
        // SAFETY: `local` is memory of this call; of the other address the system alone judges.
        let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
        match usize::try_from(read) {
            Ok(read) if read == into.len() => Ok(()),
            Ok(_) => Err(NoReading(libc::EFAULT)),
            // SAFETY: the thread's own errno.
            Err(_) => Err(NoReading(unsafe { *libc::__errno_location() })),
        }
    }
}

/// Looks at the heap of this process. It takes no lock, so it may be called at any time, also from a signal handler. Takes
/// some thousand calls of the system.
///
/// # Errors
/// The system does not let the process read its own memory.
pub fn look_here() -> Result<Snapshot, LookError<NoReading>> {
    look(&Here, page::here())
}
