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

/// Calls, and leaves *errno* as it was.
pub(crate) fn keeping_errno<R>(call: impl FnOnce() -> R) -> R {
    // SAFETY: the thread's own errno.
    unsafe {
        let errno = libc::__errno_location();
        let before = errno.read();
        let result = call();
        errno.write(before);
        result
    }
}

/// Leaves *errno* as it is: whoever allocates does not ask whether a barrier could be had.
fn membarrier(command: libc::c_int, flags: libc::c_uint, cpu: usize) -> bool {
    // SAFETY: the call reads its arguments only.
    let call =
        || unsafe { libc::syscall(libc::SYS_membarrier, command, flags, cpu as libc::c_int) };
    keeping_errno(call) == 0
}

/// Has a set of CPUs, a bit for each, room for all that this system can have? It refuses to name any where there is less.
pub(crate) fn has_room_for_all_cpus(set: &mut [u64]) -> bool {
    let (room, set) = (size_of_val(set), set.as_mut_ptr());
    // SAFETY: the call writes no more than there is room for.
    keeping_errno(|| unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, room, set) }) > 0
}

/// Tells the system that sequences of this process will be aborted.
pub(crate) fn register_abort() -> bool {
    let registered = membarrier(REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0);
    CAN_ABORT.store(u32::from(registered), Ordering::Relaxed);
    registered
}

/// Can sequences of other CPUs be aborted?
pub(crate) fn can_abort() -> bool {
    CAN_ABORT.load(Ordering::Relaxed) == 1
}

/// Aborts the sequence that is under way on a CPU, if there is one. All that the CPU did before is seen afterwards, and
/// it sees what the caller did. False: nothing was aborted, as somebody has forbidden the call since it was registered.
///
/// The child of a fork is not registered, whether it was made with the C library's knowledge or not: so this registers it
/// when it is found out.
pub(crate) fn abort_sequences(cpu: usize) -> bool {
    let abort = || membarrier(PRIVATE_EXPEDITED_RSEQ, FLAG_CPU, cpu);
    abort() || register_abort() && abort()
}

/// How often who waits for a lock looks again at once.
const SPINS: usize = 64;
/// How often it then lets others go first that have its priority. From then on it sleeps between two looks: a holder of a lower priority,
/// which this thread has preempted, gets the CPU by that alone. With yields, a thread of `SCHED_FIFO` that used a size with another one
/// on the same CPU made 500 rounds of calls in 8 s, and it makes some 25,000; one of them took 2 s, after which the system stopped it.
const YIELDS: usize = 64;
/// Nanoseconds of a sleep: as long as the system takes in any case to wake a thread of the usual priority.
const NAP: libc::c_long = 50_000;

/// Waits for a lock, for the `tries`-th time in a row. Its holder may have been preempted. No thread is cancelled here, and *errno*
/// stays as it is.
pub(crate) fn wait(tries: usize) {
    if tries < SPINS {
        return core::hint::spin_loop();
    }
    // Miri does not know the other call, and lets others go first at each yield.
    if cfg!(miri) || tries < SPINS + YIELDS {
        // SAFETY: the call has no arguments.
        unsafe { libc::sched_yield() };
        return;
    }
    let nap = libc::timespec { tv_sec: 0, tv_nsec: NAP };
    // SAFETY: the call reads the time.
    keeping_errno(|| unsafe {
        libc::syscall(libc::SYS_nanosleep, &nap, ptr::null_mut::<libc::timespec>())
    });
}

/// Seconds since the system started, to about a hundredth. No system call, but where the system has no other way.
pub(crate) fn seconds() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut now) };
    now.tv_sec as u64
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

/// Has the system provide no huge pages from now on, not in the background either. What there is stays.
///
/// # Safety
/// The mapping is the caller's.
pub(crate) unsafe fn avoid_huge_pages(start: NonNull<u8>, bytes: usize) {
    // SAFETY: as the caller says. An error says that the system has no huge pages.
    let _ = unsafe { rustix::mm::madvise(start.as_ptr().cast(), bytes, Advice::LinuxNoHugepage) };
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

#[cfg(all(test, not(miri)))]
mod tests {
    use core::mem::MaybeUninit;

    use super::*;

    /// How often this thread has slept.
    fn sleeps() -> libc::c_long {
        let mut usage = MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: the call writes it.
        unsafe {
            assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()), 0);
            usage.assume_init().ru_nvcsw
        }
    }

    #[test]
    fn a_set_has_room_for_all_cpus_or_not() {
        assert!(!has_room_for_all_cpus(&mut []));
        assert!(has_room_for_all_cpus(&mut [0; 8192 / 64]), "no Linux for PCs has more");
    }

    /// A thread of a higher priority than the holder of a lock would wait for ever if it did not sleep. A nap that is over before the thread has gone to sleep,
    /// as the system was busy with others, counts as none; so there are some tries.
    #[test]
    fn who_waits_for_long_sleeps() {
        let sleeps_each_time = || {
            let before = sleeps();
            (0..SPINS + YIELDS + 8).for_each(wait);
            sleeps() >= before + 8
        };
        assert!((0..32).any(|_| sleeps_each_time()), "the CPU is never free");
    }
}
