//! The contract, and what is known about the zone.

use core::ops::Range;

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{
    AllocError, BadSlot, Batch, FrameAllocator, FrameId, FreeBatchError, FreeError, Geometry,
    HugeId, OfflineError, Order, Persistence, Place, RangeRequest, Request, Slot, Stats,
    Unsupported, ZoneConfig, alloc_each, alloc_run, alloc_within, free_each, free_run,
};

use crate::LLFree;
use crate::allocate::Caller;
use crate::index::{Kind, Places};
use crate::init::{SLOT_BALANCE, TOTAL_FREE};
use crate::part::Part;
use crate::record::{By, ENTRIES, writes_of};
use crate::refusal::{NoBlock, NotFreed};
use crate::reservation::Reservation;
use crate::row::row_order;

impl<G: Geometry, P: Persistence> FrameAllocator for LLFree<'_, G, P> {
    type Geometry = G;

    const NAME: &'static str = "llfree";

    const UNSUPPORTED: Unsupported = Unsupported {
        exact_frame: false,
        partial_free: false,
        classes: false,
        offline: false,
        recovery: false,
        exact_exhaustion: false,
    };

    fn zone(&self) -> &ZoneConfig {
        &self.zone
    }

    #[inline]
    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        let Request { order, class, slot, place } = request;
        let caller = Caller { slot, class };
        let block = match (place, order) {
            (Place::At(frame), _) => {
                return self.allocate_exactly(&request, frame, By::alone(slot));
            }
            (Place::Within { .. }, _) => return alloc_within(self, request),
            (Place::Anywhere, Order::BASE) => self.allocate_order::<0>(caller),
            (Place::Anywhere, _) => self.allocate(order, caller),
        };
        block.map_err(|refusal| refusal.of(&request))
    }

    #[inline]
    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        let freed = match order {
            Order::BASE => self.free_order::<0>(frame, slot),
            order => self.free_any(frame, order, slot),
        };
        freed.map_err(|refusal| refusal.of(frame, order, slot))
    }

    fn alloc_batch(
        &self,
        request: Request,
        batch: Batch,
        out: &mut [FrameId],
    ) -> Result<usize, AllocError> {
        if out.is_empty() || request.order != Order::BASE || request.place != Place::Anywhere {
            return match P::INTENTS {
                true => self.allocate_parts(request, batch, out),
                false => alloc_each(self, request, batch, out),
            };
        }
        let caller = Caller { slot: request.slot, class: request.class };
        self.check(caller).map_err(|refusal| refusal.of(&request))?;
        let mut taken = 0;
        while taken < out.len() {
            let end = if P::INTENTS { out.len().min(taken + ENTRIES) } else { out.len() };
            self.begin_batch(request.slot);
            let (some, refused) =
                self.take_many(caller, out.get_mut(taken..end).unwrap_or_default());
            match refused {
                Some(refusal) if batch == Batch::All || taken + some == 0 => {
                    let own = out.get(..taken + some).unwrap_or_default();
                    let said = if P::INTENTS { own.get(taken..).unwrap_or_default() } else { &[] };
                    self.undo_batch(request.slot, said);
                    // They are the caller's to be, so the frees succeed.
                    let others = own.get(..own.len() - said.len()).unwrap_or_default();
                    let _ = self.free_batch(others, Order::BASE, request.slot);
                    return Err(refusal.of(&request));
                }
                _ => self.end_batch(request.slot),
            }
            taken += some;
            if refused.is_some() {
                break;
            }
        }
        Ok(taken)
    }

    fn free_batch(
        &self,
        frames: &[FrameId],
        order: Order,
        slot: Slot,
    ) -> Result<(), FreeBatchError> {
        if order != Order::BASE {
            return match P::INTENTS {
                true => self.free_parts(frames, order, slot),
                false => free_each(self, frames, order, slot),
            };
        }
        let mut freed = 0;
        while let Some(rest @ [first, ..]) = frames.get(freed..) {
            let freed_some =
                if P::INTENTS { self.free_rows(rest, slot) } else { self.free_row(rest, slot) };
            freed += match freed_some {
                Some(count) => count,
                None => {
                    let freed_one = self.free(*first, order, slot);
                    freed_one.map_err(|cause| FreeBatchError { freed, cause })?;
                    1
                }
            };
        }
        Ok(())
    }

    fn alloc_range(&self, request: RangeRequest) -> Result<Range<FrameId>, AllocError> {
        // Where they lie is said with the first write.
        let nowhere = FrameId(self.base)..FrameId(self.base);
        match P::INTENTS {
            true => self.as_run(request.slot, nowhere, |part| alloc_run(part, request)),
            false => alloc_run(self, request),
        }
    }

    fn free_range(&self, frames: Range<FrameId>, slot: Slot) -> Result<(), FreeError> {
        match P::INTENTS {
            true => self.as_run(slot, frames.clone(), |part| free_run(part, frames, slot)),
            false => free_run(self, frames, slot),
        }
    }

    fn can_free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        if !Self::is_order(order) {
            return Err(FreeError::OrderTooLarge(order));
        }
        let legal = self.check_free(frame, order, slot);
        let freeable = legal.and_then(|()| {
            let (huge, offset) = self.locate(frame);
            self.lower.check_allocated(huge, offset, order.0 as u32).map_err(NotFreed::from)
        });
        freeable.map_err(|refusal| refusal.of(frame, order, slot))
    }

    fn drain(&self, slot: Slot) -> Result<(), BadSlot> {
        if slot.0 >= self.zone.slots {
            return Err(BadSlot(slot));
        }
        for word in self.slot_reservations(slot) {
            self.drain_word(word);
        }
        Ok(())
    }

    fn offline(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        self.take_run_out(first, count)
    }

    fn online(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        self.put_run_back(first, count)
    }

    fn is_available(&self, order: Order) -> bool {
        Self::is_order(order)
            && (self.has_at_once(order.0 as u32) || self.has_anywhere(order.0 as u32))
    }

    fn free_frames(&self) -> usize {
        let total = self.total(TOTAL_FREE).load(Ordering::Relaxed);
        let free = total.wrapping_add(self.balances());
        // Calls in flight can make the sum wrong for a moment, below zero as well.
        (free as i64).max(0).unsigned_abs().min(self.zone.frames as u64) as usize
    }

    fn stats(&self) -> Stats {
        let (total, balances) = (self.total(TOTAL_FREE).load(Ordering::Relaxed), self.balances());
        let stats = self.survey();
        // The approximate count has lost what was counted twice at once in one slot; now it is
        // known. Not if something has changed meanwhile: the next call will do.
        if self.balances() == balances {
            let exact = (stats.free_frames as u64).wrapping_sub(balances);
            let relaxed = Ordering::Relaxed;
            let _ = self.total(TOTAL_FREE).compare_exchange(total, exact, relaxed, relaxed);
        }
        stats
    }

    fn is_free(&self, frame: FrameId, order: Order) -> bool {
        if !Self::is_order(order) || !self.zone.contains(frame, order) || !frame.is_aligned(order) {
            return false;
        }
        let (huge, offset) = self.locate(frame);
        self.lower.is_free(huge, offset, order.0 as u32)
    }

    fn free_map(&self, frame: FrameId) -> u64 {
        let rows = (0..64usize >> row_order::<G>()).map(|row| row << row_order::<G>());
        rows.fold(0, |map, bit| {
            let row = FrameId(frame.0 & !63 | bit);
            let inside = row.0 >= self.base && row < self.zone.end();
            let (huge, offset) = if inside { self.locate(row) } else { return map };
            map | self.lower.free_in_row(huge, offset) << bit
        })
    }

    fn free_in_huge(&self, huge: HugeId) -> usize {
        let first = huge.first::<G>();
        // Parts of huge frames at the ends of the zone count as well.
        let inside = first.0 >= self.base && first < self.zone.end();
        if inside { self.lower.count_free(self.locate(first).0) } else { 0 }
    }
}

