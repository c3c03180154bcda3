//! ADR: memory outlives a loss of power, caches do not. The processor's instructions that write a line back.
//!
//! | processor | write-back | fence | found by |
//! |---|---|---|---|
//! | x86-64 | `clwb`, else `clflushopt`, else `clflush` | `sfence` | CPUID leaf 7 and leaf 1 |
//! | AArch64 | `dc cvap` | `dsb sy` | `ID_AA64ISAR1_EL1`, field DPB; a kernel may read it, and Linux lets programs |
//! | others | none | | |
//!
//! `clwb` may leave the line in the cache. The other two of x86-64 evict it, so the next access waits for memory.

use super::Persistence;
use crate::atomics::AtomicU64;

/// The instruction that writes a line back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WriteBack {
    /// `clwb` of x86-64.
    Clwb,
    /// `clflushopt` of x86-64.
    Clflushopt,
    /// `clflush` of x86-64.
    Clflush,
    /// `dc cvap` of AArch64.
    DcCvap,
}

/// Every write is followed by a write-back of its line, and by a fence before a call returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Adr(WriteBack);

impl Adr {
    /// With this instruction, for a caller that knows its processor.
    ///
    /// # Safety
    /// The processor has the instruction.
    pub const unsafe fn with(instruction: WriteBack) -> Self {
        Self(instruction)
    }

    /// The instruction.
    pub const fn instruction(self) -> WriteBack {
        self.0
    }
}

impl Persistence for Adr {
    const NAME: &'static str = "ADR";

    /// The best instruction that the processor says it has.
    fn detect() -> Option<Self> {
        processor::detect().map(Self)
    }

    #[inline(always)]
    fn write_back(self, word: &AtomicU64) {
        // SAFETY: whoever made `self` has found, or vouched, that the processor has the instruction; the word can
        // be read.
        unsafe { processor::write_back(self.0, word.as_ptr().cast()) }
    }

    #[inline(always)]
    fn fence(self) {
        processor::fence();
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod processor {
    use core::arch::asm;
    use core::arch::x86_64::{__cpuid, __cpuid_count};

    use super::WriteBack;

    // CPUID is safe to call since Rust 1.94.
    #[allow(unused_unsafe)]
    pub(super) fn detect() -> Option<WriteBack> {
        // SAFETY: every x86-64 processor has CPUID, and answers leaf 0 with the number of its last leaf.
        let (last, basic) = unsafe { (__cpuid(0).eax, __cpuid(1).edx) };
        // SAFETY: as above.
        let extended = (last >= 7).then(|| unsafe { __cpuid_count(7, 0) }.ebx);
        best(extended.unwrap_or(0), basic)
    }

    /// The best of the instructions that EBX of leaf 7 and EDX of leaf 1 tell of.
    pub(super) fn best(extended: u32, basic: u32) -> Option<WriteBack> {
        if extended & 1 << 24 != 0 {
            Some(WriteBack::Clwb)
        } else if extended & 1 << 23 != 0 {
            Some(WriteBack::Clflushopt)
        } else if basic & 1 << 19 != 0 {
            Some(WriteBack::Clflush)
        } else {
            None
        }
    }

    /// # Safety
    /// The processor has the instruction, and the address can be read.
    #[inline(always)]
    pub(super) unsafe fn write_back(instruction: WriteBack, address: *const u8) {
        // SAFETY: the instruction changes no memory that a program can see; the rest is the caller's.
        unsafe {
            match instruction {
                WriteBack::Clwb => {
                    asm!("clwb [{}]", in(reg) address, options(nostack, preserves_flags))
                }
                WriteBack::Clflushopt => {
                    asm!("clflushopt [{}]", in(reg) address, options(nostack, preserves_flags));
                }
                _ => asm!("clflush [{}]", in(reg) address, options(nostack, preserves_flags)),
            }
        }
    }

    #[inline(always)]
    pub(super) fn fence() {
        // SAFETY: every x86-64 processor has the instruction.
        unsafe { asm!("sfence", options(nostack, preserves_flags)) }
    }
}

#[cfg(all(target_arch = "aarch64", any(target_os = "none", target_os = "linux"), not(miri)))]
mod processor {
    use core::arch::asm;

    use super::WriteBack;

    pub(super) fn detect() -> Option<WriteBack> {
        let features: u64;
        // SAFETY: the register can be read in a kernel, and Linux answers a program that reads it.
        unsafe { asm!("mrs {}, ID_AA64ISAR1_EL1", out(reg) features, options(nomem, nostack)) }
        (features & 0xf != 0).then_some(WriteBack::DcCvap)
    }

    /// # Safety
    /// The processor has the instruction, and the address can be read.
    #[inline(always)]
    pub(super) unsafe fn write_back(_: WriteBack, address: *const u8) {
        // `dc cvap` by its number, for assemblers that are told of an older processor.
        // SAFETY: as the caller promises; no memory changes that a program can see.
        unsafe {
            asm!("sys #3, c7, c12, #1, {}", in(reg) address, options(nostack, preserves_flags))
        }
    }

    #[inline(always)]
    pub(super) fn fence() {
        // SAFETY: every AArch64 processor has the instruction.
        unsafe { asm!("dsb sy", options(nostack, preserves_flags)) }
    }
}

#[cfg(not(any(
    all(target_arch = "x86_64", not(miri)),
    all(target_arch = "aarch64", any(target_os = "none", target_os = "linux"), not(miri))
)))]
mod processor {
    use super::WriteBack;

    pub(super) fn detect() -> Option<WriteBack> {
        None
    }

    /// # Safety
    /// Nobody calls this: there is no instruction that a caller could vouch for.
    pub(super) unsafe fn write_back(_: WriteBack, _: *const u8) {}

    pub(super) fn fence() {}
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[test]
    fn the_best_instruction_is_chosen() {
        let all = u32::MAX;
        for (extended, basic, found) in [
            (all, all, Some(WriteBack::Clwb)),
            (all & !(1 << 24), all, Some(WriteBack::Clflushopt)),
            (all & !(3 << 23), all, Some(WriteBack::Clflush)),
            (0, all & !(1 << 19), None),
        ] {
            assert_eq!(processor::best(extended, basic), found);
        }
        // SAFETY: every x86-64 processor has it.
        let oldest = unsafe { Adr::with(WriteBack::Clflush) };
        let word = AtomicU64::new(7);
        oldest.write_back(&word);
        oldest.fence();
        assert_eq!((oldest.instruction(), word.into_inner()), (WriteBack::Clflush, 7));
    }

    /// A fault would end the test.
    #[test]
    fn what_the_processor_has_can_be_executed() {
        let found = Adr::detect();
        let x86_64 = cfg!(all(target_arch = "x86_64", not(miri)));
        assert!(found.is_some() || !x86_64, "each x86-64 has clflush");
        let Some(adr) = found else {
            return;
        };
        let words = [const { AtomicU64::new(7) }; 20];
        adr.write_back_all(&words);
        adr.fence();
        let sum: u64 = words.map(AtomicU64::into_inner).iter().sum();
        assert_eq!(sum, 140, "nothing has changed");
    }
}
