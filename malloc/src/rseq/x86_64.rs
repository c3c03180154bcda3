//! The sequences, for x86-64.
//!
//! ```text
//!   5:  rseq_cs ← descriptor
//!   2:  start: which CPU? load, decide                     an abort leads back to 5
//!       store                                              the only store that others see: it commits
//!   3:  end
//! ```
//!
//! 1. Between *start* and *end* a thread is on one CPU, and nothing else of the process runs there; or the sequence
//!    begins again.
//! 2. A sequence changes no register that it begins with.
//! 3. A jump to *end* or out of the sequence ends it without a change.

use core::arch::asm;
use core::ptr::NonNull;

use super::area::{CPU_ID, RSEQ_CS, SIGNATURE};
use super::{ABORTS, CACHE_SHIFT, CPUS, Word};

/// A sequence: descriptor, begin, and what follows an abort. `{area}` is the area's offset, `{cpu}` becomes the offset of
/// the CPU's cache, and where the CPU has none the sequence goes on at 6.
macro_rules! sequence {
    ($($code:literal),* ; $($operands:tt)*) => {
        asm!(
            ".pushsection __rseq_cs, \"aw\", @progbits",
            ".balign 32",
            "7:",
            ".long 0, 0",
            ".quad 2f, 3f - 2f, 4f",
            ".popsection",
            "5:",
            "lea {t}, [rip + 7b]",
            "mov qword ptr fs:[{area} + {RSEQ_CS}], {t}",
            "2:",
            "mov {cpu:e}, dword ptr fs:[{area} + {CPU_ID}]",
            "cmp {cpu:e}, {CPUS}",
            "jae 6f",
            $($code,)*
            "3:",
            ".pushsection .text.rseq, \"ax\", @progbits",
            // What makes the signature an instruction, which no program has.
            ".byte 0x0f, 0xb9, 0x3d",
            ".long {SIGNATURE}",
            "4:",
            "lock inc qword ptr [rip + {aborts}]",
            "jmp 5b",
            "6:",
            "xor {t:e}, {t:e}",
            "jmp 3b",
            ".popsection",
            RSEQ_CS = const RSEQ_CS,
            CPU_ID = const CPU_ID,
            CPUS = const CPUS,
            SIGNATURE = const SIGNATURE,
            aborts = sym ABORTS,
            $($operands)*
        )
    };
}

/// Takes a block off this CPU's list. `words` is where CPU 0 has it.
///
/// # Safety
/// `area` is what [`offset`](super::area::offset) returned, and `words` begins the lists of all CPUs.
#[inline(always)]
pub(super) unsafe fn pop(area: isize, words: *const Word) -> Option<NonNull<u8>> {
    let block: *mut u8;
    // SAFETY: the list is this CPU's, and so is its first block. If it is not any more, the word that is loaded there is
    // dropped, and it lies in memory that stays mapped.
    unsafe {
        sequence!(
            "shl {cpu:e}, {CACHE_SHIFT}",
            "mov {t}, qword ptr [{words} + {cpu}]",
            "shl {t}, 16",
            "jz 3f",
            "shr {t}, 16",
            "mov {rest}, qword ptr [{t}]",
            "mov qword ptr [{words} + {cpu}], {rest}";
            CACHE_SHIFT = const CACHE_SHIFT,
            area = in(reg) area,
            words = in(reg) words,
            cpu = out(reg) _,
            rest = out(reg) _,
            t = out(reg) block,
            options(nostack),
        );
    }
    NonNull::new(block)
}

/// Puts a block on this CPU's list, if it has fewer than `target`.
///
/// # Safety
/// As for [`pop`]; the block is the caller's.
#[inline(always)]
pub(super) unsafe fn push(
    area: isize,
    words: *const Word,
    block: NonNull<u8>,
    target: usize,
) -> bool {
    let word: u64;
    // SAFETY: the list is this CPU's. The block is the caller's until the last store.
    unsafe {
        sequence!(
            "shl {cpu:e}, {CACHE_SHIFT}",
            "mov {rest}, qword ptr [{words} + {cpu}]",
            "mov {t}, {rest}",
            "shr {t}, 48",
            "cmp {t}, {target}",
            "jae 6f",
            "mov qword ptr [{block}], {rest}",
            "inc {t}",
            "shl {t}, 48",
            "or {t}, {block}",
            "mov qword ptr [{words} + {cpu}], {t}";
            CACHE_SHIFT = const CACHE_SHIFT,
            area = in(reg) area,
            words = in(reg) words,
            block = in(reg) block.as_ptr(),
            target = in(reg) target,
            cpu = out(reg) _,
            rest = out(reg) _,
            t = out(reg) word,
            options(nostack),
        );
    }
    word != 0
}

/// Takes this CPU's list, and leaves an empty one. 0 if it is empty or closed.
///
/// # Safety
/// As for [`pop`].
pub(super) unsafe fn take(area: isize, words: *const Word) -> u64 {
    let word: u64;
    // SAFETY: the word is this CPU's.
    unsafe {
        sequence!(
            "shl {cpu:e}, {CACHE_SHIFT}",
            "mov {t}, qword ptr [{words} + {cpu}]",
            "mov {rest}, {t}",
            "shl {rest}, 16",
            "jz 6f",
            "mov qword ptr [{words} + {cpu}], 0";
            CACHE_SHIFT = const CACHE_SHIFT,
            area = in(reg) area,
            words = in(reg) words,
            cpu = out(reg) _,
            rest = out(reg) _,
            t = out(reg) word,
            options(nostack),
        );
    }
    word
}

/// Puts a list where this CPU has an empty one.
///
/// # Safety
/// As for [`pop`]; the list is the caller's.
pub(super) unsafe fn put(area: isize, words: *const Word, list: u64) -> bool {
    let put: u64;
    // SAFETY: the word is this CPU's.
    unsafe {
        sequence!(
            "shl {cpu:e}, {CACHE_SHIFT}",
            "cmp qword ptr [{words} + {cpu}], 0",
            "jne 6f",
            "mov qword ptr [{words} + {cpu}], {list}";
            CACHE_SHIFT = const CACHE_SHIFT,
            area = in(reg) area,
            words = in(reg) words,
            list = in(reg) list,
            cpu = out(reg) _,
            t = out(reg) put,
            options(nostack),
        );
    }
    put != 0
}

/// The CPU that this thread runs on; above any CPU if it is not registered.
///
/// # Safety
/// As for [`pop`].
#[inline]
pub(super) unsafe fn cpu(area: isize) -> u32 {
    let cpu: u32;
    // SAFETY: a load from the area.
    unsafe {
        asm!(
            "mov {cpu:e}, dword ptr fs:[{area} + {CPU_ID}]",
            CPU_ID = const CPU_ID,
            area = in(reg) area,
            cpu = out(reg) cpu,
            options(nostack, preserves_flags, readonly),
        );
    }
    cpu
}
