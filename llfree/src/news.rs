//! News of free huge frames: who waits for some learns that one became free, without looking at the trees.
//!
//! ```text
//!   the news word, of the totals      2·n       nobody asked, or who asked was told
//!                                     2·n + 1   somebody asked
//! ```
//!
//! * *Ask*: make the number odd, then look at every state word by a read-modify-write, and count what is free.
//! * *Tell*: after a swap of a state word that makes a huge frame free, load the number. If it is odd, make it even.
//! * Who asked has news as soon as the number is another one.
//!
//! No news is missed. Let a swap make a huge frame free, in a state word at which the asking call looks. One of the two
//! writes to that word comes first. If it is the swap, the asking call counts what the swap has freed. If it is the
//! look, the swap acquires what the asking call did before: so the load that follows sees the odd number, or a later
//! one. This needs acquire and release, no more. A look by a plain load would not do: it may be older than the swap,
//! while the load is older than the asking.
//!
//! The number is in a line that is nearly always read only. So a free that makes a huge frame free pays a load and a
//! branch, and other frees nothing.
//!
//! *Progress*: wait-free.

use woodlot_frame::atomics::Ordering;
use woodlot_frame::{Geometry, Persistence};

use crate::LLFree;
use crate::init::TOTAL_NEWS;

/// What was asked for by [`LLFree::ask_for_news`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct News(pub(crate) u64);

impl<G: Geometry, P: Persistence> LLFree<'_, G, P> {
    /// Asks to be told when a huge frame becomes free. Returns what [`has_news`](Self::has_news) is to be asked with,
    /// and how many huge frames are free as a whole. Each that becomes free and is not counted is news. One that is
    /// counted may be news as well.
    ///
    /// Any number of callers may ask. Whoever has been told asks again. A huge frame whose free base frames a slot keeps
    /// for its next allocations is not free as a whole before the slot is [drained](woodlot_frame::FrameAllocator::drain).
    ///
    /// # Progress
    /// Lock-free; one write for each state word, of which a tree has two.
    pub fn ask_for_news(&self) -> (News, usize) {
        let number = self.total(TOTAL_NEWS).fetch_or(1, Ordering::AcqRel) | 1;
        let free = (0..self.trees.len()).map(|tree| self.lower.count_whole_in_order(tree)).sum();
        (News(number), free)
    }

    /// Has a huge frame become free since these news were asked for?
    ///
    /// # Progress
    /// Wait-free: a load.
    pub fn has_news(&self, news: News) -> bool {
        self.total(TOTAL_NEWS).load(Ordering::Acquire) != news.0
    }

    /// Has somebody asked, and was not told yet? Looked at after a huge frame became free.
    #[inline(always)]
    pub(crate) fn is_asked(&self) -> bool {
        self.total(TOTAL_NEWS).load(Ordering::Relaxed) & 1 != 0
    }

    /// Called after a huge frame became free.
    #[inline(always)]
    pub(crate) fn tell_freed(&self) {
        if self.is_asked() {
            self.tell();
        }
    }

    #[cold]
    fn tell(&self) {
        let word = self.total(TOTAL_NEWS);
        let number = word.load(Ordering::Relaxed);
        if number & 1 != 0 {
            let (told, relaxed) = (number.wrapping_add(1), Ordering::Relaxed);
            // It fails if another call has told it. Who has asked again since counts what is free now.
            let _ = word.compare_exchange(number, told, Ordering::AcqRel, relaxed);
        }
    }
}
