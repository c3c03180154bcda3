//! A spin lock: one word, taken by a compare-exchange, given back by a plain store.
//!
//! A free lock costs one atomic instruction to take and none to release, as Linux's
//! `queued_spin_lock` does. Waiters read until they see it free (test and test-and-set). In user
//! space a holder may lose its CPU, so a waiter yields after a while instead of spinning on.
//!
//! Acquire on the way in, release on the way out: what the holder wrote relaxed, the next holder
//! sees.

use woodlot_frame::atomics::{AtomicU32, Ordering::*};

/// How long a waiter spins before it yields: longer than any critical section of this crate.
const SPINS: u32 = 1000;

/// 0 free, 1 held.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct SpinLock(AtomicU32);

/// Holds the lock until dropped. Functions that need it held ask for a reference to one.
pub(crate) struct Held<'a>(&'a SpinLock);

impl SpinLock {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Takes the lock unless somebody has it.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> Option<Held<'_>> {
        match self.0.compare_exchange(0, 1, Acquire, Relaxed) {
            Ok(_) => Some(Held(self)),
            Err(_) => None,
        }
    }

    /// Waits for the lock.
    #[inline(always)]
    pub(crate) fn lock(&self) -> Held<'_> {
        match self.try_lock() {
            Some(held) => held,
            None => self.wait(),
        }
    }

    #[cold]
    fn wait(&self) -> Held<'_> {
        loop {
            for _ in 0..SPINS {
                if self.0.load(Relaxed) == 0
                    && let Some(held) = self.try_lock()
                {
                    return held;
                }
                std::hint::spin_loop();
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Held<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.0.store(0, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time() {
        let lock = SpinLock::new();
        let held = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(held);
        assert!(lock.try_lock().is_some());
    }

    #[test]
    fn no_increment_is_lost() {
        let (lock, count) = (SpinLock::new(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let _held = lock.lock();
                        count.store(count.load(Relaxed) + 1, Relaxed);
                    }
                });
            }
        });
        assert_eq!(count.load(Relaxed), 80_000);
    }
}