impl<G: Geometry, P: Persistence> LLFree<'_, G, P> {
    /// The zone counted in O(trees + slots). Nothing is written.
    pub(crate) fn survey(&self) -> Stats {
        let mut stats = Stats::default();
        for index in 0..self.trees.len() {
            let (tree, whole) = (self.tree(index), self.lower.count_whole(index));
            let credits: usize = self.children(index).map(|huge| self.lower.credits(huge)).sum();
            stats.offline_huge += self.lower.count_offline(index);
            // Every class has its statistics.
            stats.classes.get_mut(tree.class().0 as usize).into_iter().for_each(|class| {
                class.trees += 1;
                class.free_frames += credits + (whole << G::HUGE_ORDER);
                class.free_huge += whole;
            });
        }
        for word in self.reservations() {
            let now = self.read(word);
            let class = self.tree(now.tree()).class();
            if let Some(class) = stats.classes.get_mut(class.0 as usize).filter(|_| now.is_some()) {
                let counted = self.holds_free_huge(now) && self.is_first_holder(word, now);
                class.free_frames += now.held();
                class.free_huge += counted as usize;
            }
        }
        stats.free_frames = stats.classes.iter().map(|class| class.free_frames).sum();
        stats.free_huge = stats.classes.iter().map(|class| class.free_huge).sum();
        stats
    }

    /// Allocates as many base frames as there are; how many, and why not more.
    fn take_many(&self, caller: Caller, out: &mut [FrameId]) -> (usize, Option<NoBlock>) {
        let word = self.reservation(caller.slot, caller.class);
        let mut taken = 0;
        while let Some(rest) = out.get_mut(taken..).filter(|rest| !rest.is_empty()) {
            taken += match self.take_held_many(word, caller.slot, rest) {
                // The child is used up: the next frame is found where single ones are.
                0 => match self.allocate_in_batch(caller) {
                    Ok(frame) => {
                        rest.iter_mut().take(1).for_each(|entry| *entry = frame);
                        1
                    }
                    Err(refusal) => return (taken, Some(refusal)),
                },
                some => some,
            };
        }
        (taken, None)
    }

    /// A batch with intents: as many blocks at a time as a record names.
    fn allocate_parts(
        &self,
        request: Request,
        batch: Batch,
        out: &mut [FrameId],
    ) -> Result<usize, AllocError> {
        let Request { order, slot, .. } = request;
        let (room, mut next, mut taken) = (Self::batch_room(order).max(1), request, 0);
        while taken < out.len() {
            let end = out.len().min(taken + room);
            self.begin_batch(slot);
            match alloc_each(&Part(self), next, batch, out.get_mut(taken..end).unwrap_or_default()) {
                Ok(some) => {
                    self.end_batch(slot);
                    taken += some;
                    if taken < end {
                        break;
                    }
                    if let Place::At(frame) = next.place {
                        let behind = frame.0.saturating_add(some.saturating_mul(order.frames()));
                        next = next.at(FrameId(behind));
                    }
                }
                Err(_) if batch == Batch::UpTo && taken > 0 => {
                    self.forget_batch(slot);
                    break;
                }
                Err(error) => {
                    self.forget_batch(slot);
                    // They are the caller's to be, so the frees succeed.
                    let _ = self.free_batch(out.get(..taken).unwrap_or_default(), order, slot);
                    return Err(error);
                }
            }
        }
        Ok(taken)
    }

    /// The same of blocks that are freed.
    fn free_parts(
        &self,
        frames: &[FrameId],
        order: Order,
        slot: Slot,
    ) -> Result<(), FreeBatchError> {
        let mut freed = 0;
        while let Some(rest @ [_, ..]) = frames.get(freed..) {
            // Of one that cannot be freed nothing is said: the free says why.
            let count = self.begin_block_frees(rest, order, slot);
            let some = rest.get(..count.max(1)).unwrap_or_default();
            let done = free_each(&Part(self), some, order, slot);
            let its = done.as_ref().map_or_else(|refused| refused.freed, |()| some.len());
            self.end_frees(
                slot,
                if count > 0 { its * writes_of::<G>(u32::from(order.0)) } else { 0 },
            );
            freed += its;
            done.map_err(|refused| FreeBatchError { freed, ..refused })?;
        }
        Ok(())
    }

    /// Frames freed less frames allocated, by the slots' own counts; modulo 2^64.
    fn balances(&self) -> u64 {
        (0..self.zone.slots).map(Slot).fold(0, |sum: u64, slot| {
            sum.wrapping_add(self.slot_word(slot, SLOT_BALANCE).load(Ordering::Relaxed))
        })
    }

    /// The huge frames of a tree.
    pub(crate) fn children(&self, tree: usize) -> core::ops::Range<usize> {
        let first = tree * G::TREE_HUGE;
        first..(first + G::TREE_HUGE).min(self.lower.len())
    }

    /// Is every frame of the child free of which the reservation holds credits? Its state does not
    /// say so then.
    fn holds_free_huge(&self, now: Reservation<G>) -> bool {
        self.holds_free(now, G::HUGE_ORDER)
    }

    /// Is this the first of the reservations that hold credits of the same child? There can be
    /// several after frees by others.
    fn is_first_holder(&self, word: &AtomicU64, now: Reservation<G>) -> bool {
        let same =
            |other: Reservation<G>| other.held() > 0 && other.huge_index() == now.huge_index();
        let first = self.reservations().find(|&other| same(self.read(other)));
        first.is_none_or(|first| core::ptr::eq(first, word))
    }

    /// Is a block of `order` free in the huge frame of which the reservation holds credits?
    fn holds_free(&self, now: Reservation<G>, order: u32) -> bool {
        let huge = now.huge_index();
        now.held() > 0
            && match order.checked_sub(G::HUGE_ORDER) {
                Some(pair) => self.lower.is_free(huge & !((1 << pair) - 1), 0, order),
                None => self.lower.rows(huge, now.polarity()).find(order, 0).is_some(),
            }
    }

    /// Is a block of `order` free where there are huge frames first? This is nearly always the answer,
    /// and Linux asks before each allocation of more than one frame.
    #[inline(always)]
    fn has_at_once(&self, order: u32) -> bool {
        let first = self.index.first(Kind::Huge, Places::ALL, 0);
        first.is_some_and(|tree| self.lower.has_free(tree, order.max(G::HUGE_ORDER)))
    }

    /// Is one free at all? Where the index has something first, and then everywhere.
    #[inline(never)]
    fn has_anywhere(&self, order: u32) -> bool {
        let serves = |tree| self.could_serve(tree, order);
        self.index.firsts(Kind::Huge).any(serves)
            || order < G::HUGE_ORDER && self.index.firsts(Kind::Partial).any(serves)
            || self.all_that_serve(order).next().is_some()
            || self.reservations().any(|word| self.holds_free(self.read(word), order))
    }

    /// The trees that could serve a request of `order`, whoever has reserved them, by their numbers.
    pub(crate) fn all_that_serve(&self, order: u32) -> impl Iterator<Item = usize> {
        (0..self.trees.len()).filter(move |&tree| self.could_serve(tree, order))
    }

    /// Inlined, so that a look at all trees of a full zone calls nothing.
    #[inline(always)]
    fn could_serve(&self, tree: usize, order: u32) -> bool {
        let has_part = || order < G::HUGE_ORDER && self.tree(tree).children() != 0;
        self.lower.has_free(tree, order.max(G::HUGE_ORDER))
            || has_part() && self.choose_child(tree, order, None).is_some()
    }
}
