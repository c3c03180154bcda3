//! The coalesce-to-page layer: slabs of blocks of one size, and which have how many free.
//!
//! ```text
//!   lists     0      1      2      …      n - 1         of slabs with so many free blocks; none for 0
//!             .      ▼      .             ▼
//!                    slab ⇄ slab          slab          linked through their page descriptors
//! ```
//!
//! 1. A slab of which some blocks are free and some are not is on the list of its free count.
//! 2. A slab without a free block is on no list. A slab without a used one is freed at once.
//! 3. Allocation takes from the slab with the fewest free blocks, so that those with few used ones have time to lose
//!    them (section 3.3.3).
//!
//! *Progress*: bounded; a list costs as many steps as it has blocks, and a slab is found by a look at four words.

use core::ptr::NonNull;

use crate::bins::Bins;
use crate::found::{Found, look};
use crate::list::List;
use crate::misuse::Misuse;
use crate::page::{Counts, Descriptor, Kind, PageId};
use crate::pages::{NoPages, Pages};
use crate::size::{PAGE, Size, SizeId};
use crate::word;

/// The most blocks of a slab: of 16 bytes, in one page.
const MAX_SLAB: usize = PAGE / 16;
/// *head* and *fresh* count so many bytes.
const GRAIN: usize = 16;

/// The slabs of one size.
#[cfg_attr(woodlot_explore, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct Coalesce {
    /// By the number of their free blocks.
    slabs: Bins<MAX_SLAB>,
    counts: CoalesceCounts,
}

/// What the coalesce-to-page layer of one size has done, and what it has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct CoalesceCounts {
    /// Slabs that were made of pages: the paper's splits.
    pub splits: u64,
    /// Slabs all of whose blocks were free, and whose pages were freed.
    pub coalesces: u64,
    /// Free blocks in slabs.
    pub free: usize,
}

impl CoalesceCounts {
    /// Slabs that there are.
    pub fn slabs(&self) -> usize {
        (self.splits - self.coalesces) as usize
    }
}

/// A slab in the hands of the layer.
struct Slab<'a, P> {
    pages: &'a P,
    first: PageId,
    descriptor: &'a Descriptor,
    counts: Counts,
}

impl Coalesce {
    pub(crate) const fn new() -> Coalesce {
        Coalesce { slabs: Bins::new(), counts: CoalesceCounts { splits: 0, coalesces: 0, free: 0 } }
    }

    pub(crate) fn counts(&self) -> CoalesceCounts {
        self.counts
    }

    /// Takes `count` blocks; fewer only if there are no more pages.
    pub(crate) fn take<P: Pages>(
        &mut self,
        pages: &P,
        (id, size): (SizeId, &Size),
        count: usize,
        cpu: usize,
    ) -> List {
        let mut list = List::EMPTY;
        while list.len() < count {
            let Ok(mut slab) = self.slab(pages, (id, size), cpu) else { break };
            let before = slab.counts.free;
            list = slab.take(list, size, count - list.len());
            self.counts.free -= usize::from(before - slab.counts.free);
            slab.write();
            self.link(&slab);
        }
        list
    }

    /// Puts the blocks back into their slabs. What is not a block of such a slab is left where it is, and named.
    ///
    /// Blocks that were freed one after another lie in few slabs. So a slab stays in hand, on no list, until a block of
    /// another one comes.
    ///
    /// # Safety
    /// The list is the caller's, who gives it away.
    pub(crate) unsafe fn put<P: Pages>(
        &mut self,
        pages: &P,
        (id, size): (SizeId, &Size),
        mut list: List,
        cpu: usize,
        misuse: &mut dyn FnMut(Misuse),
    ) {
        let mut hand: Option<Slab<'_, P>> = None;
        // SAFETY: the list is the caller's; each block is popped before anything is written to it.
        while let Some((block, rest)) = unsafe { list.pop() } {
            list = rest;
            let offset = hand.as_ref().and_then(|slab| slab.offset(block, size));
            let (mut slab, offset) = match (hand.take(), offset) {
                (Some(slab), Some(offset)) => (slab, offset),
                (other, _) => {
                    self.lay_down(other, size, cpu);
                    match find_slab(pages, id, block) {
                        Ok((slab, offset)) => {
                            self.unlink(&slab);
                            (slab, offset)
                        }
                        Err(wrong) => {
                            misuse(wrong);
                            continue;
                        }
                    }
                }
            };
            match slab.check(block, offset, size) {
                // SAFETY: the block is the caller's, and one of this slab that is not free.
                Ok(()) => unsafe { slab.put(block, offset) },
                Err(wrong) => misuse(wrong),
            }
            hand = Some(slab);
        }
        self.lay_down(hand, size, cpu);
    }

