//! Allocation: figure 14(a) of LLFree, from the slot's reservation down to the bits.
//!
//! ```text
//!   1  the slot's own tree: the child held, or another one that is in part allocated
//!   2  another tree with such children, of the class or one that it fills        (index)
//!      or such a child of a tree that another reservation has                   (borrowed)
//!   3  if no tree is entirely free: what other slots of the class have reserved
//!   4  a huge frame that is free as a whole: of the own tree, then of another    (index)
//!   5  what any slot has reserved, for any class; then everything is drained, and from the top
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

use woodlot_frame::atomics::AtomicU64;
use woodlot_frame::{AllocError, Class, FrameId, Geometry, Order, Request, Slot};

use crate::LLFree;
use crate::index::{Kind, Places};
use crate::lower::Surplus;
use crate::reservation::Reservation;
use crate::rows::Rows;
use crate::state::Polarity;

/// How many reservations are looked at for a child to borrow, the slot's own first. More would
/// cost more cache lines of other CPUs than a huge frame is worth that somebody else could break.
const LENDERS: usize = 32;

/// May a huge frame that is free as a whole be opened for base frames?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Open {
    Yes,
    No,
}

/// How often an allocation starts again after everything was drained, before it says that memory
/// is exhausted. With no other call under way once is enough; more than that bridges credits that
/// other calls have in flight.
const ROUNDS: usize = 3;

/// How many trees a search for a run of base frames looks into before it opens a huge frame.
const CANDIDATES: usize = 8;

