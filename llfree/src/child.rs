//! The child entry: what the lower level knows about one huge frame.
//!
//! ```text
//!   pair word, 64 bits                     one atomic for two neighbouring huge frames
//!   ┌───────────────────┬───────────────────┐
//!   │ odd child, 32     │ even child, 32    │
//!   └───────────────────┴───────────────────┘
//!   child, 32 bits
//!   ┌─────────────┬───┬───┬───┬─────────────┐
//!   │ 0 (31..19)  │ o │ p │ a │ free, 16    │
//!   └─────────────┴───┴───┴───┴─────────────┘
//! ```
//!
//! * `free`: credits, 0 to 2^H. One credit is the right to one free bit of the bit field.
//! * `a` (allocated): the huge frame is allocated as a whole; `free` is 0.
//! * `p` (polarity): a base frame is allocated when its bit differs from `p`.
//! * `o` (offline): set only together with `a`; the huge frame is taken out.
//! * Bits 19 to 31 are zero, kept for what may be known of a huge frame (zeroed, reclaimed).
//!
//! Legal values: `a=0, o=0` with any `free`; `a=1, free=0` with any `o`. Every writer uses a
//! compare-and-swap on the whole pair, so order H+1, which needs both halves, is one write as well
//! (the paper's 32-bit swap over two 16-bit entries, section 4.2.1).
//!
//! # Why a polarity
//!
//! While a huge frame is allocated as a whole, its bits all have the *free* value. To free a part
//! of it they must all mean *allocated* first. Writing 512 bits is not atomic; turning `p` is: the
//! swap `(a=1, free=0, p) → (a=0, free=0, !p)` (*split*) gives all bits the other meaning at once,
//! with nobody to wait for, and a crash sees the one or the other. The reverse frees a huge frame
//! whose base frames were allocated one by one: once every bit is seen to be allocated,
//! `(a=0, free=0, p) → (a=0, free=2^H, !p)` (*join*) frees them all.
//!
//! `p` can turn only while `free` is 0 and no base-frame call is under way that holds a credit or
//! owns a frame: every such call keeps `free` from reaching 2^H, which a whole allocation needs,
//! and every bit from being allocated, which a join needs. Invariants, numbered for the rest:
//!
//! 1. `free` + credits held in reservations + credits in flight = number of free bits, whenever no
//!    multi-row claim is half done.
//! 2. Whoever holds a credit may use the `p` it saw when it took the credit.
//! 3. Whoever owns a frame may use the `p` it loads, until the frame's bit is given back.

use woodlot_frame::Geometry;

/// The meaning of the bits of one huge frame: which value a free frame's bit has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Polarity(pub(crate) bool);

impl Polarity {
    /// A row in which every frame is free.
    pub(crate) const fn all_free(self) -> u64 {
        if self.0 { !0 } else { 0 }
    }

    /// The set of free frames in a row.
    pub(crate) const fn free_in(self, row: u64) -> u64 {
        row ^ !self.all_free()
    }

    const fn turned(self) -> Polarity {
        Polarity(!self.0)
    }
}

/// One child entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Child(u32);

const FREE: u32 = 0xffff;
const ALLOCATED: u32 = 1 << 16;
const POLARITY: u32 = 1 << 17;
const OFFLINE: u32 = 1 << 18;

impl Child {
    /// A split huge frame with `free` credits.
    pub(crate) const fn split(free: usize, polarity: Polarity) -> Child {
        Child(free as u32 | if polarity.0 { POLARITY } else { 0 })
    }

    /// A huge frame allocated as a whole.
    pub(crate) const fn whole(polarity: Polarity) -> Child {
        Child(ALLOCATED | Self::split(0, polarity).0)
    }

    /// A huge frame that is taken out.
    pub(crate) const fn offline(polarity: Polarity) -> Child {
        Child(OFFLINE | Self::whole(polarity).0)
    }

    pub(crate) const fn free(self) -> usize {
        (self.0 & FREE) as usize
    }

    pub(crate) const fn is_whole(self) -> bool {
        self.0 & ALLOCATED != 0
    }

    pub(crate) const fn is_offline(self) -> bool {
        self.0 & OFFLINE != 0
    }

    pub(crate) const fn polarity(self) -> Polarity {
        Polarity(self.0 & POLARITY != 0)
    }

    /// Every frame is free and every credit is here.
    pub(crate) const fn is_free<G: Geometry>(self) -> bool {
        self.free() == G::HUGE_FRAMES
    }

    /// Allocated as a whole: from a free huge frame.
    pub(crate) fn allocate<G: Geometry>(self) -> Option<Child> {
        self.is_free::<G>().then_some(Child::whole(self.polarity()))
    }

