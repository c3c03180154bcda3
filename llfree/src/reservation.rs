//! The reservation word: the tree that a slot draws from, and the child it is filling.
//!
//! ```text
//!   64 bits; the widths for 4 KiB base frames
//!   ┌──────────┬──────────┬────────┬──────────┬─────────┬──────────┬───┬─┬─┐
//!   │ tree, 22 │ child, 5 │ row, 3 │ held, 10 │ huge, 6 │ free, 15 │ p │g│1│
//!   └──────────┴──────────┴────────┴──────────┴─────────┴──────────┴───┴─┴─┘
//! ```
//!
//! * Bit 0: there is a tree. The word 0 means: none.
//! * `g` (guest): another reservation has reserved the tree; this one has only borrowed a child of
//!   it, with its credits (`free` = `held`), and takes nothing else from the tree.
//! * `free`, `huge`: the slot's part of the tree's credits (c_P in the paper).
//! * `child`, `row`: the start frame of the paper, where the last allocation was (last fit).
//! * `held`: credits of that child that the slot holds, with `p` the child's polarity under which
//!   they were taken. They are what makes an allocation cheap: it pays the tree and the child by
//!   one swap of this word, and then claims its bit by another.
//!
//! Legal values: 0, or bit 0 set, `free`, `huge` and `held` in range, and `held` > 0 only while
//! those credits are missing from the child. Everybody writes by compare-and-swap on the whole
//! word: the slot's own calls, others that drain or borrow it.
//!
//! The paper has an in-transition flag here, which keeps a second call on the slot from reserving
//! a tree while the first one does. A swap of the whole word needs none: whoever comes second
//! finds the word changed, and gives back what it brought. So nobody ever waits for a transition
//! that an interrupted call cannot finish.

use core::marker::PhantomData;

use woodlot_frame::Geometry;

use crate::child::Polarity;
use crate::lower::Gain;

/// One reservation.
#[derive(Debug)]
pub(crate) struct Reservation<G> {
    word: u64,
    geometry: PhantomData<G>,
}

impl<G> Clone for Reservation<G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<G> Copy for Reservation<G> {}

/// A field of the word.
struct Field {
    shift: u32,
    bits: u32,
}

impl Field {
    const fn after(before: Field, bits: u32) -> Field {
        Field { shift: before.shift + before.bits, bits }
    }

    const fn get(self, word: u64) -> usize {
        (word >> self.shift & self.mask()) as usize
    }

    const fn set(self, word: u64, value: usize) -> u64 {
        word & !(self.mask() << self.shift) | (value as u64 & self.mask()) << self.shift
    }

    const fn mask(&self) -> u64 {
        !0 >> (64 - self.bits)
    }
}

/// The bits that numbers from 0 to `max` take, at least one.
const fn bits_for(max: usize) -> u32 {
    if max == 0 { 1 } else { usize::BITS - max.leading_zeros() }
}

impl<G: Geometry> Reservation<G> {
    const GUEST: u64 = 2;
    const POLARITY: Field = Field { shift: 2, bits: 1 };
    const FREE: Field = Field::after(Self::POLARITY, bits_for(G::TREE_FRAMES));
    const HUGE: Field = Field::after(Self::FREE, bits_for(G::TREE_HUGE));
    const HELD: Field = Field::after(Self::HUGE, bits_for(G::HUGE_FRAMES));
    const ROW: Field = Field::after(Self::HELD, bits_for(crate::rows::row_count::<G>() - 1));
    const CHILD: Field = Field::after(Self::ROW, G::TREE_HUGE.trailing_zeros());
    const TREE: Field = Field {
        shift: Self::CHILD.shift + Self::CHILD.bits,
        bits: 64 - Self::CHILD.shift - Self::CHILD.bits,
    };

    /// How many trees the word can name.
    pub(crate) const MAX_TREES: usize = 1 << Self::TREE.bits;

    /// No tree.
    pub(crate) const NONE: Self = Self::from_word(0);

    /// `tree` with all of its credits.
    pub(crate) const fn new(tree: usize, credits: Gain) -> Self {
        let word = Self::FREE.set(1, credits.frames);
        Self::from_word(Self::TREE.set(Self::HUGE.set(word, credits.huge), tree))
    }

    pub(crate) const fn from_word(word: u64) -> Self {
        Self { word, geometry: PhantomData }
    }

    pub(crate) const fn word(self) -> u64 {
        self.word
    }

    pub(crate) const fn is_some(self) -> bool {
        self.word & 1 != 0
    }

    /// `held` credits of huge frame `huge`, borrowed from a tree that another one has reserved.
    pub(crate) fn guest(huge: usize, held: usize, polarity: Polarity) -> Self {
        let borrowed = Self::new(huge / G::TREE_HUGE, Gain { frames: held, huge: 0 });
        Self::from_word(borrowed.holding(huge, held, polarity).word | Self::GUEST)
    }

    /// Has it only borrowed a child?
    pub(crate) const fn is_guest(self) -> bool {
        self.word & Self::GUEST != 0
    }

    /// Has it something of this tree?
    pub(crate) const fn is_in(self, tree: usize) -> bool {
        self.is_some() && self.tree() == tree
    }

    /// Has it reserved this tree?
    pub(crate) const fn owns(self, tree: usize) -> bool {
        self.is_in(tree) && !self.is_guest()
    }

    pub(crate) const fn tree(self) -> usize {
        Self::TREE.get(self.word)
    }