impl<G: Geometry> LLFree<'_, G> {
    /// Is this a request that the zone can have?
    pub(crate) fn check(&self, request: &Request) -> Result<(), AllocError> {
        if !Self::is_order(request.order) {
            return Err(AllocError::OrderTooLarge(request.order));
        }
        if request.slot.0 >= self.zone.slots {
            return Err(AllocError::BadSlot(request.slot));
        }
        if !self.zone.classes.has(request.class) {
            return Err(AllocError::BadClass(request.class));
        }
        Ok(())
    }

    /// The most usual case, of the size that a caller can inline: one base frame of the child held.
    #[inline(always)]
    pub(crate) fn allocate_frame(&self, request: &Request) -> Option<FrameId> {
        if request.order != Order::BASE || request.frame.is_some() {
            return None;
        }
        let frame = self.take_held(self.reservation(request.slot, request.class), 0)?;
        self.count(request.slot, 1, false);
        Some(frame)
    }

    /// Allocates a block: a certain one, or one from wherever there is one.
    #[inline(never)]
    pub(crate) fn allocate(&self, request: &Request) -> Result<FrameId, AllocError> {
        let &Request { class, slot, frame, order } = request;
        if let Some(frame) = frame {
            self.allocate_at(frame, order, class)?;
            self.count(slot, order.frames(), false);
            return Ok(frame);
        }
        let order = order.0 as u32;
        let word = self.reservation(slot, class);
        let held = match order < G::HUGE_ORDER {
            true => self.take_held(word, order),
            false => self.take_whole(word, order),
        };
        match held {
            Some(frame) => {
                self.count(slot, 1 << order, false);
                Ok(frame)
            }
            None => self.allocate_slowly(order, class, slot),
        }
    }

    /// The usual case: a base-frame block of the child that the slot holds, by one swap of the
    /// reservation and one of a row.
    #[inline(always)]
    fn take_held(&self, word: &AtomicU64, order: u32) -> Option<FrameId> {
        let now = self.read(word);
        if now.held() < 1 << order {
            return None;
        }
        let rows = self.lower.rows(now.huge_index(), now.polarity());
        let row = rows.find(order, now.row())?;
        self.swap(word, now, now.pay(1 << order, row)?).ok()?;
        self.claim(word, now, rows, order, row)
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
        let paid = if count > 0 { rows.find(0, now.row()) } else { None };
        let Some(row) = paid.filter(|&row| {
            now.pay(count, row).is_some_and(|paid| self.swap(word, now, paid).is_ok())
        }) else {
            return 0;
        };
        let mut entries = out.iter_mut();
        let taken = rows.claim_many(count, row, |offset| {
            if let Some(entry) = entries.next() {
                *entry = self.frame(now.huge_index(), offset);
            }
        });
        if taken < count {
            self.repay(word, now, count - taken);
        }
        self.count(slot, taken, false);
        taken
    }

    /// Claims a block of the child held, for which `paid` has paid.
    #[inline(always)]
    fn claim(
        &self,
        word: &AtomicU64,
        paid: Reservation<G>,
        rows: Rows<G>,
        order: u32,
        row: usize,
    ) -> Option<FrameId> {
        let huge = paid.huge_index();
        match rows.claim(order, row) {
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

    #[cold]
    fn allocate_slowly(&self, order: u32, class: Class, slot: Slot) -> Result<FrameId, AllocError> {
        for round in 0..ROUNDS {
            let found = if order < G::HUGE_ORDER {
                self.allocate_base(order, class, slot)
            } else {
                self.allocate_huge(order, class, slot)
            };
            let found = found.or_else(|| {
                self.reservations().find_map(|other| self.take_from(other, order, Open::Yes))
            });
            if let Some(frame) = found {
                self.count(slot, 1 << order, false);
                return Ok(frame);
            }
            // Where nobody had anything, one more look bridges what was being moved just now.
            if !self.drain_all() && round > 0 {
                break;
            }
        }
        Err(AllocError::OutOfMemory)
    }

    /// Gives up every reservation of every slot. False: there was none.
    fn drain_all(&self) -> bool {
        self.reservations().filter(|word| self.drain_word(word)).count() > 0
    }

    /// Steps 1 to 4.
    fn allocate_base(&self, order: u32, class: Class, slot: Slot) -> Option<FrameId> {
        let word = self.reservation(slot, class);
        let take = |word, open| self.take_from(word, order, open);
        if let Some(frame) = take(word, Open::No) {
            return Some(frame);
        }
        if (self.move_to_partial(word, order, class) || self.borrow_child(order, class, slot))
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
        if self.move_to_huge(word, class, |_| true)
            && let Some(frame) = take(word, Open::Yes)
        {
            return Some(frame);
        }
        // Runs in trees that the quick look did not reach.
        let anywhere = |tree| self.choose_child(tree, order, None).is_some();
        if self.move_to(word, class, Kind::Partial, Places::ALL, anywhere) {
            return take(word, Open::No);
        }
        None
    }

    /// Moves to a tree that nobody has reserved, of the class or one that it fills, which has
    /// huge frames that are in part allocated.
    fn move_to_partial(&self, word: &AtomicU64, order: u32, class: Class) -> bool {
        self.zone.classes.fills(class).any(|filled| {
            let mut candidates = CANDIDATES;
            self.move_to(word, class, Kind::Partial, Places::of(filled), |tree| {
                let look = order == 0 || candidates > 0;
                candidates = candidates.saturating_sub(1);
                look && self.choose_child(tree, order, None).is_some()
            })
        })
    }

    /// Borrows a child that is in part allocated from a tree that another reservation has: of the
    /// class, or one that it fills.
    fn borrow_child(&self, order: u32, class: Class, slot: Slot) -> bool {
        let word = self.reservation(slot, class);
        self.reservations_from(slot).take(LENDERS).any(|other| {
            let now = self.read(other);
            if !now.owns(now.tree()) || core::ptr::eq(other, word) {
                return false;
            }
            let tree = self.tree(now.tree());
            tree.children() != 0
                && self.zone.classes.fills(class).any(|filled| filled == tree.class())
                && self.take_chosen(now.tree(), order, None).is_some_and(|(huge, held, polarity)| {
                    self.install(word, Reservation::guest(huge, held, polarity));
                    true
                })
        })
    }

    /// Gives the children that the slot holds and that are entirely free back: they are free huge
    /// frames.
    fn let_go(&self, slot: Slot) {
        for word in self.slot_reservations(slot) {
            let full = |now: Reservation<G>| {
                (now.held() == G::HUGE_FRAMES).then_some(now.empty())
            };
            if let Some(now) = self.change(word, full) {
                self.close(now.huge_index());
            }
        }
    }

    fn allocate_huge(&self, order: u32, class: Class, slot: Slot) -> Option<FrameId> {
        let word = self.reservation(slot, class);
        self.let_go(slot);
        self.take_whole(word, order).or_else(|| {
            let fits = |tree| self.lower.has_free(tree, order);
            if self.move_to_huge(word, class, fits) { self.take_whole(word, order) } else { None }
        })
    }

    /// Moves to a tree with free huge frames: of the class, one that is entirely free, of another
    /// class.
    fn move_to_huge(&self, word: &AtomicU64, class: Class, fits: impl Fn(usize) -> bool) -> bool {
        let own = Places::of(class).but(Places::FREE_TREES);
        let others = self.zone.classes.turns(class).skip(1);
        let others = others.map(|other| Places::of(other).but(Places::FREE_TREES));
        [own, Places::FREE_TREES]
            .into_iter()
            .chain(others)
            .any(|places| self.move_to(word, class, Kind::Huge, places, &fits))
    }

    /// Allocates from a reservation, whoever's it is.
    fn take_from(&self, word: &AtomicU64, order: u32, open: Open) -> Option<FrameId> {
        if order < G::HUGE_ORDER {
            self.take_base(word, order, open)
        } else {
            self.take_whole(word, order)
        }
    }

    fn take_base(&self, word: &AtomicU64, order: u32, open: Open) -> Option<FrameId> {
        let count = 1 << order;
        // A claim that finds no bit for its credits met a claim of another call that is half done.
        let mut failed = 0;
        while failed < 2 {
            let now = self.read(word);
            if !now.is_some() {
                return None;
            }
            let rows = self.lower.rows(now.huge_index(), now.polarity());
            let row = if now.held() < count { None } else { rows.find(order, now.row()) };
            match row.and_then(|row| Some((row, now.pay(count, row)?))) {
                Some((row, paid)) => {
                    if self.swap(word, now, paid).is_ok() {
                        if let Some(frame) = self.claim(word, now, rows, order, row) {
                            return Some(frame);
                        }
                        failed += 1;
                    }
                }
                None => {
                    if !self.refill(word, now, order, open) {
                        return None;
                    }
                }
            }
        }
        None
    }

    /// Makes the slot hold another child of its tree, one from which `order` can be allocated: the
    /// most used that is in part allocated, else, if it may be opened, one that is free as a
    /// whole. False: there is none.
    fn refill(&self, word: &AtomicU64, now: Reservation<G>, order: u32, open: Open) -> bool {
        if now.is_guest() {
            return false;
        }
        let tree = now.tree();
        let not = (now.held() > 0).then_some(now.huge_index());
        let child = self.take_chosen(tree, order, not);
        let child = child.or_else(|| if open == Open::Yes { self.open(tree) } else { None });
        child.is_some_and(|(huge, held, polarity)| {
            self.hold(word, tree, huge, held, polarity);
            true
        })
    }

    /// Opens a huge frame of a tree that is free as a whole.
    fn open(&self, tree: usize) -> Option<(usize, usize, Polarity)> {
        let (huge, change) = self.lower.open_first(tree)?;
        self.states_changed(tree, change);
        Some((huge, G::HUGE_FRAMES, self.lower.polarity(huge)))
    }

    /// Takes all credits of the child of a tree to fill next, but for `not`.
    fn take_chosen(
        &self,
        tree: usize,
        order: u32,
        not: Option<usize>,
    ) -> Option<(usize, usize, Polarity)> {
        while let Some(huge) = self.choose_child(tree, order, not) {
            if let Some((held, polarity)) = self.take_child(huge, 1 << order) {
                return Some((huge, held, polarity));
            }
        }
        None
    }

    /// The most used child of a tree that is in part allocated and has a run for `order`, but for
    /// `not`.
    fn choose_child(&self, tree: usize, order: u32, not: Option<usize>) -> Option<usize> {
        let first = tree * G::TREE_HUGE;
        let mut open = self.tree(tree).children();
        loop {
            let mut best = None;
            let mut rest = open;
            while rest != 0 {
                let child = rest.trailing_zeros();
                rest &= rest - 1;
                let credits = self.lower.credits(first + child as usize);
                if credits < 1 << order || not == Some(first + child as usize) {
                    open &= !(1 << child);
                    if credits == 0 {
                        self.forget_child(first + child as usize);
                    }
                } else if best.is_none_or(|(_, least)| credits < least) {
                    best = Some((child, credits));
                }
            }
            let (child, _) = best?;
            let huge = first + child as usize;
            if order == 0 || self.child_has_run(huge, order) {
                return Some(huge);
            }
            open &= !(1 << child);
        }
    }

    fn child_has_run(&self, huge: usize, order: u32) -> bool {
        self.lower.rows(huge, self.lower.polarity(huge)).find(order, 0).is_some()
    }

    /// Makes `held` credits of a child the reservation's, and gives back what it held before; if
    /// the reservation has moved to another tree, the credits go back themselves.
    pub(crate) fn hold(
        &self,
        word: &AtomicU64,
        tree: usize,
        huge: usize,
        held: usize,
        polarity: Polarity,
    ) {
        let hold = |now: Reservation<G>| {
            if now.owns(tree) { Some(now.holding(huge, held, polarity)) } else { None }
        };
        match self.change(word, hold) {
            Some(before) => self.give_held(before.huge_index(), before.held()),
            None => self.give_held(huge, held),
        }
    }

    /// Allocates one huge frame, or two that make a pair.
    #[inline(always)]
    fn take_whole(&self, word: &AtomicU64, order: u32) -> Option<FrameId> {
        let now = self.read(word);
        if !now.owns(now.tree()) {
            return None;
        }
        let (huge, change) = self.lower.allocate_first(now.tree(), order)?;
        self.states_changed(now.tree(), change);
        Some(self.frame(huge, 0))
    }
}
