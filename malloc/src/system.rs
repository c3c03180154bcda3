//! What the heap asks the system for.

use core::ffi::c_void;
use core::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags};
use woodlot_frame::atomics::{AtomicU32, Ordering};

/// `membarrier`: abort the sequences of a CPU, and be registered for that. From linux/membarrier.h; libc has not all.
const PRIVATE_EXPEDITED_RSEQ: libc::c_int = 1 << 7;
const REGISTER_PRIVATE_EXPEDITED_RSEQ: libc::c_int = 1 << 8;
const FLAG_CPU: libc::c_uint = 1;

/// 1: sequences of other CPUs can be aborted.
static CAN_ABORT: AtomicU32 = AtomicU32::new(0);

fn membarrier(command: libc::c_int, flags: libc::c_uint, cpu: usize) -> bool {
    // SAFETY: the call reads its arguments only.
    unsafe { libc::syscall(libc::SYS_membarrier, command, flags, cpu as libc::c_int) == 0 }
}

/// Tells the system that sequences of this process will be aborted.
pub(crate) fn register_abort() {
    let registered = membarrier(REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0);
    CAN_ABORT.store(u32::from(registered), Ordering::Relaxed);
}

/// Can sequences of other CPUs be aborted?
pub(crate) fn can_abort() -> bool {
    CAN_ABORT.load(Ordering::Relaxed) == 1
}

/// Aborts the sequence that is under way on a CPU, if there is one. All that the CPU did before is seen afterwards, and
/// it sees what the caller did.
pub(crate) fn abort_sequences(cpu: usize) {
    if !membarrier(PRIVATE_EXPEDITED_RSEQ, FLAG_CPU, cpu) {
        // It was registered, so somebody has forbidden the call since. A sequence that goes on would take what the caller
        // has taken.
        // SAFETY: the process ends.
        unsafe { libc::abort() };
    }
}

/// Waits for a lock, for the `tries`-th time in a row. Its holder may have been preempted.
pub(crate) fn wait(tries: usize) {
    if tries < 64 {
        return core::hint::spin_loop();
    }
    // SAFETY: the call has no arguments.
    unsafe { libc::sched_yield() };
}

/// Addresses without memory: so many bytes, where the system likes.
pub(crate) fn reserve(bytes: usize) -> Option<NonNull<u8>> {
    map(bytes, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE)
}

/// Memory that is zero, and is there when it is touched.
pub(crate) fn memory(bytes: usize) -> Option<NonNull<u8>> {
    map(bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
}

fn map(bytes: usize, protection: ProtFlags, flags: MapFlags) -> Option<NonNull<u8>> {
    // SAFETY: the system chooses addresses that nobody has.
    let start = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, protection, flags) };
    NonNull::new(start.ok()?.cast())
}

/// Makes reserved addresses readable and writable. False: the system has not so much.
///
/// # Safety
/// They are the caller's.
pub(crate) unsafe fn allow(start: NonNull<u8>, bytes: usize) -> bool {
    let flags = MprotectFlags::READ | MprotectFlags::WRITE;
    // SAFETY: as the caller says.
    unsafe { rustix::mm::mprotect(start.as_ptr().cast::<c_void>(), bytes, flags).is_ok() }
}

/// Asks for huge pages, where there is no memory yet. Where the system has none, nothing happens.
///
/// # Safety
/// The mapping is the caller's.
pub(crate) unsafe fn prefer_huge_pages(start: NonNull<u8>, bytes: usize) {
    // SAFETY: as the caller says. An error says that the system has no huge pages.
    let _ = unsafe { rustix::mm::madvise(start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
}

/// Gives memory to the system. What lies there is zero from now on.
///
/// # Safety
/// The memory is the caller's, who needs nothing of what lies there.
pub(crate) unsafe fn discard(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: as the caller says.
    unsafe { rustix::mm::madvise(start.as_ptr().cast(), bytes, Advice::LinuxDontNeed).is_ok() }
}

/// Ends a mapping.
///
/// # Safety
/// It is the caller's, and nobody uses it any more.
pub(crate) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: as the caller says.
    let unmapped = unsafe { rustix::mm::munmap(start.as_ptr().cast(), bytes) };
    debug_assert!(unmapped.is_ok(), "a mapping is unmapped once");
}

/// Makes a mapping shorter or longer, elsewhere if need be.
///
/// # Safety
/// It is the caller's, who uses it no more at its old place if this succeeds.
pub(crate) unsafe fn remap(start: NonNull<u8>, old: usize, new: usize) -> Option<NonNull<u8>> {
    // SAFETY: as the caller says.
    let moved =
        unsafe { rustix::mm::mremap(start.as_ptr().cast(), old, new, MremapFlags::MAYMOVE) };
    NonNull::new(moved.ok()?.cast())
}
