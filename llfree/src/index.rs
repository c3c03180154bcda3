//! The tree index: which trees could serve a request, without a scan of the zone.
//!
//! ```text
//!   group = 64 trees (4 GiB), for each of three kinds:
//!     mask     bit 8·class + level        is there such a tree in the group?
//!     leaves   a word for each bit of the mask; bit t: is tree t such a one?
//!
//!   kind Partial   trees with free frames in huge frames that are in part allocated
//!   kind Lending   the same of trees that some slot has reserved: children to borrow
//!   kind Huge      trees with huge frames that are free as a whole
//!   level 0 … 7    eighths of the tree that are free, so the most used trees come first;
//!                  level 7 of kind Huge: the tree is entirely free
//! ```
//!
//! Every bit is a hint. Two rules heal the bits:
//!
//! 1. *Setter*: a call that changes the kind or the level of a tree, or reserves or unreserves the tree,
//!    sets the tree's bit in the leaf of its new place, and then the leaf's bit in the mask.
//! 2. *Clearer*: a search that finds a tree elsewhere than its bit says clears the bit and looks at the
//!    tree again. It then sets the bits of the place where the tree is now. That is the same place if the
//!    tree has come back, and another place if the call that moved the tree was interrupted before it could
//!    set the bits. A search clears a mask bit whose leaf is empty in the same way.
//!
//! So a bit may be set for nothing. A tree whose last change is complete is missing at most while a call is
//! between two writes of its leaf or of its mask: a clearer before its second look, or a setter before its
//! second word. A call that stops there for ever hides one tree, or the trees of one leaf. They are found
//! again when some tree comes to that leaf anew, or when an allocation that finds nothing looks at every
//! tree. Setting and clearing are read-modify-writes of one word. If the setter's write comes first, the
//! clearer's write reads it, and the clearer's second look sees the tree as it was set. If the setter's
//! write comes second, the bit stays. This needs acquire and release, no more. A setter that found its bit
//! set by a load would not do: the load may read what the clearer has overwritten, whose second look misses
//! the setter's change of the tree. It would do if the change, the load, the clearing and the second look
//! were sequentially consistent. One thread gains nothing by that (docs/measurements.md).
//!
//! The entry of a tree alone says whether the tree lends. The place of a tree that nobody has reserved
//! depends on two words. Its entry says whether it has children with credits, and its states say whether it
//! has free huge frames. A call that changes the states looks at the entry afterwards. A call that
//! unreserves the tree or changes its class looks at the states afterwards, by a read-modify-write. So one
//! of two such calls sees the other, and sets the bit. The level depends on both words as well, and there
//! two calls may miss each other. So a search that finds a tree at a later place than its bit said comes
//! back to the tree, and a search that finds it at an earlier place takes it at once.
//!
//! *Progress*: lock-free. A search visits each bit at most once.
//!
//! Levels finer than an eighth gain nothing: in a simulation of the shipped pressure trace, 2, 4 and 8
//! levels and exact order keep between 0.82 and 0.83 of the possible huge frames free.

use core::marker::PhantomData;

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{Class, Geometry};

use crate::tree::Tree;

/// Trees in a group.
const GROUP: usize = 64;
/// Levels of use that are told apart.
const LEVELS: usize = 8;
/// Kinds of search.
const KINDS: usize = 3;

/// What a search is after.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Free frames in huge frames that are in part allocated, of trees that nobody has reserved.
    Partial,
    /// The same of trees that are reserved.
    Lending,
    /// Huge frames that are free as a whole, of trees that nobody has reserved.
    Huge,
}

impl Kind {
    pub(crate) const ALL: [Kind; KINDS] = [Kind::Partial, Kind::Lending, Kind::Huge];
}

/// A set of places (class and level), one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Places(pub(crate) u64);

impl Places {
    /// No place.
    pub(crate) const NONE: Places = Places(0);
    /// Every place.
    pub(crate) const ALL: Places = Places(!0);
    /// Of kind Huge: trees that are entirely free, whatever class they had.
    pub(crate) const FREE_TREES: Places = Places(0x8080_8080_8080_8080);

