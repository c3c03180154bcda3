//! The lock of a layer that all CPUs share.
//!
//! The paper's lower layers are protected by spinlocks too (section 3.3.2): the per-CPU layer makes calls of them rare,
//! and what they do takes a bounded number of steps. Whoever calls sees to it that nothing on the same CPU that could
//! want the lock comes in between ([`Cpus::enter`](crate::Cpus::enter)).
//!
//! *Ordering*: what was done before a lock was let go is seen by whoever takes it next.

use core::marker::PhantomData;
use core::mem::offset_of;
use core::ops::{Deref, DerefMut};

use woodlot_frame::atomics::{AtomicU32, Ordering};

use crate::protected::{Inside, Protected};

/// Something that one CPU at a time may use. Who takes the lock has what it needs first on the same cache line.
#[repr(C)]
pub struct Lock<T> {
    /// 0: nobody has it; 1: somebody has.
    pub(crate) taken: AtomicU32,
    inside: Protected<T>,
}

// SAFETY: the lock lets one caller at a time to what is inside.
unsafe impl<T: Send> Sync for Lock<T> {}

#[cfg(not(woodlot_explore))]
impl<T> Lock<T> {
    #[cfg(not(any(woodlot_loom, woodlot_shuttle)))]
    /// A lock that nobody has.
    pub const fn new(inside: T) -> Lock<T> {
        Lock { taken: AtomicU32::new(0), inside: Protected::new(inside) }
    }

    /// The same for atomics of a checker, which are made while the program runs.
    #[cfg(any(woodlot_loom, woodlot_shuttle))]
    pub fn new(inside: T) -> Lock<T> {
        Lock { taken: AtomicU32::new(0), inside: Protected::new(inside) }
    }
}

/// What is inside is a part of the explorer's states.
#[cfg(woodlot_explore)]
impl<T: Clone + Eq + core::hash::Hash + Send + 'static> Lock<T> {
    /// The same for the explorer.
    pub fn new(inside: T) -> Lock<T> {
        Lock { taken: AtomicU32::new(0), inside: Protected::new(inside) }
    }
}

impl<T> Lock<T> {
    /// How many bytes behind the begin of a lock that is which it protects: for whoever reads memory from outside.
    pub const INSIDE: usize = offset_of!(Lock<T>, inside);

    /// Takes the lock. `wait` is called with 0, 1, 2, … while somebody else has it.
    #[inline]
    pub fn take(&self, mut wait: impl FnMut(usize)) -> Taken<'_, T> {
        let mut tries = 0;
        while self.taken.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            #[cfg(woodlot_explore)]
            woodlot_explore::wait_until(|| self.taken.load(Ordering::Relaxed) == 0);
            wait(tries);
            tries = tries.saturating_add(1);
        }
        self.taken()
    }

    /// The same, if nobody has it.
    pub fn try_take(&self) -> Option<Taken<'_, T>> {
        let taken = self.taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| self.taken())
    }

    /// What whoever has taken the lock gets.
    #[inline(always)]
    fn taken(&self) -> Taken<'_, T> {
        // SAFETY: the lock was just taken, and is let go after `inside` is dropped.
        let inside = unsafe { self.inside.enter() };
        Taken { inside, _held: Held(&self.taken), _on_this_cpu: PhantomData }
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
pub struct Taken<'a, T> {
    inside: Inside<'a, T>,
    /// Dropped after what is inside.
    _held: Held<'a>,
    _on_this_cpu: PhantomData<*mut T>,
}

/// The lock is let go when this is dropped.
struct Held<'a>(&'a AtomicU32);

// SAFETY: who has a reference to this has one to what is inside.
unsafe impl<T: Sync> Sync for Taken<'_, T> {}

impl<T> Deref for Taken<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inside
    }
}

impl<T> DerefMut for Taken<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inside
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}
