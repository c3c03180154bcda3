//! Notes about the roots in which nothing is free: one byte for each root.
//!
//! ```text
//!   root      0     1     2     3     4
//!   order  [ 10  │  0  │  3  │  -  │ 10 ]    no block of this order, or of a larger one, is free there
//!   looking[  0  │  0  │  0  │  0  │  1 ]    so many searches are not sure of it yet
//! ```
//!
//! A node says whether something below it is in use, not whether something is free. A search in a zone that
//! is nearly full would therefore look at every node of the order. So a search that finds nothing in a root
//! notes that here, and later searches pass over the root. Any free in the root takes the note back, and so
//! does a release there that was put off (`deferred.rs`).
//!
//! | bits | name | legal values | written by |
//! |---|---|---|---|
//! | 0–3 | order | 0 to 13, or 15: nothing is known | searches (lower), frees and searches (15) |
//! | 4–7 | looking | 0 to 15 | searches |
//!
//! # Invariant
//! While nobody is looking, a byte is true, except for frees and failing allocations under way and for
//! releases that are put off. A search writes its order and that it is looking. It then looks at the whole
//! root again, and takes the order back if it finds something. At last it writes that it is no longer
//! looking. A free changes the tree, then loads the byte and takes the order back. All of these accesses
//! are sequentially consistent, so one of the two sees the other: the second look finds a block that became
//! free before the order was written, and the free of a later block finds the order.
//!
//! While somebody is looking, nobody believes the order. It may be wrong until the second look has ended,
//! which never happens if that call stops there.

use woodlot_frame::Geometry;
use woodlot_frame::atomics::{AtomicU8, Ordering::SeqCst};

use crate::forest::Forest;
use crate::form::Form;
use crate::search::Found;
use crate::shape::Node;

/// The order where nothing is known; all of its bits.
const UNKNOWN: u8 = 15;

/// One search that is looking.
const LOOKING: u8 = 16;

#[inline(always)]
fn load(byte: &AtomicU8) -> u8 {
    // As for cells: see `form.rs`.
    #[cfg(not(woodlot_loom))]
    return byte.load(SeqCst);
    #[cfg(woodlot_loom)]
    byte.fetch_add(0, SeqCst)
}

impl<G: Geometry, F: Form> Forest<'_, G, F> {
    /// Before the first call.
    pub(crate) fn start_spent(&self) {
        self.spent.iter().for_each(|byte| byte.store(UNKNOWN, SeqCst));
    }

    /// Is it known that nothing of this order is free in a root?
    #[inline(always)]
    pub(crate) fn is_spent(&self, root: usize, order: u32) -> bool {
        // A byte in which somebody is looking is larger than any order.
        self.spent.get(root).is_some_and(|byte| u32::from(load(byte)) <= order)
    }

    /// Says that nothing of this order is free in a root, if it is so on a second look; what that
    /// found.
    pub(crate) fn spend(&self, root: usize, order: u32, look: impl Fn() -> Found) -> Found {
        let Some(byte) = self.spent.get(root).filter(|byte| begin(byte, order as u8)) else {
            return Found::None(false);
        };
        let found = look();
        if found != Found::None(false) {
            byte.fetch_or(UNKNOWN, SeqCst);
        }
        byte.fetch_sub(LOOKING, SeqCst);
        found
    }

    /// Something has become free in the root that a node lies in.
    #[inline(always)]
    pub(crate) fn unspend(&self, node: Node) {
        let byte = self.spent.get(node.start() >> G::MAX_ORDER).into_iter();
        let known = byte.filter(|byte| load(byte) & UNKNOWN != UNKNOWN);
        known.for_each(|byte| _ = byte.fetch_or(UNKNOWN, SeqCst));
    }
}

/// Writes an order, if it is lower, and that one more is looking; false if too many are.
fn begin(byte: &AtomicU8, order: u8) -> bool {
    let mut value = load(byte);
    while let Some(more) = value.checked_add(LOOKING) {
        let lower = more & !UNKNOWN | order.min(value & UNKNOWN);
        match byte.compare_exchange(value, lower, SeqCst, SeqCst) {
            Ok(_) => return true,
            Err(now) => value = now,
        }
    }
    false
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use crate::form::OneLevel;
    use crate::shape::Shape;
    use woodlot_frame::Base4K;

    const NOTHING: Found = Found::None(false);

    /// A forest of one root, of which the byte says this.
    fn with_byte(byte: u8, check: impl FnOnce(Forest<'_, Base4K, OneLevel>, &AtomicU8)) {
        let spent = [AtomicU8::new(byte)];
        check(Forest { cells: &[], spent: &spent, shape: Shape::new(1) }, &spent[0]);
    }

    #[test]
    fn the_lowest_order_is_kept_until_something_is_free() {
        with_byte(UNKNOWN, |forest, _| {
            assert!(!forest.is_spent(0, Base4K::MAX_ORDER));
            for (order, kept) in [(5, 5), (3, 3), (4, 3)] {
                assert_eq!(forest.spend(0, order, || NOTHING), NOTHING);
                assert_eq!(
                    [kept - 1, kept, 10].map(|o| forest.is_spent(0, o)),
                    [false, true, true]
                );
            }
            forest.unspend(Node::around(77, 2));
            assert!(!forest.is_spent(0, Base4K::MAX_ORDER));
        });
    }

    #[test]
    fn what_a_second_look_finds_takes_the_order_back() {
        for found in [Found::None(true), Found::Block(Node::around(0, 1), false)] {
            with_byte(3, |forest, byte| {
                assert_eq!(forest.spend(0, 1, || found), found);
                assert_eq!(load(byte), UNKNOWN);
            });
        }
    }

    #[test]
    fn nobody_believes_who_is_still_looking() {
        with_byte(3, |forest, byte| {
            let looks = || {
                assert_eq!(
                    (load(byte), forest.is_spent(0, Base4K::MAX_ORDER)),
                    (LOOKING | 1, false)
                );
                NOTHING
            };
            assert_eq!(forest.spend(0, 1, looks), NOTHING);
            assert_eq!(load(byte), 1);
        });
    }

    #[test]
    fn no_more_look_than_can_be_counted() {
        with_byte((15 * LOOKING) | 3, |forest, byte| {
            assert_eq!(forest.spend(0, 1, || unreachable!("one too many")), NOTHING);
            assert_eq!(load(byte), (15 * LOOKING) | 3);
        });
        with_byte((14 * LOOKING) | 3, |forest, byte| {
            assert_eq!(forest.spend(0, 1, || NOTHING), NOTHING);
            assert_eq!(load(byte), (14 * LOOKING) | 1);
        });
    }
}
