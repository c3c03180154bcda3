//! A CPU to itself, by its interrupt flag.

use core::arch::asm;

use woodlot_kmem::Cpus;

/// A CPU is kept to its caller by interrupts that are off: by `cli`, and `sti` where they were on.
///
/// Non-maskable interrupts and machine checks come all the same: their handlers must not allocate or free.
pub struct Interrupts(fn() -> usize);

/// The interrupt flag.
const ON: u64 = 1 << 9;

impl Interrupts {
    /// `cpu` says which CPU it runs on, which it is asked with interrupts off.
    ///
    /// # Safety
    /// * Two CPUs have different numbers, and a CPU has one.
    /// * All that uses this runs in ring 0.
    pub const unsafe fn new(cpu: fn() -> usize) -> Interrupts {
        Interrupts(cpu)
    }
}

// SAFETY: with interrupts off nothing else runs on the CPU, and nothing is moved to another one.
unsafe impl Cpus for Interrupts {
    /// Were interrupts on?
    type State = bool;

    #[inline(always)]
    fn enter(&self) -> (usize, bool) {
        let flags: u64;
        // SAFETY: ring 0 may do so; memory is not moved across.
        unsafe { asm!("pushfq", "pop {}", "cli", out(reg) flags) };
        ((self.0)(), flags & ON != 0)
    }

    #[inline(always)]
    fn leave(&self, were_on: bool) {
        if were_on {
            // SAFETY: as above.
            unsafe { asm!("sti") };
        }
    }
}
