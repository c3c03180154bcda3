//! Signals that interrupt a thread again and again, and may move it to another CPU.

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{mem, ptr};

use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Nanoseconds from a signal of a thread to the next; each other time it comes within these, to meet a sequence that
/// begins again.
const INTERVAL: i64 = 10_000;
const SHORT_INTERVALS: i64 = 2000;

/// The CPUs that this process may run on.
static CPUS: LazyLock<Vec<usize>> = LazyLock::new(|| {
    let set = sched_getaffinity(None).expect("the CPUs");
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
});

pub fn cpus() -> usize {
    CPUS.len()
}

/// Moves a thread, or this one, to one of the CPUs.
pub fn send(thread: Option<Pid>, at: usize) {
    let mut set = CpuSet::new();
    set.set(CPUS[at % CPUS.len()]);
    // A thread that has ended is not moved.
    let _ = sched_setaffinity(thread, &set);
}

/// Do signals move their thread to another CPU?
static MOVES: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The timer that sends this thread signals, or null.
    static TIMER: Cell<libc::timer_t> = const { Cell::new(ptr::null_mut()) };
    /// Signals that this thread has seen.
    static SEEN: Cell<i64> = const { Cell::new(0) };
    /// Has this thread done a step since it was moved?
    static STEPPED: Cell<bool> = const { Cell::new(false) };
}

/// This thread has done a step, and may be moved again.
pub fn stepped() {
    STEPPED.set(true);
}

/// The next signal comes some time behind this one, so that the thread goes on in between.
fn arm() {
    let seen = SEEN.get();
    SEEN.set(seen + 1);
    let interval = if seen % 2 == 0 { INTERVAL } else { seen * 37 % SHORT_INTERVALS + 1 };
    let no_time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let next = libc::timespec { tv_nsec: interval, ..no_time };
    let times = libc::itimerspec { it_interval: no_time, it_value: next };
    // SAFETY: the call reads the times. A timer that is not there is an error, which is none here.
    unsafe { libc::timer_settime(TIMER.get(), 0, &times, ptr::null_mut()) };
}

extern "C" fn handle(_: libc::c_int) {
    // Where a move takes longer than the time between two signals, a thread that each signal moves does nothing else.
    if MOVES.load(Ordering::Relaxed) && STEPPED.replace(false) {
        let here = sched_getcpu();
        send(None, CPUS.iter().position(|&cpu| cpu == here).map_or(0, |at| at + 1));
    }
    arm();
}

/// What signals do from now on.
pub fn handle_signals(moves: bool) {
    MOVES.store(moves, Ordering::Relaxed);
    let handler = handle as extern "C" fn(libc::c_int);
    // SAFETY: the handler makes system calls only.
    unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
}

/// Sends signals to a thread, for as long as it lives.
pub struct Signals;

impl Signals {
    /// To this thread.
    pub fn new() -> Signals {
        let mut timer = ptr::null_mut();
        // SAFETY: an event is plain numbers, and the call reads it, and writes the timer.
        unsafe {
            let mut event: libc::sigevent = mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGUSR1;
            event.sigev_notify_thread_id = gettid().as_raw_nonzero().get();
            assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer), 0);
        }
        TIMER.set(timer);
        arm();
        Signals
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: the timer was created, and is this thread's.
        unsafe { libc::timer_delete(TIMER.get()) };
    }
}
