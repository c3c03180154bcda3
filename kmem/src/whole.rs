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
use crate::global::Lists;
use crate::list::List;
use crate::lot::Lot;
use crate::misuse::Misuse;
use crate::page::Descriptor;
use crate::pages::Pages;
use crate::size::SizeId;

/// Takes pages for so many lists of `target`; fewer only if there are no more. The first page is handed out first.
pub(crate) fn take<P: Pages>(
    counts: &mut CoalesceCounts,
    from: (&P, usize),
    id: SizeId,
    (most, target): (usize, usize),
    lists: &mut Lists,
) {
    let (mut list, mut batch) = (List::EMPTY, Batch::new());
    let mut left = most * target;
    while left > 0 && batch.alloc(from, left).is_ok() {
        let mut some = batch.pages();
        counts.splits += some.len() as u64;
        left -= some.len().min(left);
        while !some.is_empty() {
            let (now, behind) = some.split_at(some.len().min(target - list.len()));
            for &page in now.iter().rev() {
                // SAFETY: the page is this call's, and so is what its descriptor has for the lists.
                list = unsafe { list.push(from.0.descriptor(page).set_whole(id, page)) };
            }
            if list.len() == target {
                lists.push(Lot::linked(core::mem::take(&mut list)));
            }
            some = behind;
        }
    }
    lists.push(Lot::linked(list));
}

/// Puts pages back. One that is there twice is named.
///
/// # Safety
/// The lists are the caller's, who gives them away.
pub(crate) unsafe fn put<P: Pages>(
    counts: &mut CoalesceCounts,
    to: (&P, usize),
    id: SizeId,
    lists: &Lists,
    misuse: &mut dyn FnMut(Misuse),
) {
    let mut batch = Batch::new();
    for lot in lists.iter() {
        let mut list = lot.list();
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
