//! The lock alone.

use crate::lock::Lock;

/// Three CPUs take the lock twice, and count.
#[cfg(woodlot_explore)]
#[test]
fn one_at_a_time() {
    use core::slice::from_ref;

    use woodlot_explore::{Options, scenario};

    let lock = Lock::new(0);
    scenario("kmem lock", 1_000_000, Options::new(), |model| {
        model.name("taken", from_ref(&lock.taken));
        for _ in 0..3 {
            model.thread(|| (0..2).for_each(|_| *lock.take(|_| ()) += 1));
        }
        model.finally(|_| assert_eq!(*lock.take(|_| ()), 6, "two were inside"));
    });
}

/// Two CPUs take the lock twice, and change what is no atomic: loom tells of a race.
#[cfg(woodlot_loom)]
#[test]
fn one_at_a_time() {
    use woodlot_explore::orderings::{Bounds, Threads};

    let threads = Threads {
        count: 2,
        world: || Lock::new(0),
        run: |lock: &Lock<u32>, _: usize| {
            (0..2).for_each(|_| *lock.take(|_| loom::thread::yield_now()) += 1);
        },
        judge: |lock: &Lock<u32>, _: &[&()]| assert_eq!(*lock.take(|_| ()), 4),
    };
    threads.check("kmem lock", Bounds { preemptions: 3, longest: None });
}
