//! Forks: a child finds every lock free, and every list whole.
//!
//! ```text
//!   parent   prepare: all locks ── fork ── parent: let go
//!                                   └───── child: let go
//! ```
//!
//! Other threads of the parent are not in the child. None of them has a lock when the process forks; a sequence that one
//! of them was in has not committed, and so has not happened in the child.
//!
//! Handlers that were registered before these run between the locks and the fork, or between the fork and the letting go. The
//! heap lets go for each of their calls that needs a lock, and locks again: `heap::slowly`.

use crate::{heap, outside};

extern "C" fn prepare() {
    heap::lock();
}

extern "C" fn parent() {
    // SAFETY: `prepare` has locked.
    unsafe { heap::unlock() };
}

extern "C" fn child() {
    // SAFETY: `prepare` has locked, in the parent.
    unsafe { heap::unlock() };
    heap::forked();
}

extern "C" fn register() {
    outside::announce();
    // SAFETY: the three belong together.
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}

/// Called before `main`, or when the library is loaded. Miri has no `fork`, and no notes of a program.
#[used]
#[cfg_attr(not(miri), unsafe(link_section = ".init_array"))]
static REGISTER: extern "C" fn() = register;

#[cfg(all(test, not(miri)))]
mod tests {
    extern crate std;

    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::thread;
    use std::time::Duration;

    use woodlot_kmem::{PerCpu, SizeId, Sizes, Wide};

    use crate::heap::{KMEM, LARGE, caches};
    use crate::threads::Threads;
    use crate::upkeep;

    /// How long what a thread does that has a lock is half done.
    const HALF: Duration = Duration::from_millis(50);
    /// Seconds after which a child counts as one that waits for ever.
    const PATIENCE: libc::c_uint = 10;

    const SIZE: SizeId = Wide::TABLE.by_grains()[1];

    /// What a lock protects is half done.
    static IS_HALF_DONE: AtomicBool = AtomicBool::new(false);

    /// A lock of the heap: its name, who takes it, and who lets go of it.
    type Locking = (&'static str, fn(), unsafe fn());

    // SAFETY of what lets go: whoever calls it has taken the lock.
    const LOCKS: [Locking; 6] = [
        ("upkeep", upkeep::lock, upkeep::unlock),
        // SAFETY: as above.
        ("thieves", || caches().lock(), || unsafe { caches().unlock() }),
        // SAFETY: as above.
        ("threads", || threads().lock(), || unsafe { threads().unlock() }),
        // SAFETY: as above.
        ("layers", || KMEM.lock_all(), || unsafe { KMEM.unlock_all() }),
        // SAFETY: as above.
        ("pages", || KMEM.pages().lock(), || unsafe { KMEM.pages().unlock() }),
        // SAFETY: as above.
        ("large", || LARGE.lock(), || unsafe { LARGE.unlock() }),
    ];

    fn threads() -> &'static Threads {
        caches().fallback()
    }

    /// Forks; the status with which a child ends that runs this.
    fn status_of(child: impl FnOnce() -> bool) -> libc::c_int {
        // SAFETY: the child takes locks only, and ends.
        let forked = unsafe { libc::fork() };
        if forked == 0 {
            // SAFETY: the process ends, by the signal at the latest.
            unsafe {
                libc::alarm(PATIENCE);
                libc::_exit(i32::from(!child()));
            }
        }
        let mut status = -1;
        // SAFETY: the child is this process's, and the status is written.
        assert_eq!(unsafe { libc::waitpid(forked, &mut status, 0) }, forked);
        status
    }

    /// A fork comes while another thread has a lock: the child finds what that one does done, and can take the lock.
    #[test]
    fn a_child_finds_nothing_half_done_and_no_lock_taken() {
        for (name, lock, unlock) in LOCKS {
            let half = move || {
                lock();
                IS_HALF_DONE.store(true, SeqCst);
                thread::sleep(HALF);
                IS_HALF_DONE.store(false, SeqCst);
                // SAFETY: it was taken above.
                unsafe { unlock() };
            };
            let other = thread::spawn(half);
            while !IS_HALF_DONE.load(SeqCst) {
                thread::yield_now();
            }
            let status = status_of(|| {
                let is_whole = !IS_HALF_DONE.load(SeqCst);
                lock();
                // SAFETY: it was just taken.
                unsafe { unlock() };
                is_whole
            });
            other.join().expect("it ends");
            assert_eq!(status, 0, "{name}: a child finds it half done, or locked");
            lock();
            // SAFETY: it was just taken.
            unsafe { unlock() };
        }
    }

    /// A fork comes while another thread makes the key by which threads have their caches.
    #[test]
    fn a_child_makes_the_key_that_its_parent_was_making() {
        threads().be_making_the_key();
        let status = status_of(|| threads().steal(0, SIZE).is_some());
        threads().forked();
        assert_eq!(status, 0, "threads of a child have no caches");
    }
}
