//! The lock of a layer that all CPUs share.
//!
//! The paper's lower layers are protected by spinlocks too (section 3.3.2): the per-CPU layer makes calls of them rare,
//! and what they do takes a bounded number of steps. Whoever calls sees to it that nothing on the same CPU that could
//! want the lock comes in between ([`Cpus::enter`](crate::Cpus::enter)).
//!
//! *Ordering*: what was done before a lock was let go is seen by whoever takes it next.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

use woodlot_frame::atomics::{AtomicU32, Ordering};

/// Something that one CPU at a time may use.
pub(crate) struct Lock<T> {
    /// 0: nobody has it; 1: somebody has.
    taken: AtomicU32,
    inside: UnsafeCell<T>,
}

// SAFETY: the lock lets one caller at a time to what is inside.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    #[cfg(not(any(woodlot_loom, woodlot_explore, woodlot_shuttle)))]
    pub(crate) const fn new(inside: T) -> Lock<T> {
        Lock { taken: AtomicU32::new(0), inside: UnsafeCell::new(inside) }
    }

    /// The same for atomics of a checker, which are made while the program runs.
    #[cfg(any(woodlot_loom, woodlot_explore, woodlot_shuttle))]
    pub(crate) fn new(inside: T) -> Lock<T> {
        Lock { taken: AtomicU32::new(0), inside: UnsafeCell::new(inside) }
    }

    /// Takes the lock. `wait` is called with 0, 1, 2, … while somebody else has it.
    #[inline]
    pub(crate) fn take(&self, mut wait: impl FnMut(usize)) -> Taken<'_, T> {
        let mut tries = 0;
        while self.taken.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            wait(tries);
            tries = tries.saturating_add(1);
        }
        Taken(self)
    }

    /// Lets go of a lock that was taken and forgotten, in a process that was forked meanwhile.
    ///
    /// # Safety
    /// The caller has forgotten a [`Taken`] of this lock.
    pub(crate) unsafe fn let_go(&self) {
        self.taken.store(0, Ordering::Release);
    }
}

/// The lock is the holder's until this is dropped.
pub(crate) struct Taken<'a, T>(&'a Lock<T>);

impl<T> Deref for Taken<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is taken, so that nobody else is inside.
        unsafe { &*self.0.inside.get() }
    }
}

impl<T> DerefMut for Taken<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above; `&mut self` shows that the holder has no other reference.
        unsafe { &mut *self.0.inside.get() }
    }
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        self.0.taken.store(0, Ordering::Release);
    }
}

/// Three CPUs that want one lock.
#[cfg(all(test, woodlot_explore))]
mod models {
    mod scenarios {
        use core::slice::from_ref;

        use woodlot_explore::{Options, scenario, wait_until};
        use woodlot_frame::atomics::{AtomicU32, Ordering::SeqCst};

        use super::super::Lock;

        #[test]
        fn one_at_a_time() {
            let lock = Lock::new(AtomicU32::new(0));
            scenario("kmem lock", 1_000_000, Options::new(), |model| {
                model.name("taken", from_ref(&lock.taken));
                for _ in 0..3 {
                    model.thread(|| {
                        for _ in 0..2 {
                            let wait = |_| wait_until(|| lock.taken.load(SeqCst) == 0);
                            let inside = lock.take(wait);
                            let before = inside.load(SeqCst);
                            inside.store(before + 1, SeqCst);
                            assert_eq!(inside.load(SeqCst), before + 1, "two are inside");
                        }
                    });
                }
                model.finally(|_| assert_eq!(lock.take(|_| ()).load(SeqCst), 6));
            });
        }
    }
}

/// Two CPUs that want one lock, and the memory orderings.
#[cfg(all(test, woodlot_loom))]
mod models {
    mod scenarios {
        use loom::cell::UnsafeCell;
        use woodlot_explore::orderings::{Bounds, Threads};

        use super::super::Lock;

        #[test]
        fn one_at_a_time() {
            let threads = Threads {
                count: 2,
                world: || Lock::new(UnsafeCell::new(0)),
                run: |lock: &Lock<UnsafeCell<u32>>, _: usize| {
                    for _ in 0..2 {
                        let inside = lock.take(|_| loom::thread::yield_now());
                        // SAFETY: the lock is taken; loom tells of a race.
                        inside.with_mut(|count| unsafe { *count += 1 });
                    }
                },
                judge: |lock: &Lock<UnsafeCell<u32>>, _: &[&()]| {
                    // SAFETY: all have ended.
                    lock.take(|_| ()).with(|count| assert_eq!(unsafe { *count }, 4));
                },
            };
            threads.check("kmem lock", Bounds { preemptions: 3, longest: None });
        }
    }
}
