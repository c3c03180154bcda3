//! Hints: where there is nothing, so that a search need not look.
//!
//! ```text
//!   two bytes for each child    bits 0–5   no open row of it has a block of this order
//!                               bits 6, 7  it is isolated, or a call takes it offline ([`isolate`](crate::isolate))
//!                               bits 8–10  the class whose frames are in it
//!                               bits 11–13 a slot takes from it single frames, larger blocks below a row's order, rows
//!                               bit 14     a call brings it online ([`isolate`](crate::isolate))
//!                               bit 15     a free takes back what its tree's word says
//!   a word for each tree        bits 0–12  none of its children has a block of this order: below a row's order, of an open
//!                                          row; from there on, of whole rows, open or not
//!                               bit 14     a slot allocates here
//!                               bit 15     a free takes back what the zone's word says
//!                               bits 16–23 a child is of this class
//!                               bits 32–63 how many of its children are isolated
//!   a word for the zone         bits 0–12  no tree has a block of this order
//! ```
//!
//! A child's hint speaks of its rows, isolated or not. A tree's word and the zone's speak of what is to be had, and of an isolated
//! child that is nothing.
//!
//! # Invariant
//! *A hint that says none is right when no call is in flight.* Who sets it has looked, sets it, looks again, and takes
//! it back where that was wrong. Who frees changes the bits, then loads the hint, and takes it back. Of the
//! two one sees what the other has written, since all these accesses are sequentially consistent (`words.rs`). The
//! same holds between a child's hint and its tree's word, and between a tree's word and the zone's.
//!
//! Who takes back a hint takes back those above it first. A mark says so meanwhile, so that nobody sets them again by what the hint
//! still says. A free looks above a hint only where that says none. So of a call that stands still, or dies, between these writes the
//! next free beside it does what is left to do. The look above afterwards is for frees that take each other's mark away.
//!
//! # Classes
//! A child is of the class that has broken it last: when it was free, or when nothing else was left of what that class fills. One
//! all of whose rows are allocated as such is of the first class from the first free of less than a row on. A tree keeps the classes
//! that its children had. A class that is wrong costs order alone: a block lies among those of another class, or a look around passes
//! a tree in vain.

use woodlot_frame::atomics::Ordering::SeqCst;
use woodlot_frame::{Class, Geometry, MAX_CLASSES};

use crate::OneWrite;
use crate::child::Part;
use crate::isolate::is_isolated;
use crate::row::{self, Rows};
use crate::slots::{KINDS, Site};
use crate::words::{CLASSES, load, load_hint, of_class};

/// A tree's bit: a slot allocates here.
const IN_USE: u64 = 1 << 14;
/// A free takes back what is said above.
const TELLS: u16 = 1 << 15;
/// The orders of which a child's hint says that there is nothing, and where it says the class.
const ORDERS: u16 = 0x3f;
const CLASS: u32 = 8;
/// A slot takes blocks from the child: of the first [kind](Site::kind), and of any.
const TARGET: u16 = 1 << 11;
pub(crate) const TARGETS: u16 = ((1 << KINDS) - 1) << 11;

/// The class that a child's hint says.
#[inline(always)]
pub(crate) const fn class_in(hint: u16) -> Class {
    Class((hint >> CLASS) as u8 & (MAX_CLASSES - 1) as u8)
}

/// Of which orders, as bits, the open rows of a child with this hint have nothing.
#[inline(always)]
const fn none_in(hint: u16) -> u64 {
    (hint & ORDERS) as u64
}

/// The bits of `order` and of what would need more, up to `end`.
const fn from_order(order: u32, end: u32) -> u64 {
    (1u64 << end) - (1u64 << order)
}

