//! The atomic types.

pub use core::sync::atomic::{Ordering, fence};

use crate::recorder::{step, wrote};

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

            /// As core's.
            pub fn load(&self, ordering: Ordering) -> $value {
                step();
                self.0.load(ordering)
            }

            /// As core's.
            pub fn store(&self, value: $value, ordering: Ordering) {
                step();
                let before = self.0.load(Ordering::Relaxed);
                self.0.store(value, ordering);
                self.wrote(before, value);
            }

            /// As core's.
            pub fn swap(&self, value: $value, ordering: Ordering) -> $value {
                step();
                let before = self.0.swap(value, ordering);
                self.wrote(before, value);
                before
            }

            /// As core's.
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                step();
                let before = self.0.compare_exchange(current, new, success, failure)?;
                self.wrote(before, new);
                Ok(before)
            }

            /// As core's.
            pub fn fetch_add(&self, value: $value, ordering: Ordering) -> $value {
                step();
                let before = self.0.fetch_add(value, ordering);
                self.wrote(before, before.wrapping_add(value));
                before
            }

            /// As core's.
            pub fn fetch_sub(&self, value: $value, ordering: Ordering) -> $value {
                step();
                let before = self.0.fetch_sub(value, ordering);
                self.wrote(before, before.wrapping_sub(value));
                before
            }

            /// As core's.
            pub fn fetch_or(&self, value: $value, ordering: Ordering) -> $value {
                step();
                let before = self.0.fetch_or(value, ordering);
                self.wrote(before, before | value);
                before
            }

            /// As core's.
            pub fn fetch_and(&self, value: $value, ordering: Ordering) -> $value {
                step();
                let before = self.0.fetch_and(value, ordering);
                self.wrote(before, before & value);
                before
            }

            /// As core's.
            pub const fn as_ptr(&self) -> *mut $value {
                self.0.as_ptr()
            }

            /// As core's.
            pub const fn into_inner(self) -> $value {
                self.0.into_inner()
            }

            fn wrote(&self, before: $value, after: $value) {
                if before != after {
                    wrote(self.as_ptr().addr(), u64::from(before), u64::from(after));
                }
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
