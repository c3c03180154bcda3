//! The coalesce-to-page layer: slabs of blocks of one size, and which have how many free.
//!
//! ```text
//!   lists     0      1      2      …      n - 1         of slabs with so many free blocks; none for 0
//!             .      ▼      .             ▼
//!                    slab ⇄ slab          slab          linked through their page descriptors
//!
//!   slab      │ run │ used │ run │ used │ fresh │       free blocks: runs, and what was never handed out
//!                ▲──────────┘ ▲
//!                             head
//! ```
//!
//! 1. A slab of which some blocks are free and some are not is on the list of its free count.
//! 2. A slab without a free block is on no list. A slab without a used one is freed at once.
//! 3. Allocation takes from the slab with the fewest free blocks, so that those with few used ones have time to lose
//!    them (section 3.3.3).
//! 4. The first block of a free run says how many blocks the run has, and where the next run is.
//!
//! *Progress*: bounded; a list costs as many steps as it has blocks, and a slab is found by a look at four words.

use core::mem::offset_of;
use core::ptr::NonNull;

use crate::batch::Batch;
use crate::bins::Bins;
use crate::filling::Filling;
use crate::found::{Found, look};
use crate::frames::BATCH;
use crate::global::Lists;
use crate::list::List;
use crate::misuse::Misuse;
use crate::page::{Counts, Descriptor, Kind, PageId};
use crate::pages::Pages;
use crate::run::{Room, Run, split};
use crate::size::{PAGE, Size, SizeId};
use crate::word;

/// The most blocks of a slab: of 16 bytes, in one page.
pub(crate) const MAX_SLAB: usize = PAGE / 16;
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

/// What the first block of a free run holds.
#[derive(Clone, Copy)]
struct FreeRun {
    /// 1 + the offset / 16 of the next run of the slab; 0: there is none.
    next: u16,
    blocks: u16,
}

impl FreeRun {
    fn from_word(word: u64) -> FreeRun {
        FreeRun { next: word as u16, blocks: (word >> 16) as u16 }
    }

    fn word(self) -> u64 {
        u64::from(self.blocks) << 16 | u64::from(self.next)
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
    /// Where *counts* lie.
    pub(crate) const COUNTS: usize = offset_of!(Coalesce, counts);

    pub(crate) const fn new() -> Coalesce {
        Coalesce { slabs: Bins::new(), counts: CoalesceCounts { splits: 0, coalesces: 0, free: 0 } }
    }

    pub(crate) fn counts(&self) -> CoalesceCounts {
        self.counts
    }

    /// For blocks that are pages, of which this layer has no slabs.
    pub(crate) fn counts_mut(&mut self) -> &mut CoalesceCounts {
        &mut self.counts
    }

    /// Takes blocks for up to `lists` full lists, which is at least one, and adds these lists to `made`. False: there are no more
    /// pages, so that nothing was added, or the first list that was is not full. Blocks of slabs that there are come first, then
    /// those of new ones, in the order of their addresses.
    ///
    /// Where the slabs that there are have enough blocks for a list, which may take as many steps as it has blocks, it is one list.
    pub(crate) fn take<P: Pages>(
        &mut self,
        pages: &P,
        (id, size): (SizeId, &Size),
        lists: usize,
        cpu: usize,
        made: &mut Lists,
    ) -> bool {
        let (free, mut filling) = (self.counts.free, Filling::new(size, made));
        let most = if free < size.target { lists } else { 1 };
        // As many as there is room for in a batch of slabs.
        let mut counts = (1..=most).rev().map(|lists| lists * size.target);
        let fits = |count: &usize| *count <= free + BATCH * size.blocks;
        let count = counts.find(fits).unwrap_or(size.target);
        let missing = count.saturating_sub(free);
        let (new, last) = self.take_new(pages, (id, size), missing, cpu, &mut filling);
        let mut left = count - new;
        while left > 0
            && let Some((_, first)) = self.slabs.first(0)
        {
            let mut slab = Slab::of(pages, first);
            self.unlink(&slab);
            left -= self.take_of(&mut slab, &mut filling, size, left);
            self.link(&slab);
        }
        // Only now, so that those that were there are used up before it.
        if let Some(slab) = last {
            self.link(&slab);
        }
        filling.finish()
    }

    /// Takes so many blocks of new slabs: how many, and the slab of which some are left; it is on no list.
    fn take_new<'a, P: Pages>(
        &mut self,
        pages: &'a P,
        (id, size): (SizeId, &Size),
        count: usize,
        cpu: usize,
        filling: &mut Filling<'_>,
    ) -> (usize, Option<Slab<'a, P>>) {
        let (mut taken, mut last, mut batch) = (0, None, Batch::new());
        get_slabs(&mut batch, (pages, cpu), size, size.slabs_for(count).min(BATCH));
        for (before, &first) in batch.pages().iter().enumerate().rev() {
            let mut slab = self.make(pages, (id, size), first);
            taken += self.take_of(&mut slab, filling, size, count - before * size.blocks);
            if slab.counts.free() > 0 {
                last = Some(slab);
            }
        }
        (taken, last)
    }

