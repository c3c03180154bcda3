//! Signals that interrupt a thread again and again, and may move it to another CPU.

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{mem, ptr};

use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Nanoseconds from a signal of a thread to the next: at first, and at least. How many become enough for a step depends on the
/// machine: where a timer goes through a hypervisor, a signal that is to come in 10 µs comes before its thread has gone on.
const FIRST_INTERVAL: i64 = 10_000;
const LEAST_INTERVAL: i64 = 64;

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
    /// Nanoseconds from one of them to the next, on average.
    static INTERVAL: Cell<i64> = const { Cell::new(FIRST_INTERVAL) };
    /// Has this thread done a step since the last one?
    static STEPPED: Cell<bool> = const { Cell::new(false) };
}

/// This thread has done a step, and may be moved again.
pub fn stepped() {
    STEPPED.set(true);
}

/// The next signal comes so much later that four of five find that the thread has gone on, and few find more than a step. Some
/// come so soon that they meet a sequence that begins again.
fn arm(has_stepped: bool) {
    let mean = INTERVAL.get();
    let mean = if has_stepped { mean - mean / 32 } else { mean + mean / 8 }.max(LEAST_INTERVAL);
    INTERVAL.set(mean);
    let seen = SEEN.get();
    SEEN.set(seen + 1);
    let interval = mean / 2 + seen * 7919 % mean;
    let no_time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let next = libc::timespec { tv_nsec: interval, ..no_time };
    let times = libc::itimerspec { it_interval: no_time, it_value: next };
    // SAFETY: the call reads the times. A timer that is not there is an error, which is none here.
    unsafe { libc::timer_settime(TIMER.get(), 0, &times, ptr::null_mut()) };
}

extern "C" fn handle(_: libc::c_int) {
    let has_stepped = STEPPED.replace(false);
    // Where a move takes longer than the time between two signals, a thread that each signal moves does nothing else.
    if MOVES.load(Ordering::Relaxed) && has_stepped {
        let here = sched_getcpu();
        send(None, CPUS.iter().position(|&cpu| cpu == here).map_or(0, |at| at + 1));
    }
    arm(has_stepped);
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
        arm(true);
        Signals
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: the timer was created, and is this thread's.
        unsafe { libc::timer_delete(TIMER.get()) };
    }
}
