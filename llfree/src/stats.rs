//! The contract, and what is known about the zone.

use core::ops::Range;

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{
    AllocError, BadSlot, Batch, Claim, FrameAllocator, FrameId, FreeBatchError, FreeError,
    Geometry, HugeId, IsolateError, OfflineError, Order, Persistence, Place, RangeRequest, Request,
    Slot, Stats, Unsupported, ZoneConfig, alloc_run, alloc_within, free_each, free_run,
};

use crate::LLFree;
use crate::allocate::Caller;
use crate::index::{Kind, Places};
use crate::init::{SLOT_BALANCE, TOTAL_FREE};
use crate::record::By;
use crate::refusal::NotFreed;
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
        isolation: false,
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
        self.allocate_batch(request, batch, out)
    }

    fn free_batch(
        &self,
        frames: &[FrameId],
        order: Order,
        slot: Slot,
    ) -> Result<(), FreeBatchError> {
        match order {
            Order::BASE => self.free_frames_in_batch(frames, slot),
            order if P::INTENTS => self.free_parts(frames, order, slot),
            order => free_each(self, frames, order, slot),
        }
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
        for word in self.words_of(slot) {
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
        self.is_there(huge, offset, order.0 as u32)
    }

    fn free_map(&self, frame: FrameId) -> u64 {
        let rows = (0..64usize >> row_order::<G>()).map(|row| row << row_order::<G>());
        rows.fold(0, |map, bit| {
            let row = FrameId(frame.0 & !63 | bit);
            let inside = row.0 >= self.base && row < self.zone.end();
            let (huge, offset) = if inside { self.locate(row) } else { return map };
            let free =
                if self.lower.is_isolated(huge) { 0 } else { self.lower.free_in_row(huge, offset) };
            map | free << bit
        })
    }

    fn free_in_huge(&self, huge: HugeId) -> usize {
        let first = huge.first::<G>();
        // Parts of huge frames at the ends of the zone count as well.
        let inside = first.0 >= self.base && first < self.zone.end();
        let huge = if inside { self.locate(first).0 } else { return 0 };
        if self.lower.is_isolated(huge) { 0 } else { self.lower.count_free(huge) }
    }

    fn isolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        self.isolate_run(first, count)
    }

    fn unisolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        self.unisolate_run(first, count)
    }

    fn claim_isolated(
        &self,
        first: HugeId,
        count: usize,
        claim: Claim,
    ) -> Result<(), IsolateError> {
        self.claim_run(first, count, claim)
    }

    fn is_isolated(&self, huge: HugeId) -> bool {
        self.huge_index(huge).is_some_and(|huge| self.lower.is_isolated(huge))
    }

    fn frames_in_use(&self, huge: HugeId) -> usize {
        let first = huge.first::<G>();
        let inside = first.0 >= self.base && first < self.zone.end();
        if inside { self.count_used(self.locate(first).0) } else { 0 }
    }

    fn used_map(&self, frame: FrameId) -> u64 {
        self.used_of_word(frame)
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
            let isolated =
                self.children(index).filter_map(|huge| self.lower.isolated_credits(huge));
            isolated.for_each(|credits| {
                stats.isolated_huge += 1;
                stats.isolated_frames += credits;
            });
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
                Some(pair) => self.is_there(huge & !((1 << pair) - 1), 0, order),
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
