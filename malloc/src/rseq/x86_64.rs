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
//! 4. A thread without a CPU has a negative number for it, and finds closed words.

use core::arch::asm;
use core::ptr::NonNull;

use woodlot_kmem::List;

use super::CLOSED;
use super::area::{CPU_ID, RSEQ_CS, SIGNATURE};
use crate::ABORTS;
use crate::hot::{HOT, Hot, Word};

/// The descriptor of a sequence between 2 and 3, at 7: text of an assembly template.
#[doc(hidden)]
#[macro_export]
macro_rules! sequence_descriptor {
    () => {
        ".pushsection __rseq_cs, \"aw\", @progbits
         .balign 32
         7:
         .long 0, 0
         .quad 2f, 3f - 2f, 4f
         .popsection"
    };
}

/// What follows an abort, at 4: it is counted, and all begins again at 5.
#[doc(hidden)]
#[macro_export]
macro_rules! sequence_abort {
    () => {
        // What makes the signature an instruction, which no program has.
        ".pushsection .text.rseq, \"ax\", @progbits
         .byte 0x0f, 0xb9, 0x3d
         .long {SIGNATURE}
         4:
         lock inc qword ptr [rip + {aborts}]
         jmp 5b
         .popsection"
    };
}

/// A sequence on a list of this CPU: `area` and `first` say which. `{word}` becomes the address of the CPU's word; before, it says how far
/// behind `area` the one lies that is in use.
///
/// The address of the CPU's word is in one register, as an Intel processor loads what was just stored there without a delay then: a pair took 4.7 ns
/// in place of 8.6, which were the five cycles of each load (Sapphire Rapids; preloaded).
macro_rules! sequence {
    ($area:expr, $first:expr, $t:tt; $($code:expr),* ; $($operands:tt)*) => {
        asm!(
            sequence_descriptor!(),
            "5:",
            "mov {word}, qword ptr [rip + {hot} + {AREA}]",
            "lea {t}, [rip + 7b]",
            "mov qword ptr fs:[{area} + {word} + {RSEQ_CS}], {t}",
            "2:",
            "movsxd {word}, dword ptr fs:[{area} + {word} + {CPU_ID}]",
            "shl {word}, {CACHE_SHIFT}",
            "add {word}, {first}",
            $($code,)*
            "3:",
            sequence_abort!(),
            hot = sym HOT,
            AREA = const Hot::AREA,
            RSEQ_CS = const RSEQ_CS,
            CPU_ID = const CPU_ID,
            CACHE_SHIFT = const Hot::CACHE_SHIFT,
            SIGNATURE = const SIGNATURE,
            aborts = sym ABORTS,
            area = in(reg) $area,
            first = in(reg) $first,
            word = out(reg) _,
            t = out(reg) $t,
            $($operands)*
            options(nostack),
        )
    };
}

/// The first cache. The compiler does not know how far from other words it lies, and so has the address of a list by one addition.
#[inline(always)]
pub(super) fn caches() -> *const Word {
    let caches;
    // SAFETY: the address of a part of a static.
    unsafe {
        asm!(
            "lea {caches}, [rip + {hot} + {CACHES}]",
            hot = sym HOT,
            CACHES = const Hot::CACHES,
            caches = out(reg) caches,
            options(nostack, preserves_flags, pure, nomem),
        );
    }
    caches
}

/// Takes a block off this CPU's list. `first` is where CPU 0 has it.
///
/// # Safety
/// `area` is what [`no_area`](super::area::no_area) returned, and the word is one in caches of all CPUs, with those of no CPU in
/// front.
#[inline(always)]
pub(super) unsafe fn pop(area: isize, first: *const Word) -> Option<NonNull<u8>> {
    let block: *mut u8;
    // SAFETY: the list is this CPU's, and so is its first block. If it is not any more, the word that is loaded there is
    // dropped, and it lies in memory that stays mapped.
    unsafe {
        sequence!(area, first, block;
            "mov {t}, qword ptr [{word}]",
            "sar {t}, 16",
            "jz 3f",
            "mov {rest}, qword ptr [{t}]",
            "mov qword ptr [{word}], {rest}";
            rest = out(reg) _,
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
    first: *const Word,
    block: NonNull<u8>,
    target: usize,
) -> bool {
    // SAFETY: the list is this CPU's. The block is the caller's until the last store.
    unsafe {
        sequence!(area, first, _;
            "mov {rest}, qword ptr [{word}]",
            "movzx {t:e}, {rest:x}",
            "cmp {t}, {target}",
            "jae {full}",
            "mov qword ptr [{block}], {rest}",
            // The count of the list, and the word of the block: the list with one block more.
            "lea {t}, [{t} + {uncounted} + 1]",
            "mov qword ptr [{word}], {t}";
            uncounted = in(reg) List::uncounted(block),
            block = in(reg) block.as_ptr(),
            target = in(reg) target,
            rest = out(reg) _,
            full = label { return false },
        );
    }
    true
}

/// Puts a list in the place of this CPU's, and takes that; or returns it, if that is closed.
///
/// # Safety
/// As for [`pop`]; the list is the caller's.
pub(super) unsafe fn exchange(area: isize, first: *const Word, list: u64) -> u64 {
    let word: u64;
    // SAFETY: the word is this CPU's.
    unsafe {
        sequence!(area, first, word;
            "mov {t}, qword ptr [{word}]",
            "cmp {t}, {CLOSED}",
            "cmove {t}, {list}",
            "je 3f",
            "mov qword ptr [{word}], {list}";
            CLOSED = const CLOSED,
            list = in(reg) list,
        );
    }
    word
}

/// Puts a list where this CPU has an empty one.
///
/// # Safety
/// As for [`pop`]; the list is the caller's.
pub(super) unsafe fn put(area: isize, first: *const Word, list: u64) -> bool {
    // SAFETY: the word is this CPU's.
    unsafe {
        sequence!(area, first, _;
            "cmp qword ptr [{word}], 0",
            "jne {taken}",
            "mov qword ptr [{word}], {list}";
            list = in(reg) list,
            taken = label { return false },
        );
    }
    true
}

/// The CPU that this thread runs on; above any CPU if it has none.
///
/// # Safety
/// As for [`pop`].
#[inline]
pub(super) unsafe fn cpu(area: isize) -> u32 {
    let cpu: u64;
    // SAFETY: a load from the area.
    unsafe {
        asm!(
            "mov {cpu}, qword ptr [rip + {hot} + {AREA}]",
            "mov {cpu:e}, dword ptr fs:[{area} + {cpu} + {CPU_ID}]",
            hot = sym HOT,
            AREA = const Hot::AREA,
            CPU_ID = const CPU_ID,
            area = in(reg) area,
            cpu = out(reg) cpu,
            options(nostack, preserves_flags, readonly),
        );
    }
    cpu as u32
}
