//! The checks with threads: ownership proven frame by frame, counts exact when all have stopped.
//!
//! What is asserted is what the contract promises while calls run at the same time: an `Ok` means
//! sole ownership, a free of what is owned succeeds, and once all threads have stopped every count
//! is exact and every frame can be had. An `OutOfMemory` or `InUse` that another call in flight
//! caused is legal; such answers are counted and printed (`--nocapture` shows them).

use woodlot_frame::atomics::{AtomicU32, Ordering};

pub mod arena;
pub mod cells;
pub mod claims;
pub mod drains;
pub mod frees;
pub mod hotplug;
pub mod isolators;
pub mod last;
pub mod runs;
pub mod stress;

/// Threads of the stress tests: more than the two cores of the smallest machine.
pub(crate) const THREADS: usize = 8;

/// Lets threads go on together, as close to the same moment as can be; where one of them has
/// panicked the others stop too, instead of waiting for it for ever.
pub(crate) struct Turnstile {
    arrived: AtomicU32,
    threads: u32,
    broken: AtomicU32,
}

impl Turnstile {
    pub(crate) fn new(threads: u32) -> Self {
        Self { arrived: AtomicU32::new(0), threads, broken: AtomicU32::new(0) }
    }

    /// A thread's way through, again and again.
    pub(crate) fn enter(&self) -> Way<'_> {
        Way { turnstile: self, round: 0 }
    }
}

/// One thread's way through a [`Turnstile`].
pub(crate) struct Way<'a> {
    turnstile: &'a Turnstile,
    round: u32,
}

impl Way<'_> {
    /// Waits until every thread is here.
    pub(crate) fn wait(&mut self) {
        let Turnstile { arrived, threads, broken } = self.turnstile;
        self.round += 1;
        arrived.fetch_add(1, Ordering::AcqRel);
        let mut spins = 0u32;
        while arrived.load(Ordering::Acquire) < self.round * threads {
            assert!(broken.load(Ordering::Relaxed) == 0, "another thread panicked");
            spins += 1;
            if spins.is_multiple_of(256) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

impl Drop for Way<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.turnstile.broken.store(1, Ordering::Relaxed);
        }
    }
}
