//! Which slot a call uses.

use woodlot_frame::Slot;
use woodlot_frame::atomics::{AtomicU32, Ordering};

use crate::options::SlotBy;

/// Chooses the slot of a call.
pub(crate) struct Slots {
    count: usize,
    by: SlotBy,
}

/// The threads that have got a number.
static THREADS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static NUMBER: u32 = THREADS.fetch_add(1, Ordering::Relaxed);
}

impl Slots {
    /// `count` is at least one.
    pub(crate) fn new(count: usize, by: SlotBy) -> Slots {
        Slots { count, by }
    }

    /// As many as the system could have CPUs.
    pub(crate) fn all_cpus() -> usize {
        // SAFETY: sysconf only reads its argument.
        let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
        usize::try_from(cpus).unwrap_or(1).max(1)
    }

    #[inline]
    pub(crate) fn current(&self) -> Slot {
        let number = match self.by {
            // SAFETY: sched_getcpu has no arguments; below zero it knows nothing.
            SlotBy::Cpu => unsafe { libc::sched_getcpu() }.max(0) as usize,
            // A thread that is about to end has no number any more; any slot will do.
            SlotBy::Thread => NUMBER.try_with(|&number| number).unwrap_or(0) as usize,
        };
        Slot(if number < self.count { number } else { number % self.count })
    }
}
