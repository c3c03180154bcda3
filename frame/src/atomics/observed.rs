//! Core's atomics, each access of which an observer is told of.
//!
//! ```text
//!   access ──► Observer::before ──► the access ──► Observer::after (where, how wide, a write or not, before, after)
//! ```
//!
//! The process has one observer at most, for good. Without one the atomics are the processor's. An access is one access here,
//! whatever instructions a compiler makes of it: a read-modify-write is a write, also where it changes nothing, since it takes
//! the line as a write does. Accesses through [`get_mut`](AtomicU64::get_mut) are nobody else's, and are not told.

use core::ptr::{from_ref, null_mut};
use core::sync::atomic::AtomicPtr;

pub use core::sync::atomic::{Ordering, fence};

/// An access to an atomic word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Where the word lies.
    pub address: usize,
    /// How many bytes it has.
    pub bytes: usize,
    /// Is it more than a load?
    pub writes: bool,
    /// Its value before.
    pub before: u64,
    /// Its value after.
    pub after: u64,
}

/// Who is told of accesses, on the thread that makes them.
#[derive(Debug)]
pub struct Observer {
    /// An access comes.
    pub before: fn(),
    /// It is done.
    pub after: fn(&Access),
    /// The line of the word at this address is fetched, to be written: no access.
    pub fetched: fn(usize),
}

static OBSERVER: AtomicPtr<Observer> = AtomicPtr::new(null_mut());

/// From now on this observer is told. Is it so? Not where there is another one.
#[must_use]
pub fn observe(observer: &'static Observer) -> bool {
    let new = from_ref(observer).cast_mut();
    let found = OBSERVER.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire);
    found.is_ok() || found == Err(new)
}

fn observer() -> Option<&'static Observer> {
    // SAFETY: it is null, or comes from a reference that lives for ever.
    unsafe { OBSERVER.load(Ordering::Acquire).as_ref() }
}

/// As of the processor's atomics.
pub fn fetch_to_write(words: &[AtomicU64], at: usize) {
    if let Some((observer, word)) = observer().zip(words.get(at)) {
        (observer.fetched)(word.as_ptr().addr());
    }
}

macro_rules! atomics {
    ($($(#[$doc:meta])+ $name:ident, $of:ty, $value:ty;)*) => {$(
        $(#[$doc])+
        #[derive(Default, Debug)]
        #[repr(transparent)]
        pub struct $name($of);

        impl $name {
            /// As core's.
            pub const fn new(value: $value) -> Self {
                Self(<$of>::new(value))
            }

            /// Makes an access, of which it says whether it writes, and the values before and after.
            fn told<R>(&self, access: impl FnOnce(&$of) -> (R, bool, [$value; 2])) -> R {
                let Some(observer) = observer() else { return access(&self.0).0 };
                (observer.before)();
                let (result, writes, values) = access(&self.0);
                let [before, after] = values.map(u64::from);
                let (address, bytes) = (self.as_ptr().addr(), size_of::<$value>());
                (observer.after)(&Access { address, bytes, writes, before, after });
                result
            }

            /// Makes a write that returns what was there before.
            fn changed(
                &self,
                write: impl FnOnce(&$of) -> $value,
                after: impl FnOnce($value) -> $value,
            ) -> $value {
                self.told(|word| {
                    let before = write(word);
                    (before, true, [before, after(before)])
                })
            }

            /// As core's.
            pub fn load(&self, ordering: Ordering) -> $value {
                self.told(|word| {
                    let value = word.load(ordering);
                    (value, false, [value; 2])
                })
            }

            /// As core's.
            pub fn store(&self, value: $value, ordering: Ordering) {
                self.swap(value, ordering);
            }

            /// As core's.
            pub fn swap(&self, value: $value, ordering: Ordering) -> $value {
                self.changed(|word| word.swap(value, ordering), |_| value)
            }

            /// As core's.
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.told(|word| match word.compare_exchange(current, new, success, failure) {
                    Ok(before) => (Ok(before), true, [before, new]),
                    Err(found) => (Err(found), true, [found; 2]),
                })
            }

            /// As core's; it does not fail by chance.
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            /// As core's: a load, then compare-exchanges until one succeeds.
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                mut update: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut found = self.load(fetch);
                while let Some(new) = update(found) {
                    match self.compare_exchange_weak(found, new, set, fetch) {
                        Ok(before) => return Ok(before),
                        Err(now) => found = now,
                    }
                }
                Err(found)
            }

            /// As core's.
            pub fn fetch_add(&self, value: $value, ordering: Ordering) -> $value {
                self.changed(|word| word.fetch_add(value, ordering), |before| before.wrapping_add(value))
            }

            /// As core's.
            pub fn fetch_sub(&self, value: $value, ordering: Ordering) -> $value {
                self.changed(|word| word.fetch_sub(value, ordering), |before| before.wrapping_sub(value))
            }

            /// As core's.
            pub fn fetch_or(&self, value: $value, ordering: Ordering) -> $value {
                self.changed(|word| word.fetch_or(value, ordering), |before| before | value)
            }

            /// As core's.
            pub fn fetch_and(&self, value: $value, ordering: Ordering) -> $value {
                self.changed(|word| word.fetch_and(value, ordering), |before| before & value)
            }

            /// As core's.
            pub fn fetch_max(&self, value: $value, ordering: Ordering) -> $value {
                self.changed(|word| word.fetch_max(value, ordering), |before| before.max(value))
            }

            /// As core's.
            pub fn fetch_min(&self, value: $value, ordering: Ordering) -> $value {
                self.changed(|word| word.fetch_min(value, ordering), |before| before.min(value))
            }

            /// As core's.
            pub const fn as_ptr(&self) -> *mut $value {
                self.0.as_ptr()
            }

            /// As core's.
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            /// As core's.
            pub const fn into_inner(self) -> $value {
                self.0.into_inner()
            }
        }

        impl From<$value> for $name {
            fn from(value: $value) -> Self {
                Self::new(value)
            }
        }
    )*};
}

atomics! {
    /// A byte.
    AtomicU8, core::sync::atomic::AtomicU8, u8;
    /// Sixteen bits.
    AtomicU16, core::sync::atomic::AtomicU16, u16;
    /// A word of 32 bits.
    AtomicU32, core::sync::atomic::AtomicU32, u32;
    /// A word of 64 bits.
    AtomicU64, core::sync::atomic::AtomicU64, u64;
}
