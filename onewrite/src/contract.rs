//! The contract, from the caller's side.
//!
//! # Misuse
//! A free of frames that are not allocated is refused. What cannot be told: a free of another owner's frames, and one
//! that names frames which another call is just allocating, freeing or bringing online. Such a free affects no frames
//! but those it names. If it frees a block a second time at the moment at which its row is closed, the frames may be handed
//! out twice until their row is opened the next time.

use woodlot_frame::{
    AllocError, BadSlot, Class, FrameAllocator, FrameId, FreeError, Geometry, HugeId, OfflineError,
    Order, Place, Request, Slot, Stats, Unsupported, ZoneConfig, alloc_within,
};

use crate::OneWrite;
use crate::child::{self, FREE, OFFLINE, Part, TAKEN};
use crate::lower::Refusal;
use crate::row::Rows;
use crate::search::Found;
use crate::slots::Line;

/// A block of the zone.
#[derive(Clone, Copy)]
enum Block {
    /// Below a row's order: the row and the first bit.
    Bits(usize, usize),
    /// Rows of a huge frame.
    Rows(usize, Part),
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
            let (child, part) = Part::at::<G>(offset, log);
            Block::Rows(child, part)
        } else {
            Block::Pair(offset >> G::HUGE_ORDER)
        })
    }

    /// Takes this very block.
    fn take_exact(&self, frame: FrameId, order: Order) -> Result<(), AllocError> {
        let block = self.block(frame, order).map_err(|error| match error {
            FreeError::Misaligned(frame, order) => AllocError::Misaligned(frame, order),
            _ => AllocError::OutOfRange(frame),
        })?;
        let taken = match block {
            Block::Bits(row, at) => self.take_bits(row, at, order.0.into()),
            Block::Rows(child, part) => self.turn_free(child, part, TAKEN),
            Block::Pair(child) => self.take_pair(child),
        };
        if taken { Ok(()) } else { Err(AllocError::InUse(frame)) }
    }

    /// The children of some huge frames of the zone.
    fn huge_frames(
        &self,
        first: HugeId,
        count: usize,
    ) -> Result<impl Iterator<Item = usize> + Clone + use<G>, OfflineError> {
        let range = self.zone.huge_range::<G>();
        let end = first.0.checked_add(count).filter(|&end| end <= range.end.0);
        let end = end.filter(|_| count > 0 && first >= range.start);
        let end = end.ok_or(OfflineError::OutOfRange)?;
        let before = self.ground.base >> G::HUGE_ORDER;
        Ok((first.0..end).map(move |huge| huge - before))
    }

    #[inline(always)]
    fn line(&self, slot: Slot) -> Result<Line<'_>, BadSlot> {
        self.slots.line(slot.0).ok_or(BadSlot(slot))
    }

    #[inline(always)]
    fn frame(&self, offset: usize) -> FrameId {
        FrameId(self.ground.base + offset)
    }

    /// The offset of a block of a legal order, if it lies in the zone and is aligned.
    #[inline(always)]
    fn offset(&self, frame: FrameId, order: u32) -> Option<usize> {
        let offset = frame.0.wrapping_sub(self.ground.base);
        self.ground.has(offset, order).then_some(offset)
    }

    /// A block of `order`, below a row's.
    #[inline(always)]
    fn alloc_bits(&self, order: u32, line: Line<'_>) -> Result<FrameId, AllocError> {
        let row = line.row(order);
        let Some(at) = self.take_at_once(row, order) else {
            // Compiled for single frames, too.
            return if order == 0 {
                self.alloc_frame_elsewhere(line)
            } else {
                self.alloc_bits_elsewhere(order, line)
            };
        };
        line.count(-(1 << order));
        Ok(self.frame((row << G::ROW_ORDER) + at))
    }

    /// The same where the slot's row has none, or another call has changed it.
    #[inline(never)]
    fn alloc_frame_elsewhere(&self, line: Line<'_>) -> Result<FrameId, AllocError> {
        self.alloc_elsewhere(0, line)
    }

    #[inline(never)]
    fn alloc_bits_elsewhere(&self, order: u32, line: Line<'_>) -> Result<FrameId, AllocError> {
        self.alloc_elsewhere(order, line)
    }

    #[inline(always)]
    fn alloc_elsewhere(&self, order: u32, line: Line<'_>) -> Result<FrameId, AllocError> {
        let row = line.row(order);
        let found = if let Some(at) = self.take_in_row(row, order) {
            (row, at)
        } else if let Some(found) = self.fill_again(order, line) {
            found
        } else {
            self.find_bits(order, line).ok_or(AllocError::OutOfMemory)?
        };
        line.set_row(order, found.0);
        line.count(-(1 << order));
        Ok(self.frame((found.0 << G::ROW_ORDER) + found.1))
    }

    /// A block of `order`, at least a row's.
    #[inline(never)]
    fn alloc_rows(&self, order: u32, line: Line<'_>) -> Result<FrameId, AllocError> {
        if order > G::MAX_ORDER {
            return Err(AllocError::OrderTooLarge(Order(order as u8)));
        }
        let Found { child, offset } = self.find_rows(order, line).ok_or(AllocError::OutOfMemory)?;
        line.count(-(1 << order));
        Ok(self.frame((child << G::HUGE_ORDER) + offset))
    }

    /// The slot that a request names, or what is wrong with the request.
    #[cold]
    #[inline(never)]
    fn line_for(&self, order: Order, class: Class, slot: Slot) -> Result<Line<'_>, AllocError> {
        if u32::from(order.0) > G::MAX_ORDER {
            return Err(AllocError::OrderTooLarge(order));
        }
        let line = self.line(slot).map_err(|BadSlot(slot)| AllocError::BadSlot(slot))?;
        if self.zone.classes.has(class) { Ok(line) } else { Err(AllocError::BadClass(class)) }
    }

    #[cold]
    #[inline(never)]
    fn alloc_there(&self, request: &Request) -> Result<FrameId, AllocError> {
        let &Request { order, class, slot, place } = request;
        let line = self.line_for(order, class, slot)?;
        let frame = match place {
            Place::At(frame) => frame,
            Place::Within { .. } => return alloc_within(self, *request),
            Place::Anywhere => return Err(AllocError::OutOfMemory),
        };
        self.take_exact(frame, order)?;
        line.count(-(1 << order.0));
        Ok(frame)
    }

    /// Frees a block of `order`, below a row's, if nothing is wrong with the call, and if no other changes its row.
    #[inline(always)]
    fn free_at_once(
        &self,
        frame: FrameId,
        order: u32,
        line: Line<'_>,
    ) -> Option<Result<(), FreeError>> {
        let offset = self.offset(frame, order)?;
        let row = offset >> G::ROW_ORDER;
        let bits = self.give_at_once(row, offset & (G::ROW_FRAMES - 1), order)?;
        Some(self.freed_bits(row, bits, order, line))
    }

    /// After a free of a block of a row, which has these bits now.
    #[inline(always)]
    fn freed_bits(
        &self,
        row: usize,
        bits: u64,
        order: u32,
        line: Line<'_>,
    ) -> Result<(), FreeError> {
        line.freed_into(row);
        line.count(1 << order);
        if self.has_to_tell(row, bits) {
            self.tell(row, bits);
        }
        Ok(())
    }

    /// Frees a block of at least a row, all rows of which are taken.
    #[inline(always)]
    fn free_rows_at_once(
        &self,
        frame: FrameId,
        order: u32,
        line: Line<'_>,
    ) -> Option<Result<(), FreeError>> {
        if order > G::HUGE_ORDER {
            return None;
        }
        let offset = self.offset(frame, order)?;
        let (child, part) = Part::at::<G>(offset, order);
        let states = self.turn_at_once(child, part, TAKEN, FREE)?;
        Some(self.freed_rows(child, part, states, line))
    }

    /// After a free of rows of a child, whose rows are in these states now.
    #[inline(always)]
    fn freed_rows(
        &self,
        child: usize,
        part: Part,
        states: u64,
        line: Line<'_>,
    ) -> Result<(), FreeError> {
        // A huge frame that is free is as good as another; and so is the only hole.
        if states == 0 || child::free_rows::<G>(states) == part.all(1) {
            line.set_child(child);
        }
        line.count((part.count << G::ROW_ORDER) as isize);
        self.can_be_had_whole(child);
        Ok(())
    }

    /// All other frees, and what is wrong with one.
    #[inline(never)]
    fn free_other(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        let line = self.line(slot).map_err(|BadSlot(slot)| FreeError::BadSlot(slot))?;
        let log = u32::from(order.0);
        let refused = |refusal: Refusal| refusal.of(frame);
        match self.block(frame, order)? {
            Block::Bits(row, at) => {
                let bits = self.give_bits(row, at, log).map_err(refused)?;
                self.freed_bits(row, bits, log, line)
            }
            Block::Rows(child, part) => {
                let states = self.give_rows(child, part).map_err(refused)?;
                self.freed_rows(child, part, states, line)
            }
            Block::Pair(child) => {
                self.give_pair(child).map_err(refused)?;
                line.set_child(child);
                line.count(1 << log);
                Ok(())
            }
        }
    }

    #[inline(never)]
    fn free_rows(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        let log = u32::from(order.0);
        let done =
            self.slots.line(slot.0).and_then(|line| self.free_rows_at_once(frame, log, line));
        done.unwrap_or_else(|| self.free_other(frame, order, slot))
    }
}