    /// Taken out: from a free huge frame.
    pub(crate) fn take_out<G: Geometry>(self) -> Option<Child> {
        self.is_free::<G>().then_some(Child::offline(self.polarity()))
    }

    /// Put back: from one that was taken out.
    pub(crate) fn put_back<G: Geometry>(self) -> Option<Child> {
        self.is_offline().then_some(Child::split(G::HUGE_FRAMES, self.polarity()))
    }

    /// Freed as a whole: from one that was allocated as a whole.
    pub(crate) fn release<G: Geometry>(self) -> Option<Child> {
        let owned = self.is_whole() && !self.is_offline();
        owned.then_some(Child::split(G::HUGE_FRAMES, self.polarity()))
    }

    /// Every bit given the meaning *allocated*: from one that was allocated as a whole.
    pub(crate) fn split_up(self) -> Option<Child> {
        let owned = self.is_whole() && !self.is_offline();
        owned.then_some(Child::split(0, self.polarity().turned()))
    }

    /// Freed as a whole: from one whose bits were all seen to be allocated.
    pub(crate) fn join<G: Geometry>(self) -> Option<Child> {
        let empty = !self.is_whole() && self.free() == 0;
        empty.then_some(Child::split(G::HUGE_FRAMES, self.polarity().turned()))
    }

    /// `count` credits less, which must be some.
    pub(crate) fn take(self, count: usize) -> Option<Child> {
        let left = self.free().checked_sub(count)?;
        (count > 0).then_some(Child::split(left, self.polarity()))
    }

    /// `count` credits more, while the bits still mean what `polarity` says.
    pub(crate) fn give<G: Geometry>(self, count: usize, polarity: Polarity) -> Option<Child> {
        let free = self.free() + count;
        let legal = !self.is_whole() && self.polarity() == polarity && free <= G::HUGE_FRAMES;
        legal.then_some(Child::split(free, polarity))
    }
}

/// Two neighbouring children in one word; half 0 is the even one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pair(pub(crate) u64);

impl Pair {
    pub(crate) const fn of(children: [Child; 2]) -> Pair {
        Pair(children[0].0 as u64 | (children[1].0 as u64) << 32)
    }

    pub(crate) const fn children(self) -> [Child; 2] {
        [Child(self.0 as u32), Child((self.0 >> 32) as u32)]
    }

    pub(crate) const fn child(self, half: usize) -> Child {
        Child((self.0 >> ((half as u32 & 1) * 32)) as u32)
    }

    pub(crate) const fn with(self, half: usize, child: Child) -> Pair {
        let shift = (half as u32 & 1) * 32;
        Pair(self.0 & !(0xffff_ffff << shift) | (child.0 as u64) << shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use woodlot_frame::Base4K;

    const P: Polarity = Polarity(true);

    #[test]
    fn a_split_turns_the_meaning_of_every_bit() {
        let whole = Child::whole(P);
        let split = whole.split_up().unwrap();
        assert_eq!(split.polarity().free_in(P.all_free()), 0);
        assert_eq!(split.join::<Base4K>(), Some(Child::split(512, P)));
        assert_eq!(Child::offline(P).split_up(), None);
        assert_eq!(Child::split(0, P).split_up(), None);
    }

    #[test]
    fn credits_stay_in_bounds() {
        let child = Child::split(3, P);
        assert_eq!(child.take(4), None);
        assert_eq!(child.take(3), Some(Child::split(0, P)));
        assert_eq!(child.give::<Base4K>(509, P), Some(Child::split(512, P)));
        assert_eq!(child.give::<Base4K>(510, P), None);
        assert_eq!(child.give::<Base4K>(1, Polarity(false)), None);
        assert_eq!(Child::whole(P).give::<Base4K>(1, P), None);
        assert_eq!(Child::whole(P).take(1), None);
        assert_eq!(Child::whole(P).take(0), None, "nothing may open a whole huge frame");
    }

    #[test]
    fn the_halves_of_a_pair_are_apart() {
        let (a, b) = (Child::split(7, P), Child::offline(Polarity(false)));
        let pair = Pair::of([a, b]);
        assert_eq!(pair.children(), [a, b]);
        assert_eq!((pair.child(0), pair.child(1)), (a, b));
        assert_eq!(pair.with(1, a).with(0, b), Pair::of([b, a]));
    }

    #[test]
    fn out_means_out() {
        let out = Child::split(512, P).take_out::<Base4K>().unwrap();
        assert_eq!(out.release::<Base4K>(), None);
        assert_eq!(out.join::<Base4K>(), None);
        assert_eq!(out.allocate::<Base4K>(), None);
        assert_eq!(out.put_back::<Base4K>(), Some(Child::split(512, P)));
        assert_eq!(Child::whole(P).put_back::<Base4K>(), None);
    }
}