impl<G: Geometry> OneWrite<'_, G> {
    #[inline(always)]
    pub(crate) fn hint(&self, child: usize) -> u16 {
        load_hint(self.hints.get(child))
    }

    /// Of which orders, as bits, a child has nothing to be had in open rows: of all, if it is isolated.
    #[inline(always)]
    fn none(&self, child: usize) -> u64 {
        match self.hint(child) {
            hint if is_isolated(hint) => !0,
            hint if hint & TELLS != 0 => 0,
            hint => none_in(hint),
        }
    }

    #[inline(always)]
    pub(crate) fn tree(&self, tree: usize) -> u64 {
        load(self.trees.get(tree))
    }

    /// The orders, as bits, for which one hint speaks with that of `order`: what needs as much or more.
    const fn orders_from(order: u32) -> u64 {
        from_order(order, if order < G::ROW_ORDER { G::ROW_ORDER } else { G::MAX_ORDER + 1 })
    }

    // ---- Something is free ----

    /// After frames of an open row have become free, and it has these bits: does a hint say that there is nothing?
    #[inline(always)]
    pub(crate) fn has_to_tell(&self, row: usize, bits: u64) -> bool {
        let child = row / G::ROWS;
        let Some(hint) = self.hints.get(child) else { return false };
        let hint = none_in(load_hint(Some(hint)));
        if bits == G::ALL {
            return hint != 0 || self.tree(child / G::TREE) & Self::orders_from(G::ROW_ORDER) != 0;
        }
        // Where no two frames are free beside each other, only single frames are to be had.
        hint != 0 && (hint & 1 != 0 || row::has_block(bits, 1))
    }

    /// Then takes it back.
    #[cold]
    #[inline(never)]
    pub(crate) fn tell(&self, row: usize, bits: u64) {
        let child = row / G::ROWS;
        // Most of what lies beside something free is less than what the hint says there is none of.
        let least = none_in(self.hint(child)).trailing_zeros();
        if least < G::ROW_ORDER && row::has_block(bits, least) {
            self.not_none(child, row::orders(bits));
        }
        if bits == G::ALL {
            self.can_be_had_whole(Part::row::<G>(row));
        }
    }

    fn not_none(&self, child: usize, orders: u64) {
        let Some(hint) = self.hints.get(child) else { return };
        let tree_has = || {
            if !self.isolates(child) {
                self.tree_has(child / G::TREE, orders & from_order(0, G::ROW_ORDER));
            }
        };
        if none_in(load_hint(Some(hint))) & orders != 0 {
            let _ = hint.fetch_or(TELLS, SeqCst);
            tree_has();
            let _ = hint.fetch_and(!(orders as u16 & ORDERS | TELLS), SeqCst);
        }
        tree_has();
    }

    /// After a child was isolated: of the orders that its hint does not rule out there may be something in its open rows.
    pub(crate) fn can_be_had(&self, child: usize) {
        self.tree_has(child / G::TREE, from_order(0, G::ROW_ORDER) & !self.none(child));
        self.can_be_had_whole(Part::whole::<G>(child));
    }

    /// After rows have become free.
    #[inline(always)]
    pub(crate) fn can_be_had_whole(&self, part: Part) {
        let said = self.tree(part.child / G::TREE) & Self::orders_from(G::ROW_ORDER);
        if said != 0 {
            // In tail position, so that nothing has to be kept across calls.
            if part.is_pair::<G>() {
                self.have_whole(part.child, said);
            } else {
                self.has_whole(part.child, said);
            }
        }
    }

    /// Takes back what a tree's word says, these bits, and is not so of a child and the next.
    #[cold]
    #[inline(never)]
    fn have_whole(&self, child: usize, said: u64) {
        self.has_whole(child, said);
        self.has_whole(child + 1, said);
    }

    /// The same of one.
    #[cold]
    #[inline(never)]
    fn has_whole(&self, child: usize, said: u64) {
        let whole = Part::whole::<G>(child);
        let states = self.whole_states(whole);
        let runs = (G::ROW_ORDER..=G::HUGE_ORDER)
            .filter(|order| whole.free_run(states, order - G::ROW_ORDER).is_some());
        let orders = runs.fold(0, |orders, order| orders | 1 << order);
        let pair = orders >> G::HUGE_ORDER & 1 != 0 && self.is_free_pair(child & !1);
        self.tree_has(child / G::TREE, (orders | u64::from(pair) << G::MAX_ORDER) & said);
    }

    /// Takes back that a tree has no blocks of some orders.
    fn tree_has(&self, tree: usize, orders: u64) {
        if let Some(word) = self.trees.get(tree)
            && load(Some(word)) & orders != 0
        {
            let tells = u64::from(TELLS);
            let _ = word.fetch_or(tells, SeqCst);
            self.zone_has(orders);
            let _ = word.fetch_and(!(orders | tells), SeqCst);
        }
        self.zone_has(orders);
    }

    /// The same of all trees.
    fn zone_has(&self, orders: u64) {
        if load(Some(self.slots.nothing())) & orders != 0 {
            let _ = self.slots.nothing().fetch_and(!orders, SeqCst);
        }
    }

    // ---- Nothing is free ----

    /// Is a child worth looking at for a block of `order`, below a row's, of an open row?
    #[inline(always)]
    pub(crate) fn may_have(&self, child: usize, order: u32) -> bool {
        self.none(child) & 1 << order == 0
    }

    /// Is a tree worth looking at for a block of `order`?
    pub(crate) fn tree_may_have(&self, tree: usize, order: u32) -> bool {
        self.tree(tree) & 1 << order == 0
    }

    /// A search has found no block of `order`, below a row's, in the open rows of a child.
    pub(crate) fn child_has_none(&self, child: usize, order: u32) {
        let Some(hint) = self.hints.get(child) else { return };
        let _ = hint.fetch_or(Self::orders_from(order) as u16, SeqCst);
        let found = self.open_bits(child).fold(0, |found, bits| found | row::orders(bits));
        if found & Self::orders_from(order) != 0 {
            self.not_none(child, found);
        }
    }

    /// A search has found no block of `order` in a tree.
    pub(crate) fn tree_has_none(&self, tree: usize, order: u32) {
        let orders = Self::orders_from(order);
        self.trees.get(tree).into_iter().for_each(|word| _ = word.fetch_or(orders, SeqCst));
        if order >= G::ROW_ORDER {
            // Whoever frees rows loads the tree's word afterwards; this looks at all that was freed before.
            let has = |&child: &usize| self.has_rows(child, order);
            let told = |child| self.can_be_had_whole(Part::whole::<G>(child));
            self.children_of(tree).filter(has).for_each(told);
            return;
        }
        let none = self.children_of(tree).fold(!0, |none, child| none & self.none(child));
        self.tree_has(tree, orders & !none);
    }

    /// Is any tree worth looking at for a block of `order`?
    pub(crate) fn zone_may_have(&self, order: u32) -> bool {
        load(Some(self.slots.nothing())) & 1 << order == 0
    }

    /// A search has found no block of `order` in any tree.
    pub(crate) fn zone_has_none(&self, order: u32) {
        let orders = Self::orders_from(order);
        let _ = self.slots.nothing().fetch_or(orders, SeqCst);
        let none = |tree| match self.tree(tree) {
            word if word & u64::from(TELLS) != 0 => 0,
            word => word,
        };
        let none = (0..self.trees.len()).fold(!0, |all, tree| all & none(tree));
        self.zone_has(orders & !none);
    }

    /// Has a child a free block of `order`, at least a row's; or begins a pair with it?
    pub(crate) fn has_rows(&self, child: usize, order: u32) -> bool {
        if order > G::HUGE_ORDER {
            return child.is_multiple_of(2) && self.is_free_pair(child);
        }
        let whole = Part::whole::<G>(child);
        if order == G::HUGE_ORDER {
            return self.all_free(whole);
        }
        self.has_run(whole, order)
    }

    /// Apart, so that who asks for huge frames keeps nothing for it.
    #[inline(never)]
    fn has_run(&self, whole: Part, order: u32) -> bool {
        whole.free_run(self.whole_states(whole), order - G::ROW_ORDER).is_some()
    }

    // ---- Which tree ----

    /// The children of a tree.
    pub(crate) fn children_of(&self, tree: usize) -> core::ops::Range<usize> {
        let first = tree * G::TREE;
        first..(first + G::TREE).min(self.ground.children)
    }

    /// Does a slot allocate in a tree?
    pub(crate) fn is_in_use(&self, tree: usize) -> bool {
        self.tree(tree) & IN_USE != 0
    }

    /// Is a tree worth looking at for a block of `order`? One below a row's order may be had of a free row, too.
    pub(crate) fn offers(&self, tree: usize, order: u32) -> bool {
        let none = 1 << order | 1 << order.max(G::ROW_ORDER);
        self.tree(tree) & none != none
    }

    /// Is it, to this slot, if all is to be left alone in which others allocate?
    pub(crate) fn invites(&self, tree: usize, order: u32, site: Site<'_>) -> bool {
        self.offers(tree, order) && (!self.is_in_use(tree) || site.latest() / G::TREE == tree)
    }

    /// A slot has come to a child of which much is free, or to none: it allocates in its tree from now on.
    pub(crate) fn settles(&self, site: Site<'_>, child: usize) {
        let word = |tree: usize| self.trees.get(tree).into_iter();
        let to = child / G::TREE;
        if site.latest() / G::TREE == to {
            site.set_latest(child);
            return;
        }
        word(to).for_each(|word| _ = word.fetch_or(IN_USE, SeqCst));
        // Whoever swaps it away unmarks its tree, after that was marked. Where two calls use one slot at once, and one of them stays in its tree, a tree may
        // stay marked that both have left.
        let from = site.swap_latest(child) / G::TREE;
        if from != to {
            word(from).for_each(|word| _ = word.fetch_and(!IN_USE, SeqCst));
        }
    }

    /// Blocks of `order` come from this child from now on, or from none. The target is the slot's own. Slots that aim at one child share
    /// its mark: whoever leaves it first takes that away, and others may fill up the child then. Nothing but where blocks lie follows from it.
    pub(crate) fn aims(&self, site: Site<'_>, order: u32, child: usize) {
        let kind = Site::kind::<G>(order);
        let hint = self.hints.get(child).into_iter();
        hint.for_each(|hint| _ = hint.fetch_or(TARGET << kind, SeqCst));
        let before = site.swap_target(kind, child);
        if before != child {
            self.leaves(kind, before);
        }
    }

    /// The same, but the child gets no mark: others may fill it up, too.
    pub(crate) fn visits(&self, site: Site<'_>, order: u32, child: usize) {
        let kind = Site::kind::<G>(order);
        self.leaves(kind, site.swap_target(kind, child));
    }

    /// The same of rows, by loads and stores. Where two calls use one slot at once, a child may stay marked that both have left.
    #[inline(always)]
    pub(crate) fn moves_on(&self, site: Site<'_>, child: usize) {
        let before = site.child();
        site.set_child(child);
        self.leaves(Site::kind::<G>(G::ROW_ORDER), before);
    }

    /// A child is no target of a kind any more. Whoever swaps it away unmarks it, after it was marked: so none stays marked that two calls of
    /// one slot have left.
    #[inline(always)]
    fn leaves(&self, kind: usize, child: usize) {
        let (hint, mark) = (self.hints.get(child), TARGET << kind);
        if load_hint(hint) & mark != 0 {
            hint.into_iter().for_each(|hint| _ = hint.fetch_and(!mark, SeqCst));
        }
    }

    /// Does another slot, or class, take blocks from this child, which has this hint?
    #[inline(always)]
    pub(crate) fn is_others(hint: u16, child: usize, site: Site<'_>) -> bool {
        hint & TARGETS != 0 && !site.targets().contains(&child)
    }

    // ---- Classes ----

    /// The class of a child.
    #[inline(always)]
    pub(crate) fn class_of(&self, child: usize) -> Class {
        class_in(self.hint(child))
    }

    /// Is this child of the class of the site?
    #[inline(always)]
    pub(crate) fn is_of_class(&self, child: usize, site: Site<'_>) -> bool {
        self.class_of(child) == site.class()
    }

    /// May the class of the site fill up this child?
    #[inline(always)]
    pub(crate) fn class_fits(&self, child: usize, site: Site<'_>) -> bool {
        site.turn(self.class_of(child)) < site.fills()
    }

    /// May a tree have children that the class of the site fills up?
    #[inline(always)]
    pub(crate) fn tree_fits(&self, tree: usize, site: Site<'_>) -> bool {
        self.tree(tree) >> CLASSES & site.filled() != 0
    }

    /// Does the class of the site fill up the children of every class?
    pub(crate) fn fills_all(&self, site: Site<'_>) -> bool {
        site.fills() == self.zone.classes.count()
    }

    /// Takes from a child. If nothing was in it, or if the class of the site does not fill up such children, it is of that class from
    /// then on.
    pub(crate) fn breaking<T>(
        &self,
        child: usize,
        site: Site<'_>,
        take: impl FnOnce() -> Option<T>,
    ) -> Option<T> {
        let (before, class) = (self.class_of(child), site.class());
        let breaks = before != class
            && (site.turn(before) >= site.fills() || self.has_rows(child, G::HUGE_ORDER));
        let taken = take()?;
        if breaks {
            self.becomes(child, class);
        } else {
            self.has_class(child / G::TREE, before);
        }
        Some(taken)
    }

    /// A tree has a child of a class.
    pub(crate) fn has_class(&self, tree: usize, class: Class) {
        if self.tree(tree) & of_class(class) == 0 {
            self.trees
                .get(tree)
                .into_iter()
                .for_each(|word| _ = word.fetch_or(of_class(class), SeqCst));
        }
    }

    /// The class of a child from now on.
    #[cold]
    #[inline(never)]
    pub(crate) fn becomes(&self, child: usize, class: Class) {
        let Some(hint) = self.hints.get(child) else { return };
        let mut now = load_hint(Some(hint));
        loop {
            let after = now & !(((MAX_CLASSES - 1) as u16) << CLASS) | u16::from(class.0) << CLASS;
            if now == after {
                break;
            }
            match hint.compare_exchange(now, after, SeqCst, SeqCst) {
                Ok(_) => break,
                Err(other) => now = other,
            }
        }
        self.has_class(child / G::TREE, class);
    }
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use woodlot_frame::{
        Base4K, ClassPolicy, FrameAllocator, FrameId, Init, Order, Owned, Slot, ZoneConfig,
    };

    type Zone = Owned<OneWrite<'static, Base4K>>;

    /// A zone of two trees.
    fn zone() -> Zone {
        Zone::new(&ZoneConfig::new(2 * Base4K::TREE_FRAMES, 1), Init::Free).expect("a zone")
    }

    fn site(zone: &Zone, class: Class) -> Site<'_> {
        zone.slots.site(0, class).expect("a site")
    }

    /// Of which order a hint says that there is nothing, a free that makes a block of it takes that back; others need not.
    #[test]
    fn a_free_takes_back_what_a_hint_says_of_what_it_has_made() {
        for order in 0..Base4K::ROW_ORDER {
            let config = ZoneConfig::new(Base4K::HUGE_FRAMES, 1);
            let zone = Zone::new(&config, Init::Allocated).expect("a zone");
            let half = Order(order.saturating_sub(1) as u8);
            let free = |at| assert_eq!(zone.free(FrameId(at), half, Slot(0)), Ok(()));
            let none = |from| none_in(zone.hint(0)) == from_order(from, Base4K::ROW_ORDER);
            // Blocks of half as much, which are not buddies.
            let apart = if order > 0 { 2 } else { 0 };
            (0..apart).for_each(|n| free(n << order));
            assert!(!zone.is_available(Order(order as u8)));
            assert!(none(order), "order {order}");
            free(if order > 0 { 1 << half.0 } else { 0 });
            assert!(none(order + 1) && zone.is_available(Order(order as u8)), "order {order}");
        }
    }

    /// A block below a row's order may be had of an open row, or of a free one.
    #[test]
    fn a_tree_offers_holes_and_rows() {
        let zone = zone();
        let offered = |none: u64| {
            zone.trees[1].store(none, SeqCst);
            (0..=Base4K::MAX_ORDER)
                .filter(|&order| zone.offers(1, order))
                .fold(0, |all, n| all | 1 << n)
        };
        assert_eq!(offered(0), 0x7ff);
        assert_eq!(offered(from_order(3, Base4K::ROW_ORDER)), 0x7ff);
        assert_eq!(offered(from_order(3, Base4K::MAX_ORDER + 1)), 0b111);
        assert_eq!(offered(from_order(8, Base4K::MAX_ORDER + 1)), 0xff);
        assert_eq!(offered(from_order(6, Base4K::MAX_ORDER + 1)), 0x3f);
    }

    /// One of two calls that use a slot at once does not leave the other's tree marked; and a slot that is drained leaves none.
    #[test]
    fn a_slot_allocates_in_one_tree() {
        let zone = zone();
        let site = site(&zone, Class::MOVABLE);
        let in_use = || [0, 1].map(|tree| zone.is_in_use(tree));
        assert_eq!(in_use(), [false; 2]);
        zone.settles(site, 3);
        assert_eq!(in_use(), [true, false]);
        zone.settles(site, 1);
        assert_eq!(in_use(), [true, false]);
        zone.settles(site, Base4K::TREE + 1);
        assert_eq!(in_use(), [false, true]);
        zone.drain(Slot(0)).expect("it is a slot");
        assert_eq!(in_use(), [false; 2]);
    }

    #[test]
    fn a_class_fills_up_huge_frames_of_some_classes() {
        let zone = zone();
        let site = site(&zone, Class::IMMOVABLE);
        let fits = ClassPolicy::SHIPPED.all().filter(|&class| {
            zone.becomes(7, class);
            zone.class_fits(7, site)
        });
        assert!(fits.eq([Class::IMMOVABLE, Class::LONG_LIVED]));
    }

    /// Who takes from a huge frame says of which class it is: to its own tree.
    #[test]
    fn a_tree_is_told_the_class_of_what_is_filled_up() {
        let zone = zone();
        let (child, site) = (Base4K::TREE + 8, site(&zone, Class::MOVABLE));
        assert!(!zone.tree_fits(1, site));
        assert_eq!(zone.breaking(child, site, || None::<()>), None);
        assert!(!zone.tree_fits(1, site), "nothing was taken");
        assert_eq!(zone.breaking(child, site, || Some(())), Some(()));
        assert!(zone.tree_fits(1, site) && !zone.tree_fits(0, site));
    }
}
