//! What a clock has seen: so what nobody has used since is found without a mark at each use.
//!
//! ```text
//!   size     0      1      2      …
//!   sign     0      s      t      …       of the lists of a CPU, or of the global layer: 0, there was nothing
//! ```
//!
//! *Progress*: wait-free.

use crate::size::{MAX_SIZES, SizeId};

/// The lists of one CPU, or of the global layer, as they were when [`flush_unused`](crate::Kmem::flush_unused) or
/// [`flush_unused_global`](crate::Kmem::flush_unused_global) looked last. Of one allocator, and of one CPU.
#[repr(transparent)]
pub struct Seen([u64; MAX_SIZES]);

impl Seen {
    /// Nothing was seen yet.
    pub const fn new() -> Seen {
        Seen([0; MAX_SIZES])
    }

    /// Sees a sign of a size. True: there is something, and it is as it was.
    pub(crate) fn see(&mut self, id: SizeId, sign: u64) -> bool {
        let Some(seen) = self.0.get_mut(id.index()) else { return false };
        let is_unused = sign != 0 && *seen == sign;
        *seen = sign;
        is_unused
    }
}

impl Default for Seen {
    fn default() -> Seen {
        Seen::new()
    }
}
