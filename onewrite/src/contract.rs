//! The contract, from the caller's side.
//!
//! # Misuse
//! A free of frames that are not allocated is refused. What cannot be told: a free of another owner's frames, and one
//! that names frames which another call is just allocating, freeing or bringing online. Such a free affects no frames
//! but those it names. If it frees a block a second time at the moment at which its row is closed, the frames may be handed
//! out twice until their row is opened the next time.

use woodlot_frame::{
    AllocError, BadSlot, FrameAllocator, FrameId, FreeError, Geometry, HugeId, OfflineError, Order,
    Place, Request, Slot, Stats, Unsupported, ZoneConfig, alloc_within,
};

use crate::OneWrite;
use crate::child::{FREE, OFFLINE, Part, TAKEN};
use crate::lower::Refusal;
use crate::row::Rows;

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
    #[inline(always)]
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
            let count = 1 << (log - G::ROW_ORDER);
            Block::Rows(offset >> G::HUGE_ORDER, Part { first: row % G::ROWS, count })
        } else {
            Block::Pair(offset >> G::HUGE_ORDER)
        })
    }

    #[cold]
    #[inline(never)]
    fn alloc_exact(&self, frame: FrameId, order: Order) -> Result<FrameId, AllocError> {
        let block = self.block(frame, order).map_err(|error| match error {
            FreeError::Misaligned(frame, order) => AllocError::Misaligned(frame, order),
            _ => AllocError::OutOfRange(frame),
        })?;
        let taken = match block {
            Block::Bits(row, at) => {
                let log = u32::from(order.0);
                let taken = self.take_bits(row, at, log);
                if taken {
                    self.count_bits(row, at, log, true);
                }
                taken
            }
            Block::Rows(child, part) => {
                let taken = self.turn_free(child, part, TAKEN);
                if taken {
                    self.count_rows(child, part, 0, true);
                }
                taken
            }
            Block::Pair(child) => {
                let taken = self.take_pair(child);
                if taken {
                    self.count_pair(child);
                }
                taken
            }
        };
        if taken { Ok(frame) } else { Err(AllocError::InUse(frame)) }
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

    fn check_slot(&self, slot: Slot) -> Result<(), BadSlot> {
        if slot.0 < self.zone.slots { Ok(()) } else { Err(BadSlot(slot)) }
    }

    #[inline(always)]
    fn free_bits_at(&self, row: usize, at: usize, order: u32) -> Result<(), Refusal> {
        let bits = self.give_bits(row, at, order)?;
        self.freed_bits(row, bits, at, order);
        Ok(())
    }

    /// A block of `order`, below a row's: its row, and where in it.
    #[inline(always)]
    fn alloc_bits(&self, order: u32, slot: usize) -> Option<(usize, usize)> {
        let row = self.slots.row(slot);
        let here = self.take_in_row(row, order).map(|at| (row, at));
        let (row, at) = here.or_else(|| self.find_bits(order, slot))?;
        self.count_bits(row, at, order, true);
        Some((row, at))
    }

    /// After a free of a block of a row, which has these bits now.
    #[inline(always)]
    fn freed_bits(&self, row: usize, bits: u64, at: usize, order: u32) {
        self.count_bits(row, at, order, false);
        let child = row / G::ROWS;
        if bits == G::ALL {
            return self.row_can_be_had(row);
        }
        self.can_be_had_singly(child, bits);
        self.look_for_riches(child, bits, at, order);
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
        let log = u32::from(order.0);
        if log > G::MAX_ORDER {
            return Err(AllocError::OrderTooLarge(order));
        }
        if slot.0 >= self.zone.slots {
            return Err(AllocError::BadSlot(slot));
        }
        if !self.zone.classes.has(class) {
            return Err(AllocError::BadClass(class));
        }
        let frame = match place {
            Place::Anywhere if log < G::ROW_ORDER => {
                // Compiled for single frames, too.
                let single = log == 0;
                let found =
                    if single { self.alloc_bits(0, slot.0) } else { self.alloc_bits(log, slot.0) };
                let (row, at) = found.ok_or(AllocError::OutOfMemory)?;
                FrameId(self.ground.base + (row << G::ROW_ORDER) + at)
            }
            Place::Anywhere => {
                let found = self.find_rows(log, slot.0).ok_or(AllocError::OutOfMemory)?;
                FrameId(self.ground.base + (found.child << G::HUGE_ORDER) + found.offset)
            }
            Place::At(frame) => self.alloc_exact(frame, order)?,
            Place::Within { .. } => return alloc_within(self, request),
        };
        self.slots.count(slot.0, -(1 << log));
        Ok(frame)
    }

    /// # Progress
    /// Lock-free.
    ///
    /// # Crash
    /// It has happened or not; of the largest order one half may be free.
    #[inline]
    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        self.check_slot(slot).map_err(|BadSlot(slot)| FreeError::BadSlot(slot))?;
        let log = u32::from(order.0);
        match self.block(frame, order)? {
            // Compiled for single frames, too.
            Block::Bits(row, at) if log == 0 => self.free_bits_at(row, at, 0),
            Block::Bits(row, at) => self.free_bits_at(row, at, log),
            Block::Rows(child, part) => self.give_rows(child, part),
            Block::Pair(child) => self.give_pair(child),
        }
        .map_err(|refusal| refusal.of(frame))?;
        self.slots.count(slot.0, 1 << log);
        Ok(())
    }

    fn can_free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        self.check_slot(slot).map_err(|BadSlot(slot)| FreeError::BadSlot(slot))?;
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
        self.check_slot(slot)
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
            part.rows().all(|row| self.free_bits(child * G::ROWS + row) == G::ALL)
        };
        match self.block(frame, order) {
            Ok(Block::Bits(row, at)) => {
                let block = crate::row::block(order.0.into(), at);
                self.free_bits(row) & block == block
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
