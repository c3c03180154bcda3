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
use crate::list::List;
use crate::misuse::Misuse;
use crate::page::{Descriptor, Kind, PageId};
use crate::pages::Pages;
use crate::size::SizeId;

/// Takes `count` pages; fewer only if there are no more.
pub(crate) fn take<P: Pages>(
    counts: &mut CoalesceCounts,
    (pages, cpu): (&P, usize),
    id: SizeId,
    count: usize,
) -> List {
    let (mut list, mut room) = (List::EMPTY, [PageId(0); BATCH]);
    while list.len() < count
        && let Some(room) = room.get_mut(..BATCH.min(count - list.len()))
        && let Ok(some) = pages.alloc_some(room, cpu)
    {
        counts.splits += some as u64;
        for &page in room.iter().take(some) {
            // SAFETY: the page is this call's, and so is what its descriptor has for the lists.
            list = unsafe { list.push(pages.descriptor(page).set_whole(id, page)) };
        }
    }
    list
}

/// Puts pages back. One that is there twice is named.
///
/// # Safety
/// The list is the caller's, who gives it away.
pub(crate) unsafe fn put<P: Pages>(
    counts: &mut CoalesceCounts,
    (pages, cpu): (&P, usize),
    id: SizeId,
    mut list: List,
    misuse: &mut dyn FnMut(Misuse),
) {
    let (mut room, mut left) = ([PageId(0); BATCH], list.len());
    while left > 0 {
        let mut some = 0;
        for _ in 0..left.min(BATCH) {
            left -= 1;
            // SAFETY: the list is the caller's, and has descriptors of pages.
            let Some((token, rest)) = (unsafe { list.pop() }) else { break };
            list = rest;
            // SAFETY: as above; the page was not freed yet.
            let descriptor = unsafe { Descriptor::of_token(token) };
            let page = descriptor.page();
            match room.get_mut(some) {
                Some(place) if descriptor.unset_whole(id) => (*place, some) = (page, some + 1),
                _ => misuse(Misuse::DoubleFree(pages.address(page).as_ptr())),
            }
        }
        let room = room.get(..some).unwrap_or(&[]);
        counts.coalesces += some as u64;
        room.iter().for_each(|&page| pages.descriptor(page).set(Kind::None));
        // SAFETY: the pages were the caller's, and are on no list any more.
        unsafe { pages.free_some(room, cpu) };
    }
}
