//! The lock of a layer that all CPUs share.
//!
//! The paper's lower layers are protected by spinlocks too (section 3.3.2): the per-CPU layer makes calls of them rare,
//! and what they do takes a bounded number of steps. Whoever calls sees to it that nothing on the same CPU that could
//! want the lock comes in between ([`Cpus::enter`](crate::Cpus::enter)).
//!
//! *Ordering*: what was done before a lock was let go is seen by whoever takes it next.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::ops::{Deref, DerefMut};

use woodlot_frame::atomics::{AtomicU32, Ordering};

/// Something that one CPU at a time may use. Who takes the lock has what it needs first on the same cache line.
#[repr(C)]
pub struct Lock<T> {
    /// 0: nobody has it; 1: somebody has.
    pub(crate) taken: AtomicU32,
    inside: UnsafeCell<T>,
}

// SAFETY: the lock lets one caller at a time to what is inside.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// How many bytes behind the begin of a lock that is which it protects: for whoever reads memory from outside.
    pub const INSIDE: usize = offset_of!(Lock<T>, inside);

    #[cfg(not(any(woodlot_loom, woodlot_explore, woodlot_shuttle)))]
    /// A lock that nobody has.
    pub const fn new(inside: T) -> Lock<T> {
        Lock { taken: AtomicU32::new(0), inside: UnsafeCell::new(inside) }
    }

    /// The same for atomics of a checker, which are made while the program runs.
    #[cfg(any(woodlot_loom, woodlot_explore, woodlot_shuttle))]
    pub fn new(inside: T) -> Lock<T> {
        Lock { taken: AtomicU32::new(0), inside: UnsafeCell::new(inside) }
    }

    /// Takes the lock. `wait` is called with 0, 1, 2, … while somebody else has it.
    #[inline]
    pub fn take(&self, mut wait: impl FnMut(usize)) -> Taken<'_, T> {
        let mut tries = 0;
        while self.taken.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            wait(tries);
            tries = tries.saturating_add(1);
        }
        Taken(self, PhantomData)
    }

    /// The same, if nobody has it.
    pub fn try_take(&self) -> Option<Taken<'_, T>> {
        let taken = self.taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| Taken(self, PhantomData))
    }

    /// Lets go of a lock that was taken and forgotten, in a process that was forked meanwhile.
    ///
    /// # Safety
    /// The caller has forgotten a [`Taken`] of this lock.
    pub unsafe fn let_go(&self) {
        self.taken.store(0, Ordering::Release);
    }
}

/// The lock is the holder's until this is dropped.
pub struct Taken<'a, T>(&'a Lock<T>, PhantomData<*mut T>);

// SAFETY: who has a reference to this has one to what is inside.
unsafe impl<T: Sync> Sync for Taken<'_, T> {}

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
