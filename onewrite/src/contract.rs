//! The contract, from the caller's side.
//!
//! # Misuse
//! A free of frames that are not allocated is refused. What cannot be told: a free of another owner's frames, and one
//! that names frames which another call is just allocating, freeing, taking offline or bringing online, or whose rows it opens or
//! closes. Such a free affects no frames but those it names. If it frees them a second time at the moment at which their row is opened or
//! closed, or taken offline, they may be handed out twice, or while they are offline, until the row is opened the next time.

use core::ops::Range;

use woodlot_frame::{
    AllocError, BadSlot, Batch, Claim, Class, FrameAllocator, FrameId, FreeBatchError, FreeError,
    Geometry, HugeId, IsolateError, OfflineError, Order, Place, Request, Slot, Stats, Unsupported,
    ZoneConfig, alloc_within,
};

use crate::OneWrite;
use crate::child::{FREE, Part, TAKEN};
use crate::lower::Refusal;
use crate::row::{self, Rows};
use crate::slots::{HOLES, Line, NONE, ROWS, Site};

/// A block of the zone.
#[derive(Clone, Copy)]
enum Block {
    /// Below a row's order: the row and the first bit.
    Bits(usize, usize),
    /// Rows of a huge frame.
    Rows(Part),
    /// A huge frame and the next.
    Pair(usize),
}

