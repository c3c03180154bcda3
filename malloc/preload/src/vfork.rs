//! `vfork`, for x86-64: the child runs in the memory of its parent, as the thread that waits for it, but the system does not
//! tell it on which CPU it is.
//!
//! ```text
//!   CPU of the thread ← none ── vfork ─┬─ child    goes past the caches of the CPUs, its signal handlers as well
//!   └── aborts until the call ─┘       └─ parent   waits … CPU of the thread ← the one that the system has said last
//! ```
//!
//! 1. The system registers no restartable sequences for the child, and aborts none there. The area of the thread has the CPU
//!    on which the parent was last; another thread may use that CPU's cache.
//! 2. *cpu_id* of the area is [`Hot::NO_CPU`] when the call begins: it is written by a sequence that ends with the call's own
//!    instruction. If the system has said the CPU anew before the call, it has aborted the sequence.
//! 3. A system may restart the call for a signal, say the CPU anew and abort nothing, as it expects no calls in sequences. So the
//!    child writes [`Hot::NO_CPU`] too. Linux 6.18 aborts there.
//! 4. The parent's *cpu_id* goes back by a sequence that copies *cpu_id_start*, as the system may move the thread meanwhile.
//! 5. Where the area had no CPU before, as in the child of a child, it stays as it was.
//! 6. The area is looked for here, and not where the heap keeps it: the first allocation of all may be the child's.

use core::arch::naked_asm;
use std::ffi::c_int;

use woodlot_malloc::{
    ABORTS, Hot, area as fields, sequence_abort, sequence_area, sequence_descriptor,
};

use crate::set_errno;

/// Makes a process that has this one's memory until it ends or executes a program; the caller waits for that.
///
/// # Safety
/// The child does not return from the function that calls this.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfork() -> libc::pid_t {
    naked_asm!(
        // The stack is at a multiple of 16 at a call.
        "sub rsp, 8",
        "call {area}",
        "add rsp, 8",
        "mov rsi, rax",
        // The child's calls write over the return address.
        "pop rdi",
        "test rsi, rsi",
        "jz 8f",
        "mov ecx, fs:[rsi + {CPU_ID}]",
        "test ecx, ecx",
        "js 8f",
        sequence_descriptor!(),
        "5:",
        "lea rcx, [rip + 7b]",
        "mov fs:[rsi + {RSEQ_CS}], rcx",
        "2:",
        "mov dword ptr fs:[rsi + {CPU_ID}], {NO_CPU}",
        "mov eax, {VFORK}",
        "syscall",
        "3:",
        sequence_abort!(),
        "push rdi",
        "test eax, eax",
        "jnz 5f",
        // The child of a call that was restarted.
        "mov dword ptr fs:[rsi + {CPU_ID}], {NO_CPU}",
        "ret",
        sequence_descriptor!(),
        "5:",
        "lea rcx, [rip + 7b]",
        "mov fs:[rsi + {RSEQ_CS}], rcx",
        "2:",
        // If it is not this, the system has said it anew.
        "cmp dword ptr fs:[rsi + {CPU_ID}], {NO_CPU}",
        "jne 3f",
        "mov ecx, fs:[rsi + {CPU_ID_START}]",
        "mov fs:[rsi + {CPU_ID}], ecx",
        "3:",
        sequence_abort!(),
        "6:",
        "test eax, eax",
        "js 9f",
        "ret",
        "8:",
        "mov eax, {VFORK}",
        "syscall",
        "push rdi",
        "jmp 6b",
        "9:",
        "mov edi, eax",
        "jmp {failed}",
        area = sym area,
        NO_CPU = const Hot::NO_CPU,
        VFORK = const libc::SYS_vfork,
        CPU_ID_START = const fields::CPU_ID_START,
        CPU_ID = const fields::CPU_ID,
        RSEQ_CS = const fields::RSEQ_CS,
        SIGNATURE = const fields::SIGNATURE,
        aborts = sym ABORTS,
        failed = sym failed,
    )
}

/// The offset of the threads' areas, which is never 0; 0: there are none.
extern "C" fn area() -> isize {
    sequence_area().unwrap_or(0)
}

/// There is no child.
#[cold]
extern "C" fn failed(errno: c_int) -> libc::pid_t {
    set_errno(-errno);
    -1
}
