//! A cache line of its own, for words that different CPUs write.

use core::ops::Deref;

/// `T` in a cache line that it shares with nothing.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Line<T>(pub T);

impl<T> Deref for Line<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