impl<G: Geometry> OneWrite<'_, G> {
    /// The block of the zone, or what is wrong with it.
    fn block(&self, frame: FrameId, order: Order) -> Result<Block, FreeError> {
        let log = u32::from(order.0);
        if log > G::MAX_ORDER {
            return Err(FreeError::OrderTooLarge(order));
        }
        if !frame.is_aligned(order) {
            return Err(FreeError::Misaligned(frame, order));
        }
        if !self.zone.contains(frame, order) {
            return Err(FreeError::OutOfRange(frame));
        }
        let offset = frame.0 - self.ground.base;
        let row = offset >> G::ROW_ORDER;
        Ok(if log < G::ROW_ORDER {
            Block::Bits(row, offset & (G::ROW_FRAMES - 1))
        } else if log <= G::HUGE_ORDER {
            Block::Rows(Part::at::<G>(offset, log))
        } else {
            Block::Pair(offset >> G::HUGE_ORDER)
        })
    }

    /// Takes this very block.
    fn take_exact(&self, frame: FrameId, order: Order, site: Site<'_>) -> Result<(), AllocError> {
        let block = self.block(frame, order).map_err(|error| match error {
            FreeError::Misaligned(frame, order) => AllocError::Misaligned(frame, order),
            _ => AllocError::OutOfRange(frame),
        })?;
        let take = || match block {
            Block::Bits(row, at) => self.take_bits(row, at, order.0.into()),
            Block::Rows(part) => self.turn_free(part, TAKEN),
            Block::Pair(child) => self.take_pair(child),
        };
        let child = (frame.0 - self.ground.base) >> G::HUGE_ORDER;
        let taken = self.breaking(child, site, || take().then_some(()));
        taken.ok_or(AllocError::InUse(frame))
    }

    /// The children of some huge frames of the zone.
    pub(crate) fn huge_frames(
        &self,
        first: HugeId,
        count: usize,
    ) -> Result<Range<usize>, OfflineError> {
        let range = self.zone.huge_range::<G>();
        let end = first.0.checked_add(count).filter(|&end| end <= range.end.0);
        let end = end.filter(|_| count > 0 && first >= range.start);
        let end = end.ok_or(OfflineError::OutOfRange)?;
        let before = self.ground.base >> G::HUGE_ORDER;
        Ok(first.0 - before..end - before)
    }

    #[inline(always)]
    pub(crate) fn line(&self, slot: Slot) -> Result<Line<'_>, BadSlot> {
        self.slots.line(slot.0).ok_or(BadSlot(slot))
    }

    #[inline(always)]
    pub(crate) fn frame(&self, offset: usize) -> FrameId {
        FrameId(self.ground.base + offset)
    }

    /// The offset of a block of a legal order, if it lies in the zone and is aligned.
    #[inline(always)]
    pub(crate) fn offset(&self, frame: FrameId, order: u32) -> Option<usize> {
        if order == 0 {
            // It is aligned, and its own last frame, so that one comparison is enough.
            let inside = frame.0.wrapping_sub(self.zone.start.0);
            return (inside < self.zone.frames).then(|| self.ground.start + inside);
        }
        let offset = frame.0.wrapping_sub(self.ground.base);
        self.ground.has(offset, order).then_some(offset)
    }

    /// A block of an order below a row's, from the slot's row unless another call changes that.
    #[inline(always)]
    fn alloc_at_once<const ORDER: u32>(&self, site: Site<'_>) -> Option<FrameId> {
        let offset = self.take_at_once(site.row(ORDER), ORDER)?;
        Some(self.alloc_found(ORDER, offset, site))
    }

    /// A block of more than a frame. The orders are told apart, so that the compiler knows how many bits they are.
    #[inline(never)]
    fn alloc_larger(&self, order: u32, site: Site<'_>) -> Option<FrameId> {
        if order >= G::HUGE_ORDER {
            return if order == G::HUGE_ORDER {
                self.alloc_huge(site)
            } else {
                self.alloc_pair(site)
            };
        }
        if order < G::ROW_ORDER {
            return match order {
                1 => self.alloc_part::<1>(site),
                2 => self.alloc_part::<2>(site),
                3 => self.alloc_part::<3>(site),
                4 => self.alloc_part::<4>(site),
                _ => self.alloc_part::<5>(site),
            };
        }
        match order {
            6 => self.alloc_rows::<6>(site),
            7 => self.alloc_rows::<7>(site),
            8 => self.alloc_rows::<8>(site),
            9 => self.alloc_rows::<9>(site),
            _ => self.alloc_rows::<10>(site),
        }
    }

    #[inline(never)]
    fn alloc_part<const ORDER: u32>(&self, site: Site<'_>) -> Option<FrameId> {
        match self.alloc_at_once::<ORDER>(site) {
            None => self.alloc_elsewhere::<ORDER>(site),
            found => found,
        }
    }

    /// The same where the slot's row has none, or another call has changed it: the only hole of a huge frame, if the slot has freed it last;
    /// where no hole waits, of the next row. Otherwise a call in tail position goes on, so that nothing has to be kept across calls.
    #[inline(never)]
    pub(crate) fn alloc_elsewhere<const ORDER: u32>(&self, site: Site<'_>) -> Option<FrameId> {
        let row = site.line.newest_at_hand::<ROWS>();
        if row == NONE {
            let Some(offset) = self.take_in_next_row::<ORDER>(site) else {
                return self.alloc_behind::<ORDER>(0, site);
            };
            return Some(self.alloc_here::<ORDER>(offset, site));
        }
        let is_own = self.is_of_class(row / G::ROWS, site);
        let holes = if is_own { self.holes(row / G::ROWS) } else { !0 };
        let Some(offset) = self.take_only_hole(row, holes, ORDER) else {
            return self.alloc_behind::<ORDER>(holes, site);
        };
        site.line.forget_newest::<ROWS>();
        Some(self.alloc_here::<ORDER>(offset, site))
    }

    /// The same from further away, where there are such [holes](Self::holes) beside the one that the slot has freed last; none, if that is forgotten.
    #[inline(never)]
    fn alloc_behind<const ORDER: u32>(&self, holes: u64, site: Site<'_>) -> Option<FrameId> {
        // What is not nearly full is not looked at again.
        let may_fill = holes.count_ones() as usize <= Self::full(ORDER);
        let again = if may_fill { self.fill_again(ORDER, site) } else { None };
        let offset = again
            .or_else(|| self.take_behind::<ORDER>(site))
            .or_else(|| self.find_bits(ORDER, site))?;
        Some(self.alloc_here::<ORDER>(offset, site))
    }

    /// The slot's next blocks come from the row of this one, too.
    #[inline(always)]
    fn alloc_here<const ORDER: u32>(&self, offset: usize, site: Site<'_>) -> FrameId {
        site.set_row(ORDER, offset >> G::ROW_ORDER);
        self.alloc_found(ORDER, offset, site)
    }

    /// A block of rows of the huge frame of which they are the only ones free, if the slot has freed it last, of the slot's child, or of another.
    #[inline(never)]
    fn alloc_rows<const ORDER: u32>(&self, site: Site<'_>) -> Option<FrameId> {
        // Two calls may use one slot at once, so its words are read once.
        let hole = site.line.newest_at_hand::<HOLES>();
        let mut child = site.child();
        if hole != NONE && self.is_of_class(hole, site) {
            site.line.forget_newest::<HOLES>();
            child = hole;
        }
        let k = ORDER.saturating_sub(G::ROW_ORDER);
        if let Some(part) = self.take_rows(child, k) {
            return Some(self.alloc_found(ORDER, part.offset::<G>(), site));
        }
        let offset = match self.take_next_rows(k, site) {
            Some(child) => child << G::HUGE_ORDER,
            None => self.find_rows(ORDER, site)?,
        };
        Some(self.alloc_found(ORDER, offset, site))
    }

    /// A block of at least a huge frame, where open rows may have to be closed.
    #[inline(never)]
    fn alloc_open(&self, order: u32, site: Site<'_>) -> Option<FrameId> {
        let own = self.take_whole(site.line.last_freed(), order);
        let offset = own.or_else(|| self.find_rows(order, site))?;
        Some(self.alloc_found(order, offset, site))
    }

    #[inline(always)]
    fn alloc_found(&self, order: u32, offset: usize, site: Site<'_>) -> FrameId {
        site.line.count(-(1 << order));
        self.frame(offset)
    }

    /// A huge frame.
    #[inline(never)]
    fn alloc_huge(&self, site: Site<'_>) -> Option<FrameId> {
        let mut child = site.line.last_freed();
        if self.take_closed(child).is_none() {
            let Some(next) = self.take_next(site) else {
                return self.alloc_open(G::HUGE_ORDER, site);
            };
            child = next;
        }
        Some(self.alloc_found(G::HUGE_ORDER, child << G::HUGE_ORDER, site))
    }

    /// A huge frame and the next.
    #[inline(never)]
    fn alloc_pair(&self, site: Site<'_>) -> Option<FrameId> {
        let mut child = site.line.last_freed();
        if self.take_closed_pair(child).is_none() {
            let Some(next) = self.take_next_pair(site) else {
                return self.alloc_open(G::MAX_ORDER, site);
            };
            child = next;
        }
        Some(self.alloc_found(G::MAX_ORDER, child << G::HUGE_ORDER, site))
    }

    /// Where a request allocates, or what is wrong with the request.
    #[cold]
    #[inline(never)]
    pub(crate) fn site_for(
        &self,
        order: Order,
        class: Class,
        slot: Slot,
    ) -> Result<Site<'_>, AllocError> {
        if u32::from(order.0) > G::MAX_ORDER {
            return Err(AllocError::OrderTooLarge(order));
        }
        self.line(slot).map_err(|BadSlot(slot)| AllocError::BadSlot(slot))?;
        self.slots.site(slot.0, class).ok_or(AllocError::BadClass(class))
    }

    /// What is wrong with a request for a block anywhere.
    #[cold]
    #[inline(never)]
    fn wrong(&self, order: Order, class: Class, slot: Slot) -> AllocError {
        self.site_for(order, class, slot).err().unwrap_or(AllocError::OutOfMemory)
    }

    /// This very block.
    #[cold]
    #[inline(never)]
    fn alloc_exact(
        &self,
        order: Order,
        class: Class,
        slot: Slot,
        frame: FrameId,
    ) -> Result<FrameId, AllocError> {
        let site = self.site_for(order, class, slot)?;
        self.take_exact(frame, order, site)?;
        site.line.count(-(1 << order.0));
        Ok(frame)
    }

    /// A block that lies in a range.
    #[cold]
    #[inline(never)]
    fn alloc_in(&self, request: Request) -> Result<FrameId, AllocError> {
        self.site_for(request.order, request.class, request.slot)?;
        alloc_within(self, request)
    }

    /// Frees a block of an order below a row's, if nothing is wrong with the call, and if no other changes its row. What is more than
    /// the usual case is a call in tail position, so that nothing has to be kept across calls.
    #[inline(never)]
    fn free_bits<const ORDER: u32>(&self, frame: FrameId, slot: usize) -> bool {
        let Some(line) = self.slots.line(slot) else { return false };
        let Some(offset) = self.offset(frame, ORDER) else { return false };
        let Some(bits) = self.give_at_once(offset, ORDER) else { return false };
        line.count(1 << ORDER);
        self.freed_bits(offset >> G::ROW_ORDER, bits, line);
        true
    }

    /// After a free of frames of an open row, which has these bits now.
    #[inline(always)]
    pub(crate) fn freed_bits(&self, row: usize, bits: u64, line: Line<'_>) {
        line.freed::<ROWS>(row);
        if bits == G::ALL {
            line.emptied(row / G::ROWS);
        }
        if self.has_to_tell(row, bits) {
            self.tell(row, bits);
        }
    }

    /// Frees a block of rows, all of which are taken, if nothing is wrong with the call, and if no other changes the word of its states.
    #[inline(always)]
    fn free_rows_at_once(&self, frame: FrameId, order: u32, slot: usize) -> bool {
        let Some(line) = self.slots.line(slot) else { return false };
        let Some(offset) = self.offset(frame, order) else { return false };
        let part = Part::at::<G>(offset, order);
        let Some(states) = self.turn_at_once(part, TAKEN, FREE) else { return false };
        self.freed_rows(part, states, line);
        true
    }

    /// After a free of rows of a child, when the rows of their word were in these states.
    #[inline(always)]
    fn freed_rows(&self, part: Part, states: u64, line: Line<'_>) {
        let child = part.child;
        let whole = Part::whole::<G>(child);
        // A huge frame that is free is as good as another; and so is the only hole.
        if whole.is(states, FREE) {
            line.set_last_freed(child);
            // What was left of it is free as well.
            if part.all(1) != whole.all(1) && line.newest_at_hand::<HOLES>() == child {
                line.forget_newest::<HOLES>();
            }
        } else if whole.free(states) == part.all(1) {
            line.freed::<HOLES>(child);
            // Of a huge frame that was allocated as a whole the tree knows nothing yet.
            self.has_class(child / G::TREE, self.class_of(child));
        }
        line.emptied(child);
        line.count(part.frames::<G>() as isize);
        self.can_be_had_whole(part);
    }

    /// All other frees, and what is wrong with one.
    #[cold]
    #[inline(never)]
    fn free_other(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        let line = self.line(slot).map_err(|BadSlot(slot)| FreeError::BadSlot(slot))?;
        let log = u32::from(order.0);
        let refused = |refusal: Refusal| refusal.of(frame);
        match self.block(frame, order)? {
            Block::Bits(row, at) => {
                let bits = self.give_bits(row, at, log).map_err(refused)?;
                line.count(1 << log);
                self.freed_bits(row, bits, line);
            }
            Block::Rows(part) => {
                let states = self.give_rows(part).map_err(refused)?;
                self.freed_rows(part, states, line);
            }
            Block::Pair(child) => {
                self.give_pair(child).map_err(refused)?;
                self.freed_pair(child, line);
            }
        }
        Ok(())
    }

    /// Frees a block of more than a frame, likewise.
    #[inline(never)]
    fn free_larger(&self, frame: FrameId, order: u32, slot: usize) -> bool {
        if order >= G::HUGE_ORDER {
            return match order - G::HUGE_ORDER {
                0 => self.free_huge(frame, slot),
                1 => self.free_pair(frame, slot),
                _ => false,
            };
        }
        if order < G::ROW_ORDER {
            return match order {
                1 => self.free_bits::<1>(frame, slot),
                2 => self.free_bits::<2>(frame, slot),
                3 => self.free_bits::<3>(frame, slot),
                4 => self.free_bits::<4>(frame, slot),
                _ => self.free_bits::<5>(frame, slot),
            };
        }
        match order {
            6 => self.free_rows::<6>(frame, slot),
            7 => self.free_rows::<7>(frame, slot),
            8 => self.free_rows::<8>(frame, slot),
            9 => self.free_rows::<9>(frame, slot),
            _ => self.free_rows::<10>(frame, slot),
        }
    }

    #[inline(never)]
    fn free_rows<const ORDER: u32>(&self, frame: FrameId, slot: usize) -> bool {
        self.free_rows_at_once(frame, ORDER, slot)
    }

    #[inline(never)]
    fn free_huge(&self, frame: FrameId, slot: usize) -> bool {
        self.free_rows_at_once(frame, G::HUGE_ORDER, slot)
    }

    #[inline(never)]
    fn free_pair(&self, frame: FrameId, slot: usize) -> bool {
        let Some(line) = self.slots.line(slot) else { return false };
        let Some(offset) = self.offset(frame, G::MAX_ORDER) else { return false };
        let child = offset >> G::HUGE_ORDER;
        let done = self.give_taken_pair(child);
        if done {
            self.freed_pair(child, line);
        }
        done
    }

    /// After a free of a huge frame and the next.
    #[inline(always)]
    fn freed_pair(&self, child: usize, line: Line<'_>) {
        line.set_last_freed(child);
        line.emptied(child);
        line.count(1 << G::MAX_ORDER);
        let (first, second) = Part::pair::<G>(child);
        second.into_iter().for_each(|second| self.can_be_had_whole(second));
        self.can_be_had_whole(first);
    }
}