    /// Every place of a class.
    pub(crate) const fn of(class: Class) -> Places {
        Places(0xff << ((class.0 as u32 & 7) * 8))
    }

    /// Are there places of this class?
    #[inline(always)]
    pub(crate) const fn has_class(self, class: Class) -> bool {
        self.has(class.0 as u32 * LEVELS as u32)
    }

    const fn has(self, place: u32) -> bool {
        self.0 >> place & 1 != 0
    }

    /// Those of either.
    pub(crate) const fn or(self, other: Places) -> Places {
        Places(self.0 | other.0)
    }

    /// Those that are not in `other`.
    pub(crate) const fn but(self, other: Places) -> Places {
        Places(self.0 & !other.0)
    }
}

/// The index of one zone.
pub(crate) struct Index<'a, G> {
    /// A word for each group, of the first kind, then of the others.
    masks: &'a [AtomicU64],
    /// For each group the leaves of the first kind, then those of the others.
    leaves: &'a [AtomicU64],
    /// Leaves of one kind in a group.
    places: usize,
    geometry: PhantomData<G>,
}

/// How many words the masks and the leaves of `trees` trees take.
pub(crate) const fn words(trees: usize, classes: usize) -> (usize, usize) {
    let masks = trees.div_ceil(GROUP) * KINDS;
    (masks, masks * classes * LEVELS)
}

/// What a tree is: its entry, and how many of its huge frames are free as a whole. For a reserved tree that
/// number is zero, because only the slot that has reserved the tree may take them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Use {
    pub(crate) tree: Tree,
    whole: usize,
}

impl Use {
    pub(crate) const fn new(tree: Tree, whole: usize) -> Use {
        Use { tree, whole: if tree.is_reserved() { 0 } else { whole } }
    }

    /// How many quarters of huge frames are free, about.
    pub(crate) const fn quarters(self) -> usize {
        self.whole * 4 + self.tree.quarters()
    }

    /// Eighths of the tree that are free.
    const fn level<G: Geometry>(self) -> u32 {
        let eighths = self.quarters() * 2 / G::TREE_HUGE;
        if eighths < 7 { eighths as u32 } else { 7 }
    }

    const fn is_entirely_free<G: Geometry>(self) -> bool {
        self.whole == G::TREE_HUGE
    }

    /// Is it to be found?
    pub(crate) fn is_of(self, kind: Kind) -> bool {
        let reserved = self.tree.is_reserved();
        match kind {
            Kind::Partial => !reserved && self.tree.children() != 0,
            Kind::Lending => reserved && self.tree.children() != 0,
            Kind::Huge => !reserved && self.whole > 0,
        }
    }

    /// Where it belongs, if anywhere: the number of its leaf.
    fn place<G: Geometry>(self, kind: Kind) -> Option<u32> {
        let level = match kind {
            _ if !self.is_of(kind) => return None,
            Kind::Huge if self.is_entirely_free::<G>() => 7,
            Kind::Huge => self.level::<G>().min(6),
            Kind::Partial | Kind::Lending => self.level::<G>(),
        };
        Some(self.tree.class().0 as u32 * 8 + level)
    }
}

/// A tree that a search has come upon, and the leaf where it belongs.
struct Found {
    tree: Tree,
    place: u32,
}

impl<'a, G: Geometry> Index<'a, G> {
    pub(crate) fn new(masks: &'a [AtomicU64], leaves: &'a [AtomicU64], classes: usize) -> Self {
        Self { masks, leaves, places: classes * LEVELS, geometry: PhantomData }
    }

    fn groups(&self) -> usize {
        self.masks.len() / KINDS
    }