    /// Takes up to so many blocks of a slab, which is on no list. Returns how many.
    fn take_of<P: Pages>(
        &mut self,
        slab: &mut Slab<'_, P>,
        filling: &mut Filling<'_>,
        size: &Size,
        most: usize,
    ) -> usize {
        let taken = slab.take(filling, size, most);
        self.counts.free -= taken;
        slab.write();
        taken
    }

    /// Puts the blocks of lists back into their slabs. What is not a block of such a slab is left where it is, and named.
    ///
    /// Blocks that were freed one after another lie in few slabs. So a slab stays in hand, on no list, until a block of
    /// another one comes.
    ///
    /// # Safety
    /// The lists are the caller's, who gives them away.
    pub(crate) unsafe fn put<P: Pages>(
        &mut self,
        pages: &P,
        (id, size): (SizeId, &Size),
        lists: impl Iterator<Item = List>,
        cpu: usize,
        misuse: &mut dyn FnMut(Misuse),
    ) {
        let (mut hand, mut empty): (Option<Slab<'_, P>>, _) = (None, Batch::new());
        for mut list in lists {
            while let Some(block) = list.first() {
                let offset = hand.as_ref().and_then(|slab| slab.offset(block, size));
                let found = match (hand.take(), offset) {
                    (Some(slab), Some(offset)) => Ok((slab, offset)),
                    (other, _) => {
                        self.lay_down(other, size, cpu, &mut empty);
                        find_slab(pages, id, block).inspect(|(slab, _)| self.unlink(slab))
                    }
                };
                // SAFETY: the list is the caller's.
                let (slab, rest) = unsafe { put_first(found, (block, list), size, misuse) };
                (hand, list) = (slab, rest);
            }
        }
        self.lay_down(hand, size, cpu, &mut empty);
        // SAFETY: all blocks of these pages are free, and on no list any more.
        unsafe { empty.free((pages, cpu)) };
    }

    /// Puts a slab on the list of its free count. One whose blocks are all free is freed: if it is a page, with others.
    fn lay_down<P: Pages>(
        &mut self,
        slab: Option<Slab<'_, P>>,
        size: &Size,
        cpu: usize,
        empty: &mut Batch,
    ) {
        let Some(slab) = slab else { return };
        self.counts.free += usize::from(slab.counts.free() - slab.descriptor.counts().free());
        if usize::from(slab.counts.free()) < size.blocks {
            slab.write();
            return self.link(&slab);
        }
        self.counts.free -= size.blocks;
        self.counts.coalesces += 1;
        let (pages, first, count) = (slab.pages, slab.first, size.pages());
        // SAFETY: all blocks of the slab, and of those before, are free, and on no list any more.
        unsafe {
            if count == 1 {
                empty.push(first);
                if empty.is_full() {
                    empty.free((pages, cpu));
                }
                return;
            }
            for page in (0..count).map(|page| first.plus(page)) {
                pages.descriptor(page).set(Kind::None);
            }
            pages.free(first, count, cpu);
        }
    }

    /// Makes a slab of pages that were handed out for one. It is on no list.
    fn make<'a, P: Pages>(
        &mut self,
        pages: &'a P,
        (id, size): (SizeId, &Size),
        first: PageId,
    ) -> Slab<'a, P> {
        for before in 1..size.pages() {
            pages.descriptor(first.plus(before)).set(Kind::Inside(before, id));
        }
        pages.descriptor(first).set(Kind::Slab(id));
        self.counts.splits += 1;
        self.counts.free += size.blocks;
        let mut slab = Slab::of(pages, first);
        slab.counts.set_free(size.blocks as u16);
        slab
    }

    /// Puts a slab on the list of its free count, if it has free blocks.
    fn link<P: Pages>(&mut self, slab: &Slab<'_, P>) {
        if slab.counts.free() != 0 {
            self.slabs.push(slab.pages, usize::from(slab.counts.free()), slab.first);
        }
    }

    /// Takes a slab from its list, if it is on one.
    fn unlink<P: Pages>(&mut self, slab: &Slab<'_, P>) {
        if slab.counts.free() != 0 {
            self.slabs.remove(slab.pages, usize::from(slab.counts.free()), slab.first);
        }
    }
}

