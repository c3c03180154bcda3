//! The upper level: which tree a slot draws from (LLFree section 3.2.2).
//!
//! ```text
//!             reserve + install                 synchronise
//!   tree  ────────────────────────▶ reservation ◀─────────── tree (what others freed there)
//!         ◀────────────────────────
//!             replaced or drained
//! ```
//!
//! The credits of a reserved tree are in two places: in the reservation word of the slot, where
//! the slot's own calls find them, and in the tree entry, where the frees of others leave them
//! ("split counters"). Moving between the two takes two swaps; in between the credits belong to
//! the call that moves them.

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{Class, Geometry, MAX_CLASSES, Slot};

use crate::LLFree;
use crate::child::Polarity;
use crate::index::{Kind, Places};
use crate::init::{SLOT_BALANCE, SLOT_WORDS};
use crate::lower::Gain;
use crate::reservation::Reservation;
use crate::tree::Tree;

impl<G: Geometry> LLFree<'_, G> {
    /// A word of the zone's totals.
    pub(crate) fn total(&self, word: usize) -> &AtomicU64 {
        // SAFETY: `from_parts` checked that there are `TOTAL_WORDS` of them, and every caller
        // names one by its constant.
        unsafe { self.totals.get_unchecked(word) }
    }

    /// A word of a slot that exists.
    #[inline]
    pub(crate) fn slot_word(&self, slot: Slot, word: usize) -> &AtomicU64 {
        debug_assert!(slot.0 < self.zone.slots && word < SLOT_WORDS);
        // SAFETY: `from_parts` checked that there are `SLOT_WORDS` of them for each slot; public
        // calls check the slot, and words are named by constants or classes.
        unsafe { self.slots.get_unchecked(slot.0 * SLOT_WORDS + word) }
    }

    /// The reservation of a slot for a class.
    #[inline]
    pub(crate) fn reservation(&self, slot: Slot, class: Class) -> &AtomicU64 {
        self.slot_word(slot, class.0 as usize & (MAX_CLASSES - 1))
    }

    /// The reservations of a slot.
    #[inline]
    pub(crate) fn slot_reservations(&self, slot: Slot) -> &[AtomicU64] {
        let first = slot.0 * SLOT_WORDS;
        self.slots.get(first..first + self.zone.classes.count()).unwrap_or_default()
    }

    /// The reservations of every slot for every class.
    pub(crate) fn reservations(&self) -> impl Iterator<Item = &AtomicU64> {
        self.reservations_from(Slot(0))
    }

    /// The same beginning with those of one slot.
    pub(crate) fn reservations_from(&self, slot: Slot) -> impl Iterator<Item = &AtomicU64> {
        let classes = self.zone.classes.count();
        let slots = || self.slots.chunks_exact(SLOT_WORDS);
        let around = slots().skip(slot.0).chain(slots().take(slot.0));
        around.flat_map(move |slot| slot.iter().take(classes))
    }

    /// The reservations of every slot for one class.
    pub(crate) fn reservations_of(&self, class: Class) -> impl Iterator<Item = &AtomicU64> {
        self.slots.chunks_exact(SLOT_WORDS).filter_map(move |slot| slot.get(class.0 as usize))
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
    pub(crate) fn tree(&self, tree: usize) -> Tree {
        self.trees.get(tree).map_or(Tree(0), |entry| Tree(entry.load(Ordering::Acquire)))
    }

    /// Changes a tree entry as `change` says, unless that says `None`, and keeps the index true.
    /// Returns the entry before.
    pub(crate) fn change_tree(
        &self,
        tree: usize,
        change: impl Fn(Tree) -> Option<Tree>,
    ) -> Option<Tree> {
        let entry = self.trees.get(tree)?;
        let mut before = Tree(entry.load(Ordering::Relaxed));
        loop {
            let after = change(before)?;
            match entry.compare_exchange(before.0, after.0, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    self.index.update(tree, Some(before), after);
                    return Some(before);
                }
                Err(now) => before = Tree(now),
            }
        }
    }

    /// Gives credits to a tree, reserved or not.
    pub(crate) fn give_tree(&self, tree: usize, gain: Gain) {
        if gain != Gain::default() {
            self.change_tree(tree, |entry| Some(entry.with::<G>(gain)));
        }
    }

    /// Gives credits to the reservation, if it still is of `tree`, else to the tree.
    pub(crate) fn give_back(&self, word: &AtomicU64, tree: usize, gain: Gain) {
        let own = |now: Reservation<G>| if now.owns(tree) { now.with(gain) } else { None };
        if self.change(word, own).is_none() {
            self.give_tree(tree, gain);
        }
    }

    /// Gives credits that were taken from a child back to it.
    pub(crate) fn give_child(&self, huge: usize, count: usize, polarity: Polarity) -> Gain {
        if count == 0 {
            return Gain::default();
        }
        // The credits have kept the polarity, so this is not refused.
        self.lower.take_back(huge, count, polarity).unwrap_or_default()
    }

    /// Moves what others freed into a reserved tree to the reservation. False: nothing was there.
    pub(crate) fn synchronise(&self, word: &AtomicU64, reservation: Reservation<G>) -> bool {
        let tree = reservation.tree();
        if !reservation.owns(tree) {
            return false;
        }
        match self.change_tree(tree, Tree::collect) {
            Some(entry) => {
                self.give_back(word, tree, entry.credits());
                true
            }
            None => false,
        }
    }

    /// Reserves a tree that a search found as `entry`; returns its credits.
    pub(crate) fn reserve(&self, tree: usize, entry: Tree, class: Class) -> Option<Reservation<G>> {
        let same = |now: Tree| if now == entry { now.reserve::<G>(class) } else { None };
        let before = self.change_tree(tree, same)?;
        Some(Reservation::new(tree, before.credits()))
    }

    /// Makes a reserved tree the slot's, and gives up the one it had.
    pub(crate) fn install(&self, word: &AtomicU64, reservation: Reservation<G>) {
        if let Some(old) = self.change(word, |_| Some(reservation)) {
            self.give_up(old);
        }
    }

    /// Takes a reservation away from its slot. False: there was none.
    pub(crate) fn drain_word(&self, word: &AtomicU64) -> bool {
        let old = self.change(word, |now| now.is_some().then_some(Reservation::NONE));
        old.is_some_and(|old| {
            self.give_up(old);
            true
        })
    }

    /// Gives everything of a reservation that is in no word any more back to its tree.
    fn give_up(&self, old: Reservation<G>) {
        if !old.is_some() {
            return;
        }
        let child = self.give_child(old.huge_index(), old.held(), old.polarity());
        let left = Gain { huge: old.credits().huge + child.huge, ..old.credits() };
        if old.is_guest() {
            self.give_tree(old.tree(), left);
            return;
        }
        self.change_tree(old.tree(), |entry| Some(entry.unreserve::<G>(left)));
    }

    /// Reserves a tree at one of `places` that `fits`, and makes it the slot's.
    pub(crate) fn move_to(
        &self,
        word: &AtomicU64,
        class: Class,
        kind: Kind,
        places: Places,
        mut fits: impl FnMut(usize) -> bool,
    ) -> bool {
        let now = self.read(word);
        let near = if now.is_some() { now.tree() } else { 0 };
        let load = |tree| self.tree(tree);
        let found = self.index.search(kind, places, near, load, |tree, entry| {
            if fits(tree) { self.reserve(tree, entry, class) } else { None }
        });
        found.is_some_and(|reservation| {
            self.install(word, reservation);
            true
        })
    }

    /// Is there an entirely free tree that nobody has reserved?
    pub(crate) fn has_free_tree(&self) -> bool {
        let load = |tree| self.tree(tree);
        let found = self.index.search(Kind::Huge, Places::FREE_TREES, 0, load, |_, _| Some(()));
        found.is_some()
    }

    /// Counts frames into or out of a slot's balance. Plain load and store: two calls that use one
    /// slot at once can lose a count, which the next exact count of the zone makes good.
    pub(crate) fn count(&self, slot: Slot, frames: usize, freed: bool) {
        let balance = self.slot_word(slot, SLOT_BALANCE);
        let now = balance.load(Ordering::Relaxed);
        let change = if freed { frames as u64 } else { (frames as u64).wrapping_neg() };
        balance.store(now.wrapping_add(change), Ordering::Relaxed);
    }
}
