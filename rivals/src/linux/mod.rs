//! A buddy allocator after Linux's `mm/page_alloc.c` (6.x), with its lists per CPU or without.
//!
//! ```text
//!   slot     ┌ lock, counts ┐  lists: orders 0–3 and huge × class      pcp.rs
//!            └──────┬───────┘
//!                   │ refill 63 frames, flush 63 frames
//!   zone     ┌ lock, free   ┐  lists: order × class                    buddy.rs
//!            └──────┬───────┘  class of each huge frame (pageblock)    fallback.rs
//!   pages    │ F9 │    │ A0 │ P0 │ F1 │    │ …                         state.rs, ../pages.rs
//! ```
//!
//! What is Linux's: one lock per zone; doubly linked free lists by order and migrate type; merging
//! through a state in the page array; blocks that may soon merge put last; the largest block of
//! another type stolen, and with it the pageblock; lists per CPU for orders 0–3 and the huge order,
//! filled and emptied in batches, behind a lock that is only tried; these lists drained before
//! memory is said to be out; a free claimed by one atomic instruction on the page (in Linux the
//! reference count).
//!
//! What is left out: watermarks, reserves, NUMA, statistics, debugging, and the initialisation of
//! every tail page, which LLFree's authors switched off too (section 4.2.2). Migrate types are the
//! zone's classes, in the order of its policy; they keep apart by pageblock and not by tree, so the
//! contract's separation is declared away.
//!
//! Invariants:
//! 1. The blocks tile the zone: a page whose state is not `NONE` begins a block of the order in it,
//!    and the pages behind it up to the block's end are `NONE`.
//! 2. Block boundaries change under the zone lock only.
//! 3. A `FREE` block is in the buddy list of its order, a `LISTED` block in a list of a slot or in
//!    the hands of the call that frees it, an `ALLOCATED` block in none.
//! 4. No two buddies are both `FREE`, except at the largest order.
//! 5. The lock of a slot is taken before that of the zone, never after it.
//!
//! # Progress
//! Blocking: a holder of the zone lock delays everybody, and an interrupt handler that calls on the
//! zone must not interrupt another call (Linux masks interrupts).

mod buddy;
mod contract;
mod fallback;
mod init;
mod partial;
mod pcp;
mod state;
mod stats;

use std::marker::PhantomData;
use std::ptr::NonNull;

use woodlot_frame::atomics::{AtomicU32, AtomicU64, Ordering::Relaxed};
use woodlot_frame::{FrameId, Geometry, MAX_CLASSES, ZoneConfig};

use crate::lock::SpinLock;
use crate::pages::Pages;
use pcp::Pcp;

/// Linux's allocator with lists per CPU.
pub type LinuxBuddy<G> = Linux<G, true>;

/// Linux's allocator without them: every call takes the zone lock.
pub type LinuxBuddyNoPcp<G> = Linux<G, false>;

/// Both; `PCP` says whether there are lists per CPU.
pub struct Linux<G: Geometry, const PCP: bool> {
    zone: ZoneConfig,
    /// The number of page 0: the first frame, rounded down so that buddies are found by number.
    base: usize,
    pages: Pages,
    /// The page behind the last frame: the first list head.
    heads: u32,
    /// The class of each huge frame from `base` on, changed under the zone lock.
    classes: NonNull<AtomicU32>,
    /// For each class the classes to steal from, nearest first.
    turns: [[u8; MAX_CLASSES]; MAX_CLASSES],
    slots: NonNull<Pcp>,
    central: Central,
    geometry: PhantomData<G>,
}

/// What everybody writes, on its own cache line.
#[repr(align(64))]
struct Central {
    lock: SpinLock,
    /// Frames in the buddy lists; changed under the lock.
    free: AtomicU64,
}

// SAFETY: the pointers lead to atomics in memory that is the allocator's alone for as long as it
// lives (the promise of `construct`).
unsafe impl<G: Geometry, const PCP: bool> Send for Linux<G, PCP> {}
// SAFETY: as above.
unsafe impl<G: Geometry, const PCP: bool> Sync for Linux<G, PCP> {}

impl<G: Geometry, const PCP: bool> Linux<G, PCP> {
    /// The head of the buddy list of an order and class.
    #[inline(always)]
    fn list(&self, order: u32, class: u32) -> u32 {
        self.heads + order * MAX_CLASSES as u32 + class
    }

    /// What a slot keeps. `slot` is below `zone.slots`.
    #[inline(always)]
    fn slot(&self, slot: usize) -> &Pcp {
        debug_assert!(slot < self.zone.slots);
        // SAFETY: there are `zone.slots` of them, and every caller has checked its slot.
        unsafe { self.slots.add(slot).as_ref() }
    }

    /// The class word of the pageblock that a page lies in.
    #[inline(always)]
    fn pageblock(&self, page: u32) -> &AtomicU32 {
        debug_assert!(page < self.heads);
        // SAFETY: there is one for each huge frame below `heads`.
        unsafe { self.classes.add((page >> G::HUGE_ORDER) as usize).as_ref() }
    }

    #[inline(always)]
    fn class_of(&self, page: u32) -> u32 {
        self.pageblock(page).load(Relaxed)
    }

    #[inline(always)]
    fn page(&self, frame: FrameId) -> u32 {
        (frame.0 - self.base) as u32
    }

    #[inline(always)]
    fn frame(&self, page: u32) -> FrameId {
        FrameId(self.base + page as usize)
    }
}
