//! Signals that wait.

#[cfg(not(miri))]
use core::mem::MaybeUninit;

/// This thread runs no signal handler as long as this lives, but for what it does wrong itself (`SIGSEGV`, say).
#[cfg(not(miri))]
pub(crate) struct Blocked(libc::sigset_t);

/// Miri has no signals.
#[cfg(miri)]
pub(crate) struct Blocked;

#[cfg(miri)]
impl Blocked {
    pub(crate) fn all() -> Blocked {
        Blocked
    }
}

#[cfg(not(miri))]
impl Blocked {
    /// Two system calls, with the one of the drop. Neither fails: the sets are whole.
    pub(crate) fn all() -> Blocked {
        let [mut all, mut before] = [MaybeUninit::uninit(); 2];
        // SAFETY: both sets are written, the first one before it is read.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            Blocked(before.assume_init())
        }
    }
}

#[cfg(not(miri))]
impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set is what the thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, core::ptr::null_mut()) };
    }
}
