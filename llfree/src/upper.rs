//! The upper level: which tree a slot draws from (LLFree section 3.2.2).
//!
//! ```text
//!             reserve + install
//!   tree  ────────────────────────▶ reservation     child  ── take all ──▶ reservation, as held
//!         ◀────────────────────────                        ◀── give ─────
//!             replaced or drained                       ── close: free as a whole
//! ```
//!
//! Credits move between the counter of a child and a reservation. In between they belong to the call that
//! moves them. The tree entry and the index only follow: the call that changes a counter tells them
//! afterwards.

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{Class, Geometry, MAX_CLASSES, Persistence, Slot};

use crate::LLFree;
use crate::index::{Kind, Places, Use};
use crate::init::{SLOT_BALANCE, SLOT_WORDS, TOTAL_FREE};
use crate::lower::{Credits, Given, Open, Surplus, To};
use crate::reservation::Reservation;
use crate::state::{Polarity, States};
use crate::tree::{Tree, quarters};

impl<G: Geometry, P: Persistence> LLFree<'_, G, P> {
    /// A word of the zone's totals.
    pub(crate) fn total(&self, word: usize) -> &AtomicU64 {
        // SAFETY: `from_parts` checked that there are `TOTAL_WORDS` of them, and every caller
        // names one by its constant.
        unsafe { self.totals.get_unchecked(word) }
    }

    /// The words of a slot that exists.
    #[inline]
    pub(crate) fn slot_words(&self, slot: Slot) -> &[AtomicU64; SLOT_WORDS] {
        debug_assert!(slot.0 < self.slots.len());
        // SAFETY: `from_parts` checked that there are words for each slot, and public calls check the
        // slot.
        unsafe { self.slots.get_unchecked(slot.0) }
    }

    /// A word of a slot that exists.
    #[inline]
    pub(crate) fn slot_word(&self, slot: Slot, word: usize) -> &AtomicU64 {
        debug_assert!(word < SLOT_WORDS);
        // SAFETY: words are named by constants or classes.
        unsafe { self.slot_words(slot).get_unchecked(word) }
    }

    /// The reservation of a slot for a class.
    #[inline]
    pub(crate) fn reservation(&self, slot: Slot, class: Class) -> &AtomicU64 {
        self.slot_word(slot, class.0 as usize & (MAX_CLASSES - 1))
    }

    /// The reservations of a slot.
    #[inline]
    pub(crate) fn slot_reservations(&self, slot: Slot) -> &[AtomicU64] {
        let classes = self.zone.classes.count();
        debug_assert!(classes <= MAX_CLASSES);
        // SAFETY: there are fewer classes than words of a slot.
        unsafe { self.slot_words(slot).get_unchecked(..classes) }
    }

    /// Whatever the slots hold: their pockets, and their reservations for every class. Of each slot, the classes whose
    /// frames stay longest come first: the memory around such frames is least likely to become a huge frame again.
    pub(crate) fn reservations(&self) -> impl Iterator<Item = &AtomicU64> {
        (0..self.zone.slots).map(Slot).flat_map(|slot| self.words_of(slot))
    }

    /// Whatever a slot holds.
    pub(crate) fn words_of(&self, slot: Slot) -> impl Iterator<Item = &AtomicU64> {
        self.pockets(slot).iter().chain(self.slot_reservations(slot).iter().rev())
    }

    /// The reservations of every slot for one class.
    pub(crate) fn reservations_of(&self, class: Class) -> impl Iterator<Item = &AtomicU64> {
        self.slots.iter().filter_map(move |slot| slot.get(class.0 as usize))
    }

    #[inline]
    pub(crate) fn read(&self, word: &AtomicU64) -> Reservation<G> {
        Reservation::from_word(word.load(Ordering::Acquire))
    }

    #[inline]
    pub(crate) fn swap(
        &self,
        word: &AtomicU64,
        before: Reservation<G>,
        after: Reservation<G>,
    ) -> Result<(), Reservation<G>> {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let result = word.compare_exchange(before.word(), after.word(), success, failure);
        result.map(drop).map_err(Reservation::from_word)
    }

    /// Changes a reservation as `change` says, unless that says `None`.
    #[inline]
    pub(crate) fn change(
        &self,
        word: &AtomicU64,
        change: impl Fn(Reservation<G>) -> Option<Reservation<G>>,
    ) -> Option<Reservation<G>> {
        let mut before = self.read(word);
        loop {
            let after = change(before)?;
            match self.swap(word, before, after) {
                Ok(()) => return Some(before),
                Err(now) => before = now,
            }
        }
    }

    /// The entry of a tree.
    #[inline]
    pub(crate) fn tree(&self, tree: usize) -> Tree {
        let none = Tree::new(Class(0));
        self.trees.get(tree).map_or(none, |entry| Tree(entry.load(Ordering::Acquire)))
    }

    /// The entry of the tree in which the frame `index` lies, counted from the first that the metadata is
    /// for.
    ///
    /// # Safety
    /// There is such a frame.
    #[inline(always)]
    pub(crate) unsafe fn tree_of(&self, index: usize) -> Tree {
        let tree = (index >> G::HUGE_ORDER) / G::TREE_HUGE;
        debug_assert!(tree < self.trees.len());
        // SAFETY: there is an entry for the tree of each frame.
        Tree(unsafe { self.trees.get_unchecked(tree) }.load(Ordering::Acquire))
    }

    /// What a tree is.
    #[inline]
    pub(crate) fn look_at(&self, tree: usize) -> Use {
        let entry = self.tree(tree);
        // The states of a reserved tree are not for others to read.
        let whole = if entry.is_reserved() { 0 } else { self.lower.count_whole(tree) };
        Use::new(entry, whole)
    }

    /// Changes a tree entry as `change` says, unless that says `None`. Returns it before and after.
    fn change_entry(
        &self,
        tree: usize,
        change: impl Fn(Tree) -> Option<Tree>,
    ) -> Option<(Tree, Tree)> {
        let entry = self.trees.get(tree)?;
        let mut before = Tree(entry.load(Ordering::Relaxed));
        loop {
            let after = change(before)?;
            match entry.compare_exchange(before.0, after.0, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some((before, after)),
                Err(now) => before = Tree(now),
            }
        }
    }

    /// The same, and keeps the index true. False: `change` said `None`.
    pub(crate) fn change_tree(&self, tree: usize, change: impl Fn(Tree) -> Option<Tree>) -> bool {
        self.change_entry(tree, change).is_some_and(|(before, after)| {
            let whole = if after.is_reserved() {
                0
            } else if before.is_reserved() || before.class() != after.class() {
                // Nobody has kept its place there until now.
                self.lower.count_whole_in_order(tree)
            } else {
                self.lower.count_whole(tree)
            };
            self.index.update(tree, Some(Use::new(before, whole)), Use::new(after, whole));
            true
        })
    }

    /// The states of huge frames have changed: they were `before`, and `gained` more are free now.
    pub(crate) fn states_changed(&self, huge: usize, before: States, gained: isize) {
        if !self.tree(huge / G::TREE_HUGE).is_reserved() {
            self.follow_states(huge, before, gained);
        }
    }

    /// The same of a tree that may be in the index.
    pub(crate) fn follow_states(&self, huge: usize, before: States, gained: isize) {
        let (index, tree) = (huge / G::TREE_HUGE, self.tree(huge / G::TREE_HUGE));
        let counts = self.lower.count_changed(huge, before, gained);
        let [then, now] = counts.map(|whole| Use::new(tree, whole));
        self.index.update(index, Some(then), now);
    }

    /// The counter of a child has changed.
    #[inline(always)]
    pub(crate) fn counter_changed(&self, huge: usize, credits: Credits) {
        if Self::is_to_follow(credits) {
            self.follow_counter(huge, credits);
        }
    }

    /// Is this a change of a counter that the tree is told of?
    #[inline(always)]
    pub(crate) fn is_to_follow(Credits { before, after }: Credits) -> bool {
        (before == 0) != (after == 0) || quarters::<G>(before) != quarters::<G>(after)
    }

    #[inline(never)]
    fn follow_counter(&self, huge: usize, Credits { before, after }: Credits) {
        let (tree, child) = (huge / G::TREE_HUGE, huge % G::TREE_HUGE);
        self.change_tree(tree, |entry| Some(entry.follow::<G>(child, before, after)));
        if after == 0 {
            self.confirm_empty(huge);
        }
    }

    /// Called after the tree was told that a child has no credits. If credits came just before that, the tree is
    /// told of them.
    fn confirm_empty(&self, huge: usize) {
        if self.lower.credits(huge) > 0 {
            let (tree, child) = (huge / G::TREE_HUGE, huge % G::TREE_HUGE);
            self.change_tree(tree, |entry| Some(entry.with_child(child)));
        }
    }

    /// Tells the tree that a child has no credits, where the tree says otherwise: the call that told it so was
    /// late.
    pub(crate) fn forget_child(&self, huge: usize) {
        let (tree, child) = (huge / G::TREE_HUGE, huge % G::TREE_HUGE);
        self.change_tree(tree, |entry| Some(entry.follow::<G>(child, 0, 0)));
        self.confirm_empty(huge);
    }

    /// Gives the credits of free bits to their child. False, and nothing given: see [`Surplus`].
    #[inline(always)]
    pub(crate) fn give_child(&self, huge: usize, count: usize, surplus: Surplus) -> bool {
        match self.lower.give(huge, count, surplus) {
            Some(given) => {
                self.given(huge, given);
                true
            }
            None => self.give_isolated(huge, count, surplus),
        }
    }

    /// The same, where the counter is that of an isolated huge frame, or has no room. What is free there nobody can
    /// allocate.
    #[cold]
    pub(crate) fn give_isolated(&self, huge: usize, count: usize, surplus: Surplus) -> bool {
        match self.lower.give_either(huge, count, surplus) {
            Some(To::Isolated(more)) => {
                self.count_free(-(more as isize));
                true
            }
            Some(To::Counter(given)) => {
                self.given(huge, given);
                true
            }
            None => false,
        }
    }

    /// So many more frames are free, by no free of a slot.
    pub(crate) fn count_free(&self, more: isize) {
        self.total(TOTAL_FREE).fetch_add(more as u64, Ordering::Relaxed);
    }

    /// Credits were given to a counter.
    #[inline(always)]
    pub(crate) fn given(&self, huge: usize, given: Given) {
        self.counter_changed(huge, given.credits);
        if given.all {
            self.close(huge);
        }
    }

    /// Makes a huge frame, of which the caller has all the credits, free as a whole; or gives them to its counter, if it
    /// is isolated.
    #[inline(never)]
    pub(crate) fn close(&self, huge: usize) {
        loop {
            match self.lower.close(huge) {
                Ok(before) => {
                    self.states_changed(huge, before, 1);
                    return self.tell_freed();
                }
                Err(Open::NotSplit) => return,
                Err(Open::ByItsCounter) => {
                    // Or it is no more.
                    if let Some(more) = self.lower.give_if_isolated(huge, G::HUGE_FRAMES) {
                        return self.count_free(-(more as isize));
                    }
                }
            }
        }
    }

    /// Gives credits back that were held.
    #[inline]
    pub(crate) fn give_held(&self, huge: usize, count: usize) {
        match count {
            0 => {}
            // These are all that there are.
            count if count == G::HUGE_FRAMES => self.close(huge),
            count => {
                self.give_child(huge, count, Surplus::Drop);
            }
        }
    }

    /// Takes every credit of a child that has at least `least`.
    pub(crate) fn take_child(&self, huge: usize, least: usize) -> Option<(usize, Polarity)> {
        let credits = self.lower.take_all(huge, least)?;
        self.counter_changed(huge, credits);
        Some((credits.before, self.lower.polarity(huge)))
    }

    /// Takes `count` credits of a child.
    pub(crate) fn take_some(&self, huge: usize, count: usize) -> Option<Polarity> {
        let credits = self.lower.take(huge, count)?;
        self.counter_changed(huge, credits);
        Some(self.lower.polarity(huge))
    }

    /// An entirely free tree, of which something is being taken, changes to `class`.
    pub(crate) fn turn_to(&self, tree: usize, class: Class) {
        let of = |entry: Tree| (entry.class() != class).then_some(entry.of(class));
        self.change_tree(tree, of);
    }

    /// Reserves a tree that a search found as `entry`.
    pub(crate) fn reserve(&self, tree: usize, found: Tree, class: Class) -> Option<Reservation<G>> {
        let free = self.lower.count_whole(tree) == G::TREE_HUGE;
        let class = if free { class } else { found.class() };
        let reserve = |entry: Tree| {
            if entry.class() == found.class() { Some(entry.reserve()?.of(class)) } else { None }
        };
        self.change_tree(tree, reserve).then(|| Reservation::new(tree))
    }

    /// Makes a reserved tree the slot's, and gives up the one it had.
    pub(crate) fn install(&self, word: &AtomicU64, reservation: Reservation<G>) {
        self.give_up(Reservation::from_word(word.swap(reservation.word(), Ordering::AcqRel)));
    }

    /// Takes a reservation away from its slot. False: there was nothing in it.
    pub(crate) fn drain_word(&self, word: &AtomicU64) -> bool {
        let old = self.change(word, |now| now.is_worth_draining().then_some(Reservation::NONE));
        old.is_some_and(|old| {
            self.give_up(old);
            true
        })
    }

    /// Gives everything of a reservation that is in no word any more back to its tree.
    fn give_up(&self, old: Reservation<G>) {
        self.give_held(old.huge_index(), old.held());
        if let Some(tree) = old.own_tree() {
            self.change_tree(tree, |entry| Some(entry.unreserve()));
        }
    }

    /// Reserves a tree at one of `places` that `fits`, and makes it the slot's. If it has none, trees
    /// in the group of tree `first` are looked at first.
    pub(crate) fn move_to(
        &self,
        word: &AtomicU64,
        class: Class,
        (kind, places, first): (Kind, Places, usize),
        mut fits: impl FnMut(usize) -> bool,
    ) -> bool {
        let now = self.read(word);
        let near = if now.is_some() { now.tree() } else { first };
        let look = |tree| self.look_at(tree);
        let found = self.index.search(kind, places, near, look, |tree, entry| {
            if fits(tree) { self.reserve(tree, entry, class) } else { None }
        });
        found.is_some_and(|reservation| {
            self.install(word, reservation);
            true
        })
    }

    /// The tree near which a slot begins to look for huge frames. The slots begin apart from one another, so that
    /// they do not write the same words of the index. For base frames all slots begin at the same place,
    /// because they are to fill up the same trees.
    pub(crate) fn home(&self, slot: Slot) -> usize {
        slot.0 * self.home_distance
    }

    /// Where the index has the trees that a class may fill up.
    pub(crate) fn filled(&self, class: Class) -> Places {
        self.filled.get(class.0 as usize).copied().unwrap_or(Places::NONE)
    }

    /// Is there an entirely free tree that nobody has reserved?
    pub(crate) fn has_free_tree(&self) -> bool {
        let look = |tree| self.look_at(tree);
        let found = self.index.search(Kind::Huge, Places::FREE_TREES, 0, look, |_, _| Some(()));
        found.is_some()
    }

    /// Counts frames into or out of a slot's balance, by a plain load and store. Two calls that use one slot at
    /// once can lose a count. The next exact count of the zone makes that good.
    pub(crate) fn count(&self, slot: Slot, frames: usize, freed: bool) {
        let balance = self.slot_word(slot, SLOT_BALANCE);
        let now = balance.load(Ordering::Relaxed);
        let change = if freed { frames as u64 } else { (frames as u64).wrapping_neg() };
        balance.store(now.wrapping_add(change), Ordering::Relaxed);
    }
}
