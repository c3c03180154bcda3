//! Children: which one a slot fills next, and how its credits come to the slot's reservation.
//!
//! The most used child comes first, so that the other children can become free as a whole. Children with
//! very few free frames come last. A call takes the credits of a child all at once: by a swap of its
//! counter, or by opening a huge frame that is free as a whole. The call holds these credits until it has
//! installed them in the reservation.

use woodlot_frame::atomics::AtomicU64;
use woodlot_frame::{Geometry, Persistence};

use crate::LLFree;
use crate::lower::Surplus;
use crate::reservation::Reservation;
use crate::state::Polarity;

/// A child with less than this part of its frames free is filled last.
const FEW: usize = 8;

/// All credits of a child, on their way from its counter to a reservation.
pub(crate) struct Child {
    pub(crate) huge: usize,
    pub(crate) credits: usize,
    pub(crate) polarity: Polarity,
    /// Where to look first.
    pub(crate) row: usize,
}

impl<G: Geometry, P: Persistence> LLFree<'_, G, P> {
    /// Opens a huge frame of a tree that is free as a whole.
    pub(crate) fn open(&self, tree: usize) -> Option<Child> {
        let (huge, before) = self.lower.open_first(tree)?;
        self.states_changed(huge, before, -1);
        let polarity = self.lower.polarity_in(before, huge);
        Some(Child { huge, credits: G::HUGE_FRAMES, polarity, row: 0 })
    }

    /// Takes all credits of the child of a tree to fill next, but for `not`.
    pub(crate) fn take_chosen(&self, tree: usize, order: u32, not: Option<usize>) -> Option<Child> {
        while let Some(huge) = self.choose_child(tree, order, not) {
            if let Some((credits, polarity)) = self.take_child(huge, 1 << order) {
                return Some(Child { huge, credits, polarity, row: 0 });
            }
        }
        None
    }

    /// The most used child of a tree that is in part allocated and has a run for `order`, but for
    /// `not`.
    pub(crate) fn choose_child(
        &self,
        tree: usize,
        order: u32,
        not: Option<usize>,
    ) -> Option<usize> {
        let first = tree * G::TREE_HUGE;
        let mut open = self.tree(tree).children();
        while let Some(child) = self.most_used(first, &mut open, order, not) {
            let huge = first + child as usize;
            let rows = || self.lower.rows(huge, self.lower.polarity(huge));
            if order == 0 || rows().find(order, 0).is_some() {
                return Some(huge);
            }
            open &= !(1 << child);
        }
        None
    }

    /// The order in which children are filled: the most used first, but at the very end those with so
    /// few credits that taking them would be the greater part of the work: somebody may just be freeing
    /// into them.
    const fn rank(credits: usize) -> usize {
        if credits < G::HUGE_FRAMES / FEW { 2 * G::HUGE_FRAMES - credits } else { credits }
    }

    /// Of the children `open` the one with the fewest credits that are enough for `order`; those
    /// with less are taken out of `open`.
    fn most_used(
        &self,
        first: usize,
        open: &mut u32,
        order: u32,
        not: Option<usize>,
    ) -> Option<u32> {
        let mut best = None;
        let mut rest = *open;
        while rest != 0 {
            let child = rest.trailing_zeros();
            rest &= rest - 1;
            let huge = first + child as usize;
            let credits = self.lower.credits(huge);
            if credits < 1 << order || not == Some(huge) {
                *open &= !(1 << child);
                if credits == 0 {
                    self.forget_child(huge);
                }
            } else if best.is_none_or(|(_, least)| Self::rank(credits) < least) {
                best = Some((child, Self::rank(credits)));
            }
        }
        best.map(|(child, _)| child)
    }

    /// Makes the credits of a child the reservation's, and gives back what it held before; if the
    /// reservation has moved to another tree, the credits go back themselves.
    pub(crate) fn hold(&self, word: &AtomicU64, tree: usize, child: Child) {
        let Child { huge, credits, polarity, row } = child;
        let hold = |now: Reservation<G>| {
            if now.owns(tree) { Some(now.holding(huge, credits, polarity, row)) } else { None }
        };
        match self.change(word, hold) {
            Some(before) => self.give_held(before.huge_index(), before.held()),
            None => return self.give_held(huge, credits),
        }
        self.look_for_isolation(word, huge);
    }

    /// Makes a child of which frames were freed the one that the slot holds, with all its credits and
    /// those of the frames. If it is isolated, they go to its counter. False, and nothing changed: that is more
    /// than it can have.
    pub(crate) fn hold_freed(
        &self,
        word: &AtomicU64,
        huge: usize,
        freed: usize,
        polarity: Polarity,
    ) -> bool {
        let rest = match self.take_child(huge, 1) {
            Some((credits, _)) => credits,
            // No other call of the slot may see them in the reservation, for however short.
            None if self.lower.is_isolated(huge) => {
                return self.give_isolated(huge, freed, Surplus::Refuse);
            }
            None => 0,
        };
        let fits = rest + freed <= G::HUGE_FRAMES;
        if fits {
            let child = Child { huge, credits: rest + freed, polarity, row: 0 };
            self.hold(word, huge / G::TREE_HUGE, child);
        } else {
            self.give_held(huge, rest);
        }
        fits
    }
}