    fn mask(&self, group: usize, kind: Kind) -> Option<&'a AtomicU64> {
        self.masks.get(kind as usize * self.groups() + group)
    }

    fn leaf(&self, group: usize, kind: Kind, place: u32) -> Option<&'a AtomicU64> {
        self.leaves.get((group * KINDS + kind as usize) * self.places + place as usize)
    }

    /// Forgets everything; no other call is under way.
    pub(crate) fn clear(&self) {
        self.masks.iter().chain(self.leaves).for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Makes a tree findable after it changed from `before` (`None`: unknown) to `now`.
    pub(crate) fn update(&self, index: usize, before: Option<Use>, now: Use) {
        for kind in Kind::ALL {
            let is = now.place::<G>(kind);
            if let Some(place) = is {
                let new = before.is_none_or(|before| before.place::<G>(kind) != is);
                let _ = self.set(index, kind, place, new);
            }
        }
    }

    /// Sets the bit of a tree in a leaf, and the bit of the leaf in the mask. If the place is not `new`, the call
    /// that brought the tree there sets the bits, unless it was interrupted; so it is enough to look first.
    /// `None`: there is no such tree.
    fn set(&self, index: usize, kind: Kind, place: u32, new: bool) -> Option<()> {
        let (group, tree) = (index / GROUP, 1 << (index % GROUP));
        let (leaf, mask) = (self.leaf(group, kind, place)?, self.mask(group, kind)?);
        let mut trees = leaf.load(Ordering::Acquire);
        if new || trees & tree == 0 {
            trees = leaf.fetch_or(tree, Ordering::AcqRel);
        }
        // Whoever sets the first bit of a leaf sets the mask's; the others look whether it has.
        if trees == 0 || mask.load(Ordering::Acquire) >> place & 1 == 0 {
            mask.fetch_or(1 << place, Ordering::AcqRel);
        }
        Some(())
    }

    /// Could a search for one of `places` find anything?
    #[inline]
    pub(crate) fn may_have(&self, kind: Kind, places: Places) -> bool {
        let first = kind as usize * self.groups();
        let masks = self.masks.get(first..first + self.groups()).unwrap_or_default();
        masks.iter().any(|mask| mask.load(Ordering::Acquire) & places.0 != 0)
    }

    /// A tree for each group that is said to have one of this kind.
    pub(crate) fn firsts(&self, kind: Kind) -> impl Iterator<Item = usize> {
        (0..self.groups()).filter_map(move |group| self.first(kind, Places::ALL, group * GROUP))
    }

    /// A tree that is said to be at one of `places`, in the group of tree `near`.
    #[inline(always)]
    pub(crate) fn first(&self, kind: Kind, places: Places, near: usize) -> Option<usize> {
        let group = near / GROUP;
        let open = self.mask(group, kind)?.load(Ordering::Acquire) & places.0;
        let leaf = self.leaf(group, kind, open.trailing_zeros())?.load(Ordering::Acquire);
        (open != 0 && leaf != 0).then(|| group * GROUP + leaf.trailing_zeros() as usize)
    }

    /// Looks for a tree at one of `places`, the most used first, beginning in the group of tree
    /// `near`. Offers each to `accept` until that returns something.
    ///
    /// `load` looks at a tree.
    pub(crate) fn search<R>(
        &self,
        kind: Kind,
        places: Places,
        near: usize,
        load: impl Fn(usize) -> Use,
        mut accept: impl FnMut(usize, Tree) -> Option<R>,
    ) -> Option<R> {
        let groups = self.groups();
        let mut group = near / GROUP;
        for _ in 0..groups {
            if group >= groups {
                group = 0;
            }
            let mask = self.mask(group, kind)?;
            let mut open = mask.load(Ordering::Acquire) & places.0;
            while open != 0 {
                let place = open.trailing_zeros();
                open &= open - 1;
                let leaf = self.leaf(group, kind, place)?;
                let mut trees = leaf.load(Ordering::Acquire);
                if trees == 0 {
                    self.heal_mask(mask, leaf, place);
                }
                while trees != 0 {
                    let index = group * GROUP + trees.trailing_zeros() as usize;
                    trees &= trees - 1;
                    let Some(at) = self.confirm(leaf, index, kind, place, &load) else {
                        continue;
                    };
                    if at.place > place && places.has(at.place) {
                        // Its turn comes later.
                        open |= 1 << at.place;
                    } else if places.has(at.place)
                        && let Some(result) = accept(index, at.tree)
                    {
                        return Some(result);
                    }
                }
            }
            group += 1;
        }
        None
    }

    /// The place of a tree whose bit is set in a leaf. If the tree's place is elsewhere, the bit is healed.
    fn confirm(
        &self,
        leaf: &AtomicU64,
        index: usize,
        kind: Kind,
        place: u32,
        load: impl Fn(usize) -> Use,
    ) -> Option<Found> {
        let now = load(index);
        let at = now.place::<G>(kind);
        if at != Some(place) {
            self.heal_leaf(leaf, index, load);
        }
        Some(Found { tree: now.tree, place: at? })
    }

    #[cold]
    fn heal_mask(&self, mask: &AtomicU64, leaf: &AtomicU64, place: u32) {
        mask.fetch_and(!(1 << place), Ordering::AcqRel);
        // A read-modify-write: who set a bit of the leaf before it is seen; who sets one after it sees
        // that the mask was cleared. A load may miss the one, while the other misses the clearing.
        if leaf.fetch_or(0, Ordering::AcqRel) != 0 {
            mask.fetch_or(1 << place, Ordering::AcqRel);
        }
    }

    #[cold]
    fn heal_leaf(&self, leaf: &AtomicU64, index: usize, load: impl Fn(usize) -> Use) {
        leaf.fetch_and(!(1 << (index % GROUP)), Ordering::AcqRel);
        self.update(index, None, load(index));
    }
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use woodlot_frame::Base4K;
    use woodlot_suite::settings::rng;

    use super::*;

    const CLASSES: usize = 2;
    /// Three groups, the last of which is not full.
    const TREES: usize = 2 * GROUP + 50;

    type Of<'a> = Index<'a, Base4K>;

    fn memory() -> [Vec<AtomicU64>; 2] {
        let (masks, leaves) = words(TREES, CLASSES);
        [masks, leaves].map(|count| (0..count).map(|_| AtomicU64::new(0)).collect())
    }

    /// Any tree: reserved or not, with credits in up to three children.
    fn any(rng: &mut impl FnMut(usize) -> usize) -> Use {
        let class = Class(rng(CLASSES) as u8);
        let children = (0..rng(4)).map(|child| child * 7);
        let full = Base4K::HUGE_FRAMES;
        let tree = Tree::new(class);
        let tree =
            children.fold(tree, |tree, child| tree.follow::<Base4K>(child, 0, 1 + rng(full)));
        let whole = [0, 0, 1, 20, 29, Base4K::TREE_HUGE][rng(6)];
        match rng(3) {
            0 => Use::new(tree.reserve().expect("it is not reserved"), 0),
            _ if whole == Base4K::TREE_HUGE => Use::new(Tree::new(class), whole),
            _ => Use::new(tree, whole),
        }
    }

    /// The trees of a kind at these places, in the order in which a search that begins near tree `near`
    /// is to come upon them.
    fn expected(trees: &[Use], kind: Kind, places: Places, near: usize) -> Vec<usize> {
        let at = |tree: &usize| trees[*tree].place::<Base4K>(kind).filter(|&at| places.has(at));
        let first = near / GROUP;
        let groups = (first..3).chain(0..first);
        groups
            .flat_map(|group| {
                let group = group * GROUP..TREES.min((group + 1) * GROUP);
                let mut found: Vec<usize> = group.filter(|tree| at(tree).is_some()).collect();
                found.sort_by_key(|tree| at(tree));
                found
            })
            .collect()
    }

    fn found(index: &Of<'_>, trees: &[Use], kind: Kind, places: Places, near: usize) -> Vec<usize> {
        let mut found = Vec::new();
        let none = index.search(
            kind,
            places,
            near,
            |tree| trees[tree],
            |tree, entry| {
                assert_eq!(entry, trees[tree].tree);
                // One that has moved to an earlier place may come twice.
                if !found.contains(&tree) {
                    found.push(tree);
                }
                None::<()>
            },
        );
        assert_eq!(none, None);
        found
    }

    #[test]
    fn a_tree_is_where_its_kind_class_and_use_say() {
        assert_eq!(Places::of(Class(1)).but(Places::FREE_TREES), Places(0x7f00));
        let at = |tree, whole| Kind::ALL.map(|kind| Use::new(tree, whole).place::<Base4K>(kind));
        let none = Tree::new(Class(2));
        let some = none.follow::<Base4K>(9, 0, Base4K::HUGE_FRAMES / 2);
        for whole in 0..Base4K::TREE_HUGE {
            let level = 16 + (whole as u32 / 4).min(6);
            let huge = (whole > 0).then_some(level);
            assert_eq!(at(none, whole), [None, None, huge]);
            // Half a huge frame is two of the 16 quarters of a level.
            let partial = 16 + (whole as u32 * 4 + 2) / 16;
            assert_eq!(at(some, whole), [Some(partial), None, huge.map(|_| partial.min(22))]);
        }
        assert_eq!(at(none, Base4K::TREE_HUGE), [None, None, Some(16 + 7)]);
        let reserve = |tree: Tree| tree.reserve().expect("it is not reserved");
        assert_eq!(at(reserve(none), 20), [None; 3]);
        assert_eq!(at(reserve(some), 20), [None, Some(16), None]);
        let full = (0..32).fold(none, |tree, child| tree.follow::<Base4K>(child, 0, 511));
        assert_eq!(at(full, 0), [Some(16 + (32 * 3 / 16)), None, None]);
    }

    /// However trees change, a search finds those of its kind and places, in their order; and when it has
    /// come to all of them, what the index says is true.
    #[test]
    fn searches_find_what_there_is_and_heal_the_rest() {
        let mut rng = rng(170);
        let mut below = |limit: usize| rng.usize(..limit);
        let [masks, leaves] = memory();
        let index = Of::new(&masks, &leaves, CLASSES);
        let mut trees: Vec<Use> = (0..TREES).map(|_| Use::new(Tree::new(Class(0)), 0)).collect();
        let of = |class| Places::of(Class(class));
        let places =
            [of(0), of(1), Places::FREE_TREES, of(1).but(Places::FREE_TREES), of(0).or(of(1))];
        for round in 0..60 {
            for _ in 0..[3, 200][round % 2] {
                let (tree, now) = (below(TREES), any(&mut below));
                let before = std::mem::replace(&mut trees[tree], now);
                index.update(tree, (below(8) > 0).then_some(before), now);
            }
            for kind in Kind::ALL {
                for places in places {
                    let near = below(TREES);
                    let due = expected(&trees, kind, places, near);
                    assert!(due.is_empty() || index.may_have(kind, places));
                    assert_eq!(found(&index, &trees, kind, places, near), due, "{kind:?}");
                    let one =
                        index.search(kind, places, near, |tree| trees[tree], |tree, _| Some(tree));
                    assert_eq!(one, due.first().copied());
                }
                // The first search empties leaves, the second one sees that they are empty.
                found(&index, &trees, kind, Places::ALL, 0);
                found(&index, &trees, kind, Places::ALL, 0);
                for places in places {
                    let at = |near| expected(&trees, kind, places, near);
                    assert_eq!(index.may_have(kind, places), !at(0).is_empty());
                    for near in [0, GROUP + 1, TREES - 1] {
                        let first =
                            at(near).first().copied().filter(|tree| tree / GROUP == near / GROUP);
                        assert_eq!(index.first(kind, places, near), first);
                    }
                }
                let in_group = |group: usize| {
                    let trees = expected(&trees, kind, of(0).or(of(1)), group * GROUP);
                    trees.first().copied().filter(|tree| tree / GROUP == group)
                };
                let firsts: Vec<usize> = (0..3).filter_map(in_group).collect();
                assert_eq!(index.firsts(kind).collect::<Vec<_>>(), firsts);
            }
        }
        index.clear();
        assert!(Kind::ALL.iter().all(|&kind| !index.may_have(kind, Places::ALL)));
    }
}
