//! Single pages on their way between this allocator and where they come from, many at a time.

use crate::frames::BATCH;
use crate::page::{Kind, PageId};
use crate::pages::{NoPages, Pages};

/// Room for such pages, and those that are there.
pub(crate) struct Batch {
    pages: [PageId; BATCH],
    count: usize,
}

impl Batch {
    pub(crate) const fn new() -> Batch {
        Batch { pages: [PageId(0); BATCH], count: 0 }
    }

    /// The pages, in the order of their coming.
    pub(crate) fn pages(&self) -> &[PageId] {
        self.pages.get(..self.count).unwrap_or(&[])
    }

    /// Gets up to so many pages into an empty batch, and no more than it has room for.
    ///
    /// # Errors
    /// There are none.
    pub(crate) fn alloc<P: Pages>(
        &mut self,
        (pages, cpu): (&P, usize),
        most: usize,
    ) -> Result<(), NoPages> {
        let room = self.pages.get_mut(..most.min(BATCH)).ok_or(NoPages)?;
        self.count = pages.alloc_some(room, cpu)?;
        Ok(())
    }

    /// Adds a page. One that there is no room for is not.
    pub(crate) fn push(&mut self, page: PageId) {
        if let Some(place) = self.pages.get_mut(self.count) {
            *place = page;
            self.count += 1;
        }
    }

    /// Is there no room for more?
    pub(crate) fn is_full(&self) -> bool {
        self.count == BATCH
    }

    /// Frees the pages, which nothing is known of any more.
    ///
    /// # Safety
    /// They were handed out each by itself, and nobody uses them any more.
    pub(crate) unsafe fn free<P: Pages>(&mut self, (pages, cpu): (&P, usize)) {
        self.pages().iter().for_each(|&page| pages.descriptor(page).set(Kind::None));
        // SAFETY: as the caller says.
        unsafe { pages.free_some(self.pages(), cpu) };
        self.count = 0;
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_room_for_so_many_pages() {
        let mut batch = Batch::new();
        for page in 0..BATCH as u32 {
            assert!(!batch.is_full() && batch.pages().len() == page as usize);
            batch.push(PageId(page));
        }
        batch.push(PageId(77));
        assert!(batch.is_full() && batch.pages().len() == BATCH);
        assert!(batch.pages().iter().zip(0..).all(|(&page, number)| page == PageId(number)));
    }
}
