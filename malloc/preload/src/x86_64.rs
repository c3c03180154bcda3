//! `malloc` and `free`, for x86-64: what a call does that needs no more than the CPU's cache, in one restartable sequence.
//!
//! ```text
//!   5:  look up the number of the size, by the bytes or by the block's page
//!       rseq_cs ← descriptor
//!   2:  start: which CPU? load, decide                     an abort leads back to 5
//!       store                                              commits
//!   3:  return
//!   6:  go on in malloc_slowly or free_slowly, as if these had been called
//! ```
//!
//! 1. `rdi`, the argument, stays what it is. All else is looked up again after an abort.
//! 2. Each function begins a cache line, and ends within the next one. [`Hot`] says why.
//! 3. The address of a list's word is in one register: the sequences of `woodlot_malloc` say why.
//!
//! What the compiler makes of `alloc_cached` and `free_cached` does the same in more lines.

use core::arch::naked_asm;
use std::ffi::c_void;

use woodlot_malloc::{ABORTS, HOT, Hot, area, sequence_abort, sequence_descriptor};

use crate::{free_slowly, malloc_slowly};

/// Such a function: `code` from the lookup to the commit, with `rdx` the address of the first cache, and what the code names beside
/// what both name.
macro_rules! in_two_lines {
    ($($code:literal),* ; $slowly:ident, $($name:ident = $value:expr),* $(,)?) => {
        naked_asm!(
            sequence_descriptor!(),
            "5:",
            "lea rdx, [rip + {hot} + {CACHES}]",
            $($code,)*
            "3:",
            "ret",
            // The section, which has nothing else, begins a line; and the assembler refuses what is longer than two.
            ".org 5b + 128",
            "6:",
            "jmp {slowly}",
            ".p2align 6",
            sequence_abort!(),
            hot = sym HOT,
            CACHES = const Hot::CACHES,
            OFFSET = const Hot::OFFSET,
            CACHE_SHIFT = const Hot::CACHE_SHIFT,
            RSEQ_CS = const area::RSEQ_CS,
            CPU_ID = const area::CPU_ID,
            SIGNATURE = const area::SIGNATURE,
            aborts = sym ABORTS,
            slowly = sym $slowly,
            $($name = const $value,)*
        )
    };
}

/// Allocates so many bytes.
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.malloc")]
pub extern "C" fn malloc(bytes: usize) -> *mut c_void {
    in_two_lines!(
        // Not even 0 is less than what is there before the areas are known.
        "cmp rdi, [rdx + {MORE}]",
        "jae 6f",
        "lea eax, [rdi + {GRAIN} - 1]",
        "shr eax, {GRAIN_SHIFT}",
        "movzx ecx, byte ptr [rdx + rax + {SIZES}]",
        "mov rsi, [rdx + {OFFSET}]",
        "lea rax, [rip + 7b]",
        "mov fs:[rsi + {RSEQ_CS}], rax",
        "2:",
        "movsxd rax, dword ptr fs:[rsi + {CPU_ID}]",
        "shl rax, {CACHE_SHIFT}",
        "add rdx, rax",
        "lea rdx, [rdx + rcx * 8]",
        // The list's word: its first block, whose first word is the list without it.
        "mov rax, [rdx]",
        "sar rax, 16",
        "jz 6f",
        "mov rsi, [rax]",
        "mov [rdx], rsi";
        malloc_slowly,
        MORE = Hot::MORE,
        GRAIN = 1 << Hot::GRAIN_SHIFT,
        GRAIN_SHIFT = Hot::GRAIN_SHIFT,
        SIZES = Hot::SIZES,
    )
}

/// Frees a block, or nothing.
///
/// # Safety
/// The block was allocated here, and the caller uses it no more.
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.free")]
pub unsafe extern "C" fn free(pointer: *mut c_void) {
    in_two_lines!(
        // The page; that of null is none of ours either. This processor loads in order: who does not see the base and the area yet that
        // are stored before the number of pages in reach finds no page below that number.
        "mov rax, rdi",
        "sub rax, [rdx + {BASE}]",
        "shr rax, {PAGE_SHIFT}",
        "cmp rax, [rdx + {REACH}]",
        "jae 6f",
        "shl eax, {DESCRIPTOR_SHIFT}",
        "add rax, [rdx + {DESCRIPTORS}]",
        // eax: one more than the number of the size. rcx: its step, and in cl blocks of a full list; 0 of what is no slab, and of blocks
        // of a page or more. So of these nothing is less than the step, nor is it where no block begins.
        "movzx eax, byte ptr [rax + {SIZE_AT}]",
        "lea esi, [rdi + rdi]",
        "and esi, [rdx + rax * 4 + {SLABS}]",
        "mov rcx, [rdx + rax * 8 + {STEPS}]",
        "imul rsi, rcx",
        "cmp rsi, rcx",
        "jae 6f",
        "mov rsi, [rdx + {OFFSET}]",
        "lea r8, [rip + 7b]",
        "mov fs:[rsi + {RSEQ_CS}], r8",
        "2:",
        "movsxd rsi, dword ptr fs:[rsi + {CPU_ID}]",
        "mov r9, rdi",
        "shl r9, 16",
        "shl rsi, {CACHE_SHIFT}",
        "add rsi, rdx",
        "lea rsi, [rsi + rax * 8 - 8]",
        "mov rax, [rsi]",
        "movzx edx, ax",
        // No list has as many blocks as a byte counts, and a closed one counts as many as that.
        "cmp dl, cl",
        "jae 6f",
        "mov [rdi], rax",
        // The count of the list, and the word of the block: the list with one block more.
        "lea rdx, [rdx + r9 + 1]",
        "mov [rsi], rdx";
        free_slowly,
        BASE = Hot::BASE,
        PAGE_SHIFT = Hot::PAGE_SHIFT,
        REACH = Hot::REACH,
        DESCRIPTOR_SHIFT = Hot::DESCRIPTOR_SHIFT,
        DESCRIPTORS = Hot::DESCRIPTORS,
        SIZE_AT = Hot::SIZE_AT,
        STEPS = Hot::STEPS,
        SLABS = Hot::SLABS,
    )
}
