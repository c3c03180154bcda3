//! The coalesce-to-page layer of blocks that are a page each: there is nothing to coalesce.
//!
//! ```text
//!   list   descriptor ─► descriptor ─► …            pages come and go in batches; none of them is touched
//! ```
//!
//! 1. A page in a list is described as a slab of its size. One that is freed is not, before it is.
//!
//! *Progress*: a bounded number of steps for each block.

use crate::coalesce::CoalesceCounts;
use crate::frames::BATCH;
use crate::global::Lists;
use crate::list::List;
use crate::misuse::Misuse;
use crate::page::{Descriptor, Kind, PageId};
use crate::pages::Pages;
use crate::size::SizeId;

/// Takes pages for so many lists of `target`; fewer only if there are no more.
pub(crate) fn take<P: Pages>(
    counts: &mut CoalesceCounts,
    (pages, cpu): (&P, usize),
    id: SizeId,
    (most, target): (usize, usize),
) -> Lists {
    let (mut lists, mut list) = (Lists::new(), List::EMPTY);
    let (mut room, mut left) = ([PageId(0); BATCH], most * target);
    while left > 0
        && let Some(room) = room.get_mut(..BATCH.min(left))
        && let Ok(some) = pages.alloc_some(room, cpu)
    {
        counts.splits += some as u64;
        left -= some;
        for &page in room.iter().take(some) {
            // SAFETY: the page is this call's, and so is what its descriptor has for the lists.
            list = unsafe { list.push(pages.descriptor(page).set_whole(id, page)) };
            if list.len() == target {
                lists.push(core::mem::take(&mut list));
            }
        }
    }
    lists.push(list);
    lists
}

/// Pages that are about to be freed.
struct Batch {
    pages: [PageId; BATCH],
    count: usize,
}

impl Batch {
    /// # Safety
    /// The pages are the caller's, and on no list any more.
    unsafe fn free<P: Pages>(&mut self, counts: &mut CoalesceCounts, (pages, cpu): (&P, usize)) {
        let batch = self.pages.get(..self.count).unwrap_or(&[]);
        counts.coalesces += batch.len() as u64;
        batch.iter().for_each(|&page| pages.descriptor(page).set(Kind::None));
        // SAFETY: as the caller says.
        unsafe { pages.free_some(batch, cpu) };
        self.count = 0;
    }
}

/// Puts pages back. One that is there twice is named.
///
/// # Safety
/// The lists are the caller's, who gives them away.
pub(crate) unsafe fn put<P: Pages>(
    counts: &mut CoalesceCounts,
    (pages, cpu): (&P, usize),
    id: SizeId,
    lists: &Lists,
    misuse: &mut dyn FnMut(Misuse),
) {
    let mut batch = Batch { pages: [PageId(0); BATCH], count: 0 };
    for mut list in lists.iter() {
        for _ in 0..list.len() {
            // SAFETY: the list is the caller's, and has descriptors of pages.
            let Some((token, rest)) = (unsafe { list.pop() }) else { break };
            list = rest;
            // SAFETY: as above; the page was not freed yet.
            let descriptor = unsafe { Descriptor::of_token(token) };
            let page = descriptor.page();
            if !descriptor.unset_whole(id) {
                misuse(Misuse::DoubleFree(pages.address(page).as_ptr()));
            } else if let Some(place) = batch.pages.get_mut(batch.count) {
                *place = page;
                batch.count += 1;
            }
            if batch.count == BATCH {
                // SAFETY: the pages were popped.
                unsafe { batch.free(counts, (pages, cpu)) };
            }
        }
    }
    // SAFETY: as above.
    unsafe { batch.free(counts, (pages, cpu)) };
}
