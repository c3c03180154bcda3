//! What is done for the heap as a whole, by whoever comes through the slow path: it has no thread of its own.
//!
//! ```text
//!   pages were freed, or got from the system     what is idle, and more than the heap may keep, goes back
//!   fewer pages are in use than there were        the global layer is flushed: its blocks keep pages from being free
//!   a second has passed                          a part of what is idle goes back; lists that nobody has used since go down
//!                                                a layer, those of other CPUs too
//! ```
//!
//! 1. The thread is busy, and has no other lock.
//! 2. CPUs up to `HIGHEST` have come here. Another one has what was freed there to empty lists alone.
//!
//! To reach what another CPU keeps takes `membarrier`. A sandbox may kill whoever calls that; so a heap that has no more
//! than it may keep in any case does not.
//!
//! *Progress*: one thread at a time does it; others go on.

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_kmem::{Lock, PerCpu, Seen};

use crate::heap::KMEM;
use crate::hot::CPUS;
use crate::system;

/// When somebody came last, in seconds; 0: nobody has yet.
static LAST: AtomicU64 = AtomicU64::new(0);
/// The highest number of a CPU that has come.
static HIGHEST: AtomicU64 = AtomicU64::new(0);

static STATE: Lock<State> =
    Lock::new(State { highest: 0, caches: [const { Seen::new() }; CPUS], global: Seen::new() });

/// What was seen.
struct State {
    /// The most pages that were in use since the global layer was flushed.
    highest: usize,
    /// Of each CPU's caches.
    caches: [Seen; CPUS],
    /// Of the global layer.
    global: Seen,
}

/// Does what is to be done now: mostly nothing.
#[inline]
pub(crate) fn tend() {
    let (now, cpu) = (system::seconds(), KMEM.caches().current());
    // A thread that does not know its CPU has a number that none has.
    if HIGHEST.load(Ordering::Relaxed) < cpu as u64 && cpu < KMEM.caches().cpus() {
        HIGHEST.fetch_max(cpu as u64, Ordering::Relaxed);
    }
    if LAST.load(Ordering::Relaxed) != now || KMEM.pages().is_look_due() {
        tend_now(now, cpu);
    }
}

#[cold]
#[inline(never)]
fn tend_now(now: u64, cpu: usize) {
    let Some(mut state) = STATE.try_take() else { return };
    if KMEM.pages().is_look_due() {
        state.look(cpu);
    }
    let last = LAST.load(Ordering::Relaxed);
    if last != now {
        LAST.store(now, Ordering::Relaxed);
        // The first one to come has waited for nothing.
        if last != 0 {
            state.age(cpu);
        }
    }
}

impl State {
    /// Gives back what is too much.
    fn look(&mut self, cpu: usize) {
        let Some(found) = KMEM.pages().look(cpu) else { return };
        self.highest = self.highest.max(found.in_use);
        if found.has_fallen_from(self.highest) {
            self.highest = found.in_use;
            KMEM.flush_global();
            if KMEM.pages().is_look_due() {
                KMEM.pages().look(cpu);
            }
        }
    }

    /// Gives back what nobody has used for a second.
    fn age(&mut self, cpu: usize) {
        // What comes from the caches of CPUs goes on a second later.
        KMEM.flush_unused_global(&mut self.global);
        let Some(found) = KMEM.pages().decay(cpu) else { return };
        if found.is_large() {
            let cpus = KMEM.caches().cpus().min(HIGHEST.load(Ordering::Relaxed) as usize + 1);
            for (cpu, seen) in self.caches.iter_mut().enumerate().take(cpus) {
                KMEM.flush_unused(cpu, seen);
            }
        }
    }
}

/// Keeps others from coming: before a process forks.
pub(crate) fn lock() {
    core::mem::forget(STATE.take(system::wait));
}

/// Lets them again.
///
/// # Safety
/// This thread, or its copy in the parent, has called [`lock`].
pub(crate) unsafe fn unlock() {
    // SAFETY: as the caller says.
    unsafe { STATE.let_go() };
}