    /// The index of the child's huge frame in the zone.
    pub(crate) const fn huge_index(self) -> usize {
        // The number of the tree stands right above that of the child.
        (self.word >> Self::CHILD.shift) as usize
    }

    pub(crate) const fn row(self) -> usize {
        Self::ROW.get(self.word)
    }

    pub(crate) const fn held(self) -> usize {
        Self::HELD.get(self.word)
    }

    pub(crate) const fn polarity(self) -> Polarity {
        Polarity(Self::POLARITY.get(self.word) != 0)
    }

    /// The slot's part of the tree's credits.
    pub(crate) const fn credits(self) -> Gain {
        Gain { frames: Self::FREE.get(self.word), huge: Self::HUGE.get(self.word) }
    }

    /// Credits as they are added to the word.
    #[inline]
    const fn weight(gain: Gain) -> u64 {
        ((gain.frames as u64) << Self::FREE.shift) + ((gain.huge as u64) << Self::HUGE.shift)
    }

    /// With more credits of the tree; `None` past its size.
    #[inline]
    pub(crate) fn with(self, gain: Gain) -> Option<Self> {
        let now = self.credits();
        let legal =
            now.frames + gain.frames <= G::TREE_FRAMES && now.huge + gain.huge <= G::TREE_HUGE;
        legal.then(|| Self::from_word(self.word + Self::weight(gain)))
    }

    /// With fewer credits of the tree; `None` where there are not that many.
    #[inline]
    pub(crate) fn without(self, gain: Gain) -> Option<Self> {
        let now = self.credits();
        let enough = now.frames >= gain.frames && now.huge >= gain.huge;
        enough.then(|| Self::from_word(self.word - Self::weight(gain)))
    }

    /// One frame's credit, of the tree and of the child at once.
    const CREDIT: u64 = (1 << Self::FREE.shift) + (1 << Self::HELD.shift);

    /// `count` frames paid for, from the tree and from the child, to be looked for at `row`.
    #[inline]
    pub(crate) fn pay(self, count: usize, row: usize) -> Option<Self> {
        let enough = self.held() >= count && Self::FREE.get(self.word) >= count;
        enough.then(|| Self::from_word(Self::ROW.set(self.word - count as u64 * Self::CREDIT, row)))
    }

    /// `count` frames of huge frame `huge` given back to the tree and the child, if credits of that
    /// child are held. It is those that keep the child's polarity as it is noted here: without any
    /// left the word may speak of a child that has been allocated and split since.
    #[inline]
    pub(crate) fn repay(self, huge: usize, count: usize, polarity: Polarity) -> Option<Self> {
        let same = self.held() > 0 && self.huge_index() == huge && self.polarity() == polarity;
        let room = self.held() + count <= G::HUGE_FRAMES
            && Self::FREE.get(self.word) + count <= G::TREE_FRAMES;
        (same && room).then(|| Self::from_word(self.word + count as u64 * Self::CREDIT))
    }

    /// Holding `count` credits of huge frame `huge`, which lies in the tree.
    pub(crate) fn holding(self, huge: usize, count: usize, polarity: Polarity) -> Self {
        let word = Self::CHILD.set(Self::HELD.set(self.word, count), huge % G::TREE_HUGE);
        let word = Self::POLARITY.set(Self::ROW.set(word, 0), polarity.0 as usize);
        Self::from_word(word)
    }

    /// The same with `huge` as the place of the last allocation, unless another child is held.
    pub(crate) fn looking_at(self, huge: usize) -> Self {
        if self.held() > 0 {
            return self;
        }
        Self::from_word(Self::CHILD.set(self.word, huge % G::TREE_HUGE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use woodlot_frame::{Base4K, Base16K, Base64K};

    fn fields<G: Geometry>() {
        let all = Gain { frames: G::TREE_FRAMES, huge: G::TREE_HUGE };
        let tree = Reservation::<G>::MAX_TREES - 1;
        let full = Reservation::<G>::new(tree, all);
        let huge = tree * G::TREE_HUGE + G::TREE_HUGE - 1;
        let held = full.holding(huge, G::HUGE_FRAMES, Polarity(true));
        assert!(held.is_some() && held.owns(tree) && held.polarity() == Polarity(true));
        assert_eq!((held.huge_index(), held.held()), (huge, G::HUGE_FRAMES));
        assert_eq!(held.credits(), all);
        let last_row = crate::rows::row_count::<G>() - 1;
        let paid = held.pay(G::HUGE_FRAMES, last_row).unwrap();
        assert_eq!((paid.held(), paid.row(), paid.tree()), (0, last_row, tree));
        assert!(paid.pay(1, 0).is_none());
        assert!(paid.repay(huge, 1, Polarity(true)).is_none(), "nothing pins the polarity");
        let paid = held.pay(G::HUGE_FRAMES - 1, last_row).unwrap();
        let repaid = paid.repay(huge, G::HUGE_FRAMES - 1, Polarity(true)).unwrap();
        assert_eq!(repaid.credits(), all);
        assert!(repaid.repay(huge, 1, Polarity(true)).is_none());
        assert!(paid.repay(huge, 1, Polarity(false)).is_none());
        assert!(paid.repay(huge - 1, 1, Polarity(true)).is_none());
        assert!(full.with(Gain { frames: 1, huge: 0 }).is_none());
        assert_eq!(full.without(all).unwrap().credits(), Gain::default());
    }

    #[test]
    fn fields_do_not_touch() {
        fields::<Base4K>();
        fields::<Base16K>();
        fields::<Base64K>();
        assert_eq!(Reservation::<Base4K>::MAX_TREES, 1 << 22);
    }
}
