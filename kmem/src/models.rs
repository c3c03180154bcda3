//! Models of the lock: every interleaving (`--cfg woodlot_explore`), and the memory orderings (`--cfg woodlot_loom`).

#[cfg(woodlot_explore)]
mod scenarios {
    use core::slice::from_ref;

    use woodlot_explore::{Options, scenario, wait_until};
    use woodlot_frame::atomics::{AtomicU32, Ordering::SeqCst};

    use crate::lock::Lock;

    /// Three CPUs take the lock twice, and count.
    #[test]
    fn one_at_a_time() {
        let lock = Lock::new(AtomicU32::new(0));
        scenario("kmem lock", 1_000_000, Options::new(), |model| {
            model.name("taken", from_ref(&lock.taken));
            for _ in 0..3 {
                model.thread(|| {
                    for _ in 0..2 {
                        let inside = lock.take(|_| wait_until(|| lock.taken.load(SeqCst) == 0));
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

#[cfg(woodlot_loom)]
mod scenarios {
    use loom::cell::UnsafeCell;
    use woodlot_explore::orderings::{Bounds, Threads};

    use crate::lock::Lock;

    /// Two CPUs take the lock twice, and change what is no atomic.
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
