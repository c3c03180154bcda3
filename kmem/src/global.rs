//! The global layer: full lists of blocks, on their way from CPUs that free to CPUs that allocate.
//!
//! ```text
//!   full     list ─► list ─► list         each has `target` blocks; up to 2 · GLOBAL_TARGET of them
//!             │       │       │
//!             block   block   block ─► …
//!   bucket   a list of fewer blocks, which regroups what comes in odd numbers
//! ```
//!
//! 1. Each list of `full` has `target` blocks, and `lists` counts them.
//! 2. The bucket has fewer than `target`.
//!
//! Section 3.3.2 and figure 3 of the paper. *Progress*: a bounded number of steps for each call; an odd list costs as
//! many as it has blocks.

use crate::list::List;

/// Lists that come from the layer below, or go there, at a time: the paper's `gbltarget`. The layer keeps up to twice
/// as many.
pub const GLOBAL_TARGET: usize = 15;

/// The full lists of one size of blocks.
#[derive(Default)]
pub(crate) struct Global {
    full: List,
    lists: usize,
    bucket: List,
    counts: GlobalCounts,
}

/// What the global layer of one size has done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GlobalCounts {
    /// Lists that a CPU asked for.
    pub takes: u64,
    /// Of these, times that there was none, and the layer below was asked.
    pub take_misses: u64,
    /// Lists that came from a CPU.
    pub puts: u64,
    /// Of these, times that there were too many, and lists went to the layer below.
    pub put_misses: u64,
}

impl Global {
    pub(crate) const fn new() -> Global {
        Global {
            full: List::EMPTY,
            lists: 0,
            bucket: List::EMPTY,
            counts: GlobalCounts { takes: 0, take_misses: 0, puts: 0, put_misses: 0 },
        }
    }

    /// A list, for a CPU that has none: a full one; else what the bucket has. Empty if there is nothing.
    pub(crate) fn take(&mut self) -> List {
        self.counts.takes += 1;
        let list = self.take_any();
        self.counts.take_misses += u64::from(list.is_empty());
        list
    }

    fn take_any(&mut self) -> List {
        if self.full.is_empty() {
            return core::mem::take(&mut self.bucket);
        }
        self.lists -= 1;
        // SAFETY: the lists of `full` are this layer's, and each was given a next one.
        let next = unsafe { self.full.next() };
        core::mem::replace(&mut self.full, next)
    }

    /// Puts a list of up to `target` blocks. Returns what is too much: lists of which each leads to the next.
    ///
    /// # Safety
    /// The caller has the list, and gives it away.
    pub(crate) unsafe fn put(&mut self, list: List, target: usize) -> Chain {
        self.counts.puts += 1;
        // SAFETY: as the caller says.
        let excess = unsafe { self.fill(list, target) };
        self.counts.put_misses += u64::from(!excess.is_empty());
        excess
    }

    /// The same for a list that comes from the layer below. When CPUs have filled this one at the same time, there are
    /// too many as well.
    ///
    /// # Safety
    /// As for [`put`](Self::put).
    pub(crate) unsafe fn fill(&mut self, list: List, target: usize) -> Chain {
        // SAFETY: as the caller says.
        unsafe { self.regroup(list, target) };
        if self.lists <= 2 * GLOBAL_TARGET { Chain::EMPTY } else { self.split(GLOBAL_TARGET) }
    }

    /// # Safety
    /// As for [`put`](Self::put).
    unsafe fn regroup(&mut self, mut list: List, target: usize) {
        if list.len() == target {
            // SAFETY: the list is this layer's from now on.
            return unsafe { self.put_full(list) };
        }
        // SAFETY: the list is the caller's, who gives it away, and each block of it goes into the bucket, which has fewer
        // than `target` blocks (invariant 2).
        unsafe {
            while let Some((block, rest)) = list.pop() {
                list = rest;
                self.bucket = self.bucket.push(block);
                if self.bucket.len() == target {
                    let full = core::mem::take(&mut self.bucket);
                    self.put_full(full);
                }
            }
        }
    }

    /// # Safety
    /// The list has `target` blocks, and is this layer's.
    unsafe fn put_full(&mut self, list: List) {
        // SAFETY: as the caller says.
        unsafe { list.set_next(self.full) };
        self.full = list;
        self.lists += 1;
    }

    /// Takes up to so many full lists.
    fn split(&mut self, most: usize) -> Chain {
        let chain = self.full;
        let mut last = List::EMPTY;
        for _ in 0..most {
            if self.full.is_empty() {
                break;
            }
            last = self.full;
            self.lists -= 1;
            // SAFETY: the lists of `full` are this layer's, and each was given a next one.
            self.full = unsafe { last.next() };
        }
        if !last.is_empty() {
            // SAFETY: it was this layer's until now.
            unsafe { last.set_next(List::EMPTY) };
        }
        Chain(chain)
    }

    /// Takes all there is, the bucket too.
    pub(crate) fn take_all(&mut self) -> (Chain, List) {
        (self.split(usize::MAX), core::mem::take(&mut self.bucket))
    }

    pub(crate) fn counts(&self) -> GlobalCounts {
        self.counts
    }

    /// Blocks that are here.
    pub(crate) fn blocks(&self, target: usize) -> usize {
        self.lists * target + self.bucket.len()
    }
}

/// Lists of which each leads to the next.
pub(crate) struct Chain(List);

impl Chain {
    pub(crate) const EMPTY: Chain = Chain(List::EMPTY);

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next list. It is the caller's.
    pub(crate) fn pop(&mut self) -> Option<List> {
        if self.0.is_empty() {
            return None;
        }
        let list = self.0;
        // SAFETY: the lists of a chain belong to it, and each was given a next one.
        self.0 = unsafe { list.next() };
        Some(list)
    }
}
