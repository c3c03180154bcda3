//! Allocation: figure 14(a) of LLFree, from the slot's reservation down to the bits.
//!
//! ```text
//!   0  a block that the slot has just freed                                       (pocket)
//!   1  the slot's own tree: the child held, or another one that is in part allocated
//!   2  another tree with such children, of the class or one that it fills        (index)
//!      or such a child of a tree that another reservation has                   (borrowed)
//!   3  if no tree is entirely free: what other slots of the class have reserved
//!   4  a huge frame that is free as a whole: of the own tree, then of another    (index)
//!      or a child with a run for the order, of a tree of any class               (index)
//!   5  what any slot has reserved, for any class
//!   6  every tree by its number; then everything is drained, and from the top
//! ```
//!
//! Base frames thus fill up the huge frames that are in part allocated, everywhere, before they
//! break another one: that, and keeping the classes apart, is what leaves huge frames whole. In a
//! simulation of the shipped pressure trace mixing the classes costs most (0.68 of the possible
//! huge frames for 0.82); breaking a huge frame before filling another class's costs the build
//! trace its target.
//! Step 3 matters where slots are many and trees few: without it eight slots each break huge
//! frames of their own while partly allocated ones lie in the others' trees. While entirely free
//! trees are left there is no need, and the slots keep apart.
//!
//! Huge frames come from the slot's tree for their class, then from the index, then as in step 5.
//!
//! Step 6 is for what the others go by and another call has not written yet, and may never write: a tree
//! that was reserved and is in no reservation, one of which the index was not told.

use woodlot_frame::atomics::AtomicU64;
use woodlot_frame::{AllocError, Class, FrameId, Geometry, Order, Persistence, Request, Slot};

use crate::LLFree;
use crate::children::Child;
use crate::index::{Kind, Places};
use crate::lower::Surplus;
use crate::record::By;
use crate::refusal::NoBlock;
use crate::reservation::Reservation;
use crate::row::ROW_ORDER;
use crate::rows::Spot;
use crate::state::States;

/// May a huge frame that is free as a whole be opened for base frames?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Open {
    Yes,
    No,
}

/// How often an allocation starts again after everything was drained, before it says that memory
/// is exhausted. With no other call under way once is enough; more than that bridges credits that
/// other calls have in flight.
const ROUNDS: usize = 3;

/// How many trees a search for a run of base frames looks into before it opens a huge frame: of each class
/// that it may fill, and again among those that it may borrow from.
const CANDIDATES: usize = 8;

/// For whom a block is.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) slot: Slot,
    pub(crate) class: Class,
}

