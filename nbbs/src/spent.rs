//! What is known of roots in which nothing is free: one byte for each.
//!
//! ```text
//!   root     0    1    2    3    4
//!   spent  [ 10 │  0 │  3 │  - │ 10 ]     no block of this order, or of a larger one, is free there
//! ```
//!
//! A node says whether something below it is in use, not whether something is free. Without more, a
//! search in a zone that is nearly full would look at every node of the order. So a search that has
//! found nothing in a root says so here, and later ones pass over it; any free in the root makes it
//! forgotten.
//!
//! Written by: searches (a lower order), frees and searches (nothing known).
//!
//! # Invariant
//! With no call under way a byte is true. A search writes it, and then looks at the whole root again;
//! if it finds something, it takes the byte back. A free changes the tree, and then loads the byte
//! and takes it back. As both are sequentially consistent, the one or the other sees it: a block that
//! became free before the byte was written is found by the second look, one that became free after
//! that finds the byte.

use woodlot_frame::Geometry;
use woodlot_frame::atomics::{AtomicU8, Ordering::SeqCst};

use crate::forest::Forest;
use crate::form::Form;
use crate::search::Found;
use crate::shape::Node;

/// Nothing is known.
const UNKNOWN: u8 = u8::MAX;

#[inline(always)]
fn load(byte: &AtomicU8) -> u8 {
    // As for cells: see `form.rs`.
    #[cfg(not(loom))]
    return byte.load(SeqCst);
    #[cfg(loom)]
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
        self.spent.get(root).is_some_and(|byte| u32::from(load(byte)) <= order)
    }

    /// Says that nothing of this order is free in a root, if it is so on a second look; what that
    /// found.
    pub(crate) fn spend(&self, root: usize, order: u32, look: impl Fn() -> Found) -> Found {
        let Some(byte) = self.spent.get(root) else { return Found::None(false) };
        let before = load(byte);
        if u32::from(before) > order {
            // Somebody else's word will do as well.
            let _ = byte.compare_exchange(before, order as u8, SeqCst, SeqCst);
        }
        let found = look();
        if found != Found::None(false) {
            byte.store(UNKNOWN, SeqCst);
        }
        found
    }

    /// Something has become free in the root that a node lies in.
    #[inline(always)]
    pub(crate) fn unspend(&self, node: Node) {
        if let Some(byte) = self.spent.get(node.start() >> G::MAX_ORDER)
            && load(byte) != UNKNOWN
        {
            byte.store(UNKNOWN, SeqCst);
        }
    }
}
