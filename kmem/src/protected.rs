//! What a lock protects, or a CPU that is kept to its caller: plain memory, but for the checkers of interleavings.
//!
//! ```text
//!   as usual     plain memory
//!   in shuttle   plain memory, and a mark that tells of two who are inside at once
//!   under loom   a cell that tells of two who are inside at once, whatever orderings let them in
//!   explored     a cell whose contents are part of the state: read by whoever enters, written when it leaves
//! ```

#[cfg(not(any(woodlot_loom, woodlot_explore, woodlot_shuttle)))]
pub(crate) use plain::{Inside, Protected};

#[cfg(woodlot_shuttle)]
pub(crate) use marked::{Inside, Protected};

#[cfg(woodlot_loom)]
pub(crate) use under_loom::{Inside, Protected};

#[cfg(woodlot_explore)]
pub(crate) use explored::{Inside, Protected};

#[cfg(not(any(woodlot_loom, woodlot_explore)))]
mod plain {
    use core::cell::UnsafeCell;
    use core::ops::{Deref, DerefMut};

    /// Something that one caller at a time may use.
    #[repr(transparent)]
    pub(crate) struct Protected<T>(UnsafeCell<T>);

    impl<T> Protected<T> {
        pub(crate) const fn new(inside: T) -> Self {
            Protected(UnsafeCell::new(inside))
        }

        /// Lets the caller to it.
        ///
        /// # Safety
        /// Nobody else is let in before what this returns is dropped.
        #[inline(always)]
        pub(crate) unsafe fn enter(&self) -> Inside<'_, T> {
            Inside(&self.0)
        }
    }

    /// A caller is inside until this is dropped.
    pub(crate) struct Inside<'a, T>(&'a UnsafeCell<T>);

    impl<T> Deref for Inside<'_, T> {
        type Target = T;

        #[inline(always)]
        fn deref(&self) -> &T {
            // SAFETY: nobody else is inside.
            unsafe { &*self.0.get() }
        }
    }

    impl<T> DerefMut for Inside<'_, T> {
        #[inline(always)]
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: nobody else is inside, and `&mut self` shows that the caller has no other reference.
            unsafe { &mut *self.0.get() }
        }
    }
}

#[cfg(woodlot_shuttle)]
mod marked {
    use core::ops::{Deref, DerefMut};

    use woodlot_frame::atomics::{AtomicU32, Ordering::Relaxed};

    use super::plain;

    pub(crate) struct Protected<T> {
        /// 1: somebody is inside.
        entered: AtomicU32,
        inside: plain::Protected<T>,
    }

    impl<T> Protected<T> {
        pub(crate) fn new(inside: T) -> Self {
            Protected { entered: AtomicU32::new(0), inside: plain::Protected::new(inside) }
        }

        /// # Safety
        /// Nobody else is let in before what this returns is dropped: a panic tells of who is.
        pub(crate) unsafe fn enter(&self) -> Inside<'_, T> {
            assert_eq!(self.entered.swap(1, Relaxed), 0, "two are inside at once");
            // SAFETY: as the caller says.
            Inside { entered: &self.entered, inside: unsafe { self.inside.enter() } }
        }
    }

    pub(crate) struct Inside<'a, T> {
        entered: &'a AtomicU32,
        inside: plain::Inside<'a, T>,
    }

    impl<T> Deref for Inside<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.inside
        }
    }

    impl<T> DerefMut for Inside<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            &mut self.inside
        }
    }

    impl<T> Drop for Inside<'_, T> {
        fn drop(&mut self) {
            self.entered.store(0, Relaxed);
        }
    }
}

#[cfg(woodlot_loom)]
mod under_loom {
    use core::marker::PhantomData;
    use core::ops::{Deref, DerefMut};

    use loom::cell::{MutPtr, UnsafeCell};

    pub(crate) struct Protected<T>(UnsafeCell<T>);

    impl<T> Protected<T> {
        pub(crate) fn new(inside: T) -> Self {
            Protected(UnsafeCell::new(inside))
        }

        /// # Safety
        /// Nobody else is let in before what this returns is dropped: loom tells of who is.
        pub(crate) unsafe fn enter(&self) -> Inside<'_, T> {
            Inside(self.0.get_mut(), PhantomData)
        }
    }

    pub(crate) struct Inside<'a, T>(MutPtr<T>, PhantomData<&'a T>);

    impl<T> Deref for Inside<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            // SAFETY: nobody else is inside.
            unsafe { self.0.deref() }
        }
    }

    impl<T> DerefMut for Inside<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: as above, and the caller has no other reference.
            unsafe { self.0.deref() }
        }
    }
}

#[cfg(woodlot_explore)]
mod explored {
    use core::hash::Hash;
    use core::ops::{Deref, DerefMut};

    use woodlot_explore::Cell;

    pub(crate) struct Protected<T>(Cell<T>);

    impl<T: Clone + Eq + Hash + Send + 'static> Protected<T> {
        pub(crate) fn new(inside: T) -> Self {
            Protected(Cell::new(inside))
        }
    }

    impl<T> Protected<T> {
        /// # Safety
        /// Nobody else is let in before what this returns is dropped. If somebody is, one's changes are lost.
        pub(crate) unsafe fn enter(&self) -> Inside<'_, T> {
            Inside { cell: &self.0, copy: self.0.get(), is_changed: false }
        }
    }

    pub(crate) struct Inside<'a, T> {
        cell: &'a Cell<T>,
        copy: T,
        is_changed: bool,
    }

    impl<T> Deref for Inside<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.copy
        }
    }

    impl<T> DerefMut for Inside<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.is_changed = true;
            &mut self.copy
        }
    }

    impl<T> Drop for Inside<'_, T> {
        fn drop(&mut self) {
            if self.is_changed {
                self.cell.set(&self.copy);
            }
        }
    }
}
