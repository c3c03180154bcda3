//! The reservation word: the tree that a slot draws from, and the child it is filling.
//!
//! ```text
//!   64 bits; the widths for 4 KiB base frames
//!   ┌──────────┬──────────┬────────┬──────────┬───┬─┬─┐
//!   │ tree, 43 │ child, 5 │ row, 3 │ held, 10 │ p │g│1│
//!   └──────────┴──────────┴────────┴──────────┴───┴─┴─┘
//! ```
//!
//! * Bit 0: there is a tree. The word 0 means: none.
//! * `g` (guest): the tree is not reserved for this slot; only the credits of the child are its own.
//! * `child`, `row`: the start frame of the paper, where the last allocation was (last fit). Together with
//!   the tree they are the number of a row in the zone.
//! * `held`: the credits of that child that the slot holds, with `p`, the child's polarity under which they
//!   were taken. They make an allocation cheap: it pays by one swap of this word, and then claims its bit
//!   by another.
//!
//! Legal values: 0, or bit 0 set and `held` in range. `held` > 0 only while those credits are missing from
//! the child's counter. Every writer swaps the whole word. The writers are the slot's own calls, and others
//! that drain the reservation or allocate from it. A call that takes a reservation out of the word gives it
//! back.
//!
//! The paper has an in-transition flag here, which keeps a second call on the slot from reserving a tree
//! while the first one does. A swap of the whole word needs no flag: the call that comes second finds the
//! word changed, and gives back what it brought. So no call waits for a transition that an interrupted call
//! cannot finish.

use core::marker::PhantomData;

use woodlot_frame::Geometry;

use crate::row::{row_count, row_order};
use crate::state::Polarity;

/// One reservation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reservation<G> {
    word: u64,
    geometry: PhantomData<G>,
}

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
        (1 << self.bits) - 1
    }
}

/// The bits that numbers from 0 to `max` take.
const fn bits_for(max: usize) -> u32 {
    usize::BITS - max.leading_zeros()
}

impl<G: Geometry> Reservation<G> {
    const GUEST: u64 = 2;
    const POLARITY: Field = Field { shift: 2, bits: 1 };
    const HELD: Field = Field::after(Self::POLARITY, bits_for(G::HUGE_FRAMES));
    const ROW: Field = Field::after(Self::HELD, bits_for(row_count::<G>() - 1));
    const CHILD: Field = Field::after(Self::ROW, G::TREE_HUGE.trailing_zeros());
    const TREE: Field = Field {
        shift: Self::CHILD.shift + Self::CHILD.bits,
        bits: 64 - Self::CHILD.shift - Self::CHILD.bits,
    };

    /// How many trees the word can name.
    pub(crate) const MAX_TREES: usize =
        if Self::TREE.bits < usize::BITS { 1 << Self::TREE.bits } else { usize::MAX };

    /// No tree.
    pub(crate) const NONE: Self = Self::from_word(0);

