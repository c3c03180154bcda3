//! Which threads are in a slow path: so that a signal handler waits for no lock that its own thread has.
//!
//! ```text
//!   slow path   enter ── locks … ────────────────── what was parked is freed ── leave
//!                          ▲ signal: the handler's thread is busy; it gets no memory, and parks what it frees
//! ```
//!
//! 1. A thread alone changes its flag; a handler leaves it as it was.
//! 2. Locks of the heap are taken by threads that are busy.
//! 3. A thread that forks is marked so only while it has every lock: it may let go of them, and take them again.
//!
//! The flag is a word of the thread itself, at an offset that the loader knows: a library that is preloaded and a program
//! have room there from their start.
//!
//! *Progress*: wait-free.

use core::arch::{asm, global_asm};

use woodlot_frame::atomics::{AtomicU32, Ordering, compiler_fence};

global_asm!(
    ".pushsection .tbss.woodlot_malloc_busy, \"awT\", %nobits",
    ".globl woodlot_malloc_busy",
    ".hidden woodlot_malloc_busy",
    ".type woodlot_malloc_busy, %object",
    ".size woodlot_malloc_busy, 4",
    ".balign 4",
    "woodlot_malloc_busy:",
    ".zero 4",
    ".popsection",
);

/// The thread is in a slow path.
const SLOW: u32 = 1;
/// It has every lock, and forks.
const FORKING: u32 = 2;

/// This thread's flag: 0, [`SLOW`] or [`FORKING`].
#[cfg(target_arch = "x86_64")]
fn flag() -> &'static AtomicU32 {
    let flag: *const AtomicU32;
    // SAFETY: a load of the variable's offset, and one of the thread pointer. The variable is there as long as the thread.
    unsafe {
        asm!(
            "mov {flag}, qword ptr [rip + woodlot_malloc_busy@GOTTPOFF]",
            "add {flag}, qword ptr fs:[0]",
            flag = out(reg) flag,
            options(nostack, readonly, pure),
        );
        &*flag
    }
}

/// The same.
#[cfg(target_arch = "aarch64")]
fn flag() -> &'static AtomicU32 {
    let flag: *const AtomicU32;
    // SAFETY: as above.
    unsafe {
        asm!(
            "adrp {flag}, :gottprel:woodlot_malloc_busy",
            "ldr {flag}, [{flag}, :gottprel_lo12:woodlot_malloc_busy]",
            "mrs {thread}, tpidr_el0",
            "add {flag}, {flag}, {thread}",
            flag = out(reg) flag,
            thread = out(reg) _,
            options(nostack, readonly, pure, preserves_flags),
        );
        &*flag
    }
}

/// The thread is in a slow path as long as this lives.
pub(crate) struct Busy(&'static AtomicU32);

impl Busy {
    /// `None`: it is in one already, which a signal handler has interrupted.
    pub(crate) fn enter() -> Option<Busy> {
        let flag = flag();
        if flag.load(Ordering::Relaxed) != 0 {
            return None;
        }
        flag.store(SLOW, Ordering::Relaxed);
        compiler_fence();
        Some(Busy(flag))
    }

    /// The thread stays busy while its process forks.
    pub(crate) fn fork(self) {
        compiler_fence();
        self.0.store(FORKING, Ordering::Relaxed);
        core::mem::forget(self);
    }

    /// The thread is about to let go of its locks, if it has called [`fork`](Self::fork) before.
    pub(crate) fn forked() -> Option<Busy> {
        let flag = flag();
        (flag.load(Ordering::Relaxed) == FORKING).then(|| {
            flag.store(SLOW, Ordering::Relaxed);
            compiler_fence();
            Busy(flag)
        })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        compiler_fence();
        self.0.store(0, Ordering::Relaxed);
    }
}
