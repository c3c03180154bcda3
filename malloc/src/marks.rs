//! Where blocks in use begin, if they are marked: in the checking profile (the feature `checked`).
//!
//! ```text
//!   range   │ marks of page 0 │ of page 1 │ …        32 bytes for each page of the heap's range of addresses
//! ```
//!
//! 1. The range is reserved with the first segment, and mapped as far as segments are open. It has memory where blocks are.

use core::ptr;

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_kmem::{Marks, PageId};

use crate::system;

/// Are blocks in use marked?
pub(crate) const CHECKED: bool = cfg!(feature = "checked");

/// The address of the marks of page 0. 0: there are none.
static FIRST: AtomicU64 = AtomicU64::new(0);

/// Gets marks for so many pages from the first one of a segment on, of a range that has so many. False: the system has no
/// memory for them. One call at a time.
pub(crate) fn open(first: usize, pages: usize, all: usize) -> bool {
    if !CHECKED {
        return true;
    }
    if FIRST.load(Ordering::Relaxed) == 0 {
        let Some(range) = system::reserve(all * size_of::<Marks>()) else { return false };
        FIRST.store(range.as_ptr().expose_provenance() as u64, Ordering::Relaxed);
    }
    // SAFETY: the range has marks for all pages, and these are those of a segment that is not open yet.
    unsafe { system::allow(of(first).cast(), pages * size_of::<Marks>()) }
}

/// The marks of a page, which lie in a range that is reserved.
fn of(page: usize) -> ptr::NonNull<Marks> {
    let first = FIRST.load(Ordering::Relaxed) as usize;
    let marks = ptr::with_exposed_provenance_mut(first + page * size_of::<Marks>());
    // SAFETY: no range begins at 0.
    unsafe { ptr::NonNull::new_unchecked(marks) }
}

/// The marks of a page that was found, which lies in an open segment.
pub(crate) fn of_found(page: PageId) -> Option<&'static Marks> {
    // SAFETY: whoever has found the page has seen its segment open, for which the marks were mapped; zeros are marks.
    CHECKED.then(|| unsafe { of(page.0 as usize).as_ref() })
}
