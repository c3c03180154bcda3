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
use crate::child::{Child, Polarity};
use crate::index::{Kind, Places};
use crate::lower::Gain;
use crate::reservation::Reservation;
use crate::rows::Rows;

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
        let count = now.held().min(now.credits().frames).min(out.len());
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

    /// Gives `count` frames' credits back to the reservation, or to the child and the tree.
    #[cold]
    fn repay(&self, word: &AtomicU64, paid: Reservation<G>, count: usize) {
        let (huge, polarity) = (paid.huge_index(), paid.polarity());
        if self.change(word, |now| now.repay(huge, count, polarity)).is_none() {
            let child = self.give_child(huge, count, polarity);
            self.give_back(word, paid.tree(), Gain { frames: count, huge: child.huge });
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
        let anywhere = |tree| self.has_run(tree, order);
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
                let look = candidates > 0;
                candidates -= look as usize;
                order == 0 || look && self.has_run(tree, order)
            })
        })
    }

    /// Borrows a child that is in part allocated from a tree that another reservation has: of the
    /// class, or one that it fills.
    fn borrow_child(&self, order: u32, class: Class, slot: Slot) -> bool {
        let fills = |tree| self.zone.classes.fills(class).any(|filled| filled == tree);
        let word = self.reservation(slot, class);
        self.reservations_from(slot).take(LENDERS).any(|other| {
            let now = self.read(other);
            let lends = !core::ptr::eq(other, word)
                && now.owns(now.tree())
                && fills(self.tree(now.tree()).class());
            lends
                && self.borrow_from(other, now, order).is_some_and(|borrowed| {
                    self.install(word, borrowed);
                    true
                })
        })
    }

    /// Pays the lender's tree and the child for all of the child's credits.
    fn borrow_from(
        &self,
        lender: &AtomicU64,
        now: Reservation<G>,
        order: u32,
    ) -> Option<Reservation<G>> {
        let tree = now.tree();
        let held = if now.held() > 0 { 1 << (now.huge_index() % G::TREE_HUGE) } else { 0 };
        let (huge, _) = self.choose_child(tree, order, held, Open::No)?;
        let price = Gain { frames: self.lower.child(huge).free(), huge: 0 };
        if price.frames < 1 << order {
            return None;
        }
        let pay = |now: Reservation<G>| if now.owns(tree) { now.without(price) } else { None };
        let paid = self.change(lender, pay).is_some()
            || self.synchronise(lender, now) && self.change(lender, pay).is_some();
        if !paid {
            return None;
        }
        match self.lower.take(huge, price.frames, false) {
            Some(polarity) => Some(Reservation::guest(huge, price.frames, polarity)),
            None => {
                self.give_back(lender, tree, price);
                None
            }
        }
    }

    /// Gives the children that the slot holds and that are entirely free back to their trees: they
    /// are free huge frames.
    fn let_go(&self, slot: Slot) {
        for word in self.slot_reservations(slot) {
            let now = self.read(word);
            if now.held() < G::HUGE_FRAMES {
                continue;
            }
            if now.is_guest() {
                self.drain_word(word);
            } else {
                self.hold(word, now.tree(), now.huge_index(), 0, now.polarity());
            }
        }
    }

    fn allocate_huge(&self, order: u32, class: Class, slot: Slot) -> Option<FrameId> {
        let word = self.reservation(slot, class);
        self.let_go(slot);
        let take = |word| self.take_from(word, order, Open::Yes);
        take(word).or_else(|| {
            let fits = |tree| order == G::HUGE_ORDER || self.find_whole(tree, order, 0).is_some();
            if self.move_to_huge(word, class, fits) { take(word) } else { None }
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
            if now.credits().frames < count {
                if self.synchronise(word, now) {
                    continue;
                }
                return None;
            }
            let rows = self.lower.rows(now.huge_index(), now.polarity());
            let row = if now.held() < count { None } else { rows.find(order, now.row()) };
            match row.zip(row.and_then(|row| now.pay(count, row))) {
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
        let mut refused = if now.held() > 0 { 1 << (now.huge_index() % G::TREE_HUGE) } else { 0 };
        loop {
            let Some((huge, whole)) = self.choose_child(now.tree(), order, refused, open) else {
                return false;
            };
            if whole && !self.pay_huge(word, now.tree()) {
                return false;
            }
            match self.lower.take_all(huge, 1 << order, whole) {
                Some((held, polarity)) => {
                    self.hold(word, now.tree(), huge, held, polarity);
                    return true;
                }
                None => {
                    if whole {
                        self.give_back(word, now.tree(), Gain { frames: 0, huge: 1 });
                    }
                    refused |= 1 << (huge % G::TREE_HUGE);
                }
            }
        }
    }

    /// The child of a tree to fill next, and whether it is free as a whole; none of `refused`.
    fn choose_child(
        &self,
        tree: usize,
        order: u32,
        mut refused: u64,
        open: Open,
    ) -> Option<(usize, bool)> {
        loop {
            let mut best = None;
            let mut whole = None;
            self.each_child(tree, |huge, child| {
                if child.free() < 1 << order || refused >> (huge % G::TREE_HUGE) & 1 != 0 {
                    return;
                }
                if child.is_free::<G>() {
                    whole = whole.or(Some((huge, true)));
                } else if best.is_none_or(|(_, free)| child.free() < free) {
                    best = Some((huge, child.free()));
                }
            });
            match best {
                Some((huge, _)) if order == 0 || self.child_has_run(huge, order) => {
                    return Some((huge, false));
                }
                Some((huge, _)) => refused |= 1 << (huge % G::TREE_HUGE),
                None => return whole.filter(|_| open == Open::Yes),
            }
        }
    }

    /// Every child of a tree, with the index of its huge frame.
    #[inline(always)]
    fn each_child(&self, tree: usize, mut see: impl FnMut(usize, Child)) {
        let mut even = tree * G::TREE_HUGE;
        let last = (even + G::TREE_HUGE).min(self.lower.len());
        while even < last {
            let [a, b] = self.lower.children(even);
            see(even, a);
            see(even + 1, b);
            even += 2;
        }
    }

    fn child_has_run(&self, huge: usize, order: u32) -> bool {
        let child = self.lower.child(huge);
        self.lower.rows(huge, child.polarity()).find(order, 0).is_some()
    }

    /// Has some child of the tree, in part allocated, a free run for `order`?
    fn has_run(&self, tree: usize, order: u32) -> bool {
        self.choose_child(tree, order, 0, Open::No).is_some()
    }

    /// Pays for opening a huge frame of the tree, from the reservation.
    fn pay_huge(&self, word: &AtomicU64, tree: usize) -> bool {
        let price = Gain { frames: 0, huge: 1 };
        let pay = |now: Reservation<G>| if now.owns(tree) { now.without(price) } else { None };
        self.change(word, pay).is_some() || {
            let now = self.read(word);
            now.owns(tree) && self.synchronise(word, now) && self.change(word, pay).is_some()
        }
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
        let freed = match self.change(word, hold) {
            Some(before) => self.give_child(before.huge_index(), before.held(), before.polarity()),
            None => self.give_child(huge, held, polarity),
        };
        // The tree's credits for base frames were not taken, only the child's.
        self.give_back(word, tree, Gain { frames: 0, huge: freed.huge });
    }

    /// Allocates one huge frame, or two that make a pair.
    #[inline]
    fn take_whole(&self, word: &AtomicU64, order: u32) -> Option<FrameId> {
        let huge = 1 << (order - G::HUGE_ORDER);
        let price = Gain { frames: huge << G::HUGE_ORDER, huge };
        let mut failed = 0;
        while failed < 2 {
            let now = self.read(word);
            if !now.is_some() {
                return None;
            }
            let Some(paid) = now.without(price) else {
                if self.synchronise(word, now) {
                    continue;
                }
                return None;
            };
            let found = self.find_whole(now.tree(), order, now.huge_index())?;
            if self.swap(word, now, paid.looking_at(found)).is_ok() {
                if self.lower.allocate_whole(found, order) {
                    return Some(self.frame(found, 0));
                }
                self.give_back(word, now.tree(), price);
                failed += 1;
            }
        }
        None
    }

    /// A free huge frame of a tree, or the first of a free pair, looking first at `from`.
    #[inline]
    fn find_whole(&self, tree: usize, order: u32, from: usize) -> Option<usize> {
        let first = tree * G::TREE_HUGE;
        let last = (first + G::TREE_HUGE).min(self.lower.len());
        let mut even = if first <= from && from < last { from & !1 } else { first };
        for _ in 0..G::TREE_HUGE / 2 {
            let [a, b] = self.lower.children(even).map(Child::is_free::<G>);
            if a && (b || order == G::HUGE_ORDER) {
                return Some(even);
            }
            if b && order == G::HUGE_ORDER {
                return Some(even + 1);
            }
            even = if even + 2 < last { even + 2 } else { first };
        }
        None
    }
}
