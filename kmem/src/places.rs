//! Where an allocator has its counters: for whoever reads its memory from outside, without a lock.
//!
//! ```text
//!   Kmem   … │ size 0 │ size 1 │ …            a counter of each size lies `stride` bytes behind that of the size before
//!            └ offset
//! ```
//!
//! A crash dump, a debugger and another process see the counters as they are, also while somebody has a lock. The
//! allocator does not know of it, and pays nothing.

/// Where a counter lies, for each size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// That of size 0, in bytes from the begin of the allocator.
    pub offset: usize,
    /// Bytes from one size to the next.
    pub stride: usize,
}

impl Place {
    /// A part of what lies there.
    pub(crate) const fn plus(self, offset: usize) -> Place {
        Place { offset: self.offset + offset, stride: self.stride }
    }
}

/// Where the parts of a [`Kmem`](crate::Kmem) lie, and its counters: those of [`GlobalCounts`](crate::GlobalCounts), what
/// the global layer has, and those of [`CoalesceCounts`](crate::CoalesceCounts).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Places {
    /// The caches of the CPUs: so many bytes behind the begin of the allocator.
    pub caches: usize,
    /// Where its pages come from: the same.
    pub pages: usize,
    /// `GlobalCounts::takes`, 64 bits.
    pub takes: Place,
    /// `GlobalCounts::take_misses`, 64 bits.
    pub take_misses: Place,
    /// `GlobalCounts::puts`, 64 bits.
    pub puts: Place,
    /// `GlobalCounts::put_misses`, 64 bits.
    pub put_misses: Place,
    /// Full lists in the global layer, as wide as an address.
    pub lists: Place,
    /// The word of the global layer's bucket, a [`List`](crate::List).
    pub bucket: Place,
    /// `CoalesceCounts::splits`, 64 bits.
    pub splits: Place,
    /// `CoalesceCounts::coalesces`, 64 bits.
    pub coalesces: Place,
    /// `CoalesceCounts::free`, as wide as an address.
    pub free: Place,
}
