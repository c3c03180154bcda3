//! The contract, from the caller's side.
//!
//! # What is declared away
//! * *Partial frees.* A block is freed as it was allocated. To free a part of it, the nodes on the
//!   way from the block down to that part would have to be turned from free to in use in several
//!   cells, while the block still hides them; but an allocation that is bound to fail at the block
//!   leaves its marks there for a while, and the free could neither wait for them to go nor write
//!   over them. What makes an allocation here is that no node above is occupied; a block that is
//!   taken away from above by degrees has no such moment.
//! * *A zone that begins allocated* (`Init::Allocated`): its blocks would have been allocated in an
//!   order of nobody's choosing, so without partial frees nobody could free them. Holes are claimed
//!   with exact-frame requests instead.
//! * *Classes.* Blocks lie where the search finds room.
//!
//! # Misuse
//! A free must name a block's first frame and its order: anything else is refused. That is exact in
//! both forms while no other call is under way, since a block's fields say its size, and a free looks
//! whether they lie in another block, where an allocation may have them for a moment. What cannot be
//! told: a free of a block that was freed before and is another owner's now, in the same order, or is
//! being tried by an allocation. If such a free hits an allocation before its climb has ended, that block
//! is handed out although it is free, or the allocation fails and leaves its marks; then blocks around it
//! may look in use until something in them is allocated and freed again.
//!
//! A wrong `online` of a huge frame that an `offline` of several is just taking ends as that one's own:
//! if the `offline` fails after all, what is taken back may be somebody's who came between.

use woodlot_frame::{
    AllocError, BadSlot, ClassStats, FrameAllocator, FrameId, FreeError, Geometry, HugeId,
    OfflineError, Order, Place, Request, Slot, Stats, Unsupported, ZoneConfig, alloc_within,
};

use crate::Nbbs;
use crate::field::OFFLINE;
use crate::forest::Kind;
use crate::form::Form;
use crate::shape::Node;

impl<G: Geometry, F: Form> Nbbs<'_, G, F> {
    #[inline(always)]
    fn check(&self, order: Order, slot: Slot) -> Result<u32, AllocError> {
        if u32::from(order.0) > G::MAX_ORDER {
            return Err(AllocError::OrderTooLarge(order));
        }
        if slot.0 >= self.zone.slots {
            return Err(AllocError::BadSlot(slot));
        }
        Ok(order.0.into())
    }

    /// The node of a block of the zone, or what is wrong with it.
    #[inline(always)]
    fn node(&self, frame: FrameId, order: Order) -> Result<Node, FreeError> {
        if u32::from(order.0) > G::MAX_ORDER {
            return Err(FreeError::OrderTooLarge(order));
        }
        if !frame.is_aligned(order) {
            return Err(FreeError::Misaligned(frame, order));
        }
        if !self.zone.contains(frame, order) {
            return Err(FreeError::OutOfRange(frame));
        }
        Ok(Node::around(frame.0 - self.base, order.0.into()))
    }

    #[inline(always)]
    fn frame(&self, node: Node) -> FrameId {
        FrameId(self.base + node.start())
    }

    #[cold]
    #[inline(never)]
    fn alloc_exact(&self, frame: FrameId, order: Order) -> Result<Node, AllocError> {
        let node = self.node(frame, order).map_err(|error| match error {
            FreeError::Misaligned(frame, order) => AllocError::Misaligned(frame, order),
            _ => AllocError::OutOfRange(frame),
        })?;
        match self.claim(node, 0) {
            true => Ok(node),
            false => Err(AllocError::InUse(frame)),
        }
    }

    /// Why a free was refused.
    #[cold]
    #[inline(never)]
    fn refusal(&self, frame: FrameId, node: Node) -> FreeError {
        let tally = self.forest.tally(node);
        if tally.free > 0 {
            FreeError::NotAllocated(frame)
        } else if tally.offline > 0 {
            FreeError::Offline(frame)
        } else {
            FreeError::Unsupported
        }
    }

    /// The nodes of some huge frames of the zone.
    fn huge_frames(
        &self,
        first: HugeId,
        count: usize,
    ) -> Result<impl Iterator<Item = Node> + Clone + use<G, F>, OfflineError> {
        let range = self.zone.huge_range::<G>();
        let end = first.0.checked_add(count).filter(|&end| end <= range.end.0);
        let end = end.filter(|_| count > 0 && first >= range.start);
        let end = end.ok_or(OfflineError::OutOfRange)?;
        let before = self.base >> G::HUGE_ORDER;
        Ok((first.0..end).map(move |huge| Node { order: G::HUGE_ORDER, index: huge - before }))
    }

    /// The node of a huge frame of the forest, which may lie outside the zone in part.
    fn huge_node(&self, huge: HugeId) -> Option<Node> {
        let index = huge.0.checked_sub(self.base >> G::HUGE_ORDER)?;
        (index < self.forest.shape.frames() >> G::HUGE_ORDER)
            .then_some(Node { order: G::HUGE_ORDER, index })
    }
}

