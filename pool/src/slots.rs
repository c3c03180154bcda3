//! Which slot a call uses.

use std::cell::Cell;

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

/// What a thread has before it has a number.
const NO_NUMBER: u32 = u32::MAX;

thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(NO_NUMBER) };
}

/// The number of this thread. It has one from its first call on.
#[inline]
fn thread_number() -> u32 {
    match NUMBER.get() {
        NO_NUMBER => new_number(),
        number => number,
    }
}

#[cold]
fn new_number() -> u32 {
    let number = THREADS.fetch_add(1, Ordering::Relaxed) % NO_NUMBER;
    NUMBER.set(number);
    number
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
            SlotBy::Thread => thread_number() as usize,
        };
        Slot(if number < self.count { number } else { number % self.count })
    }
}