    /// `tree`, and nothing held.
    pub(crate) const fn new(tree: usize) -> Self {
        Self::from_word(Self::TREE.set(1, tree))
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

    /// `held` credits of huge frame `huge`, of a tree that is not reserved for the slot.
    pub(crate) fn guest(huge: usize, held: usize, polarity: Polarity) -> Self {
        let tree = Self::new(huge / G::TREE_HUGE);
        Self::from_word(tree.holding(huge, held, polarity, 0).word | Self::GUEST)
    }

    /// Has it only credits of a child?
    pub(crate) const fn is_guest(self) -> bool {
        self.word & Self::GUEST != 0
    }

    /// Is there anything to give back: a tree that is the slot's, or credits?
    pub(crate) const fn is_worth_draining(self) -> bool {
        self.is_some() && (!self.is_guest() || self.held() > 0)
    }

    /// Has it something of this tree?
    pub(crate) const fn is_in(self, tree: usize) -> bool {
        self.is_some() && self.tree() == tree
    }

    /// The tree that is reserved for the slot.
    #[inline(always)]
    pub(crate) const fn own_tree(self) -> Option<usize> {
        if self.is_some() && !self.is_guest() { Some(self.tree()) } else { None }
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

    /// The first frame of the row, counted from the first of the zone.
    pub(crate) const fn frame_index(self) -> usize {
        // The numbers of the tree, the child and the row stand side by side.
        ((self.word >> Self::ROW.shift) as usize) << row_order::<G>()
    }

    pub(crate) const fn held(self) -> usize {
        Self::HELD.get(self.word)
    }

    pub(crate) const fn polarity(self) -> Polarity {
        Polarity(Self::POLARITY.get(self.word) != 0)
    }

    /// One credit.
    const CREDIT: u64 = 1 << Self::HELD.shift;

    /// `count` frames paid for, of at least as many that are held.
    #[inline(always)]
    pub(crate) const fn pay(self, count: usize) -> Self {
        debug_assert!(self.held() >= count);
        Self::from_word(self.word - count as u64 * Self::CREDIT)
    }

    /// The next frames are to be looked for at `row` of the child; after the last comes the first.
    #[inline(always)]
    pub(crate) const fn at_row(self, row: usize) -> Self {
        Self::from_word(Self::ROW.set(self.word, row))
    }

    /// The next frames are to be looked for behind the aligned run of so many rows.
    #[inline(always)]
    pub(crate) const fn behind(self, rows: usize) -> Self {
        if rows == 0 { self } else { self.at_row((self.row() & !(rows - 1)) + rows) }
    }

    /// Are credits of huge frame `huge` held?
    #[inline(always)]
    pub(crate) const fn holds(self, huge: usize) -> bool {
        self.huge_index() == huge && self.held() > 0
    }

    /// `count` frames of huge frame `huge` given back, if credits of it are held. It is those that
    /// keep the child's polarity as it is noted here: without any left the word may speak of a child
    /// that has been allocated and split since.
    #[inline(always)]
    pub(crate) fn repay(self, huge: usize, count: usize, polarity: Polarity) -> Option<Self> {
        let same = self.holds(huge) && self.polarity() == polarity;
        let held = self.word & Self::HELD.mask() << Self::HELD.shift;
        let room = held <= (G::HUGE_FRAMES - count) as u64 * Self::CREDIT;
        (same && room).then(|| Self::from_word(self.word + count as u64 * Self::CREDIT))
    }

    /// Holding `count` credits of huge frame `huge`, which lies in the tree; its frames are to be
    /// looked for at `row`.
    pub(crate) const fn holding(
        self,
        huge: usize,
        count: usize,
        polarity: Polarity,
        row: usize,
    ) -> Self {
        let word = Self::CHILD.set(Self::HELD.set(self.word, count), huge % G::TREE_HUGE);
        Self::from_word(Self::POLARITY.set(word, polarity.0 as usize)).at_row(row)
    }

    /// The same without the credits.
    pub(crate) fn empty(self) -> Self {
        Self::from_word(Self::HELD.set(self.word, 0))
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use woodlot_frame::{Base4K, Base16K, Base64K};

    fn fields<G: Geometry>() {
        let tree = Reservation::<G>::MAX_TREES - 1;
        let huge = tree * G::TREE_HUGE + G::TREE_HUGE - 1;
        let full = G::HUGE_FRAMES;
        let held = Reservation::<G>::new(tree).holding(huge, full, Polarity(true), 0);
        assert_eq!(
            (held.is_some(), held.owns(tree), held.polarity()),
            (true, true, Polarity(true))
        );
        assert_eq!((held.huge_index(), held.held()), (huge, full));
        let last_row = row_count::<G>() - 1;
        let paid = held.pay(full).at_row(last_row);
        assert_eq!((paid.held(), paid.row(), paid.tree()), (0, last_row, tree));
        assert!(paid.repay(huge, 1, Polarity(true)).is_none(), "nothing pins the polarity");
        let paid = held.pay(full - 1).at_row(last_row);
        assert_eq!(paid.frame_index(), (huge << G::HUGE_ORDER) + (last_row << row_order::<G>()));
        assert_eq!((paid.behind(0).row(), paid.behind(1).row()), (last_row, 0));
        assert_eq!(paid.repay(huge, full - 1, Polarity(true)).unwrap().held(), full);
        assert!(paid.repay(huge, full, Polarity(true)).is_none());
        assert!(paid.repay(huge, 1, Polarity(false)).is_none());
        assert!(paid.repay(huge - 1, 1, Polarity(true)).is_none());
        let holding = [held.holds(huge), paid.holds(huge), paid.holds(huge - 1)];
        assert_eq!(holding, [true, true, false]);
        assert_eq!([held.empty().holds(huge), Reservation::<G>::NONE.holds(0)], [false, false]);
        assert_eq!(held.empty().word(), held.pay(full).word());
        let guest = Reservation::<G>::guest(huge, 1, Polarity(false));
        assert_eq!((guest.is_guest(), guest.is_in(tree), guest.owns(tree)), (true, true, false));
        let worth = [guest, guest.empty(), Reservation::new(0), Reservation::NONE]
            .map(Reservation::is_worth_draining);
        assert_eq!(worth, [true, false, true, false]);
    }

    #[test]
    fn fields_are_as_wide_as_their_numbers() {
        assert_eq!([0, 1, 2, 511, 512].map(bits_for), [0, 1, 2, 9, 10]);
        let field = Field::after(Field { shift: 3, bits: 2 }, 4);
        assert_eq!((field.shift, field.bits), (5, 4));
    }

    #[test]
    fn fields_do_not_touch() {
        fields::<Base4K>();
        fields::<Base16K>();
        fields::<Base64K>();
    }
}