impl<G: Geometry, F: Form> FrameAllocator for Nbbs<'_, G, F> {
    type Geometry = G;

    const NAME: &'static str = F::NAME;

    const UNSUPPORTED: Unsupported = Unsupported {
        exact_frame: false,
        partial_free: true,
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
    /// Lock-free; three times round the zone at most, and three times more, once the releases that slots have put
    /// off are done, before memory is said to be exhausted.
    #[inline]
    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        let order = self.check(request.order, request.slot)?;
        if !self.zone.classes.has(request.class) {
            return Err(AllocError::BadClass(request.class));
        }
        let slot = request.slot.0;
        let node = match request.place {
            Place::Anywhere => {
                let found = self.find(order, self.slots.hint(slot));
                let (node, crowded) = found.ok_or(AllocError::OutOfMemory)?;
                let start = node.start();
                self.slots.set_hint(slot, if crowded { self.forest.apart(start) } else { start });
                node
            }
            Place::At(frame) => self.alloc_exact(frame, request.order)?,
            Place::Within { .. } => return alloc_within(self, request),
        };
        self.slots.count(slot, -(1 << order));
        Ok(self.frame(node))
    }

    /// # Progress
    /// Lock-free.
    #[inline]
    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        if slot.0 >= self.zone.slots {
            return Err(FreeError::BadSlot(slot));
        }
        let node = self.node(frame, order)?;
        if !self.give(node, slot.0) {
            return Err(self.refusal(frame, node));
        }
        self.slots.count(slot.0, 1 << order.0);
        Ok(())
    }

    fn can_free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        if slot.0 >= self.zone.slots {
            return Err(FreeError::BadSlot(slot));
        }
        let node = self.node(frame, order)?;
        let own = self.forest.is_block(node, 0) && !self.forest.lies_in_block(node);
        if own { Ok(()) } else { Err(self.refusal(frame, node)) }
    }

    /// A slot holds no frames, only a release that it has put off.
    fn drain(&self, slot: Slot) -> Result<(), BadSlot> {
        if slot.0 >= self.zone.slots {
            return Err(BadSlot(slot));
        }
        self.settle_slot(slot.0);
        Ok(())
    }

    fn offline(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        let nodes = self.huge_frames(first, count)?;
        let taken = nodes.clone().take_while(|&node| self.claim(node, OFFLINE)).count();
        if taken < count {
            let in_use = first.0.saturating_add(taken);
            nodes.take(taken).for_each(|node| _ = self.forest.free(node, OFFLINE));
            return Err(OfflineError::in_use(self, HugeId(in_use)));
        }
        self.slots.add(((count << G::HUGE_ORDER) as u64).wrapping_neg());
        Ok(())
    }

    /// # Crash
    /// One that is cut off may leave huge frames allocated: nobody's, and not offline.
    fn online(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        let nodes = self.huge_frames(first, count)?;
        // They become this call's own first, all or none, and are then freed.
        let take =
            |node: &Node| !self.forest.lies_in_block(*node) && self.forest.mark(*node, OFFLINE, 0);
        let own = nodes.clone().take_while(take).count();
        if own < count {
            nodes.take(own).for_each(|node| _ = self.forest.mark(node, 0, OFFLINE));
            return Err(OfflineError::NotOffline);
        }
        nodes.for_each(|node| _ = self.forest.free(node, 0));
        self.slots.add((count << G::HUGE_ORDER) as u64);
        Ok(())
    }

    /// Exact for every order while no other call is under way. As fast as an allocation from slot 0: where nothing is
    /// free, a byte for each block of the largest order and a word for each slot are looked at.
    fn is_available(&self, order: Order) -> bool {
        let order = u32::from(order.0);
        order <= G::MAX_ORDER && self.has(order, self.slots.hint(0))
    }

    fn free_frames(&self) -> usize {
        self.slots.free(self.zone.frames)
    }

    fn stats(&self) -> Stats {
        self.settle();
        let all = self.forest.tally_all();
        let range = self.zone.huge_range::<G>();
        let nodes = (range.start.0..range.end.0).filter_map(|huge| self.huge_node(HugeId(huge)));
        let free_huge = nodes.filter(|&node| self.forest.kind_within(node) == Kind::Free).count();
        self.slots.heal(all.free as u64);
        let (first, last) = (self.zone.start.0, self.zone.end().0 - 1);
        let mut stats = Stats {
            free_frames: all.free,
            free_huge,
            offline_huge: all.offline >> G::HUGE_ORDER,
            ..Stats::default()
        };
        stats.classes[0] = ClassStats {
            trees: last / G::TREE_FRAMES - first / G::TREE_FRAMES + 1,
            free_frames: all.free,
            free_huge,
        };
        stats
    }

    fn is_free(&self, frame: FrameId, order: Order) -> bool {
        let free = |node| self.forest.kind_within(node) == Kind::Free;
        self.node(frame, order).is_ok_and(|node| self.now_or_settled(|| free(node)))
    }

    fn free_map(&self, frame: FrameId) -> u64 {
        let order = G::MAX_ORDER.min(6);
        let nodes = (0..64usize >> order).map(|node| node << order);
        nodes.fold(0, |map, bit| {
            let offset = (frame.0 & !63 | bit).checked_sub(self.base);
            match offset.filter(|&offset| offset < self.forest.shape.frames()) {
                Some(offset) => map | self.forest.free_map(Node::around(offset, order)) << bit,
                None => map,
            }
        })
    }

    fn free_in_huge(&self, huge: HugeId) -> usize {
        self.huge_node(huge).map_or(0, |node| self.forest.tally(node).free)
    }
}