    /// Puts a slab on the list of its free count. One whose blocks are all free is freed.
    fn lay_down<P: Pages>(&mut self, slab: Option<Slab<'_, P>>, size: &Size, cpu: usize) {
        let Some(slab) = slab else { return };
        self.counts.free += usize::from(slab.counts.free - slab.descriptor.counts().free);
        if usize::from(slab.counts.free) < size.blocks {
            slab.write();
            return self.link(&slab);
        }
        self.counts.free -= size.blocks;
        self.counts.coalesces += 1;
        let (pages, first, count) = (slab.pages, slab.first, size.pages());
        for page in (0..count).map(|page| first.plus(page)) {
            pages.descriptor(page).set(Kind::None);
        }
        // SAFETY: all blocks of the slab are free, and on no list any more.
        unsafe { pages.free(first, count, cpu) };
    }

    /// The slab with the fewest free blocks, or a new one; it is on no list.
    fn slab<'a, P: Pages>(
        &mut self,
        pages: &'a P,
        (id, size): (SizeId, &Size),
        cpu: usize,
    ) -> Result<Slab<'a, P>, NoPages> {
        if let Some((_, first)) = self.slabs.first(0) {
            let slab = Slab::of(pages, first);
            self.unlink(&slab);
            return Ok(slab);
        }
        let count = size.pages();
        let first = pages.alloc(count, PAGE, cpu)?;
        for page in (1..count).map(|page| first.plus(page)) {
            pages.descriptor(page).set(Kind::Inside(first));
        }
        pages.descriptor(first).set(Kind::Slab(id));
        self.counts.splits += 1;
        self.counts.free += size.blocks;
        let counts = Counts { free: size.blocks as u16, head: 0, fresh: 0 };
        Ok(Slab { counts, ..Slab::of(pages, first) })
    }

    /// Puts a slab on the list of its free count, if it has free blocks.
    fn link<P: Pages>(&mut self, slab: &Slab<'_, P>) {
        if slab.counts.free != 0 {
            self.slabs.push(slab.pages, usize::from(slab.counts.free), slab.first);
        }
    }

    /// Takes a slab from its list, if it is on one.
    fn unlink<P: Pages>(&mut self, slab: &Slab<'_, P>) {
        if slab.counts.free != 0 {
            self.slabs.remove(slab.pages, usize::from(slab.counts.free), slab.first);
        }
    }
}

/// The slab of a block that is being freed, and the offset there.
fn find_slab<P: Pages>(
    pages: &P,
    id: SizeId,
    block: NonNull<u8>,
) -> Result<(Slab<'_, P>, usize), Misuse> {
    match look(pages, block.as_ptr()) {
        Some((Found::Slab(first, found), offset)) if found == id => {
            Ok((Slab::of(pages, first), offset))
        }
        Some(_) => Err(Misuse::WrongSize(block.as_ptr())),
        None => Err(Misuse::Foreign(block.as_ptr())),
    }
}

impl<'a, P: Pages> Slab<'a, P> {
    fn of(pages: &'a P, first: PageId) -> Slab<'a, P> {
        let descriptor = pages.descriptor(first);
        Slab { pages, first, descriptor, counts: descriptor.counts() }
    }

    /// Where the block lies, if it lies in this slab.
    fn offset(&self, block: NonNull<u8>, size: &Size) -> Option<usize> {
        let start = self.pages.address(self.first).as_ptr().addr();
        let offset = block.as_ptr().addr().wrapping_sub(start);
        (offset < size.pages() * PAGE).then_some(offset)
    }

    /// Could a block that lies there be freed?
    fn check(&self, block: NonNull<u8>, offset: usize, size: &Size) -> Result<(), Misuse> {
        if !size.is_block(offset) {
            return Err(Misuse::Interior(block.as_ptr()));
        }
        let is_used = usize::from(self.counts.free) < size.blocks
            && offset < usize::from(self.counts.fresh) * GRAIN;
        if is_used { Ok(()) } else { Err(Misuse::DoubleFree(block.as_ptr())) }
    }

    fn write(&self) {
        self.descriptor.set_counts(self.counts);
    }

    /// Takes up to `count` blocks onto a list: what was freed before, then fresh ones.
    fn take(&mut self, mut list: List, size: &Size, count: usize) -> List {
        let (start, counts) = (self.pages.address(self.first), &mut self.counts);
        for _ in 0..count.min(usize::from(counts.free)) {
            let place = counts.head.checked_sub(1).unwrap_or(counts.fresh);
            // SAFETY: the offset is one of a free block of the slab (invariant 3 of the descriptors), which is this layer's;
            // a block that was freed holds the next one's place.
            unsafe {
                let block = start.add(usize::from(place) * GRAIN);
                match counts.head {
                    0 => counts.fresh += (size.bytes / GRAIN) as u16,
                    _ => counts.head = word::read(block.as_ptr().cast()) as u16,
                }
                list = list.push(block);
            }
            counts.free -= 1;
        }
        list
    }

    /// # Safety
    /// The block at this offset is the caller's, who gives it away.
    unsafe fn put(&mut self, block: NonNull<u8>, offset: usize) {
        // SAFETY: as the caller says.
        unsafe { word::write(block.as_ptr().cast(), u64::from(self.counts.head)) };
        self.counts.head = (offset / GRAIN) as u16 + 1;
        self.counts.free += 1;
    }
}
