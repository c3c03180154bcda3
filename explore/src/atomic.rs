//! The atomic types that the explorer sees.
//!
//! Layout and methods are those of `core::sync::atomic`, so slices of them can be laid over a
//! caller's buffer. Outside an exploration, and on every OS thread but the exploring one, they
//! *are* the core types. Inside, an atomic is known by its address and its contents are kept by
//! the explorer; the memory orderings are ignored (everything is sequentially consistent) and a
//! fence is no step.

use core::sync::atomic as plain;

pub use core::sync::atomic::Ordering;

use crate::program::Call;
use crate::runtime::{Place, access};

/// A fence: nothing under sequential consistency; the real one outside an exploration.
pub fn fence(order: Ordering) {
    plain::fence(order);
}

macro_rules! atomic {
    ($name:ident, $int:ty) => {
        #[doc = concat!("A `", stringify!($int), "` of which every access is one step.")]
        #[derive(Default)]
        #[repr(transparent)]
        pub struct $name(plain::$name);

        const _: () = assert!(size_of::<$name>() == size_of::<$int>());

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                // Not a load: printing is no step.
                write!(f, "{}({:#x})", stringify!($name), self.current())
            }
        }

        impl From<$int> for $name {
            fn from(value: $int) -> Self {
                Self::new(value)
            }
        }

        impl Place for $name {
            fn address(&self) -> usize {
                core::ptr::from_ref(self).addr()
            }
            fn stored(&self) -> u64 {
                u64::from(self.0.load(Ordering::Relaxed))
            }
        }

        impl $name {
            /// A new atomic with this value.
            #[must_use]
            pub const fn new(value: $int) -> Self {
                Self(plain::$name::new(value))
            }

            /// The value, from the only owner: not a step.
            pub fn get_mut(&mut self) -> &mut $int {
                self.0.get_mut()
            }

            /// The value, from the last owner: not a step.
            #[must_use]
            pub fn into_inner(self) -> $int {
                self.0.into_inner()
            }

            fn current(&self) -> $int {
                crate::runtime::peek(self) as $int
            }

            /// One step, if the explorer is to have it: `change` says what is stored for what was
            /// seen. The value seen, or `None`: the caller turns to the core type.
            fn step(
                &self,
                call: Call,
                mut change: impl FnMut($int) -> Option<$int>,
            ) -> Option<$int> {
                let change = |seen| change(seen as $int).map(u64::from);
                access(self, call, change).map(|seen| seen as $int)
            }

            /// As in core.
            pub fn load(&self, order: Ordering) -> $int {
                self.step(Call::Load, |_| None).unwrap_or_else(|| self.0.load(order))
            }

            /// As in core.
            pub fn store(&self, value: $int, order: Ordering) {
                let call = Call::Store(value.into());
                if self.step(call, |_| Some(value)).is_none() {
                    self.0.store(value, order);
                }
            }

            /// As in core.
            pub fn swap(&self, value: $int, order: Ordering) -> $int {
                let call = Call::Swap(value.into());
                self.step(call, |_| Some(value)).unwrap_or_else(|| self.0.swap(value, order))
            }

            /// As in core.
            ///
            /// # Errors
            /// The value found, if it is not `current`.
            pub fn compare_exchange(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                let call = Call::CompareExchange(current.into(), new.into());
                match self.step(call, |seen| (seen == current).then_some(new)) {
                    Some(seen) if seen == current => Ok(seen),
                    Some(seen) => Err(seen),
                    None => self.0.compare_exchange(current, new, success, failure),
                }
            }

            /// As [`Self::compare_exchange`]: never fails spuriously.
            ///
            /// # Errors
            /// The value found, if it is not `current`.
            pub fn compare_exchange_weak(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                self.compare_exchange(current, new, success, failure)
            }

            /// As in core, in one step; `change` must be a function of the value alone and touch
            /// no atomics (then the loop of load and `compare_exchange` that core makes of it can
            /// do nothing that one step cannot).
            ///
            /// # Errors
            /// The value found, if `change` returned `None`.
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                mut change: impl FnMut($int) -> Option<$int>,
            ) -> Result<$int, $int> {
                let mut changed = false;
                let seen = self.step(Call::FetchUpdate, |seen| {
                    let new = change(seen);
                    changed = new.is_some();
                    new
                });
                match seen {
                    Some(seen) if changed => Ok(seen),
                    Some(seen) => Err(seen),
                    None => self.0.fetch_update(set, fetch, change),
                }
            }

            atomic!(@fetch $int, fetch_add, wrapping_add);
            atomic!(@fetch $int, fetch_sub, wrapping_sub);
            atomic!(@fetch $int, fetch_and, bitand);
            atomic!(@fetch $int, fetch_or, bitor);
            atomic!(@fetch $int, fetch_xor, bitxor);
            atomic!(@fetch $int, fetch_max, max);
            atomic!(@fetch $int, fetch_min, min);
        }
    };
    (@fetch $int:ty, $method:ident, $change:ident) => {
        /// As in core.
        pub fn $method(&self, value: $int, order: Ordering) -> $int {
            #[allow(unused_imports)]
            use core::ops::{BitAnd, BitOr, BitXor};
            self.step(Call::Fetch(stringify!($method), value.into()), |v| Some(v.$change(value)))
                .unwrap_or_else(|| self.0.$method(value, order))
        }
    };
}

atomic!(AtomicU8, u8);
atomic!(AtomicU16, u16);
atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);
