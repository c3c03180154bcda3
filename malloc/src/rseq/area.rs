//! The area that the C library shares with the system for each thread.
//!
//! ```text
//!   thread pointer + OFFSET ─►  0 cpu_id_start │ 4 cpu_id │ 8 rseq_cs │ 16 flags │ …
//! ```
//!
//! 1. *cpu_id* is the CPU that the thread runs on; a negative number where the thread is not registered.
//! 2. Each thread has an area of its own here which says that it has no CPU. The system knows nothing of it, and sequences use it until
//!    the C library's are known, or for ever where there are none. So they need not ask whether there are any: they find no list.
//! 3. *rseq_cs* is the descriptor of the sequence that the thread is in, or was in last. The system looks at it when it
//!    has preempted or migrated the thread, or delivers a signal: if the thread is between *start* and *end*, it goes on
//!    at *abort*.

use core::arch::{asm, global_asm};
use core::ptr::NonNull;

#[cfg(any(test, target_arch = "aarch64"))]
use woodlot_frame::atomics::Ordering;

use crate::hot::HOT;

/// The offset of *cpu_id_start*, which is always a CPU's number.
pub const CPU_ID_START: usize = 0;
/// The offset of *cpu_id*.
pub const CPU_ID: usize = 4;
/// The offset of *rseq_cs*.
pub const RSEQ_CS: usize = 8;
/// What stands before the place where a sequence goes on that was aborted: glibc has registered it.
#[cfg(target_arch = "x86_64")]
pub const SIGNATURE: u32 = 0x5305_3053;
/// The same: the instruction `brk #0x45e0`.
#[cfg(target_arch = "aarch64")]
pub const SIGNATURE: u32 = 0xd428_bc00;
/// Bytes that an area has at least that is in use.
const LEAST_SIZE: u32 = 20;

// What says that a thread has no CPU.
global_asm!(
    ".pushsection .tdata.woodlot_malloc_no_area, \"awT\", %progbits",
    ".globl woodlot_malloc_no_area",
    ".hidden woodlot_malloc_no_area",
    ".type woodlot_malloc_no_area, %object",
    ".size woodlot_malloc_no_area, 32",
    ".balign 32",
    "woodlot_malloc_no_area:",
    ".long 0, -1, 0, 0, 0, 0, 0, 0",
    ".popsection",
);

/// How far behind the thread pointer that lies. What sequences use lies [`behind`] it.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(super) fn no_area() -> isize {
    let offset;
    // SAFETY: a load that always has the same result; in a program the linker makes a constant of it.
    unsafe {
        asm!(
            "mov {offset}, qword ptr [rip + woodlot_malloc_no_area@GOTTPOFF]",
            offset = out(reg) offset,
            options(nostack, preserves_flags, pure, nomem),
        );
    }
    offset
}

/// The same.
#[inline(always)]
#[cfg(target_arch = "aarch64")]
pub(super) fn no_area() -> isize {
    let offset;
    // SAFETY: as above.
    unsafe {
        asm!(
            "adrp {offset}, :gottprel:woodlot_malloc_no_area",
            "ldr {offset}, [{offset}, :gottprel_lo12:woodlot_malloc_no_area]",
            offset = out(reg) offset,
            options(nostack, preserves_flags, pure, nomem),
        );
    }
    offset
}

/// Sequences use the areas from now on that [`offset`] has found.
pub(super) fn set(offset: isize) {
    HOT.words.found(offset, offset.wrapping_sub(no_area()));
}

/// How far behind the thread's area of no CPU the one lies that sequences use.
#[inline(always)]
#[cfg(any(test, target_arch = "aarch64"))]
pub(super) fn behind() -> isize {
    HOT.words.area.load(Ordering::Relaxed) as isize
}

/// How far behind the thread pointer a thread's area for restartable sequences lies, in bytes, if the C library has
/// registered it: never in the control block's first bytes. For those who write sequences of their own.
pub fn offset() -> Option<isize> {
    let [offset, size] = symbols();
    let (offset, size) = (offset?.cast::<isize>(), size?.cast::<u32>());
    // SAFETY: constants of glibc of these types, which it sets before it runs other code.
    let (offset, size) = unsafe { (offset.read(), size.read()) };
    (size >= LEAST_SIZE && !(0..8).contains(&offset)).then_some(offset)
}

/// The addresses of `__rseq_offset` and `__rseq_size`, which glibc has from 2.35 on.
#[cfg(target_arch = "x86_64")]
fn symbols() -> [Option<NonNull<u8>>; 2] {
    let (offset, size): (*mut u8, *mut u8);
    // SAFETY: two loads from the table of addresses, which has 0 for weak symbols that nobody defines.
    unsafe {
        asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "mov {offset}, qword ptr [rip + __rseq_offset@GOTPCREL]",
            "mov {size}, qword ptr [rip + __rseq_size@GOTPCREL]",
            offset = out(reg) offset,
            size = out(reg) size,
            options(nostack, preserves_flags, pure, readonly),
        );
    }
    [offset, size].map(NonNull::new)
}

/// The same.
#[cfg(target_arch = "aarch64")]
fn symbols() -> [Option<NonNull<u8>>; 2] {
    let (offset, size): (*mut u8, *mut u8);
    // SAFETY: as above.
    unsafe {
        asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "adrp {offset}, :got:__rseq_offset",
            "ldr {offset}, [{offset}, :got_lo12:__rseq_offset]",
            "adrp {size}, :got:__rseq_size",
            "ldr {size}, [{size}, :got_lo12:__rseq_size]",
            offset = out(reg) offset,
            size = out(reg) size,
            options(nostack, preserves_flags, pure, readonly),
        );
    }
    [offset, size].map(NonNull::new)
}
