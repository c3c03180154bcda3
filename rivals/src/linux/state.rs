//! The state word of a page.
//!
//! ```text
//!   bits 0–7 order   8–11 kind   12–15 class (of an allocated block)
//! ```
//!
//! | kind | the page begins a block that is | written by |
//! |---|---|---|
//! | `NONE` | no block's first page | holders of the zone lock |
//! | `FREE` | in a buddy list | holders of the zone lock |
//! | `LISTED` | in a slot's list, or being freed | who frees it (from `ALLOCATED`, compare-exchange), a refill |
//! | `ALLOCATED` | its owner's | who allocates it |
//! | `JOINING` | its owner's, who is freeing it together with others | holders of the zone lock |
//!
//! `FREE` is `PageBuddy` with `page->private`; the class of an allocated block stands for
//! `PageLRU`, by which Linux recognises what is movable.

pub(super) const NONE: u32 = 0;
pub(super) const FREE: u32 = 1 << 8;
pub(super) const LISTED: u32 = 2 << 8;
pub(super) const ALLOCATED: u32 = 3 << 8;
pub(super) const JOINING: u32 = 4 << 8;

const CLASS_SHIFT: u32 = 12;
const KIND: u32 = 0xF << 8;
const ORDER: u32 = 0xFF;

/// An allocated block.
#[inline(always)]
pub(super) fn allocated(order: u32, class: u32) -> u32 {
    ALLOCATED | order | class << CLASS_SHIFT
}

#[inline(always)]
pub(super) fn kind(state: u32) -> u32 {
    state & KIND
}

/// The same block as another kind.
pub(super) fn with_kind(state: u32, kind: u32) -> u32 {
    state & !KIND | kind
}

#[inline(always)]
pub(super) fn order(state: u32) -> u32 {
    state & ORDER
}

#[inline(always)]
pub(super) fn class(state: u32) -> u32 {
    state >> CLASS_SHIFT
}

/// Is this an allocated block of this order, of whichever class?
#[inline(always)]
pub(super) fn is_allocated(state: u32, order: u32) -> bool {
    state & (KIND | ORDER) == ALLOCATED | order
}

/// Nobody owns the block.
pub(super) fn is_free(state: u32) -> bool {
    matches!(kind(state), FREE | LISTED)
}
