//! The page array: 64 bytes for each frame, of which an allocator uses twelve.
//!
//! ```text
//!   ┌──────┬──────┬───────┬─ 52 bytes of what a kernel keeps there ─┐
//!   │ next │ prev │ state │                                         │ × frames, then list heads
//!   └──────┴──────┴───────┴─────────────────────────────────────────┘
//! ```
//!
//! The heads of doubly linked lists are entries of the same array behind the frames, so that a list
//! is a ring and neither insertion nor removal has a branch (Linux's `list_head`). Links are
//! indices of 32 bits: less to load than Linux's pointers, never more.
//!
//! Invariants:
//! 1. The array has `len` entries, is valid and initialised for as long as the allocator lives, and
//!    nobody else uses it (the promise of `Construct::construct`).
//! 2. Every link that is followed, and every index given to [`Pages::at`], is below `len`.

use std::ptr::NonNull;

use woodlot_frame::atomics::{AtomicU32, Ordering::Relaxed};

/// What one frame's entry holds.
#[repr(C, align(64))]
pub(crate) struct Page {
    next: AtomicU32,
    prev: AtomicU32,
    /// Who writes it and what it means is the allocator's matter.
    pub(crate) state: AtomicU32,
}

const _: () = assert!(size_of::<Page>() == 64);

impl Page {
    #[inline(always)]
    pub(crate) fn next(&self) -> u32 {
        self.next.load(Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set_next(&self, next: u32) {
        self.next.store(next, Relaxed);
    }

    #[inline(always)]
    pub(crate) fn prev(&self) -> u32 {
        self.prev.load(Relaxed)
    }

    #[inline(always)]
    pub(crate) fn state(&self) -> u32 {
        self.state.load(Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set_state(&self, state: u32) {
        self.state.store(state, Relaxed);
    }
}

/// The page array.
pub(crate) struct Pages {
    first: NonNull<Page>,
    len: usize,
}

// SAFETY: a `Pages` is a shared slice of atomics (invariant 1).
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// # Safety
    /// Invariant 1 holds for the `len` entries at `first`.
    pub(crate) unsafe fn new(first: NonNull<Page>, len: usize) -> Self {
        Self { first, len }
    }

    #[inline(always)]
    pub(crate) fn at(&self, index: u32) -> &Page {
        debug_assert!((index as usize) < self.len, "page {index} of {}", self.len);
        // SAFETY: the entry exists (invariant 2) and is valid (invariant 1).
        unsafe { self.first.add(index as usize).as_ref() }
    }

    /// Makes the list at `head` empty.
    pub(crate) fn clear(&self, head: u32) {
        self.link(head, head);
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self, head: u32) -> bool {
        self.at(head).next() == head
    }

    #[inline(always)]
    fn link(&self, before: u32, after: u32) {
        self.at(before).next.store(after, Relaxed);
        self.at(after).prev.store(before, Relaxed);
    }

    /// Puts a page that is in no list in front.
    #[inline(always)]
    pub(crate) fn push_front(&self, head: u32, page: u32) {
        let second = self.at(head).next();
        self.link(page, second);
        self.link(head, page);
    }

    /// Puts a page that is in no list at the end.
    #[inline(always)]
    pub(crate) fn push_back(&self, head: u32, page: u32) {
        let last = self.at(head).prev();
        self.link(last, page);
        self.link(page, head);
    }

    /// Puts many pages at the end.
    #[inline(always)]
    pub(crate) fn append(&self, head: u32) -> Append<'_> {
        Append { pages: self, head, last: self.at(head).prev() }
    }

    /// Takes many pages from the end.
    #[inline(always)]
    pub(crate) fn pop_back(&self, head: u32) -> PopBack<'_> {
        PopBack { pages: self, head, last: self.at(head).prev() }
    }

    /// Takes a page out of the list that it is in, whichever that is.
    #[inline(always)]
    pub(crate) fn remove(&self, page: u32) {
        let entry = self.at(page);
        self.link(entry.prev(), entry.next());
    }
}

/// Puts pages at the end of a list, which is whole again when this is dropped.
pub(crate) struct Append<'a> {
    pages: &'a Pages,
    head: u32,
    last: u32,
}

impl Append<'_> {
    #[inline(always)]
    pub(crate) fn push(&mut self, page: u32) {
        self.pages.link(self.last, page);
        self.last = page;
    }
}

impl Drop for Append<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.pages.link(self.last, self.head);
    }
}

/// Takes pages from the end of a list, which is whole again when this is dropped.
pub(crate) struct PopBack<'a> {
    pages: &'a Pages,
    head: u32,
    last: u32,
}

impl Iterator for PopBack<'_> {
    type Item = u32;

    /// The page may be put into another list.
    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        let page = self.last;
        if page == self.head {
            return None;
        }
        self.last = self.pages.at(page).prev();
        Some(page)
    }
}

impl Drop for PopBack<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.pages.link(self.last, self.head);
    }
}

/// Cuts arrays of whole cache lines out of a piece of memory, one behind the other.
pub(crate) struct Carver {
    at: *mut u8,
}

impl Carver {
    /// From `at` on, which is aligned to a cache line and not null.
    pub(crate) fn new(at: *mut u8) -> Self {
        Self { at }
    }

    /// The next `count` values of `T`, which must lie in the memory.
    pub(crate) fn take<T>(&mut self, count: usize) -> NonNull<T> {
        let start = self.at.cast::<T>();
        self.at = self.at.wrapping_add(bytes_of::<T>(count));
        NonNull::new(start).expect("metadata is not at address zero")
    }
}

/// What [`Carver::take`] uses up for `count` values: whole cache lines.
pub(crate) const fn bytes_of<T>(count: usize) -> usize {
    (count * size_of::<T>()).next_multiple_of(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(pages: &Pages, head: u32) -> Vec<u32> {
        let next = |&page: &u32| Some(pages.at(page).next()).filter(|&next| next != head);
        let forward: Vec<_> = std::iter::successors(next(&head), next).collect();
        let prev = |&page: &u32| Some(pages.at(page).prev()).filter(|&prev| prev != head);
        let mut backward: Vec<_> = std::iter::successors(prev(&head), prev).collect();
        backward.reverse();
        assert_eq!(forward, backward);
        forward
    }

    #[test]
    fn lists_are_rings() {
        let page = || Page { next: 0.into(), prev: 0.into(), state: 0.into() };
        let mut memory: Vec<Page> = (0..6).map(|_| page()).collect();
        let first = NonNull::new(memory.as_mut_ptr()).expect("a vector is not at zero");
        // SAFETY: the vector outlives `pages` and nothing else uses it.
        let pages = unsafe { Pages::new(first, memory.len()) };
        pages.clear(5);
        assert!(pages.is_empty(5));
        pages.push_front(5, 1);
        pages.push_back(5, 2);
        pages.push_front(5, 0);
        assert_eq!(contents(&pages, 5), [0, 1, 2]);
        pages.remove(1);
        assert_eq!(contents(&pages, 5), [0, 2]);
        let mut end = pages.append(5);
        [3, 4].into_iter().for_each(|page| end.push(page));
        drop(end);
        assert_eq!(contents(&pages, 5), [0, 2, 3, 4]);
        assert_eq!(pages.pop_back(5).take(3).collect::<Vec<_>>(), [4, 3, 2]);
        assert_eq!(contents(&pages, 5), [0]);
        pages.remove(0);
        assert!(pages.is_empty(5));
    }
}
