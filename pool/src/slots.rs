//! Which slot a call uses.

use woodlot_frame::Slot;

use crate::options::SlotBy;
use crate::seats;

/// Chooses the slot of a call.
pub(crate) struct Slots {
    /// Those that this process uses.
    slots: Box<[Slot]>,
    by: SlotBy,
}

impl Slots {
    /// There is at least one.
    pub(crate) fn new(slots: impl IntoIterator<Item = Slot>, by: SlotBy) -> Slots {
        Slots { slots: slots.into_iter().collect(), by }
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
            SlotBy::Thread => seats::number(),
        };
        let count = self.slots.len();
        self.slots[if number < count { number } else { number % count }]
    }
}