impl<G: Geometry> FrameAllocator for OneWrite<'_, G> {
    type Geometry = G;

    const NAME: &'static str = "onewrite";

    const UNSUPPORTED: Unsupported = Unsupported {
        exact_frame: false,
        partial_free: false,
        classes: false,
        offline: false,
        isolation: false,
        recovery: false,
        exact_exhaustion: false,
    };

    fn zone(&self) -> &ZoneConfig {
        &self.zone
    }

    /// # Progress
    /// Lock-free: the row or the child of the slot, then the trees that hints do not rule out; where nothing is free, a
    /// word for each tree.
    ///
    /// # Crash
    /// One that is cut off while it opens or closes rows may leave their other frames allocated: nobody's. What is opened is a row, or
    /// rows for 16 blocks; what is closed is a part of the block. One of a pair of two words may leave a half of it likewise.
    #[inline(always)]
    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        let Request { order, class, slot, place } = request;
        // What is seldom asked for is passed in registers, so that no request has to lie in memory.
        let site = match place {
            Place::At(frame) => return self.alloc_exact(order, class, slot, frame),
            Place::Within { .. } => return self.alloc_in(request),
            Place::Anywhere => self.slots.site(slot.0, class),
        };
        let block = match (site, u32::from(order.0)) {
            (Some(site), 0) => match self.alloc_at_once::<0>(site) {
                None => self.alloc_elsewhere::<0>(site),
                found => found,
            },
            (Some(site), log) if log <= G::MAX_ORDER => self.alloc_larger(log, site),
            _ => return Err(self.wrong(order, class, slot)),
        };
        block.ok_or(AllocError::OutOfMemory)
    }

    /// # Progress
    /// Lock-free.
    ///
    /// # Crash
    /// It has happened or not; of a pair of two words (huge frames of more than 16 rows each) one half may be free.
    #[inline]
    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        let done = match u32::from(order.0) {
            0 => self.free_bits::<0>(frame, slot.0),
            log => self.free_larger(frame, log, slot.0),
        };
        if done { Ok(()) } else { self.free_other(frame, order, slot) }
    }

    /// Base frames are taken by rows, a write for as many of a row as there are; others one by one.
    ///
    /// # Progress
    /// Lock-free.
    ///
    /// # Crash
    /// As [`alloc`](FrameAllocator::alloc), and some of the frames may be allocated: the caller's, who does not know them.
    fn alloc_batch(
        &self,
        request: Request,
        batch: Batch,
        out: &mut [FrameId],
    ) -> Result<usize, AllocError> {
        self.take_batch(request, batch, out)
    }

    /// Base frames of one row that are named one after another are freed by one write.
    ///
    /// # Progress
    /// Lock-free.
    ///
    /// # Crash
    /// Some of the frames may be free, the first ones.
    fn free_batch(
        &self,
        frames: &[FrameId],
        order: Order,
        slot: Slot,
    ) -> Result<(), FreeBatchError> {
        self.give_batch(frames, order, slot)
    }

    fn can_free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        self.line(slot).map_err(|BadSlot(slot)| FreeError::BadSlot(slot))?;
        match self.block(frame, order)? {
            Block::Bits(row, at) => self.can_give_bits(row, at, order.0.into()),
            Block::Rows(part) => self.can_give_rows(part),
            Block::Pair(child) => self.can_give_pair(child),
        }
        .map_err(|refusal: Refusal| refusal.of(frame))
    }

    /// A slot holds no frames. Others may fill up the huge frames from which it takes blocks, and the trees in which they lie; where it
    /// allocates next it keeps in mind.
    fn drain(&self, slot: Slot) -> Result<(), BadSlot> {
        self.line(slot)?;
        let orders = [0, 1, G::ROW_ORDER];
        for site in self.slots.sites(slot.0) {
            orders.into_iter().for_each(|order| self.aims(site, order, NONE));
            self.settles(site, NONE);
        }
        Ok(())
    }

    /// What another call has not finished to take offline, or begins to isolate, counts as in use. Beside this call `isolate` may say
    /// that a huge frame is offline of which this call is refused.
    ///
    /// # Progress
    /// Lock-free; linear in the huge frames. One that stops for ever keeps some of them allocated, or from being isolated or
    /// taken offline, until a recovery.
    ///
    /// # Crash
    /// One that is cut off may leave some of the huge frames allocated, or offline, and rows of one that it closes allocated: nobody's.
    fn offline(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        self.offline_run(first, count)
    }

    /// Who has taken huge frames offline brings them online, and nobody else. Of several calls that name one at the same time, one brings
    /// it online at most; the others say that it is not offline, also where the first is refused for another of its huge frames. A call of
    /// one who has not taken it so may make the owner's say so, and no other's.
    ///
    /// # Progress
    /// Lock-free; linear in the huge frames. One that stops for ever keeps some of them offline, until a recovery.
    ///
    /// # Crash
    /// One that is cut off may leave some of the huge frames offline, and one allocated: nobody's.
    fn online(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        self.online_run(first, count, None)
    }

    /// # Progress
    /// Lock-free; linear in the huge frames. One that stops for ever keeps some of them isolated, until a recovery.
    fn isolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        self.isolate_run(first, count)
    }

    /// What another call begins to isolate, ends, or claims, counts as not isolated.
    ///
    /// # Progress
    /// Lock-free; linear in the huge frames. One that stops for ever keeps some of them isolated, until a recovery.
    fn unisolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        self.unisolate_run(first, count)
    }

    /// # Progress
    /// Lock-free; linear in the huge frames. One that stops for ever keeps them isolated, until a recovery.
    ///
    /// # Crash
    /// One that is cut off may leave some of the huge frames allocated, or offline, and rows that it closes allocated: nobody's.
    fn claim_isolated(
        &self,
        first: HugeId,
        count: usize,
        claim: Claim,
    ) -> Result<(), IsolateError> {
        self.claim_run(first, count, claim)
    }

    fn is_isolated(&self, huge: HugeId) -> bool {
        self.child_of(huge).is_some_and(|child| self.isolates(child))
    }

    /// Exact for every order while no other call is under way. As fast as an allocation; where nothing is free, a word for
    /// each tree is looked at.
    fn is_available(&self, order: Order) -> bool {
        u32::from(order.0) <= G::MAX_ORDER && self.has(order.0.into())
    }

    /// Linear in the slots; while something is isolated, in the trees as well.
    fn free_frames(&self) -> usize {
        self.slots.free(self.zone.frames).saturating_sub(self.free_in_isolated())
    }

    /// Linear in the huge frames, and in the rows that are open.
    fn stats(&self) -> Stats {
        let stats = self.tally();
        self.slots.heal((stats.free_frames + stats.isolated_frames) as u64);
        stats
    }

    fn is_free(&self, frame: FrameId, order: Order) -> bool {
        let all = |part: Part| part.rows::<G>().all(|row| self.bits_free(row) == G::ALL);
        match self.block(frame, order) {
            Ok(Block::Bits(row, at)) => {
                let block = row::block(order.0.into(), at);
                self.bits_free(row) & block == block
            }
            Ok(Block::Rows(part)) => all(part),
            Ok(Block::Pair(child)) => {
                let (first, second) = Part::pair::<G>(child);
                all(first) && second.is_none_or(all)
            }
            Err(_) => false,
        }
    }

    fn free_map(&self, frame: FrameId) -> u64 {
        self.map_of_free(frame)
    }

    fn used_map(&self, frame: FrameId) -> u64 {
        self.map_of_used(frame)
    }

    fn free_in_huge(&self, huge: HugeId) -> usize {
        let child = self.child_of(huge).filter(|&child| !self.isolates(child));
        child.map_or(0, |child| self.free_in_child(child))
    }
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use woodlot_frame::{Base4K, Base16K, Init, Owned};

    #[test]
    fn the_only_hole_is_filled_next_where_the_slots_row_has_none() {
        let zone = ZoneConfig::new(2 * Base4K::HUGE_FRAMES, 1);
        let zone = Owned::<OneWrite<Base4K>>::new(&zone, Init::Allocated).expect("a zone");
        let site = zone.slots.site(0, Class::MOVABLE).expect("a site");
        let line = site.line;
        let free = |frame| assert_eq!(zone.free(FrameId(frame), Order(0), Slot(0)), Ok(()));
        let next = || zone.alloc(Request::movable(Order(0), Slot(0)));
        free(512);
        free(0);
        assert_eq!((next(), site.row(0)), (Ok(FrameId(0)), 0));
        assert_eq!(line.newest::<ROWS>(), Some(8));
        free(1);
        assert_eq!((next(), next()), (Ok(FrameId(1)), Ok(FrameId(512))));
    }

    #[test]
    fn a_hole_freed_before_is_filled_before_the_target() {
        let zone = ZoneConfig::new(3 * Base4K::HUGE_FRAMES, 2);
        let zone = Owned::<OneWrite<Base4K>>::new(&zone, Init::Allocated).expect("a zone");
        let site = zone.slots.site(0, Class::MOVABLE).expect("a site");
        let free =
            |frame, slot| assert_eq!(zone.free(FrameId(frame), Order(0), Slot(slot)), Ok(()));
        let next = || zone.alloc(Request::movable(Order(0), Slot(0)));
        // Another slot has freed into the target, so that this one does not know.
        zone.aims(site, 0, 2);
        free(2 * 512 + 192, 1);
        free(0, 0);
        free(512, 0);
        assert_eq!([(); 3].map(|()| next()), [512, 0, 2 * 512 + 192].map(|at| Ok(FrameId(at))));
    }

    #[test]
    fn the_only_hole_is_left_to_its_class() {
        let zone = ZoneConfig::new(4 * Base4K::HUGE_FRAMES, 1);
        let zone = Owned::<OneWrite<Base4K>>::new(&zone, Init::Allocated).expect("a zone");
        let free =
            |frame, order| assert_eq!(zone.free(FrameId(frame), Order(order), Slot(0)), Ok(()));
        let next = |order, class| zone.alloc(Request::new(Order(order), class, Slot(0)));
        // The hole is of the first class; there is a huge frame for the other.
        for (frame, order) in [(5, 0), (64, 6)] {
            free(1024, 10);
            free(frame, order);
            assert_eq!(next(order, Class::IMMOVABLE), Ok(FrameId(1024)));
            assert_eq!(next(order, Class::MOVABLE), Ok(FrameId(frame)));
            free(1024, order);
            let request = Request::movable(Order(10), Slot(0)).at(FrameId(1024));
            assert_eq!(zone.alloc(request), Ok(FrameId(1024)));
        }
    }

    /// Huge frames of 2^`H` frames.
    #[derive(Clone, Copy)]
    struct Small<const H: u32>;

    impl<const H: u32> Geometry for Small<H> {
        const BASE_SHIFT: u32 = 12;
        const HUGE_ORDER: u32 = H;
        const NAME: &'static str = "small";
    }

    fn largest_order<G: Geometry>() {
        // Blocks of orders that other geometries have lie in it.
        let zone = ZoneConfig::new(2 * Base16K::MAX_FRAMES, 1);
        let zone = Owned::<OneWrite<G>>::new(&zone, Init::Allocated).expect("a zone");
        for order in (G::MAX_ORDER as u8..64).chain([u8::MAX]).map(Order) {
            let is_legal = u32::from(order.0) == G::MAX_ORDER;
            let freed = zone.free(FrameId(0), order, Slot(0));
            assert_eq!(freed, if is_legal { Ok(()) } else { Err(FreeError::OrderTooLarge(order)) });
            let found = zone.alloc(Request::movable(order, Slot(0)));
            let expected =
                if is_legal { Ok(FrameId(0)) } else { Err(AllocError::OrderTooLarge(order)) };
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn no_geometry_has_an_order_above_its_largest() {
        largest_order::<Small<1>>();
        largest_order::<Small<4>>();
        largest_order::<Small<6>>();
        largest_order::<Small<7>>();
        largest_order::<Small<10>>();
        largest_order::<Small<11>>();
    }
}
