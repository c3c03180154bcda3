//! Lists of pages by a number, and which of them have one.
//!
//! ```text
//!   used     0   1   0   …   1
//!   lists    .   ▼   .       ▼
//!                page ⇄ page  page        linked through their descriptors
//! ```
//!
//! 1. A bit of `used` says that a list has a page.
//! 2. A page is on one list at most, and whoever has the lists says which.
//!
//! *Progress*: a bounded number of steps; the first list is found by a look at the words of `used`.

use crate::page::PageId;
use crate::pages::Pages;

/// Words of *used*.
const WORDS: usize = 4;

/// The lists with the numbers from 0 to `LISTS - 1`.
#[cfg_attr(woodlot_explore, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct Bins<const LISTS: usize> {
    /// One more than the first page; 0 for none.
    lists: [u32; LISTS],
    used: [u64; WORDS],
}

impl<const LISTS: usize> Bins<LISTS> {
    pub(crate) const fn new() -> Bins<LISTS> {
        const { assert!(LISTS <= WORDS * 64) };
        Bins { lists: [0; LISTS], used: [0; WORDS] }
    }

    /// The first list from this one on that has a page, and the page that it begins with.
    pub(crate) fn first(&self, from: usize) -> Option<(usize, PageId)> {
        let (word, below) = (from / 64, (1 << (from % 64)) - 1);
        let words = self.used.iter().enumerate().skip(word);
        let mut words =
            words.map(|(at, used)| (at, if at == word { used & !below } else { *used }));
        let (at, used) = words.find(|(_, used)| *used != 0)?;
        let list = at * 64 + used.trailing_zeros() as usize;
        self.lists.get(list)?.checked_sub(1).map(|page| (list, PageId(page)))
    }

    /// Puts a page on a list.
    pub(crate) fn push(&mut self, pages: &impl Pages, list: usize, page: PageId) {
        let Some((first, word)) = self.list(list) else { return };
        let next = first.checked_sub(1).map(PageId);
        pages.descriptor(page).set_links(None, next);
        if let Some(next) = next {
            let next = pages.descriptor(next);
            next.set_links(Some(page), next.links().1);
        }
        *first = page.0 + 1;
        *word |= 1 << (list % 64);
    }

    /// Takes a page from its list.
    pub(crate) fn remove(&mut self, pages: &impl Pages, list: usize, page: PageId) {
        let Some((first, word)) = self.list(list) else { return };
        let (before, behind) = pages.descriptor(page).links();
        match before {
            Some(before) => {
                let before = pages.descriptor(before);
                before.set_links(before.links().0, behind);
            }
            None => *first = behind.map_or(0, |page| page.0 + 1),
        }
        if let Some(behind) = behind {
            let behind = pages.descriptor(behind);
            behind.set_links(before, behind.links().1);
        }
        if *first == 0 {
            *word &= !(1 << (list % 64));
        }
    }

    fn list(&mut self, list: usize) -> Option<(&mut u32, &mut u64)> {
        Some((self.lists.get_mut(list)?, self.used.get_mut(list / 64)?))
    }
}
