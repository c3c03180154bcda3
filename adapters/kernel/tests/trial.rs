//! The trial of a heap on threads as CPUs, whose interrupts are signals.
//!
//! A CPU with interrupts off only notes that a signal has come, and handles it when it turns them on, as a processor does.
//! So interrupts come in the middle of calls here too, wherever the heap lets them.
#![cfg(all(target_os = "linux", not(miri)))]

mod common;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, compiler_fence};
use std::thread;
use std::time::Duration;

use common::Arena;
use woodlot_frame::{Base4K, FrameAllocator};
use woodlot_kernel::{Calls, Cpus, Heap, Report, Trial};
use woodlot_llfree::LLFree;

const CPUS: usize = 2;
const FRAMES: usize = 1024;
/// What interrupts a thread: its clock, and calls of others.
const CLOCK: libc::c_int = libc::SIGUSR1;
const CALL: libc::c_int = libc::SIGUSR2;

thread_local! {
    static CPU: Cell<usize> = const { Cell::new(usize::MAX) };
    static OFF: Cell<bool> = const { Cell::new(true) };
    static PENDING: [Cell<bool>; 2] = const { [const { Cell::new(false) }; 2] };
}

/// A thread to itself, by a flag that its signal handler looks at.
struct Signals;

// SAFETY: between `enter` and `leave` a handler does nothing.
unsafe impl Cpus for Signals {
    type State = bool;

    fn enter(&self) -> (usize, bool) {
        let was_off = OFF.replace(true);
        compiler_fence(Ordering::SeqCst);
        (CPU.get(), was_off)
    }

    fn leave(&self, was_off: bool) {
        compiler_fence(Ordering::SeqCst);
        OFF.set(was_off);
        if !was_off && is_pending() {
            interrupt();
        }
    }
}

static THREADS: [AtomicU64; CPUS] = [const { AtomicU64::new(0) }; CPUS];
static CALLS: Calls<Signals, CPUS> = Calls::new(Signals, |cpu| send(cpu, CALL), usize::MAX);
static TRIAL: Trial<CPUS> = Trial::new();
static HEAP: Heap<'static, LLFree<'static, Base4K>, &Calls<Signals, CPUS>, CPUS, &Trial<CPUS>> =
    Heap::new(&CALLS, &TRIAL);

/// Interrupts a CPU that is there.
fn send(cpu: usize, signal: libc::c_int) {
    let thread = THREADS[cpu].load(Ordering::Acquire);
    if thread != 0 {
        // SAFETY: the thread does not end before it is the last to be interrupted.
        unsafe { libc::pthread_kill(thread, signal) };
        // It may wait for a processor.
        thread::yield_now();
    }
}

fn is_pending() -> bool {
    PENDING.with(|pending| pending.iter().any(Cell::get))
}

fn take_pending(which: usize) -> bool {
    PENDING.with(|pending| pending[which].replace(false))
}

/// Does what is pending, with interrupts off.
fn interrupt() {
    while is_pending() {
        OFF.set(true);
        if take_pending(1) {
            CALLS.answer();
        }
        if take_pending(0) {
            TRIAL.tick(&HEAP);
            HEAP.flush_unused();
        }
        compiler_fence(Ordering::SeqCst);
        OFF.set(false);
    }
}

extern "C" fn handler(signal: libc::c_int) {
    PENDING.with(|pending| pending[usize::from(signal == CALL)].set(true));
    if !OFF.get() {
        interrupt();
    }
}

static ENDED: AtomicUsize = AtomicUsize::new(0);
static OVER: AtomicBool = AtomicBool::new(false);

/// A CPU's life.
fn run(cpu: usize) {
    CPU.set(cpu);
    // SAFETY: it says which thread this is.
    THREADS[cpu].store(unsafe { libc::pthread_self() } as u64, Ordering::Release);
    CALLS.open();
    OFF.set(false);
    TRIAL.run(&HEAP, CPUS);
    OFF.set(true);
    assert!(HEAP.kmem().flush_cpu(cpu));
    CALLS.close();
    ENDED.fetch_add(1, Ordering::AcqRel);
    while !OVER.load(Ordering::Acquire) {
        thread::yield_now();
    }
}

#[test]
fn a_heap_stands_its_trial() {
    for signal in [CLOCK, CALL] {
        // SAFETY: the handler uses what is the thread's own, and what the heap lets it.
        unsafe { libc::signal(signal, handler as *const () as libc::sighandler_t) };
    }
    let arena = Box::leak(Box::new(Arena::<LLFree<Base4K>>::new(FRAMES)));
    // SAFETY: every frame is mapped there, and only the heap uses the zone.
    unsafe { HEAP.start(&*arena.zone, arena.base()) }.expect("it starts");
    let there = (arena.free(), arena.zone.stats().free_huge);
    thread::scope(|scope| {
        (0..CPUS).for_each(|cpu| drop(scope.spawn(move || run(cpu))));
        while ENDED.load(Ordering::Acquire) < CPUS {
            (0..CPUS).for_each(|cpu| send(cpu, CLOCK));
            thread::sleep(Duration::from_millis(1));
        }
        OVER.store(true, Ordering::Release);
    });
    HEAP.trim();
    let Report { pairs, lists, inside, outside, bytes, told, passed, wrong, .. } = TRIAL.report();
    assert_eq!(wrong, 0, "two had one block");
    assert!(inside.min(outside) >= 10 * CPUS as u64, "{inside} inside, {outside} outside");
    assert!(pairs > 0 && lists < pairs, "{lists} lists for {pairs} pairs");
    assert!(bytes <= (there.0 as u64) << 12 && bytes + (64 << 10) > (there.0 as u64) << 12);
    assert_eq!((passed, told > 0), (CPUS as u64, true));
    assert_eq!((arena.free(), arena.zone.stats().free_huge), there, "memory is not back");
}