/// Gets pages for up to so many slabs: the first page of each.
fn get_slabs<P: Pages>(batch: &mut Batch, (pages, cpu): (&P, usize), size: &Size, most: usize) {
    if most > 0 && size.pages() == 1 {
        // Without pages the batch stays empty.
        let _ = batch.alloc((pages, cpu), most);
        return;
    }
    while batch.pages().len() < most && !batch.is_full() {
        let Ok(first) = pages.alloc(size.pages(), PAGE, cpu) else { return };
        batch.push(first);
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

/// Puts the run that a list begins with into the slab that was found for its first block. Returns the slab, and what is
/// left of the list. What is no such block is left where it is, and named.
///
/// # Safety
/// The list is the caller's, who gives it away.
unsafe fn put_first<'a, P: Pages>(
    found: Result<(Slab<'a, P>, usize), Misuse>,
    (block, list): (NonNull<u8>, List),
    size: &Size,
    misuse: &mut dyn FnMut(Misuse),
) -> (Option<Slab<'a, P>>, List) {
    let (hand, wrong) = match found {
        Ok((mut slab, offset)) => match slab.room(block, offset, size) {
            // SAFETY: the list is the caller's, and its first blocks are some of this slab that are not free, as far as there
            // is room.
            Ok(room) => unsafe {
                let Some((run, rest)) = split(list, size.bytes, room) else {
                    return (Some(slab), List::EMPTY);
                };
                slab.put(run, offset, size);
                return (Some(slab), rest);
            },
            Err(wrong) => (Some(slab), wrong),
        },
        Err(wrong) => (None, wrong),
    };
    misuse(wrong);
    // SAFETY: the list is the caller's.
    (hand, unsafe { list.pop() }.map_or(List::EMPTY, |(_, rest)| rest))
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

    /// How many blocks could be freed there, if one that lies there could.
    fn room(&self, block: NonNull<u8>, offset: usize, size: &Size) -> Result<Room, Misuse> {
        let Some(below) = size.block_at(offset) else {
            return Err(Misuse::Interior(block.as_ptr()));
        };
        let fresh = size.blocks_before(usize::from(self.counts.fresh()) * GRAIN);
        let used = size.blocks.saturating_sub(usize::from(self.counts.free()));
        if used == 0 || below >= fresh {
            return Err(Misuse::DoubleFree(block.as_ptr()));
        }
        Ok(Room { below, above: fresh - 1 - below, most: used })
    }

    fn write(&self) {
        self.descriptor.set_counts(self.counts);
    }

    /// A block by the offset / 16.
    ///
    /// # Safety
    /// It is one of the slab.
    unsafe fn block(&self, place: u16) -> NonNull<u8> {
        // SAFETY: as the caller says.
        unsafe { self.pages.address(self.first).add(usize::from(place) * GRAIN) }
    }

    /// Takes up to so many blocks: what was freed before, then fresh ones. Returns how many.
    fn take(&mut self, filling: &mut Filling<'_>, size: &Size, most: usize) -> usize {
        let step = (size.bytes / GRAIN) as u16;
        let count = most.min(usize::from(self.counts.free()));
        self.counts.set_free(self.counts.free() - count as u16);
        let mut left = count;
        while left > 0 {
            // SAFETY: what is free of the slab is this layer's (invariant 3 of the descriptors).
            unsafe {
                let (place, blocks) = self.take_run(step, left as u16);
                filling.push_run(self.block(place), usize::from(blocks));
                left -= usize::from(blocks).min(left);
            }
        }
        count
    }

    /// Takes up to `count` blocks that follow one another: the last ones of the first run, else fresh ones. Returns the place
    /// of the first one, and how many.
    ///
    /// # Safety
    /// The slab has so many free blocks.
    unsafe fn take_run(&mut self, step: u16, count: u16) -> (u16, u16) {
        let Some(head) = self.counts.head().checked_sub(1) else {
            let place = self.counts.fresh();
            self.counts.set_fresh(place + count * step);
            return (place, count);
        };
        // SAFETY: a free run begins there (invariant 4).
        unsafe {
            let at = self.block(head).as_ptr().cast::<u64>();
            let mut run = FreeRun::from_word(word::read(at));
            let taken = run.blocks.min(count);
            run.blocks -= taken;
            match run.blocks {
                0 => self.counts.set_head(run.next),
                _ => word::write(at, run.word()),
            }
            (head + run.blocks * step, taken)
        }
    }

    /// # Safety
    /// The run begins at the block with this offset, and is the caller's, who gives it away.
    unsafe fn put(&mut self, run: Run, offset: usize, size: &Size) {
        let place = ((offset - run.below * size.bytes) / GRAIN) as u16;
        let free = FreeRun { next: self.counts.head(), blocks: run.blocks as u16 };
        // SAFETY: as the caller says.
        unsafe { word::write(self.block(place).as_ptr().cast(), free.word()) };
        self.counts.set_head(place + 1);
        self.counts.set_free(self.counts.free() + run.blocks as u16);
    }
}