impl<G: Geometry, P: Persistence> LLFree<'_, G, P> {
    /// Are the slot and the class those of the zone?
    #[inline(always)]
    pub(crate) fn check(&self, caller: Caller) -> Result<(), NoBlock> {
        if caller.slot.0 >= self.zone.slots {
            return Err(NoBlock::BadSlot);
        }
        if !self.zone.classes.has(caller.class) {
            return Err(NoBlock::BadClass);
        }
        Ok(())
    }

    /// The usual case: base frames of the child that the slot holds, by one swap of the reservation
    /// and one of the row where the last block was, or of several. Whatever else happens is told by
    /// a call in tail position, so that nothing has to be kept across calls.
    #[inline(never)]
    pub(crate) fn allocate_order<const ORDER: u32>(
        &self,
        caller: Caller,
    ) -> Result<FrameId, NoBlock> {
        self.check(caller)?;
        if self.has_kept(caller.slot, ORDER) {
            return self.allocate_kept::<ORDER>(caller);
        }
        let word = self.reservation(caller.slot, caller.class);
        let now = self.read(word);
        if now.held() < 1 << ORDER {
            return self.allocate_next::<ORDER>(caller);
        }
        let start = now.frame_index();
        let (offset, rows) = self.lower.rows_of(start, ORDER, now.polarity());
        let Some(spot) = rows.look(ORDER, offset >> ROW_ORDER) else {
            return self.allocate_behind::<ORDER>(caller);
        };
        let paid = now.pay(1 << ORDER).behind(rows.filled(ORDER, spot));
        if self.swap(word, now, paid).is_err() {
            return self.allocate_behind::<ORDER>(caller);
        }
        let intent = self.intent(By::alone(caller.slot), start - offset);
        let claimed = match P::INTENTS {
            true => rows.claim_once(spot, ORDER, intent),
            false => rows.claim_in(spot, ORDER, intent),
        };
        match claimed {
            Ok(found) => {
                self.count(caller.slot, 1 << ORDER, false);
                Ok(FrameId(self.base + start - offset + found))
            }
            Err(lost) => self.allocate_paid(caller, ORDER, now, lost),
        }
    }

    /// A block that was just freed, or another one.
    #[inline(never)]
    fn allocate_kept<const ORDER: u32>(&self, caller: Caller) -> Result<FrameId, NoBlock> {
        match self.take_kept(caller, ORDER) {
            Some(frame) => Ok(frame),
            None => self.allocate_behind::<ORDER>(caller),
        }
    }

    /// Allocates any block, from wherever there is one. The orders are told apart, so that the compiler
    /// knows how many bits they are.
    #[inline(never)]
    pub(crate) fn allocate(&self, order: Order, caller: Caller) -> Result<FrameId, NoBlock> {
        match order.0 as u32 {
            order if order == G::HUGE_ORDER => self.allocate_huge::<1>(caller),
            order if order == G::MAX_ORDER => self.allocate_huge::<2>(caller),
            order if order > G::MAX_ORDER => Err(NoBlock::OrderTooLarge),
            0 => self.allocate_order::<0>(caller),
            1 => self.allocate_order::<1>(caller),
            2 => self.allocate_order::<2>(caller),
            3 => self.allocate_order::<3>(caller),
            4 => self.allocate_order::<4>(caller),
            5 => self.allocate_order::<5>(caller),
            6 => self.allocate_order::<6>(caller),
            7 => self.allocate_order::<7>(caller),
            8 => self.allocate_order::<8>(caller),
            9 => self.allocate_order::<9>(caller),
            10 => self.allocate_order::<10>(caller),
            _ => self.allocate_order::<11>(caller),
        }
    }

    /// One huge frame, or two that make a pair, of the tree that is reserved.
    #[inline(never)]
    fn allocate_huge<const COUNT: usize>(&self, caller: Caller) -> Result<FrameId, NoBlock> {
        self.check(caller)?;
        let now = self.read(self.reservation(caller.slot, caller.class));
        if let Some(tree) = now.own_tree()
            && let Some((huge, before)) =
                self.lower.allocate_first(tree, COUNT, self.intent(By::alone(caller.slot), 0))
        {
            self.count(caller.slot, COUNT << G::HUGE_ORDER, false);
            if !self.tree(tree).is_reserved() {
                return self.allocated_unreserved(huge, before, COUNT);
            }
            return Ok(self.frame(huge, 0));
        }
        self.allocate_slowly(caller, G::HUGE_ORDER + COUNT.trailing_zeros())
    }

    /// The same of a tree that was drained meanwhile.
    #[cold]
    fn allocated_unreserved(
        &self,
        huge: usize,
        before: States,
        count: usize,
    ) -> Result<FrameId, NoBlock> {
        self.follow_states(huge, before, -(count as isize));
        Ok(self.frame(huge, 0))
    }

    /// Base frames from another row of the child that the slot holds, or from elsewhere.
    #[inline(never)]
    fn allocate_behind<const ORDER: u32>(&self, caller: Caller) -> Result<FrameId, NoBlock> {
        let word = self.reservation(caller.slot, caller.class);
        match self.take_held(word, ORDER, By::alone(caller.slot)) {
            Some(frame) => {
                self.count(caller.slot, 1 << ORDER, false);
                Ok(frame)
            }
            None => self.allocate_next::<ORDER>(caller),
        }
    }

    /// Base frames from the next huge frame of the own tree, where nothing is in part allocated and
    /// trees are free: that is what steps 1 to 4 come to then. Or from wherever they lead to.
    #[inline(never)]
    fn allocate_next<const ORDER: u32>(&self, caller: Caller) -> Result<FrameId, NoBlock> {
        let word = self.reservation(caller.slot, caller.class);
        if let Some(tree) = self.read(word).own_tree()
            && self.only_free_frames(tree, caller)
            && let Some(child) = self.open(tree)
            && let Some(frame) =
                self.take_and_hold(word, tree, child, ORDER, By::alone(caller.slot))
        {
            self.count(caller.slot, 1 << ORDER, false);
            return Ok(frame);
        }
        self.allocate_slowly(caller, ORDER)
    }

    /// Is nothing in part allocated that the class could fill up, in the slot's own tree and others,
    /// and is some tree entirely free?
    #[inline(always)]
    fn only_free_frames(&self, own: usize, caller: Caller) -> bool {
        let filled = self.filled(caller.class);
        self.tree(own).children() == 0
            && !self.index.may_have(Kind::Partial, filled)
            && !self.index.may_have(Kind::Lending, filled)
            && self.index.first(Kind::Huge, Places::FREE_TREES, own).is_some_and(|tree| {
                !self.tree(tree).is_reserved() && self.lower.count_whole(tree) == G::TREE_HUGE
            })
    }

    /// Base frames from elsewhere in the child that the slot held, after it has paid, and the block
    /// that it had found was lost, with so many of the credits; or from wherever there are some.
    #[cold]
    fn allocate_paid(
        &self,
        caller: Caller,
        order: u32,
        paid: Reservation<G>,
        lost: usize,
    ) -> Result<FrameId, NoBlock> {
        let word = self.reservation(caller.slot, caller.class);
        let (huge, count) = (paid.huge_index(), 1 << order);
        let rows = self.lower.rows(huge, paid.polarity());
        let intent = self.intent(By::alone(caller.slot), huge << G::HUGE_ORDER);
        match if lost > 0 { Err(lost) } else { rows.claim_behind(order, paid.row(), intent) } {
            Ok(offset) => {
                self.count(caller.slot, count, false);
                Ok(self.frame(huge, offset))
            }
            Err(lost) => {
                self.repay(word, paid, count - lost);
                self.allocate_slowly(caller, order)
            }
        }
    }

    /// Allocates the block that a request names, which begins at `frame`.
    #[inline(never)]
    pub(crate) fn allocate_exactly(
        &self,
        request: &Request,
        frame: FrameId,
        by: By,
    ) -> Result<FrameId, AllocError> {
        let &Request { order, class, slot, .. } = request;
        if !Self::is_order(order) {
            return Err(AllocError::OrderTooLarge(order));
        }
        self.check(Caller { slot, class }).map_err(|refusal| refusal.of(request))?;
        self.allocate_at(frame, order, class, by)?;
        self.count(slot, order.frames(), false);
        Ok(frame)
    }

    /// A block of any order of base frames from the child that the slot holds.
    #[inline(always)]
    pub(crate) fn take_held(&self, word: &AtomicU64, order: u32, by: By) -> Option<FrameId> {
        let now = self.read(word);
        if now.held() < 1 << order {
            return None;
        }
        let rows = self.lower.rows(now.huge_index(), now.polarity());
        let spot = rows.find(order, now.row())?;
        let paid = now.pay(1 << order).at_row(spot.row).behind(rows.filled(order, spot));
        self.swap(word, now, paid).ok()?;
        self.claim(word, now, order, spot, by)
    }

    /// Allocates up to `out.len()` base frames of the child that the slot holds, by one swap of the
    /// reservation and one for each row; returns how many.
    pub(crate) fn take_held_many(
        &self,
        word: &AtomicU64,
        slot: Slot,
        out: &mut [FrameId],
    ) -> usize {
        let now = self.read(word);
        let count = now.held().min(out.len());
        let rows = self.lower.rows(now.huge_index(), now.polarity());
        let spot = if count > 0 { rows.find(0, now.row()) } else { None };
        let paid = |spot: &Spot| self.swap(word, now, now.pay(count).at_row(spot.row)).is_ok();
        let Some(spot) = spot.filter(paid) else {
            return 0;
        };
        let mut entries = out.iter_mut();
        let intent = self.intent(By::part(slot), now.huge_index() << G::HUGE_ORDER);
        let taken = rows.claim_many(count, spot.row, intent, |offset| {
            // There is one for each.
            let entry = entries.next().into_iter();
            entry.for_each(|entry| *entry = self.frame(now.huge_index(), offset));
        });
        if taken < count {
            self.repay(word, now, count - taken);
        }
        self.count(slot, taken, false);
        taken
    }

    /// Claims a block of the child that `paid` held when it paid for it.
    #[inline(always)]
    pub(crate) fn claim(
        &self,
        word: &AtomicU64,
        paid: Reservation<G>,
        order: u32,
        spot: Spot,
        by: By,
    ) -> Option<FrameId> {
        let huge = paid.huge_index();
        let intent = self.intent(by, huge << G::HUGE_ORDER);
        match self.lower.rows(huge, paid.polarity()).claim(order, spot, intent) {
            Ok(offset) => Some(self.frame(huge, offset)),
            Err(lost) => {
                self.repay(word, paid, (1 << order) - lost);
                None
            }
        }
    }

    /// Gives `count` credits back to the reservation, or to the child.
    #[cold]
    fn repay(&self, word: &AtomicU64, paid: Reservation<G>, count: usize) {
        let (huge, polarity) = (paid.huge_index(), paid.polarity());
        if self.change(word, |now| now.repay(huge, count, polarity)).is_none() {
            self.give_child(huge, count, Surplus::Drop);
        }
    }

    #[inline(never)]
    fn allocate_slowly(&self, caller: Caller, order: u32) -> Result<FrameId, NoBlock> {
        self.allocate_anywhere(caller, order, By::alone(caller.slot))
    }

    /// One frame of a batch, from wherever there is one.
    pub(crate) fn allocate_in_batch(&self, caller: Caller) -> Result<FrameId, NoBlock> {
        match P::INTENTS {
            true => self.allocate_part(Order::BASE, caller),
            false => self.allocate_order::<0>(caller),
        }
    }

    /// A block of any order, from wherever there is one, as a part of the operation that the slot's record has open.
    #[cold]
    pub(crate) fn allocate_part(&self, order: Order, caller: Caller) -> Result<FrameId, NoBlock> {
        if !Self::is_order(order) {
            return Err(NoBlock::OrderTooLarge);
        }
        self.check(caller)?;
        self.allocate_anywhere(caller, u32::from(order.0), By::part(caller.slot))
    }

    fn allocate_anywhere(&self, caller: Caller, order: u32, by: By) -> Result<FrameId, NoBlock> {
        let Caller { slot, class } = caller;
        for _ in 0..ROUNDS {
            let found = if order < G::HUGE_ORDER {
                self.find_base(order, class, slot, by)
            } else {
                self.find_huge(order, class, slot, by)
            };
            let found = found
                .or_else(|| {
                    let take = |other| self.take_from(other, order, Open::Yes, by);
                    self.reservations().find_map(take)
                })
                .or_else(|| {
                    self.all_that_serve(order).find_map(|tree| self.take_of_tree(tree, order, by))
                });
            if let Some(frame) = found {
                self.count(slot, 1 << order, false);
                return Ok(frame);
            }
            if !self.drain_all() {
                break;
            }
        }
        Err(NoBlock::OutOfMemory)
    }

    /// Allocates from a tree, whoever has reserved it; what is left of a child's credits goes back.
    #[cold]
    fn take_of_tree(&self, tree: usize, order: u32, by: By) -> Option<FrameId> {
        if order >= G::HUGE_ORDER {
            return self.take_whole(tree, 1 << (order - G::HUGE_ORDER), by);
        }
        let child = self.take_chosen(tree, order, None).or_else(|| self.open(tree))?;
        let Child { huge, credits, polarity, .. } = child;
        let intent = self.intent(by, huge << G::HUGE_ORDER);
        let claimed = self.lower.rows(huge, polarity).claim_behind(order, 0, intent);
        self.give_held(huge, credits - claimed.err().unwrap_or(1 << order));
        claimed.ok().map(|offset| self.frame(huge, offset))
    }

    /// Gives up every reservation of every slot. False: there was none.
    pub(crate) fn drain_all(&self) -> bool {
        self.reservations().filter(|word| self.drain_word(word)).count() > 0
    }

    /// Steps 1 to 4.
    fn find_base(&self, order: u32, class: Class, slot: Slot, by: By) -> Option<FrameId> {
        let word = self.reservation(slot, class);
        self.open_pocket(slot, order);
        let take = |word, open| self.take_base(word, order, open, by);
        if let Some(frame) = take(word, Open::No) {
            return Some(frame);
        }
        if (self.move_to_partial(word, order, class) || self.borrow_child(word, order, class))
            && let Some(frame) = take(word, Open::No)
        {
            return Some(frame);
        }
        if !self.has_free_tree() {
            let shared = self.reservations_of(class).find_map(|other| take(other, Open::No));
            if shared.is_some() {
                return shared;
            }
        }
        if let Some(frame) = take(word, Open::Yes) {
            return Some(frame);
        }
        if self.move_to_huge(word, class, 0, |_| true)
            && let Some(frame) = take(word, Open::Yes)
        {
            return Some(frame);
        }
        // Runs in trees that the quick look did not reach.
        let anywhere = |tree| self.choose_child(tree, order, None).is_some();
        if self.move_to(word, class, (Kind::Partial, Places::ALL, 0), anywhere) {
            return take(word, Open::No);
        }
        None
    }

    /// Moves to a tree that nobody has reserved, of the class or one that it fills, which has
    /// huge frames that are in part allocated.
    fn move_to_partial(&self, word: &AtomicU64, order: u32, class: Class) -> bool {
        self.index.may_have(Kind::Partial, self.filled(class))
            && self.zone.classes.fills(class).any(|filled| {
                let mut looks = Self::candidates(order);
                self.move_to(word, class, (Kind::Partial, Places::of(filled), 0), |tree| {
                    looks() && self.choose_child(tree, order, None).is_some()
                })
            })
    }

    /// For each tree that a search comes upon: is it to be looked into? One with credits has a frame;
    /// for runs of frames there is a limit.
    fn candidates(order: u32) -> impl FnMut() -> bool {
        let mut left = CANDIDATES;
        move || {
            let look = order == 0 || left > 0;
            left = left.saturating_sub(1);
            look
        }
    }

    /// Borrows a child that is in part allocated from a tree that another reservation has: of the
    /// class, or one that it fills.
    fn borrow_child(&self, word: &AtomicU64, order: u32, class: Class) -> bool {
        let own = self.read(word);
        let look = |tree| self.look_at(tree);
        let child = self.zone.classes.fills(class).find_map(|filled| {
            let (places, mut looks) = (Places::of(filled), Self::candidates(order));
            self.index.search(Kind::Lending, places, own.tree(), look, |tree, _| {
                if !own.owns(tree) && looks() { self.take_chosen(tree, order, None) } else { None }
            })
        });
        child.is_some_and(|child| {
            self.install(word, Reservation::guest(child.huge, child.credits, child.polarity));
            self.look_for_isolation(word, child.huge);
            true
        })
    }

    /// Gives the children that the slot holds and that are entirely free back: they are free huge
    /// frames.
    fn let_go(&self, slot: Slot) {
        for word in self.words_of(slot) {
            let full = |now: Reservation<G>| (now.held() == G::HUGE_FRAMES).then_some(now.empty());
            if let Some(now) = self.change(word, full) {
                self.close(now.huge_index());
            }
        }
    }

    fn find_huge(&self, order: u32, class: Class, slot: Slot, by: By) -> Option<FrameId> {
        let word = self.reservation(slot, class);
        self.let_go(slot);
        let count = 1 << (order - G::HUGE_ORDER);
        let take = || self.take_whole(self.read(word).own_tree()?, count, by);
        take().or_else(|| self.take_where_freed(class, slot, count, by)).or_else(|| {
            let fits = |tree| self.lower.has_free(tree, order);
            let moved = self.move_to_huge(word, class, self.home(slot), fits);
            if moved { take() } else { None }
        })
    }

    /// From the tree into which the slot freed last, if nothing else is free there and nobody has reserved it: where huge frames
    /// are freed and allocated by turns, the slot need not move from tree to tree.
    fn take_where_freed(&self, class: Class, slot: Slot, count: usize, by: By) -> Option<FrameId> {
        let tree = self.last_freed_tree(slot)?;
        let entry = self.tree(tree);
        let no_more = || self.lower.count_whole(tree) <= count;
        let serves = !entry.is_reserved() && entry.class() == class && no_more();
        if serves { self.take_whole(tree, count, by) } else { None }
    }

    /// Moves to a tree with free huge frames: of the class, one that is entirely free, of another
    /// class.
    fn move_to_huge(
        &self,
        word: &AtomicU64,
        class: Class,
        first: usize,
        fits: impl Fn(usize) -> bool,
    ) -> bool {
        let own = Places::of(class).but(Places::FREE_TREES);
        let others = self.zone.classes.turns(class).skip(1);
        let others = others.map(|other| Places::of(other).but(Places::FREE_TREES));
        [own, Places::FREE_TREES]
            .into_iter()
            .chain(others)
            .any(|places| self.move_to(word, class, (Kind::Huge, places, first), &fits))
    }

    /// Allocates from a reservation, whoever's it is.
    fn take_from(&self, word: &AtomicU64, order: u32, open: Open, by: By) -> Option<FrameId> {
        if order < G::HUGE_ORDER {
            self.take_base(word, order, open, by)
        } else {
            self.take_whole(self.read(word).own_tree()?, 1 << (order - G::HUGE_ORDER), by)
        }
    }

    fn take_base(&self, word: &AtomicU64, order: u32, open: Open, by: By) -> Option<FrameId> {
        // A claim that finds no bit for its credits met a claim of another call that is half done.
        for _ in 0..2 {
            if let Some(frame) = self.take_held(word, order, by) {
                return Some(frame);
            }
            let now = self.read(word);
            let tree = now.own_tree()?;
            let child = self.next_child(tree, now, order, open)?;
            if let Some(frame) = self.take_and_hold(word, tree, child, order, by) {
                return Some(frame);
            }
        }
        None
    }

    /// The child of the slot's own tree to fill next, from which `order` can be allocated: the most used
    /// that is in part allocated, but for the one held, else, if it may be opened, one that is free as a
    /// whole.
    fn next_child(
        &self,
        tree: usize,
        now: Reservation<G>,
        order: u32,
        open: Open,
    ) -> Option<Child> {
        let not = (now.held() > 0).then_some(now.huge_index());
        let child = self.take_chosen(tree, order, not);
        child.or_else(|| if open == Open::Yes { self.open(tree) } else { None })
    }

    /// Allocates from a child whose credits the caller has taken, and makes the rest of them the
    /// reservation's.
    #[inline(always)]
    fn take_and_hold(
        &self,
        word: &AtomicU64,
        tree: usize,
        child: Child,
        order: u32,
        by: By,
    ) -> Option<FrameId> {
        let Child { huge, credits, polarity, .. } = child;
        let rows = self.lower.rows(huge, polarity);
        let spot = match credits == G::HUGE_FRAMES {
            true => rows.first(order),
            false => match rows.find(order, 0) {
                Some(spot) => spot,
                None => {
                    self.hold(word, tree, child);
                    return None;
                }
            },
        };
        let row = spot.row + rows.filled(order, spot);
        self.hold(word, tree, Child { credits: credits - (1 << order), row, ..child });
        self.claim(word, Reservation::guest(huge, 0, polarity), order, spot, by)
    }

    /// Allocates one huge frame, or two that make a pair, of a tree.
    fn take_whole(&self, tree: usize, count: usize, by: By) -> Option<FrameId> {
        let (huge, before) = self.lower.allocate_first(tree, count, self.intent(by, 0))?;
        self.states_changed(huge, before, -(count as isize));
        Some(self.frame(huge, 0))
    }
}
