//! The coalesce-to-page layer of blocks that are a page each: there is nothing to coalesce.
//!
//! ```text
//!   list   descriptor ─► descriptor ─► …            pages come and go in batches; none of them is touched
//! ```
//!
//! 1. A page in a list is described as a slab of its size. One that is freed is not, before it is.
//!
//! *Progress*: a bounded number of steps for each block.

use crate::batch::Batch;
use crate::coalesce::CoalesceCounts;
use crate::list::List;
use crate::lot::Lot;
use crate::misuse::Misuse;
use crate::page::Descriptor;
use crate::pages::Pages;
use crate::size::SizeId;

/// Takes pages for a list of `target`; fewer only if there are no more.
pub(crate) fn take<P: Pages>(
    counts: &mut CoalesceCounts,
    from: (&P, usize),
    id: SizeId,
    target: usize,
) -> Lot {
    let (mut list, mut batch) = (List::EMPTY, Batch::new());
    while list.len() < target && batch.alloc(from, target - list.len()).is_ok() {
        counts.splits += batch.pages().len() as u64;
        // The first one is handed out first.
        for &page in batch.pages().iter().rev() {
            // SAFETY: the page is this call's, and so is what its descriptor has for the lists.
            list = unsafe { list.push(from.0.descriptor(page).set_whole(id, page)) };
        }
    }
    Lot::linked(list)
}

/// Puts pages back. One that is there twice is named.
///
/// # Safety
/// The lists are the caller's, who gives them away.
pub(crate) unsafe fn put<P: Pages>(
    counts: &mut CoalesceCounts,
    to: (&P, usize),
    id: SizeId,
    lists: impl Iterator<Item = List>,
    misuse: &mut dyn FnMut(Misuse),
) {
    let mut batch = Batch::new();
    for mut list in lists {
        for _ in 0..list.len() {
            // SAFETY: the list is the caller's, and has descriptors of pages.
            let Some((token, rest)) = (unsafe { list.pop() }) else { break };
            list = rest;
            // SAFETY: as above; the page was not freed yet.
            let descriptor = unsafe { Descriptor::of_token(token) };
            let page = descriptor.page();
            if !descriptor.unset_whole(id) {
                misuse(Misuse::DoubleFree(to.0.address(page).as_ptr()));
                continue;
            }
            counts.coalesces += 1;
            batch.push(page);
            if batch.is_full() {
                // SAFETY: the pages were popped.
                unsafe { batch.free(to) };
            }
        }
    }
    // SAFETY: as above.
    unsafe { batch.free(to) };
}
