//! A table of interrupts, for a kernel that has none.
//!
//! ```text
//!   gate   63     48 47     32 31     16 15      0
//!   low    │ address │ kind    │ code    │ address │
//!   high   │ 0                 │ address           │
//! ```
//!
//! 1. A gate of zeros is none: its interrupt ends in a double fault.
//!
//! Intel's Software Developer's Manual, volume 3, the chapter on interrupts.

use core::arch::asm;

use woodlot_frame::atomics::{AtomicU64, Ordering};

use crate::Entry;

/// Of a gate: it is there, and interrupts are off behind it.
const INTERRUPT_GATE: u64 = 0x8e00 << 32;

/// The interrupt descriptor table of all CPUs.
#[repr(C, align(16))]
pub struct Table([[AtomicU64; 2]; 256]);

/// What the processor wants to know of it.
#[repr(C, packed)]
struct Pointer {
    last: u16,
    table: *const Table,
}

impl Table {
    /// No interrupt has an entry.
    pub const fn new() -> Table {
        Table([const { [const { AtomicU64::new(0) }; 2] }; 256])
    }

    /// Puts entries into the table, and has this CPU use it.
    ///
    /// # Safety
    /// The caller runs in ring 0, and the segment of its code is that of every handler.
    pub unsafe fn load(&'static self, entries: &[Entry]) {
        let code: u16;
        // SAFETY: it reads a register.
        unsafe { asm!("mov {:x}, cs", out(reg) code, options(nomem, nostack, preserves_flags)) };
        entries.iter().for_each(|&entry| self.set(entry, code));
        let pointer = Pointer { last: size_of::<Table>() as u16 - 1, table: self };
        // SAFETY: the table stays, and its gates are entries of interrupts.
        unsafe { asm!("lidt [{}]", in(reg) &raw const pointer, options(readonly, nostack)) };
    }

    fn set(&self, entry: Entry, code: u16) {
        let Some([low, high]) = self.0.get(usize::from(entry.vector())) else { return };
        let address = entry.address();
        high.store(address >> 32, Ordering::Relaxed);
        let address = address & 0xffff | (address >> 16 & 0xffff) << 48;
        low.store(address | INTERRUPT_GATE | u64::from(code) << 16, Ordering::Release);
    }
}

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::interrupt!(NOTHING = 3 => {});

    #[test]
    fn a_gate_has_all_of_an_address() {
        let table = Table::new();
        table.set(NOTHING, 0x10);
        let [low, high] = [0, 1].map(|word: usize| table.0[3][word].load(Ordering::Relaxed));
        assert_eq!((high << 32) | (low >> 48 << 16) | (low & 0xffff), NOTHING.address());
        assert_eq!(low >> 16 & 0xffff_ffff, 0x8e00_0010);
        assert_eq!(table.0[2][0].load(Ordering::Relaxed), 0);
        assert_eq!((size_of::<Table>(), size_of::<Pointer>()), (4096, 10));
    }
}
