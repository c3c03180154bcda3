//! The sequences, for AArch64.
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
//!
//! A thief's `membarrier` orders the memory of both CPUs, so plain loads and stores do. The thread pointer is TPIDR_EL0.

use core::arch::asm;
use core::ptr::NonNull;

use woodlot_kmem::List;

use super::area::{CPU_ID, RSEQ_CS, SIGNATURE, behind};
use super::{ABORTS, CLOSED};
use crate::hot::{CACHE_SHIFT, HOT, Hot, Word};

/// A sequence: descriptor, begin, and what follows an abort. `{area}` is the area's offset, `{word}` becomes the
/// address of the CPU's word, `{t}` is what it returns, and it is 0 at 6, where nothing has changed.
macro_rules! sequence {
    ($area:expr, $first:expr, $t:expr; $($code:literal),* ; $($operands:tt)*) => {
        asm!(
            ".pushsection __rseq_cs, \"aw\", @progbits",
            ".balign 32",
            "7:",
            ".long 0, 0",
            ".quad 2f, 3f - 2f, 4f",
            ".popsection",
            "5:",
            "mrs {own}, tpidr_el0",
            "add {own}, {own}, {area}",
            "adrp {t}, 7b",
            "add {t}, {t}, :lo12:7b",
            "str {t}, [{own}, #{RSEQ_CS}]",
            "2:",
            "ldrsw {word}, [{own}, #{CPU_ID}]",
            "add {word}, {first}, {word}, lsl #{CACHE_SHIFT}",
            $($code,)*
            "3:",
            // Behind the code, where nothing gets by itself: an unconditional jump reaches 128 MiB.
            ".pushsection .text.rseq, \"ax\", @progbits",
            ".inst {SIGNATURE}",
            "4:",
            "adrp {t}, {aborts}",
            "add {t}, {t}, :lo12:{aborts}",
            "8:",
            "ldxr {word}, [{t}]",
            "add {word}, {word}, #1",
            "stxr {own:w}, {word}, [{t}]",
            "cbnz {own:w}, 8b",
            "b 5b",
            ".popsection",
            "b 9f",
            "6:",
            "mov {t}, #0",
            "9:",
            RSEQ_CS = const RSEQ_CS,
            CPU_ID = const CPU_ID,
            CACHE_SHIFT = const CACHE_SHIFT,
            SIGNATURE = const SIGNATURE,
            aborts = sym ABORTS,
            own = out(reg) _,
            word = out(reg) _,
            area = in(reg) $area.wrapping_add(behind()),
            first = in(reg) $first,
            t = out(reg) $t,
            $($operands)*
            options(nostack),
        )
    };
}

/// The first cache.
#[inline(always)]
pub(super) fn caches() -> *const Word {
    (&raw const HOT).wrapping_byte_add(Hot::CACHES).cast()
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
        sequence!(
            area, first, block;
            "ldr {t}, [{word}]",
            "asr {t}, {t}, #12",
            "and {t}, {t}, #0xfffffffffffffff0",
            "cbz {t}, 6f",
            "ldr {rest}, [{t}]",
            "str {rest}, [{word}]";
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
    let word: u64;
    // SAFETY: the list is this CPU's. The block is the caller's until the last store.
    unsafe {
        sequence!(
            area, first, word;
            "ldr {rest}, [{word}]",
            "uxth {t:w}, {rest:w}",
            "cmp {t}, {target}",
            "b.hs 6f",
            "str {rest}, [{block}]",
            // The count of the list, and the word of the block: the list with one block more.
            "add {t}, {t}, {alone}",
            "str {t}, [{word}]";
            alone = in(reg) List::word_of(block),
            block = in(reg) block.as_ptr(),
            target = in(reg) target,
            rest = out(reg) _,
        );
    }
    word != 0
}

/// Puts a list in the place of this CPU's, and takes that; or returns it, if that is closed.
///
/// # Safety
/// As for [`pop`]; the list is the caller's.
pub(super) unsafe fn exchange(area: isize, first: *const Word, list: u64) -> u64 {
    let (word, taken): (u64, u64);
    // SAFETY: the word is this CPU's. `t` is the descriptor's address, which is not 0, unless the list is not put.
    unsafe {
        sequence!(
            area, first, taken;
            "mov {own}, #{CLOSED}",
            "ldr {old}, [{word}]",
            "cmp {old}, {own}",
            "b.eq 6f",
            "str {list}, [{word}]";
            CLOSED = const CLOSED,
            list = in(reg) list,
            old = out(reg) word,
        );
    }
    if taken == 0 { list } else { word }
}

/// Puts a list where this CPU has an empty one.
///
/// # Safety
/// As for [`pop`]; the list is the caller's.
pub(super) unsafe fn put(area: isize, first: *const Word, list: u64) -> bool {
    let put: u64;
    // SAFETY: the word is this CPU's. `t` is the descriptor's address, which is not 0, unless the list is not put.
    unsafe {
        sequence!(
            area, first, put;
            "ldr {old}, [{word}]",
            "cbnz {old}, 6f",
            "str {list}, [{word}]";
            list = in(reg) list,
            old = out(reg) _,
        );
    }
    put != 0
}

/// The CPU that this thread runs on; above any CPU if it has none.
///
/// # Safety
/// As for [`pop`].
#[inline]
pub(super) unsafe fn cpu(area: isize) -> u32 {
    let cpu: u32;
    // SAFETY: a load from the area.
    unsafe {
        asm!(
            "mrs {own}, tpidr_el0",
            "add {own}, {own}, {area}",
            "ldr {cpu:w}, [{own}, #{CPU_ID}]",
            CPU_ID = const CPU_ID,
            area = in(reg) area.wrapping_add(behind()),
            own = out(reg) _,
            cpu = out(reg) cpu,
            options(nostack, preserves_flags, readonly),
        );
    }
    cpu
}
