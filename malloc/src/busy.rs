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
//! 4. Blocks are parked one by one, and taken all at once, so that nobody looks into a block that another thread has.
//!
//! The flag is a word of the thread itself, at an offset that the loader knows: a library that is preloaded and a program
//! have room there from their start.
//!
//! *Progress*: wait-free, but for parking: lock-free.

use core::arch::{asm, global_asm};
use core::ptr::{self, NonNull};

use woodlot_frame::atomics::{AtomicU32, AtomicU64, Ordering, compiler_fence};

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

/// Blocks that signal handlers have freed: the address of the first one, which begins with that of the next.
static PARKED: AtomicU64 = AtomicU64::new(0);

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

/// Keeps a block until a slow path ends.
///
/// # Safety
/// The block has 8 bytes at least, and is the caller's, who gives it away.
#[cold]
pub(crate) unsafe fn park(block: NonNull<u8>) {
    let address = block.as_ptr().expose_provenance() as u64;
    let mut first = PARKED.load(Ordering::Relaxed);
    loop {
        // SAFETY: as the caller says.
        unsafe { block.cast::<u64>().write(first) };
        match PARKED.compare_exchange(first, address, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => first = now,
        }
    }
}

/// Is there a parked block?
pub(crate) fn is_any_parked() -> bool {
    PARKED.load(Ordering::Relaxed) != 0
}

/// All parked blocks. They are the caller's.
pub(crate) fn parked() -> impl Iterator<Item = NonNull<u8>> {
    let mut next = PARKED.swap(0, Ordering::Acquire);
    core::iter::from_fn(move || {
        let block = NonNull::new(ptr::with_exposed_provenance_mut::<u8>(next as usize))?;
        // SAFETY: whoever parked the block has written the next one's address there.
        next = unsafe { block.cast::<u64>().read() };
        Some(block)
    })
}