impl<G: Geometry> FrameAllocator for OneWrite<'_, G> {
    type Geometry = G;

    const NAME: &'static str = "onewrite";

    const UNSUPPORTED: Unsupported = Unsupported {
        exact_frame: false,
        partial_free: false,
        classes: true,
        offline: false,
        isolation: true,
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
    /// One that is cut off while it opens or closes a row may leave the row's other frames allocated: nobody's. So may
    /// one of the largest order leave a half.
    #[inline]
    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        let Request { order, class, slot, place } = request;
        if place != Place::Anywhere {
            return self.alloc_there(&request);
        }
        let log = u32::from(order.0);
        match self.slots.line(slot.0) {
            Some(line) if self.zone.classes.has(class) => match log {
                // Compiled for single frames, too.
                0 => self.alloc_bits(0, line),
                _ if log < G::ROW_ORDER => self.alloc_bits(log, line),
                _ => self.alloc_rows(log, line),
            },
            _ => self.line_for(order, class, slot).and(Err(AllocError::OutOfMemory)),
        }
    }

    /// # Progress
    /// Lock-free.
    ///
    /// # Crash
    /// It has happened or not; of the largest order one half may be free.
    #[inline]
    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        let log = u32::from(order.0);
        if log >= G::ROW_ORDER {
            return self.free_rows(frame, order, slot);
        }
        let done = match self.slots.line(slot.0) {
            // Compiled for single frames, too.
            Some(line) if log == 0 => self.free_at_once(frame, 0, line),
            Some(line) => self.free_at_once(frame, log, line),
            _ => None,
        };
        done.unwrap_or_else(|| self.free_other(frame, order, slot))
    }

    fn can_free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        self.line(slot).map_err(|BadSlot(slot)| FreeError::BadSlot(slot))?;
        let whole = Part::whole::<G>();
        match self.block(frame, order)? {
            Block::Bits(row, at) => self.can_give_bits(row, at, order.0.into()),
            Block::Rows(child, part) => self.can_give_rows(child, part),
            Block::Pair(child) => {
                self.can_give_rows(child, whole).and_then(|()| self.can_give_rows(child + 1, whole))
            }
        }
        .map_err(|refusal: Refusal| refusal.of(frame))
    }

    /// A slot holds no frames.
    fn drain(&self, slot: Slot) -> Result<(), BadSlot> {
        self.line(slot).map(drop)
    }

    /// # Crash
    /// One that is cut off may leave some of the huge frames offline.
    fn offline(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        let children = self.huge_frames(first, count)?;
        let take = |&child: &usize| self.turn_free(child, Part::whole::<G>(), OFFLINE);
        let taken = children.clone().take_while(take).count();
        if taken < count {
            let in_use = first.0.saturating_add(taken);
            children.take(taken).for_each(|child| {
                let _ = self.turn(child, Part::whole::<G>(), OFFLINE, FREE);
                self.can_be_had_whole(child);
            });
            return Err(OfflineError::in_use(self, HugeId(in_use)));
        }
        self.slots.add(((count << G::HUGE_ORDER) as u64).wrapping_neg());
        Ok(())
    }

    /// # Crash
    /// One that is cut off may leave huge frames allocated: nobody's, and not offline.
    fn online(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        let children = self.huge_frames(first, count)?;
        let whole = Part::whole::<G>();
        // They become this call's own first, all or none, and are then freed.
        let own = children.clone().take_while(|&child| self.turn(child, whole, OFFLINE, TAKEN));
        let own = own.count();
        if own < count {
            children.take(own).for_each(|child| self.put_offline(child));
            return Err(OfflineError::NotOffline);
        }
        children.for_each(|child| self.untake(child));
        self.slots.add((count << G::HUGE_ORDER) as u64);
        Ok(())
    }

    /// Exact for every order while no other call is under way. As fast as an allocation; where nothing is free, a word for
    /// each tree is looked at.
    fn is_available(&self, order: Order) -> bool {
        u32::from(order.0) <= G::MAX_ORDER && self.has(order.0.into())
    }

    fn free_frames(&self) -> usize {
        self.slots.free(self.zone.frames)
    }

    /// Linear in the huge frames, and in the rows that are open.
    fn stats(&self) -> Stats {
        let stats = self.tally();
        self.slots.heal(stats.free_frames as u64);
        stats
    }

    fn is_free(&self, frame: FrameId, order: Order) -> bool {
        let all = |child: usize, part: Part| {
            part.rows().all(|row| self.bits_free(child * G::ROWS + row) == G::ALL)
        };
        match self.block(frame, order) {
            Ok(Block::Bits(row, at)) => {
                let block = crate::row::block(order.0.into(), at);
                self.bits_free(row) & block == block
            }
            Ok(Block::Rows(child, part)) => all(child, part),
            Ok(Block::Pair(child)) => {
                let whole = Part::whole::<G>();
                all(child, whole) && all(child + 1, whole)
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
        self.child_of(huge).map_or(0, |child| self.free_in_child(child))
    }
}
